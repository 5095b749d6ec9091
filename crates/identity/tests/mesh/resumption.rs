//! Sessions are resumed, but never past what the credentials say now.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use identity::ca::Authority;
use identity::credentials::{Credentials, Paths};
use identity::tls::{self, ALPN_HTTP1, ALPN_TCP, Side, Tickets};
use rustls::server::ProducesTickets;
use rustls::{ClientConfig, HandshakeKind, ServerConfig};

use crate::world::{DOMAIN, World, client, handshake, handshake_at, id};

fn server(credentials: &Credentials, tickets: &Arc<Tickets>) -> Arc<ServerConfig> {
    tls::server_config(credentials, &[ALPN_HTTP1], tickets).unwrap()
}

fn kind(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>) -> HandshakeKind {
    let pair = handshake(server, client).unwrap();
    assert_eq!(pair.client.handshake_kind(), pair.server.handshake_kind());
    pair.server.handshake_kind().unwrap()
}

#[test]
fn second_connection_resumes_and_both_chains_are_recalled() {
    let world = World::new();
    let (a, b) = (world.credentials("a"), world.credentials("b"));
    let (server, client) = (server(&b, &Tickets::new()), client(&a, "b"));
    assert_eq!(kind(&server, &client), HandshakeKind::Full);
    for _ in 0..3 {
        let pair = handshake(&server, &client).unwrap();
        assert_eq!(pair.server.handshake_kind(), Some(HandshakeKind::Resumed));
        let chain = pair.server.peer_certificates().unwrap();
        assert_eq!(tls::recheck(chain, &b, Side::Downstream).unwrap(), id("a"));
        let chain = pair.client.peer_certificates().unwrap();
        assert_eq!(
            tls::recheck(chain, &a, Side::Upstream(&[id("b")])).unwrap(),
            id("b")
        );
        assert_eq!(pair.server.alpn_protocol(), Some(ALPN_HTTP1));
    }
}

#[test]
fn sessions_are_shared_among_the_protocols_of_one_client() {
    let world = World::new();
    let (a, b) = (world.credentials("a"), world.credentials("b"));
    let both = [ALPN_HTTP1, ALPN_TCP];
    let server = tls::server_config(&b, &both, &Tickets::new()).unwrap();
    let http = client(&a, "b");
    let tcp = tls::with_alpn(&http, &[ALPN_TCP]);
    assert_eq!(kind(&server, &http), HandshakeKind::Full);
    let pair = handshake(&server, &tcp).unwrap();
    assert_eq!(pair.server.handshake_kind(), Some(HandshakeKind::Resumed));
    assert_eq!(pair.server.alpn_protocol(), Some(ALPN_TCP));
}

#[test]
fn workers_share_ticket_keys_across_certificate_rotation() {
    let world = World::new();
    let (a, tickets) = (world.credentials("a"), Tickets::new());
    let client = client(&a, "b");
    let first = server(&world.credentials("b"), &tickets);
    let second = server(&world.credentials("b"), &tickets);
    assert_eq!(kind(&first, &client), HandshakeKind::Full);
    assert_eq!(kind(&second, &client), HandshakeKind::Resumed);
    let elsewhere = server(&world.credentials("b"), &Tickets::new());
    assert_eq!(kind(&elsewhere, &client), HandshakeKind::Full);
}

#[test]
fn changed_trust_bundle_drops_the_ticket_keys() {
    let world = World::new();
    let (a, tickets) = (world.credentials("a"), Tickets::new());
    let client = client(&a, "b");
    let paths = world.issue("b");
    let b = Credentials::load(&paths, DOMAIN).unwrap();
    assert_eq!(kind(&server(&b, &tickets), &client), HandshakeKind::Full);

    let more = Authority::create(DOMAIN, SystemTime::now()).unwrap();
    let both = format!("{}{}", more.certificate_pem(), world.ca.certificate_pem());
    std::fs::write(world.path("both.pem"), both).unwrap();
    let paths = Paths {
        trust_bundle: world.path("both.pem"),
        ..paths
    };
    let changed = Credentials::load(&paths, DOMAIN).unwrap();
    assert_ne!(b.bundle_fingerprint(), changed.bundle_fingerprint());
    assert_eq!(
        kind(&server(&changed, &tickets), &client),
        HandshakeKind::Full
    );
    assert_eq!(
        kind(&server(&changed, &tickets), &client),
        HandshakeKind::Resumed
    );
}

#[test]
fn sessions_are_remembered_per_endpoint() {
    let world = World::new();
    let (a, b) = (world.credentials("a"), world.credentials("b"));
    let (server, client) = (server(&b, &Tickets::new()), client(&a, "b"));
    for endpoint in ["127.0.0.1:1", "127.0.0.1:2", "[::1]:1", "[fe80::1:2]:1"] {
        let pair = handshake_at(&server, &client, endpoint).unwrap();
        assert_eq!(
            pair.server.handshake_kind(),
            Some(HandshakeKind::Full),
            "{endpoint}"
        );
    }
}

/// Notes the size of every ticket that is made.
#[derive(Debug)]
struct Measured(Arc<dyn ProducesTickets>, AtomicUsize);

impl ProducesTickets for Measured {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let sealed = self.0.encrypt(plain)?;
        assert_eq!(
            self.1.swap(sealed.len(), Ordering::Relaxed),
            0,
            "one ticket per connection"
        );
        Some(sealed)
    }

    fn decrypt(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(sealed)
    }
}

/// A ticket holds the client's chain: it grows with it, and travels in every full handshake.
#[test]
fn one_ticket_per_connection_and_under_a_kibibyte() {
    let world = World::new();
    let (a, b) = (world.credentials("a"), world.credentials("b"));
    let mut config = (*server(&b, &Tickets::new())).clone();
    let measured = Arc::new(Measured(Arc::clone(&config.ticketer), AtomicUsize::new(0)));
    config.ticketer = measured.clone();
    handshake(&Arc::new(config), &client(&a, "b")).unwrap();
    let bytes = measured.1.load(Ordering::Relaxed);
    assert!((300..1024).contains(&bytes), "{bytes} bytes");
}
