//! Endpoints that are down: requests go elsewhere, probes find out when they are back.

use testkit::{
    DeadPort, EchoServer, Probes, RawClient, ScriptedUpstream, Sidecar, TestCa, Traffic, until,
};

use crate::{Baseline, REQUESTS, send, start, start_yaml};

const CONNECT_FAILURES: &str = "leno_upstream_connect_failures_total";

fn balanced(sidecar: &Sidecar, balance: &str) -> String {
    let yaml = sidecar.yaml();
    assert_eq!(yaml.matches("  endpoints:\n").count(), 1);
    yaml.replace(
        "  endpoints:\n",
        &format!("  balance: {balance}\n  endpoints:\n"),
    )
}

fn one_of_three_is_dead(balance: &str) {
    let (one, dead, other) = (EchoServer::start(), DeadPort::hold(), EchoServer::start());
    let sidecar = Sidecar::outbound(&[one.addr(), dead.addr(), other.addr()]);
    let proxy = start_yaml(&balanced(&sidecar, balance));
    let probes = Probes::begin();
    let tally = send(proxy.addr(), 8, 10_000);
    tally.is_only(&[200]);
    assert_eq!(tally.requests(), 10_000);
    assert_eq!(one.request_count() + other.request_count(), 10_000);
    for server in [&one, &other] {
        let count = server.request_count();
        assert!(
            count > 3_000,
            "{count} of 10,000 on one of the two that live"
        );
    }
    // At most what the clients began at the same moment; later ones know better. Probes are not
    // requests'.
    let failures = proxy.metric(CONNECT_FAILURES, &[]);
    assert!(
        (1.0..=8.0 + probes.most()).contains(&failures),
        "{failures} connects failed"
    );
}

#[test]
fn one_dead_endpoint_of_three_fails_no_request() {
    one_of_three_is_dead("roundRobin");
}

#[test]
fn one_dead_endpoint_of_three_fails_no_request_by_least_request() {
    one_of_three_is_dead("leastRequest");
}

#[test]
fn endpoint_that_refuses_handshakes_gets_probes_only() {
    let ca = TestCa::new();
    let (client, server) = (ca.identity("client"), ca.identity("server"));
    let alpn = &[identity::tls::ALPN_HTTP1];
    let tickets = identity::tls::Tickets::new();
    let config = identity::tls::server_config(&server.credentials(), alpn, &tickets).unwrap();
    let living = EchoServer::start_tls(config);
    let closing = ScriptedUpstream::always(vec![]);
    let sidecar = Sidecar::outbound(&[living.addr(), closing.addr()]).identity(&client);
    let proxy = start(&sidecar.mtls(&[server.id]));
    let probes = Probes::begin();
    // One client: no two requests can find out at the same moment.
    send(proxy.addr(), 1, 500).is_only(&[200]);
    assert_eq!(living.request_count(), 500);
    let connects = closing.connection_count();
    assert!(
        (1.0..=1.0 + probes.most()).contains(&(connects as f64)),
        "{connects} connects"
    );
}

#[test]
fn endpoint_that_never_answers_a_connect_costs_no_request() {
    let (living, silent) = (EchoServer::start(), DeadPort::hold().silent());
    let probes = Probes::begin();
    let sidecar = Sidecar::outbound(&[silent.addr(), living.addr()]);
    let proxy = start(&sidecar.with("limits: {connectTimeout: 200ms}"));
    send(proxy.addr(), 4, 400).is_only(&[200]);
    assert_eq!(living.request_count(), 400);
    let failures = proxy.metric(CONNECT_FAILURES, &[]);
    // At most what the clients began at the same moment.
    assert!(
        (1.0..=4.0 + probes.most()).contains(&failures),
        "{failures} connects failed"
    );
}

#[test]
fn revived_endpoint_gets_requests_again() {
    let (living, dead) = (EchoServer::start(), DeadPort::hold());
    let proxy = start(&Sidecar::outbound(&[living.addr(), dead.addr()]));
    let mut client = RawClient::connect(proxy.addr());
    for _ in 0..4 {
        assert_eq!(client.get("/").status(), 200);
    }
    proxy.metric_becomes(CONNECT_FAILURES, &[], 1.0);
    let revived = dead.revive();
    until("the revived endpoint serves", || {
        assert_eq!(client.get("/").status(), 200);
        revived.request_count() > 0
    });
}

#[test]
fn only_endpoint_serves_as_soon_as_it_listens() {
    let dead = DeadPort::hold();
    let proxy = start(&Sidecar::outbound(&[dead.addr()]));
    let mut client = RawClient::connect(proxy.addr());
    for _ in 0..20 {
        assert_eq!(client.get("/").status(), 503);
    }
    let failed = [("status_class", "5xx"), ("flag", "UF")];
    proxy.metric_becomes(REQUESTS, &failed, 20.0);
    let revived = dead.revive();
    assert_eq!(client.post("/", "at once").text(), "at once");
    assert_eq!(revived.request_count(), 1);
}

#[test]
fn killed_upstream_gives_clear_answers_and_full_recovery() {
    let port = DeadPort::hold();
    let mut app = port.revive();
    let proxy = start(&Sidecar::inbound(port.addr()));
    let baseline = Baseline::of(&proxy);
    let traffic = Traffic::start(proxy.addr(), 8);
    for _ in 0..3 {
        traffic.sees(200, 200);
        drop(app);
        traffic.sees(503, 50);
        app = port.revive();
        traffic.sees(200, 200);
    }
    traffic.finish().is_only(&[200, 502, 503]);
    send(proxy.addr(), 8, 400).is_only(&[200]);
    baseline.comes_back(&proxy);
}
