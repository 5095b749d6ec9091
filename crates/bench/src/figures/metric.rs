//! What the figures show: one row for each, the order is that of the report.

use crate::results::{Cell, Spread};

/// A figure's ordinate.
pub(crate) struct Metric {
    /// File name without its ending.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Axis title with its unit.
    pub(crate) axis: &'static str,
    pub(crate) kind: Kind,
}

/// Where a metric's values come from.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A percentile from the intended send time, pooled over repeats.
    Latency(f64),
    /// A figure per repeat; `None` where the mode does not cross that sidecar.
    Usage(fn(&Cell) -> Option<Spread>, f64),
}

impl Metric {
    /// Grows with the rate, so that its slope over the rate says something.
    pub(crate) fn is_of_rate(&self) -> bool {
        self.name.starts_with("cpu-") && !self.is_per_request()
    }

    pub(crate) fn is_per_request(&self) -> bool {
        self.name == PER_REQUEST.name
    }
}

/// What it takes both sidecars together; drawn where the rate varies.
pub(crate) const PER_REQUEST: Metric = Metric {
    name: "cpu-per-request",
    title: "CPU of both sidecars for each request",
    axis: "CPU per request (µs)",
    kind: Kind::Usage(Cell::cpu_micros_per_request, 1.0),
};

const MILLICORES: f64 = 1e3;
const MEBIBYTES: f64 = 1.0 / 1_048_576.0;

/// How many of [`ALL`] are of latency; pairs of client and server follow.
pub(crate) const LATENCIES: usize = 4;

/// The eight figures.
pub(crate) const ALL: [Metric; 8] = [
    latency("latency-p50", "Latency, P50", "latency P50 (ms)", 0.5),
    latency("latency-p90", "Latency, P90", "latency P90 (ms)", 0.9),
    latency("latency-p99", "Latency, P99", "latency P99 (ms)", 0.99),
    latency(
        "latency-p999",
        "Latency, P99.9",
        "latency P99.9 (ms)",
        0.999,
    ),
    Metric {
        name: "cpu-client",
        title: "CPU of the client sidecar",
        axis: "CPU (millicores)",
        kind: Kind::Usage(Cell::client_cores, MILLICORES),
    },
    Metric {
        name: "cpu-server",
        title: "CPU of the server sidecar",
        axis: "CPU (millicores)",
        kind: Kind::Usage(Cell::server_cores, MILLICORES),
    },
    Metric {
        name: "memory-client",
        title: "Memory of the client sidecar",
        axis: "memory, Pss (MiB)",
        kind: Kind::Usage(Cell::client_pss, MEBIBYTES),
    },
    Metric {
        name: "memory-server",
        title: "Memory of the server sidecar",
        axis: "memory, Pss (MiB)",
        kind: Kind::Usage(Cell::server_pss, MEBIBYTES),
    },
];

const fn latency(
    name: &'static str,
    title: &'static str,
    axis: &'static str,
    quantile: f64,
) -> Metric {
    Metric {
        name,
        title,
        axis,
        kind: Kind::Latency(quantile),
    }
}
