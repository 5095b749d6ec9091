//! A token gets its workload a certificate: once, for ten minutes, for one key.

use control::authority::Refused;
use identity::certificate::workload_id;

use crate::world::{DAY, MINUTE, World, csr, ders, id, workload};

#[test]
fn token_gives_its_workload_a_certificate_for_a_day() {
    let world = World::new();
    let signed = world.redeem(world.token("a").as_str(), &csr("a")).unwrap();
    assert_eq!((&signed.workload, &signed.id), (&workload("a"), &id("a")));
    assert_eq!(signed.not_after, world.now + DAY);
    let chain = ders(&signed.chain_pem);
    assert_eq!(chain.len(), 2, "the leaf and the intermediate");
    assert_eq!(workload_id(&chain[0]).unwrap(), id("a"));
    assert_eq!(world.authority().enrolled(), [workload("a")]);
}

#[test]
fn token_works_again_for_the_same_key_only() {
    let world = World::new();
    let (token, request) = (world.token("a"), csr("a"));
    world.redeem(token.as_str(), &request).unwrap();
    // The answer got lost.
    world.redeem(token.as_str(), &request).unwrap();
    let stolen = world.redeem(token.as_str(), &csr("a")).unwrap_err();
    assert!(matches!(stolen, Refused::Token), "{stolen}");
}

#[test]
fn token_expires() {
    let mut world = World::new();
    let [early, late] = [world.token("a"), world.token("a")];
    world.now += 10 * MINUTE - MINUTE / 60;
    world.redeem(early.as_str(), &csr("a")).unwrap();
    world.now += MINUTE / 60;
    let error = world.redeem(late.as_str(), &csr("a")).unwrap_err();
    assert!(matches!(error, Refused::Token), "{error}");
}

#[test]
fn token_that_was_never_issued_is_refused() {
    let world = World::new();
    let token = world.token("a");
    let almost = &token.as_str()[1..];
    for guess in ["", "x", almost, &format!("{} ", token.as_str())] {
        let error = world.redeem(guess, &csr("a")).unwrap_err();
        assert!(matches!(error, Refused::Token), "{guess}: {error}");
    }
    let error = world.sign(&csr("a"), None).unwrap_err();
    assert!(matches!(error, Refused::NoProof), "{error}");
    assert_eq!(world.authority().enrolled(), []);
}

#[test]
fn token_gives_its_own_workload_only() {
    let world = World::new();
    let token = world.token("a");
    let error = world.redeem(token.as_str(), &csr("b")).unwrap_err();
    assert!(matches!(error, Refused::Request(_)), "{error}");
}

#[test]
fn bad_request_does_not_use_a_token_up() {
    let world = World::new();
    let token = world.token("a");
    let error = world.redeem(token.as_str(), b"hello").unwrap_err();
    assert!(matches!(error, Refused::Request(_)), "{error}");
    world.redeem(token.as_str(), &csr("a")).unwrap();
}

#[test]
fn workload_must_be_in_the_mesh_then_and_now() {
    let world = World::new();
    let error = world.try_token("stranger").unwrap_err();
    assert!(matches!(error, Refused::NotInTheMesh(_)), "{error}");
    let [gone, changed] = [world.token("a"), world.token("b")];
    world.mesh.lock().unwrap().remove(&workload("a"));
    world
        .mesh
        .lock()
        .unwrap()
        .insert(workload("b"), id("other"));
    for (token, name) in [(gone, "a"), (changed, "b")] {
        let error = world.redeem(token.as_str(), &csr(name)).unwrap_err();
        assert!(matches!(error, Refused::NotInTheMesh(_)), "{error}");
    }
}

#[test]
fn nobody_becomes_the_control_plane() {
    let world = World::new();
    let control = control::authority::control_id(crate::world::DOMAIN).unwrap();
    world.mesh.lock().unwrap().insert(workload("evil"), control);
    let error = world.try_token("evil").unwrap_err();
    assert!(matches!(error, Refused::Reserved(_)), "{error}");
}

#[test]
fn tokens_survive_a_restart_as_hashes_only() {
    let mut world = World::new();
    let [used, unused] = [world.token("a"), world.token("b")];
    let request = csr("a");
    world.redeem(used.as_str(), &request).unwrap();
    world.restart().unwrap();
    world.redeem(unused.as_str(), &csr("b")).unwrap();
    world.redeem(used.as_str(), &request).unwrap();
    assert!(world.redeem(used.as_str(), &csr("a")).is_err());
    for entry in std::fs::read_dir(world.dir.path()).unwrap().flatten() {
        let text = std::fs::read(entry.path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains(used.as_str()) && !text.contains(unused.as_str()));
    }
    assert_eq!(format!("{used:?}"), "Token(..)");
}

#[test]
fn workload_has_few_tokens_at_a_time() {
    let world = World::new();
    let first = world.token("a");
    let other = world.token("b");
    let rest: Vec<_> = (0..4).map(|_| world.token("a")).collect();
    assert!(world.redeem(first.as_str(), &csr("a")).is_err());
    world.redeem(other.as_str(), &csr("b")).unwrap();
    for token in rest {
        world.redeem(token.as_str(), &csr("a")).unwrap();
    }
    assert_eq!(world.authority().status(world.now).tokens, 0);
}

#[test]
fn workload_that_asks_in_a_loop_is_slowed_down() {
    let mut world = World::new();
    let request = csr("a");
    let token = world.token("a");
    let mut asked = 0;
    let wait = loop {
        match world.redeem(token.as_str(), &request) {
            Ok(_) => asked += 1,
            Err(Refused::TooOften { wait, .. }) => break wait,
            Err(other) => panic!("{other}"),
        }
        assert!(asked < 100);
    };
    world.redeem(world.token("b").as_str(), &csr("b")).unwrap();
    world.now += wait;
    world.redeem(token.as_str(), &request).unwrap();
}
