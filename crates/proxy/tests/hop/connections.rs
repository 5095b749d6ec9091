//! Which connections the hop has: how many requests share one, when there is another, what is
//! agreed on when it is made.

use crate::world::{PROXY, echo, flagged, warm};
use identity::HandshakeFailure;
use testkit::{EchoServer, MeshConnector, Pair, ProxyProcess, RawClient, Sidecar, Traffic, until};

const FAILURES: &str = "leno_tls_handshake_failures_total";

fn with(limits: &'static str) -> impl Fn(Sidecar) -> Sidecar {
    move |sidecar| sidecar.with(&format!("limits: {{{limits}}}"))
}

fn as_it_is(sidecar: Sidecar) -> Sidecar {
    sidecar
}

/// Clients, each with a request whose body is not through.
#[track_caller]
fn held(pair: &Pair<EchoServer>, count: usize) -> Vec<RawClient> {
    let one = |_| {
        let mut client = pair.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhal");
        client
    };
    (0..count).map(one).collect()
}

#[track_caller]
fn released(clients: Vec<RawClient>) {
    for mut client in clients {
        client.send("lo");
        assert_eq!(client.response().text(), "hallo");
    }
}

#[test]
fn f26_requests_share_a_connection() {
    let pair = echo();
    warm(&pair);
    let addr = pair.outbound.addr();
    let tally = Traffic::with(8, 800, move || RawClient::connect(addr)).join();
    tally.is_only(&[200]);
    assert_eq!(tally.requests(), 800);
    assert!(pair.hop_connections() < 1.5, "{}", pair.hop_connections());
}

#[test]
fn crowded_connection_gets_company() {
    let crowded = with("streamsPerConnection: 2");
    let pair = Pair::start_with(PROXY, EchoServer::start(), as_it_is, crowded);
    warm(&pair);
    let mut clients = held(&pair, 4);
    until("another connection is there", || {
        pair.hop_connections() > 1.5
    });
    clients.extend(held(&pair, 4));
    released(clients);
    flagged(&pair, "-", 9.0);
}

#[test]
fn more_requests_than_the_server_allows_at_once_are_all_served() {
    let few = with("streams: 2");
    let pair = Pair::start_with(PROXY, EchoServer::start(), few, as_it_is);
    warm(&pair);
    let clients = held(&pair, 9);
    until("they are under way", || {
        pair.inbound.metric("leno_requests_active", &[]) > 8.5
    });
    released(clients);
}

#[test]
fn every_worker_of_the_server_gets_a_connection() {
    let two = |sidecar: Sidecar| sidecar.workers(2);
    let pair = Pair::start_with(PROXY, EchoServer::start(), two, as_it_is);
    let mut client = warm(&pair);
    until("both are connected", || {
        client.get("/");
        pair.hop_connections() > 1.5
    });
    for _ in 0..50 {
        client.get("/");
    }
    assert!(pair.hop_connections() < 4.5, "{}", pair.hop_connections());
}

#[test]
fn unused_connection_ends_and_is_made_anew() {
    let brief = with("poolIdleTimeout: 1s");
    let pair = Pair::start_with(PROXY, EchoServer::start(), as_it_is, brief);
    let mut client = warm(&pair);
    let active = [("direction", "inbound")];
    pair.inbound
        .metric_becomes("leno_connections_active", &active, 0.0);
    assert_eq!(client.get("/").status(), 200);
    assert!((pair.hop_connections() - 2.0).abs() < 0.5);
}

#[test]
fn connection_that_the_server_finds_idle_ends_without_harm() {
    let brief = with("idleTimeout: 1s");
    let pair = Pair::start_with(PROXY, EchoServer::start(), brief, as_it_is);
    // Of its own: the client's connection would end as well.
    warm(&pair);
    let active = [("direction", "inbound")];
    pair.inbound
        .metric_becomes("leno_connections_active", &active, 0.0);
    assert_eq!(pair.client().post("/", "x").text(), "x");
    assert!((pair.hop_connections() - 2.0).abs() < 0.5);
}

#[test]
fn newer_peer_agrees_on_what_both_speak() {
    let pair = echo();
    let offering = |alpn: &[&[u8]]| {
        let connector = MeshConnector::with_alpn(&pair.client.credentials(), &pair.server.id, alpn);
        connector.connect(pair.inbound.addr())
    };
    let client = offering(&[b"leno/2", b"leno/1"]).unwrap();
    assert_eq!(client.alpn(), Some(&b"leno/1"[..]));
    let refused = offering(&[b"leno/2"]).err();
    assert_eq!(refused, Some(HandshakeFailure::AlpnMismatch));
    let reason = [("side", "downstream"), ("reason", "alpn_mismatch")];
    pair.inbound.metric_becomes(FAILURES, &reason, 1.0);
}

#[test]
fn f28_wrong_identity_is_told_on_both_sides() {
    let pair = echo();
    let other = pair.ca.identity("somebody-else").id;
    let sidecar = Sidecar::outbound(&[pair.inbound.addr()]).identity(&pair.client);
    let outbound = ProxyProcess::start(PROXY, &sidecar.leno(&[other]).yaml());
    let answer = RawClient::connect(outbound.addr()).get("/");
    assert_eq!(answer.status(), 503, "{answer:?}");
    let labels = [("flag", "UTLS"), ("status_class", "5xx")];
    outbound.metric_becomes("leno_requests_total", &labels, 1.0);
    for (proxy, side, reason) in [
        (&outbound, "upstream", "unexpected_identity"),
        (&pair.inbound, "downstream", "peer_refused"),
    ] {
        until(reason, || {
            proxy.metric(FAILURES, &[("side", side), ("reason", reason)]) > 0.5
        });
    }
    let log = outbound.stderr();
    assert!(
        log.contains("unexpected_identity") || log.contains("somebody-else"),
        "{log}"
    );
    assert_eq!(pair.app.request_count(), 0);
}
