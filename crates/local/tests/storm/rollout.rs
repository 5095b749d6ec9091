//! Instances come and go, programs are replaced, and nobody who asks sees anything of it.

use crate::load::{Load, URL};
use crate::resources::{self, SERVE, service, workload};
use crate::world::{Haste, World};

/// A client, and an `echo` that tells when it listens.
fn mesh(more: &str) -> String {
    let echo = workload("echo", "echo", SERVE);
    let ports = "serviceAccount: echo, ports: [{port: 8080}, {port: 9090}]";
    let echo = echo.replace("serviceAccount: echo", &format!("{ports}{more}"));
    let client = workload("client", "client", "[sleep, infinity]");
    service("echo") + &client + &echo
}

#[test]
fn a_rolling_change_loses_no_request() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&mesh(""));
    let load = Load::begin(&world, URL);
    for round in 0..3 {
        world.up(&mesh(&format!(
            ", env: [{{name: ROUND, value: \"{round}\"}}]"
        )));
        load.pass(100);
    }
    world.restart("echo");
    load.pass(100);
    world.up(&mesh(", replicas: 4"));
    load.pass(100);
    world.up(&mesh(", replicas: 1"));
    load.pass(100);
    load.assert_nothing_lost();
}

#[test]
fn sidecars_are_upgraded_without_a_request_lost() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&resources::mesh());
    let load = Load::begin(&world, URL);
    let sidecars = || world.state().processes()[1].clone();
    for _ in 0..2 {
        let before = sidecars();
        world.upgrade();
        assert!(sidecars().iter().all(|one| !before.contains(one)));
        load.pass(100);
    }
    load.assert_nothing_lost();
}

#[test]
fn another_supervisor_goes_on_without_a_request_lost() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&mesh(", replicas: 2"));
    let load = Load::begin(&world, URL);
    let before = world.state().processes();
    world.change_supervisor();
    load.pass(100);
    assert_eq!(world.state().processes(), before);
    world.restart("echo");
    load.pass(100);
    load.assert_nothing_lost();
}
