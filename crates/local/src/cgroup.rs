//! What a workload may use and what it used: cgroups of version 2 or 1, one for each sidecar and
//! application. No limits yet; they make ending sure and tell what was used. Where they cannot be
//! made, the mesh does without.

use std::fs;
use std::path::{Path, PathBuf};

use crate::name::MeshName;
use crate::process;

/// Controllers whose hierarchies are used where they are apart.
const CONTROLLERS: [&str; 3] = ["cpu", "cpuacct", "memory"];
/// How often members are looked for again: what is being killed may still have children.
const ROUNDS: u32 = 20;

/// Where the groups of one mesh are.
#[derive(Clone, Debug)]
pub(crate) struct Cgroups {
    /// Its folder in each hierarchy.
    folders: Vec<PathBuf>,
}

impl Cgroups {
    /// Where groups of `mesh` are, or would be.
    pub(crate) fn of(mesh: &MeshName) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let name = format!("leno-{mesh}");
        let folders = hierarchies(&mounts)
            .into_iter()
            .map(|point| point.join(&name));
        Self {
            folders: folders.collect(),
        }
    }

    /// Makes a group in each hierarchy; the folders to join. None where that is not possible.
    pub(crate) fn make(&self, name: &str) -> Vec<PathBuf> {
        let mut made = Vec::new();
        for folder in &self.folders {
            let group = folder.join(name);
            if fs::create_dir_all(&group).is_ok() {
                hand_down(folder);
                made.push(group);
            }
        }
        made
    }

    /// Kills every process in every group of the mesh but this one.
    pub(crate) fn kill(&self) {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        for _ in 0..ROUNDS {
            let groups = self.folders.iter().flat_map(|folder| groups(folder));
            let mut pids: Vec<_> = groups.flat_map(|group| members(&group)).collect();
            pids.retain(|pid| *pid != own);
            if pids.is_empty() {
                return;
            }
            process::kill(pids);
        }
    }

    /// Removes the groups; gives those that could not be.
    pub(crate) fn remove(&self) -> Vec<PathBuf> {
        for folder in &self.folders {
            leave(folder);
            for group in groups(folder).chain([folder.clone()]) {
                let _ = fs::remove_dir(group);
            }
        }
        let left = self.folders.iter().filter(|folder| folder.exists());
        left.cloned().collect()
    }
}

/// A process cannot remove the group that it is in: it moves up first.
fn leave(folder: &Path) {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let is_inside = groups(folder).any(|group| members(&group).contains(&own));
    if let Some(parent) = folder.parent().filter(|_| is_inside) {
        let _ = fs::write(parent.join("cgroup.procs"), "0");
    }
}

/// In version 2, children have the controllers that are handed down. Not everywhere may they be.
fn hand_down(folder: &Path) {
    for controller in ["+cpu", "+memory"] {
        let _ = fs::write(folder.join("cgroup.subtree_control"), controller);
    }
}

fn groups(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.is_dir())
}

fn members(group: &Path) -> Vec<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    // Those of other process namespaces are shown as 0.
    let pids = text.lines().filter_map(|line| line.parse().ok());
    pids.filter(|pid| *pid > 0).collect()
}

/// The mount points of what `/proc/self/mounts` shows: those of version 1 where it has our
/// controllers, else that of version 2.
fn hierarchies(mounts: &str) -> Vec<PathBuf> {
    let mut apart: Vec<PathBuf> = Vec::new();
    let mut unified = None;
    for line in mounts.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [_, point, kind, options, ..] = *words else {
            continue;
        };
        let is_ours = options
            .split(',')
            .any(|option| CONTROLLERS.contains(&option));
        match kind {
            "cgroup" if is_ours => apart.push(point.into()),
            "cgroup2" => unified = Some(PathBuf::from(point)),
            _ => {}
        }
    }
    if apart.is_empty() {
        unified.into_iter().collect()
    } else {
        apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mounts: &str, expected: &[&str]) {
        let expected: Vec<_> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(hierarchies(mounts), expected);
    }

    #[test]
    fn finds_the_hierarchies_of_either_version() {
        check(
            "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
            &["/sys/fs/cgroup"],
        );
        check(
            "cgroup /c/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\ncgroup /c/pids cgroup rw,pids 0 0\n\
             cgroup /c/memory cgroup rw,memory 0 0\ncgroup2 /c/unified cgroup2 rw 0 0\n",
            &["/c/cpu,cpuacct", "/c/memory"],
        );
        check("tmpfs /tmp tmpfs rw 0 0\n", &[]);
    }
}
