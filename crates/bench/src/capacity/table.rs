//! What the searches found, as a table: in the terminal and in the report. Pure.

use super::{Found, found};
use crate::figures::number;
use crate::results::Run;
use crate::table::{self, NOTHING};

/// Column titles; the first two and the last are words.
pub(crate) const COLUMNS: [&str; 11] = [
    "data plane",
    "mode",
    "conns",
    "req/s kept",
    "P50 ms",
    "P99 ms",
    "CPU µs/req",
    "client mCPU",
    "server mCPU",
    "MiB",
    "and no more, because",
];

/// The table in the terminal.
pub(crate) fn render(run: &Run) -> String {
    table::grid(&COLUMNS, rows(run).into_iter())
}

/// What is found, in sentences for those who have no column for it.
pub(crate) fn caption(run: &Run) -> String {
    let objective = run.settings.objective.map(|it| it.words());
    format!("The highest rate with {}", objective.unwrap_or_default())
}

/// One row for each search.
pub(crate) fn rows(run: &Run) -> Vec<[String; 11]> {
    found(run).iter().map(row).collect()
}

fn row(found: &Found<'_>) -> [String; 11] {
    let key = &found.subject;
    let begin = [
        key.data_plane.clone(),
        key.variant(),
        key.connections.to_string(),
    ];
    let numbers = match found.cell {
        Some(cell) => [
            number::grouped(f64::from(cell.key.qps.unwrap_or_default())),
            table::latency(cell, 0.5),
            table::latency(cell, 0.99),
            table::usage(cell.cpu_micros_per_request(), 1.0),
            table::usage(cell.client_cores(), 1e3),
            table::usage(cell.server_cores(), 1e3),
            table::usage(cell.pss(), 1.0 / 1_048_576.0),
        ],
        None => [NOTHING; 7].map(str::to_owned),
    };
    let mut row = begin.into_iter().chain(numbers).chain([limit(found)]);
    std::array::from_fn(|_| row.next().unwrap_or_default())
}

fn limit(found: &Found<'_>) -> String {
    match &found.limit {
        _ if !found.is_done => "the search is not done".to_owned(),
        Some((rate, why)) => format!("at {}: {why}", number::grouped(f64::from(*rate))),
        None => "nothing stopped it".to_owned(),
    }
}
