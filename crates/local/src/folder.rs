//! Where everything lies in the runtime folder. Only paths, but for that folder itself; who writes
//! what is in it is elsewhere.
//! Invariant: root writes only into folders that are root's, so that no workload can turn a file
//! into a link to somewhere else.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::name::{MeshName, WorkloadId};

/// Where runtime folders are, unless an option says otherwise.
pub const BASE: &str = "/run/leno";

/// Where runtime folders of whoever asks are: without root, one's own.
#[must_use]
pub fn base() -> PathBuf {
    let own = rustix::process::geteuid();
    if own.is_root() {
        return BASE.into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(folder) if folder.is_absolute() => folder.join("leno"),
        _ => format!("/tmp/leno-{}", own.as_raw()).into(),
    }
}

/// Where the meshes are that whoever asks most likely means: one's own, or else root's, which
/// everybody may look at.
#[must_use]
pub fn base_here() -> PathBuf {
    let own = base();
    let mut entries = fs::read_dir(&own).into_iter().flatten().flatten();
    match entries.any(|entry| entry.path().is_dir()) {
        true => own,
        false => BASE.into(),
    }
}

/// What is locked by whoever decides who gets what of this machine; no mesh has such a name.
#[must_use]
pub fn deciding(base: &Path) -> PathBuf {
    base.join(".deciding")
}

/// The runtime folder of one mesh.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The folder of `mesh` below `base`.
    #[must_use]
    pub fn new(base: &Path, mesh: &MeshName) -> Self {
        Self {
            root: base.join(mesh.as_str()),
        }
    }

    /// All of it.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes it, and sees to it that nobody but us can put anything there.
    ///
    /// # Errors
    /// When it cannot be made, or it or the base is others' to write to.
    pub fn make(&self) -> anyhow::Result<()> {
        let (root, own) = (&self.root, rustix::process::geteuid().as_raw());
        let mut builder = fs::DirBuilder::new();
        // Other users are none of ours, where we are not root.
        let mode = if own == 0 { 0o755 } else { 0o700 };
        let made = builder.recursive(true).mode(mode).create(root);
        made.with_context(|| format!("make {}", root.display()))?;
        for path in root.parent().into_iter().chain([&**root]) {
            let context = || format!("read {}", path.display());
            let found = fs::metadata(path).with_context(context)?;
            let link = fs::symlink_metadata(path).with_context(context)?;
            ensure!(
                found.uid() == own && found.mode() & 0o022 == 0 && [0, own].contains(&link.uid()),
                "{} is not yours alone: others could put links there for you to follow; give \
                 another folder with --runtime",
                path.display()
            );
        }
        Ok(())
    }

    /// What runs.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root.join("state.json")
    }

    /// Held by the supervisor as long as it lives.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// What the supervisor has to say.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.root.join("supervisor.log")
    }

    /// The copy of the user's file that the control plane, which is not root, can read.
    #[must_use]
    pub fn source(&self) -> PathBuf {
        self.root.join("source")
    }

    /// Where workloads live, as resources.
    #[must_use]
    pub fn status(&self) -> PathBuf {
        self.root.join("status")
    }

    /// The control plane's own folder, with its keys.
    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.root.join("control")
    }

    /// The socket on which tokens are asked for.
    #[must_use]
    pub fn operator(&self) -> PathBuf {
        self.control().join("operator.sock")
    }

    /// The root certificate, which sidecars trust at first.
    #[must_use]
    pub fn trust_bundle(&self) -> PathBuf {
        self.control().join("root.pem")
    }

    /// The virtual addresses of Services, as the control plane keeps them.
    #[must_use]
    pub fn addresses(&self) -> PathBuf {
        self.control().join("addresses.json")
    }

    /// What a program writes to its standard output, or error.
    #[must_use]
    pub fn output(&self, program: &str, stream: &str) -> PathBuf {
        self.root.join(format!("{program}.{stream}"))
    }

    /// Where the supervisor is asked for what it alone can do.
    #[must_use]
    pub fn desk(&self) -> PathBuf {
        self.root.join("supervisor.sock")
    }

    /// What the process is told that answers for names of other machines.
    #[must_use]
    pub fn resolver(&self) -> PathBuf {
        self.root.join("resolver.yaml")
    }

    /// The folder in which a sidecar hands over to its successor: the sockets that it takes are
    /// found by short paths only, and names of instances are long.
    #[must_use]
    pub fn handover(&self, offset: u32) -> PathBuf {
        self.root.join("handover").join(offset.to_string())
    }

    /// Where an Envoy and its companion meet, for the same reason.
    #[must_use]
    pub fn envoy(&self, offset: u32) -> PathBuf {
        self.handover(offset).join("envoy")
    }

    /// The folder of an instance.
    #[must_use]
    pub fn instance(&self, id: &WorkloadId) -> InstanceFolder {
        InstanceFolder {
            root: self.root.join("workloads").join(id.to_string()),
        }
    }
}

/// The folder of one instance, root's too.
#[derive(Clone, Debug)]
pub struct InstanceFolder {
    root: PathBuf,
}

impl InstanceFolder {
    /// All of it.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What its sidecar reads at its start.
    #[must_use]
    pub fn bootstrap(&self) -> PathBuf {
        self.root.join("bootstrap.yaml")
    }

    /// Whom its sidecar trusts at first.
    #[must_use]
    pub fn trust_bundle(&self) -> PathBuf {
        self.root.join("root.pem")
    }

    /// What it was made from, for root alone: what is in the environment of an application may be
    /// a secret.
    #[must_use]
    pub fn template(&self) -> PathBuf {
        self.root.join("template.json")
    }

    /// What its application has for `/etc/resolv.conf`.
    #[must_use]
    pub fn resolver(&self) -> PathBuf {
        self.root.join("resolv.conf")
    }

    /// The sidecar's own, with its key.
    #[must_use]
    pub fn sidecar_home(&self) -> PathBuf {
        self.root.join("sidecar")
    }

    /// The certificate that the sidecar keeps there, once it has one.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.sidecar_home().join("leaf.pem")
    }

    /// The application's own.
    #[must_use]
    pub fn application_home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// What a program writes to its standard output (`out`) or error (`err`).
    #[must_use]
    pub fn output(&self, program: &str, stream: &str) -> PathBuf {
        self.root.join(format!("{program}.{stream}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::new(base.path(), &"demo".parse().unwrap());
        let open_to = |mode| fs::Permissions::from_mode(mode);
        for mode in [0o777, 0o775, 0o1777] {
            fs::set_permissions(base.path(), open_to(mode)).unwrap();
            let error = folder.make().unwrap_err().to_string();
            assert!(error.contains("--runtime"), "{mode:o}: {error}");
        }
        fs::set_permissions(base.path(), open_to(0o755)).unwrap();
        folder.make().unwrap();
        fs::set_permissions(folder.root(), open_to(0o757)).unwrap();
        assert!(folder.make().is_err());
    }
}
