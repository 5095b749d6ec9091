//! The tables of what was measured besides the rounds. Called by `tables`; pure.

use super::{MEBIBYTE, dash, median, name, range, size, table};
use crate::cost::interval::Interval;
use crate::cost::outcome::{Outcome, Percentiles};

/// One table for each measurement that was asked for.
pub(super) fn render(outcome: &Outcome) -> Vec<String> {
    let mut parts = Vec::new();
    if !outcome.cross_checks.is_empty() {
        parts.push(cross_checks(outcome));
    }
    if !outcome.latencies.is_empty() {
        parts.push(latencies(outcome));
    }
    if !outcome.lossy.is_empty() {
        parts.push(lossy(outcome));
    }
    if !outcome.mixed.is_empty() {
        parts.push(mixed(outcome));
    }
    if !outcome.memories.is_empty() {
        parts.push(memories(outcome));
    }
    parts
}

fn cross_checks(outcome: &Outcome) -> String {
    let columns = [
        "cell",
        "proxy",
        "requests/s",
        "h2load's",
        "CPU µs/request",
        "under h2load",
        "ratio",
    ];
    let mut table = table(&columns, 2);
    for check in &outcome.cross_checks {
        let ratio = check.cpu_micros.map(|ours| check.theirs_cpu_micros / ours);
        let number = |figure: Option<f64>, decimals: usize| {
            figure.map_or_else(dash, |figure| format!("{figure:.decimals$}"))
        };
        table.add_row([
            name(&check.cell),
            check.contestant.name().to_owned(),
            number(check.rate, 0),
            number(Some(check.theirs_rate), 0),
            number(check.cpu_micros, 2),
            number(Some(check.theirs_cpu_micros), 2),
            number(ratio, 2),
        ]);
    }
    format!("h2load on the same cells\n{}", table.trim_fmt())
}

fn latencies(outcome: &Outcome) -> String {
    let columns = [
        "cell",
        "proxy",
        "direct P50 µs",
        "added P50 µs",
        "interval",
        "direct P99 µs",
        "added P99 µs",
        "interval",
    ];
    let mut table = table(&columns, 2);
    for found in &outcome.latencies {
        let mut row = vec![name(&found.cell), found.contestant.name().to_owned()];
        for figures in [
            (&found.direct.p50_micros, &found.added.p50_micros),
            (&found.direct.p99_micros, &found.added.p99_micros),
        ] {
            row.push(median(Interval::of(figures.0), 1));
            row.extend(with_range(figures.1));
        }
        table.add_row(row);
    }
    let rate = outcome.latencies.first().map_or(0.0, |found| found.rate);
    format!(
        "Added latency at {rate:.0} requests/s\n{}",
        table.trim_fmt()
    )
}

fn lossy(outcome: &Outcome) -> String {
    let columns = ["cell", "proxy", "P50 µs", "interval", "P99 µs", "interval"];
    let mut table = table(&columns, 2);
    for found in &outcome.lossy {
        let mut row = vec![name(&found.cell), found.contestant.name().to_owned()];
        row.extend(both(&found.percentiles));
        table.add_row(row);
    }
    let first = outcome.lossy.first();
    let (link, maker) = first.map_or(("", ""), |found| (found.link, found.maker));
    format!(
        "Latency with {link} in each direction between the sidecars ({maker})\n{}",
        table.trim_fmt()
    )
}

fn mixed(outcome: &Outcome) -> String {
    let columns = [
        "cell",
        "proxy",
        "alone P99 µs",
        "interval",
        "beside P99 µs",
        "interval",
        "beside / alone",
        "interval",
    ];
    let mut table = table(&columns, 2);
    for found in &outcome.mixed {
        let (alone, beside) = (&found.alone.p99_micros, &found.beside.p99_micros);
        let pairs = beside
            .iter()
            .zip(alone)
            .map(|(beside, alone)| beside / alone);
        let ratio = Interval::of(&pairs.collect::<Vec<_>>());
        let mut row = vec![name(&found.cell), found.contestant.name().to_owned()];
        row.extend(with_range(alone));
        row.extend(with_range(beside));
        row.extend([
            median(ratio, 2),
            ratio.map_or_else(dash, |ratio| range(ratio, 2)),
        ]);
        table.add_row(row);
    }
    let huge = outcome.mixed.first().map_or(0, |found| found.huge_bytes);
    format!(
        "Small requests alone and beside a body of {}\n{}",
        size(huge),
        table.trim_fmt()
    )
}

fn memories(outcome: &Outcome) -> String {
    let columns = [
        "scene",
        "proxy",
        "busy conns",
        "MiB",
        "further idle conns",
        "KiB each",
    ];
    let mut table = table(&columns, 2);
    for memory in &outcome.memories {
        table.add_row([
            memory.scene.to_string(),
            memory.contestant.name().to_owned(),
            memory.connections.to_string(),
            format!("{:.1}", memory.loaded_bytes as f64 / MEBIBYTE),
            memory.further_connections.to_string(),
            format!("{:.2}", memory.per_idle_bytes / 1024.0),
        ]);
    }
    table.trim_fmt()
}

fn both(percentiles: &Percentiles) -> Vec<String> {
    let mut words = with_range(&percentiles.p50_micros).to_vec();
    words.extend(with_range(&percentiles.p99_micros));
    words
}

/// The median of figures in microseconds, and its interval.
fn with_range(figures: &[f64]) -> [String; 2] {
    let interval = Interval::of(figures);
    [
        median(interval, 1),
        interval.map_or_else(dash, |interval| range(interval, 1)),
    ]
}
