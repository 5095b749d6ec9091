//! What a run leaves behind: its settings, its environment, its cells and their repeats.
//! Written by `run`, read by `report`, `figures`, `table` and `csv`. It never measures anything,
//! and it never averages a percentile: histograms of repeats are added.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

mod cell;
pub(crate) mod drift;
pub mod estimate;
pub mod folder;
pub mod metric;
mod objective;
pub mod pool;
pub(crate) mod random;
#[cfg(test)]
pub(crate) mod sample;

pub use cell::{
    Application, Arrivals, CellKey, EnvironmentKind, Experiment, Link, LoadTool, Mode,
    SIDECAR_MILLIS, SampleLimits, Telemetry,
};
pub use estimate::{COUNTED_MAX, Estimate, Resampled};
pub use metric::Metric;
pub use objective::Objective;
pub use pool::Spread;

/// Version of the result folder's layout; a folder with another one is refused.
pub const SCHEMA: u32 = 1;

/// One run: everything that its folder holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// Layout version, see [`SCHEMA`].
    pub schema: u32,
    /// Names the run in labels, e.g. `leno-20260102-030405`.
    pub id: String,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// The command line that made it.
    pub command: String,
    /// What was asked for.
    pub settings: Settings,
    /// Where it was measured; kept in `environment.json`.
    #[serde(skip)]
    pub environment: Environment,
    /// Cells that have at least one repeat, in the order of [`Settings::keys`].
    #[serde(skip)]
    pub cells: Vec<Cell>,
}

/// The grid of a run, as resolved from flags, files and defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What the run is for.
    #[serde(default)]
    pub experiment: Experiment,
    /// Where; runs from before there was a choice were on loopback.
    #[serde(default)]
    pub environment: EnvironmentKind,
    /// Names of data planes, in the order of the tables.
    pub data_planes: Vec<String>,
    /// Modes, in the order of the tables.
    pub modes: Vec<Mode>,
    /// Connections of the generator, one cell each.
    pub connections: Vec<u32>,
    /// Requests per second over all connections; `None` is a closed loop.
    pub qps: Vec<Option<u32>>,
    /// What requests go through, in the order of the tables.
    #[serde(default = "Link::only_echo")]
    pub links: Vec<Link>,
    /// CPU limits of each sidecar before [`Settings::scale`], in thousandths of a CPU.
    #[serde(default = "cell::reports_limit")]
    pub sidecar_millis: Vec<u32>,
    /// What sidecars tell about requests, in the order of the tables.
    #[serde(default = "Telemetry::only_metrics")]
    pub telemetry: Vec<Telemetry>,
    /// All CPU limits are multiplied by it: 0.2 makes "1 CPU" a fifth of one.
    #[serde(default = "cell::unscaled")]
    pub scale: f64,
    /// What serves behind the links of the sample.
    #[serde(default)]
    pub application: Application,
    /// What the sample may use besides its sidecars.
    #[serde(default)]
    pub sample: SampleLimits,
    /// What makes the requests.
    #[serde(default)]
    pub load: LoadTool,
    /// Bytes of the answer's body.
    pub payload_bytes: u64,
    /// Seconds of one repeat's measured window.
    pub duration_seconds: f64,
    /// Seconds of load before the window opens.
    pub warmup_seconds: f64,
    /// Repeats of each cell.
    pub repeats: u32,
    /// Seed of the order in which cells ran.
    pub seed: u64,
    /// Extra request headers.
    pub headers: Vec<(String, String)>,
    /// How the requests of an open loop are spread over time.
    pub arrivals: Arrivals,
    /// Appended to labels.
    pub extra_labels: Option<String>,
    /// What a search looks for; then [`Settings::qps`] is what it begins with.
    #[serde(default)]
    pub objective: Option<Objective>,
    /// Whether each cell is run once more, to see where its sidecars' time goes.
    #[serde(default)]
    pub perf: bool,
}

impl Settings {
    /// A nominal CPU limit as it is enforced, in thousandths of a CPU.
    pub fn effective_millis(&self, nominal_millis: u32) -> u32 {
        scaled(nominal_millis, self.scale)
    }
}

/// A nominal CPU limit times the scale, at least a thousandth of a CPU.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few thousand, and more saturates"
)]
pub(crate) fn scaled(nominal_millis: u32, scale: f64) -> u32 {
    ((f64::from(nominal_millis) * scale).round() as u32).max(1)
}

/// One cell with the repeats that were taken.
#[derive(Debug, Clone)]
pub struct Cell {
    /// What was measured.
    pub key: CellKey,
    /// By [`Repeat::index`]; at least one.
    pub repeats: Vec<Repeat>,
}

/// What may be said about a repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The generator kept its schedule and the target kept up.
    Valid,
    /// The target did not keep up: a result, shown with achieved against asked rate.
    Saturated,
    /// The whole machine had no idle time left: no verdict on anybody.
    MachineBound,
    /// The generator was the cause: not a result, never pooled.
    Void,
}

impl Verdict {
    /// The word used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Saturated => "saturated",
            Self::MachineBound => "machine-bound",
            Self::Void => "void",
        }
    }
}

/// One measurement of one cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Repeat {
    /// The cell it belongs to.
    pub key: CellKey,
    /// 0-based.
    pub index: u32,
    /// When the window opened, RFC 3339, UTC.
    pub started: String,
    /// What may be said about it.
    pub verdict: Verdict,
    /// Why the verdict is not `valid`, one sentence each.
    pub reasons: Vec<String>,
    /// What contradicts the cell's mode or its expectations: errors, a sidecar without CPU in a
    /// mode that crosses it. Empty in a sound repeat.
    pub faults: Vec<String>,
    /// Seconds of the measured window.
    pub window_seconds: f64,
    /// Requests asked for per second; `None` is a closed loop.
    pub asked_qps: Option<f64>,
    /// Requests per second that the target took on inside the window; in a closed loop, those that
    /// it answered without an error.
    pub achieved_qps: f64,
    /// Requests of the window that came to an end, answered or failed, also after it.
    pub requests: u64,
    /// Failed requests: no answer, or a status of 400 and above.
    pub errors: u64,
    /// Sends that left more than 1 ms after their intended time while their connection was free;
    /// `None` where the load tool does not say.
    pub late: Option<u64>,
    /// Requests of the schedule that were never sent, since no connection became free. They are in
    /// no histogram. `None` where the load tool does not say.
    pub unfinished: Option<u64>,
    /// Answers per HTTP status; key 0 counts requests without a status.
    pub statuses: std::collections::BTreeMap<u16, u64>,
    /// Share of one CPU that the generator used, 0 to its number of threads.
    pub generator_cores: Option<f64>,
    /// Share of the machine's CPU time that was idle in the window, 0 to 1.
    pub machine_idle: Option<f64>,
    /// Share of the machine's CPU time that the hypervisor kept, 0 to 1.
    pub machine_stolen: Option<f64>,
    /// Load average over a minute before the sidecars were started.
    #[serde(default)]
    pub load_average: Option<f64>,
    /// Why earlier tries of this repeat were void; they are not kept.
    #[serde(default)]
    pub retaken: Vec<String>,
    /// The client sidecar, where the cell crosses one: api-gateway's on the sample's longer link.
    pub client: Option<SidecarUsage>,
    /// The server sidecar, where the cell crosses one: ratings' on the sample's links.
    pub server: Option<SidecarUsage>,
    /// The gateway, where the cell crosses one.
    #[serde(default)]
    pub gateway: Option<SidecarUsage>,
    /// The application beside the client sidecar: api-gateway, on the sample's longer link.
    #[serde(default)]
    pub client_application: Option<SidecarUsage>,
    /// The application beside the server sidecar: ratings, on the sample's links.
    #[serde(default)]
    pub server_application: Option<SidecarUsage>,
    /// Latency histograms; kept in the repeat's `.hlog`.
    #[serde(skip)]
    pub latencies: Latencies,
}

impl Repeat {
    /// CPU microseconds per request of both sidecars together, a gateway's left out; `None` in
    /// modes without one. By the achieved rate, not by `requests`: of a saturated target's answers
    /// some come after the window, and some of its work is for requests of the warm-up.
    pub fn cpu_micros_per_request(&self) -> Option<f64> {
        let sidecars = [&self.client, &self.server].into_iter().flatten();
        let cores: Vec<f64> = sidecars.map(SidecarUsage::cores).collect();
        let answered = self.requests > 0 && self.achieved_qps > 0.0 && !cores.is_empty();
        answered.then(|| cores.iter().sum::<f64>() * 1e6 / self.achieved_qps)
    }
}

/// Latency of answered requests inside the window, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Latencies {
    /// From the intended send time: includes what a stalled target made others wait. Empty where
    /// the load tool knows of no such time.
    pub intended: Histogram<u64>,
    /// From the actual send.
    pub sent: Histogram<u64>,
}

impl Latencies {
    /// What figures and tables are of: from the intended time, where that is known.
    pub fn shown(&self) -> &Histogram<u64> {
        match self.intended.is_empty() {
            true => &self.sent,
            false => &self.intended,
        }
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            intended: pool::empty(),
            sent: pool::empty(),
        }
    }
}

/// What one sidecar, gateway or application used over exactly the measured window, and what it held
/// at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SidecarUsage {
    /// CPU time of all its threads.
    pub cpu_seconds: f64,
    /// Between the two readings of the CPU counter.
    pub window_seconds: f64,
    /// Time its cgroup was held back by the quota; `None` without a cgroup.
    pub throttled_seconds: Option<f64>,
    /// Proportional set size at the end of the window.
    pub pss_bytes: u64,
    /// Anonymous memory of its cgroup at the end of the window; `None` without a cgroup.
    pub anon_bytes: Option<u64>,
    /// Periods of the quota in the window; `None` without a cgroup.
    #[serde(default)]
    pub periods: Option<u64>,
    /// How many of them ended with the quota spent and work left: `nr_throttled`.
    #[serde(default)]
    pub throttled_periods: Option<u64>,
    /// About one a second, over the window.
    #[serde(default)]
    pub samples: Vec<UsageSample>,
}

/// What a sidecar used and held at one moment of the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UsageSample {
    /// Seconds since the window opened.
    pub at_seconds: f64,
    /// Cores in use on average since the sample before, or since the window opened.
    pub cores: f64,
    /// Anonymous memory of its cgroup; `None` without one.
    pub anon_bytes: Option<u64>,
}

impl SidecarUsage {
    /// Cores in use on average.
    pub fn cores(&self) -> f64 {
        if self.window_seconds > 0.0 {
            self.cpu_seconds / self.window_seconds
        } else {
            0.0
        }
    }

    /// Whether it used any CPU.
    pub fn worked(&self) -> bool {
        self.cpu_seconds > 0.0
    }
}

/// Where and under what a run was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The word for the [`EnvironmentKind`].
    pub kind: String,
    /// When it was described, RFC 3339, UTC.
    pub taken: String,
    /// Kernel name, release and architecture.
    pub kernel: String,
    /// First line of the distribution's own name.
    pub system: String,
    /// CPU as the kernel names it.
    pub cpu_model: String,
    /// CPUs this process may use.
    pub cpus: usize,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// TCP congestion control of new connections.
    pub congestion_control: String,
    /// Load average over 1, 5 and 15 minutes before the first cell.
    pub load_average: [f64; 3],
    /// What hints at a virtual machine or container; empty when nothing does.
    pub virtualisation: Vec<String>,
    /// The kernel's clock source and the clock latencies are read from.
    pub clock: String,
    /// The load generator and its version.
    pub generator: String,
    /// The data planes that took part.
    pub data_planes: Vec<DataPlaneVersion>,
    /// Limits of each sidecar.
    pub limits: Limits,
    /// Which CPUs each role may use.
    pub placement: Placement,
    /// Where CPU figures come from, e.g. `cgroup v1 cpuacct.usage`.
    pub cpu_source: String,
    /// Where memory figures come from.
    pub memory_source: String,
    /// What a reader must know to judge the figures, one sentence each.
    pub notes: Vec<String>,
}

impl Environment {
    /// Whether the other is the same machine, with the same kernel and the roles on the same CPUs.
    pub fn is_on_the_machine_of(&self, other: &Self) -> bool {
        self.kernel == other.kernel
            && self.cpu_model == other.cpu_model
            && self.cpus == other.cpus
            && self.placement == other.placement
    }
}

/// A data plane that took part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DataPlaneVersion {
    /// Name, as in [`CellKey::data_plane`].
    pub name: String,
    /// As the program says it.
    pub version: String,
    /// File name, size and digest of the program, where there is one.
    pub binary: Option<String>,
}

/// Limits of each sidecar.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// CPUs; `None` when it could not be set.
    pub cpus: Option<f64>,
    /// Memory; `None` when it could not be set.
    pub memory_bytes: Option<u64>,
    /// How they are enforced, or why they are not.
    pub how: String,
}

/// CPUs that each role may use; empty means not pinned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// The load generator.
    pub generator: Vec<usize>,
    /// The echo server.
    pub server: Vec<usize>,
    /// The client sidecar.
    pub client_sidecar: Vec<usize>,
    /// The server sidecar.
    pub server_sidecar: Vec<usize>,
    /// Why it is like this.
    pub why: String,
}
