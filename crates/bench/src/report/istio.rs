//! `--compat istio`: what the scripts of Istio's harness would have made of our raw data, with its
//! coarse buckets, its columns and its rounding. For comparisons with tables made by it; our own
//! figures never come from here. Its plot divided latencies by the rate; that is not done here.

use std::fmt::Write;

use hdrhistogram::Histogram;

use crate::results::{Repeat, Run, SidecarUsage, Verdict};
use crate::run::label;
use crate::units::{count, mebibytes};

/// Ends of fortio's buckets; times a resolution.
const ENDS: [u32; 48] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80,
    90, 100, 120, 140, 160, 180, 200, 250, 300, 350, 400, 450, 500, 600, 700, 800, 900, 1_000,
    2_000, 3_000, 4_000, 5_000,
];
const LAST_ENDS: [u32; 8] = [
    7_500, 10_000, 20_000, 30_000, 40_000, 50_000, 75_000, 100_000,
];
/// The harness ran fortio with `-r 0.000001`: a microsecond.
const RESOLUTION_NANOS: f64 = 1e3;

/// The columns that its scripts write.
const COLUMNS: [&str; 15] = [
    "StartTime",
    "ActualDuration",
    "Labels",
    "NumThreads",
    "ActualQPS",
    "p50",
    "p90",
    "p99",
    "p999",
    "cpu_mili_avg_istio_proxy_fortioclient",
    "cpu_mili_avg_istio_proxy_fortioserver",
    "cpu_mili_avg_istio_proxy_istio-ingressgateway",
    "mem_Mi_avg_istio_proxy_fortioclient",
    "mem_Mi_avg_istio_proxy_fortioserver",
    "mem_Mi_avg_istio_proxy_istio-ingressgateway",
];
/// What it writes where it has nothing.
const NOTHING: &str = "-";
/// Runs with more failures, in percent, are left out.
const ERRORS_MAX: f64 = 10.0;

/// The whole file. Void repeats, and those that the harness would have skipped for their errors,
/// are left out; short ones are not, though it would have: its limit is that of its metrics.
pub(crate) fn text(run: &Run) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    let repeats = run.cells.iter().flat_map(|cell| &cell.repeats);
    let kept = repeats.filter(|repeat| {
        let errors = 100.0 * count(repeat.errors) / count(repeat.requests.max(1));
        repeat.verdict != Verdict::Void && errors <= ERRORS_MAX
    });
    for repeat in kept {
        let _ = writeln!(text, "{}", row(run, repeat).join(","));
    }
    text
}

fn row(run: &Run, repeat: &Repeat) -> [String; 15] {
    let buckets = Buckets::of(&repeat.latencies.sent);
    // Fortio counts answers that are errors, too.
    let actual_qps = count(repeat.requests) / repeat.window_seconds;
    let micros = |percent: f64| whole(buckets.percentile(percent) / 1e3);
    let cpu = |usage: &Option<SidecarUsage>| {
        let usage = usage.as_ref();
        usage.map_or_else(|| NOTHING.to_owned(), |usage| whole(usage.cores() * 1e3))
    };
    let memory = |usage: &Option<SidecarUsage>| {
        let usage = usage.as_ref();
        let bytes = usage.map(|usage| usage.anon_bytes.unwrap_or(usage.pss_bytes));
        bytes.map_or_else(|| NOTHING.to_owned(), |bytes| whole(mebibytes(bytes)))
    };
    [
        repeat.started.clone(),
        whole(repeat.window_seconds),
        label(&run.id, &repeat.key, run.settings.extra_labels.as_deref()),
        repeat.key.connections.to_string(),
        // As Python rounds: halves go to the even neighbour.
        format!("{:.0}", actual_qps.round_ties_even()),
        micros(50.0),
        micros(90.0),
        micros(99.0),
        micros(99.9),
        cpu(&repeat.client),
        cpu(&repeat.server),
        cpu(&repeat.gateway),
        memory(&repeat.client),
        memory(&repeat.server),
        memory(&repeat.gateway),
    ]
}

/// Its scripts cut decimals off.
fn whole(value: f64) -> String {
    format!("{:.0}", value.trunc())
}

/// A histogram as fortio keeps one: start, end, and the share of samples up to the end.
struct Buckets {
    filled: Vec<Bucket>,
    min: f64,
    max: f64,
    total: u64,
}

struct Bucket {
    start: f64,
    end: f64,
    percent: f64,
}

impl Buckets {
    fn of(histogram: &Histogram<u64>) -> Self {
        let ends: Vec<f64> = ENDS
            .iter()
            .chain(&LAST_ENDS)
            .map(|&end| f64::from(end))
            .collect();
        // One more for what is above the last end.
        let mut counts = vec![0_u64; ends.len() + 1];
        for step in histogram.iter_recorded() {
            let middle = histogram.median_equivalent(step.value_iterated_to());
            let scaled = count(middle) / RESOLUTION_NANOS;
            counts[ends.partition_point(|end| *end < scaled)] += step.count_at_value();
        }
        Self::filled(histogram, &ends, &counts)
    }

    fn filled(histogram: &Histogram<u64>, ends: &[f64], counts: &[u64]) -> Self {
        let (min, max) = (count(histogram.min()), count(histogram.max()));
        let total = histogram.len();
        let mut filled: Vec<Bucket> = Vec::new();
        let mut sum = 0;
        for (index, &samples) in counts
            .iter()
            .enumerate()
            .filter(|(_, samples)| **samples > 0)
        {
            sum += samples;
            let before = index.checked_sub(1).and_then(|before| ends.get(before));
            let start = before.map_or(0.0, |end| end * RESOLUTION_NANOS);
            filled.push(Bucket {
                start: if filled.is_empty() { min } else { start },
                end: ends.get(index).map_or(max, |end| end * RESOLUTION_NANOS),
                percent: 100.0 * count(sum) / count(total),
            });
        }
        if let Some(last) = filled.last_mut() {
            last.end = max;
        }
        Self {
            filled,
            min,
            max,
            total,
        }
    }

    /// Linear within a bucket; the least sample alone is the first share.
    fn percentile(&self, percent: f64) -> f64 {
        let mut before = 100.0 / count(self.total.max(1));
        if percent <= before {
            return self.min;
        }
        for bucket in &self.filled {
            if percent <= bucket.percent {
                let part = (percent - before) / (bucket.percent - before);
                return bucket.start + part * (bucket.end - bucket.start);
            }
            before = bucket.percent;
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{pool, sample};

    #[test]
    fn a_percentile_is_interpolated_in_a_bucket_a_millisecond_wide() {
        let mut histogram = pool::empty();
        // Nine at 1.2 ms and one at 1.7 ms lie in one bucket, from 1 to 2 ms, which begins at the
        // least and ends at the greatest sample.
        histogram.record_n(1_200_000, 9).unwrap();
        histogram.record_n(1_700_000, 1).unwrap();
        let buckets = Buckets::of(&histogram);
        let (min, max) = (count(histogram.min()), count(histogram.max()));
        let expected = min + (50.0 - 10.0) / (100.0 - 10.0) * (max - min);
        assert!((buckets.percentile(50.0) - expected).abs() < 1.0);
        assert_eq!(buckets.percentile(10.0), min);
        assert_eq!(buckets.percentile(100.0), max);
    }

    #[test]
    fn a_bucket_in_the_middle_has_round_ends() {
        let mut histogram = pool::empty();
        for (micros, samples) in [(500, 50), (1_500, 40), (25_000, 10)] {
            histogram.record_n(micros * 1_000, samples).unwrap();
        }
        // 50 % end at 500 µs, 90 % at 2 ms: 70 % lie half way between 1 and 2 ms.
        let found = Buckets::of(&histogram).percentile(70.0);
        assert!((found - 1_500_000.0).abs() < 1.0, "{found}");
    }

    #[test]
    fn numbers_are_cut_and_rates_rounded() {
        let mut run = sample::full_run();
        run.cells[3].repeats.truncate(1);
        let repeat = &mut run.cells[3].repeats[0];
        repeat.achieved_qps = 1_000.5;
        repeat.window_seconds = 5.99;
        let text = text(&run);
        let line = text
            .lines()
            .find(|line| line.contains("_leno_both") && line.contains(",1000,"));
        let fields: Vec<&str> = line.unwrap().split(',').collect();
        assert_eq!(fields.len(), COLUMNS.len());
        assert_eq!((fields[1], fields[4]), ("5", "1000"));
        assert_eq!(fields[11], "-");
        assert_eq!((fields[12], fields[9]), ("3", "50"));
    }

    #[test]
    fn what_the_harness_would_have_skipped_is_left_out() {
        let mut run = sample::full_run();
        let all = text(&run).lines().count();
        run.cells[0].repeats[0].errors = 501;
        run.cells[0].repeats[1].verdict = Verdict::Void;
        assert_eq!(text(&run).lines().count(), all - 2);
    }
}
