//! What a workload was given is taken back when it leaves the mesh.

use control::authority::Refused;
use control::kinds::WorkloadKey;

use crate::world::{DAY, HOUR, MINUTE, World, csr, id, workload};

#[test]
fn removed_workload_is_refused_by_everybody_who_was_told() {
    let world = World::new();
    let (a, mut b) = (world.enrol("a"), world.enrol("b"));
    let mut watch = world.authority().watch();
    assert_eq!(
        world.authority().remove(&workload("a"), world.now).unwrap(),
        1
    );
    assert!(watch.has_changed().unwrap());
    watch.mark_unchanged();
    assert_eq!(b.accepts(&a.chain, &world), Ok(id("a")), "not told yet");
    let before = b.credentials(&world).bundle_fingerprint();
    b.learn(&world);
    assert_ne!(b.credentials(&world).bundle_fingerprint(), before);
    assert_eq!(b.accepts(&a.chain, &world), Err("revoked"));
    assert_eq!(b.accepts(&b.chain, &world), Ok(id("b")));
    let error = world.renew(&a.chain, &csr("a")).unwrap_err();
    assert!(matches!(error, Refused::Leaf(_)), "{error}");
    assert_eq!(world.authority().enrolled(), [workload("b")]);
    // Once more changes nothing.
    assert_eq!(
        world.authority().remove(&workload("a"), world.now).unwrap(),
        0
    );
    assert!(!watch.has_changed().unwrap());
}

#[test]
fn all_certificates_of_a_workload_are_revoked_and_its_tokens_void() {
    let mut world = World::new();
    let mut a = world.enrol("a");
    let first = a.chain.clone();
    world.now += HOUR;
    a.renew(&world).unwrap();
    let token = world.token("a");
    assert_eq!(
        world.authority().remove(&workload("a"), world.now).unwrap(),
        2
    );
    let b = world.enrol("b");
    for chain in [&first, &a.chain] {
        assert_eq!(b.accepts(chain, &world), Err("revoked"));
    }
    let error = world.redeem(token.as_str(), &csr("a")).unwrap_err();
    assert!(matches!(error, Refused::Token), "{error}");
}

#[test]
fn workload_may_come_back_with_a_new_token() {
    let world = World::new();
    let old = world.enrol("a");
    world.authority().remove(&workload("a"), world.now).unwrap();
    let (new, b) = (world.enrol("a"), world.enrol("b"));
    assert_eq!(b.accepts(&new.chain, &world), Ok(id("a")));
    assert_eq!(b.accepts(&old.chain, &world), Err("revoked"));
}

#[test]
fn removal_survives_a_restart_and_ends_with_the_certificate() {
    let mut world = World::new();
    let a = world.enrol("a");
    world.authority().remove(&workload("a"), world.now).unwrap();
    let told = world.authority().bundle();
    world.restart().unwrap();
    assert_eq!(world.authority().bundle(), told, "nothing new to push");
    let b = world.enrol("b");
    assert_eq!(b.accepts(&a.chain, &world), Err("revoked"));
    world.now += DAY;
    world.advance(0);
    assert_ne!(
        world.authority().bundle().revocations,
        "",
        "a clock may be behind"
    );
    world.now += 6 * MINUTE;
    world.advance(0);
    assert_eq!(world.authority().bundle().revocations, "");
    world.restart().unwrap();
    assert_eq!(world.authority().status(world.now).revoked, 0);
}

#[test]
fn lists_are_signed_anew_before_they_are_old_and_mean_the_same() {
    let settings = control::authority::Settings {
        leaf_ttl: 30 * DAY,
        ..Default::default()
    };
    let mut world = World::with(settings);
    world.enrol("a");
    world.authority().remove(&workload("a"), world.now).unwrap();
    let mut b = world.enrol("b");
    let (before, print) = (
        world.authority().bundle(),
        b.credentials(&world).bundle_fingerprint(),
    );
    world.now += 3 * DAY;
    world.advance(0);
    assert_eq!(world.authority().bundle(), before);
    world.now += DAY;
    world.advance(0);
    assert_ne!(world.authority().bundle().revocations, before.revocations);
    b.learn(&world);
    assert_eq!(b.credentials(&world).bundle_fingerprint(), print);
}

#[test]
fn what_does_not_fit_the_mesh_any_more_is_taken_back() {
    let world = World::new();
    let (a, b) = (world.enrol("a"), world.enrol("b"));
    let [gone, changed] = [world.token("a"), world.token("b")];
    let (directory, mut watch) = (world.directory(), world.authority().watch());
    let keeps = |workload: &WorkloadKey, id: &str| {
        directory(workload).is_some_and(|found| found.as_str() == id)
    };
    let reconcile = || world.authority().reconcile(&keeps, world.now).unwrap();
    watch.mark_unchanged();
    assert_eq!(reconcile(), []);
    assert!(!watch.has_changed().unwrap());
    world.mesh.lock().unwrap().remove(&workload("a"));
    world
        .mesh
        .lock()
        .unwrap()
        .insert(workload("b"), id("other"));
    assert_eq!(reconcile(), [workload("a"), workload("b")]);
    assert!(watch.has_changed().unwrap());
    let mut told = world.enrol_as("b", "other");
    told.learn(&world);
    for chain in [&a.chain, &b.chain] {
        assert_eq!(told.accepts(chain, &world), Err("revoked"));
    }
    for token in [gone, changed] {
        let error = world.redeem(token.as_str(), &csr("a")).unwrap_err();
        assert!(matches!(error, Refused::Token), "{error}");
    }
    assert_eq!(reconcile(), []);
    assert_eq!(told.accepts(&told.chain, &world), Ok(id("other")));
}
