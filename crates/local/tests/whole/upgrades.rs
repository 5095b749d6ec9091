//! Sidecars are replaced by newer ones under all kinds of traffic, and nobody sees anything of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::echo::Opaque;
use crate::file::Echo;
use crate::instances::processes;
use crate::traffic::Traffic;
use crate::world::{Haste, World, is_soak, until};

/// All sidecars, now.
fn sidecars(world: &World) -> Vec<local::process::Identity> {
    world.state().processes()[1].clone()
}

#[test]
fn sidecars_are_upgraded_under_all_kinds_of_traffic() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&Echo::of(2).text());
    let traffic = Traffic::every(&world);
    let mut stream = Opaque::open(&world, "client", 1);
    for _ in 0..if is_soak() { 10 } else { 3 } {
        let before = sidecars(&world);
        world.upgrade();
        assert!(sidecars(&world).iter().all(|one| !before.contains(one)));
        traffic.pass(50);
        stream.assert_alive();
    }
    // For longer than a sidecar lasts that was told to end.
    traffic.pass(if is_soak() { 6_000 } else { 1_200 });
    stream.assert_alive();
    traffic.assert_nothing_lost();
}

#[test]
fn a_program_that_cannot_start_leaves_the_old_one_serving() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    world.up(&Echo::of(2).text());
    let traffic = Traffic::every(&world);
    let before = [processes(&world, "client"), processes(&world, "echo")];
    for script in ["exit 3", "sleep 0.3; exit 0", "kill -9 $$"] {
        let program = world.file("broken");
        write_program(&program, script);
        let error = world.upgrade_to(&program).unwrap_err();
        let said = format!("{error:#}");
        assert!(
            said.contains("goes on") && said.contains("client-0"),
            "{said}"
        );
        traffic.pass(20);
    }
    let missing = world.upgrade_to(&world.file("missing")).unwrap_err();
    assert!(format!("{missing:#}").contains("missing"), "{missing:#}");
    assert_eq!(
        [processes(&world, "client"), processes(&world, "echo")],
        before
    );
    world.upgrade();
    traffic.pass(50);
    traffic.assert_nothing_lost();
}

#[test]
fn a_gateway_is_upgraded_without_a_request_lost() {
    let Some(world) = World::make(Haste::default()) else {
        return;
    };
    let [port, _] = world.subnet.ports();
    world.up(&Echo::of(2).beside(&gateway(port)).text());
    let traffic = Traffic::outside(&world, &format!("http://127.0.0.1:{port}/"));
    let came = || world.count("edge", "leno_requests_total", "");
    let pass = || {
        let goal = came() + 50;
        until(
            || (came() >= goal).then_some(()),
            || format!("{} of {goal}", came()),
        );
    };
    for _ in 0..if is_soak() { 10 } else { 3 } {
        pass();
        let before = processes(&world, "edge");
        world.upgrade();
        assert_ne!(processes(&world, "edge"), before);
    }
    pass();
    traffic.assert_nothing_lost();
}

/// A way into the mesh at a port of this machine.
fn gateway(port: u16) -> String {
    let kind = "apiVersion: gateway.networking.k8s.io/v1\nkind:";
    format!(
        "---\napiVersion: leno.dev/v1alpha1\nkind: Workload\nmetadata: {{name: edge}}\n\
         spec: {{serviceAccount: edge, gateway: edge}}\n\
         ---\n{kind} Gateway\nmetadata: {{name: edge}}\nspec:\n  gatewayClassName: leno\n  \
         addresses: [{{type: IPAddress, value: 127.0.0.1}}]\n  \
         listeners: [{{name: http, port: {port}, protocol: HTTP}}]\n\
         ---\n{kind} HTTPRoute\nmetadata: {{name: in}}\nspec:\n  \
         parentRefs: [{{name: edge}}]\n  rules: [{{backendRefs: [{{name: echo, port: 80}}]}}]\n"
    )
}

fn write_program(path: &Path, script: &str) {
    let new = path.with_extension("new");
    fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(new, path).unwrap();
}
