//! `leno bench compare`: what changed between two runs beyond their noise. Cells are paired by
//! everything that makes them; a change is shown only where intervals part. Measures nothing.

use std::cmp::Ordering;
use std::path::PathBuf;

use anyhow::{bail, ensure};
use comfy_table::{CellAlignment, LineStyle, Table as Terminal, presets};
use serde::Serialize;

use crate::figures::number;
use crate::report::content::{Column, Entry, Row, Table};
use crate::report::{markdown, verdicts};
use crate::results::{Cell, Estimate, Metric, Run, folder};

/// Options of `leno bench compare`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Folder of the run before
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// Folder of the run after
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Also shows what did not change
    #[arg(long)]
    pub all: bool,
    /// Writes a Markdown table to this file
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Writes all comparisons as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Fails when more figures got worse beyond noise than chance makes so
    #[arg(long)]
    pub fail_on_regression: bool,
}

/// One metric of one cell in both runs.
#[derive(Debug, Clone, Serialize)]
pub struct Change {
    /// The cell's name, as of its files.
    pub cell: String,
    /// The metric's name.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Value and ends of the interval.
    pub before: [f64; 3],
    /// As `before`.
    pub after: [f64; 3],
    /// After over before.
    pub ratio: Option<f64>,
    /// Behind the one that has fewer.
    pub repeats: usize,
    /// `better`, `worse`, or `none shown`.
    pub change: &'static str,
}

const METRICS: [Metric; 9] = [
    Metric::P50,
    Metric::P90,
    Metric::P99,
    Metric::P999,
    Metric::Rate,
    Metric::CpuPerThousand,
    Metric::Cpu,
    Metric::Memory,
    Metric::GatewayCpu,
];

/// Compares, prints and writes what is asked for.
///
/// # Errors
/// When a folder holds no run of this layout, when the two have no cell in common, or, where that
/// is asked for, when something got worse.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (before, after) = (folder::named(&args.before)?, folder::named(&args.after)?);
    comparable(&before, &after)?;
    let (changes, mut notes) = compare(&before, &after);
    ensure!(
        !changes.is_empty(),
        "the two runs have no valid cell in common: {}",
        notes.join("; ")
    );
    let shown: Vec<&Change> = changes
        .iter()
        .filter(|change| args.all || change.change != NONE_SHOWN)
        .collect();
    let count = changes.len();
    match shown.is_empty() {
        true => println!("no change is shown in any of {count} figures"),
        false => println!("{}", terminal(&shown)),
    }
    let chance = by_chance(&changes);
    notes.push(format!(
        "of two equal runs about {} of these {count} figures would seem better, and as many worse, \
         by chance; what the machine did between the runs is in no interval",
        number::significant(chance)
    ));
    notes.iter().for_each(|note| println!("note: {note}"));
    if let Some(path) = &args.markdown {
        folder::write_whole(path, markdown::table_text(&table(&shown, count)).as_bytes())?;
    }
    if let Some(path) = &args.json {
        folder::write_whole(path, &serde_json::to_vec_pretty(&changes)?)?;
    }
    let worse = changes
        .iter()
        .filter(|change| change.change == WORSE)
        .count();
    if args.fail_on_regression && worse > 0 && crate::units::count(worse as u64) > chance {
        bail!("{worse} of {count} figures got worse beyond noise");
    }
    Ok(())
}

/// Smaller changes matter to nobody, in parts of one.
const WORTH_MIN: f64 = 0.02;

const NONE_SHOWN: &str = "none shown";
const WORSE: &str = "worse";
const BETTER: &str = "better";

/// # Errors
/// When the runs measured different things, whose difference would be taken for one of data planes.
fn comparable(before: &Run, after: &Run) -> anyhow::Result<()> {
    let (ours, theirs) = (&before.settings, &after.settings);
    let limits = |run: &Run| {
        let limits = &run.environment.limits;
        (limits.cpus, limits.memory_bytes)
    };
    ensure!(
        ours.load == theirs.load
            && ours.arrivals == theirs.arrivals
            && ours.headers == theirs.headers
            && ours.application == theirs.application
            && ours.sample == theirs.sample
            && (ours.scale - theirs.scale).abs() < 1e-9
            && limits(before) == limits(after),
        "the runs cannot be compared: their load tools, arrivals, headers, applications or CPU \
         limits differ; take the second one with the first one's command"
    );
    Ok(())
}

/// How many figures seem worse where two runs are equal: half of those that seem to differ.
fn by_chance(changes: &[Change]) -> f64 {
    let each = changes
        .iter()
        .map(|change| verdicts::by_chance(change.repeats));
    each.sum::<f64>() / 2.0
}

/// Every metric of every pair of valid cells, and what was left out and why.
fn compare(before: &Run, after: &Run) -> (Vec<Change>, Vec<String>) {
    let (mut changes, mut notes) = (Vec::new(), Vec::new());
    if before.settings.environment != after.settings.environment
        || !before.environment.is_on_the_machine_of(&after.environment)
    {
        notes.push(
            "the runs were taken on different machines, CPUs, kernels or environments: \
             differences may be theirs"
                .to_owned(),
        );
    }
    let times = |run: &Run| [run.settings.duration_seconds, run.settings.warmup_seconds];
    if times(before) != times(after) {
        notes.push("windows or warm-ups differ in length".to_owned());
    }
    for cell in &before.cells {
        let slug = cell.key.slug();
        let Some(other) = after.cells.iter().find(|other| other.key == cell.key) else {
            notes.push(format!("{slug} is in the run before only"));
            continue;
        };
        match cell.doubt().or_else(|| other.doubt()) {
            Some(doubt) => notes.push(format!("{slug} is {doubt}")),
            None => changes.extend(METRICS.iter().filter_map(|&it| change(cell, other, it))),
        }
    }
    let unknown = |cell: &&Cell| !before.cells.iter().any(|other| other.key == cell.key);
    let only_after = after.cells.iter().filter(unknown);
    notes.extend(only_after.map(|cell| format!("{} is in the run after only", cell.key.slug())));
    (changes, notes)
}

fn change(before: &Cell, after: &Cell, metric: Metric) -> Option<Change> {
    let (old, new) = (metric.of(before)?, metric.of(after)?);
    let more = match metric.more_is_better() {
        true => BETTER,
        false => WORSE,
    };
    let less = if more == BETTER { WORSE } else { BETTER };
    let is_worth_it = old.value == 0.0 || (new.value / old.value - 1.0).abs() >= WORTH_MIN;
    let ends = |estimate: Estimate| [estimate.value, estimate.low, estimate.high];
    Some(Change {
        cell: before.key.slug(),
        metric: metric.name(),
        unit: metric.unit(),
        before: ends(old),
        after: ends(new),
        ratio: (old.value != 0.0).then(|| new.value / old.value),
        repeats: old.repeats.min(new.repeats),
        change: match new.against(&old).filter(|_| is_worth_it) {
            Some(Ordering::Greater) => more,
            Some(_) => less,
            None => NONE_SHOWN,
        },
    })
}

fn words(change: &Change) -> [String; 6] {
    let value = |[value, low, high]: [f64; 3]| {
        let words = number::significant;
        format!("{} ({} – {})", words(value), words(low), words(high))
    };
    let ratio = change
        .ratio
        .map(|ratio| format!("{}{} %", sign(ratio), percent(ratio)));
    [
        change.cell.clone(),
        format!("{}, {}", change.metric, change.unit),
        value(change.before),
        value(change.after),
        ratio.unwrap_or_else(|| crate::table::NOTHING.to_owned()),
        change.change.to_owned(),
    ]
}

fn sign(ratio: f64) -> &'static str {
    if ratio > 1.0 { "+" } else { "" }
}

fn percent(ratio: f64) -> String {
    number::significant((ratio - 1.0) * 100.0)
}

const TITLES: [&str; 6] = ["cell", "metric", "before", "after", "by", "change"];

fn terminal(changes: &[&Change]) -> String {
    let mut table = Terminal::new();
    let style = presets::UTF8_NO_BORDERS.row_separator(LineStyle::none());
    table.load_style(style).set_header(TITLES);
    for column in table.column_iter_mut().skip(2).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.add_rows(changes.iter().map(|change| words(change)));
    table.trim_fmt()
}

fn table(changes: &[&Change], count: usize) -> Table {
    let column = |(index, title)| match (2..5).contains(&index) {
        true => Column::number(title),
        false => Column::words(title),
    };
    Table {
        caption: "What changed beyond noise".to_owned(),
        columns: TITLES.into_iter().enumerate().map(column).collect(),
        rows: changes
            .iter()
            .map(|change| Row::plain(words(change).map(Entry::words).into()))
            .collect(),
        notes: vec![format!(
            "{} of {count} figures are shown. A change is one of 2 % or more where the 95 % \
             intervals over repeats part.",
            changes.len()
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Verdict, sample};

    fn slower(run: &mut Run) {
        let repeats = run.cells[3].repeats.iter_mut();
        for latencies in repeats.map(|repeat| &mut repeat.latencies.intended) {
            latencies.reset();
            (1..=5_000_u64).for_each(|step| latencies.record(step * 1_500).unwrap());
        }
    }

    #[test]
    fn a_run_does_not_differ_from_itself() {
        let run = sample::full_run();
        let (changes, notes) = compare(&run, &run);
        assert!(!changes.is_empty() && notes.is_empty());
        assert!(changes.iter().all(|change| change.change == NONE_SHOWN));
    }

    #[test]
    fn more_latency_is_worse_and_less_is_better() {
        let (before, mut after) = (sample::full_run(), sample::full_run());
        slower(&mut after);
        let worse: Vec<Change> = compare(&before, &after).0;
        let worse: Vec<&Change> = worse.iter().filter(|it| it.change != NONE_SHOWN).collect();
        assert_eq!(worse.len(), 3, "{worse:?}");
        assert!(worse.iter().all(|change| change.change == WORSE));
        assert!((worse[0].ratio.unwrap() - 1.5).abs() < 0.01);
        let better = compare(&after, &before).0;
        assert_eq!(better.iter().filter(|it| it.change == BETTER).count(), 3);
    }

    #[test]
    fn cells_of_one_run_only_and_doubtful_ones_are_named() {
        let (mut before, mut after) = (sample::full_run(), sample::full_run());
        before.cells.remove(0);
        after.cells.remove(1);
        after.cells[1].repeats[0].verdict = Verdict::Saturated;
        let notes = compare(&before, &after).1;
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes.iter().any(|note| note.ends_with("is saturated")));
    }

    #[test]
    fn runs_under_other_limits_are_refused() {
        let (before, mut after) = (sample::full_run(), sample::full_run());
        comparable(&before, &after).unwrap();
        after.settings.scale = 0.2;
        assert!(comparable(&before, &after).is_err());
    }

    #[test]
    fn what_chance_makes_differ_is_counted() {
        let run = sample::full_run();
        let changes = compare(&run, &run).0;
        // Two repeats each: all of one are above all of the other in one of six orders.
        let expected = crate::units::count(changes.len() as u64) / 6.0;
        assert!((by_chance(&changes) - expected).abs() < 1e-9);
    }
}
