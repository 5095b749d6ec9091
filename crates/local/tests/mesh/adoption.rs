//! What a killed supervisor leaves: the next goes on with it.

use std::fs;

use local::state::State;

use crate::world::{World, ready, workload};

fn lives(state: &State) -> Vec<local::process::Identity> {
    let mut all = state.processes().concat();
    all.sort_by_key(|one| one.pid);
    all
}

#[test]
fn what_lives_goes_on_under_the_next_supervisor() {
    let Some(world) = World::make("adopt") else {
        return;
    };
    let before = world.up(&["hello", "curl"]).unwrap();
    world.kill_supervisor(&before);
    let target = world.target(&before, "hello");
    assert!(world.ask("curl", &target).contains("uid"));
    let after = world.up_again().unwrap();
    assert_ne!(after.supervisor, before.supervisor);
    assert_eq!(lives(&after), lives(&before));
    assert!(world.ask("curl", &target).contains("uid"));
    // It sees ends of what it has not begun.
    world.kill(after.instances[0].application.as_ref().unwrap());
    world.kill(&after.instances[1].sidecar);
    world.kill(&after.control);
    world.eventually(|state| {
        let application = state.instances[0].application.as_ref().unwrap();
        let is_back = application.restarts == 1 && state.instances[0].ready;
        is_back && state.instances[1].sidecar.serving && state.control.serving
    });
    let state = world.eventually(|state| lives(state).len() == lives(&before).len());
    assert!(world.ask("curl", &target).contains("uid"));
    world.down();
    world.assert_gone(&state);
    world.assert_gone(&before);
}

#[test]
fn what_died_meanwhile_is_started_again_and_what_changed_is_applied() {
    let Some(world) = World::make("meanwhile") else {
        return;
    };
    let before = world.up(&["hello", "curl"]).unwrap();
    world.kill_supervisor(&before);
    world.kill(before.instances[0].application.as_ref().unwrap());
    world.kill(&before.instances[1].sidecar);
    world.kill(&before.control);
    let documents = [
        workload("hello", &world.serve("replicas: 2")),
        workload("curl", &world.serve("")),
    ]
    .concat();
    let after = world.apply(&documents).unwrap();
    assert_eq!(ready(&after, "hello"), [0, 1]);
    assert_eq!(after.instances[0].netns, before.instances[0].netns);
    let target = world.target(&after, "hello-0");
    let answer = world.eventually_ask("curl", &target);
    assert!(answer.contains("uid"), "{answer}");
    world.down();
    world.assert_gone(&after);
}

#[test]
fn what_nothing_is_known_of_is_removed_and_made_anew() {
    let Some(world) = World::make("unknown") else {
        return;
    };
    let before = world.up(&["hello"]).unwrap();
    world.kill_supervisor(&before);
    fs::write(world.runtime("state.json"), "damaged").unwrap();
    let after = world.up_again().unwrap();
    assert_eq!(ready(&after, "hello"), [0]);
    let old = lives(&before);
    assert!(old.iter().all(|process| !process.is_alive()));
    world.down();
    world.assert_gone(&after);
}

#[test]
fn what_was_half_made_is_made_anew() {
    let Some(world) = World::make("half") else {
        return;
    };
    let before = world.up(&["hello", "curl"]).unwrap();
    world.kill_supervisor(&before);
    let path = world.runtime("state.json");
    let text = fs::read_to_string(&path).unwrap();
    let half = text.replacen("\"step\": \"application\"", "\"step\": \"place\"", 1);
    assert_ne!(half, text);
    fs::write(&path, half).unwrap();
    let after = world.up_again().unwrap();
    assert_eq!(ready(&after, "hello"), [0]);
    let find = |state: &State, id: &str| state.workload(&id.parse().unwrap()).cloned().unwrap();
    let (old, new) = (find(&before, "hello"), find(&after, "hello"));
    assert_ne!(old.sidecar.process, new.sidecar.process);
    assert!(!old.sidecar.process.unwrap().is_alive());
    let (old, new) = (find(&before, "curl"), find(&after, "curl"));
    assert_eq!(old.sidecar.process, new.sidecar.process);
}
