//! A root that the operator keeps: its key is never copied.

use control::authority::{Error, Phase, Settings};
use identity::ca;
use tempfile::TempDir;

use crate::world::{DOMAIN, MINUTE, World, id};

fn external() -> (TempDir, World) {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings {
        ca: Some(dir.path().to_owned()),
        ..Settings::default()
    };
    put_root(&dir);
    let world = World::with(settings);
    (dir, world)
}

fn put_root(dir: &TempDir) -> String {
    let now = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_799_000_000);
    let root = ca::Authority::create(DOMAIN, now).unwrap();
    root.save(dir.path()).unwrap();
    root.certificate_pem().to_owned()
}

fn keys(dir: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    let count = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => keys(&entry.path()),
        false => usize::from(entry.file_name() == "ca.key"),
    });
    count.sum()
}

#[test]
fn key_of_the_operators_root_is_not_copied() {
    let (dir, mut world) = external();
    assert_eq!(keys(world.dir.path()), 1, "the intermediate's");
    world.enrol("a");
    let root = std::fs::read_to_string(dir.path().join("ca.pem")).unwrap();
    assert!(world.authority().bundle().authorities.ends_with(&root));
    world.restart().unwrap();
    world.authority().rotate_leaves(world.now).unwrap();
}

#[test]
fn authority_goes_on_without_the_root_as_long_as_it_can() {
    let (dir, mut world) = external();
    dir.close().unwrap();
    world.restart().unwrap();
    let a = world.enrol("a");
    assert_eq!(a.accepts(&a.chain, &world), Ok(id("a")));
    let error = world.authority().rotate_leaves(world.now).unwrap_err();
    assert!(matches!(error, Error::NoRootKey), "{error}");
    world.now += 60 * crate::world::DAY;
    world.advance(0);
    world.enrol("a");
}

#[test]
fn rotation_takes_the_new_root_from_the_operators_directory() {
    let (dir, mut world) = external();
    let error = world.authority().begin_rotation(world.now).unwrap_err();
    assert!(matches!(error, Error::SameRoot(_)), "{error}");
    let root = put_root(&dir);
    world.restart().unwrap();
    let phase = world.authority().begin_rotation(world.now).unwrap();
    assert_eq!(phase, Phase::Distributing);
    world.restart().unwrap();
    let phases = [
        Phase::Issuing,
        Phase::Reconnecting,
        Phase::Retiring,
        Phase::Stable,
    ];
    for phase in phases {
        let reach = |world: &mut World| {
            world.now += MINUTE;
            (world.advance(u64::MAX) == phase).then_some(())
        };
        (0..2).find_map(|_| reach(&mut world)).unwrap();
        world.restart().unwrap();
    }
    let roots = std::fs::read_to_string(world.dir.path().join("root.pem")).unwrap();
    assert_eq!(roots, root);
}
