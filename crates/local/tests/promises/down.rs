//! What went down is gone, whoever was killed before; and what was is no hindrance to what comes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use local::process::Identity;
use local::state::State;

use crate::world::{World, idle, kill, server, service, until};

fn resources() -> String {
    let ports = ", ports: [{name: http, port: 8080}]";
    let hello = server("hello", &["8080:web"], ports);
    [
        hello,
        idle("caller"),
        service("hello", "hello", "{port: 80, targetPort: 8080}"),
    ]
    .concat()
}

fn processes(state: &State) -> Vec<Identity> {
    [state.processes().concat(), vec![state.supervisor]].concat()
}

/// What is there of a mesh: zombies too.
fn left(world: &World, state: &State) -> Vec<String> {
    let name = world.name().as_str();
    let pids = processes(state)
        .into_iter()
        .filter(|process| Identity::of(process.pid).is_some_and(|now| now == *process));
    let mut left: Vec<_> = pids
        .map(|process| format!("process {}", process.pid))
        .collect();
    left.extend(in_its_groups(name));
    let links = Command::new("ip").args(["-o", "link"]).output().unwrap();
    let routes = Command::new("ip")
        .args(["-o", "route", "show", "table", "all"])
        .output()
        .unwrap();
    for said in [links, routes] {
        let text = String::from_utf8(said.stdout).unwrap();
        let bridge = world.name().bridge();
        let tag = bridge.trim_start_matches("leno-").to_owned();
        let ours = text
            .lines()
            .filter(|line| line.contains(&bridge) || line.contains(&format!("ln{tag}-")));
        left.extend(ours.map(str::to_owned));
    }
    let paths = [world.runtime(""), PathBuf::from("/run/netns")];
    for path in paths {
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.path().display().to_string());
        left.extend(names.filter(|path| path.contains(name)));
    }
    left
}

/// Control groups of that mesh, and the processes that still are in one.
fn in_its_groups(name: &str) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts.lines().filter(|line| line.contains(" cgroup"));
    let points = points.filter_map(|line| line.split(' ').nth(1));
    let groups = points.map(|point| Path::new(point).join(format!("leno-{name}")));
    let there = groups.filter(|group| group.exists());
    there.map(|group| group.display().to_string()).collect()
}

#[track_caller]
fn check_gone(world: &World, state: &State) {
    until(|| {
        let left = left(world, state);
        (left.is_empty().then_some(()), format!("{left:#?}"))
    });
}

#[test]
fn what_went_down_is_gone_whoever_was_killed_before_and_comes_up_again_at_once() {
    let Some(world) = World::make("down") else {
        return;
    };
    let mut state = world.up("mode: permissive", &resources());
    let victims: [&dyn Fn(&State) -> Vec<Identity>; 5] = [
        &|_| Vec::new(),
        &|state| vec![state.supervisor],
        &|state| {
            state
                .workloads
                .iter()
                .filter_map(|one| one.sidecar.process)
                .collect()
        },
        &|state| state.control.process.into_iter().collect(),
        &processes,
    ];
    for victims in victims {
        world.eventually_gets("caller", "http://hello/", "200 hello");
        assert!(left(&world, &state).len() > 8);
        victims(&state).into_iter().for_each(kill);
        world.down();
        check_gone(&world, &state);
        state = world.up_again();
    }
    world.eventually_gets("caller", "http://hello/", "200 hello");
}

#[test]
fn what_dies_is_buried_by_the_supervisor() {
    let Some(world) = World::make("bury") else {
        return;
    };
    let state = world.up("mode: permissive", &resources());
    let children = [state.processes()[0].clone(), state.processes()[1].clone()].concat();
    children.iter().copied().for_each(kill);
    until(|| {
        let is_there = |child: &&Identity| Identity::of(child.pid) == Some(**child);
        let there: Vec<_> = children.iter().filter(is_there).collect();
        (
            there.is_empty().then_some(()),
            format!("zombies: {there:?}"),
        )
    });
    assert!(state.supervisor.is_alive());
}
