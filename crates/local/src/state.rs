//! What runs, as a file that outlives the supervisor: written by it alone, whole, at every change;
//! read by the other commands. Must never hold a secret: everybody may read it.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::name::{MeshName, WorkloadId};
use crate::process::Identity;

/// A mesh that runs, or did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// What it is called.
    pub name: MeshName,
    /// The user's file.
    pub source: PathBuf,
    /// Who keeps it.
    pub supervisor: Identity,
    /// How far it is.
    pub phase: Phase,
    /// The control plane's admin pages.
    pub admin: Option<String>,
    /// The control plane.
    pub control: Life,
    /// The control plane's user.
    pub control_user: u32,
    /// In the order of the file.
    pub workloads: Vec<Running>,
}

/// How far a mesh is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Being brought up.
    Starting,
    /// Everything was started.
    Running,
}

/// One workload of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Running {
    /// Its name.
    pub id: WorkloadId,
    /// Whose identity its sidecar has.
    pub service_account: String,
    /// Its application's user.
    pub user: u32,
    /// Where it is reached.
    pub addresses: Vec<IpAddr>,
    /// Its network namespace.
    pub netns: PathBuf,
    /// The cgroups of its application.
    pub cgroups: Vec<PathBuf>,
    /// The folder in which its command runs.
    pub directory: PathBuf,
    /// The sidecar's process.
    pub sidecar: Life,
    /// The application's; none where there is no command.
    pub application: Option<Life>,
}

/// A process that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// The one that runs; none between two, and after the last.
    pub process: Option<Identity>,
    /// How often it was started again.
    pub restarts: u32,
    /// How the one before ended.
    pub ended: Option<String>,
}

impl State {
    /// Reads it; none when there is no such mesh.
    ///
    /// # Errors
    /// When the file cannot be read or understood.
    pub fn load(path: &Path) -> anyhow::Result<Option<Self>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        };
        let state = serde_json::from_str(&text).with_context(|| {
            format!("{} is damaged: remove it after `leno down`", path.display())
        })?;
        Ok(Some(state))
    }

    /// Writes it, so that a reader sees the old or the new and nothing between.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        crate::written::replace(path, &(text + "\n"))
    }

    /// Every process that may run: applications, sidecars, the control plane, in the order in which
    /// they are ended.
    #[must_use]
    pub fn processes(&self) -> [Vec<Identity>; 3] {
        let applications = self
            .workloads
            .iter()
            .filter_map(|one| one.application.as_ref());
        let sidecars = self.workloads.iter().map(|one| &one.sidecar);
        let of = |life: &Life| life.process;
        [
            applications.filter_map(of).collect(),
            sidecars.filter_map(of).collect(),
            self.control.process.into_iter().collect(),
        ]
    }

    /// The workload of that name.
    #[must_use]
    pub fn workload(&self, id: &WorkloadId) -> Option<&Running> {
        self.workloads.iter().find(|one| one.id == *id)
    }
}
