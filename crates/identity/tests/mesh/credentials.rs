//! Credentials are read as a whole or not at all, and errors say which file and what to do.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

use identity::ca::Authority;
use identity::credentials::{Credentials, Error, Paths};

use crate::world::{DAY, DOMAIN, World, id};

fn load(paths: &Paths) -> Result<Credentials, Error> {
    Credentials::load(paths, DOMAIN)
}

/// The error must name the file and contain the advice.
#[track_caller]
fn check(paths: &Paths, file: &Path, advice: &str) {
    let text = load(paths).unwrap_err().to_string();
    assert!(text.contains(file.to_str().unwrap()), "{text}");
    assert!(text.contains(advice), "{text}");
}

#[test]
fn overview_shows_what_an_operator_looks_for() {
    let world = World::new();
    let credentials = world.credentials("web");
    assert_eq!(credentials.own_id(), &id("web"));
    assert!(credentials.warnings().is_empty());
    let overview = credentials.overview();
    let [leaf] = &overview.certificate_chain[..] else {
        panic!("{overview:?}")
    };
    let [root] = &overview.trust_bundle[..] else {
        panic!("{overview:?}")
    };
    assert_eq!(leaf.subject, "spiffe://cluster.local/ns/default/sa/web");
    assert_eq!(root.subject, "spiffe://cluster.local");
    assert_eq!((leaf.is_authority, root.is_authority), (false, true));
    assert_eq!((leaf.serial.len(), leaf.sha256.len()), (32, 64));
    assert!(leaf.issuer.contains("of cluster.local"), "{leaf:?}");
    assert!(leaf.not_after.ends_with('Z') && leaf.not_before < leaf.not_after);
}

#[test]
fn missing_file_is_named() {
    let world = World::new();
    let good = world.issue("web");
    let gone = world.path("gone");
    check(
        &Paths {
            certificate: gone.clone(),
            ..good.clone()
        },
        &gone,
        "check the path",
    );
    check(
        &Paths {
            key: gone.clone(),
            ..good.clone()
        },
        &gone,
        "check the path",
    );
    check(
        &Paths {
            trust_bundle: gone.clone(),
            ..good
        },
        &gone,
        "check the path",
    );
}

#[test]
fn file_with_something_else_in_it_is_named() {
    let world = World::new();
    let good = world.issue("web");
    let text = world.path("text");
    std::fs::write(&text, "hello\n").unwrap();
    check(
        &Paths {
            certificate: text.clone(),
            ..good.clone()
        },
        &text,
        "no certificate",
    );
    check(
        &Paths {
            key: text.clone(),
            ..good.clone()
        },
        &text,
        "no private key",
    );
    check(
        &Paths {
            trust_bundle: text.clone(),
            ..good.clone()
        },
        &text,
        "no certificate",
    );
    let swapped = Paths {
        certificate: good.key.clone(),
        ..good.clone()
    };
    check(&swapped, &good.key, "no certificate");
    let torn = std::fs::read(&good.certificate).unwrap();
    std::fs::write(&text, &torn[..torn.len() / 2]).unwrap();
    check(
        &Paths {
            certificate: text.clone(),
            ..good
        },
        &text,
        "as `leno cert` writes it",
    );
}

#[test]
fn key_of_another_certificate_is_refused() {
    let world = World::new();
    let (a, b) = (world.issue("a"), world.issue("b"));
    check(
        &Paths {
            key: b.key.clone(),
            ..a
        },
        &b.key,
        "is not the key of",
    );
}

#[test]
fn key_that_is_not_p256_is_refused() {
    let world = World::new();
    let paths = world.issue("web");
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    std::fs::write(&paths.key, key.serialize_pem()).unwrap();
    check(&paths, &paths.key, "P-256");
}

#[test]
fn expired_certificate_is_refused_and_told_apart_from_a_future_one() {
    let world = World::new();
    let ca = Authority::create(DOMAIN, SystemTime::now() - 10 * DAY).unwrap();
    let paths = world.issue_from(&ca, "web", SystemTime::now() - 2 * DAY);
    check(&paths, &paths.certificate, "issue a new certificate");
    let paths = world.issue_from(&world.ca, "web", SystemTime::now() + DAY);
    check(&paths, &paths.certificate, "set the clock");
}

#[test]
fn certificate_of_another_trust_domain_is_refused() {
    let world = World::new();
    let paths = world.issue("web");
    let error = Credentials::load(&paths, "other.domain")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("not in the trust domain `other.domain`"),
        "{error}"
    );
    assert!(Credentials::load(&paths, "Not Valid").is_err());
}

#[test]
fn authority_is_no_workload() {
    let world = World::new();
    let paths = Paths {
        certificate: world.path("ca.pem"),
        key: world.path("ca.key"),
        trust_bundle: world.path("ca.pem"),
    };
    check(&paths, &paths.certificate, "issue a leaf");
}

#[test]
fn key_that_others_may_read_is_a_warning() {
    let world = World::new();
    let paths = world.issue("web");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&paths.key), mode(&paths.certificate)), (0o600, 0o644));
    assert_eq!(mode(&world.path("ca.key")), 0o600);
    std::fs::set_permissions(&paths.key, PermissionsExt::from_mode(0o640)).unwrap();
    let credentials = load(&paths).unwrap();
    let [warning] = credentials.warnings() else {
        panic!("{:?}", credentials.warnings())
    };
    assert!(
        warning.contains("mode 0640") && warning.contains("chmod 600"),
        "{warning}"
    );
}

#[test]
fn expired_authority_is_left_out_of_the_bundle() {
    let world = World::new();
    let paths = world.issue("web");
    let old = Authority::create(DOMAIN, SystemTime::now() - 4000 * DAY).unwrap();
    let bundle = world.path("bundle.pem");
    let paths = Paths {
        trust_bundle: bundle.clone(),
        ..paths
    };
    std::fs::write(&bundle, old.certificate_pem()).unwrap();
    check(&paths, &bundle, "renew the trust bundle");
    let both = format!("{}{}", old.certificate_pem(), world.ca.certificate_pem());
    std::fs::write(&bundle, both).unwrap();
    let credentials = load(&paths).unwrap();
    assert_eq!(credentials.overview().trust_bundle.len(), 1);
    assert!(
        credentials.warnings()[0].contains("left out"),
        "{:?}",
        credentials.warnings()
    );
}

#[test]
fn fingerprint_follows_the_authorities_not_the_file() {
    let world = World::new();
    let paths = world.issue("web");
    let first = load(&paths).unwrap().bundle_fingerprint();
    world.issue("web");
    assert_eq!(load(&paths).unwrap().bundle_fingerprint(), first);
    let twice = world.ca.certificate_pem().repeat(2);
    std::fs::write(&paths.trust_bundle, format!("# a comment\n{twice}")).unwrap();
    assert_eq!(load(&paths).unwrap().bundle_fingerprint(), first);
}

#[test]
fn debug_output_holds_no_key() {
    let world = World::new();
    let text = format!("{:?} {:?}", world.credentials("web"), world.ca);
    assert!(
        text.contains("sa/web") && !text.contains("PRIVATE"),
        "{text}"
    );
}
