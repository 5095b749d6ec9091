//! What an authority has revoked is refused by both sides, at once, and nothing else is.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use identity::ca::{Authority, Chain, Revoked, Serial};
use identity::credentials::{Credentials, Error};
use identity::failure::classify;
use identity::tls::{self, ALPN_HTTP1, Side, Tickets};
use identity::{HandshakeFailure as F, TrustBundle};
use rustls::HandshakeKind;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::world::{DAY, DOMAIN, Failed, Hierarchy, assemble, client, handshake, id, server};

const HOUR: Duration = Duration::from_secs(60 * 60);

fn list(authority: &Authority, serials: &[Serial], at: SystemTime) -> String {
    let revoked = serials.iter().map(|serial| Revoked {
        serial: *serial,
        at,
    });
    let revoked: Vec<_> = revoked.collect();
    authority.revocations(&revoked, 1, at, HOUR).unwrap()
}

/// `a` as it is, and `b` as it knows what is revoked.
fn meet(world: &Hierarchy, chain: &Chain, a: &Credentials, revocations: &str) -> [Option<F>; 2] {
    let (b_chain, key) = world.enrol("b");
    assert_ne!(b_chain.serial, chain.serial);
    let b = assemble(&b_chain.pem, &key, &world.bundle(), revocations).unwrap();
    let connects = handshake(&server(&b), &client(a, "b"));
    let answers = handshake(&server(a), &client(&b, "a"));
    let reasons = |failed: Failed, own| match own {
        true => failed.client,
        false => failed.server,
    };
    [
        connects.err().and_then(|failed| reasons(failed, false)),
        answers.err().and_then(|failed| reasons(failed, true)),
    ]
}

#[test]
fn revoked_leaf_is_refused_by_both_sides() {
    let (world, now) = (Hierarchy::new(), SystemTime::now());
    let (chain, key) = world.enrol("a");
    let a = assemble(&chain.pem, &key, &world.bundle(), "").unwrap();
    let check = |revocations: &str, expected| {
        assert_eq!(meet(&world, &chain, &a, revocations), expected);
    };
    check("", [None, None]);
    check(&list(&world.issuer, &[], now), [None, None]);
    check(&list(&world.issuer, &[Serial([1; 16])], now), [None, None]);
    let refused = [Some(F::Revoked), Some(F::Revoked)];
    check(&list(&world.issuer, &[chain.serial], now), refused);
    // Of date for long: an old list is better than none.
    let old = list(&world.issuer, &[chain.serial], now - 20 * HOUR);
    check(&old, refused);
    // Another authority's opinion does not count.
    check(&list(&world.root, &[chain.serial], now), [None, None]);
}

#[test]
fn revoked_intermediate_takes_its_leaves_with_it() {
    let (world, now) = (Hierarchy::new(), SystemTime::now());
    let (chain, key) = world.enrol("a");
    let a = assemble(&chain.pem, &key, &world.bundle(), "").unwrap();
    let serial = Serial::of(world.issuer.certificate()).unwrap();
    let revocations = list(&world.root, &[serial], now);
    let told = meet(&world, &chain, &a, &revocations);
    assert_eq!(told, [Some(F::Revoked), Some(F::Revoked)]);
}

#[test]
fn last_list_of_an_authority_counts() {
    let (world, now) = (Hierarchy::new(), SystemTime::now());
    let (chain, key) = world.enrol("a");
    let a = assemble(&chain.pem, &key, &world.bundle(), "").unwrap();
    let before = list(&world.issuer, &[], now - HOUR);
    let after = list(&world.issuer, &[chain.serial], now);
    for both in [before.clone() + &after, after + &before] {
        let told = meet(&world, &chain, &a, &both);
        assert_eq!(told, [Some(F::Revoked), Some(F::Revoked)]);
    }
}

#[test]
fn resumed_session_of_a_revoked_peer_is_found_by_the_recheck() {
    let (world, now) = (Hierarchy::new(), SystemTime::now());
    let (a_chain, a_key) = world.enrol("a");
    let a = assemble(&a_chain.pem, &a_key, &world.bundle(), "").unwrap();
    let b = world.credentials("b", "");
    let tickets = Tickets::new();
    let connect = |b: &Credentials, client: &Arc<rustls::ClientConfig>| {
        let server = tls::server_config(b, &[ALPN_HTTP1], &tickets).unwrap();
        handshake(&server, client)
    };
    let client = client(&a, "b");
    connect(&b, &client).ok().unwrap();
    let pair = connect(&b, &client).unwrap();
    assert_eq!(pair.server.handshake_kind(), Some(HandshakeKind::Resumed));
    let chain = pair.server.peer_certificates().unwrap();
    assert_eq!(tls::recheck(chain, &b, Side::Downstream).unwrap(), id("a"));
    let revocations = list(&world.issuer, &[a_chain.serial], now);
    let told = b.with_bundle(&world.bundle(), &revocations, now).unwrap();
    let error = tls::recheck(chain, &told, Side::Downstream).unwrap_err();
    assert_eq!(classify(&error), F::Revoked);
    let error = tls::recheck(chain, &told, Side::Upstream(&[id("a")])).unwrap_err();
    assert_eq!(classify(&error), F::Revoked);
    // And the keys of tickets went with the bundle: the next handshake is a full one, and fails.
    assert_eq!(
        connect(&told, &client).err().unwrap().server,
        Some(F::Revoked)
    );
}

#[test]
fn fingerprint_follows_what_is_revoked_not_when_it_was_signed() {
    let (world, now) = (Hierarchy::new(), SystemTime::now());
    let print = |revocations: &str| {
        let bundle = TrustBundle::from_pem(&world.bundle(), revocations, DOMAIN, now).unwrap();
        bundle.fingerprint()
    };
    let [one, two] = [Serial([1; 16]), Serial([2; 16])];
    let both = list(&world.issuer, &[one, two], now);
    assert_eq!(print(""), print(&list(&world.issuer, &[], now)));
    assert_eq!(
        print(&both),
        print(&list(&world.issuer, &[two, one], now - HOUR))
    );
    assert_ne!(print(&both), print(&list(&world.issuer, &[one], now)));
    assert_ne!(print(&both), print(""));
    let apart = list(&world.issuer, &[one], now) + &list(&world.root, &[two], now);
    assert_ne!(print(&both), print(&apart));
}

#[test]
fn list_that_its_authority_did_not_sign_is_refused_whole() {
    let (world, now) = (Hierarchy::new(), SystemTime::now());
    let pem = list(&world.issuer, &[Serial([7; 16])], now);
    let der = rustls::pki_types::CertificateRevocationListDer::from_pem_slice(pem.as_bytes());
    let mut der = der.unwrap().to_vec();
    let place = der.windows(16).position(|bytes| bytes == [7; 16]).unwrap();
    der[place + 8] ^= 1;
    let forged = pem_of(&der);
    let a = world.credentials("a", "");
    let check = |text: &str, reason: &str| {
        let error = a.with_bundle(&world.bundle(), text, now).unwrap_err();
        assert!(matches!(error, Error::Revocations { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    };
    check(&forged, "did not sign it");
    check(&pem_of(b"hello"), "does not parse");
    check("-----BEGIN X509 CRL-----\nAAAA\n", "not PEM");
    // Whose issuer only the peer's chain knows: found there.
    let (b_chain, key) = world.enrol("b");
    let b = assemble(&b_chain.pem, &key, world.root.certificate_pem(), &forged).unwrap();
    let failed = handshake(&server(&b), &client(&a, "b")).err().unwrap();
    assert!(failed.server.is_some(), "{failed:?}");
}

fn pem_of(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN X509 CRL-----\n{text}\n-----END X509 CRL-----\n")
}

#[test]
fn own_revoked_chain_is_a_warning() {
    let (world, now) = (Hierarchy::new(), SystemTime::now());
    let (chain, key) = world.enrol("a");
    let revocations = list(&world.issuer, &[chain.serial], now);
    let a = assemble(&chain.pem, &key, &world.bundle(), &revocations).unwrap();
    assert!(a.warnings()[0].contains("Revoked"), "{:?}", a.warnings());
    assert_eq!(a.overview().revoked, 1);
}

#[test]
fn serial_of_a_certificate_is_the_one_that_was_issued() {
    let world = Hierarchy::new();
    let (chain, _) = world.enrol("a");
    let der = CertificateDer::from_pem_slice(chain.pem.as_bytes()).unwrap();
    assert_eq!(Serial::of(&der), Some(chain.serial));
    assert_eq!(Serial::of(&CertificateDer::from(vec![0; 4])), None);
    let late = world
        .issuer
        .issue(&id("a"), DAY, SystemTime::now())
        .unwrap();
    let der = CertificateDer::from_pem_slice(late.chain_pem.as_bytes()).unwrap();
    assert_eq!(Serial::of(&der).unwrap().to_string().len(), 32);
}
