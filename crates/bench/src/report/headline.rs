//! The headline: what each data plane adds over the baseline at one number of connections.
//! Called by `view`. Pure. Differences of percentiles are labelled as such by the page.

use serde::Serialize;

use crate::figures::number;
use crate::results::{Cell, CellKey, Mode, Run, Verdict};
use crate::table::NOTHING;

/// Where published reports draw their conclusions; taken when it was measured.
const REFERENCE_CONNECTIONS: u32 = 16;

/// The headline table.
#[derive(Serialize)]
pub(crate) struct Headline {
    pub(crate) connections: u32,
    pub(crate) rate: String,
    /// Latency without any sidecar, P50 and P99 in ms.
    pub(crate) baseline: Option<[String; 2]>,
    pub(crate) rows: Vec<Row>,
}

/// One data plane in one mode.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) class: &'static str,
    pub(crate) data_plane: String,
    pub(crate) mode: &'static str,
    pub(crate) bars: Vec<Bar>,
    /// Why it must be read with care; empty when valid.
    pub(crate) doubt: &'static str,
}

/// A figure and its length against the greatest of its column, in percent; none without a figure.
#[derive(Serialize)]
pub(crate) struct Bar {
    pub(crate) text: String,
    pub(crate) percent: Option<f64>,
}

/// The table at the reference connections, or `None` without sidecars.
pub(crate) fn build(run: &Run) -> Option<Headline> {
    let reference = reference(run)?;
    let here = |key: &CellKey| key.connections == reference.connections && key.qps == reference.qps;
    let cells: Vec<&Cell> = run.cells.iter().filter(|cell| here(&cell.key)).collect();
    let mut baselines = cells
        .iter()
        .copied()
        .filter(|cell| cell.key.mode == Mode::Baseline);
    // Without sidecars, where that was measured, rather than past them.
    let without = baselines.clone().find(|cell| cell.key.data_plane == "none");
    let baseline = without.or_else(|| baselines.next());
    let measured: Vec<&Cell> = cells
        .iter()
        .copied()
        .filter(|cell| cell.key.mode != Mode::Baseline)
        .collect();
    let table: Vec<[Option<f64>; 5]> = measured
        .iter()
        .map(|cell| figures(cell, baseline))
        .collect();
    let rows = measured
        .iter()
        .zip(&table)
        .map(|(cell, figures)| row(cell, figures, &table));
    Some(Headline {
        connections: reference.connections,
        rate: reference.qps.map_or_else(
            || "as many requests per second as it takes".to_owned(),
            |qps| format!("{} requests per second", number::grouped(f64::from(qps))),
        ),
        baseline: baseline.map(|cell| [0.5, 0.99].map(|q| words(millis(cell, q)))),
        rows: rows.collect(),
    })
}

/// The cell whose connections and rate the headline takes.
fn reference(run: &Run) -> Option<&CellKey> {
    let keys = || {
        run.cells
            .iter()
            .map(|cell| &cell.key)
            .filter(|k| k.mode != Mode::Baseline)
    };
    let mut counts: Vec<u32> = keys().map(|key| key.connections).collect();
    counts.sort_unstable();
    counts.dedup();
    let wanted = if counts.contains(&REFERENCE_CONNECTIONS) {
        REFERENCE_CONNECTIONS
    } else {
        *counts.get(counts.len() / 2)?
    };
    keys()
        .filter(|key| key.connections == wanted)
        .max_by_key(|key| key.qps)
}

/// Added P50 and P99 in ms, CPU µs per request, CPU millicores, memory MiB of all its sidecars.
fn figures(cell: &Cell, baseline: Option<&Cell>) -> [Option<f64>; 5] {
    let added = |quantile| Some(millis(cell, quantile)? - millis(baseline?, quantile)?);
    let both = |client: Option<f64>, server: Option<f64>| match (client, server) {
        (None, None) => None,
        (client, server) => Some(client.unwrap_or(0.0) + server.unwrap_or(0.0)),
    };
    let cores = both(
        cell.client_cores().map(|spread| spread.median),
        cell.server_cores().map(|spread| spread.median),
    );
    let memory = both(
        cell.client_pss().map(|spread| spread.median),
        cell.server_pss().map(|spread| spread.median),
    );
    [
        added(0.5),
        added(0.99),
        cell.cpu_micros_per_request().map(|spread| spread.median),
        cores.map(|cores| cores * 1e3),
        memory.map(|bytes| bytes / 1_048_576.0),
    ]
}

fn row(cell: &Cell, figures: &[Option<f64>; 5], table: &[[Option<f64>; 5]]) -> Row {
    let bars = figures.iter().enumerate().map(|(column, figure)| {
        let column_values = table.iter().filter_map(|row| row[column]);
        let greatest = column_values.fold(0.0, f64::max);
        let text = match figure {
            // The first two are differences: their sign matters.
            Some(value) if column < 2 => number::signed(*value),
            other => words(*other),
        };
        let percent = figure.map(|value| {
            let part = value.max(0.0) / greatest;
            // Where all are 0, so is each.
            let part = if part.is_finite() { part } else { 0.0 };
            (part * 1000.0).round() / 10.0
        });
        Bar { text, percent }
    });
    Row {
        class: crate::figures::style(&cell.key.data_plane).class,
        data_plane: cell.key.data_plane.clone(),
        mode: cell.key.mode.name(),
        bars: bars.collect(),
        doubt: if cell.verdict() == Verdict::Valid {
            ""
        } else {
            cell.verdict().name()
        },
    }
}

fn millis(cell: &Cell, quantile: f64) -> Option<f64> {
    cell.percentile(quantile).map(|nanos| nanos as f64 / 1e6)
}

fn words(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), number::significant)
}
