//! Workloads whose sidecar is an Envoy: what their companion is told, and how they are replaced. No
//! Envoy runs here.

use std::fs;

use local::{Event, Programs, Start, command, table};
use serde_json::Value;

use crate::world::{World, ready, workload};

const ENVOY: &str = "sidecar: {dataPlane: envoy}";

/// What the sidecar of an instance reads.
fn bootstrap(world: &World, instance: &str) -> Value {
    let path = world.runtime(&format!("workloads/{instance}/bootstrap.yaml"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn data_planes(world: &World) -> Vec<Option<&'static str>> {
    let instances = table::describe(&world.state()).instances.into_iter();
    instances.map(|one| one.data_plane).collect()
}

#[test]
fn who_changes_the_data_plane_is_replaced() {
    let Some(world) = World::make("plane") else {
        return;
    };
    let hello = |more: &str| workload("hello", &world.serve(more));
    world.apply(&hello("")).unwrap();
    assert_eq!(data_planes(&world), [Some("leno")]);
    assert!(bootstrap(&world, "hello-0")["envoy"].is_null());
    let state = world.apply(&hello(ENVOY)).unwrap();
    assert_eq!(ready(&state, "hello"), [1]);
    assert_eq!(data_planes(&world), [Some("envoy")]);
    let told = bootstrap(&world, "hello-1");
    assert_eq!(
        told["envoy"]["program"],
        world.start().envoy.unwrap().to_str().unwrap()
    );
    let folder = told["envoy"]["folder"].as_str().unwrap();
    assert!(folder.ends_with("handover/3/envoy"), "{folder}");
    assert!(told["handover"].is_null());
    let state = world.apply(&hello("")).unwrap();
    assert_eq!(ready(&state, "hello"), [0]);
    assert!(bootstrap(&world, "hello-0")["handover"].is_string());
}

#[test]
fn without_an_envoy_nothing_is_made_and_nothing_changes() {
    let Some(world) = World::make("no-envoy") else {
        return;
    };
    let without = Start {
        envoy: None,
        ..world.start()
    };
    world.write(&workload("hello", &world.serve(ENVOY)));
    let error = format!("{:#}", local::up(&without).unwrap_err());
    assert!(
        error.contains("workload hello") && error.contains("--envoy"),
        "{error}"
    );
    assert!(!world.is_anything_left());
    world.write(&workload("hello", &world.serve("")));
    let before = local::up(&without).unwrap();
    world.write(&workload("hello", &world.serve(ENVOY)));
    let error = format!("{:#}", local::up(&without).unwrap_err());
    assert!(error.contains("workload hello"), "{error}");
    assert_eq!(
        world.state().instances[0].application,
        before.instances[0].application
    );
    // Whoever knows one tells the supervisor, which knew none.
    let state = world.up_again().unwrap();
    assert_eq!(ready(&state, "hello"), [1]);
}

#[test]
fn an_upgrade_replaces_who_is_on_envoy_one_after_the_other() {
    let Some(world) = World::make("newer") else {
        return;
    };
    let more = format!("replicas: 2, {ENVOY}");
    world
        .apply(&workload("hello", &world.serve(&more)))
        .unwrap();
    let newer = world.folder().join("newer");
    fs::copy(world.start().envoy.unwrap(), &newer).unwrap();
    let programs = Programs {
        envoy: Some(newer.clone()),
        ..Programs::default()
    };
    let mut told = Vec::new();
    let place = (world.base(), world.name());
    let upgraded = command::upgrade(place, &programs, &[], &mut |event| told.push(event.clone()));
    upgraded.unwrap();
    assert_eq!(ready(&world.state(), "hello"), [0, 2]);
    for instance in ["hello-0", "hello-2"] {
        let program = bootstrap(&world, instance)["envoy"]["program"].clone();
        assert_eq!(program, newer.to_str().unwrap());
    }
    let text = "hello-1: replaced, its data plane is envoy".to_owned();
    assert!(told.contains(&Event::Said { text }), "{told:?}");
}

#[test]
fn one_that_does_not_come_leaves_the_one_before_it() {
    let Some(world) = World::make("stays") else {
        return;
    };
    world
        .apply(&workload("hello", &world.serve(ENVOY)))
        .unwrap();
    let broken = world.folder().join("broken");
    let programs = Programs {
        proxy: Some(broken.clone()),
        ..Programs::default()
    };
    fs::write(&broken, "#!/bin/sh\nexit 3\n").unwrap();
    let place = (world.base(), world.name());
    let error = command::upgrade(place, &programs, &[], &mut |_| {}).unwrap_err();
    let said = format!("{error:#}");
    assert!(
        said.contains("hello-0 is not replaced") && said.contains("hello-1"),
        "{said}"
    );
    // What is started from then on is what served until then.
    world.eventually(|state| ready(state, "hello") == [1]);
}
