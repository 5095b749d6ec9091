//! Durations, counted in buckets that suit a push: from a millisecond to half a minute.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper ends, in microseconds, with what Prometheus calls them.
const BOUNDS: [(u64, &str); 13] = [
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (5_000_000, "5"),
    (10_000_000, "10"),
    (30_000_000, "30"),
];

/// A histogram that many may write to.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The last one is for all that is longer than the last bound.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_micros: AtomicU64,
}

impl Histogram {
    /// Counts one.
    pub fn observe(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|(bound, _)| *bound < micros);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// As Prometheus wants it, under `name`.
    pub(super) fn render(&self, name: &str, out: &mut String) {
        let mut count = 0;
        let labels = BOUNDS.iter().map(|(_, label)| *label).chain(["+Inf"]);
        for (bucket, label) in self.buckets.iter().zip(labels) {
            count += bucket.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}_bucket{{le=\"{label}\"}} {count}");
        }
        let micros = self.sum_micros.load(Ordering::Relaxed);
        let _ = writeln!(
            out,
            "{name}_sum {}.{:06}",
            micros / 1_000_000,
            micros % 1_000_000
        );
        let _ = writeln!(out, "{name}_count {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_land_under_the_first_bound_that_holds_them() {
        let histogram = Histogram::default();
        for micros in [0, 1_000, 1_001, 30_000_000, 30_000_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        let mut text = String::new();
        histogram.render("h", &mut text);
        for line in [
            "h_bucket{le=\"0.001\"} 2",
            "h_bucket{le=\"0.0025\"} 3",
            "h_bucket{le=\"10\"} 3",
            "h_bucket{le=\"30\"} 4",
            "h_bucket{le=\"+Inf\"} 5",
            "h_sum 60.002002",
            "h_count 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
