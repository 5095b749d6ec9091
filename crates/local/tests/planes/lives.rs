//! Envoys come and go with their instances: killed, adopted, upgraded, limited; and when the mesh
//! is down there is nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use local::process::Identity;
use local::state::Running;
use rustix::process::Signal;

use crate::file::on;
use crate::left::await_nothing;
use crate::load::{Load, Shape};
use crate::resources::{SERVE, service, workload};
use crate::world::{Haste, World, send, until};

const URL: &str = "http://echo.default.svc.cluster.local/";

/// Two that answer and one that calls, all on Envoy.
fn mesh(more: &str) -> String {
    let echo = workload("echo", "echo", SERVE).replace("command:", &format!("{more}command:"));
    let client = workload("client", "client", "[sleep, infinity]");
    service("echo") + &on("envoy", &(client + &echo))
}

#[track_caller]
fn one(world: &World, instance: &str) -> Running {
    let state = world.state();
    state.instance(&instance.parse().unwrap()).unwrap().clone()
}

/// The Envoy beside a companion: the other process of the sidecar's group.
#[track_caller]
fn envoy(world: &World, instance: &str) -> Identity {
    let found = one(world, instance);
    let companion = found.sidecar.process.unwrap();
    let members = found.sidecar_cgroups.iter().find_map(|group| {
        let text = fs::read_to_string(group.join("cgroup.procs")).ok()?;
        Some(
            text.lines()
                .filter_map(|line| line.parse().ok())
                .collect::<Vec<i32>>(),
        )
    });
    let mut others = members
        .unwrap()
        .into_iter()
        .filter(|pid| *pid != companion.pid);
    others.find_map(Identity::of).unwrap()
}

#[track_caller]
fn begin(world: &World) -> Load<'_> {
    let shape = Shape {
        name: "load",
        url: URL,
        rate: "50",
        more: &["-c", "4"],
    };
    let load = Load::start(world, shape);
    load.pass(50);
    load
}

#[test]
fn an_envoy_lives_and_ends_with_its_companion() {
    let Some(world) = World::with_envoy(Haste::default()) else {
        return;
    };
    world.up(&mesh(""));
    for victim in ["companion", "envoy"] {
        let (before, beside) = (one(&world, "echo-0").sidecar, envoy(&world, "echo-0"));
        let companion = before.process.unwrap();
        send(
            if victim == "envoy" { beside } else { companion },
            Signal::KILL,
        );
        let gone = || (!companion.is_alive() && !beside.is_alive()).then_some(());
        until(gone, || format!("{companion:?} {beside:?}"));
        let again = || {
            let now = one(&world, "echo-0");
            (now.ready && now.sidecar.restarts > before.restarts && now.sidecar.serving)
                .then_some(())
        };
        until(again, || format!("{:?}", one(&world, "echo-0")));
    }
    let load = begin(&world);
    load.assert_nothing_lost();
}

#[test]
fn another_supervisor_keeps_envoys_and_nothing_is_left_of_them() {
    let Some(world) = World::with_envoy(Haste::default()) else {
        return;
    };
    world.up(&mesh(""));
    let load = begin(&world);
    let before =
        ["client-0", "echo-0"].map(|name| (one(&world, name).sidecar.process, envoy(&world, name)));
    world.change_supervisor();
    load.pass(50);
    let after =
        ["client-0", "echo-0"].map(|name| (one(&world, name).sidecar.process, envoy(&world, name)));
    assert_eq!(before, after);
    load.assert_nothing_lost();
    let mut processes = world.state().processes().concat();
    processes.extend(after.map(|(_, envoy)| envoy));
    world.down().unwrap();
    await_nothing(&world, &processes);
}

#[test]
fn restarts_and_upgrades_of_envoys_lose_no_request() {
    let Some(world) = World::with_envoy(Haste::default()) else {
        return;
    };
    world.up(&mesh("replicas: 2, "));
    let load = begin(&world);
    let before = ["echo-0", "echo-1"].map(|name| envoy(&world, name));
    world.restart("echo");
    load.pass(50);
    assert!(before.iter().all(|one| !one.is_alive()));
    let echo: &[local::name::WorkloadId] = &["echo".parse().unwrap()];
    world.upgrade_of(echo).unwrap();
    load.pass(50);
    load.assert_nothing_lost();
}

#[test]
fn an_envoy_has_its_sidecar_s_user_limits_and_folder() {
    let Some(world) = World::with_envoy(Haste::default()) else {
        return;
    };
    world.up(&mesh("").replace(
        "dataPlane: envoy}",
        "dataPlane: envoy, resources: {limits: {memory: 300Mi}}}",
    ));
    let found = one(&world, "echo-0");
    let envoy = envoy(&world, "echo-0");
    let process = format!("/proc/{}", envoy.pid);
    let status = fs::read_to_string(format!("{process}/status")).unwrap();
    let user = found.sidecar_user.unwrap();
    assert!(
        status.contains(&format!("\nUid:\t{user}\t{user}\t{user}\t{user}\n")),
        "{status}"
    );
    assert!(
        status.contains("\nNoNewPrivs:\t1\n") && status.contains("\nCapBnd:\t0000000000000000\n"),
        "{status}"
    );
    let limit = ["memory.max", "memory.limit_in_bytes"]
        .iter()
        .find_map(|file| {
            let mut groups = found.sidecar_cgroups.iter();
            groups.find_map(|group| fs::read_to_string(group.join(file)).ok())
        });
    assert_eq!(limit.unwrap().trim(), (300 << 20).to_string());
    let folder = world.runtime().envoy(found.offset);
    for path in [&folder, folder.parent().unwrap()] {
        let metadata = fs::metadata(path).unwrap();
        assert_eq!(
            (metadata.uid(), metadata.permissions().mode() & 0o777),
            (user, 0o700),
            "{path:?}"
        );
    }
    assert!(has_no_key(&folder), "{folder:?}");
    world.down().unwrap();
    await_nothing(&world, &[envoy]);
}

/// Whether no file of a folder has a private key in it.
fn has_no_key(folder: &Path) -> bool {
    let files = fs::read_dir(folder).unwrap().flatten();
    let texts = files.filter_map(|file| fs::read(file.path()).ok());
    let has_key = |text: Vec<u8>| text.windows(11).any(|part| part == b"PRIVATE KEY");
    !texts.into_iter().any(has_key)
}
