//! The table in the terminal: one row for each data plane, mode and number of connections.
//! Called at the end of `leno bench latency` and `leno demo`. Pure but for [`print`].

use comfy_table::{CellAlignment, LineStyle, Table, presets};

use crate::capacity;
use crate::figures::number;
use crate::results::{Cell, Experiment, Run, Spread, Verdict};

pub(crate) use crate::report::content::NOTHING;

/// Column titles with units, the first two are words.
pub(crate) const COLUMNS: [&str; 13] = [
    "data plane",
    "mode",
    "conns",
    "P50 ms",
    "P90 ms",
    "P99 ms",
    "P99.9 ms",
    "req/s",
    "client mCPU",
    "server mCPU",
    "client MiB",
    "server MiB",
    "verdict",
];

/// Prints the run's cells.
pub fn print(run: &Run) {
    println!("{}", render(run));
}

/// The table as text, with what a reader needs to read it.
pub fn render(run: &Run) -> String {
    let mut text = match run.settings.experiment {
        Experiment::Cpu => grid(&OF_RATES, run.cells.iter().map(row_of_rates)),
        Experiment::Capacity => {
            let caption = capacity::table::caption(run);
            format!("{caption}:\n{}", capacity::table::render(run))
        }
        _ => grid(&COLUMNS, run.cells.iter().map(row)),
    };
    for line in legend(run) {
        text.push('\n');
        text.push_str(&line);
    }
    text
}

/// Rows below their titles: the first two columns and the last are words, the others numbers.
pub(crate) fn grid<const N: usize>(
    titles: &[&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    let style = presets::UTF8_NO_BORDERS.row_separator(LineStyle::none());
    table.load_style(style).set_header(titles);
    for column in table.column_iter_mut().skip(2).take(N - 3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.add_rows(rows);
    table.trim_fmt()
}

/// Column titles where the rate is what varies.
const OF_RATES: [&str; 11] = [
    "data plane",
    "mode",
    "asked/s",
    "req/s",
    "client mCPU",
    "server mCPU",
    "CPU µs/req",
    "P50 ms",
    "P99 ms",
    "MiB",
    "verdict",
];

fn row_of_rates(cell: &Cell) -> [String; 11] {
    let key = &cell.key;
    let asked = key.qps.map(|qps| number::grouped(f64::from(qps)));
    [
        key.data_plane.clone(),
        key.variant(),
        asked.unwrap_or_else(|| key.qps_word()),
        rate(cell),
        usage(cell.client_cores(), 1e3),
        usage(cell.server_cores(), 1e3),
        usage(cell.cpu_micros_per_request(), 1.0),
        latency(cell, 0.5),
        latency(cell, 0.99),
        usage(cell.pss(), 1.0 / 1_048_576.0),
        cell.verdict().name().to_owned(),
    ]
}

/// A cell's figures as words, in the order of [`COLUMNS`].
pub(crate) fn row(cell: &Cell) -> [String; 13] {
    let key = &cell.key;
    [
        key.data_plane.clone(),
        key.variant(),
        key.connections.to_string(),
        latency(cell, 0.5),
        latency(cell, 0.9),
        latency(cell, 0.99),
        latency(cell, 0.999),
        rate(cell),
        usage(cell.client_cores(), 1e3),
        usage(cell.server_cores(), 1e3),
        usage(cell.client_pss(), 1.0 / 1_048_576.0),
        usage(cell.server_pss(), 1.0 / 1_048_576.0),
        cell.verdict().name().to_owned(),
    ]
}

pub(crate) fn latency(cell: &Cell, quantile: f64) -> String {
    let nanos = cell.percentile(quantile);
    nanos.map_or_else(
        || NOTHING.to_owned(),
        |nanos| number::significant(nanos as f64 / 1e6),
    )
}

/// Achieved rate; beside it the asked one where the two differ.
fn rate(cell: &Cell) -> String {
    let Some(achieved) = cell.achieved_qps() else {
        return NOTHING.to_owned();
    };
    let achieved = number::grouped(achieved.median);
    match (cell.verdict(), cell.key.qps) {
        (Verdict::Saturated | Verdict::MachineBound, Some(asked)) => {
            format!("{achieved} of {}", number::grouped(f64::from(asked)))
        }
        _ => achieved,
    }
}

pub(crate) fn usage(spread: Option<Spread>, scale: f64) -> String {
    spread.map_or_else(
        || NOTHING.to_owned(),
        |s| number::significant(s.median * scale),
    )
}

fn legend(run: &Run) -> Vec<String> {
    let mut lines = Vec::new();
    let has = |verdict| run.cells.iter().any(|cell| cell.verdict() == verdict);
    for verdict in [Verdict::Saturated, Verdict::MachineBound, Verdict::Void] {
        if has(verdict) {
            lines.push(format!("{}: {}", verdict.name(), meaning(verdict)));
        }
    }
    for cell in run.cells.iter().filter(|cell| !cell.faults().is_empty()) {
        lines.push(format!("{}: {}", cell.key.slug(), cell.faults().join("; ")));
    }
    lines
}

/// What a verdict means, in one sentence.
pub(crate) fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Valid => "the generator kept its schedule and the target kept up",
        Verdict::Saturated => {
            "the target did not keep up with the asked rate: a result, shown with the achieved rate"
        }
        Verdict::MachineBound => {
            "the whole machine had no idle time left, so nothing can be said about the data plane"
        }
        Verdict::Void => "the generator or the machine was the cause: left out of every figure",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn a_run_reads_as_a_table() {
        let text = render(&sample::full_run());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 6, "{text}");
        let words: Vec<&str> = lines[2].split('┆').map(str::trim).collect();
        let none = [
            "none", "baseline", "2", "2.50", "4.50", "4.95", NOTHING, "1,000",
        ];
        assert_eq!(words[..8], none, "{text}");
        assert_eq!(words[8..], [NOTHING, NOTHING, NOTHING, NOTHING, "valid"]);
        let words: Vec<&str> = lines[5].split('┆').map(str::trim).collect();
        assert_eq!(words[..3], ["leno", "both", "16"], "{text}");
        assert_eq!(words[8..], ["50.0", "50.0", "5.00", "5.00", "valid"]);
    }

    #[test]
    fn a_saturated_cell_shows_both_rates_and_is_explained() {
        let mut run = sample::full_run();
        for repeat in &mut run.cells[1].repeats {
            repeat.verdict = Verdict::Saturated;
            repeat.achieved_qps = 812.0;
        }
        let text = render(&run);
        assert!(
            text.contains("812 of 1,000") && text.contains("\nsaturated: "),
            "{text}"
        );
    }

    #[test]
    fn a_fault_is_named_below() {
        let mut run = sample::full_run();
        run.cells[0].repeats[0].faults.push("12 errors".to_owned());
        assert!(render(&run).ends_with("none_baseline_c2_q1000_s1024: 12 errors"));
    }
}
