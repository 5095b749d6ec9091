//! What a cost run found: figures of each contestant and ratios between them. Written as JSON.
//! Filled by the measurements, read by `ratio` and `tables`. Plain data and arithmetic.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::cell::{Cell, Scene};
use super::contestant::Contestant;
use super::cores::Cores;
use super::netns;
use super::plan::Plan;
use super::ratio::Ratio;

/// Everything that a cost run found.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Layout version of this value as JSON.
    pub schema: u32,
    /// What was asked for and under what it was measured.
    pub setting: Setting,
    /// In the order of measuring.
    pub cells: Vec<CellSetting>,
    /// One per contestant and cell.
    pub rows: Vec<Row>,
    /// The ratios that verdicts are made of.
    pub ratios: Vec<Ratio>,
    /// Added latency, where asked for.
    pub latencies: Vec<Latency>,
    /// Latency over a slow and lossy link, where asked for.
    pub lossy: Vec<Lossy>,
    /// Latency beside a huge body, where asked for.
    pub mixed: Vec<Mixed>,
    /// What another generator found, where asked for.
    pub cross_checks: Vec<CrossCheck>,
    /// Memory by connections, where asked for.
    pub memories: Vec<Memory>,
    /// Instructions per request, where asked for.
    pub instructions: Vec<Instructions>,
    /// What is not to be trusted, and why.
    pub doubts: Vec<String>,
    /// What was not measured, and why.
    pub missing: Vec<String>,
}

/// What was asked for and under what it was measured.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Setting {
    /// Seconds of one window.
    pub window_seconds: f64,
    /// Windows per contestant and cell.
    pub rounds: u32,
    /// Congestion control of every socket.
    pub congestion_control: String,
}

/// A cell, and where its parties ran.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CellSetting {
    /// Which one.
    #[serde(flatten)]
    pub cell: Cell,
    /// The core of each party.
    pub cores: Cores,
}

/// One contestant in one cell.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Who.
    pub contestant: Contestant,
    /// Under what.
    #[serde(flatten)]
    pub cell: Cell,
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
    /// Bytes of bodies that reached the generator per second of that CPU time.
    pub bytes_per_cpu_second: f64,
    /// Requests per second.
    pub rate: f64,
    /// Share of one core that the contestant used; up to 2 for a pair that is apart.
    pub busy: f64,
    /// CPU time of the generator per request, in microseconds.
    pub generator_cpu_micros: f64,
    /// CPUs that other programs used meanwhile, on average.
    pub others: f64,
}

/// Two percentiles in microseconds, by round.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50_micros: Vec<f64>,
    /// What one request in a hundred exceeds.
    pub p99_micros: Vec<f64>,
}

/// What a contestant adds to the latency of the way without it.
#[derive(Debug, Serialize)]
pub struct Latency {
    /// Who.
    pub contestant: Contestant,
    /// Under what, in an open loop.
    #[serde(flatten)]
    pub cell: Cell,
    /// Requests per second.
    pub rate: f64,
    /// Without a proxy.
    pub direct: Percentiles,
    /// Through the contestant less that without.
    pub added: Percentiles,
}

/// Latency of a pair with a slow and lossy link between its sidecars.
#[derive(Debug, Serialize)]
pub struct Lossy {
    /// Who.
    pub contestant: Contestant,
    /// Under what, in an open loop.
    #[serde(flatten)]
    pub cell: Cell,
    /// What the link does, in each direction, in netem's words.
    pub link: &'static str,
    /// Who does it.
    pub maker: &'static str,
    /// From the intended send to the end of the answer.
    pub percentiles: Percentiles,
}

/// Latency of small requests without and with a huge body on the same pair.
#[derive(Debug, Serialize)]
pub struct Mixed {
    /// Who.
    pub contestant: Contestant,
    /// The small requests, in an open loop.
    #[serde(flatten)]
    pub cell: Cell,
    /// Bytes of the huge body.
    pub huge_bytes: usize,
    /// The small ones by themselves.
    pub alone: Percentiles,
    /// The small ones while the huge one passes.
    pub beside: Percentiles,
}

/// What h2load found in a cell, beside our medians.
#[derive(Debug, Serialize)]
pub struct CrossCheck {
    /// Who.
    pub contestant: Contestant,
    /// Under what.
    #[serde(flatten)]
    pub cell: Cell,
    /// Our requests per second; absent without rounds.
    pub rate: Option<f64>,
    /// CPU time per request under our load, in microseconds.
    pub cpu_micros: Option<f64>,
    /// h2load's requests per second.
    pub theirs_rate: f64,
    /// CPU time per request under its load, in microseconds.
    pub theirs_cpu_micros: f64,
}

/// Memory of one sidecar.
#[derive(Debug, Serialize)]
pub struct Memory {
    /// Who.
    pub contestant: Contestant,
    /// In what.
    #[serde(flatten)]
    pub scene: Scene,
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
    #[serde(flatten)]
    pub scene: Scene,
    /// Of all its processes, per request.
    pub per_request: f64,
}

impl Setting {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self {
            window_seconds: plan.window.as_secs_f64(),
            rounds: plan.rounds,
            congestion_control: netns::congestion(),
        }
    }
}

impl Outcome {
    pub(crate) fn new(setting: Setting) -> Self {
        Self {
            schema: 2,
            setting,
            cells: Vec::new(),
            rows: Vec::new(),
            ratios: Vec::new(),
            latencies: Vec::new(),
            lossy: Vec::new(),
            mixed: Vec::new(),
            cross_checks: Vec::new(),
            memories: Vec::new(),
            instructions: Vec::new(),
            doubts: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Notes windows in which the generator did not keep its schedule. That is no reason to leave
    /// them out where it shares its core with more than it should, or waits are far longer.
    pub(crate) fn doubt(&mut self, what: &str, scene: Scene, verdicts: &[load::Verdict]) {
        let is_void = |verdict: &&load::Verdict| matches!(verdict, load::Verdict::Void { .. });
        let void = verdicts.iter().filter(is_void).count();
        if void > 0 {
            let all = verdicts.len();
            let line =
                format!("{what}, {scene}: the generator was late in {void} of {all} windows");
            self.doubts.push(line);
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
    pub(crate) fn new(contestant: Contestant, cell: Cell) -> Self {
        Self {
            contestant,
            cell,
            windows: Vec::new(),
            start_up_millis: Vec::new(),
            idle_pss_bytes: 0,
            loaded_pss_bytes: 0,
        }
    }

    /// One figure of every window.
    pub(crate) fn figures(&self, figure: fn(&Window) -> f64) -> Vec<f64> {
        self.windows.iter().map(figure).collect()
    }
}

impl Percentiles {
    /// Adds a round's, from nanoseconds.
    pub(crate) fn push(&mut self, latency: &Histogram<u64>) {
        let micros = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
        self.p50_micros.push(micros(0.5));
        self.p99_micros.push(micros(0.99));
    }

    /// What remains of each round without `other`'s.
    pub(crate) fn less(&self, other: &Self) -> Self {
        let less = |ours: &[f64], theirs: &[f64]| {
            let pairs = ours.iter().zip(theirs);
            pairs.map(|(ours, theirs)| ours - theirs).collect()
        };
        Self {
            p50_micros: less(&self.p50_micros, &other.p50_micros),
            p99_micros: less(&self.p99_micros, &other.p99_micros),
        }
    }
}
