//! The tables of a cost run for a terminal. Called by `cost` at the end; pure.

use comfy_table::{CellAlignment, LineStyle, Table, presets};

use super::interval::Interval;
use super::outcome::{Outcome, Row};

/// CPUs in use by others from which on figures are not to be trusted.
const DISTURBED_FROM: f64 = 0.15;
const MEBIBYTE: f64 = 1_048_576.0;

/// All that was found, as text.
pub(crate) fn render(outcome: &Outcome) -> String {
    let mut parts = vec![setting(outcome), rows(outcome)];
    if !outcome.latencies.is_empty() {
        parts.push(latencies(outcome));
    }
    if !outcome.memories.is_empty() {
        parts.push(memories(outcome));
    }
    if !outcome.ratios.is_empty() {
        parts.push(ratios(outcome));
    }
    parts.extend(disturbance(outcome));
    let missing = outcome
        .missing
        .iter()
        .map(|line| format!("not measured: {line}"));
    let missing = missing.collect::<Vec<_>>().join("\n");
    if !missing.is_empty() {
        parts.push(missing);
    }
    parts.join("\n\n")
}

fn setting(outcome: &Outcome) -> String {
    let setting = &outcome.setting;
    let cores = match (setting.proxy_core, setting.load_core) {
        (Some(proxies), Some(load)) => {
            format!("proxies on CPU {proxies}, generator and backend on CPU {load}")
        }
        _ => "nothing pinned: one CPU".to_owned(),
    };
    format!(
        "{} connections, {} bytes, {} rounds of {} s; {cores}; {}",
        setting.connections,
        setting.size_bytes,
        setting.rounds,
        setting.window_seconds,
        setting.congestion_control,
    )
}

fn rows(outcome: &Outcome) -> String {
    let mut table = table(&[
        "topology",
        "proxy",
        "CPU µs/request",
        "interval",
        "instr./request",
        "requests/s",
        "CPU used",
        "idle MiB",
        "loaded MiB",
        "start ms",
    ]);
    for row in &outcome.rows {
        let spread = |figures: Vec<f64>| Interval::of(&figures);
        let cost = spread(row.windows.iter().map(|window| window.cpu_micros).collect());
        let rate = spread(row.windows.iter().map(|window| window.rate).collect());
        let busy = spread(row.windows.iter().map(|window| window.busy).collect());
        table.add_row([
            row.topology.name().to_owned(),
            row.contestant.name().to_owned(),
            median(cost, 2),
            cost.map_or_else(dash, |cost| range(cost, 2)),
            instructions(outcome, row),
            median(rate, 0),
            median(busy, 2),
            format!("{:.1}", row.idle_pss_bytes as f64 / MEBIBYTE),
            format!("{:.1}", row.loaded_pss_bytes as f64 / MEBIBYTE),
            median(Interval::of(&row.start_up_millis), 0),
        ]);
    }
    table.trim_fmt()
}

fn instructions(outcome: &Outcome, row: &Row) -> String {
    let of_row = |(contestant, topology)| contestant == row.contestant && topology == row.topology;
    let found = outcome
        .instructions
        .iter()
        .find(|i| of_row((i.contestant, i.topology)));
    found.map_or_else(dash, |found| format!("{:.0}", found.per_request))
}

fn latencies(outcome: &Outcome) -> String {
    let mut table = table(&[
        "topology",
        "proxy",
        "conns",
        "requests/s",
        "direct P50 µs",
        "added P50 µs",
        "interval",
    ]);
    for latency in &outcome.latencies {
        let added = Interval::of(&latency.added_micros);
        table.add_row([
            latency.topology.name().to_owned(),
            latency.contestant.name().to_owned(),
            latency.connections.to_string(),
            format!("{:.0}", latency.rate),
            median(Interval::of(&latency.direct_micros), 1),
            median(added, 1),
            added.map_or_else(dash, |added| range(added, 1)),
        ]);
    }
    table.trim_fmt()
}

fn memories(outcome: &Outcome) -> String {
    let mut table = table(&[
        "topology",
        "proxy",
        "busy conns",
        "MiB",
        "further idle conns",
        "KiB each",
    ]);
    for memory in &outcome.memories {
        table.add_row([
            memory.topology.name().to_owned(),
            memory.contestant.name().to_owned(),
            memory.connections.to_string(),
            format!("{:.1}", memory.loaded_bytes as f64 / MEBIBYTE),
            memory.further_connections.to_string(),
            format!("{:.2}", memory.per_idle_bytes / 1024.0),
        ]);
    }
    table.trim_fmt()
}

fn ratios(outcome: &Outcome) -> String {
    let mut table = table(&[
        "topology",
        "ratio",
        "median",
        "interval",
        "confidence",
        "rounds",
        "must be ≤",
        "verdict",
    ]);
    for ratio in &outcome.ratios {
        let interval = ratio.interval;
        let (contestant, against) = (ratio.contestant.name(), ratio.against.name());
        table.add_row([
            ratio.topology.name().to_owned(),
            format!("{contestant} / {against}, {}", ratio.figure.name()),
            format!("{:.3}", interval.median),
            range(interval, 3),
            format!("{:.1} %", interval.confidence * 100.0),
            interval.count.to_string(),
            ratio.limit.map_or_else(dash, |limit| format!("{limit:.2}")),
            ratio
                .verdict
                .map_or_else(dash, |verdict| verdict.name().to_owned()),
        ]);
    }
    table.trim_fmt()
}

/// Whether other programs took CPU while we measured.
fn disturbance(outcome: &Outcome) -> Option<String> {
    let windows = outcome.rows.iter().flat_map(|row| &row.windows);
    let others = Interval::of(&windows.map(|window| window.others).collect::<Vec<_>>())?;
    (others.median > DISTURBED_FROM).then(|| {
        format!(
            "disturbed: other programs used {:.1} CPUs in the middle window, and on a shared core \
             requests come in larger batches; repeat this on a quiet machine",
            others.median
        )
    })
}

fn median(interval: Option<Interval>, decimals: usize) -> String {
    interval.map_or_else(dash, |interval| format!("{:.decimals$}", interval.median))
}

fn range(interval: Interval, decimals: usize) -> String {
    format!("{:.decimals$} – {:.decimals$}", interval.low, interval.high)
}

fn dash() -> String {
    "–".to_owned()
}

fn table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    let style = presets::UTF8_NO_BORDERS.row_separator(LineStyle::none());
    table.load_style(style).set_header(columns);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
