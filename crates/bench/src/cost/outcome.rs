//! What a cost run found: figures of each contestant and ratios between them. Written as JSON.
//! Filled by the measurements, read by `tables`. Plain data and arithmetic.

use serde::Serialize;

use super::contestant::{Contestant, Topology};
use super::ratio::Ratio;
use super::rounds::Cores;
use super::{Plan, netns};

/// Everything that a cost run found.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Layout version of this value as JSON.
    pub schema: u32,
    /// What was asked for and under what it was measured.
    pub setting: Setting,
    /// One per contestant and topology.
    pub rows: Vec<Row>,
    /// The ratios that verdicts are made of.
    pub ratios: Vec<Ratio>,
    /// Added latency, where asked for.
    pub latencies: Vec<Latency>,
    /// Memory by connections, where asked for.
    pub memories: Vec<Memory>,
    /// Instructions per request, where asked for.
    pub instructions: Vec<Instructions>,
    /// What was not measured, and why.
    pub missing: Vec<String>,
}

/// What was asked for and under what it was measured.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Setting {
    /// Connections of the closed loop.
    pub connections: usize,
    /// Bytes of an answer's body.
    pub size_bytes: usize,
    /// Seconds of one window.
    pub window_seconds: f64,
    /// Windows per contestant.
    pub rounds: u32,
    /// Congestion control of every socket.
    pub congestion_control: String,
    /// Core of generator and backend; absent when not pinned.
    pub load_core: Option<usize>,
    /// Core of the proxies; absent when not pinned.
    pub proxy_core: Option<usize>,
}

/// One contestant in one topology.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Who.
    pub contestant: Contestant,
    /// In what.
    pub topology: Topology,
    /// By round.
    pub windows: Vec<Window>,
    /// From spawn to the first answered request, each start.
    pub start_up_millis: Vec<f64>,
    /// Pss of one process before any load.
    pub idle_pss_bytes: u64,
    /// Pss of one process after the last window.
    pub loaded_pss_bytes: u64,
}

/// One measured window.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Window {
    /// Requests answered.
    pub requests: u64,
    /// CPU time of all the contestant's processes per request, in microseconds.
    pub cpu_micros: f64,
    /// Requests per second.
    pub rate: f64,
    /// Share of one core that the contestant used.
    pub busy: f64,
    /// CPUs that other programs used meanwhile, on average.
    pub others: f64,
}

/// What a contestant adds to the median latency of the way without it.
#[derive(Debug, Serialize)]
pub struct Latency {
    /// Who.
    pub contestant: Contestant,
    /// In what.
    pub topology: Topology,
    /// Connections of the open loop.
    pub connections: usize,
    /// Requests per second.
    pub rate: f64,
    /// P50 without a proxy, microseconds, by round.
    pub direct_micros: Vec<f64>,
    /// P50 through the contestant less that without, microseconds, by round.
    pub added_micros: Vec<f64>,
}

/// Memory of one sidecar.
#[derive(Debug, Serialize)]
pub struct Memory {
    /// Who.
    pub contestant: Contestant,
    /// In what.
    pub topology: Topology,
    /// Connections of the figure under load.
    pub connections: usize,
    /// Pss with them busy.
    pub loaded_bytes: u64,
    /// Idle connections that were added.
    pub further_connections: usize,
    /// Pss that each of them took.
    pub per_idle_bytes: f64,
}

/// Instructions in user space.
#[derive(Debug, Serialize)]
pub struct Instructions {
    /// Who.
    pub contestant: Contestant,
    /// In what.
    pub topology: Topology,
    /// Of all its processes, per request.
    pub per_request: f64,
}

impl Setting {
    pub(crate) fn of(plan: &Plan, cores: &Cores) -> Self {
        Self {
            connections: plan.connections,
            size_bytes: plan.size,
            window_seconds: plan.window.as_secs_f64(),
            rounds: plan.rounds,
            congestion_control: netns::congestion(),
            load_core: cores.load,
            proxy_core: cores.proxies,
        }
    }
}

impl Outcome {
    pub(crate) fn new(setting: Setting) -> Self {
        Self {
            schema: 1,
            setting,
            rows: Vec::new(),
            ratios: Vec::new(),
            latencies: Vec::new(),
            memories: Vec::new(),
            instructions: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Notes that something was not measured.
    pub(crate) fn miss(&mut self, contestant: Contestant, error: &anyhow::Error) {
        let line = format!("{}: {error:#}", contestant.name());
        if !self.missing.contains(&line) {
            self.missing.push(line);
        }
    }
}

impl Row {
    pub(crate) fn new(contestant: Contestant, topology: Topology) -> Self {
        Self {
            contestant,
            topology,
            windows: Vec::new(),
            start_up_millis: Vec::new(),
            idle_pss_bytes: 0,
            loaded_pss_bytes: 0,
        }
    }
}
