//! Who is let in, who is not, and under which reason.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use identity::HandshakeFailure as F;
use identity::ca::Authority;
use identity::credentials::{Credentials, Paths};
use identity::tls::{self, ALPN_HTTP1, ALPN_PUBLIC_HTTP1, Side, Tickets};
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose, SanType};
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use crate::world::{Craft, DAY, DOMAIN, Failed, World, client, handshake, id, server};

#[test]
fn both_sides_learn_who_the_other_is() {
    let world = World::new();
    let (a, b) = (world.credentials("a"), world.credentials("b"));
    let pair = handshake(&server(&b), &client(&a, "b")).unwrap();
    assert_eq!(
        tls::peer_id(pair.client.peer_certificates().unwrap()).unwrap(),
        id("b")
    );
    assert_eq!(
        tls::peer_id(pair.server.peer_certificates().unwrap()).unwrap(),
        id("a")
    );
    assert_eq!(
        pair.client.protocol_version(),
        Some(rustls::ProtocolVersion::TLSv1_3)
    );
    let suite = pair.client.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(suite, rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
    tls::check_alpn(pair.server.alpn_protocol(), &[ALPN_HTTP1]).unwrap();
    pair.client.dangerous_extract_secrets().unwrap();
    pair.server.dangerous_extract_secrets().unwrap();
}

#[test]
fn upstream_that_was_not_expected_is_refused() {
    let world = World::new();
    let (a, b) = (world.credentials("a"), world.credentials("b"));
    let failed = handshake(&server(&b), &client(&a, "c")).err().unwrap();
    let refused = Failed {
        client: Some(F::UnexpectedIdentity),
        server: Some(F::PeerRefused),
    };
    assert_eq!(failed, refused);
}

#[test]
fn configuration_that_expects_nobody_or_a_stranger_is_an_error() {
    let world = World::new();
    let a = world.credentials("a");
    let stranger = "spiffe://elsewhere/ns/default/sa/b".parse().unwrap();
    let nobody = tls::client_config(&a, &[ALPN_HTTP1], &[]);
    assert!(matches!(nobody, Err(tls::Error::NobodyExpected)));
    let outside = tls::client_config(&a, &[ALPN_HTTP1], &[stranger]);
    assert!(matches!(outside, Err(tls::Error::NotInTrustDomain { .. })));
}

/// A peer on plain rustls that presents any certificate and accepts everything it may.
struct Stranger<'a> {
    world: &'a World,
    key: CertifiedKey,
}

impl Stranger<'_> {
    fn connects(self) -> Failed {
        let b = self.world.credentials("b");
        let template = client(&b, "b");
        let mut config = (*template).clone();
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(self.key));
        handshake(&server(&b), &Arc::new(config)).err().unwrap()
    }

    fn answers(self) -> Failed {
        let b = self.world.credentials("b");
        let template = server(&b);
        let mut config = (*template).clone();
        config.cert_resolver = Arc::new(SingleCertAndKey::from(self.key));
        handshake(&Arc::new(config), &client(&b, "web"))
            .err()
            .unwrap()
    }
}

/// Both sides must refuse the leaf under the same reason, and tell the peer.
fn check(craft: Craft<'_>, reason: F, peer: F) {
    let world = World::new();
    let stranger = || Stranger {
        world: &world,
        key: world.craft(craft),
    };
    assert_eq!(
        stranger().connects(),
        Failed {
            client: Some(peer),
            server: Some(reason)
        }
    );
    assert_eq!(
        stranger().answers(),
        Failed {
            client: Some(reason),
            server: Some(peer)
        }
    );
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

#[test]
fn leaf_outside_its_validity_is_refused() {
    let past =
        |p: &mut rcgen::CertificateParams| p.not_after = (SystemTime::now() - DAY / 2).into();
    check(&past, F::Expired, F::PeerSaysExpired);
    let future =
        |p: &mut rcgen::CertificateParams| p.not_before = (SystemTime::now() + DAY / 2).into();
    check(&future, F::NotYetValid, F::PeerSaysExpired);
}

#[test]
fn leaf_without_exactly_one_spiffe_id_is_refused() {
    let names = |names: Vec<SanType>| {
        move |p: &mut rcgen::CertificateParams| p.subject_alt_names.clone_from(&names)
    };
    let good = id("web");
    let dns = SanType::DnsName("web.default.svc".try_into().unwrap());
    check(&names(vec![]), F::NoSpiffeId, F::PeerRefused);
    check(&names(vec![dns]), F::NoSpiffeId, F::PeerRefused);
    check(
        &names(vec![uri("https://cluster.local/x")]),
        F::NoSpiffeId,
        F::PeerRefused,
    );
    check(
        &names(vec![uri("spiffe://cluster.local")]),
        F::NoSpiffeId,
        F::PeerRefused,
    );
    check(
        &names(vec![uri("spiffe://cluster.local/a//b")]),
        F::NoSpiffeId,
        F::PeerRefused,
    );
    let two = vec![
        uri(good.as_str()),
        uri("spiffe://cluster.local/ns/default/sa/other"),
    ];
    check(&names(two), F::NoSpiffeId, F::PeerRefused);
    check(
        &names(vec![uri(good.as_str()), uri("urn:x")]),
        F::NoSpiffeId,
        F::PeerRefused,
    );
}

#[test]
fn leaf_of_another_trust_domain_is_refused() {
    let other = uri("spiffe://other.domain/ns/default/sa/web");
    let craft = |p: &mut rcgen::CertificateParams| p.subject_alt_names = vec![other.clone()];
    check(&craft, F::WrongTrustDomain, F::PeerRefused);
}

#[test]
fn authority_posing_as_a_workload_is_refused() {
    let ca = |p: &mut rcgen::CertificateParams| p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    check(&ca, F::BadCertificate, F::PeerRefused);
    let signs = |p: &mut rcgen::CertificateParams| {
        p.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
        ];
    };
    check(&signs, F::BadCertificate, F::PeerRefused);
}

#[test]
fn leaf_for_another_purpose_is_refused() {
    let usage = |usage: ExtendedKeyUsagePurpose| {
        move |p: &mut rcgen::CertificateParams| p.extended_key_usages = vec![usage.clone()]
    };
    check(
        &usage(ExtendedKeyUsagePurpose::CodeSigning),
        F::WrongPurpose,
        F::PeerRefused,
    );
    let world = World::new();
    let key = world.craft(&usage(ExtendedKeyUsagePurpose::ServerAuth));
    let failed = Stranger { world: &world, key }.connects();
    assert_eq!(failed.server, Some(F::WrongPurpose));
    let key = world.craft(&usage(ExtendedKeyUsagePurpose::ClientAuth));
    assert_eq!(
        Stranger { world: &world, key }.answers().client,
        Some(F::WrongPurpose)
    );
}

#[test]
fn chain_of_another_authority_is_refused() {
    let world = World::new();
    let other = Authority::create(DOMAIN, SystemTime::now()).unwrap();
    let paths = world.issue_from(&other, "web", SystemTime::now());
    let web = Credentials::load(&paths, DOMAIN).unwrap();
    assert_eq!(web.warnings().len(), 1, "{:?}", web.warnings());
    let a = world.credentials("a");
    let expected = Failed {
        client: Some(F::UnknownIssuer),
        server: Some(F::PeerSaysUnknownIssuer),
    };
    assert_eq!(
        handshake(&server(&web), &client(&a, "web")).err().unwrap(),
        expected
    );
    let expected = Failed {
        client: Some(F::PeerSaysUnknownIssuer),
        server: Some(F::UnknownIssuer),
    };
    assert_eq!(
        handshake(&server(&a), &client(&web, "a")).err().unwrap(),
        expected
    );
}

#[test]
fn both_authorities_are_trusted_while_one_replaces_the_other() {
    let world = World::new();
    let new = Authority::create(DOMAIN, SystemTime::now()).unwrap();
    let both = format!("{}{}", world.ca.certificate_pem(), new.certificate_pem());
    std::fs::write(world.path("both.pem"), both).unwrap();
    let old = Paths {
        trust_bundle: world.path("both.pem"),
        ..world.issue("old")
    };
    let fresh = world.issue_from(&new, "fresh", SystemTime::now());
    let fresh = Paths {
        trust_bundle: world.path("both.pem"),
        ..fresh
    };
    let old = Credentials::load(&old, DOMAIN).unwrap();
    let fresh = Credentials::load(&fresh, DOMAIN).unwrap();
    assert_eq!((old.warnings(), fresh.warnings()), (&[][..], &[][..]));
    handshake(&server(&old), &client(&fresh, "old"))
        .ok()
        .unwrap();
    handshake(&server(&fresh), &client(&old, "fresh"))
        .ok()
        .unwrap();
}

#[derive(Debug)]
struct NoCertificate;

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[test]
fn client_without_a_certificate_is_refused() {
    let world = World::new();
    let b = world.credentials("b");
    let mut nobody = (*client(&b, "b")).clone();
    nobody.client_auth_cert_resolver = Arc::new(NoCertificate);
    let failed = handshake(&server(&b), &Arc::new(nobody)).err().unwrap();
    assert_eq!(failed.server, Some(F::NoCertificate));
    assert_eq!(failed.client, Some(F::PeerRefused));
}

#[test]
fn sides_without_a_common_protocol_part_ways() {
    let world = World::new();
    let (a, b) = (world.credentials("a"), world.credentials("b"));
    let other = tls::client_config(&a, &[b"leno-tcp"], &[id("b")]).unwrap();
    let mismatch = Failed {
        client: Some(F::AlpnMismatch),
        server: Some(F::AlpnMismatch),
    };
    assert_eq!(handshake(&server(&b), &other).err().unwrap(), mismatch);
    let silent = tls::client_config(&a, &[], &[id("b")]).unwrap();
    let pair = handshake(&server(&b), &silent).unwrap();
    let agreed = tls::check_alpn(pair.server.alpn_protocol(), &[ALPN_HTTP1]);
    assert_eq!(agreed, Err(F::AlpnMismatch));
}

#[test]
fn preferred_protocol_of_the_server_wins() {
    let world = World::new();
    let (a, b) = (world.credentials("a"), world.credentials("b"));
    let both = [ALPN_HTTP1, ALPN_PUBLIC_HTTP1];
    let config = tls::server_config(&b, &both, &Tickets::new()).unwrap();
    let foreign = tls::client_config(&a, &[ALPN_PUBLIC_HTTP1], &[id("b")]).unwrap();
    let pair = handshake(&config, &foreign).unwrap();
    assert_eq!(pair.server.alpn_protocol(), Some(ALPN_PUBLIC_HTTP1));
    let reversed = tls::client_config(&a, &[ALPN_PUBLIC_HTTP1, ALPN_HTTP1], &[id("b")]).unwrap();
    let pair = handshake(&config, &reversed).unwrap();
    assert_eq!(pair.client.alpn_protocol(), Some(ALPN_HTTP1));
}

#[test]
fn bytes_that_are_not_tls_are_named_so() {
    let world = World::new();
    let b = world.credentials("b");
    let mut connection = rustls::ServerConnection::new(server(&b)).unwrap();
    connection
        .read_tls(&mut &b"GET / HTTP/1.1\r\nhost: b\r\n\r\n"[..])
        .unwrap();
    let error = connection.process_new_packets().unwrap_err();
    assert_eq!(tls::classify(&error), F::NotTls);
}

#[test]
fn rechecking_a_chain_repeats_every_check() {
    let world = World::new();
    let (a, b) = (world.credentials("a"), world.credentials("b"));
    let pair = handshake(&server(&b), &client(&a, "b")).unwrap();
    let chain = pair.client.peer_certificates().unwrap();
    let [b_id, c_id] = [id("b"), id("c")].map(|id| [id]);
    assert_eq!(
        tls::recheck(chain, &a, Side::Upstream(&b_id)).unwrap(),
        id("b")
    );
    assert_eq!(tls::recheck(chain, &a, Side::Downstream).unwrap(), id("b"));
    let reason = |result: Result<_, rustls::Error>| tls::classify(&result.unwrap_err());
    assert_eq!(
        reason(tls::recheck(chain, &a, Side::Upstream(&c_id))),
        F::UnexpectedIdentity
    );
    let since_epoch = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let later = since_epoch + 2 * DAY;
    for (now, expected) in [(later, F::Expired), (Duration::ZERO, F::NotYetValid)] {
        let now = rustls::pki_types::UnixTime::since_unix_epoch(now);
        assert_eq!(
            reason(tls::recheck_at(chain, &a, Side::Downstream, now)),
            expected
        );
        assert_eq!(
            reason(tls::recheck_at(chain, &a, Side::Upstream(&b_id), now)),
            expected
        );
    }
    assert_eq!(
        reason(tls::recheck(&[], &a, Side::Downstream)),
        F::NoCertificate
    );
    let elsewhere = World::new().credentials("a");
    assert_eq!(
        reason(tls::recheck(chain, &elsewhere, Side::Downstream)),
        F::UnknownIssuer
    );
}
