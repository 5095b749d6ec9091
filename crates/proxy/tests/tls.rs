//! Mesh mutual TLS of the proxy, seen from outside: who gets through, under which reason others
//! do not, and what a change of certificates does to connections.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use identity::HandshakeFailure;
use identity::credentials::Credentials;
use identity::tls::{ALPN_HTTP1, ALPN_PUBLIC_HTTP1, Tickets, server_config};
use rustls::client::ResolvesClientCert;
use testkit::ca::TRUST_DOMAIN;
use testkit::client::{End, failure};
use testkit::{
    EchoServer, MeshConnector, ProxyProcess, RawClient, Sidecar, TestCa, TestIdentity, until,
};

const HANDSHAKES: &str = "leno_tls_handshakes_total";
const FAILURES: &str = "leno_tls_handshake_failures_total";

fn start(sidecar: &Sidecar) -> ProxyProcess {
    ProxyProcess::start(env!("CARGO_BIN_EXE_leno-proxy"), &sidecar.yaml())
}

/// An application, the sidecar beside it, and a client with an identity of its own.
struct World {
    // First, so that it ends before its files and its application do.
    proxy: ProxyProcess,
    ca: TestCa,
    app: EchoServer,
    server: TestIdentity,
    client: TestIdentity,
}

impl World {
    fn permissive() -> Self {
        Self::new(|sidecar| sidecar)
    }

    fn strict() -> Self {
        Self::new(Sidecar::strict)
    }

    fn new(adapt: impl FnOnce(Sidecar) -> Sidecar) -> Self {
        let (ca, app) = (TestCa::new(), EchoServer::start());
        let (server, client) = (ca.identity("server"), ca.identity("client"));
        let proxy = start(&adapt(Sidecar::inbound(app.addr()).identity(&server)));
        Self {
            ca,
            app,
            server,
            client,
            proxy,
        }
    }

    fn connector(&self) -> MeshConnector {
        MeshConnector::new(&self.client.credentials(), &self.server.id)
    }

    /// A client's sidecar that expects `expected` where the server's sidecar is.
    fn outbound(&self, expected: &TestIdentity) -> ProxyProcess {
        let sidecar = Sidecar::outbound(&[self.proxy.addr()]).identity(&self.client);
        start(&sidecar.mtls(std::slice::from_ref(&expected.id)))
    }

    fn failed(&self, reason: &str) {
        let labels = [("side", "downstream"), ("reason", reason)];
        self.proxy.metric_becomes(FAILURES, &labels, 1.0);
        self.proxy.metric_becomes(FAILURES, &[], 1.0);
        assert_eq!(self.app.request_count(), 0);
    }
}

#[test]
fn pair_of_sidecars_carries_requests_over_mutual_tls() {
    let world = World::strict();
    let outbound = world.outbound(&world.server);
    let mut client = RawClient::connect(outbound.addr());
    for body in ["", "hello", &"x".repeat(200_000)] {
        assert_eq!(client.post("/", body).text(), body);
    }
    assert_eq!(world.app.connection_count(), 1);
    let full = |side| [("side", side), ("resumed", "false")];
    outbound.metric_becomes(HANDSHAKES, &full("upstream"), 1.0);
    world
        .proxy
        .metric_becomes(HANDSHAKES, &full("downstream"), 1.0);
    assert_eq!(
        world.proxy.metric(FAILURES, &[]).to_bits(),
        0.0_f64.to_bits()
    );
}

#[test]
fn peers_workload_from_the_certificate_labels_the_requests() {
    let world = World::strict();
    let mut client = world.connector().connect(world.proxy.addr()).unwrap();
    client.get("/");
    let source = [("source_workload", "client"), ("status_class", "2xx")];
    world
        .proxy
        .metric_becomes("leno_requests_total", &source, 1.0);
}

#[test]
fn upstream_with_another_identity_gets_no_request() {
    let world = World::strict();
    let outbound = world.outbound(&world.ca.identity("somebody-else"));
    let answer = RawClient::connect(outbound.addr()).get("/");
    assert_eq!(answer.status(), 503, "{answer:?}");
    let unexpected = [("side", "upstream"), ("reason", "unexpected_identity")];
    until("the failure is counted", || {
        outbound.metric(FAILURES, &unexpected) >= 1.0
    });
    let refused = [("side", "downstream"), ("reason", "peer_refused")];
    until("the server counts it too", || {
        world.proxy.metric(FAILURES, &refused) >= 1.0
    });
    assert_eq!(world.app.request_count(), 0);
}

#[test]
fn upstream_with_an_expired_certificate_gets_no_request() {
    let (ca, hour) = (TestCa::new(), Duration::from_secs(3600));
    let client = ca.identity("client");
    let past = SystemTime::now() - hour;
    let server = ca.identity_at("server", Duration::from_secs(60), past + hour / 60);
    let old = ca.identity_at("server", Duration::from_secs(60), past);
    let credentials = Credentials::load_at(&old.paths, TRUST_DOMAIN, past);
    let Ok(credentials) = credentials else {
        panic!("{credentials:?}")
    };
    let config = server_config(&credentials, &[ALPN_HTTP1], &Tickets::new()).unwrap();
    let upstream = EchoServer::start_tls(config);
    let sidecar = Sidecar::outbound(&[upstream.addr()])
        .identity(&client)
        .mtls(&[server.id]);
    let outbound = start(&sidecar);
    assert_eq!(RawClient::connect(outbound.addr()).get("/").status(), 503);
    let expired = [("side", "upstream"), ("reason", "expired")];
    until("the failure is counted", || {
        outbound.metric(FAILURES, &expired) >= 1.0
    });
    assert_eq!(upstream.request_count(), 0);
}

#[test]
fn client_of_another_authority_is_refused() {
    let world = World::permissive();
    let other = TestCa::new();
    let stranger = other.identity("client").trusting(world.ca.bundle());
    let connector = MeshConnector::new(&stranger.credentials(), &world.server.id);
    let mut client = connector.connect(world.proxy.addr()).unwrap();
    let error = client.try_get("/").unwrap_err();
    assert_eq!(failure(&error), HandshakeFailure::PeerSaysUnknownIssuer);
    world.failed("unknown_issuer");
}

#[derive(Debug)]
struct NoCertificate;

impl ResolvesClientCert for NoCertificate {
    fn resolve(
        &self,
        _: &[&[u8]],
        _: &[rustls::SignatureScheme],
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[test]
fn client_without_a_certificate_is_refused() {
    let world = World::permissive();
    let mut config = world.connector().config().clone();
    config.client_auth_cert_resolver = Arc::new(NoCertificate);
    let mut client = MeshConnector::from_config(config)
        .connect(world.proxy.addr())
        .unwrap();
    assert_eq!(
        failure(&client.try_get("/").unwrap_err()),
        HandshakeFailure::PeerRefused
    );
    world.failed("no_certificate");
}

#[test]
fn client_that_speaks_another_protocol_is_refused() {
    let world = World::permissive();
    let credentials = world.client.credentials();
    let connector = MeshConnector::with_alpn(&credentials, &world.server.id, &[b"leno/99"]);
    let refused = connector.connect(world.proxy.addr()).err();
    assert_eq!(refused, Some(HandshakeFailure::AlpnMismatch));
    world.failed("alpn_mismatch");
}

#[test]
fn client_with_the_public_protocol_name_is_served() {
    let world = World::strict();
    let credentials = world.client.credentials();
    let connector = MeshConnector::with_alpn(&credentials, &world.server.id, &[ALPN_PUBLIC_HTTP1]);
    let mut client = connector.connect(world.proxy.addr()).unwrap();
    assert_eq!(client.post("/", "hello").text(), "hello");
}

#[test]
fn permissive_port_serves_plaintext_and_mesh_tls() {
    let world = World::permissive();
    let mut plain = RawClient::connect(world.proxy.addr());
    let mut mesh = world.connector().connect(world.proxy.addr()).unwrap();
    for _ in 0..2 {
        assert_eq!(plain.post("/", "plain").text(), "plain");
        assert_eq!(mesh.post("/", "mesh").text(), "mesh");
    }
    assert_eq!(mesh.peer_id(), world.server.id);
}

#[test]
fn plaintext_that_comes_byte_by_byte_is_told_apart() {
    let world = World::permissive();
    let mut plain = RawClient::connect(world.proxy.addr());
    for byte in b"GET /bytes/3 HTTP/1.1\r\nhost: a\r\n\r\n" {
        plain.send([*byte]);
    }
    assert_eq!(plain.response().text(), "xxx");
}

#[test]
fn strict_port_refuses_plaintext() {
    let world = World::strict();
    let mut plain = RawClient::connect(world.proxy.addr());
    plain.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(plain.read_to_end().0, b"");
    world.failed("not_tls");
    let mut mesh = world.connector().connect(world.proxy.addr()).unwrap();
    assert_eq!(mesh.get("/").status(), 200);
}

#[test]
fn only_the_certificate_says_who_is_allowed() {
    let ca = TestCa::new();
    let allowed = ca.identity("allowed").id;
    let world = World::new(|sidecar| sidecar.allow(&[allowed]));
    let other = world.connector().connect(world.proxy.addr());
    assert_eq!(other.unwrap().get("/").status(), 403);
    let mut plain = RawClient::connect(world.proxy.addr());
    plain.send("GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-client-cert: URI=spiffe://");
    plain.send("cluster.local/ns/default/sa/allowed\r\n\r\n");
    assert_eq!(plain.response().status(), 403);
    assert_eq!(world.app.request_count(), 0);
    let credentials = world.ca.identity("allowed").credentials();
    let connector = MeshConnector::new(&credentials, &world.server.id);
    assert_eq!(
        connector
            .connect(world.proxy.addr())
            .unwrap()
            .get("/")
            .status(),
        200
    );
}

#[test]
fn renewed_certificate_is_used_and_no_connection_dropped() {
    let world = World::strict();
    let mut old = world.connector().connect(world.proxy.addr()).unwrap();
    let chain = |client: &mut testkit::TlsClient| {
        client.stream().conn.peer_certificates().unwrap()[0].clone()
    };
    let before = world.proxy.admin("/certs").text();
    old.get("/");
    world.proxy.reload(|| drop(world.ca.identity("server")));
    let mut new = world.connector().connect(world.proxy.addr()).unwrap();
    assert_eq!(old.post("/", "still here").text(), "still here");
    assert_ne!(chain(&mut old), chain(&mut new));
    assert_eq!(new.get("/").status(), 200);
    assert_ne!(world.proxy.admin("/certs").text(), before);
}

#[test]
fn renewed_certificate_is_noticed_without_a_signal() {
    let world = World::strict();
    let before = world.proxy.admin("/certs").text();
    drop(world.ca.identity("server"));
    until("the new certificate is shown", || {
        world.proxy.admin("/certs").text() != before
    });
    assert_eq!(
        world
            .connector()
            .connect(world.proxy.addr())
            .unwrap()
            .get("/")
            .status(),
        200
    );
}

#[test]
fn broken_certificate_leaves_the_last_good_one_in_use() {
    let world = World::strict();
    let broken = || std::fs::write(&world.server.paths.certificate, "nonsense").unwrap();
    world.proxy.reload_is_rejected(broken);
    assert_eq!(
        world
            .connector()
            .connect(world.proxy.addr())
            .unwrap()
            .get("/")
            .status(),
        200
    );
    let log = world.proxy.stderr();
    assert!(
        log.contains("server.pem") && log.contains("no certificate"),
        "{log}"
    );
    world.proxy.reload(|| drop(world.ca.identity("server")));
    assert_eq!(
        world
            .connector()
            .connect(world.proxy.addr())
            .unwrap()
            .get("/")
            .status(),
        200
    );
}

#[test]
fn sidecar_with_unusable_credentials_does_not_start() {
    let (ca, app) = (TestCa::new(), EchoServer::start());
    let identity = ca.identity("server");
    std::fs::remove_file(&identity.paths.key).unwrap();
    let yaml = Sidecar::inbound(app.addr()).identity(&identity).yaml();
    let exit = ProxyProcess::try_start(env!("CARGO_BIN_EXE_leno-proxy"), &yaml, &[]);
    let exit = exit.err().unwrap();
    assert!(!exit.status.success());
    assert!(exit.stderr.contains("server.key"), "{}", exit.stderr);
}

#[test]
fn second_connection_resumes_and_is_counted() {
    let world = World::strict();
    let connector = world.connector();
    for resumed in [false, true, true] {
        let mut client = connector.connect(world.proxy.addr()).unwrap();
        assert_eq!(client.get("/").status(), 200);
        assert_eq!(client.is_resumed(), resumed);
    }
    let count = |resumed| [("side", "downstream"), ("resumed", resumed)];
    world.proxy.metric_becomes(HANDSHAKES, &count("false"), 1.0);
    world.proxy.metric_becomes(HANDSHAKES, &count("true"), 2.0);
}

#[test]
fn outbound_sidecar_resumes_its_sessions() {
    let world = World::strict();
    let outbound = world.outbound(&world.server);
    for _ in 0..3 {
        // The application closes, so each request needs a new mesh connection.
        let mut client = RawClient::connect(outbound.addr());
        client.send("GET /close HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        assert_eq!(client.response().status(), 200);
    }
    let handshakes = outbound.metric(HANDSHAKES, &[("side", "upstream")]);
    let resumed = outbound.metric(HANDSHAKES, &[("side", "upstream"), ("resumed", "true")]);
    assert!(
        (resumed - (handshakes - 1.0)).abs() < 1e-9,
        "{resumed} of {handshakes}"
    );
}

#[test]
fn changed_trust_bundle_ends_resumption_and_old_trust() {
    let world = World::strict();
    let connector = world.connector();
    connector.connect(world.proxy.addr()).unwrap().get("/");
    let other = TestCa::new();
    let both = [world.ca.authority(), other.authority()].map(|ca| ca.certificate_pem().to_owned());
    world
        .proxy
        .reload(|| std::fs::write(world.ca.bundle(), both.concat()).unwrap());
    let mut again = connector.connect(world.proxy.addr()).unwrap();
    assert_eq!(again.get("/").status(), 200);
    assert!(!again.is_resumed());
    world
        .proxy
        .reload(|| std::fs::write(world.ca.bundle(), &both[1]).unwrap());
    let mut refused = connector.connect(world.proxy.addr()).unwrap();
    assert_eq!(
        failure(&refused.try_get("/").unwrap_err()),
        HandshakeFailure::PeerSaysUnknownIssuer
    );
}

#[test]
fn large_bodies_pass_whole_in_both_directions() {
    let world = World::strict();
    let outbound = world.outbound(&world.server);
    let body: Vec<u8> = (0..3_000_000_u32)
        .flat_map(|n| (n % 251).to_be_bytes()[3..].to_vec())
        .collect();
    let mut client = RawClient::connect(outbound.addr());
    assert!(client.post("/", &body).body == body, "the echo differs");
    let mut mesh = world.connector().connect(world.proxy.addr()).unwrap();
    assert!(mesh.post("/", &body).body == body, "the echo differs");
}

#[test]
fn peer_may_change_its_keys_in_between() {
    let world = World::strict();
    let mut client = world.connector().connect(world.proxy.addr()).unwrap();
    client.get("/");
    for round in 0..5 {
        let body = format!("round {round}");
        client.stream().conn.refresh_traffic_keys().unwrap();
        assert_eq!(client.post("/", &body).text(), body);
    }
}

#[test]
fn goodbye_of_the_client_is_answered_with_one() {
    let world = World::strict();
    let mut client = world.connector().connect(world.proxy.addr()).unwrap();
    client.get("/");
    client.stream().conn.send_close_notify();
    client.stream().flush().unwrap();
    assert_eq!(client.read_to_end(), (vec![], End::Closed));
    until("the connection is gone", || {
        world
            .proxy
            .metric("leno_connections_active", &[("direction", "inbound")])
            < 0.5
    });
}

#[test]
fn half_a_handshake_is_given_up() {
    let world = World::new(|sidecar| sidecar.with("limits: {headerTimeout: 1s}"));
    let mut silent = RawClient::connect(world.proxy.addr());
    silent.send([22, 3, 1, 0, 200, 1, 0, 0, 196]);
    silent.read_to_end();
    world.failed("timed_out");
}

#[test]
fn half_a_handshake_that_ends_is_counted_as_closed() {
    let world = World::permissive();
    let mut gone = RawClient::connect(world.proxy.addr());
    gone.send([22, 3, 1, 0, 200, 1, 0, 0, 196]);
    drop(gone);
    world.failed("closed");
}

#[test]
fn garbage_inside_a_record_is_refused_and_harms_nobody() {
    let world = World::strict();
    let mut mesh = world.connector().connect(world.proxy.addr()).unwrap();
    let mut client = RawClient::connect(world.proxy.addr());
    client.send([&[22, 3, 1, 0, 50][..], &[0xff; 50]].concat());
    assert_eq!(client.read_to_end().0, b"");
    world.failed("protocol");
    assert_eq!(mesh.get("/bytes/1").text(), "x");
}

/// A client's first flight, as the mesh sends it.
fn client_hello(world: &World) -> Vec<u8> {
    let name = identity::tls::endpoint_name(world.proxy.addr());
    let config = Arc::new(world.connector().config().clone());
    let mut connection = rustls::ClientConnection::new(config, name).unwrap();
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).unwrap();
    hello
}

#[test]
fn damaged_handshakes_harm_nobody() {
    let world = World::permissive();
    let mut mesh = world.connector().connect(world.proxy.addr()).unwrap();
    let hello = client_hello(&world);
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % below as u64).unwrap()
    };
    for _ in 0..400 {
        let mut flight = [&hello[..], &hello[..random(hello.len())]].concat();
        for _ in 0..=random(4) {
            let at = 1 + random(flight.len() - 1);
            flight[at] = u8::try_from(random(256)).unwrap();
        }
        let mut client = RawClient::connect(world.proxy.addr());
        // The proxy may have refused, and closed, before all of it was sent.
        let _ = client.try_send(&flight[..flight.len() / 2]);
        let _ = client.try_send(&flight[flight.len() / 2..]);
        drop(client);
    }
    assert_eq!(mesh.get("/bytes/1").text(), "x");
    world
        .proxy
        .metric_becomes("leno_connections_active", &[("direction", "inbound")], 1.0);
    assert_eq!(world.app.request_count(), 1);
}

#[test]
fn openssl_as_a_client_is_served() {
    let world = World::strict();
    let paths = &world.client.paths;
    let client = Command::new("openssl")
        .args([
            "s_client",
            "-quiet",
            "-ign_eof",
            "-alpn",
            "leno-http/1.1",
            "-verify_quiet",
        ])
        .args([
            "-verify_return_error",
            "-connect",
            &world.proxy.addr().to_string(),
        ])
        .arg("-CAfile")
        .arg(&paths.trust_bundle)
        .arg("-cert")
        .arg(&paths.certificate)
        .arg("-key")
        .arg(&paths.key)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut client) = client else {
        eprintln!("skipped: no openssl command on this machine");
        return;
    };
    let request = b"GET /bytes/5 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    client.stdin.as_mut().unwrap().write_all(request).unwrap();
    let output = client.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\nxxxxx"),
        "{text:?}"
    );
}
