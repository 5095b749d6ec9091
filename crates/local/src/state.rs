//! What runs, as a file that outlives the supervisor: written by it alone, whole, at every change;
//! read by the other commands, and by the next supervisor. Must never hold a secret: everybody may
//! read it.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::explicit::Explicit;
use crate::name::{MeshName, WorkloadId};
use crate::process::Identity;

/// A mesh that runs, or did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// What it is called.
    pub name: MeshName,
    /// The user's file.
    pub source: PathBuf,
    /// First part of all identities.
    pub trust_domain: String,
    /// Where instances get their addresses.
    pub workload_cidrs: Vec<String>,
    /// Who keeps it.
    pub supervisor: Identity,
    /// How far it is.
    pub phase: Phase,
    /// What is wrong with the file as it is now: it is kept as it was before.
    pub fault: Option<String>,
    /// The control plane's admin pages.
    pub admin: Option<String>,
    /// The control plane.
    pub control: Life,
    /// The control plane's user.
    pub control_user: u32,
    /// What answers for names of other machines.
    pub resolver: Life,
    /// Its user.
    pub resolver_user: u32,
    /// What is wanted, in the order of the file.
    pub workloads: Vec<Wanted>,
    /// What is there, in the order in which it was made.
    pub instances: Vec<Running>,
}

/// How far a mesh is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Being brought up for the first time.
    Starting,
    /// Everything was started.
    Running,
}

/// A workload of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Its name.
    pub id: WorkloadId,
    /// How many instances it is to have.
    pub replicas: u32,
    /// How often a replacement of all of them was asked for.
    pub generation: u64,
}

/// One instance of a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Running {
    /// Its name: that of the workload, with a number.
    pub id: WorkloadId,
    /// Whose instance it is.
    pub workload: WorkloadId,
    /// The number.
    pub ordinal: u32,
    /// Its place among the addresses.
    pub offset: u32,
    /// How often a replacement had been asked for when it was made.
    pub generation: u64,
    /// Whose identity its sidecar has.
    pub service_account: String,
    /// Its application's user.
    pub user: u32,
    /// Its sidecar's user; none where it has no sidecar.
    pub sidecar_user: Option<u32>,
    /// Whether its sidecar is an Envoy, with a companion.
    #[serde(default)]
    pub envoy: bool,
    /// Where it is reached.
    pub addresses: Vec<IpAddr>,
    /// Its network namespace; empty where there is none.
    pub netns: PathBuf,
    /// Where its sidecar listens for it, where nothing is intercepted.
    #[serde(default)]
    pub explicit: Option<Explicit>,
    /// What its application is told of Services.
    #[serde(default)]
    pub variables: Vec<(String, String)>,
    /// How long its application has to end when it is asked to.
    #[serde(default)]
    pub grace: Duration,
    /// The cgroups of its application.
    pub cgroups: Vec<PathBuf>,
    /// Those of its sidecar.
    pub sidecar_cgroups: Vec<PathBuf>,
    /// The folder in which its command runs.
    pub directory: PathBuf,
    /// Whether its application has a file of ours for `/etc/resolv.conf`.
    pub has_resolver: bool,
    /// When it was made, in seconds since 1970.
    pub since: u64,
    /// How far it is.
    pub step: Step,
    /// Whether it takes requests.
    pub ready: bool,
    /// What keeps it from being ready, or was wrong last.
    pub fault: Option<String>,
    /// The sidecar's process.
    pub sidecar: Life,
    /// The application's; none where there is no command.
    pub application: Option<Life>,
}

/// How far an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Its network, folders and groups are being made.
    Place,
    /// Its sidecar is being started.
    Sidecar,
    /// It waits for those that it depends on.
    Dependencies,
    /// Its application is there, or is being started.
    Application,
    /// Its application has ended and will not be started again, which is as it should be.
    Completed,
    /// Likewise, which is not.
    Failed,
    /// It is being taken away.
    Stopping,
}

/// A process that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// The one that runs; none between two, and after the last.
    pub process: Option<Identity>,
    /// Whether it said that it serves: of the control plane, sidecars and the resolver.
    #[serde(default)]
    pub serving: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// How the one before ended.
    pub ended: Option<String>,
}

impl Running {
    /// Its network namespace; none where it has that of whoever brought it up.
    #[must_use]
    pub fn namespace(&self) -> Option<&Path> {
        (!self.netns.as_os_str().is_empty()).then_some(&*self.netns)
    }
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

    /// Every process that may run: applications; sidecars; the control plane and the resolver.
    #[must_use]
    pub fn processes(&self) -> [Vec<Identity>; 3] {
        let applications = self.instances.iter();
        let applications = applications.filter_map(|one| one.application.as_ref());
        let sidecars = self.instances.iter().map(|one| &one.sidecar);
        let shared = [&self.control, &self.resolver].into_iter();
        let of = |life: &Life| life.process;
        [
            applications.filter_map(of).collect(),
            sidecars.filter_map(of).collect(),
            shared.filter_map(of).collect(),
        ]
    }

    /// The instance that is meant by the name of a workload, or by its own: of a workload the first
    /// that is ready, else the first. A workload's name wins.
    #[must_use]
    pub fn workload(&self, id: &WorkloadId) -> Option<&Running> {
        let of_workload = || self.instances.iter().filter(|one| one.workload == *id);
        let ready = of_workload().find(|one| one.ready);
        ready
            .or_else(|| of_workload().next())
            .or_else(|| self.instance(id))
    }

    /// The instance of that name.
    #[must_use]
    pub fn instance(&self, id: &WorkloadId) -> Option<&Running> {
        self.instances.iter().find(|one| one.id == *id)
    }

    /// Says that an instance is not what is wanted, though nothing of it has changed.
    pub(crate) fn supersede(&mut self, id: &WorkloadId) {
        let of_it = self.instances.iter_mut().filter(|one| one.id == *id);
        of_it.for_each(|one| one.generation = one.generation.wrapping_sub(1));
    }

    /// Names that somebody may have meant.
    #[must_use]
    pub fn known(&self) -> String {
        let names: Vec<_> = self
            .workloads
            .iter()
            .map(|one| one.id.to_string())
            .collect();
        names.join(", ")
    }
}
