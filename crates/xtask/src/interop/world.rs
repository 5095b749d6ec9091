//! What all groups stand on: the built programs, certificates for two workloads, and a folder for
//! everything that a run writes. Made once per run.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{command, dist};

/// See the head of this file.
pub(super) struct World {
    /// The repository.
    pub(super) root: PathBuf,
    /// Where `leno` and `leno-proxy` lie.
    programs: PathBuf,
    /// Certificates, configurations, logs, tools. Kept after a run, to be looked at.
    pub(super) folder: PathBuf,
    started: Cell<usize>,
}

impl World {
    /// Makes the folder and the certificates; an error when the programs are not built.
    pub(super) fn new(root: &Path, profile: &str) -> Result<Self> {
        let target = dist::target_folder(root);
        let world = Self {
            root: root.to_owned(),
            programs: target.join(profile),
            folder: target.join("interop"),
            started: Cell::new(0),
        };
        fs::create_dir_all(&world.folder)?;
        let authority = ["cert", "ca", "--force", "--out"];
        command::read(world.leno().args(authority).arg(&world.folder))
            .context("build the programs first: cargo build --bins")?;
        for name in ["client", "server"] {
            let whose = ["--namespace", "default", "--service-account", name];
            let mut issue = world.leno();
            issue.args(["cert", "issue", "--name", name]).args(whose);
            issue.arg("--ca").arg(&world.folder);
            command::read(issue.arg("--out").arg(&world.folder))?;
        }
        Ok(world)
    }

    /// A file of this run.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A number that no other file of this run has in its name.
    pub(super) fn number(&self) -> usize {
        self.started.update(|number| number + 1);
        self.started.get()
    }

    /// The sidecar, without arguments.
    pub(super) fn proxy(&self) -> Command {
        Command::new(self.programs.join("leno-proxy"))
    }

    fn leno(&self) -> Command {
        Command::new(self.programs.join("leno"))
    }
}
