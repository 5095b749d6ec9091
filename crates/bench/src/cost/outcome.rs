//! What a cost run found: windows per contestant and the ratios between them. Written as JSON.
//! Filled by the measurements, read by `tables`. Plain data and arithmetic.

use serde::Serialize;

use super::contestant::{Contestant, Topology};
use super::interval::Interval;
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
#[derive(Debug, Clone, Serialize)]
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
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Window {
    /// Requests answered.
    pub requests: u64,
    /// CPU time of all the contestant's processes per request, in microseconds.
    pub cpu_micros: f64,
    /// Requests per second.
    pub rate: f64,
    /// Share of one core that the contestant used.
    pub busy: f64,
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

/// CPU per request of one contestant over that of another, paired by round.
#[derive(Debug, Serialize)]
pub struct Ratio {
    /// In what topology.
    pub topology: Topology,
    /// What is set against what.
    pub name: String,
    /// The ratio over all rounds.
    pub interval: Interval,
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

    fn row(&self, contestant: Contestant, topology: Topology) -> Option<&Row> {
        self.rows
            .iter()
            .find(|r| r.contestant == contestant && r.topology == topology)
    }

    /// Works out the ratios from the rows.
    pub(crate) fn compare(&mut self) {
        let mut ratios = Vec::new();
        for topology in Topology::ALL {
            let Some(floor) = self.row(Contestant::Floor, topology) else {
                continue;
            };
            for contestant in Contestant::ALL.into_iter().skip(1) {
                if let Some(row) = self.row(contestant, topology) {
                    let name = format!("{} / floor, CPU per request", contestant.name());
                    ratios.extend(ratio(topology, name, &row.costs(), &floor.costs()));
                }
            }
        }
        for topology in Topology::ALL {
            let rivals: Vec<&Row> = [Contestant::Haproxy, Contestant::Nginx]
                .into_iter()
                .filter_map(|rival| self.row(rival, topology))
                .collect();
            if let (Some(leno), Some(best)) = (self.row(Contestant::Leno, topology), best(&rivals))
            {
                let name = "leno / better of nginx and haproxy, CPU per request".to_owned();
                ratios.extend(ratio(topology, name, &leno.costs(), &best));
            }
        }
        for latency in &self.latencies {
            let same = |other: &&Latency| {
                other.topology == latency.topology && other.contestant == Contestant::Floor
            };
            let floor = self.latencies.iter().find(same);
            if let Some(floor) = floor.filter(|_| latency.contestant != Contestant::Floor) {
                let name = format!("{} / floor, added P50", latency.contestant.name());
                let (over, under) = (&latency.added_micros, &floor.added_micros);
                ratios.extend(ratio(latency.topology, name, over, under));
            }
        }
        self.ratios = ratios;
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

    fn costs(&self) -> Vec<f64> {
        self.windows.iter().map(|w| w.cpu_micros).collect()
    }
}

fn ratio(topology: Topology, name: String, over: &[f64], under: &[f64]) -> Option<Ratio> {
    let pairs: Vec<f64> = over.iter().zip(under).map(|(o, u)| o / u).collect();
    Interval::of(&pairs).map(|interval| Ratio {
        topology,
        name,
        interval,
    })
}

/// The costs of the row with the lowest median: one rival for all rounds, not the luckiest of each.
fn best(rows: &[&Row]) -> Option<Vec<f64>> {
    let median = |row: &Row| Interval::of(&row.costs()).map_or(f64::INFINITY, |i| i.median);
    let best = rows.iter().min_by(|a, b| median(a).total_cmp(&median(b)))?;
    Some(best.costs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(costs: &[(Contestant, &[f64])]) -> Outcome {
        let mut outcome = Outcome::new(Setting {
            connections: 64,
            size_bytes: 1024,
            window_seconds: 2.0,
            rounds: 3,
            congestion_control: "cubic".to_owned(),
            load_core: Some(1),
            proxy_core: Some(0),
        });
        for (contestant, costs) in costs {
            let mut row = Row::new(*contestant, Topology::Plain);
            row.windows = costs
                .iter()
                .map(|&cpu_micros| Window {
                    requests: 1,
                    cpu_micros,
                    rate: 1.0,
                    busy: 0.5,
                })
                .collect();
            outcome.rows.push(row);
        }
        outcome.compare();
        outcome
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The machine slowed down threefold in the last round; the ratio did not move.
        let outcome = outcome(&[
            (Contestant::Floor, &[10.0, 11.0, 30.0]),
            (Contestant::Leno, &[12.0, 13.2, 36.0]),
        ]);
        let interval = outcome.ratios[0].interval;
        assert!((interval.low - 1.2).abs() < 1e-9 && (interval.high - 1.2).abs() < 1e-9);
    }

    #[test]
    fn the_rival_is_the_one_that_is_better_over_all_rounds() {
        let outcome = outcome(&[
            (Contestant::Leno, &[10.0, 10.0, 10.0]),
            (Contestant::Haproxy, &[20.0, 20.0, 8.0]),
            (Contestant::Nginx, &[16.0, 16.0, 16.0]),
        ]);
        let ratio = outcome.ratios.last().unwrap();
        assert!(ratio.name.starts_with("leno / better"), "{}", ratio.name);
        assert!((ratio.interval.median - 10.0 / 16.0).abs() < 1e-9);
    }

    #[test]
    fn without_a_floor_there_is_no_ratio_to_it() {
        assert!(outcome(&[(Contestant::Nginx, &[1.0])]).ratios.is_empty());
    }
}
