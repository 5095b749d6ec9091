//! What an instance is made from and cannot be changed while it runs: kept beside it, so that the
//! next supervisor knows it too. Must never be readable for others: it has the environment.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::mesh::Workload;
use crate::plan::sides;
use crate::written;

/// What is compared with what is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Template {
    /// Whose identity its sidecar has.
    pub(crate) account: String,
    /// What is run; empty: the sidecar and the namespace alone.
    pub(crate) command: Vec<String>,
    /// The user that it runs as; none: one of its own.
    pub(crate) user: Option<String>,
    /// What its environment has beside what every instance has.
    pub(crate) environment: Vec<(String, String)>,
    /// The folder that it begins in.
    pub(crate) directory: PathBuf,
    /// Whether it has a sidecar.
    pub(crate) sidecar: bool,
    /// Whether what comes is redirected, and what goes.
    pub(crate) redirected: (bool, bool),
    /// Addresses of this machine that its sidecar listens at.
    pub(crate) sockets: Vec<SocketAddr>,
    /// Ports for which its sidecar has a socket each, where nothing is intercepted.
    #[serde(default)]
    pub(crate) called: Vec<u16>,
    /// Whether its sidecar is an Envoy, with a companion.
    #[serde(default)]
    pub(crate) envoy: bool,
}

impl Template {
    /// That of a workload in the file at `source`.
    pub(crate) fn of(workload: &Workload, source: &Path) -> Self {
        let spec = &workload.spec;
        let folder = source.parent().unwrap_or_else(|| Path::new("/"));
        let given = spec.working_dir.as_deref().map(|given| folder.join(given));
        Self {
            account: spec.account.name.clone(),
            command: spec.command.clone(),
            user: spec.user.clone(),
            environment: spec.env.clone(),
            directory: given.unwrap_or_else(|| folder.to_path_buf()),
            sidecar: spec.sidecar.enabled,
            redirected: sides(spec.sidecar.interception),
            sockets: workload.sockets.clone(),
            called: workload.called.clone(),
            envoy: workload.is_on_envoy,
        }
    }

    /// As it is kept and compared.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Keeps it at `path`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn save(&self, path: &Path) -> anyhow::Result<()> {
        written::replace_secret(path, &self.text())
    }

    /// The one at `path`.
    ///
    /// # Errors
    /// When there is none that can be read.
    pub(crate) fn load(path: &Path) -> anyhow::Result<Self> {
        let context = || format!("read {}", path.display());
        let text = fs::read_to_string(path).with_context(context)?;
        serde_json::from_str(&text).with_context(context)
    }

    /// Whether names are asked of the sidecar.
    pub(crate) const fn has_resolver(&self) -> bool {
        self.sidecar && self.redirected.1
    }
}
