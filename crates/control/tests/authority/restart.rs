//! What is on the disk: it survives, it is private, it is one control plane's, and what is torn or
//! forged is found.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use control::authority::{Authority, Error, Settings};

use crate::world::{HOUR, MINUTE, World, csr, id};

#[test]
fn nothing_is_new_after_a_restart() {
    let mut world = World::new();
    let mut a = world.enrol("a");
    let (bundle, enrolled) = (world.authority().bundle(), world.authority().enrolled());
    world.now += HOUR;
    world.restart().unwrap();
    assert_eq!(world.authority().bundle(), bundle);
    assert_eq!(world.authority().enrolled(), enrolled);
    a.renew(&world).unwrap();
    assert!(a.credentials(&world).is_from_newest_authority());
}

#[test]
fn nothing_is_written_where_nothing_has_changed() {
    let mut world = World::new();
    world.enrol("a");
    let path = world.dir.path().join("authority.json");
    // Each writing makes another file.
    let file = || {
        let found = std::fs::metadata(&path).unwrap();
        (found.ino(), found.mtime(), found.mtime_nsec())
    };
    let before = file();
    for _ in 0..3 {
        world.now += MINUTE / 60;
        world.authority().advance(world.now, u64::MAX).unwrap();
    }
    assert_eq!(file(), before);
    world.authority().rotate_leaves(world.now).unwrap();
    assert_ne!(file(), before);
}

fn modes(dir: &Path, found: &mut Vec<(String, u32)>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        let name = entry.file_name().into_string().unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => {
                assert_eq!(mode, 0o700, "{name}");
                modes(&entry.path(), found);
            }
            false => found.push((name, mode)),
        }
    }
}

#[test]
fn files_are_their_owners_alone_but_for_what_everybody_may_know() {
    let world = World::new();
    world.enrol("a");
    let dir = std::fs::metadata(world.dir.path()).unwrap();
    assert_eq!(dir.permissions().mode() & 0o777, 0o700);
    let mut found = Vec::new();
    modes(world.dir.path(), &mut found);
    assert!(found.len() >= 7, "{found:?}");
    for (name, mode) in found {
        let public = ["root.pem", "ca.pem"].contains(&&*name);
        assert_eq!(mode, if public { 0o644 } else { 0o600 }, "{name}");
    }
    let roots = std::fs::read_to_string(world.dir.path().join("root.pem")).unwrap();
    assert!(world.authority().bundle().authorities.ends_with(&roots));
    assert!(!roots.contains("PRIVATE"));
}

#[test]
fn two_control_planes_do_not_share_a_directory() {
    let world = World::new();
    let error = world.open().unwrap_err();
    assert!(matches!(error, Error::InUse(_)), "{error}");
}

#[test]
fn line_that_was_being_written_is_forgotten_and_a_forged_one_found() {
    let mut world = World::new();
    let (mut a, ledger) = (world.enrol("a"), world.dir.path().join("issued.log"));
    world.stop();
    let whole = std::fs::read_to_string(&ledger).unwrap();
    std::fs::write(&ledger, format!("{whole}{{\"issued\":{{\"ser")).unwrap();
    world.restart().unwrap();
    a.renew(&world).unwrap();
    world.stop();
    let text = std::fs::read_to_string(&ledger).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    std::fs::write(&ledger, format!("hello\n{text}")).unwrap();
    let error = world.restart().unwrap_err().to_string();
    assert!(error.contains("issued.log"), "{error}");
}

#[test]
fn state_that_says_something_else_is_found() {
    let mut world = World::new();
    world.stop();
    let path = world.dir.path().join("authority.json");
    let good = std::fs::read_to_string(&path).unwrap();
    let mut check = |text: &str, reason: &str| {
        std::fs::write(&path, text).unwrap();
        let error = world.restart().unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    check("", "authority.json");
    check(
        &good.replace("\"version\": 1", "\"version\": 2"),
        "version 2",
    );
    check(&good.replace("\"since\"", "\"until\""), "authority.json");
    std::fs::write(&path, &good).unwrap();
    world.restart().unwrap();
}

#[test]
fn directory_of_another_trust_domain_is_refused() {
    let mut world = World::new();
    world.stop();
    let opened = Authority::open(world.dir.path(), "other", Settings::default(), world.now);
    let error = opened.unwrap_err();
    assert!(matches!(error, Error::TrustDomain { .. }), "{error}");
}

#[test]
fn key_of_an_authority_that_is_gone_is_removed() {
    let mut world = World::new();
    world.authority().rotate_leaves(world.now).unwrap();
    world.advance(0);
    world.restart().unwrap();
    let authorities = std::fs::read_dir(world.dir.path().join("authorities")).unwrap();
    assert_eq!(authorities.count(), 2, "a root and an intermediate");
    let signed = world.redeem(world.token("a").as_str(), &csr("a")).unwrap();
    assert_eq!(signed.id, id("a"));
}

#[test]
fn control_plane_that_was_away_for_long_issues_again() {
    let mut world = World::new();
    world.stop();
    world.now += 100 * 24 * HOUR;
    world.restart().unwrap();
    let a = world.enrol("a");
    assert_eq!(a.accepts(&a.chain, &world), Ok(id("a")));
    world.authority().own_credentials(world.now).unwrap();
}
