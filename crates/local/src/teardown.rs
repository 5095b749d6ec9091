//! Takes a mesh down, whatever is left of it: works from the state file and from what carries the
//! mesh's name, so that it does not matter how far the mesh came up, or who was killed.
//! Called by the supervisor at its end, and by `leno down`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::cgroup::Cgroups;
use crate::explicit::{Marked, is_rootless, kill_marked};
use crate::folder::Folder;
use crate::name::MeshName;
use crate::state::State;
use crate::{network, process};

/// How long the control plane has to end in order. Sidecars have nothing to bring to an end then:
/// whom they carry for is gone.
const GRACE: Duration = Duration::from_secs(5);

/// Ends and removes everything; nothing to do is no error.
///
/// # Errors
/// What could not be removed.
pub fn run(folder: &Folder, name: &MeshName) -> anyhow::Result<()> {
    let left = end(folder, name);
    remove_tree(folder.root())?;
    ensure!(left.is_empty(), "left over: {}", left.join(", "));
    Ok(())
}

/// Likewise, for a supervisor that begins anew: what it holds stays.
pub(crate) fn clear(folder: &Folder, name: &MeshName) -> anyhow::Result<()> {
    let left = end(folder, name);
    let kept = [folder.lock(), folder.log()];
    for entry in fs::read_dir(folder.root())? {
        let path = entry?.path();
        if !kept.contains(&path) {
            remove_tree(&path)?;
        }
    }
    ensure!(left.is_empty(), "left over: {}", left.join(", "));
    Ok(())
}

/// Ends everything, and removes networks and groups; gives what is left.
fn end(folder: &Folder, name: &MeshName) -> Vec<String> {
    // A damaged file must not be what keeps everything else alive.
    let state = State::load(&folder.state()).ok().flatten();
    if let Some(state) = &state {
        end_applications(state);
        let [_, sidecars, shared] = state.processes();
        process::end(&sidecars, Duration::ZERO);
        process::end(&shared, GRACE);
    }
    let cgroups = groups(name);
    cgroups.kill();
    let mut left = match is_rootless() {
        true => {
            kill_marked(folder.root(), &Marked::ALL);
            Vec::new()
        }
        false => {
            process::kill(|| process::members(&network::namespaces(name)));
            network::remove(name)
        }
    };
    let groups = cgroups.remove();
    left.extend(groups.iter().map(|path| path.display().to_string()));
    left
}

/// All at once, each with the time that it may take; what they do last is carried for them.
fn end_applications(state: &State) {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for one in &state.instances {
        let life = one.application.as_ref();
        let process = life.and_then(|life| life.process);
        groups.entry(one.grace).or_default().extend(process);
    }
    thread::scope(|scope| {
        for (grace, processes) in &groups {
            scope.spawn(|| process::end(processes, *grace));
        }
    });
}

fn groups(name: &MeshName) -> Cgroups {
    match is_rootless() {
        true => Cgroups::of_user(name),
        false => Cgroups::of(name),
    }
}

/// Removes a folder in which workloads have theirs; none is no error. The tool can do with trees of
/// any depth, for which we would need a descriptor for each level.
pub(crate) fn remove_tree(path: &Path) -> anyhow::Result<()> {
    let context = || format!("remove {}", path.display());
    let mut command = Command::new("rm");
    let output = command.args(["-rf", "--"]).arg(path).output();
    let output = output.with_context(context)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", context(), said.trim());
    Ok(())
}

/// Whether anything carries the name.
#[must_use]
pub fn is_anything_left(folder: &Folder, name: &MeshName) -> bool {
    folder.root().exists() || (!is_rootless() && network::is_there(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    #[test]
    fn a_tree_deeper_than_there_are_descriptors_is_removed() {
        // More than all tests of this process need.
        let limit = Rlimit {
            current: Some(256),
            ..getrlimit(Resource::Nofile)
        };
        setrlimit(Resource::Nofile, limit).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("mesh");
        std::fs::create_dir(&root).unwrap();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut level = openat(CWD, &root, flags, Mode::empty()).unwrap();
        for _ in 0..400 {
            mkdirat(&level, "d", Mode::RWXU).unwrap();
            level = openat(&level, "d", flags, Mode::empty()).unwrap();
        }
        remove_tree(&root).unwrap();
        assert!(!root.exists());
        remove_tree(&root).unwrap();
    }
}
