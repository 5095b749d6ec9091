//! What has gone wrong in other people's meshes, each case by its number in `docs/field-cases.md`,
//! which also names the tests elsewhere that stand for a case.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

use rustix::process::Signal;
use testkit::client::End;
use testkit::pair::App;
use testkit::{EchoServer, Pair, ProxyProcess, RawClient, ScriptedUpstream, Sidecar, Step, until};

const PROXY: &str = env!("CARGO_BIN_EXE_leno-proxy");
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";

fn as_it_is(sidecar: Sidecar) -> Sidecar {
    sidecar
}

/// With an outbound sidecar that reads nothing, and limits for both.
fn unread(script: Vec<Step>, limits: &str) -> Pair<ScriptedUpstream> {
    let limits = format!("limits: {{{limits}}}");
    let inbound = |sidecar: Sidecar| sidecar.with(&limits);
    let opaque = |sidecar: Sidecar| sidecar.listener("protocol: tcp").with(&limits);
    Pair::start_with(PROXY, ScriptedUpstream::always(script), inbound, opaque)
}

#[track_caller]
fn nothing_is_left<A: App>(pair: &Pair<A>) {
    for (proxy, direction) in [(&pair.outbound, "outbound"), (&pair.inbound, "inbound")] {
        let labels = [("direction", direction)];
        proxy.metric_becomes("leno_connections_active", &labels, 0.0);
    }
}

#[test]
fn f14_server_that_speaks_first_is_heard() {
    let script = vec![
        Step::send("220 ready\r\n"),
        Step::ReadUntil(b"QUIT\r\n".to_vec()),
        Step::send("221 bye\r\n"),
    ];
    let pair = unread(script, "connectTimeout: 1s");
    let mut client = pair.client();
    client.expect("220 ready\r\n");
    client.send("QUIT\r\n");
    assert_eq!(client.read_to_end(), (b"221 bye\r\n".to_vec(), End::Closed));
}

#[test]
fn f15_protocols_share_a_port_and_a_hosts_port_does_not_matter() {
    let http = vec![Step::ReadRequest, Step::answer("http"), Step::ReadEnd];
    let other = vec![Step::ReadUntil(b"\0?".to_vec()), Step::send("!")];
    let app = ScriptedUpstream::start(vec![http, other]);
    let auto = |sidecar: Sidecar| sidecar.listener("protocol: auto");
    let pair = Pair::start_with(PROXY, app, as_it_is, auto);
    let mut client = pair.client();
    client.send("GET / HTTP/1.1\r\nHost: a:8080\r\n\r\n");
    assert_eq!(client.response().text(), "http");
    let mut client = pair.client();
    client.send("\0?");
    assert_eq!(client.read_to_end(), (b"!".to_vec(), End::Closed));
    let named = |sidecar: Sidecar| sidecar.route("hosts: [a.example]");
    let pair = Pair::start_with(PROXY, EchoServer::start(), as_it_is, named);
    for (host, status) in [
        ("a.example:81", 200),
        ("A.EXAMPLE", 200),
        ("b.example:81", 404),
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(pair.client().ask(request).status(), status, "{host}");
    }
}

#[test]
fn f16_each_replica_is_reached_by_name_and_has_to_be_itself() {
    let (one, other) = (Pair::start(PROXY, EchoServer::start()), EchoServer::start());
    let identities = ["replica-1", "impostor"].map(|name| one.ca.identity(name));
    let inbound = Sidecar::inbound(other.addr())
        .identity(&identities[0])
        .strict();
    let second = ProxyProcess::start(PROXY, &inbound.yaml());
    let toward = |id| {
        let first = std::slice::from_ref(&one.server.id);
        let sidecar = Sidecar::outbound(&[one.inbound.addr()]).identity(&one.client);
        let sidecar = sidecar.leno(first).route("hosts: [replica-0]");
        let sidecar = sidecar.further_route("{hosts: [replica-1], cluster: second}");
        let addr = second.addr();
        let endpoint = format!("{{address: \"{addr}\", transport: leno, identities: [\"{id}\"]}}");
        format!(
            "{}- {{name: second, endpoints: [{endpoint}]}}\n",
            sidecar.yaml()
        )
    };
    let outbound = ProxyProcess::start(PROXY, &toward(&identities[0].id));
    let ask = |host| {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        RawClient::connect(outbound.addr()).ask(request).status()
    };
    assert_eq!((ask("replica-0"), ask("replica-1")), (200, 200));
    assert_eq!((one.app.request_count(), other.request_count()), (1, 1));
    outbound.reconfigure(&toward(&identities[1].id));
    assert_eq!((ask("replica-0"), ask("replica-1")), (200, 503));
    assert_eq!((one.app.request_count(), other.request_count()), (2, 1));
}

#[test]
fn f18_burst_of_clients_leaves_nothing_open() {
    let pair = Pair::start(PROXY, EchoServer::start());
    assert_eq!(pair.client().get("/").status(), 200);
    let before = [pair.outbound.open_fds(), pair.inbound.open_fds()];
    let clients: Vec<_> = (0..300).map(|_| pair.client()).collect();
    for mut client in clients {
        assert_eq!(client.post("/", "hello").text(), "hello");
    }
    until("what they took is given back", || {
        let now = [pair.outbound.open_fds(), pair.inbound.open_fds()];
        // A few more connections may be kept for the next burst.
        now.iter()
            .zip(before)
            .all(|(now, before)| *now < before + 20)
    });
}

#[test]
fn f19_workers_are_as_many_as_the_processors_that_may_be_used() {
    let app = EchoServer::start();
    let yaml = Sidecar::outbound(&[app.addr()]).workers(0).yaml();
    let proxy = ProxyProcess::start(PROXY, &yaml);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", proxy.pid())).unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let workers = names.filter(|name| name.starts_with("worker")).count();
    let processors = std::thread::available_parallelism().unwrap().get();
    assert!(
        (1..=processors).contains(&workers),
        "{workers} of {processors}"
    );
    assert_eq!(RawClient::connect(proxy.addr()).get("/").status(), 200);
}

#[test]
fn f24_ends_pass_one_by_one_and_a_half_that_is_left_ends_in_time() {
    let pair = unread(
        vec![Step::ReadEnd, Step::send("last"), Step::HalfClose],
        "connectTimeout: 1s",
    );
    let mut client = pair.client();
    client.send("first");
    client.half_close();
    assert_eq!(client.read_to_end(), (b"last".to_vec(), End::Closed));
    nothing_is_left(&pair);
    let pair = unread(
        vec![Step::ReadUntil(b"first".to_vec()), Step::Stall],
        "halfCloseTimeout: 1s",
    );
    let mut client = pair.client();
    client.send("first");
    client.half_close();
    client.read_to_end();
    nothing_is_left(&pair);
}

#[test]
fn f25_series_do_not_grow_with_what_clients_write() {
    let pair = Pair::start(PROXY, EchoServer::start());
    let mut client = pair.client();
    let mut series = Vec::new();
    for round in 0..200 {
        let request = format!(
            "GET /{round}?id={round} HTTP/1.1\r\nHost: host-{round}\r\nUser-Agent: {round}\r\n\r\n"
        );
        assert_eq!(client.ask(request).status(), 200);
        if matches!(round, 0 | 199) {
            // What is counted comes after the answer.
            for proxy in [&pair.outbound, &pair.inbound] {
                proxy.metric_becomes("leno_requests_total", &[], f64::from(round + 1));
                proxy.metric_becomes("leno_requests_active", &[], 0.0);
            }
            let count = |proxy: &ProxyProcess| proxy.metric("leno_metric_series", &[]).to_string();
            series.push((count(&pair.outbound), count(&pair.inbound)));
        }
    }
    assert_eq!(series[0], series[1]);
}

#[test]
fn f29_request_that_may_have_had_its_effect_is_not_sent_twice() {
    let unlucky = vec![Step::ReadRequest];
    let lucky = vec![Step::ReadRequest, Step::answer("again"), Step::ReadEnd];
    let pair = Pair::start(PROXY, ScriptedUpstream::start(vec![unlucky, lucky]));
    assert_eq!(pair.client().ask(POST).status(), 502);
    assert_eq!(pair.app.connection_count(), 1);
    assert_eq!(pair.client().ask(POST).text(), "again");
}

#[test]
fn f29_request_that_a_dead_sidecar_had_is_not_sent_twice() {
    let unlucky = vec![Step::ReadRequest, Step::Stall];
    let lucky = vec![Step::ReadRequest, Step::answer("again"), Step::ReadEnd];
    let pair = Pair::start(PROXY, ScriptedUpstream::start(vec![unlucky, lucky]));
    let mut client = pair.client();
    client.send(POST);
    until("it is under way", || {
        pair.app.received_text(0).ends_with("hello")
    });
    pair.inbound.signal(Signal::KILL);
    let addr = pair.inbound.addr();
    until("its port is free", || {
        std::net::TcpListener::bind(addr).is_ok()
    });
    let config = pair.configs.inbound.clone().listen(&addr.to_string());
    let _inbound = ProxyProcess::start(PROXY, &config.yaml());
    assert_eq!(client.response().status(), 502);
    assert_eq!(pair.app.connection_count(), 1);
    until("it serves", || pair.client().ask(POST).status() == 200);
}
