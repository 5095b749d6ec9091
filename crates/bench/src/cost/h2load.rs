//! The same cell driven by another generator, nghttp2's h2load: does it find what ours finds?
//! Called by `rounds` after the last round, on the very processes that were measured.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::cell::Cell;
use super::interval::Interval;
use super::outcome::{CrossCheck, Outcome, Row};
use super::process::on_core;
use super::subject::{Stage, Subject};
use crate::dataplane::find;

/// How long it shall take at the rate that our generator found.
const LENGTH: Duration = Duration::from_secs(2);
/// Few enough even where the rounds were left out.
const REQUESTS_MIN: u64 = 10_000;

/// Adds one [`CrossCheck`] per contestant to the outcome, or why there is none.
///
/// # Errors
/// When a contestant's counters cannot be read.
pub(crate) fn measure(
    subjects: &[Subject],
    cell: Cell,
    stage: &Stage<'_>,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    if find::installed(None, "h2load")?.is_none() {
        outcome
            .missing
            .push("cross-check: h2load is not installed".to_owned());
        return Ok(());
    }
    for subject in subjects {
        let of_subject = |row: &&Row| (row.contestant, row.cell) == (subject.contestant, cell);
        let row = outcome.rows.iter().find(of_subject);
        let row = row.context("a subject without a row")?;
        let median = |figure| Interval::of(&row.figures(figure)).map(|found| found.median);
        let (rate, cpu_micros) = (median(|w| w.rate), median(|w| w.cpu_micros));
        match one(subject, &cell, rate.unwrap_or(0.0), stage) {
            Ok((theirs_rate, theirs_cpu_micros)) => outcome.cross_checks.push(CrossCheck {
                contestant: subject.contestant,
                cell,
                rate,
                cpu_micros,
                theirs_rate,
                theirs_cpu_micros,
            }),
            Err(error) => outcome.miss(subject.contestant, &error.context("h2load")),
        }
    }
    Ok(())
}

/// Requests per second, and the contestant's CPU time per request in microseconds.
fn one(subject: &Subject, cell: &Cell, rate: f64, stage: &Stage<'_>) -> anyhow::Result<(f64, f64)> {
    let requests = REQUESTS_MIN.max((rate * LENGTH.as_secs_f64()) as u64);
    let url = format!("http://{}/echo?size={}", subject.entry, cell.size_bytes);
    let mut command = Command::new("h2load");
    command.args(["-n", &requests.to_string(), "-t", "1"]);
    command.args(["-c", &cell.shape.connections.to_string()]);
    command.args(["-m", &cell.shape.streams.to_string(), &url]);
    let before = subject.cpu_nanos()?;
    let output = on_core(stage.cores.load, || command.output())?.context("start h2load")?;
    let cpu_nanos = subject.cpu_nanos()? - before;
    ensure!(output.status.success(), "it ended with {}", output.status);
    let (rate, succeeded) = read(&String::from_utf8_lossy(&output.stdout))?;
    if succeeded != requests {
        bail!("{succeeded} of {requests} requests succeeded");
    }
    Ok((rate, cpu_nanos as f64 / 1e3 / requests as f64))
}

/// Requests per second and how many succeeded, from what h2load prints.
fn read(report: &str) -> anyhow::Result<(f64, u64)> {
    let before = |line: &str, unit: &str| {
        let parts = line.split(',').map(str::trim);
        let number = parts.filter_map(|part| part.strip_suffix(unit)).next()?;
        Some(number.trim().to_owned())
    };
    let line = |start: &str| report.lines().find(|line| line.starts_with(start));
    let rate = line("finished in").and_then(|line| before(line, "req/s"));
    let succeeded = line("requests:").and_then(|line| before(line, "succeeded"));
    let (rate, succeeded) = rate.zip(succeeded).context("h2load printed no figures")?;
    Ok((rate.parse()?, succeeded.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_report_is_read() {
        let report = "starting benchmark...\n\
            finished in 1.05s, 9523.81 req/s, 10.12MB/s\n\
            requests: 10000 total, 10000 started, 10000 done, 9990 succeeded, 10 failed\n";
        assert_eq!(read(report).unwrap(), (9523.81, 9990));
        assert!(read("nothing").is_err());
    }
}
