//! Trust that changes while connections stand: who is trusted no more is served no more, who still
//! is comes anew without losing a request, and an own new certificate costs nothing.

use crate::frames::{Frames, GOAWAY, HEADERS, RST_STREAM};
use crate::world::{echo, warm};
use std::fs;
use testkit::{EchoServer, Pair, RawClient, TestCa, TestIdentity, Traffic, until};

/// REFUSED_STREAM (RFC 9113, section 7).
const REFUSED: u32 = 7;
const FAILURES: &str = "leno_tls_handshake_failures_total";

/// Has the inbound side trust these authorities, and no others.
#[track_caller]
pub(crate) fn trust(pair: &Pair<EchoServer>, authorities: &[&TestCa]) {
    let texts = authorities
        .iter()
        .map(|ca| ca.authority().certificate_pem());
    let bundle: String = texts.collect();
    pair.inbound
        .reload(|| fs::write(pair.ca.bundle(), &bundle).unwrap());
}

/// The inbound side's own bundle, so that the outbound one does not read it as well.
fn apart() -> (Pair<EchoServer>, std::path::PathBuf) {
    let pair = echo();
    let bundle = pair.ca.dir().join("outbound.pem");
    fs::copy(pair.ca.bundle(), &bundle).unwrap();
    let config = pair.configs.outbound.clone();
    let config = config.identity(&pair.client.trusting(&bundle));
    pair.outbound.reconfigure(&config.yaml());
    (pair, bundle)
}

#[test]
fn bundle_that_grows_makes_connections_anew_and_costs_no_request() {
    let (pair, _) = apart();
    let traffic = Traffic::start(pair.outbound.addr(), 4);
    traffic.goes_on(50);
    for round in 1..=3_u32 {
        let before = pair.hop_connections();
        let others: Vec<_> = (0..round).map(|_| TestCa::new()).collect();
        let mut all = vec![&pair.ca];
        all.extend(&others);
        trust(&pair, &all);
        until("the hop is made anew", || {
            pair.hop_connections() > before + 0.5
        });
        traffic.goes_on(50);
    }
    traffic.finish().is_only(&[200]);
}

#[test]
fn peer_that_is_trusted_no_more_is_not_served_on_its_old_connection() {
    let pair = echo();
    let hop = || Frames::new(pair.hop().connect(pair.inbound.addr()).unwrap());
    let get = [(":method", "GET"), (":path", "/"), ("Host", "a")];
    let mut frames = hop();
    frames.request(1, &get);
    assert_eq!(frames.status(1), 200);
    let mesh = [b"http/1.1".as_slice()];
    let mesh =
        testkit::MeshConnector::with_alpn(&pair.client.credentials(), &pair.server.id, &mesh);
    let mesh = mesh.connect(pair.inbound.addr()).ok();
    let served = pair.app.request_count();
    trust(&pair, &[&TestCa::new()]);
    frames.request(3, &get);
    let answer = frames.of(3);
    match answer.kind {
        GOAWAY => {}
        RST_STREAM => assert_eq!(answer.payload, REFUSED.to_be_bytes()),
        _ => panic!("it is answered: {answer:?}"),
    }
    if let Some(mut mesh) = mesh {
        assert!(mesh.try_get("/").is_err(), "it is answered");
    }
    // In the end it is closed, whoever holds on to it.
    while let Ok(frame) = frames.next() {
        assert_ne!(frame.kind, HEADERS, "{frame:?}");
    }
    assert_eq!(pair.app.request_count(), served);
}

#[test]
fn clients_of_a_sidecar_that_is_trusted_no_more_are_told() {
    let (pair, _) = apart();
    let mut client = warm(&pair);
    let served = pair.app.request_count();
    trust(&pair, &[&TestCa::new()]);
    for _ in 0..3 {
        assert!(matches!(client.get("/").status(), 502 | 503));
    }
    assert_eq!(pair.app.request_count(), served);
    let direction = [("direction", "inbound")];
    pair.inbound
        .metric_becomes("leno_connections_active", &direction, 0.0);
}

#[test]
fn own_certificate_that_is_renewed_again_and_again_costs_no_request() {
    let pair = echo();
    let traffic = Traffic::start(pair.outbound.addr(), 4);
    traffic.goes_on(50);
    for _ in 0..6 {
        let before = pair.hop_connections();
        pair.outbound.reload(|| drop(pair.ca.identity("client")));
        until("the new one is shown", || {
            pair.hop_connections() > before + 0.5
        });
        traffic.goes_on(30);
        pair.inbound.reload(|| drop(pair.ca.identity("server")));
        traffic.goes_on(30);
    }
    traffic.finish().is_only(&[200]);
}

/// Puts somebody else's certificate in the place of one's own.
fn replace(own: &TestIdentity, by: &TestIdentity) {
    fs::copy(&by.paths.certificate, &own.paths.certificate).unwrap();
    fs::copy(&by.paths.key, &own.paths.key).unwrap();
}

#[test]
fn old_connection_is_used_until_the_one_with_the_new_certificate_stands() {
    let (pair, _) = apart();
    let traffic = Traffic::start(pair.outbound.addr(), 2);
    traffic.goes_on(20);
    let others = TestCa::new();
    let stranger = others.identity("client");
    pair.outbound.reload(|| replace(&pair.client, &stranger));
    until("the new certificate is refused", || {
        let refused = [("side", "downstream")];
        pair.inbound.metric(FAILURES, &refused) > 0.5
    });
    traffic.goes_on(200);
    let before = pair.hop_connections();
    pair.outbound.reload(|| drop(pair.ca.identity("client")));
    until("one that is accepted stands", || {
        pair.hop_connections() > before + 0.5
    });
    traffic.goes_on(50);
    traffic.finish().is_only(&[200]);
    assert_eq!(
        RawClient::connect(pair.outbound.addr()).get("/").status(),
        200
    );
}
