//! What can be said of a cell in one number: its words, its unit, which way is better, and where
//! it comes from. Called by figures, tables, verdicts and comparisons. Pure.

use super::estimate::{Estimate, Resampled};
use super::{Cell, Mode, Repeat, SidecarUsage, pool};
use crate::units::{count, mebibytes};

/// One number of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Latency from the intended send time, pooled over repeats.
    P50,
    /// As [`Metric::P50`].
    P90,
    /// As [`Metric::P50`].
    P95,
    /// As [`Metric::P50`].
    P99,
    /// As [`Metric::P50`].
    P999,
    /// Requests per second that the target took on.
    Rate,
    /// CPU of the client and the server sidecar for a thousand requests per second.
    CpuPerThousand,
    /// CPU of the client and the server sidecar together.
    Cpu,
    /// CPU of the client sidecar.
    ClientCpu,
    /// CPU of the server sidecar.
    ServerCpu,
    /// CPU of the gateway.
    GatewayCpu,
    /// Pss of the client and the server sidecar together.
    Memory,
    /// Pss of the client sidecar.
    ClientMemory,
    /// Pss of the server sidecar.
    ServerMemory,
    /// Pss of the gateway.
    GatewayMemory,
}

impl Metric {
    /// All, in the order of tables.
    pub const ALL: [Self; 15] = [
        Self::P50,
        Self::P90,
        Self::P95,
        Self::P99,
        Self::P999,
        Self::Rate,
        Self::CpuPerThousand,
        Self::Cpu,
        Self::ClientCpu,
        Self::ServerCpu,
        Self::GatewayCpu,
        Self::Memory,
        Self::ClientMemory,
        Self::ServerMemory,
        Self::GatewayMemory,
    ];

    /// The word for it in files.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// What it is, for a reader.
    pub fn title(self) -> &'static str {
        self.words().1
    }

    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::P50 | Self::P90 | Self::P95 | Self::P99 | Self::P999 => "ms",
            Self::Rate => "requests/s",
            Self::CpuPerThousand => "millicores per 1,000 requests/s",
            Self::Cpu | Self::ClientCpu | Self::ServerCpu | Self::GatewayCpu => "millicores",
            Self::Memory | Self::ClientMemory | Self::ServerMemory | Self::GatewayMemory => "MiB",
        }
    }

    /// Whether more of it is better; less is, of everything else.
    pub fn more_is_better(self) -> bool {
        self == Self::Rate
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::P50 => ("latency-p50", "latency P50"),
            Self::P90 => ("latency-p90", "latency P90"),
            Self::P95 => ("latency-p95", "latency P95"),
            Self::P99 => ("latency-p99", "latency P99"),
            Self::P999 => ("latency-p999", "latency P99.9"),
            Self::Rate => ("rate", "requests per second"),
            Self::CpuPerThousand => ("cpu-per-request", "CPU per 1,000 requests/s"),
            Self::Cpu => ("cpu", "CPU of the sidecars"),
            Self::ClientCpu => ("cpu-client", "CPU of the client sidecar"),
            Self::ServerCpu => ("cpu-server", "CPU of the server sidecar"),
            Self::GatewayCpu => ("cpu-gateway", "CPU of the gateway"),
            Self::Memory => ("memory", "memory of the sidecars"),
            Self::ClientMemory => ("memory-client", "memory of the client sidecar"),
            Self::ServerMemory => ("memory-server", "memory of the server sidecar"),
            Self::GatewayMemory => ("memory-gateway", "memory of the gateway"),
        }
    }

    /// From 0 to 1, where it is a percentile.
    pub fn quantile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            _ => None,
        }
    }

    /// The number with its interval; `None` where the cell has none: no such sidecar on its path,
    /// only void repeats, or too few samples for a percentile.
    pub fn of(self, cell: &Cell) -> Option<Estimate> {
        self.resampled(cell).map(|resampled| resampled.estimate())
    }

    /// As [`Metric::of`], to calculate on with.
    pub fn resampled(self, cell: &Cell) -> Option<Resampled> {
        match self.quantile() {
            Some(quantile) => {
                cell.percentile(quantile)?;
                let repeats = cell.counted();
                let histograms: Vec<_> = repeats.map(|repeat| repeat.latencies.shown()).collect();
                Resampled::percentile(&histograms, quantile).map(|nanos| nanos.scaled(1e-6))
            }
            None => Resampled::median(cell.counted().filter_map(|repeat| self.of_repeat(repeat))),
        }
    }

    /// The number of a single repeat, under the same rules.
    pub fn of_repeat(self, repeat: &Repeat) -> Option<f64> {
        if let Some(quantile) = self.quantile() {
            let nanos = pool::percentile(repeat.latencies.shown(), quantile);
            return nanos.map(|nanos| count(nanos) / 1e6);
        }
        let key = &repeat.key;
        let client = repeat.client.as_ref().filter(|_| key.crosses_client());
        let server = repeat.server.as_ref().filter(|_| key.crosses_server());
        let gateway = repeat.gateway.as_ref();
        match self {
            Self::Rate => Some(repeat.achieved_qps),
            Self::CpuPerThousand => (key.mode != Mode::Baseline)
                .then(|| repeat.cpu_micros_per_request())
                .flatten(),
            Self::Cpu => sum(client.map(millicores), server.map(millicores)),
            Self::ClientCpu => client.map(millicores),
            Self::ServerCpu => server.map(millicores),
            Self::GatewayCpu => gateway.map(millicores),
            Self::Memory => sum(client.map(pss), server.map(pss)),
            Self::ClientMemory => client.map(pss),
            Self::ServerMemory => server.map(pss),
            Self::GatewayMemory => gateway.map(pss),
            Self::P50 | Self::P90 | Self::P95 | Self::P99 | Self::P999 => None,
        }
    }
}

fn millicores(usage: &SidecarUsage) -> f64 {
    usage.cores() * 1e3
}

fn pss(usage: &SidecarUsage) -> f64 {
    mebibytes(usage.pss_bytes)
}

fn sum(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0.0) + other.unwrap_or(0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn a_cell_has_what_its_path_crosses() {
        let run = sample::full_run();
        let (baseline, both) = (&run.cells[0], &run.cells[3]);
        assert_eq!(Metric::Cpu.of(baseline), None);
        assert_eq!(Metric::GatewayCpu.of(both), None);
        let cpu = Metric::Cpu.of(both).unwrap();
        assert!((cpu.value - 100.0).abs() < 1e-9, "{cpu:?}");
        let each = Metric::CpuPerThousand.of(both).unwrap();
        assert!((each.value - 100.0).abs() < 1e-9, "{each:?}");
    }

    #[test]
    fn a_percentile_agrees_with_the_pooled_histogram() {
        let run = sample::full_run();
        let cell = &run.cells[0];
        let pooled = cell.percentile(0.99).unwrap();
        let found = Metric::P99.of(cell).unwrap();
        assert!((found.value - count(pooled) / 1e6).abs() < 1e-12);
        assert_eq!(Metric::P999.of(cell), None);
    }

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<_> = Metric::ALL.map(Metric::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Metric::ALL.len());
    }
}
