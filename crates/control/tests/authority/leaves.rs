//! A certificate gets its workload the next one; what a request wishes for is ignored.

use control::authority::{Refused, Settings};
use identity::certificate::{self, workload_id};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, SanType};

use crate::world::{DAY, HOUR, MINUTE, World, csr, ders, id, workload};

/// The refusal must say this.
#[track_caller]
fn refused(result: Result<impl Sized, Refused>, reason: &str) {
    let error = result.err().unwrap();
    assert!(matches!(error, Refused::Leaf(_)), "{error}");
    assert!(error.to_string().contains(reason), "{error}");
}

#[test]
fn certificate_is_renewed_under_its_own_identity() {
    let mut world = World::new();
    let mut a = world.enrol("a");
    for _ in 0..5 {
        world.now += 12 * HOUR;
        a.renew(&world).unwrap();
        assert_eq!(workload_id(&ders(&a.chain)[0]).unwrap(), id("a"));
    }
    let error = world.renew(&a.chain, &csr("b")).unwrap_err();
    assert!(matches!(error, Refused::Request(_)), "{error}");
}

#[test]
fn certificate_that_is_over_renews_nothing() {
    let mut world = World::new();
    let a = world.enrol("a");
    world.now += DAY + MINUTE / 60;
    refused(world.renew(&a.chain, &csr("a")), "expired");
}

#[test]
fn certificate_of_another_authority_renews_nothing() {
    let (world, other) = (World::new(), World::new());
    let a = other.enrol("a");
    refused(world.renew(&a.chain, &csr("a")), "unknown_issuer");
}

#[test]
fn certificate_that_is_in_no_record_renews_nothing() {
    let mut world = World::new();
    let a = world.enrol("a");
    world.stop();
    std::fs::remove_file(world.dir.path().join("issued.log")).unwrap();
    world.restart().unwrap();
    refused(world.renew(&a.chain, &csr("a")), "not in the records");
}

#[test]
fn workload_under_another_account_must_enrol_again() {
    let world = World::new();
    let a = world.enrol("a");
    world
        .mesh
        .lock()
        .unwrap()
        .insert(workload("a"), id("other"));
    let error = world.renew(&a.chain, &csr("a")).unwrap_err();
    assert!(matches!(error, Refused::NotInTheMesh(_)), "{error}");
    let signed = world
        .redeem(world.token("a").as_str(), &csr("other"))
        .unwrap();
    assert_eq!(signed.id, id("other"));
}

fn wishing(wish: impl FnOnce(&mut CertificateParams), key: &KeyPair) -> Vec<u8> {
    let mut params = CertificateParams::default();
    wish(&mut params);
    params.serialize_request(key).unwrap().der().to_vec()
}

#[test]
fn wishes_of_a_request_are_ignored_or_refused() {
    let (world, key) = (World::new(), KeyPair::generate().unwrap());
    let ca = wishing(
        |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained),
        &key,
    );
    let signed = world.redeem(world.token("a").as_str(), &ca).unwrap();
    let leaf = &ders(&signed.chain_pem)[0];
    assert!(!certificate::summary(leaf).unwrap().is_authority);
    assert_eq!(workload_id(leaf).unwrap(), id("a"));
    let name = SanType::DnsName("bank.example".try_into().unwrap());
    let named = wishing(|params| params.subject_alt_names = vec![name], &key);
    let error = world.redeem(world.token("a").as_str(), &named).unwrap_err();
    assert!(matches!(error, Refused::Request(_)), "{error}");
    let other = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let error = world.redeem(world.token("a").as_str(), &wishing(|_| {}, &other));
    assert!(error.unwrap_err().to_string().contains("P-256"));
}

#[test]
fn intermediate_is_replaced_at_half_its_life_and_sidecars_follow() {
    let settings = Settings {
        issuer_ttl: 10 * DAY,
        ..Settings::default()
    };
    let mut world = World::with(settings);
    let mut a = world.enrol("a");
    for _ in 0..9 {
        world.now += 12 * HOUR;
        world.advance(0);
        assert!(a.credentials(&world).is_from_newest_authority());
        a.renew(&world).unwrap();
    }
    world.now += 12 * HOUR;
    world.advance(0);
    a.learn(&world);
    assert!(!a.credentials(&world).is_from_newest_authority());
    assert_eq!(world.authority().status(world.now).to_renew, 1);
    a.renew(&world).unwrap();
    assert!(a.credentials(&world).is_from_newest_authority());
    // The old one goes when its last certificate has expired.
    assert_eq!(world.authority().status(world.now).issuers.len(), 2);
    world.now += DAY + 6 * MINUTE;
    world.advance(0);
    assert_eq!(world.authority().status(world.now).issuers.len(), 1);
}

#[test]
fn rotation_of_leaves_makes_every_sidecar_renew_without_a_gap() {
    let world = World::new();
    let (mut a, mut b) = (world.enrol("a"), world.enrol("b"));
    world.authority().rotate_leaves(world.now).unwrap();
    // Before anybody is told.
    let newest = world.enrol("a");
    assert_eq!(b.accepts(&newest.chain, &world), Ok(id("a")));
    b.learn(&world);
    assert!(!b.credentials(&world).is_from_newest_authority());
    b.renew(&world).unwrap();
    assert_eq!(a.accepts(&b.chain, &world), Ok(id("b")));
    assert_eq!(b.accepts(&a.chain, &world), Ok(id("a")));
    a.renew(&world).unwrap();
    assert!(a.credentials(&world).is_from_newest_authority());
    let before = world.authority().own_credentials(world.now).unwrap();
    assert!(before.is_from_newest_authority());
}

#[test]
fn leaves_are_not_rotated_without_end() {
    let world = World::new();
    let mut made = 0;
    let error = loop {
        let _keeps = world.enrol(["a", "b"][made % 2]);
        match world.authority().rotate_leaves(world.now) {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 100);
    };
    assert!(error.to_string().contains("wait"), "{error}");
}

#[test]
fn control_plane_renews_its_own_certificate_and_takes_bundles_over() {
    let mut world = World::new();
    let own = |world: &World| world.authority().own_credentials(world.now).unwrap();
    let first = own(&world);
    assert_eq!(first.own_id().path(), "/ns/leno-system/sa/leno-control");
    assert_eq!(first.warnings(), &[] as &[String]);
    assert!(std::sync::Arc::ptr_eq(&first, &own(&world)));
    world.now += 11 * HOUR;
    assert!(std::sync::Arc::ptr_eq(&first, &own(&world)));
    world.now += 2 * HOUR;
    let second = own(&world);
    assert!(second.not_after() > first.not_after());
    world.enrol("a");
    world.authority().remove(&workload("a"), world.now).unwrap();
    let told = own(&world);
    assert_eq!(told.bundle().revoked_count(), 1);
    assert_eq!(told.not_after(), second.not_after());
}
