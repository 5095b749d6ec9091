//! A sidecar's first minutes: a key of its own, a request without a certificate, credentials made
//! of parts; and the control plane's port, which takes both kinds of callers.

use std::sync::Arc;
use std::time::SystemTime;

use identity::HandshakeFailure as F;
use identity::TrustBundle;
use identity::ca::{Authority, Error};
use identity::credentials;
use identity::key;
use identity::tls::{self, ALPN_PUBLIC_H2};

use crate::world::{DAY, DOMAIN, Hierarchy, assemble, handshake, id, openssl};

const H2: &[&[u8]] = &[ALPN_PUBLIC_H2];

fn bundle(pem: &str) -> Arc<TrustBundle> {
    Arc::new(TrustBundle::from_pem(pem, "", DOMAIN, SystemTime::now()).unwrap())
}

#[test]
fn caller_without_a_certificate_reaches_the_port_and_is_nobody() {
    let world = Hierarchy::new();
    let control = world.credentials("control", "");
    let server = tls::server_config_optional(&control, H2).unwrap();
    let trusted = bundle(world.root.certificate_pem());
    let client = tls::client_config_without_identity(&trusted, H2, &[id("control")]).unwrap();
    for _ in 0..2 {
        let pair = handshake(&server, &client).unwrap();
        assert!(pair.server.peer_certificates().is_none());
        assert_eq!(pair.server.alpn_protocol(), Some(ALPN_PUBLIC_H2));
        let kind = pair.server.handshake_kind();
        assert_eq!(kind, Some(rustls::HandshakeKind::Full));
    }
}

#[test]
fn caller_without_a_certificate_still_checks_whom_it_calls() {
    let world = Hierarchy::new();
    let other = world.credentials("other", "");
    let server = tls::server_config_optional(&other, H2).unwrap();
    let reason = |trusted: &str| {
        let client = tls::client_config_without_identity(&bundle(trusted), H2, &[id("control")]);
        handshake(&server, &client.unwrap()).err().unwrap().client
    };
    assert_eq!(reason(&world.bundle()), Some(F::UnexpectedIdentity));
    let stranger = Authority::create(DOMAIN, SystemTime::now()).unwrap();
    assert_eq!(reason(stranger.certificate_pem()), Some(F::UnknownIssuer));
}

#[test]
fn certificate_that_is_presented_to_the_port_is_checked() {
    let (world, strangers) = (Hierarchy::new(), Hierarchy::new());
    let control = world.credentials("control", "");
    let server = tls::server_config_optional(&control, H2).unwrap();
    let a = world.credentials("a", "");
    let client = tls::client_config(&a, H2, &[id("control")]).unwrap();
    for _ in 0..2 {
        let pair = handshake(&server, &client).unwrap();
        let chain = pair.server.peer_certificates().unwrap();
        assert_eq!(tls::peer_id(chain).unwrap(), id("a"));
        let kind = pair.server.handshake_kind();
        assert_eq!(kind, Some(rustls::HandshakeKind::Full));
    }
    let (chain, key) = strangers.enrol("a");
    let stranger = assemble(&chain.pem, &key, &world.bundle(), "").unwrap();
    let client = tls::client_config(&stranger, H2, &[id("control")]).unwrap();
    let failed = handshake(&server, &client).err().unwrap();
    assert_eq!(failed.server, Some(F::UnknownIssuer));
}

#[test]
fn request_names_the_workload_and_proves_the_key() {
    let (world, key) = (Hierarchy::new(), key::generate().unwrap());
    let csr = key.csr(&id("web")).unwrap();
    let now = SystemTime::now();
    let chain = world.issuer.sign_csr(&csr, &id("web"), DAY, now).unwrap();
    let made = assemble(&chain.pem, &key, &world.bundle(), "").unwrap();
    assert_eq!(made.own_id(), &id("web"));
    let other = world.issuer.sign_csr(&csr, &id("other"), DAY, now);
    assert!(matches!(other.unwrap_err(), Error::Request(_)));
    // Between the signed part and the signature stands which algorithm it is: a lax reader may
    // overlook a wrong tag there.
    let algorithm = [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
    let place = csr.windows(8).position(|bytes| bytes == algorithm);
    let (before, after) = (place.unwrap() - 4, place.unwrap() + 11);
    for place in (0..before).chain(after..csr.len()) {
        let mut torn = csr.clone();
        torn[place] ^= 1;
        let signed = world.issuer.sign_csr(&torn, &id("web"), DAY, now);
        assert!(signed.is_err(), "byte {place}");
    }
    let long = [csr, vec![0; 9000]].concat();
    let error = world.issuer.sign_csr(&long, &id("web"), DAY, now);
    assert!(error.unwrap_err().to_string().contains("too long"));
}

#[test]
fn openssl_reads_the_request_and_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let key = key::generate().unwrap();
    std::fs::write(dir.path().join("csr.der"), key.csr(&id("web")).unwrap()).unwrap();
    std::fs::write(dir.path().join("key.pem"), key.to_pem().as_bytes()).unwrap();
    let request = "req -inform DER -in csr.der -noout -verify -text";
    let Some(said) = openssl(&request.split(' ').collect::<Vec<_>>(), dir.path()) else {
        return;
    };
    assert!(
        said.contains("URI:spiffe://cluster.local/ns/default/sa/web"),
        "{said}"
    );
    let said = openssl(&["pkey", "-in", "key.pem", "-noout", "-text"], dir.path()).unwrap();
    assert!(
        said.contains("P-256") || said.contains("prime256v1"),
        "no P-256 key"
    );
}

/// The error must name the part and contain the advice.
#[track_caller]
fn refused(made: Result<credentials::Credentials, credentials::Error>, part: &str, advice: &str) {
    let text = made.unwrap_err().to_string();
    assert!(text.contains(part) && text.contains(advice), "{text}");
}

#[test]
fn part_that_is_not_usable_is_named() {
    let world = Hierarchy::new();
    let (chain, key) = world.enrol("a");
    let (pem, trusted) = (chain.pem.as_str(), world.bundle());
    assemble(pem, &key, &trusted, "").unwrap();
    refused(
        assemble("hello", &key, &trusted, ""),
        "the certificate chain",
        "must be PEM",
    );
    refused(
        assemble(pem, &key, "hello", ""),
        "the trust bundle",
        "must be PEM",
    );
    let other = key::generate().unwrap();
    let made = assemble(pem, &other, &trusted, "");
    refused(
        made,
        "the private key",
        "is not the key of the certificate chain",
    );
    let made = assemble(world.root.certificate_pem(), &key, &trusted, "");
    refused(made, "the certificate chain", "issue a leaf");
    refused(
        assemble(pem, &key, pem_of_leaf(pem), ""),
        "the trust bundle",
        "renew",
    );
}

fn pem_of_leaf(chain: &str) -> &str {
    chain
        .split_inclusive("-----END CERTIFICATE-----")
        .next()
        .unwrap()
}

#[test]
fn other_bundle_keeps_the_leaf_and_a_bad_one_changes_nothing() {
    let (world, now) = (Hierarchy::new(), SystemTime::now());
    let a = world.credentials("a", "");
    assert!(a.with_bundle("hello", "", now).is_err());
    let other = Authority::create(DOMAIN, now).unwrap();
    let told = a.with_bundle(other.certificate_pem(), "", now).unwrap();
    assert_eq!(told.own_id(), a.own_id());
    assert_eq!(
        told.overview().certificate_chain,
        a.overview().certificate_chain
    );
    assert!(
        told.warnings()[0].contains("not vouched for"),
        "{:?}",
        told.warnings()
    );
    assert!(!told.is_from_newest_authority());
}

#[test]
fn renewal_is_due_before_the_leaf_expires() {
    let a = Hierarchy::new().credentials("a", "");
    let now = SystemTime::now();
    for random in [0, 1, u64::MAX] {
        let due = a.renewal_due(now, random);
        assert!(due > DAY / 3 && due < DAY * 2 / 3, "{due:?}");
        assert!(a.renewal_due(now + DAY, random).is_zero());
    }
}
