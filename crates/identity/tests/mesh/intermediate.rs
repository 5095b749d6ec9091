//! A root, an intermediate that issues, and leaves: who vouches for whom, and which is newest.

use std::time::{Duration, SystemTime};

use identity::TrustBundle;
use identity::ca::{Authority, Error};
use identity::certificate;
use identity::tls;

use crate::world::{DAY, DOMAIN, Hierarchy, assemble, client, handshake, id, openssl, server};

#[test]
fn leaf_brings_its_intermediate_along() {
    let world = Hierarchy::new();
    let (chain, key) = world.enrol("a");
    assert_eq!(chain.pem.matches("BEGIN CERTIFICATE").count(), 2);
    // The peer knows the root alone.
    let a = assemble(&chain.pem, &key, world.root.certificate_pem(), "").unwrap();
    let b = world.credentials("b", "");
    assert_eq!((a.warnings(), b.warnings()), (&[][..], &[][..]));
    let pair = handshake(&server(&a), &client(&b, "a")).unwrap();
    let chain = pair.server.peer_certificates().unwrap();
    assert_eq!(tls::peer_id(chain).unwrap(), id("b"));
    handshake(&server(&b), &client(&a, "b")).ok().unwrap();
}

#[test]
fn intermediate_signs_leaves_only() {
    let world = Hierarchy::new();
    let again = world.issuer.intermediate(DAY, SystemTime::now());
    assert!(matches!(again.unwrap_err(), Error::NotRoot));
}

#[test]
fn nobody_outlives_who_vouches_for_him() {
    let now = SystemTime::now();
    let root = Authority::create(DOMAIN, now).unwrap();
    let late = now + 3640 * DAY;
    let issuer = root.intermediate(30 * DAY, late).unwrap();
    assert_eq!(issuer.validity().end(), root.validity().end());
    let issuer = root.intermediate(DAY, now).unwrap();
    let issued = issuer.issue(&id("web"), 2 * DAY, now).unwrap();
    assert_eq!(issued.not_after, *issuer.validity().end());
}

#[test]
fn intermediate_survives_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let world = Hierarchy::new();
    world.issuer.save(dir.path()).unwrap();
    let again = Authority::load(dir.path()).unwrap();
    let issued = again.issue(&id("a"), DAY, SystemTime::now()).unwrap();
    assert!(issued.chain_pem.ends_with(world.issuer.certificate_pem()));
    assert!(matches!(
        again.intermediate(DAY, SystemTime::now()).unwrap_err(),
        Error::NotRoot
    ));
}

#[test]
fn order_of_the_bundle_says_who_issues_but_not_who_is_trusted() {
    let (now, world) = (SystemTime::now(), Hierarchy::new());
    let (chain, key) = world.enrol("a");
    let old = assemble(&chain.pem, &key, &world.bundle(), "").unwrap();
    assert!(old.is_from_newest_authority());
    let newer = world.root.intermediate(DAY, now).unwrap();
    let bundle = newer.certificate_pem().to_owned() + &world.bundle();
    let told = old.with_bundle(&bundle, "", now).unwrap();
    assert!(!told.is_from_newest_authority());
    assert_eq!(told.bundle_fingerprint(), old.bundle_fingerprint());
    assert_eq!(told.warnings(), &[] as &[String]);
    let other = Authority::create(DOMAIN, now).unwrap();
    let bundle = world.bundle() + other.certificate_pem();
    let told = old.with_bundle(&bundle, "", now).unwrap();
    assert!(told.is_from_newest_authority());
    assert_ne!(told.bundle_fingerprint(), old.bundle_fingerprint());
}

#[test]
fn intermediate_in_the_bundle_is_no_anchor_beside_its_root() {
    let world = Hierarchy::new();
    let now = SystemTime::now();
    let alone = world.issuer.certificate_pem();
    let print = |pem: &str| {
        let bundle = TrustBundle::from_pem(pem, "", DOMAIN, now).unwrap();
        bundle.fingerprint()
    };
    assert_eq!(print(&world.bundle()), print(world.root.certificate_pem()));
    assert_ne!(print(alone), print(&world.bundle()));
    // Alone it is one: somebody trusts it, and not its root.
    let (chain, key) = world.enrol("a");
    let a = assemble(&chain.pem, &key, alone, "").unwrap();
    handshake(&server(&a), &client(&a, "a")).ok().unwrap();
}

#[test]
fn openssl_agrees_with_the_chain_and_the_revocations() {
    let (dir, world) = (tempfile::tempdir().unwrap(), Hierarchy::new());
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let (chain, _) = world.enrol("a");
    let lists = [&world.issuer, &world.root].map(|authority| {
        let fresh = Duration::from_secs(60 * 60);
        authority
            .revocations(&[], 1, SystemTime::now(), fresh)
            .unwrap()
    });
    write("root.pem", world.root.certificate_pem());
    write("chain.pem", &chain.pem);
    write("lists.pem", &lists.concat());
    let verify = "verify -CAfile root.pem -untrusted chain.pem -CRLfile lists.pem -crl_check_all";
    let mut args: Vec<_> = verify.split(' ').collect();
    args.extend(["-x509_strict", "chain.pem"]);
    let Some(said) = openssl(&args, dir.path()) else {
        return;
    };
    assert!(said.contains("OK"), "{said}");
    let subject = certificate::summary(world.issuer.certificate()).unwrap();
    assert_eq!(subject.subject, "spiffe://cluster.local");
}
