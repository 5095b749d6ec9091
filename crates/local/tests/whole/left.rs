//! What there is of a mesh on this machine, whoever was killed: nothing, when it is down.

use std::fs;
use std::path::Path;
use std::process::Command;

use local::process::Identity;

use crate::world::{World, until};

/// Everything that has the mesh's name, runs its programs or is one of `processes`; zombies too.
pub(crate) fn left(world: &World, processes: &[Identity]) -> Vec<String> {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let pids = names.filter(|name| *name != own && name.parse::<i32>().is_ok());
    let mut left: Vec<_> = pids
        .filter_map(|pid| ours(world, &pid, processes))
        .collect();
    left.extend(groups(world));
    left.extend(network(world));
    left.extend(files(world));
    left
}

/// Waits until there is nothing; it is gone soon after the last who had it.
#[track_caller]
pub(crate) fn await_nothing(world: &World, processes: &[Identity]) {
    let nothing = || left(world, processes).is_empty().then_some(());
    until(nothing, || format!("left: {:#?}", left(world, processes)));
}

fn ours(world: &World, pid: &str, processes: &[Identity]) -> Option<String> {
    let proc = Path::new("/proc").join(pid);
    let number = pid.parse().ok()?;
    // It was ours, as the one who asked for it is a test: nobody else waits for it.
    let own_child = format!(" Z {} ", std::process::id());
    let stat = fs::read_to_string(proc.join("stat")).unwrap_or_default();
    if stat.contains(&own_child) {
        return None;
    }
    let is_known = Identity::of(number).is_some_and(|one| processes.contains(&one));
    let program = fs::read_link(proc.join("exe")).unwrap_or_default();
    let groups = fs::read_to_string(proc.join("cgroup")).unwrap_or_default();
    // Not one whose name only begins alike.
    let group = group(world) + "/";
    let is_ours = program.starts_with(world.file("")) || groups.contains(&group);
    (is_known || is_ours).then(|| format!("process {pid}: {}", program.display()))
}

fn group(world: &World) -> String {
    format!("leno-{}", world.name().as_str())
}

/// Control groups.
fn groups(world: &World) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts.lines().filter(|line| line.contains(" cgroup"));
    let points = points.filter_map(|line| line.split(' ').nth(1));
    let groups = points.map(|point| Path::new(point).join(group(world)));
    let there = groups.filter(|group| group.exists());
    there.map(|group| group.display().to_string()).collect()
}

/// Links, routes, namespaces, and rules of this machine.
fn network(world: &World) -> Vec<String> {
    let name = world.name();
    let link = name.link(0);
    let words = [
        name.bridge(),
        link.trim_end_matches('0').to_owned(),
        name.prefix(),
    ];
    let commands: [&[&str]; 5] = [
        &["ip", "-o", "link"],
        &["ip", "-4", "route", "show", "table", "all"],
        &["ip", "-6", "route", "show", "table", "all"],
        &["ip", "netns"],
        &["nft", "list", "ruleset"],
    ];
    let mut left = Vec::new();
    for command in commands {
        let output = Command::new(command[0]).args(&command[1..]).output();
        let text = output.map(|output| String::from_utf8(output.stdout).unwrap());
        let text = text.unwrap_or_default();
        let is_ours = |line: &&str| words.iter().any(|word| line.contains(word));
        left.extend(text.lines().filter(is_ours).map(str::to_owned));
    }
    left
}

/// In the folder of all meshes, and mounted.
fn files(world: &World) -> Vec<String> {
    let base = world.file("run");
    let entries = fs::read_dir(&base).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path().display().to_string());
    let mut left: Vec<_> = paths
        .filter(|path| path.contains(world.name().as_str()))
        .collect();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let base = base.display().to_string();
    left.extend(
        mounts
            .lines()
            .filter(|line| line.contains(&base))
            .map(str::to_owned),
    );
    left
}
