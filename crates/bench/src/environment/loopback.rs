//! The loopback environment: every role a process of this machine, addresses on 127.0.0.1, a
//! cgroup per sidecar where they may be written. Needs no root; with it, limits are enforced.
//! Whatever it starts or makes is gone when it is dropped.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context, ensure};

use super::{Environment, Placed, Purpose, generator, placement};
use crate::cgroup::{Hierarchy, Limit};
use crate::dataplane::{Certificates, DataPlane, Hop, Side};
use crate::loader::{Loader, Outcome};
use crate::machine;
use crate::process::{Child, Placing, Program, pin_self, usable_cpus};
use crate::results::{self, CellKey, EnvironmentKind, Limits, Link, Mode, Placement};

mod path;
mod sidecar;

use path::LoopbackPath;
use sidecar::Sidecar;

/// Of each sidecar, as in the published reports.
const MEMORY_BYTES: u64 = 512 << 20;

/// This machine.
#[derive(Debug)]
pub struct Loopback {
    launcher: PathBuf,
    cgroups: Result<Hierarchy, String>,
    placement: Placement,
    certificates: Certificates,
    server: Child,
    server_addr: SocketAddr,
    placed: u32,
    cpus: usize,
    /// Of all CPU limits.
    scale: f64,
    /// What sidecars may use, before scaling.
    sidecar_millis: Vec<u32>,
    // Last: dropped after the processes that read from it.
    work: tempfile::TempDir,
}

impl Loopback {
    /// Starts the echo server.
    ///
    /// # Errors
    /// When the certificates cannot be made or the server does not come up.
    pub fn start(purpose: Purpose<'_>) -> anyhow::Result<Self> {
        let launcher = purpose.launcher.to_path_buf();
        let work = tempfile::tempdir().context("making a working directory")?;
        let certificates = Certificates::make(&work.path().join("certificates"))?;
        let cpus = usable_cpus();
        let placement = placement::of(&cpus);
        pin_self(&placement.generator).context("pinning the benchmark beside its generator")?;
        let (server, server_addr) = start_server(&launcher, &placement)?;
        let cgroups = Hierarchy::find();
        let placed = 0;
        Ok(Self {
            launcher,
            cgroups,
            placement,
            certificates,
            server,
            server_addr,
            placed,
            cpus: cpus.len(),
            scale: purpose.settings.scale,
            sidecar_millis: purpose.settings.sidecar_millis.clone(),
            work,
        })
    }

    fn start_sidecar(
        &self,
        plane: &dyn DataPlane,
        side: Side,
        key: &CellKey,
        upstream: SocketAddr,
    ) -> anyhow::Result<Sidecar> {
        let dir = tempfile::Builder::new()
            .prefix(&format!("{}-{}-", self.placed, side.name()))
            .tempdir_in(self.work.path())
            .context("making a directory for a sidecar")?;
        let certificates = &self.certificates;
        let hop = Hop {
            side,
            mutual_tls: key.mode == Mode::Both,
            telemetry: key.telemetry,
            upstream,
            connections: key.connections,
            certificates,
            dir: dir.path(),
        };
        let sidecar = sidecar::start(&self.launcher, plane, &hop, || self.placing(side, key))?;
        Ok(sidecar.living_in(dir))
    }

    /// CPUs and a new cgroup for one sidecar.
    fn placing(&self, side: Side, key: &CellKey) -> anyhow::Result<sidecar::Room> {
        let cpus = match side {
            Side::Client | Side::Gateway => self.placement.client_sidecar.clone(),
            Side::Server => self.placement.server_sidecar.clone(),
        };
        let cgroup = match &self.cgroups {
            Ok(hierarchy) => {
                let name = format!("{}-{}", side.name(), self.placed);
                let limit = Limit {
                    cpus: f64::from(results::scaled(key.sidecar_millis, self.scale)) / 1e3,
                    memory_bytes: MEMORY_BYTES,
                };
                Some(hierarchy.make(&name, limit).context("making a cgroup")?)
            }
            Err(_) => None,
        };
        Ok(sidecar::Room { cpus, cgroup })
    }

    fn limits(&self) -> Limits {
        match &self.cgroups {
            Ok(hierarchy) => Limits {
                cpus: super::one_limit(&self.sidecar_millis, self.scale),
                memory_bytes: Some(MEMORY_BYTES),
                how: hierarchy.name().to_owned(),
            },
            Err(why) => Limits {
                how: format!("not enforced: {why}"),
                ..Limits::default()
            },
        }
    }
}

impl Environment for Loopback {
    fn kind(&self) -> EnvironmentKind {
        EnvironmentKind::Loopback
    }

    fn describe(&self) -> results::Environment {
        let (cpu_source, memory_source) = match &self.cgroups {
            Ok(hierarchy) => {
                let name = hierarchy.name();
                (
                    format!("{name} of each sidecar"),
                    format!("Pss from smaps_rollup; anon: {name}"),
                )
            }
            Err(_) => {
                let cpu = "schedstat of each thread of the sidecar";
                (cpu.to_owned(), "Pss from smaps_rollup".to_owned())
            }
        };
        results::Environment {
            kind: self.kind().name().to_owned(),
            limits: self.limits(),
            placement: self.placement.clone(),
            cpu_source,
            memory_source,
            notes: notes(),
            // Not what is left to us after pinning ourselves.
            cpus: self.cpus,
            ..machine::describe()
        }
    }

    fn place(&mut self, plane: &dyn DataPlane, key: &CellKey) -> anyhow::Result<Box<dyn Placed>> {
        ensure!(
            key.link == Link::Echo && key.mode != Mode::Ingress,
            "there is no gateway on loopback: use --environment local, as root"
        );
        self.server.check()?;
        self.placed += 1;
        let mut target = self.server_addr;
        let mut sidecars = Vec::new();
        for (side, crossed) in [
            (Side::Server, key.crosses_server()),
            (Side::Client, key.crosses_client()),
        ] {
            if crossed {
                let sidecar = self.start_sidecar(plane, side, key, target)?;
                target = sidecar.address();
                sidecars.push(sidecar);
            }
        }
        Ok(Box::new(LoopbackPath::new(target, sidecars)))
    }

    fn generate(
        &self,
        loader: &Loader,
        mut plan: load::Plan,
        watch: &mut dyn FnMut(&load::Progress) -> ControlFlow<()>,
    ) -> anyhow::Result<Option<Outcome>> {
        plan.cpus.clone_from(&self.placement.generator);
        generator::run(loader, plan, || Ok(()), watch)
    }
}

fn notes() -> Vec<String> {
    let notes = [
        "All roles share one machine and its loopback interface: latencies have no network in \
         them, and compare data planes with each other, not with a cluster.",
        "Pss shares out the pages of a program among all processes that run it: in mode both, \
         two sidecars share one program's.",
        "Each repeat starts its sidecars afresh and warms them up before the window opens.",
    ];
    notes.map(str::to_owned).to_vec()
}

fn start_server(
    launcher: &std::path::Path,
    placement: &Placement,
) -> anyhow::Result<(Child, SocketAddr)> {
    let placing = Placing {
        cpus: placement.server.clone(),
        ..Placing::default()
    };
    let args = ["load", "serve", "--address", "127.0.0.1", "--port", "0"]
        .map(Into::into)
        .to_vec();
    let label = "echo server (leno load serve)".to_owned();
    let program = Program {
        label,
        path: launcher.to_path_buf(),
        args,
    };
    let mut server = Child::start(launcher, &placing, &program)?;
    let line = server.line()?;
    let event: serde_json::Value = serde_json::from_str(&line)
        .with_context(|| format!("the echo server said `{line}` instead of its address"))?;
    let address = event["address"].as_str().and_then(|text| text.parse().ok());
    let address =
        address.with_context(|| format!("the echo server said `{line}`: no address in it"))?;
    Ok((server, address))
}
