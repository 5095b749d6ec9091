//! The file changes under load, in everything that it can say: who asks sees nothing of it, and
//! only what has to be is replaced.

use std::fs;
use std::path::Path;

use crate::file::Echo;
use crate::instances::{await_ready, one, processes};
use crate::resources::{self, SERVE, workload};
use crate::traffic::Traffic;
use crate::world::{Haste, World, until};

const POLICY: &str = "---\napiVersion: leno.dev/v1alpha1\nkind: AccessPolicy\n\
    metadata: {name: callers-of-echo}\n\
    spec: {serviceAccount: echo, callers: [{serviceAccount: client}]}\n";

/// Serves as before, with another command.
fn command(round: u32) -> Echo {
    Echo::of(1).script(&format!("# {round}\nexec $SERVE"))
}

#[track_caller]
fn changes_its_command(replicas: u32) {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&Echo::of(replicas).text());
    let traffic = Traffic::requests(&world);
    for round in 0..3 {
        let before = processes(&world, "echo");
        let echo = Echo {
            replicas,
            ..command(round)
        };
        world.write(&echo.text());
        let replaced = || {
            let now = processes(&world, "echo");
            let mut pairs = now.values();
            let is_new = pairs.all(|pair| !before.values().any(|other| other == pair));
            (is_new && now.len() == replicas as usize).then_some(())
        };
        until(replaced, || world.shown().to_string());
        await_ready(&world, "echo", replicas as usize);
        traffic.pass(50);
    }
    traffic.assert_nothing_lost();
}

#[test]
fn another_command_for_one_instance_loses_no_request() {
    changes_its_command(1);
}

#[test]
fn another_command_for_three_instances_loses_no_request() {
    changes_its_command(3);
}

#[test]
fn another_environment_comes_with_other_processes() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    let echo = Echo::of(2);
    world.up(&echo.text());
    let traffic = Traffic::plain(&world, "environment");
    let before = processes(&world, "echo");
    world.up(&echo.with("env: [{name: COLOUR, value: green}]").text());
    let after = processes(&world, "echo");
    assert_eq!(after.len(), 2);
    assert!(
        after
            .values()
            .all(|pair| !before.values().any(|old| old == pair))
    );
    let application = one(&world, after.keys().next().unwrap())
        .application
        .unwrap();
    let environment = format!("/proc/{}/environ", application.process.unwrap().pid);
    let environment = fs::read_to_string(environment).unwrap();
    assert!(
        environment.split('\0').any(|word| word == "COLOUR=green"),
        "{environment:?}"
    );
    traffic.pass(50);
    traffic.assert_nothing_lost();
}

#[test]
fn labels_limits_routes_and_policies_replace_nobody() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    let echo = Echo::of(2);
    let other = resources::service("other") + &workload("other", "other", SERVE);
    world.up(&echo.clone().beside(&other).text());
    let traffic = Traffic::every(&world);
    let before = processes(&world, "echo");
    let limits = "resources: {limits: {cpu: \"1\", memory: 200Mi}}";
    let sidecar = "sidecar: {resources: {limits: {cpu: 900m, memory: 100Mi}}}";
    let split = other.clone() + "---\n" + &resources::split(50);
    let steps = [
        echo.clone().labelled("colour: green").beside(&other),
        echo.clone().with(limits).with(sidecar).beside(&other),
        echo.clone().with(limits).beside(&split),
        echo.clone().with("mode: strict").beside(&(split + POLICY)),
        echo.clone()
            .with("readinessProbe: {tcpSocket: {port: 8080}}")
            .beside(&other),
        echo.beside(&other),
    ];
    for step in steps {
        world.up(&step.text());
        if step.more.contains(limits) {
            assert_limited(&world, "echo-0", 200 << 20);
        }
        traffic.pass(50);
    }
    assert_eq!(processes(&world, "echo"), before);
    assert!(world.count("other", "leno_requests_total", "inbound") > 0);
    traffic.assert_nothing_lost();
}

/// The kernel lets the application have so much memory.
#[track_caller]
fn assert_limited(world: &World, instance: &str, bytes: u64) {
    let groups = one(world, instance).cgroups;
    let read = |group: &Path, name: &str| fs::read_to_string(group.join(name)).ok();
    let names = ["memory.max", "memory.limit_in_bytes"];
    let all = groups
        .iter()
        .flat_map(|group| names.map(|name| read(group, name)));
    let said: Vec<_> = all.flatten().collect();
    let wanted = bytes.to_string();
    assert!(
        said.iter().any(|text| text.trim() == wanted),
        "{said:?} in {groups:?}"
    );
}

#[test]
fn a_file_with_faults_changes_nothing_and_is_shown() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    let good = Echo::of(2).text();
    world.up(&good);
    let traffic = Traffic::plain(&world, "faults");
    let before = processes(&world, "echo");
    let fault = || world.shown()[0]["fault"].as_str().map(str::to_owned);
    let broken = [
        (
            "Servise",
            good.replace("kind: Service\n", "kind: Servise\n"),
        ),
        ("many", good.replace("replicas: 2", "replicas: many")),
        (
            "nobody",
            good.replace("replicas: 2", "replicas: 2, dependsOn: [nobody]"),
        ),
        (":", good.clone() + "---\n{{{\n"),
    ];
    for (said, text) in broken {
        world.write(&text);
        let is_shown = || fault().filter(|fault| fault.contains(said));
        until(is_shown, || format!("{said}: {:?}", fault()));
        let error = world.take(std::time::Duration::from_secs(5)).unwrap_err();
        assert!(format!("{error:#}").contains(said), "{error:#}");
        traffic.pass(20);
        world.write(&good);
        until(
            || fault().is_none().then_some(()),
            || format!("{said}: {:?}", fault()),
        );
    }
    assert_eq!(processes(&world, "echo"), before);
    world.up(&Echo::of(1).text());
    await_ready(&world, "echo", 1);
    traffic.pass(50);
    traffic.assert_nothing_lost();
}
