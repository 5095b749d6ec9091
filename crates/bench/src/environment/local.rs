//! The local environment: generator and server are workloads of a mesh on this machine, which is
//! brought up afresh for each repeat. Modes are what sidecars intercept, limits are those of the
//! workloads. Needs root. Whatever it brings up is down when it is dropped.

use std::fs;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ::local::Programs;
use ::local::name::MeshName;
use anyhow::{Context, bail, ensure};

use super::{Environment, Placed, generator, placement};
use crate::dataplane::{DataPlane, InMesh};
use crate::machine;
use crate::process::{self, pin_self, usable_cpus};
use crate::results::{self, CellKey, EnvironmentKind, Limits, Link, Mode, Placement};

mod layout;
mod mesh;
mod path;

use layout::{Layout, Subnet};
use mesh::Mesh;
use path::LocalPath;

/// Meshes of ours are called so, with our process id.
const PREFIX: &str = "bench-";

/// This machine as a mesh.
#[derive(Debug)]
pub struct Local {
    launcher: PathBuf,
    name: MeshName,
    placement: Placement,
    /// The network namespace of the client that was placed last.
    client: Option<PathBuf>,
    /// What enforces the limits.
    groups: &'static str,
    cpus: usize,
    work: tempfile::TempDir,
}

impl Local {
    /// Brings up a mesh without sidecars, and takes it down: whoever can do that can do the rest.
    /// `launcher` is the `leno` command itself.
    ///
    /// # Errors
    /// What a local mesh lacks here.
    pub fn start(launcher: PathBuf) -> anyhow::Result<Self> {
        ensure!(
            rustix::process::geteuid().is_root(),
            "a local mesh needs root: run it with sudo"
        );
        let groups = limits_by()?;
        sweep();
        let work = tempfile::tempdir().context("making a working directory")?;
        // The server is started in it, as a user of its own.
        fs::set_permissions(work.path(), fs::Permissions::from_mode(0o755))?;
        let cpus = usable_cpus();
        let placement = placement::of(&cpus);
        let local = Self {
            launcher,
            name: format!("{PREFIX}{}", std::process::id()).parse()?,
            placement,
            client: None,
            groups,
            cpus: cpus.len(),
            work,
        };
        let tried = local.up(&InMesh::Without, Mode::Baseline);
        drop(tried.context("bringing a mesh up on this machine")?);
        pin_self(&local.placement.generator)
            .context("pinning the benchmark beside its generator")?;
        Ok(local)
    }

    fn up(&self, plane: &InMesh, mode: Mode) -> anyhow::Result<(Mesh, SocketAddr)> {
        let layout = Layout {
            launcher: &self.launcher,
            subnet: Subnet::of_process(),
            mode,
            data_plane: match plane {
                InMesh::Without => None,
                InMesh::Leno(_) => Some("leno"),
                InMesh::Envoy { .. } => Some("envoy"),
            },
            server_cpus: &self.placement.server,
        };
        let programs = match plane.clone() {
            InMesh::Without => Programs::default(),
            InMesh::Leno(program) => Programs {
                proxy: Some(program),
                ..Programs::default()
            },
            InMesh::Envoy { companion, program } => Programs {
                proxy: Some(companion),
                envoy: Some(program),
                ..Programs::default()
            },
        };
        let mesh = Mesh::up(&self.name, self.work.path(), &layout.text(), &programs)?;
        let target = match mode.crosses_client() {
            true => layout.service(),
            false => SocketAddr::new(mesh.address("server")?, layout::PORT),
        };
        Ok((mesh, target))
    }

    fn limits(&self) -> Limits {
        Limits {
            cpus: Some(layout::LIMIT.cpus),
            memory_bytes: Some(layout::LIMIT.memory_bytes),
            how: self.groups.to_owned(),
        }
    }
}

/// What of control groups can limit sidecars here.
fn limits_by() -> anyhow::Result<&'static str> {
    let groups = ::local::machine::Groups::find();
    ensure!(
        groups.cpu && groups.memory,
        "the limits of sidecars take control groups for cpu and memory, and here are none"
    );
    Ok(match groups.version {
        Some(2) => "cgroup v2",
        _ => "cgroup v1",
    })
}

/// Takes down what benchmarks that were killed left behind.
fn sweep() {
    let base = ::local::folder::base();
    for state in ::local::list(&base).unwrap_or_default() {
        let owner = state.name.as_str().strip_prefix(PREFIX);
        let owner = owner.and_then(|pid| pid.parse::<i32>().ok());
        if owner.is_some_and(|pid| !process::exists(pid)) {
            // What is left, `leno ps` shows.
            let _ = ::local::down(&base, &state.name);
        }
    }
}

impl Environment for Local {
    fn kind(&self) -> EnvironmentKind {
        EnvironmentKind::Local
    }

    fn describe(&self) -> results::Environment {
        results::Environment {
            kind: self.kind().name().to_owned(),
            generator: format!("leno load {}", env!("CARGO_PKG_VERSION")),
            limits: self.limits(),
            placement: self.placement.clone(),
            cpu_source: format!("{} of each sidecar", self.groups),
            memory_source: format!("Pss from smaps_rollup; anon: {}", self.groups),
            notes: notes(),
            // Not what is left to us after pinning ourselves.
            cpus: self.cpus,
            ..machine::describe()
        }
    }

    fn place(&mut self, plane: &dyn DataPlane, key: &CellKey) -> anyhow::Result<Box<dyn Placed>> {
        let Some(in_mesh) = plane.in_mesh() else {
            bail!("{}", super::refusal(plane.name()));
        };
        ensure!(
            key.link == Link::Echo && key.mode != Mode::Ingress,
            "the gateway is not measured in a local mesh yet"
        );
        let (mesh, target) = self.up(&in_mesh, key.mode)?;
        self.client = Some(mesh.namespace("client")?);
        let path = LocalPath::open(mesh, target, key)?;
        path.pin(&self.placement)?;
        Ok(Box::new(path))
    }

    fn generate(
        &self,
        mut plan: load::Plan,
        watch: &mut dyn FnMut(&load::Progress) -> ControlFlow<()>,
    ) -> anyhow::Result<Option<load::Outcome>> {
        plan.cpus.clone_from(&self.placement.generator);
        let client = self.client.as_deref();
        let client = client.context("nothing was placed that could be loaded")?;
        let enter = enter(client)?;
        generator::run(plan, enter, watch)
    }
}

/// Moves the calling thread, and what it starts, into a network namespace.
fn enter(namespace: &Path) -> anyhow::Result<impl FnOnce() -> anyhow::Result<()> + Send + use<>> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    use std::os::fd::AsFd;
    let opened = fs::File::open(namespace);
    let opened = opened.with_context(|| format!("opening {}", namespace.display()))?;
    Ok(move || {
        move_into_link_name_space(opened.as_fd(), Some(LinkNameSpaceType::Network))
            .context("entering the client's network namespace")
    })
}

fn notes() -> Vec<String> {
    let notes = [
        "Generator and server are workloads of a mesh on this machine, each in a network namespace \
         of its own, and a bridge lies between: latencies compare data planes with each other, not \
         with a cluster.",
        "The data plane none has no sidecars at all. In its other modes a data plane has both \
         sidecars, and those that a mode does not cross intercept nothing; in its mode baseline \
         neither does.",
        "Calls that cross the client's sidecar go to the server's Service, others to its address.",
        "Pss shares out the pages of a program among all processes that run it: two sidecars, and \
         the mesh's resolver, share one program's. A sidecar's is that of all its processes.",
        "Each repeat brings its mesh up afresh and warms it up before the window opens.",
    ];
    notes.map(str::to_owned).to_vec()
}
