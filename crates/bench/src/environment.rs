//! The seam to the place where a benchmark runs: it places the server and the sidecars, gives
//! them their CPUs and limits, runs the generator and reads what was used. Called by `latency`.
//! Nothing above it knows a process id, an address of a sidecar, or a cgroup.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::bail;

use crate::dataplane::{DataPlane, Side};
use crate::results::{self, CellKey, EnvironmentKind, SidecarUsage};

mod generator;
mod placement;
mod window;

pub mod local;
pub mod loopback;

use local::Local;
use loopback::Loopback;

/// Opens the environment that is asked for; else a local mesh where there can be one for all of
/// these data planes, or the loopback, with a sentence that says why. `launcher` is the `leno`
/// command itself.
///
/// # Errors
/// When there is no such environment here.
pub fn open(
    asked: Option<EnvironmentKind>,
    planes: &[Box<dyn DataPlane>],
    launcher: PathBuf,
) -> anyhow::Result<(Box<dyn Environment>, Option<String>)> {
    let note = match asked {
        Some(EnvironmentKind::Local) => return Ok((Box::new(mesh(planes, launcher)?), None)),
        Some(EnvironmentKind::Loopback) => None,
        None => match mesh(planes, launcher.clone()) {
            Ok(local) => return Ok((Box::new(local), None)),
            Err(why) => Some(format!("on loopback, not in a local mesh: {why:#}")),
        },
    };
    Ok((Box::new(Loopback::start(launcher)?), note))
}

fn mesh(planes: &[Box<dyn DataPlane>], launcher: PathBuf) -> anyhow::Result<Local> {
    let without = planes.iter().find(|plane| plane.in_mesh().is_none());
    if let Some(plane) = without {
        bail!("{}", refusal(plane.name()));
    }
    Local::start(launcher)
}

fn refusal(data_plane: &str) -> String {
    format!(
        "{data_plane} is not measured in a local mesh: leave it out, or use --environment loopback"
    )
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

    /// Runs the generator where it disturbs the sidecars least. `watch` is told of each phase as
    /// it begins, and several times a second; when it breaks, there is no outcome.
    ///
    /// # Errors
    /// When the plan cannot be run at all.
    fn generate(
        &self,
        plan: load::Plan,
        watch: &mut dyn FnMut(&load::Progress) -> ControlFlow<()>,
    ) -> anyhow::Result<Option<load::Outcome>>;
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
    /// Share of the machine's CPU time that was idle, 0 to 1.
    pub machine_idle: Option<f64>,
    /// Share of the machine's CPU time that the hypervisor kept, 0 to 1.
    pub machine_stolen: Option<f64>,
}

impl Usage {
    pub(crate) fn of(&mut self, side: Side) -> &mut Option<SidecarUsage> {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
            Side::Gateway => &mut self.gateway,
        }
    }
}
