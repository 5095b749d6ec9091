//! As many as are wanted, of what is wanted: what a second `leno up`, and an edit of the file, do.

use std::fs;
use std::time::Duration;

use local::Event;
use local::state::State;

use crate::world::{World, ready, workload};

/// For what never comes.
const SHORT: Duration = Duration::from_millis(1);

/// Each file that is brought up is another.
fn said(told: &[Event]) -> Vec<&str> {
    let texts = told.iter().filter_map(|event| match event {
        Event::Said { text } => Some(&**text),
        _ => None,
    });
    let changes = texts.filter(|text| !text.starts_with("the file is "));
    changes.collect()
}

#[test]
fn there_are_as_many_as_the_file_says() {
    let Some(world) = World::make("scale") else {
        return;
    };
    let mut told = Vec::new();
    let hello = |count: u32| workload("hello", &world.serve(&format!("replicas: {count}")));
    let patience = Duration::from_secs(60);
    let mut apply = |count| {
        told.clear();
        let state = world
            .apply_within(patience, &hello(count), &mut told)
            .unwrap();
        (state, said(&told).join(", "))
    };
    let (first, _) = apply(1);
    let (five, lines) = apply(5);
    assert_eq!(lines, "hello: 1 → 5 replicas");
    assert_eq!(ready(&five, "hello"), [0, 1, 2, 3, 4]);
    assert_eq!(five.supervisor, first.supervisor);
    for ordinal in 0..5 {
        let target = world.target(&five, &format!("hello-{ordinal}"));
        let answer = world.ask("hello-0", &target);
        assert!(answer.contains("uid"), "{answer}");
    }
    let mut again = Vec::new();
    let mut tell = |event: &Event| again.push(event.clone());
    local::command::up_within(&world.start(), patience, &mut tell).unwrap();
    assert_eq!(said(&again), ["nothing to change"]);
    let (one, _) = apply(1);
    assert_eq!(ready(&one, "hello"), [0]);
    assert_eq!(one.instances.len(), 1);
    assert_eq!(one.instances[0].application, first.instances[0].application);
    assert!(five.instances[1..].iter().all(|one| !one.netns.exists()));
    assert!(!world.runtime("workloads/hello-4").exists());
    let (none, _) = apply(0);
    assert!(none.instances.is_empty());
    let (one, _) = apply(1);
    world.down();
    world.assert_gone(&one);
}

#[test]
fn a_change_replaces_one_after_the_other_and_not_before_the_next_is_ready() {
    let Some(world) = World::make("roll") else {
        return;
    };
    let hello = |more: &str| workload("hello", &world.serve(more));
    world.apply(&hello("")).unwrap();
    let state = world.apply(&hello("env: [{name: A, value: b}]")).unwrap();
    assert_eq!(ready(&state, "hello"), [1]);
    let answer = world.ask("hello", &world.target(&state, "hello"));
    assert!(answer.contains("\"A\""), "{answer}");
    let state = world.apply(&hello("workingDir: /")).unwrap();
    assert_eq!(ready(&state, "hello"), [0]);

    // One that never listens does not take the place of one that does.
    let stuck = world.run(&["late", "/nowhere", "[::]:80"], "ports: [{port: 80}]");
    let stuck = workload("hello", &stuck);
    let refused = || world.apply_within(SHORT, &stuck, &mut Vec::new());
    refused().unwrap_err();
    let fault = |state: &State| state.instances.last()?.fault.clone();
    let silent = "nothing listens on port 80";
    let state = world.eventually(|state| fault(state).is_some_and(|fault| fault == silent));
    let text = format!("{:#}", refused().unwrap_err());
    assert!(text.contains(&format!("hello-1: {silent}")), "{text}");
    assert_eq!(ready(&state, "hello"), [0]);
    assert_eq!(state.instances.len(), 2);
    let state = world.apply(&hello("workingDir: /")).unwrap();
    assert_eq!(state.instances.len(), 1);
    assert_eq!(ready(&state, "hello"), [0]);
}

#[test]
fn what_must_not_run_twice_ends_before_it_begins_again() {
    let Some(world) = World::make("recreate") else {
        return;
    };
    let hello = |more: &str| {
        let more = format!("strategy: {{type: Recreate}}, {more}");
        workload("hello", &world.serve(&more))
    };
    let before = world.apply(&hello("")).unwrap();
    let mut told = Vec::new();
    let after = hello("env: [{name: A, value: b}]");
    let state = world
        .apply_within(Duration::from_secs(60), &after, &mut told)
        .unwrap();
    assert_eq!(said(&told), ["hello: changed, ended and started again"]);
    let event = |text: &str| {
        let name = "hello-0".parse().unwrap();
        let text = text.to_owned();
        let wanted = Event::Instance { name, text };
        told.iter().position(|event| *event == wanted)
    };
    assert!(
        event("gone").is_some() && event("gone") < event("ready"),
        "{told:?}"
    );
    assert_eq!(ready(&state, "hello"), [0]);
    assert_ne!(
        state.instances[0].application,
        before.instances[0].application
    );
}

#[test]
fn what_the_file_has_no_more_is_gone_and_what_it_has_anew_is_there() {
    let Some(world) = World::make("swap") else {
        return;
    };
    let before = world.up(&["hello", "old"]).unwrap();
    let state = world.up(&["hello", "new"]).unwrap();
    assert_eq!(ready(&state, "new"), [0]);
    let kept = |state: &local::state::State| state.instance(&"hello-0".parse().unwrap()).cloned();
    let (kept, was) = (kept(&state).unwrap(), kept(&before).unwrap());
    assert_eq!(kept.application, was.application);
    assert_eq!(kept.sidecar, was.sidecar);
    assert!(state.workload(&"old".parse().unwrap()).is_none());
    assert!(!world.runtime("status/old.yaml").exists());
    world.eventually(|_| !world.runtime("source/leaving.yaml").exists());
}

#[test]
fn an_edit_is_seen_and_one_with_faults_changes_nothing() {
    let Some(world) = World::make("edit") else {
        return;
    };
    let before = world.up(&["hello"]).unwrap();
    world.write(&workload("hello", "{comand: [a]}"));
    let state = world.eventually(|state| state.fault.is_some());
    let fault = state.fault.unwrap();
    assert!(fault.contains("did you mean `command`"), "{fault}");
    assert_eq!(state.instances.len(), 1);
    assert_eq!(
        state.instances[0].application,
        before.instances[0].application
    );
    let copy = fs::read_to_string(world.runtime("source/mesh.yaml")).unwrap();
    assert!(!copy.contains("comand"));
    let error = world.up_again().unwrap_err();
    assert!(format!("{error:#}").contains("did you mean"), "{error:#}");
    world.write(&workload("hello", &world.serve("replicas: 2")));
    let state = world.eventually(|state| ready(state, "hello").len() == 2);
    assert_eq!(state.fault, None);
}

#[test]
fn a_restart_replaces_all_or_the_one_that_is_named() {
    let Some(world) = World::make("restart") else {
        return;
    };
    let before = world
        .apply(&workload("hello", &world.serve("replicas: 2")))
        .unwrap();
    let place = (world.base(), world.name());
    let patience = Duration::from_secs(60);
    let restart = |name: &str| {
        let name = name.parse().unwrap();
        local::command::restart(place, &name, patience, &mut |_| {})
    };
    restart("hello-1").unwrap();
    let state = world.state();
    assert_eq!(ready(&state, "hello"), [0, 2]);
    assert_eq!(
        state.instances[0].application,
        before.instances[0].application
    );
    restart("hello").unwrap();
    let state = world.state();
    assert_eq!(state.instances.len(), 2);
    let lives = |one: &local::state::Running| one.application.clone();
    assert!(
        state
            .instances
            .iter()
            .all(|one| lives(one) != lives(&before.instances[0]))
    );
    let error = restart("nobody").unwrap_err();
    assert!(error.to_string().contains("take one of hello"), "{error}");
}

#[test]
fn ranges_do_not_change_while_the_mesh_is_up() {
    let Some(world) = World::make("ranges") else {
        return;
    };
    world.up(&["hello"]).unwrap();
    let other = "---\napiVersion: leno.dev/v1alpha1\nkind: MeshConfig\nmetadata: {name: mesh}\n\
                 spec: {trustDomain: example.org}\n";
    fs::write(world.folder().join("other.yaml"), other).unwrap();
    let start = local::Start {
        source: world.folder().join("other.yaml"),
        ..world.start()
    };
    let error = local::up(&start).unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.contains("cannot change while the mesh is up"),
        "{text}"
    );
    assert_eq!(ready(&world.state(), "hello"), [0]);
}

/// The stand-in hands nothing over: who comes second finds its ports taken.
#[test]
fn a_sidecar_that_nobody_can_take_over_from_goes_on() {
    let Some(world) = World::make("upgrade") else {
        return;
    };
    let before = world.up(&["hello", "curl"]).unwrap();
    let place = (world.base(), world.name());
    let programs = local::Programs::default();
    let upgrade = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| name.parse().unwrap()).collect();
        local::command::upgrade(place, &programs, &names, &mut |_| {}).unwrap_err()
    };
    let text = format!("{:#}", upgrade(&["hello"]));
    assert!(text.contains("the sidecar of hello-0 goes on"), "{text}");
    let text = upgrade(&["nobody"]).to_string();
    assert!(text.contains("take one of hello, curl"), "{text}");
    let state = world.state();
    assert_eq!(state.processes(), before.processes());
    let answer = world.ask("curl", &world.target(&state, "hello"));
    assert!(answer.contains("uid"), "{answer}");
    // Nor is it forgotten that it is watched.
    world.kill(&state.instances[0].sidecar);
    world.eventually(|state| state.instances[0].sidecar.restarts == 1);
}
