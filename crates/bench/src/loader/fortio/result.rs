//! fortio's JSON as an outcome. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use load::Plan;
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::loader::outcome::Found;
use crate::results::pool;

/// Steps in which the samples of a bucket are spread over it, as evenly as fortio's own
/// percentiles have them.
const STEPS: u64 = 16;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Written {
    start_time: String,
    /// Nanoseconds.
    actual_duration: u64,
    num_threads: u32,
    duration_histogram: Buckets,
    ret_codes: BTreeMap<i32, u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Buckets {
    count: u64,
    data: Option<Vec<Bucket>>,
}

/// Seconds.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Bucket {
    start: f64,
    end: f64,
    count: u64,
}

/// # Errors
/// When it is not what fortio writes, or not of this plan.
pub(super) fn read(bytes: &[u8], plan: &Plan, cpu: Duration) -> anyhow::Result<Found> {
    let written: Written = serde_json::from_slice(bytes)?;
    ensure!(
        written.num_threads == plan.connections,
        "fortio used {} of {} connections: there must be at least two requests for each, so ask \
         for a longer window or a higher rate",
        written.num_threads,
        plan.connections
    );
    let started = OffsetDateTime::parse(&written.start_time, &Rfc3339);
    let started = started.with_context(|| format!("its StartTime is {}", written.start_time))?;
    let mut statuses = BTreeMap::new();
    for (code, count) in &written.ret_codes {
        // Its codes below 100 stand for requests without an answer.
        let status = u16::try_from(*code).ok().filter(|status| *status >= 100);
        *statuses.entry(status.unwrap_or(0)).or_default() += count;
    }
    Ok(Found {
        started: SystemTime::from(started),
        window: Duration::from_nanos(written.actual_duration),
        statuses,
        sent: spread(&written.duration_histogram)?,
        cpu,
    })
}

fn spread(buckets: &Buckets) -> anyhow::Result<Histogram<u64>> {
    let mut histogram = pool::empty();
    for bucket in buckets.data.iter().flatten() {
        let width = (bucket.end - bucket.start).max(0.0);
        for step in 0..STEPS {
            let share = bucket.count * (step + 1) / STEPS - bucket.count * step / STEPS;
            let middle = (f64::from(u32::try_from(step)?) + 0.5) / f64::from(u32::try_from(STEPS)?);
            let value = Duration::try_from_secs_f64(bucket.start + width * middle)?;
            histogram.record_n(u64::try_from(value.as_nanos())?, share)?;
        }
    }
    ensure!(
        histogram.len() == buckets.count,
        "its buckets hold {} of {} samples",
        histogram.len(),
        buckets.count
    );
    Ok(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: &str = r#"{
        "StartTime": "2026-01-02T03:04:05.678Z", "ActualDuration": 2000000000, "NumThreads": 4,
        "RetCodes": {"-1": 2, "200": 97, "503": 1},
        "DurationHistogram": {"Count": 100, "Min": 0.1, "Max": 0.14, "Data": [
            {"Start": 0.1, "End": 0.12, "Percent": 90, "Count": 90},
            {"Start": 0.12, "End": 0.14, "Percent": 100, "Count": 10}]}
    }"#;

    #[test]
    fn what_it_writes_is_read_with_the_precision_of_its_buckets() {
        let plan = Plan::new("http://localhost/");
        let found = read(WRITTEN.as_bytes(), &plan, Duration::ZERO).unwrap();
        assert_eq!(
            found.statuses,
            BTreeMap::from([(0, 2), (200, 97), (503, 1)])
        );
        assert_eq!(found.window, Duration::from_secs(2));
        assert_eq!(found.sent.len(), 100);
        for (quantile, millis) in [(0.0, 100.0), (0.45, 110.0), (0.9, 120.0), (1.0, 140.0)] {
            let found = Duration::from_nanos(found.sent.value_at_quantile(quantile));
            let off = found.as_secs_f64() * 1e3 - millis;
            assert!(off.abs() < 1.5, "{quantile}: {found:?}");
        }
    }

    #[test]
    fn fewer_connections_than_asked_for_are_no_result() {
        let plan = Plan {
            connections: 64,
            ..Plan::new("http://localhost/")
        };
        let error = read(WRITTEN.as_bytes(), &plan, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("4 of 64 connections"), "{error}");
    }
}
