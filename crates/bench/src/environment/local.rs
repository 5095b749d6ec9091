//! The local environment: client and server, or the services of the sample behind a gateway, are
//! workloads of a mesh on this machine, which is brought up afresh for each repeat. Modes are what
//! sidecars intercept, limits are those of the workloads. Needs root. Whatever it brings up is down
//! when it is dropped.

use std::fs;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ::local::Programs;
use ::local::name::MeshName;
use anyhow::{Context, bail, ensure};

use super::{Environment, Placed, Purpose, generator, placement};
use crate::dataplane::{DataPlane, InMesh, free_port};
use crate::loader::{Loader, Outcome};
use crate::machine;
use crate::process::{self, pin_self, usable_cpus};
use crate::results::{self, CellKey, EnvironmentKind, Limits, Link, Mode, Placement, Settings};

mod application;
mod layout;
mod mesh;
mod path;

use layout::sample::{self, Sample};
use layout::{Allowance, GATEWAY, Layout, MEMORY_BYTES, Subnet};
use mesh::Mesh;
use path::LocalPath;

/// Meshes of ours are called so, with our process id.
const PREFIX: &str = "bench-";

/// This machine as a mesh.
#[derive(Debug)]
pub struct Local {
    launcher: PathBuf,
    settings: Settings,
    /// The gateway's program, where no data plane brings it; absent: as `leno up` finds it.
    proxy: Option<PathBuf>,
    name: MeshName,
    placement: Placement,
    /// The network namespace of the client that was placed last; none: the machine's own, outside
    /// of the mesh.
    client: Option<PathBuf>,
    /// What enforces the limits.
    groups: &'static str,
    cpus: usize,
    work: tempfile::TempDir,
}

impl Local {
    /// Brings up a mesh without sidecars, and takes it down: whoever can do that can do the rest.
    ///
    /// # Errors
    /// What a local mesh lacks here.
    pub fn start(purpose: Purpose<'_>) -> anyhow::Result<Self> {
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
        let placement = match purpose.settings.links.as_slice() {
            [Link::Echo] => placement::of(&cpus),
            _ => placement::by_limits(),
        };
        let local = Self {
            launcher: purpose.launcher.to_path_buf(),
            settings: purpose.settings.clone(),
            proxy: purpose.programs.proxy.clone(),
            name: format!("{PREFIX}{}", std::process::id()).parse()?,
            placement,
            client: None,
            groups,
            cpus: cpus.len(),
            work,
        };
        let tried = local.up_echo(&InMesh::Without, Mode::Baseline, 1000);
        drop(tried.context("bringing a mesh up on this machine")?);
        pin_self(&local.placement.generator)
            .context("pinning the benchmark beside its generator")?;
        Ok(local)
    }

    /// A mesh of what the cell crosses, and where its requests go.
    fn up(&self, plane: &InMesh, key: &CellKey) -> anyhow::Result<(Mesh, SocketAddr)> {
        match key.link {
            Link::Echo => self.up_echo(plane, key.mode, key.sidecar_millis),
            Link::Ratings | Link::GatewayRatings => self.up_sample(plane, key),
        }
    }

    fn up_echo(
        &self,
        plane: &InMesh,
        mode: Mode,
        sidecar_millis: u32,
    ) -> anyhow::Result<(Mesh, SocketAddr)> {
        let layout = Layout {
            launcher: &self.launcher,
            subnet: Subnet::of_process(),
            mode,
            data_plane: data_plane(plane),
            server_cpus: &self.placement.server,
            sidecar: self.allowance(sidecar_millis),
            gateway: self.gateway()?,
        };
        let mesh = self.bring_up(plane, &layout.text())?;
        let target = match mode {
            Mode::Ingress => layout.gateway.0,
            _ if mode.crosses_client() => layout.service(),
            _ => SocketAddr::new(mesh.address("server")?, layout::PORT),
        };
        Ok((mesh, target))
    }

    fn up_sample(&self, plane: &InMesh, key: &CellKey) -> anyhow::Result<(Mesh, SocketAddr)> {
        let data_plane = data_plane(plane);
        let subnet = Subnet::of_process();
        let application = self.settings.application;
        let ratings_at = sample::ratings_at(subnet, data_plane.is_some());
        let layout = Sample {
            subnet,
            link: key.link,
            data_plane,
            api_gateway: application::api_gateway(application, &self.launcher, ratings_at)?,
            ratings: application::ratings(application, &self.launcher)?,
            sidecar: self.allowance(key.sidecar_millis),
            application: self.allowance(self.settings.sample.application_millis),
            gateway: self.gateway()?,
        };
        let mesh = self.bring_up(plane, &layout.text())?;
        let lives = mesh.address(sample::RATINGS)?;
        ensure!(
            data_plane.is_some() || lives == ratings_at.ip(),
            "ratings live at {lives}, where api-gateway does not look for them"
        );
        Ok((mesh, layout.gateway.0))
    }

    fn bring_up(&self, plane: &InMesh, text: &str) -> anyhow::Result<Mesh> {
        let programs = match plane.clone() {
            InMesh::Without => Programs {
                proxy: self.proxy.clone(),
                ..Programs::default()
            },
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
        Mesh::up(&self.name, self.work.path(), text, &programs)
    }

    /// Where the way in listens, outside of the mesh, and what it may use.
    fn gateway(&self) -> anyhow::Result<(SocketAddr, Allowance)> {
        let allowance = self.allowance(self.settings.sample.gateway_millis);
        Ok((free_port()?, allowance))
    }

    fn allowance(&self, nominal_millis: u32) -> Allowance {
        Allowance {
            cpu_millis: self.settings.effective_millis(nominal_millis),
            memory_bytes: MEMORY_BYTES,
        }
    }

    fn limits(&self) -> Limits {
        let Settings {
            sidecar_millis,
            scale,
            ..
        } = &self.settings;
        Limits {
            cpus: super::one_limit(sidecar_millis, *scale),
            memory_bytes: Some(MEMORY_BYTES),
            how: self.groups.to_owned(),
        }
    }
}

/// The word for it in a mesh's file; none without sidecars.
fn data_plane(plane: &InMesh) -> Option<&'static str> {
    match plane {
        InMesh::Without => None,
        InMesh::Leno(_) => Some("leno"),
        InMesh::Envoy { .. } => Some("envoy"),
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
            limits: self.limits(),
            placement: self.placement.clone(),
            cpu_source: format!("{} of each sidecar", self.groups),
            memory_source: format!("Pss from smaps_rollup; anon: {}", self.groups),
            notes: notes(&self.settings),
            // Not what is left to us after pinning ourselves.
            cpus: self.cpus,
            ..machine::describe()
        }
    }

    fn place(&mut self, plane: &dyn DataPlane, key: &CellKey) -> anyhow::Result<Box<dyn Placed>> {
        let Some(in_mesh) = plane.in_mesh() else {
            bail!("{}", super::refusal(plane.name(), &self.settings.links));
        };
        let (mesh, target) = self.up(&in_mesh, key)?;
        self.client = match key.crosses_gateway() {
            true => None,
            false => Some(mesh.namespace("client")?),
        };
        let path = LocalPath::open(mesh, target, key)?;
        path.pin(&self.placement)?;
        Ok(Box::new(path))
    }

    fn generate(
        &self,
        loader: &Loader,
        mut plan: load::Plan,
        watch: &mut dyn FnMut(&load::Progress) -> ControlFlow<()>,
    ) -> anyhow::Result<Option<Outcome>> {
        plan.cpus.clone_from(&self.placement.generator);
        let enter = self.client.as_deref().map(enter).transpose()?;
        generator::run(
            loader,
            plan,
            move || enter.map_or(Ok(()), |enter| enter()),
            watch,
        )
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

fn notes(settings: &Settings) -> Vec<String> {
    let of_link: &[&str] = match settings.links.as_slice() {
        [Link::Echo] => &ECHO_NOTES,
        _ => &SAMPLE_NOTES,
    };
    let notes = of_link.iter().chain(&NOTES);
    notes.map(|&note| note.to_owned()).collect()
}

const ECHO_NOTES: [&str; 3] = [
    "Generator and server are workloads of a mesh on this machine, each in a network namespace \
         of its own, and a bridge lies between: latencies compare data planes with each other, not \
         with a cluster.",
    "The data plane none has no sidecars at all. In its other modes a data plane has both \
         sidecars, and those that a mode does not cross intercept nothing; in its mode baseline \
         neither does.",
    "Calls that cross the client's sidecar go to the server's Service, others to its address.",
];

const SAMPLE_NOTES: [&str; 3] = [
    "The services of the sample and the gateway before them are workloads of a mesh on this \
         machine, each in a network namespace of its own, with a bridge between them; the \
         generator is outside of the mesh and calls the gateway.",
    "The gateway is Leno's in every round. Without sidecars it sends plaintext to the same \
         applications.",
    "Nothing is pinned to CPUs: quotas keep sidecars, applications and the gateway apart.",
];

const NOTES: [&str; 2] = [
    "Pss shares out the pages of a program among all processes that run it: two sidecars, and \
         the mesh's resolver, share one program's. A sidecar's is that of all its processes.",
    "Each repeat brings its mesh up afresh and warms it up before the window opens.",
];
