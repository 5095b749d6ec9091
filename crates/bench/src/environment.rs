//! The seam to the place where a benchmark runs: it places the server and the sidecars, gives
//! them their CPUs and limits, runs the generator and reads what was used. Called by `run`.
//! Nothing above it knows a process id, an address of a sidecar, or a cgroup.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use anyhow::{bail, ensure};

use crate::dataplane::programs::Programs;
use crate::dataplane::{DataPlane, Side};
use crate::loader::{Loader, Outcome};
use crate::perf::Recording;
use crate::results::{self, CellKey, EnvironmentKind, Link, Settings, SidecarUsage, Telemetry};

mod generator;
mod placement;
mod window;

pub mod local;
pub mod loopback;

use local::Local;
use loopback::Loopback;

/// What an environment is opened for.
#[derive(Debug, Clone, Copy)]
pub struct Purpose<'a> {
    /// The grid; its data planes may not be known yet.
    pub settings: &'a Settings,
    /// Where the data planes' programs are.
    pub programs: &'a Programs,
    /// The `leno` command itself.
    pub launcher: &'a Path,
}

/// Opens the environment that is asked for; else a local mesh where there can be one for all of
/// these data planes, or the loopback, with a sentence that says why.
///
/// # Errors
/// When there is no such environment here.
pub fn open(
    asked: Option<EnvironmentKind>,
    planes: &[Box<dyn DataPlane>],
    purpose: Purpose<'_>,
) -> anyhow::Result<(Box<dyn Environment>, Option<String>)> {
    let note = match asked {
        Some(EnvironmentKind::Local) => return Ok((Box::new(mesh(planes, purpose)?), None)),
        Some(EnvironmentKind::Loopback) => None,
        None => match mesh(planes, purpose) {
            Ok(local) => return Ok((Box::new(local), None)),
            Err(why) => Some(format!("on loopback, not in a local mesh: {why:#}")),
        },
    };
    Ok((Box::new(Loopback::start(purpose)?), note))
}

fn mesh(planes: &[Box<dyn DataPlane>], purpose: Purpose<'_>) -> anyhow::Result<Local> {
    let without = planes.iter().find(|plane| plane.in_mesh().is_none());
    if let Some(plane) = without {
        bail!("{}", refusal(plane.name(), &purpose.settings.links));
    }
    let telemetry = &purpose.settings.telemetry;
    ensure!(
        telemetry.iter().all(|&one| one == Telemetry::Metrics),
        "a mesh cannot be told what its sidecars tell, which is metrics: leave --telemetry out, or \
         use --environment loopback"
    );
    Local::start(purpose)
}

fn refusal(data_plane: &str, links: &[Link]) -> String {
    let instead = match links {
        [Link::Echo] => ", or use --environment loopback",
        // The sample is a mesh's.
        _ => "",
    };
    format!("{data_plane} is not measured in a local mesh: leave it out{instead}")
}

/// A place to run in.
pub trait Environment {
    /// Which one it is.
    fn kind(&self) -> EnvironmentKind;

    /// What a reader must know about it.
    fn describe(&self) -> results::Environment;

    /// Starts the sidecars that a cell crosses, afresh, and returns once they serve.
    ///
    /// # Errors
    /// When one does not come up, with its last words.
    fn place(&mut self, plane: &dyn DataPlane, key: &CellKey) -> anyhow::Result<Box<dyn Placed>>;

    /// Runs the load tool where it disturbs the sidecars least. `watch` is told of each phase as
    /// it begins, and several times a second; when it breaks, there is no outcome.
    ///
    /// # Errors
    /// When the plan cannot be run at all.
    fn generate(
        &self,
        loader: &Loader,
        plan: load::Plan,
        watch: &mut dyn FnMut(&load::Progress) -> ControlFlow<()>,
    ) -> anyhow::Result<Option<Outcome>>;
}

/// A path from the generator to the server. Dropping it ends its sidecars.
pub trait Placed {
    /// Where the generator sends to.
    fn target(&self) -> SocketAddr;

    /// The measured window opens: reads the counters.
    ///
    /// # Errors
    /// When a counter cannot be read: its sidecar is gone.
    fn open_window(&mut self) -> anyhow::Result<()>;

    /// About a second of the window has passed: reads the counters for a sample.
    ///
    /// # Errors
    /// As [`Placed::open_window`].
    fn sample(&mut self) -> anyhow::Result<()>;

    /// The measured window closes: reads the counters again, then memory.
    ///
    /// # Errors
    /// When a counter cannot be read, or the window was never opened.
    fn close_window(&mut self) -> anyhow::Result<Usage>;

    /// Has perf look at the sidecars from now on, for as long as a window; what it writes goes into
    /// `dir`.
    ///
    /// # Errors
    /// When perf cannot be started.
    fn profile(&self, length: Duration, dir: &Path) -> anyhow::Result<Vec<Recording>>;

    /// The sidecars' own counters, as text. Never called inside a window: it costs them CPU.
    fn counters(&self) -> Vec<(Side, String)>;

    /// The sidecars' configuration files as (name, content).
    fn configurations(&self) -> Vec<(String, String)>;

    /// Fails when a sidecar or the server has ended, with its last words.
    fn check(&mut self) -> anyhow::Result<()>;
}

/// What was used in the measured window.
#[derive(Debug, Default)]
pub struct Usage {
    /// The client sidecar, where there is one.
    pub client: Option<SidecarUsage>,
    /// The server sidecar, where there is one.
    pub server: Option<SidecarUsage>,
    /// The gateway, where there is one.
    pub gateway: Option<SidecarUsage>,
    /// The application beside the client sidecar, where it is watched.
    pub client_application: Option<SidecarUsage>,
    /// The application beside the server sidecar, where it is watched.
    pub server_application: Option<SidecarUsage>,
    /// Share of the machine's CPU time that was idle, 0 to 1.
    pub machine_idle: Option<f64>,
    /// Share of the machine's CPU time that the hypervisor kept, 0 to 1.
    pub machine_stolen: Option<f64>,
}

/// Whose usage is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Sidecar(Side),
    /// The application beside the client sidecar.
    ClientApplication,
    /// The application beside the server sidecar.
    ServerApplication,
}

impl Part {
    /// For messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sidecar(Side::Client) => "client sidecar",
            Self::Sidecar(Side::Server) => "server sidecar",
            Self::Sidecar(Side::Gateway) => "gateway",
            Self::ClientApplication => "application beside the client sidecar",
            Self::ServerApplication => "application beside the server sidecar",
        }
    }
}

impl Usage {
    pub(crate) fn of(&mut self, part: Part) -> &mut Option<SidecarUsage> {
        match part {
            Part::Sidecar(Side::Client) => &mut self.client,
            Part::Sidecar(Side::Server) => &mut self.server,
            Part::Sidecar(Side::Gateway) => &mut self.gateway,
            Part::ClientApplication => &mut self.client_application,
            Part::ServerApplication => &mut self.server_application,
        }
    }
}

/// CPUs that each sidecar may use, where that is one figure in the whole run.
fn one_limit(sidecar_millis: &[u32], scale: f64) -> Option<f64> {
    match *sidecar_millis {
        [millis] => Some(f64::from(results::scaled(millis, scale)) / 1e3),
        _ => None,
    }
}
