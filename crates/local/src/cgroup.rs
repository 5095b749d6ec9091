//! What a workload may use and what it used: cgroups of version 2 or 1, one for each sidecar and
//! application, all of a mesh below one of its name. They make ending sure too. Called by the
//! supervisor. Must never touch a group that is not below the mesh's own. Where groups cannot be
//! made, the mesh does without, unless a limit is asked for.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::name::MeshName;
use crate::process;

/// Where in the cgroup file systems the groups of a mesh belong.
mod place;

/// The most that a group may use.
mod limits;

/// What a group used.
mod usage;

pub use limits::set_limits;
pub use usage::{Usage, usage};

/// How often members are looked for again: what is being killed may still have children.
const ROUNDS: u32 = 20;

/// Where the groups of one mesh are.
#[derive(Clone, Debug)]
pub struct Cgroups {
    /// Its folder in each hierarchy.
    folders: Vec<PathBuf>,
}

impl Cgroups {
    /// Where groups of `mesh` are, or would be.
    #[must_use]
    pub fn of(mesh: &MeshName) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
        Self {
            folders: place::find(&mounts, &own, &format!("leno-{mesh}")),
        }
    }

    /// Where groups of a mesh without root are: in a part of version 2's tree that was left to our
    /// user, or nowhere.
    #[must_use]
    pub fn of_user(mesh: &MeshName) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
        let user = rustix::process::geteuid().as_raw();
        let found = place::find_delegated(&mounts, &own, &format!("leno-{user}-{mesh}"));
        Self {
            folders: found.into_iter().collect(),
        }
    }

    /// Makes a group in each hierarchy; the folders to join. None where that is not possible.
    #[must_use]
    pub fn make(&self, name: &str) -> Vec<PathBuf> {
        let groups = self.folders.iter().map(|folder| folder.join(name));
        let mut made: Vec<_> = groups.collect();
        made.retain(|group| fs::create_dir_all(group).is_ok());
        for group in &made {
            // Not everywhere may they be; who asks for a limit is told then.
            let _ = place::hand_down(group);
        }
        made
    }

    /// Kills every process in every group of the mesh but this one.
    pub fn kill(&self) {
        kill_all(&self.folders);
    }

    /// Removes the groups; gives those that could not be.
    #[must_use]
    pub fn remove(&self) -> Vec<PathBuf> {
        for folder in &self.folders {
            leave(folder);
        }
        remove(&self.folders)
    }
}

/// Kills every process in `groups` but this one. Where the kernel does it (version 2), none gets
/// away by having children faster than they are found.
pub fn kill(groups: &[PathBuf]) {
    let own = own_pid();
    for group in groups.iter().filter(|group| !members(group).contains(&own)) {
        let file = OpenOptions::new()
            .write(true)
            .open(group.join("cgroup.kill"));
        let _ = file.and_then(|mut file| file.write_all(b"1"));
    }
    kill_all(groups);
}

/// Removes `groups`, which must have no process any more, with those within them; gives those that
/// could not be.
#[must_use]
pub fn remove(groups: &[PathBuf]) -> Vec<PathBuf> {
    let all = groups.iter().flat_map(|group| tree(group));
    all.for_each(|group| drop(fs::remove_dir(group)));
    existing(groups)
}

/// Makes a group within each of `groups`: what is in it counts as theirs, and can be ended without
/// them.
#[must_use]
pub fn within(groups: &[PathBuf], name: &str) -> Vec<PathBuf> {
    let all = groups.iter().map(|group| group.join(name));
    all.filter(|group| fs::create_dir(group).is_ok()).collect()
}

/// Ends and removes all groups within `groups`.
pub fn clear(groups: &[PathBuf]) {
    let within: Vec<_> = groups.iter().flat_map(|group| below(group)).collect();
    kill(&within);
    let _ = remove(&within);
}

fn kill_all(groups: &[PathBuf]) {
    let own = own_pid();
    let all = || {
        let groups = groups.iter().flat_map(|group| tree(group));
        let pids = groups.flat_map(|group| members(&group));
        pids.filter(|pid| *pid != own).collect()
    };
    for _ in 0..ROUNDS {
        if !process::kill(all) {
            return;
        }
    }
}

fn existing(folders: &[PathBuf]) -> Vec<PathBuf> {
    let left = folders.iter().filter(|folder| folder.exists());
    left.cloned().collect()
}

/// A process cannot remove the group that it is in: it moves up first.
fn leave(folder: &Path) {
    let own = own_pid();
    let is_inside = below(folder).any(|group| members(&group).contains(&own));
    let Some(parent) = folder.parent().filter(|_| is_inside) else {
        return;
    };
    let procs = parent.join("cgroup.procs");
    if fs::write(&procs, "0").is_err() {
        // Version 2 lets no process into what hands controllers down. They are others' too.
        let is_shared = below(parent).any(|group| group != folder);
        if !is_shared && place::take_back(folder).is_ok() {
            let _ = fs::write(&procs, "0");
        }
    }
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// A group with all that are within it, innermost first.
fn tree(group: &Path) -> Vec<PathBuf> {
    let within = below(group).flat_map(|group| tree(&group));
    within.chain([group.to_path_buf()]).collect()
}

fn below(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
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
