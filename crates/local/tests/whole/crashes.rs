//! Instances that end without being asked to, and such as never come: who asks sees nothing of it.

use std::collections::BTreeMap;
use std::time::Duration;

use local::process::Identity;
use rustix::process::Signal;
use serde_json::Value;

use crate::file::Echo;
use crate::instances::{await_ready, one, processes};
use crate::traffic::Traffic;
use crate::world::{Haste, World, is_soak, send, until};

/// For what never comes.
const SHORT: Duration = Duration::from_millis(1);

/// One of three does something else than serve.
fn but_one(does: &str) -> Echo {
    let script = format!("case $LENO_INSTANCE in echo-1) {does} ;; *) exec $SERVE ;; esac");
    Echo::of(3).script(&script)
}

/// The application's process.
fn application(world: &World, instance: &str) -> Option<Identity> {
    one(world, instance)
        .application
        .and_then(|life| life.process)
}

fn restarts(world: &World, instance: &str) -> u32 {
    one(world, instance)
        .application
        .map_or(0, |life| life.restarts)
}

/// Brings up what the file says, and waits for all but one of three.
#[track_caller]
fn up_but_one(world: &World) {
    // It may be between two lives when all are looked at.
    let _ = world.take(SHORT);
    let state = || world.state().instances;
    let others = || {
        let ready = state().into_iter().filter(|one| one.ready);
        let names: Vec<_> = ready.map(|one| one.id.to_string()).collect();
        let is_there = |name: &&str| names.iter().any(|one| one == name);
        ["client-0", "echo-0", "echo-2"]
            .iter()
            .all(is_there)
            .then_some(())
    };
    until(others, || format!("{:#?}", state()));
    world.await_settled();
}

/// What `leno ps` says of an instance.
fn shown(world: &World, instance: &str) -> Value {
    let meshes = world.shown();
    let instances = meshes[0]["instances"].as_array().unwrap();
    let found = instances.iter().find(|one| one["name"] == instance);
    found.unwrap().clone()
}

#[test]
fn one_that_crashes_again_and_again_loses_no_request() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.write(&but_one("timeout -s KILL 1 $SERVE").text());
    up_but_one(&world);
    let traffic = Traffic::plain(&world, "crashing");
    let enough = if is_soak() { 8 } else { 4 };
    let crashed = || (restarts(&world, "echo-1") >= enough).then_some(());
    until(crashed, || shown(&world, "echo-1").to_string());
    let said = shown(&world, "echo-1");
    assert!(
        said["application"]["restarts"].as_u64() >= Some(enough.into()),
        "{said}"
    );
    assert!(said["status"].as_str().unwrap().contains("ended"), "{said}");
    traffic.pass(100);
    for other in ["echo-0", "echo-2"] {
        assert_eq!(restarts(&world, other), 0);
    }
    traffic.assert_nothing_lost();
}

#[test]
fn one_that_is_killed_loses_no_request() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&Echo::of(3).text());
    let traffic = Traffic::plain(&world, "killing");
    for round in 0..if is_soak() { 20 } else { 5 } {
        let victim = format!("echo-{}", round % 3);
        let before = application(&world, &victim).unwrap();
        send(before, Signal::KILL);
        let again = || application(&world, &victim).filter(|now| *now != before);
        until(again, || shown(&world, &victim).to_string());
        await_ready(&world, "echo", 3);
        traffic.pass(50);
    }
    let restarted: BTreeMap<_, _> = processes(&world, "echo").into_iter().collect();
    assert_eq!(restarted.len(), 3);
    traffic.assert_nothing_lost();
}

#[test]
fn one_that_never_gets_ready_is_sent_nothing() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.write(&but_one("exec sleep infinity").text());
    up_but_one(&world);
    let refused = || world.take(SHORT).unwrap_err().to_string();
    let silent = "echo-1: nothing listens on ports 8080, 9090";
    until(|| refused().contains(silent).then_some(()), refused);
    let traffic = Traffic::plain(&world, "unready");
    traffic.pass(200);
    let said = shown(&world, "echo-1");
    assert_eq!(
        (&said["ready"], &said["application"]["restarts"]),
        (&false.into(), &0.into())
    );
    assert_eq!(world.count("echo-1", "leno_requests_total", "inbound"), 0);
    traffic.assert_nothing_lost();
}

#[test]
fn one_that_says_that_it_is_not_ready_is_sent_nothing_until_it_is() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    let flag = world.file("unready");
    let probe = format!(
        "exec: {{command: [/bin/sh, -c, \"! test -e {}\"]}}",
        flag.display()
    );
    let echo = Echo::of(2).with(&format!("readinessProbe: {{{probe}, failureThreshold: 1}}"));
    world.up(&echo.text());
    let traffic = Traffic::plain(&world, "probed");
    std::fs::write(&flag, "").unwrap();
    let ready = |wanted: usize| {
        let state = world.state();
        let count = state.instances.iter().filter(|one| one.ready).count();
        // The client is one.
        (count == wanted + 1).then_some(())
    };
    until(|| ready(0), || world.shown().to_string());
    std::fs::remove_file(&flag).unwrap();
    until(|| ready(2), || world.shown().to_string());
    world.await_settled();
    let after = Traffic::plain(&world, "again");
    after.pass(100);
    after.assert_nothing_lost();
    traffic.assert_only_unavailable();
}
