//! Sidecars that die, leave or are replaced while the hop is in use.

use crate::world::{GET, PROXY, echo, flagged, scripted, warm};
use rustix::process::Signal;
use std::net::SocketAddr;
use testkit::client::End;
use testkit::pair::App;
use testkit::{
    EchoServer, Pair, ProxyProcess, RawClient, ScriptedUpstream, Sidecar, Step, Traffic, until,
};

const OK: &str = "HTTP/1.1 200 OK\r\n";

/// Starts the inbound sidecar again, where it was.
#[track_caller]
fn again<A: App>(pair: &Pair<A>) -> ProxyProcess {
    let config = pair.configs.inbound.clone();
    ProxyProcess::start(
        PROXY,
        &config.listen(&pair.inbound.addr().to_string()).yaml(),
    )
}

/// Kills it at once and waits until it is gone.
fn kill(proxy: &ProxyProcess) {
    proxy.signal(Signal::KILL);
    until("its port is free", || {
        std::net::TcpListener::bind(proxy.addr()).is_ok()
    });
}

#[test]
fn sidecar_that_dies_before_it_answered_is_a_bad_gateway() {
    let pair = scripted(vec![vec![Step::ReadRequest, Step::Stall]]);
    let mut client = pair.client();
    client.send(GET);
    until("it is under way", || {
        pair.app.received_text(0).ends_with("\r\n\r\n")
    });
    kill(&pair.inbound);
    assert_eq!(client.response().status(), 502);
    flagged(&pair, "UC", 1.0);
}

#[test]
fn sidecar_that_dies_amid_an_answer_leaves_no_whole_one() {
    let half = Step::send(format!(
        "{OK}Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"
    ));
    let pair = scripted(vec![vec![Step::ReadRequest, half, Step::Stall]]);
    let mut client = pair.client();
    client.send(GET);
    client.expect(OK);
    until("half of it came", || pair.app.connection_count() == 1);
    kill(&pair.inbound);
    let (bytes, _) = client.read_to_end();
    assert!(
        !String::from_utf8_lossy(&bytes).contains("\r\n0\r\n"),
        "{bytes:?}"
    );
    flagged(&pair, "UC", 1.0);
}

#[test]
fn f06_sidecar_that_was_replaced_while_nothing_went_on_is_not_noticed() {
    let pair = echo();
    let mut client = warm(&pair);
    kill(&pair.inbound);
    let _inbound = again(&pair);
    assert_eq!(client.get("/bytes/2").text(), "xx");
    assert_eq!(client.post("/", "hello").text(), "hello");
}

#[test]
fn sidecar_that_comes_back_is_found_again() {
    let pair = echo();
    let mut client = warm(&pair);
    kill(&pair.inbound);
    assert_eq!(client.get("/").status(), 503);
    let _inbound = again(&pair);
    until("it is used again", || client.get("/").status() == 200);
}

/// Three sidecars of one workload, and a client's that sends to all of them.
struct Trio {
    outbound: ProxyProcess,
    inbounds: Vec<ProxyProcess>,
    _pair: Pair<EchoServer>,
}

fn trio() -> Trio {
    let pair = echo();
    let config = Sidecar::inbound(pair.app.addr()).identity(&pair.server);
    let start = |_| ProxyProcess::start(PROXY, &config.clone().strict().yaml());
    let inbounds: Vec<_> = (0..3).map(start).collect();
    let addrs: Vec<_> = inbounds.iter().map(ProxyProcess::addr).collect();
    let sidecar = Sidecar::outbound(&addrs).identity(&pair.client);
    let sidecar = sidecar.leno(std::slice::from_ref(&pair.server.id));
    Trio {
        outbound: ProxyProcess::start(PROXY, &sidecar.yaml()),
        inbounds,
        _pair: pair,
    }
}

#[test]
fn f05_sidecar_that_is_told_to_end_fails_no_request() {
    let mut trio = trio();
    let traffic = Traffic::start(trio.outbound.addr(), 6);
    traffic.goes_on(60);
    for _ in 0..2 {
        let exit = trio.inbounds.remove(0).terminate();
        assert!(exit.status.success(), "{exit:?}");
        traffic.goes_on(60);
    }
    traffic.finish().is_only(&[200]);
}

#[test]
fn f05_client_side_that_is_told_to_end_finishes_what_it_began() {
    let script = vec![
        Step::ReadHead,
        Step::send(format!("{OK}Content-Length: 8\r\n\r\nhalf")),
        Step::ReadBytes(5),
        Step::send("full"),
        Step::ReadEnd,
    ];
    let pair = scripted(vec![script]);
    let mut client = pair.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    client.expect(format!("{OK}Content-Length: 8\r\n\r\nhalf"));
    for proxy in [&pair.inbound, &pair.outbound] {
        proxy.signal(Signal::TERM);
        until("it takes no more", || {
            std::net::TcpStream::connect(proxy.addr()).is_err()
        });
    }
    client.send("go on");
    client.expect("full");
    assert_eq!(client.read_to_end().1, End::Closed);
}

#[test]
fn f23_dead_endpoint_is_left_alone_and_the_others_serve() {
    let mut trio = trio();
    let traffic = Traffic::start(trio.outbound.addr(), 6);
    traffic.goes_on(60);
    let dead = trio.inbounds.remove(1);
    kill(&dead);
    traffic.goes_on(300);
    let tally = traffic.finish();
    // What was under way there may be lost, and is told; nothing after it.
    tally.is_only(&[200, 502]);
    assert!(tally.count(502) <= 6, "{tally:?}");
    let mut client = RawClient::connect(trio.outbound.addr());
    for _ in 0..30 {
        assert_eq!(client.get("/").status(), 200);
    }
}

/// A client's sidecar with two endpoints: the pair's, and one in front of `app`.
#[track_caller]
fn beside<A: App>(pair: &Pair<A>, app: SocketAddr) -> (ProxyProcess, ProxyProcess) {
    let other = Sidecar::inbound(app).identity(&pair.server).strict();
    let other = ProxyProcess::start(PROXY, &other.yaml());
    (to(pair, &[pair.inbound.addr(), other.addr()]), other)
}

/// A client's sidecar with these endpoints.
#[track_caller]
fn to<A: App>(pair: &Pair<A>, endpoints: &[SocketAddr]) -> ProxyProcess {
    let sidecar = Sidecar::outbound(endpoints).identity(&pair.client);
    let sidecar = sidecar.leno(std::slice::from_ref(&pair.server.id));
    ProxyProcess::start(PROXY, &sidecar.listener("protocol: http").yaml())
}

/// Ends with every request, without an answer.
fn dying() -> Vec<Vec<Step>> {
    vec![vec![Step::ReadRequest]]
}

#[test]
fn requests_to_a_sidecar_whose_application_has_died_go_to_another() {
    let pair = echo();
    let (outbound, _dead) = beside(&pair, testkit::dead_address());
    let mut client = RawClient::connect(outbound.addr());
    for _ in 0..10 {
        assert_eq!(client.get("/bytes/2").text(), "xx");
        assert_eq!(client.post("/", "hello").text(), "hello");
    }
    let retried = outbound.metric("leno_request_retries_total", &[]);
    assert!(retried >= 5.0, "{retried}");
}

#[test]
fn with_nobody_left_to_ask_a_dead_application_is_unavailable() {
    let pair = echo();
    let (_, dead) = beside(&pair, testkit::dead_address());
    let outbound = to(&pair, &[dead.addr()]);
    let mut client = RawClient::connect(outbound.addr());
    assert_eq!(client.get("/").status(), 503);
    assert_eq!(client.post("/", "hello").status(), 503);
    outbound.metric_becomes("leno_requests_total", &[("flag", "UF")], 2.0);
    dead.metric_becomes("leno_requests_total", &[("flag", "UF")], 2.0);
}

#[test]
fn idempotent_request_that_its_application_did_not_answer_goes_to_another() {
    let pair = echo();
    let app = ScriptedUpstream::start(dying());
    let (outbound, _dying) = beside(&pair, app.addr());
    let mut client = RawClient::connect(outbound.addr());
    for _ in 0..10 {
        assert_eq!(client.get("/bytes/2").text(), "xx");
    }
    assert!(app.connection_count() > 0);
    let posted = || RawClient::connect(outbound.addr()).post("/", "hello");
    let posted: Vec<_> = (0..10).map(|_| posted().status()).collect();
    assert!(posted.contains(&502) && posted.contains(&200), "{posted:?}");
}

#[test]
fn request_that_ends_applications_does_not_end_them_all() {
    let pair = scripted(dying());
    let apps = [0; 3].map(|_| ScriptedUpstream::start(dying()));
    let sidecars = apps.each_ref().map(|app| beside(&pair, app.addr()).1);
    let endpoints = sidecars.each_ref().map(ProxyProcess::addr);
    let outbound = to(&pair, &endpoints);
    let answer = RawClient::connect(outbound.addr()).ask(GET);
    assert_eq!(answer.status(), 502);
    let seen = apps.iter().map(ScriptedUpstream::connection_count);
    assert_eq!(seen.sum::<usize>(), 2);
}
