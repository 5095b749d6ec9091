//! What went down is gone, whoever was killed before; and what was is no hindrance to what comes.

use std::fs;
use std::path::Path;
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

/// Whom to kill.
type Victims = fn(&State) -> Vec<Identity>;

/// What is there of a mesh: zombies too.
fn left(world: &World, state: &State) -> Vec<String> {
    let name = world.name().as_str();
    let pids = processes(state)
        .into_iter()
        .filter(|process| Identity::of(process.pid).is_some_and(|now| now == *process));
    let mut left: Vec<_> = pids
        .map(|process| format!("process {}", process.pid))
        .collect();
    left.extend(groups(name));
    let bridge = world.name().bridge();
    let link = world.name().link(0);
    let link = link.trim_end_matches('0');
    for args in [
        vec!["-o", "link"],
        vec!["-o", "route", "show", "table", "all"],
    ] {
        let said = Command::new("ip").args(args).output().unwrap().stdout;
        let text = String::from_utf8(said).unwrap();
        let is_ours = |line: &&str| line.contains(&bridge) || line.contains(link);
        left.extend(text.lines().filter(is_ours).map(str::to_owned));
    }
    for folder in [local::folder::BASE, "/run/netns"] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path().display().to_string());
        left.extend(paths.filter(|path| path.contains(name)));
    }
    left
}

/// Control groups of that mesh.
fn groups(name: &str) -> Vec<String> {
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
    let victims: [Victims; 5] = [
        |_| Vec::new(),
        |state| vec![state.supervisor],
        |state| state.processes()[1].clone(),
        |state| state.processes()[2].clone(),
        processes,
    ];
    for victims in victims {
        world.eventually_gets("caller", "http://hello/", "200 hello");
        // Processes, links, routes, groups, files: else nothing would be shown by their absence.
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
    let [applications, sidecars, _] = state.processes();
    let children = [applications, sidecars].concat();
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
