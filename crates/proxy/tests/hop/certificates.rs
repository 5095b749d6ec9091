//! Certificates and rights that change while the hop is in use: nothing fails that may go on, and
//! nothing goes on that may not.

use crate::world::{GET, PROXY, answering, echo, flagged, scripted, warm};
use std::time::{Duration, SystemTime};
use testkit::{
    EchoServer, Pair, RawClient, ScriptedUpstream, Sidecar, Step, TestCa, TestIdentity, Traffic,
    until,
};

/// Long enough for a proxy to notice a new certificate twice over.
const BRIEF: Duration = Duration::from_secs(8);
const OK: &str = "HTTP/1.1 200 OK\r\n";

fn as_it_is(sidecar: Sidecar) -> Sidecar {
    sidecar
}

/// Issues, or renews, certificates of a brief life for both.
fn issue(ca: &TestCa, life: Duration) -> (TestIdentity, TestIdentity) {
    let now = SystemTime::now();
    let one = |name| ca.identity_at(name, life, now);
    (one("server"), one("client"))
}

#[test]
fn f20_connections_are_replaced_before_their_certificates_end() {
    let ca = TestCa::new();
    let identities = issue(&ca, BRIEF);
    let world = (EchoServer::start(), ca, identities);
    let pair = Pair::start_as(PROXY, world, as_it_is, as_it_is);
    let traffic = Traffic::start(pair.outbound.addr(), 3);
    let mut renewed = SystemTime::now();
    until("several certificates were used up", || {
        let now = SystemTime::now();
        if now.duration_since(renewed).is_ok_and(|age| age > BRIEF / 4) {
            let _ = issue(&pair.ca, BRIEF);
            renewed = now;
        }
        pair.hop_connections() > 3.5
    });
    traffic.goes_on(10);
    traffic.finish().is_only(&[200]);
}

#[test]
fn stream_does_not_outlive_its_certificates() {
    let ca = TestCa::new();
    let identities = issue(&ca, BRIEF / 2);
    let endless = vec![
        Step::ReadRequest,
        Step::send(format!("{OK}Content-Length: 100\r\n\r\nsome")),
        Step::Stall,
    ];
    let world = (ScriptedUpstream::always(endless), ca, identities);
    let pair = Pair::start_as(PROXY, world, as_it_is, as_it_is);
    let mut client = pair.client();
    client.send(GET);
    client.expect(format!("{OK}Content-Length: 100\r\n\r\nsome"));
    assert_eq!(client.read_to_end().0, b"");
    flagged(&pair, "UC", 1.0);
    let active = [("direction", "inbound")];
    pair.inbound
        .metric_becomes("leno_connections_active", &active, 0.0);
    // Nor does a new one begin: at the latest when the last millisecond is over.
    until("nothing goes on", || {
        let again = pair.client().try_get("/");
        again.is_ok_and(|answer| answer.status() == 503)
    });
}

/// An application that answers slowly once, and then at once.
fn slow_then_fast() -> Vec<Vec<Step>> {
    let slow = vec![
        Step::ReadHead,
        Step::send(format!("{OK}Content-Length: 8\r\n\r\nhalf")),
        Step::ReadUntil(b"go on".to_vec()),
        Step::send("full"),
        Step::ReadEnd,
    ];
    let once = [Step::ReadRequest, Step::answer("fast")];
    vec![slow, [&once[..], &once, &[Step::ReadEnd]].concat()]
}

/// Begins a request whose body is still to come.
#[track_caller]
fn begun(pair: &Pair<ScriptedUpstream>) -> RawClient {
    let mut client = pair.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    client.expect(format!("{OK}Content-Length: 8\r\n\r\nhalf"));
    client
}

#[test]
fn own_new_certificate_is_shown_in_new_connections_while_old_ones_finish() {
    let pair = scripted(slow_then_fast());
    let mut old = begun(&pair);
    pair.outbound.reload(|| drop(pair.ca.identity("client")));
    assert_eq!(pair.client().ask(GET).text(), "fast");
    // The old connection may still have carried it.
    until("another one stands", || pair.hop_connections() > 1.5);
    assert!(pair.hop_connections() < 2.5, "one was enough");
    pair.inbound.reload(|| drop(pair.ca.identity("server")));
    assert_eq!(pair.client().ask(GET).text(), "fast");
    old.send("go on");
    old.expect("full");
    let active = [("direction", "inbound")];
    pair.inbound
        .metric_becomes("leno_connections_active", &active, 1.0);
}

#[test]
fn authority_that_is_trusted_no_more_serves_no_request() {
    let pair = echo();
    let mut client = warm(&pair);
    let other = TestCa::new();
    let bundle = other.authority().certificate_pem().to_owned();
    pair.outbound
        .reload(|| std::fs::write(pair.ca.bundle(), &bundle).unwrap());
    assert_eq!(client.get("/").status(), 503);
    let unknown = [("side", "upstream"), ("reason", "unknown_issuer")];
    until("the reason is counted", || {
        pair.outbound
            .metric("leno_tls_handshake_failures_total", &unknown)
            > 0.5
    });
}

#[test]
fn rights_are_looked_at_with_every_request() {
    let pair = echo();
    let mut client = warm(&pair);
    let only = |id: &TestIdentity| {
        let config = pair.configs.inbound.clone();
        config.allow(std::slice::from_ref(&id.id)).yaml()
    };
    for (who, status) in [
        (pair.ca.identity("somebody-else"), 403),
        (pair.client.clone(), 200),
        (pair.ca.identity("somebody-else"), 403),
    ] {
        pair.inbound.reconfigure(&only(&who));
        assert_eq!(client.get("/").status(), status);
    }
    assert!((pair.hop_connections() - 1.0).abs() < 0.5);
    let denied = [("flag", "RBAC"), ("source_workload", "client")];
    pair.inbound
        .metric_becomes("leno_requests_total", &denied, 2.0);
}

#[test]
fn endpoint_that_is_gone_from_the_configuration_gets_no_request() {
    let (one, other) = (answering(format!("{OK}\r\n")), echo());
    let mut client = other.client();
    let toward = |addr| {
        let sidecar = Sidecar::outbound(&[addr]).identity(&other.client);
        sidecar.leno(std::slice::from_ref(&other.server.id)).yaml()
    };
    assert_eq!(client.get("/bytes/2").text(), "xx");
    other.outbound.reconfigure(&toward(one.inbound.addr()));
    // Another authority's: it is not taken for the one that is gone.
    assert_eq!(client.get("/bytes/2").status(), 503);
    let active = [("direction", "inbound")];
    other
        .inbound
        .metric_becomes("leno_connections_active", &active, 0.0);
    other.outbound.reconfigure(&toward(other.inbound.addr()));
    assert_eq!(client.get("/bytes/2").text(), "xx");
}

#[test]
fn request_under_way_outlives_its_endpoint_in_the_configuration() {
    let pair = scripted(slow_then_fast());
    let mut old = begun(&pair);
    let gone = Sidecar::outbound(&[testkit::dead_address()]).listener("protocol: http");
    pair.outbound.reconfigure(&gone.yaml());
    assert_eq!(pair.client().get("/").status(), 503);
    old.send("go on");
    old.expect("full");
    let active = [("direction", "inbound")];
    pair.inbound
        .metric_becomes("leno_connections_active", &active, 0.0);
}

#[test]
fn authority_that_the_server_trusts_no_more_opens_no_new_connection() {
    let pair = echo();
    let hop = pair.hop();
    let other = TestCa::new();
    let bundle = other.authority().certificate_pem().to_owned();
    pair.inbound
        .reload(|| std::fs::write(pair.ca.bundle(), &bundle).unwrap());
    let mut refused = hop.connect(pair.inbound.addr());
    let error = refused.as_mut().map(|client| client.try_get("/").err());
    assert!(!matches!(error, Ok(None)), "a stranger was let in");
    let unknown = [("side", "downstream"), ("reason", "unknown_issuer")];
    until("the reason is counted", || {
        pair.inbound
            .metric("leno_tls_handshake_failures_total", &unknown)
            > 0.5
    });
}
