//! Repeats into figures: histograms are added, CPU and memory become a median with its range.
//! Called by every output. It never averages percentiles and never pools a void repeat.

use std::collections::HashSet;

use hdrhistogram::Histogram;

use super::{
    Cell, CellKey, EnvironmentKind, Experiment, Link, Mode, Repeat, Run, SIDECAR_MILLIS, Settings,
    SidecarUsage, Telemetry, Verdict,
};

pub use load::report::SAMPLES_BEYOND_MIN;

/// Three significant figures: an error below 0.1 % of the value.
const SIGNIFICANT_FIGURES: u8 = 3;

/// More errors than one request in so many, and a cell is not compared.
const ERRORS_ONE_IN: u64 = 1000;

/// Whether too many of the answers were errors to compare what was measured.
pub(crate) fn is_failing(errors: u64, requests: u64) -> bool {
    errors * ERRORS_ONE_IN > requests
}

/// A void repeat is taken again this often.
const RETAKES: usize = 2;

/// An empty histogram that grows as needed.
pub fn empty() -> Histogram<u64> {
    Histogram::new(SIGNIFICANT_FIGURES).expect("3 is a legal number of significant figures")
}

/// Median and range over repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle, or the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How many repeats are behind it.
    pub repeats: usize,
}

impl Spread {
    /// `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self {
            median: f64::midpoint(low, high),
            min,
            max,
            repeats: sorted.len(),
        })
    }
}

/// The value in nanoseconds below which `quantile` (0 to 1) of the samples lie, or `None` with
/// fewer than [`SAMPLES_BEYOND_MIN`] samples beyond it: the generator's own rule.
pub fn percentile(histogram: &Histogram<u64>, quantile: f64) -> Option<u64> {
    load::report::percentile(histogram, quantile * 100.0)
}

impl Cell {
    /// The repeats that count: all but void ones.
    pub fn counted(&self) -> impl Iterator<Item = &Repeat> {
        self.repeats
            .iter()
            .filter(|repeat| repeat.verdict != Verdict::Void)
    }

    /// The histograms of the repeats that count, added; from the intended send time where the load
    /// tool knows it, nanoseconds.
    fn pooled(&self) -> Histogram<u64> {
        let mut pooled = empty();
        for repeat in self.counted() {
            let added = pooled.add(repeat.latencies.shown());
            added.expect("an auto-resizing histogram takes any value");
        }
        pooled
    }

    /// Percentile over all repeats that count, in nanoseconds.
    pub fn percentile(&self, quantile: f64) -> Option<u64> {
        percentile(&self.pooled(), quantile)
    }

    /// Cores that the client sidecar used; `None` in modes without one.
    pub fn client_cores(&self) -> Option<Spread> {
        Spread::of(self.clients().map(SidecarUsage::cores))
    }

    /// Cores that the server sidecar used; `None` in modes without one.
    pub fn server_cores(&self) -> Option<Spread> {
        Spread::of(self.servers().map(SidecarUsage::cores))
    }

    /// Pss of the client sidecar in bytes; `None` in modes without one.
    #[expect(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
    pub fn client_pss(&self) -> Option<Spread> {
        Spread::of(self.clients().map(|usage| usage.pss_bytes as f64))
    }

    /// Pss of the server sidecar in bytes; `None` in modes without one.
    #[expect(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
    pub fn server_pss(&self) -> Option<Spread> {
        Spread::of(self.servers().map(|usage| usage.pss_bytes as f64))
    }

    /// Pss of both sidecars together in bytes; `None` in modes without one.
    #[expect(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
    pub fn pss(&self) -> Option<Spread> {
        let of_both = |repeat: &Repeat| {
            let sidecars = [&repeat.client, &repeat.server].into_iter().flatten();
            let bytes: Vec<u64> = sidecars.map(|usage| usage.pss_bytes).collect();
            (!bytes.is_empty()).then(|| bytes.iter().sum::<u64>() as f64)
        };
        Spread::of(self.counted().filter_map(of_both))
    }

    /// CPU microseconds per request of both sidecars together; `None` in modes without one.
    pub fn cpu_micros_per_request(&self) -> Option<Spread> {
        Spread::of(self.counted().filter_map(Repeat::cpu_micros_per_request))
    }

    /// Achieved requests per second, without those that failed.
    pub fn achieved_qps(&self) -> Option<Spread> {
        Spread::of(self.counted().map(|repeat| repeat.achieved_qps))
    }

    /// Answers over the repeats that count.
    pub fn requests(&self) -> u64 {
        self.counted().map(|repeat| repeat.requests).sum()
    }

    /// Errors over the repeats that count.
    pub fn errors(&self) -> u64 {
        self.counted().map(|repeat| repeat.errors).sum()
    }

    /// The verdict to show: the worst among the repeats that count, `void` if none does.
    pub fn verdict(&self) -> Verdict {
        let mut worst = None;
        for repeat in self.counted() {
            worst = Some(match (worst, repeat.verdict) {
                (Some(Verdict::MachineBound), _) | (_, Verdict::MachineBound) => {
                    Verdict::MachineBound
                }
                (Some(Verdict::Saturated), _) | (_, Verdict::Saturated) => Verdict::Saturated,
                (_, verdict) => verdict,
            });
        }
        worst.unwrap_or(Verdict::Void)
    }

    /// Why it may not be compared with others; `None` where it may: valid, nearly without errors,
    /// and through the sidecars that are on its path.
    pub fn doubt(&self) -> Option<&'static str> {
        let verdict = self.verdict();
        let worked =
            |usage: &Option<SidecarUsage>| usage.as_ref().is_some_and(SidecarUsage::worked);
        let bypassed = |repeat: &Repeat| {
            let crosses = [self.key.crosses_client(), self.key.crosses_server()];
            crosses != [worked(&repeat.client), worked(&repeat.server)]
        };
        match verdict {
            Verdict::Valid if is_failing(self.errors(), self.requests()) => Some("failing"),
            Verdict::Valid if self.counted().any(bypassed) => Some("bypassed"),
            Verdict::Valid => None,
            verdict => Some(verdict.name()),
        }
    }

    /// Every fault of its repeats, each once.
    pub fn faults(&self) -> Vec<&str> {
        let mut faults: Vec<&str> = Vec::new();
        for fault in self.repeats.iter().flat_map(|repeat| &repeat.faults) {
            if !faults.contains(&fault.as_str()) {
                faults.push(fault);
            }
        }
        faults
    }

    fn clients(&self) -> impl Iterator<Item = &SidecarUsage> {
        self.counted().filter_map(|repeat| repeat.client.as_ref())
    }

    fn servers(&self) -> impl Iterator<Item = &SidecarUsage> {
        self.counted().filter_map(|repeat| repeat.server.as_ref())
    }
}

impl Settings {
    /// Every cell of the grid, in the order of the tables. `none` has the baseline and nothing
    /// else, whatever the modes of the others: they are measured against it. The others have a
    /// baseline in a mesh, where traffic can pass their sidecars by; else it would be measured
    /// without them.
    pub fn keys(&self) -> Vec<CellKey> {
        let mut keys = Vec::new();
        for data_plane in &self.data_planes {
            let modes: &[Mode] = match data_plane.as_str() {
                "none" => &[Mode::Baseline],
                _ => &self.modes,
            };
            for &mode in modes.iter().filter(|&&mode| self.has(data_plane, mode)) {
                for variant in self.variants(data_plane) {
                    keys.extend(self.loads().map(|(qps, connections)| CellKey {
                        data_plane: data_plane.clone(),
                        mode,
                        connections,
                        qps,
                        ..variant.clone()
                    }));
                }
            }
        }
        // What is named twice is measured once.
        let mut seen = HashSet::new();
        keys.retain(|key| seen.insert(key.clone()));
        keys
    }

    /// Links, limits and telemetry of a data plane's cells. Without sidecars there is nothing to
    /// limit, and nobody who tells anything.
    fn variants(&self, data_plane: &str) -> Vec<CellKey> {
        let without = data_plane == "none";
        let (limits, telemetry) = match without {
            true => (&[SIDECAR_MILLIS][..], &[Telemetry::Metrics][..]),
            false => (&*self.sidecar_millis, &*self.telemetry),
        };
        let mut variants = Vec::new();
        for &link in &self.links {
            for &sidecar_millis in limits {
                variants.extend(telemetry.iter().map(|&telemetry| CellKey {
                    data_plane: data_plane.to_owned(),
                    mode: Mode::Baseline,
                    connections: 0,
                    qps: None,
                    payload_bytes: match link {
                        Link::Echo => self.payload_bytes,
                        Link::Ratings | Link::GatewayRatings => 0,
                    },
                    link,
                    sidecar_millis,
                    telemetry,
                }));
            }
        }
        variants
    }

    fn loads(&self) -> impl Iterator<Item = (Option<u32>, u32)> {
        let rates = self.qps.iter();
        rates.flat_map(|&qps| self.connections.iter().map(move |&count| (qps, count)))
    }

    fn has(&self, data_plane: &str, mode: Mode) -> bool {
        let in_mesh = self.environment == EnvironmentKind::Local;
        match mode {
            // Throughput has rounds without sidecars, and such that cross all of them.
            Mode::Baseline => {
                data_plane == "none" || (in_mesh && self.experiment != Experiment::Throughput)
            }
            // A gateway is a workload of a mesh.
            Mode::Ingress => in_mesh,
            Mode::ServerOnly | Mode::ClientOnly | Mode::Both => true,
        }
    }
}

impl Run {
    /// Puts a repeat in its cell; a repeat taken again replaces the older one.
    pub fn insert(&mut self, repeat: Repeat) {
        let Some(cell) = self.cells.iter_mut().find(|cell| cell.key == repeat.key) else {
            self.cells.push(Cell {
                key: repeat.key.clone(),
                repeats: vec![repeat],
            });
            let order = self.settings.keys();
            let place = |cell: &Cell| order.iter().position(|key| *key == cell.key);
            // The rates of a search are not of the grid: each stands where its search does.
            let search = |cell: &Cell| {
                let alike = |key: &CellKey| CellKey {
                    qps: cell.key.qps,
                    ..key.clone()
                };
                order.iter().position(|key| alike(key) == cell.key)
            };
            self.cells
                .sort_by_key(|cell| match self.settings.objective {
                    Some(_) => (search(cell).unwrap_or(usize::MAX), cell.key.qps),
                    None => (place(cell).unwrap_or(usize::MAX), None),
                });
            return;
        };
        cell.repeats.retain(|other| other.index != repeat.index);
        cell.repeats.push(repeat);
        cell.repeats.sort_by_key(|repeat| repeat.index);
    }

    /// This repeat of this cell, if it was taken.
    pub fn repeat(&self, key: &CellKey, index: u32) -> Option<&Repeat> {
        let cell = self.cells.iter().find(|cell| cell.key == *key)?;
        cell.repeats.iter().find(|repeat| repeat.index == index)
    }

    /// Whether it is void, and may be taken again.
    pub fn to_retake(&self, key: &CellKey, index: u32) -> bool {
        let held = self.repeat(key, index);
        held.is_some_and(|held| held.verdict == Verdict::Void && held.retaken.len() < RETAKES)
    }
}
