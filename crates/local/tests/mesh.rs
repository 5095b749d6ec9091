//! Whole meshes on this machine, with stand-ins for their programs. Needs root; without it the
//! tests say that they were skipped.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

/// As many as are wanted, of what is wanted.
#[path = "mesh/rollout.rs"]
mod rollout;

/// Ends of applications, and what they are waited for with.
#[path = "mesh/lives.rs"]
mod lives;

/// Sidecars that are Envoys.
#[path = "mesh/envoy.rs"]
mod envoy;

/// What a killed supervisor leaves.
#[path = "mesh/adoption.rs"]
mod adoption;

/// What strangers cannot do.
#[path = "mesh/strangers.rs"]
mod strangers;

#[path = "mesh/world.rs"]
mod world;

use std::fs;
use std::os::unix::fs::MetadataExt;

use local::state::State;
use serde_json::Value;
use world::World;

#[test]
fn workloads_reach_each_other_through_their_sidecars_and_as_nobody_special() {
    let Some(world) = World::make("talk") else {
        return;
    };
    let state = world.up(&["hello", "curl"]).unwrap();
    let [hello, curl] = ["hello", "curl"].map(|id| state.workload(&id.parse().unwrap()).unwrap());
    assert_ne!(hello.user, curl.user);
    for addr in &hello.addresses {
        let said = world.ask("curl", &format!("{}", std::net::SocketAddr::new(*addr, 80)));
        let answer: Value = serde_json::from_str(&said).unwrap();
        // From its own sidecar, which took it from the caller's.
        assert_eq!(answer["peer"], addr.to_string());
        let user = format!("{0} {0} {0} {0}", hello.user);
        assert_eq!(
            (answer["uid"].as_str(), answer["gid"].as_str()),
            (Some(&*user), Some(&*user))
        );
        assert_eq!(
            (
                answer["groups"].as_str(),
                answer["noNewPrivileges"].as_str()
            ),
            (Some(""), Some("1"))
        );
        for set in ["effective", "bounding"] {
            assert_eq!(
                answer[set].as_str().map(|bits| bits.trim_matches('0')),
                Some(""),
                "{answer}"
            );
        }
        let resolver = answer["resolver"].as_str().unwrap();
        let search = "search default.svc.cluster.local svc.cluster.local cluster.local\n";
        assert!(
            resolver.contains(search) && resolver.contains(&world.gateway()),
            "{resolver}"
        );
        assert_eq!(answer["folder"], world.folder().to_str().unwrap());
        assert_eq!(
            world::sorted(&answer["variables"]),
            [
                "HOME",
                "LENO_ADDRESS",
                "LENO_INSTANCE",
                "LENO_NAMESPACE",
                "LENO_WORKLOAD",
                "PATH"
            ]
        );
    }
    let token = world.runtime("workloads/hello-0/sidecar/token");
    assert_eq!(fs::read_to_string(token).unwrap(), "for hello-0\n");
    world.down();
    world.assert_gone(&state);
}

#[test]
fn a_mesh_has_one_supervisor() {
    let Some(world) = World::make("once") else {
        return;
    };
    let state = world.up(&["hello"]).unwrap();
    let error = local::supervisor::run(&world.start(), |_| {}).unwrap_err();
    assert!(format!("{error:#}").contains("up already"), "{error:#}");
    assert!(state.supervisor.is_alive());
    assert!(
        world
            .ask("hello", &world.target(&state, "hello"))
            .contains("uid")
    );
    world.down();
    let error = local::down(world.base(), world.name()).unwrap_err();
    assert!(error.to_string().contains("there is no mesh"), "{error}");
}

#[test]
fn what_dies_is_started_again() {
    let Some(world) = World::make("again") else {
        return;
    };
    let state = world.up(&["hello", "curl"]).unwrap();
    let hello = state.workload(&"hello".parse().unwrap()).unwrap();
    world.kill(&hello.sidecar);
    let sidecar = |state: &State| state.instances[0].sidecar.clone();
    let state = world.eventually(|state| sidecar(state).restarts == 1 && sidecar(state).serving);
    assert!(sidecar(&state).ended.unwrap().contains("signal"));
    world.kill(&state.control);
    world.eventually(|state| state.control.restarts == 1 && state.control.serving);
    world.kill(&state.resolver);
    world.eventually(|state| state.resolver.restarts == 1 && state.resolver.serving);
    world.kill(state.instances[0].application.as_ref().unwrap());
    let state = world.eventually(|state| {
        let application = state.instances[0].application.as_ref().unwrap();
        application.restarts == 1 && state.instances[0].ready
    });
    let answer = world.eventually_ask("hello", &world.target(&state, "curl"));
    assert!(answer.contains("uid"), "{answer}");
    let answer = world.eventually_ask("curl", &world.target(&state, "hello"));
    assert!(answer.contains("uid"), "{answer}");
    world.down();
    world.assert_gone(&state);
}

#[test]
fn a_mesh_that_is_coming_up_is_not_taken_down_under_its_supervisor() {
    let Some(world) = World::make("coming") else {
        return;
    };
    let lock = world.runtime("lock");
    fs::create_dir(world.runtime("")).unwrap();
    let held = fs::File::create(&lock).unwrap();
    held.lock().unwrap();
    let error = local::down(world.base(), world.name()).unwrap_err();
    assert!(error.to_string().contains("coming up"), "{error}");
    assert!(lock.exists());
    // Closing it is not enough: a child that another test has just forked may still hold it.
    held.unlock().unwrap();
    world.down();
    assert!(!lock.exists());
}

/// A folder in the place of the file: nothing else keeps root from writing it.
#[test]
fn what_dies_is_started_again_though_that_cannot_be_written_down() {
    let Some(world) = World::make("full") else {
        return;
    };
    let state = world.up(&["hello", "curl"]).unwrap();
    let in_the_way = world.runtime("state.json.new");
    fs::create_dir(&in_the_way).unwrap();
    world.kill(&state.instances[0].sidecar);
    let answer = world.eventually_ask("curl", &world.target(&state, "hello"));
    assert!(answer.contains("uid"), "{answer}");
    assert!(state.supervisor.is_alive());
    fs::remove_dir(&in_the_way).unwrap();
    world.eventually(|state| state.instances[0].sidecar.restarts == 1);
}

#[test]
fn what_a_mesh_is_made_of_is_for_its_control_plane_to_read() {
    let Some(world) = World::make("shared") else {
        return;
    };
    let state = world.up(&["hello"]).unwrap();
    for name in ["source", "status"] {
        let found = fs::metadata(world.runtime(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (0, state.control_user));
        assert_eq!(found.mode() & 0o7777, 0o750);
    }
}

#[test]
fn a_supervisor_that_is_asked_to_end_takes_its_mesh_down() {
    let Some(world) = World::make("asked") else {
        return;
    };
    let state = world.up(&["hello"]).unwrap();
    world.terminate_supervisor(&state);
    world.assert_gone(&state);
}

#[test]
fn what_is_left_by_a_killed_supervisor_is_taken_down_too() {
    let Some(world) = World::make("left") else {
        return;
    };
    let state = world.up(&["hello", "curl"]).unwrap();
    // Neither in the state nor in the group of anything that is.
    let mut stray = world.stray("hello");
    world.kill_supervisor(&state);
    fs::write(world.runtime("state.json"), "damaged").unwrap();
    world.down();
    world.assert_gone(&state);
    assert!(!stray.wait().unwrap().success());
}

#[test]
fn what_does_not_come_up_says_why_and_leaves_nothing() {
    let Some(world) = World::make("broken") else {
        return;
    };
    for (spec, expected) in [
        ("command: [./not-there]", "there is no ./not-there"),
        (
            "command: [\"true\"], user: \"1500\"",
            "could go past the sidecar",
        ),
        (
            "command: [\"true\"], user: nobody-here",
            "there is no user `nobody-here`",
        ),
        ("comand: [\"true\"]", "did you mean `command`"),
    ] {
        let error = world
            .up_with(&format!("{{serviceAccount: a, {spec}}}"))
            .unwrap_err();
        assert!(format!("{error:#}").contains(expected), "{error:#}");
        assert!(
            !world.runtime("").exists() && !world.is_anything_left(),
            "{spec}"
        );
    }
}
