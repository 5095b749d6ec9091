//! What the authority signs, what it refuses, and that other tools agree.

use std::time::{Duration, SystemTime};

use identity::SpiffeId;
use identity::ca::{Authority, Error, LEAF_TTL};
use identity::certificate::{self, workload_id};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::world::{DAY, DOMAIN, World, id, openssl};

fn leaf(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

#[test]
fn leaf_is_backdated_and_never_outlives_the_authority() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_790_000_000);
    let ca = Authority::create(DOMAIN, now).unwrap();
    let issued = ca.issue(&id("web"), LEAF_TTL, now).unwrap();
    assert_eq!(issued.not_before, now - Duration::from_secs(300));
    assert_eq!(issued.not_after, now + LEAF_TTL);
    let late = now + 3649 * DAY;
    let clamped = ca.issue(&id("web"), 30 * DAY, late).unwrap();
    let authority = certificate::validity(ca.certificate()).unwrap();
    assert_eq!(clamped.not_after, *authority.end());
    let expired = ca.issue(&id("web"), DAY, now + 3651 * DAY).unwrap_err();
    assert!(matches!(expired, Error::Expired { .. }), "{expired}");
}

#[test]
fn ids_outside_its_reach_are_refused() {
    let world = World::new();
    let issue = |text: &str| {
        let id = SpiffeId::parse(text).unwrap();
        world.ca.issue(&id, DAY, SystemTime::now()).unwrap_err()
    };
    assert!(matches!(
        issue("spiffe://other/ns/a/sa/b"),
        Error::OtherTrustDomain { .. }
    ));
    assert!(matches!(
        issue("spiffe://cluster.local"),
        Error::NoWorkload(_)
    ));
    let ttl = |ttl| {
        world
            .ca
            .issue(&id("web"), ttl, SystemTime::now())
            .unwrap_err()
    };
    for impossible in [Duration::ZERO, Duration::MAX, 4000 * DAY] {
        assert!(
            matches!(ttl(impossible), Error::Validity(_)),
            "{impossible:?}"
        );
    }
    assert!(matches!(
        Authority::create("Bad Name", SystemTime::now()),
        Err(Error::Name(_))
    ));
}

#[test]
fn authority_with_the_longest_trust_domain_works() {
    let domain = "d".repeat(255);
    let ca = Authority::create(&domain, SystemTime::now()).unwrap();
    let id = SpiffeId::of_service_account(&domain, "n", "s").unwrap();
    let issued = ca.issue(&id, DAY, SystemTime::now()).unwrap();
    assert_eq!(workload_id(&leaf(&issued.chain_pem)).unwrap(), id);
}

#[test]
fn serials_are_random_and_positive() {
    let world = World::new();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..20 {
        let issued = world.ca.issue(&id("web"), DAY, SystemTime::now()).unwrap();
        let serial = certificate::summary(&leaf(&issued.chain_pem))
            .unwrap()
            .serial;
        assert!(
            serial.len() == 32 && serial.as_bytes()[0] < b'8',
            "{serial}"
        );
        assert!(seen.insert(serial));
    }
}

#[test]
fn saved_authority_goes_on_signing_after_a_reload() {
    let world = World::new();
    let again = Authority::load(world.dir.path()).unwrap();
    assert_eq!(again.trust_domain(), DOMAIN);
    world.issue_from(&again, "web", SystemTime::now());
    let loaded = identity::credentials::Credentials::load(&world.paths("web"), DOMAIN).unwrap();
    assert!(loaded.warnings().is_empty(), "{:?}", loaded.warnings());
}

#[test]
fn unusable_authority_files_are_named() {
    let world = World::new();
    let check = |expected: &str| {
        let text = Authority::load(world.dir.path()).unwrap_err().to_string();
        assert!(text.contains("ca.") && text.contains(expected), "{text}");
    };
    let other = Authority::create(DOMAIN, SystemTime::now()).unwrap();
    std::fs::write(world.path("ca.pem"), other.certificate_pem()).unwrap();
    check("do not belong together");
    world.issue("web");
    std::fs::copy(world.path("web.pem"), world.path("ca.pem")).unwrap();
    check("may not sign");
    std::fs::write(world.path("ca.pem"), "nothing").unwrap();
    check("no PEM certificate");
    std::fs::remove_file(world.path("ca.pem")).unwrap();
    check("cannot read");
}

fn request(key: &rcgen::KeyPair, names: &[&str]) -> Vec<u8> {
    let mut params = rcgen::CertificateParams::default();
    let uri = |name: &&str| rcgen::SanType::URI((*name).try_into().unwrap());
    params.subject_alt_names = names.iter().map(uri).collect();
    params.serialize_request(key).unwrap().der().to_vec()
}

#[test]
fn signing_request_gives_a_chain_for_the_requesters_key() {
    let world = World::new();
    let key = rcgen::KeyPair::generate().unwrap();
    let web = id("web");
    for names in [&[][..], &[web.as_str()][..]] {
        let request = request(&key, names);
        let chain = world
            .ca
            .sign_csr(&request, &web, DAY, SystemTime::now())
            .unwrap();
        std::fs::write(world.path("web.pem"), chain.pem).unwrap();
        std::fs::write(world.path("web.key"), key.serialize_pem()).unwrap();
        let paths = world.paths("web");
        let loaded = identity::credentials::Credentials::load(&paths, DOMAIN).unwrap();
        assert_eq!(loaded.own_id(), &web);
    }
}

#[test]
fn signing_request_must_prove_possession_of_a_p256_key() {
    let world = World::new();
    let sign = |request: &[u8]| {
        let error = world
            .ca
            .sign_csr(request, &id("web"), DAY, SystemTime::now())
            .unwrap_err();
        assert!(matches!(error, Error::Request(_)), "{error}");
        error.to_string()
    };
    let key = rcgen::KeyPair::generate().unwrap();
    let mut forged = request(&key, &[]);
    let last = forged.len() - 1;
    forged[last] ^= 1;
    assert!(sign(&forged).contains("signature"), "{}", sign(&forged));
    let p384 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    assert!(sign(&request(&p384, &[])).contains("P-256"));
    assert!(sign(&request(&key, &["spiffe://cluster.local/ns/a/sa/b"])).contains("other than"));
    sign(b"");
    sign(b"-----BEGIN nonsense");
}

#[test]
fn openssl_accepts_the_chain_for_both_sides() {
    let world = World::new();
    world.issue("web");
    for purpose in ["sslserver", "sslclient"] {
        let args = [
            "verify",
            "-x509_strict",
            "-purpose",
            purpose,
            "-CAfile",
            "ca.pem",
            "web.pem",
        ];
        let Some(text) = openssl(&args, world.dir.path()) else {
            return;
        };
        assert!(text.contains("web.pem: OK"), "{text}");
    }
    let args = [
        "x509",
        "-in",
        "web.pem",
        "-noout",
        "-ext",
        "subjectAltName,keyUsage",
    ];
    let text = openssl(&args, world.dir.path()).unwrap();
    assert!(
        text.contains("URI:spiffe://cluster.local/ns/default/sa/web"),
        "{text}"
    );
    assert!(text.contains("Digital Signature"), "{text}");
}

#[test]
fn request_made_by_openssl_is_signed() {
    let world = World::new();
    let args = [
        "req",
        "-new",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ];
    let args = [
        &args[..],
        &["-keyout", "web.key", "-out", "web.csr", "-subj", "/CN=x"],
    ]
    .concat();
    if openssl(&args, world.dir.path()).is_none() {
        return;
    }
    let request = std::fs::read(world.path("web.csr")).unwrap();
    let chain = world
        .ca
        .sign_csr(&request, &id("web"), DAY, SystemTime::now())
        .unwrap();
    std::fs::write(world.path("web.pem"), chain.pem).unwrap();
    let args = ["verify", "-x509_strict", "-CAfile", "ca.pem", "web.pem"];
    assert!(openssl(&args, world.dir.path()).unwrap().contains("OK"));
}
