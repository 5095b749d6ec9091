//! The headline of a run over a grid: what each data plane adds over the baseline at one number of
//! connections. Called by `standard`. Pure. Differences of percentiles are labelled as such.

use crate::figures::number;
use crate::results::{Cell, CellKey, Metric, Mode, Run};

use super::content::{Headline, HeadlineColumn, HeadlineRow};
use super::verdicts;

/// Where published reports draw their conclusions; taken when it was measured.
const REFERENCE_CONNECTIONS: u32 = 16;

/// The headline at the reference connections, or `None` without sidecars.
pub(crate) fn build(run: &Run) -> Option<Headline> {
    let reference = reference(run)?;
    let here = |key: &CellKey| has_load_of(key, reference);
    let cells: Vec<&Cell> = run.cells.iter().filter(|cell| here(&cell.key)).collect();
    let baseline = baseline(&cells);
    let measured = cells.iter().filter(|cell| cell.key.mode != Mode::Baseline);
    let rows = measured.clone().map(|cell| row(cell, baseline));
    let pairs = verdicts::pairs(run).into_iter();
    let pairs = pairs.filter(|(mine, _)| here(&mine.key));
    Some(Headline {
        title: "What each data plane adds".to_owned(),
        text: text(reference, baseline),
        columns: columns(),
        rows: rows.collect(),
        verdicts: pairs
            .map(|(mine, theirs)| verdicts::sentence(mine, theirs))
            .collect(),
        notes: vec![
            "Added latency is the difference of two percentiles, not a percentile of differences. \
             CPU and memory are those of all sidecars on the path together."
                .to_owned(),
            verdicts::chance(run),
        ],
    })
}

fn has_load_of(key: &CellKey, other: &CellKey) -> bool {
    key.connections == other.connections && key.qps == other.qps
}

/// Without sidecars, where that was measured, rather than past them.
fn baseline<'a>(cells: &[&'a Cell]) -> Option<&'a Cell> {
    let all = cells.iter().copied();
    let mut baselines = all.filter(|cell| cell.key.mode == Mode::Baseline);
    let without = baselines.clone().find(|cell| cell.key.data_plane == "none");
    without.or_else(|| baselines.next())
}

/// The cell whose connections and rate the headline takes: the highest rate at which all cells may
/// be compared.
fn reference(run: &Run) -> Option<&CellKey> {
    let keys = || {
        let keys = run.cells.iter().map(|cell| &cell.key);
        keys.filter(|key| key.mode != Mode::Baseline)
    };
    let mut counts: Vec<u32> = keys().map(|key| key.connections).collect();
    counts.sort_unstable();
    counts.dedup();
    let wanted = match counts.contains(&REFERENCE_CONNECTIONS) {
        true => REFERENCE_CONNECTIONS,
        false => *counts.get(counts.len() / 2)?,
    };
    let doubtful = |key: &CellKey| {
        let mut here = run.cells.iter().filter(|cell| has_load_of(&cell.key, key));
        here.any(|cell| cell.doubt().is_some())
    };
    keys()
        .filter(|key| key.connections == wanted)
        .max_by_key(|key| (!doubtful(key), key.qps))
}

fn text(reference: &CellKey, baseline: Option<&Cell>) -> String {
    let rate = reference.qps.map_or_else(
        || "as many requests per second as it takes".to_owned(),
        |qps| format!("{} requests per second", number::grouped(f64::from(qps))),
    );
    let beside = baseline.map(|cell| {
        let words = |metric: Metric| Some(number::significant(metric.of(cell)?.value));
        let figures = words(Metric::P50).zip(words(Metric::P99));
        let figures = figures.map_or_else(
            || ", which has too few samples".to_owned(),
            |(middle, tail)| format!(" (P50 {middle} ms, P99 {tail} ms)"),
        );
        format!(", over the same path without a sidecar{figures}")
    });
    format!(
        "At {} connections and {rate}{}.",
        reference.connections,
        beside.unwrap_or_default()
    )
}

fn columns() -> Vec<HeadlineColumn> {
    let column = |(title, unit, signed): (&str, &str, bool)| HeadlineColumn {
        title: title.to_owned(),
        unit: unit.to_owned(),
        signed,
    };
    let columns = [
        ("added P50", "ms", true),
        ("added P99", "ms", true),
        ("CPU per 1,000 requests/s", "millicores", false),
        ("memory", "MiB", false),
    ];
    columns.map(column).into()
}

fn row(cell: &Cell, baseline: Option<&Cell>) -> HeadlineRow {
    let added = |metric: Metric| {
        let (mine, without) = (metric.resampled(cell)?, metric.resampled(baseline?)?);
        Some(mine.above(&without).estimate())
    };
    HeadlineRow {
        data_plane: cell.key.data_plane.clone(),
        variant: cell.key.variant(),
        // Latency is over the baseline's.
        doubt: cell.doubt().or_else(|| baseline.and_then(Cell::doubt)),
        values: vec![
            added(Metric::P50),
            added(Metric::P99),
            Metric::CpuPerThousand.of(cell),
            Metric::Memory.of(cell),
        ],
    }
}
