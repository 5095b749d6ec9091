//! Takes a mesh down, whatever is left of it: works from the state file and from what carries the
//! mesh's name, so that it does not matter how far the mesh came up, or who was killed.
//! Called by the supervisor at its end, and by `leno down`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::cgroup::Cgroups;
use crate::folder::Folder;
use crate::name::MeshName;
use crate::state::State;
use crate::{network, process};

/// How long each of applications, sidecars and control plane has to end in order.
const GRACE: Duration = Duration::from_secs(5);

/// Ends and removes everything; nothing to do is no error.
///
/// # Errors
/// What could not be removed.
pub fn run(folder: &Folder, name: &MeshName) -> anyhow::Result<()> {
    // A damaged file must not be what keeps everything else alive.
    let state = State::load(&folder.state()).ok().flatten();
    for processes in state.iter().flat_map(State::processes) {
        process::end(&processes, GRACE);
    }
    let cgroups = Cgroups::of(name);
    cgroups.kill();
    process::kill(process::members(&network::namespaces(name)));
    let mut left = network::remove(name);
    left.extend(
        cgroups
            .remove()
            .iter()
            .map(|path| path.display().to_string()),
    );
    match fs::remove_dir_all(folder.root()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", folder.root().display()));
        }
        _ => {}
    }
    ensure!(left.is_empty(), "left over: {}", left.join(", "));
    Ok(())
}

/// Whether anything carries the name.
#[must_use]
pub fn is_anything_left(folder: &Folder, name: &MeshName) -> bool {
    folder.root().exists() || network::is_there(name)
}
