//! A mesh of ours that is up: brought up from a text, asked for what it made, taken down when it
//! is dropped. Called by `local`; the only file here that knows the crate of that name.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ::local::folder::Folder;
use ::local::inspect::{self, Sidecar};
use ::local::name::{MeshName, WorkloadId};
use ::local::state::{Running, State};
use ::local::{Programs, Start, logs};
use anyhow::{Context, bail};
use rustix::process::{Pid, WaitOptions, waitpid};

/// The file of a mesh, in its working directory.
const FILE: &str = "mesh.yaml";

/// A mesh, from before it comes up until it is down.
#[derive(Debug)]
pub(super) struct Mesh {
    /// What it was made from.
    pub(super) text: String,
    name: MeshName,
    base: PathBuf,
    state: Option<State>,
}

impl Mesh {
    /// Brings up what `text` says, and waits until all of it is ready.
    ///
    /// # Errors
    /// What keeps it from that; nothing is left of it then.
    pub(super) fn up(
        name: &MeshName,
        dir: &Path,
        text: &str,
        programs: &Programs,
    ) -> anyhow::Result<Self> {
        let file = dir.join(FILE);
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        let base = ::local::folder::base();
        let start = Start::check(name.clone(), base.clone(), &file, programs)?;
        // From here on, dropping it takes down what there is.
        let mut mesh = Self {
            text: text.to_owned(),
            name: name.clone(),
            base,
            state: None,
        };
        mesh.state = Some(::local::up(&start)?);
        Ok(mesh)
    }

    /// The only instance of a workload.
    fn instance(&self, workload: &str) -> anyhow::Result<&Running> {
        let id = WorkloadId::new("default", workload)?;
        let state = self.state.as_ref();
        let found = state.and_then(|state| state.workload(&id));
        found.with_context(|| format!("the mesh has no {workload}"))
    }

    /// Where its instance is reached without a sidecar of the caller's.
    pub(super) fn address(&self, workload: &str) -> anyhow::Result<IpAddr> {
        let instance = self.instance(workload)?;
        let first = instance.addresses.first().copied();
        first.with_context(|| format!("the {workload} has no address"))
    }

    /// Its network namespace.
    pub(super) fn namespace(&self, workload: &str) -> anyhow::Result<PathBuf> {
        let namespace = self.instance(workload)?.namespace();
        let namespace = namespace.with_context(|| format!("the {workload} has no network"))?;
        Ok(namespace.to_path_buf())
    }

    /// Process and groups of its sidecar; none without one.
    pub(super) fn sidecar(&self, workload: &str) -> anyhow::Result<Option<(Pid, &[PathBuf])>> {
        let instance = self.instance(workload)?;
        let process = instance
            .sidecar
            .process
            .and_then(|it| Pid::from_raw(it.pid));
        Ok(process.map(|pid| (pid, &*instance.sidecar_cgroups)))
    }

    /// Process and groups of its application.
    ///
    /// # Errors
    /// When there is none: it has none, or it has just ended.
    pub(super) fn application(&self, workload: &str) -> anyhow::Result<(Pid, &[PathBuf])> {
        let instance = self.instance(workload)?;
        let life = instance.application.as_ref();
        let process = life.and_then(|life| Pid::from_raw(life.process?.pid));
        let pid = process.with_context(|| format!("the application of {workload} has ended"))?;
        Ok((pid, &instance.cgroups))
    }

    /// A page of its sidecar; what went wrong where there is none.
    pub(super) fn page(&self, workload: &str, path: &str) -> String {
        let found = self.instance(workload).map(|instance| {
            let sidecars = self.state.iter().flat_map(inspect::sidecars);
            sidecars.into_iter().find(|one| one.instance == instance.id)
        });
        let text = |sidecar: Sidecar| sidecar.pages.text(path).map_err(Into::into);
        let page = match found {
            Ok(Some(sidecar)) => text(sidecar),
            Ok(None) => Err(anyhow::anyhow!("there is no sidecar")),
            Err(error) => Err(error),
        };
        page.unwrap_or_else(|error: anyhow::Error| format!("{path}: {error:#}\n"))
    }

    /// Fails when one of its processes is not the one that came up, with its last words.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for instance in self.state.iter().flat_map(|state| &state.instances) {
            let application = instance.application.as_ref();
            let application = application.and_then(|life| life.process);
            for (what, process) in [
                ("sidecar", instance.sidecar.process),
                ("application", application),
            ] {
                if process.is_some_and(|process| !process.is_alive()) {
                    let folder = Folder::new(&self.base, &self.name);
                    let words = folder.instance(&instance.id).output(what, "err");
                    let (id, words) = (&instance.id, logs::tail(&words));
                    bail!("the {what} of {id} ended; its last words:\n  {words}");
                }
            }
        }
        Ok(())
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        // It may not have come far enough for there to be one; what is left, `leno ps` shows.
        let _ = ::local::down(&self.base, &self.name);
        // The supervisor is our child: nobody else asks how it ended.
        let supervisor = self.state.as_ref().map(|state| state.supervisor.pid);
        let supervisor = supervisor.and_then(Pid::from_raw);
        let _ = supervisor.map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
    }
}
