//! `leno bench compare`: what changed between two runs beyond their noise. Cells are paired by
//! everything that makes them; a change is shown only where intervals part. Of two searches for a
//! capacity, what they found is compared. Measures nothing.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{bail, ensure};
use comfy_table::{CellAlignment, LineStyle, Table as Terminal, presets};
use serde::Serialize;

use crate::capacity::{self, Found};
use crate::figures::number;
use crate::report::content::{Column, Entry, Row, Table};
use crate::report::{markdown, verdicts};
use crate::results::{Cell, CellKey, Estimate, Metric, Run, folder};

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
    /// Fails when something got worse by half or more, when more got worse than chance makes so,
    /// and when a cell that was valid is not any more
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
    let Compared {
        changes,
        lost,
        mut notes,
    } = compare(&before, &after);
    notes.extend(lost.iter().cloned());
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
    let chance = by_chance(changes.iter());
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
    match args.fail_on_regression {
        true => gate(&changes, &lost),
        false => Ok(()),
    }
}

/// # Errors
/// When something got worse, and when that cannot be told.
fn gate(changes: &[Change], lost: &[String]) -> anyhow::Result<()> {
    ensure!(
        changes.iter().any(|change| change.repeats > 1),
        "nothing can be told of single repeats: take both runs with --repeats 3 or more"
    );
    ensure!(
        lost.is_empty(),
        "what was measured before is not any more: {}",
        lost.join("; ")
    );
    let worse: Vec<&Change> = changes.iter().filter(|it| it.change == WORSE).collect();
    if let Some(most) = worse.iter().find(|change| change.is_large()) {
        bail!("{} of {} got worse by half or more", most.metric, most.cell);
    }
    let expected = by_chance(one_of_each_kind(changes.iter()));
    let kinds = one_of_each_kind(worse.iter().copied()).count();
    let chance = at_least_by_chance(kinds, expected);
    if kinds > 0 && chance < CHANCE_MAX {
        bail!(
            "{} of {} figures got worse beyond noise; of two equal runs as many do with a \
             probability of {chance:.3}",
            worse.len(),
            changes.len()
        );
    }
    Ok(())
}

/// One figure of each cell and kind: percentiles of the same repeats are worse together, and so
/// are CPU in all and for each request. Figures of a cell stand in a row.
fn one_of_each_kind<'a>(
    changes: impl Iterator<Item = &'a Change>,
) -> impl Iterator<Item = &'a Change> {
    let mut seen = HashSet::new();
    changes.filter(move |change| {
        let kind = change.metric.split('-').next().unwrap_or_default();
        seen.insert((&*change.cell, kind))
    })
}

/// How likely at least `count` rare things happen where `expected` do on average (Poisson's).
fn at_least_by_chance(count: usize, expected: f64) -> f64 {
    let mut term = (-expected).exp();
    let mut below = 0.0;
    for step in 1..=count {
        below += term;
        term *= expected / crate::units::count(step as u64);
    }
    1.0 - below
}

/// What chance alone may do, as a probability, before a pipeline fails.
const CHANCE_MAX: f64 = 0.05;

/// A change by more, in either direction, is not chance where intervals part.
const LARGE: f64 = 1.5;

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
        ours.objective == theirs.objective,
        "the runs cannot be compared: they searched for other objectives, or one of them did not \
         search"
    );
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
fn by_chance<'a>(changes: impl Iterator<Item = &'a Change>) -> f64 {
    let each = changes.map(|change| verdicts::by_chance(change.repeats));
    each.sum::<f64>() / 2.0
}

/// What two runs have in common, and what they have not.
struct Compared {
    changes: Vec<Change>,
    /// Cells that could be compared in the run before, and cannot in the one after.
    lost: Vec<String>,
    notes: Vec<String>,
}

/// Every metric of every pair of valid cells, and what was left out and why.
fn compare(before: &Run, after: &Run) -> Compared {
    let (mut changes, mut lost, mut notes) = (Vec::new(), Vec::new(), Vec::new());
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
    if before.settings.objective.is_some() {
        capacities(before, after, &mut changes, &mut lost);
        return Compared {
            changes,
            lost,
            notes,
        };
    }
    for cell in &before.cells {
        let slug = cell.key.slug();
        let Some(other) = after.cells.iter().find(|other| other.key == cell.key) else {
            lost.push(format!("{slug} is in the run before only"));
            continue;
        };
        match (cell.doubt(), other.doubt()) {
            (Some(doubt), _) => notes.push(format!("{slug} is {doubt}")),
            (None, Some(doubt)) => lost.push(format!("{slug} is {doubt}")),
            (None, None) => {
                changes.extend(METRICS.iter().filter_map(|&it| change(cell, other, it)));
            }
        }
    }
    let unknown = |cell: &&Cell| !before.cells.iter().any(|other| other.key == cell.key);
    let only_after = after.cells.iter().filter(unknown);
    notes.extend(only_after.map(|cell| format!("{} is in the run after only", cell.key.slug())));
    Compared {
        changes,
        lost,
        notes,
    }
}

/// The rates that two searches found. The interval of each reaches to the rate that was given up.
fn capacities(before: &Run, after: &Run, changes: &mut Vec<Change>, lost: &mut Vec<String>) {
    let rate = |run: &Run, found: &Found<'_>| {
        let value = f64::from(found.cell?.key.qps?);
        let given_up = found.limit.as_ref().map(|(rate, _)| f64::from(*rate));
        found.is_done.then_some(Estimate {
            value,
            low: value,
            high: given_up.unwrap_or(value),
            repeats: run.settings.repeats as usize,
        })
    };
    let theirs = capacity::found(after);
    for found in capacity::found(before) {
        let Some(old) = rate(before, &found) else {
            continue;
        };
        let subject = without_rate(&found);
        let other = theirs.iter().find(|other| without_rate(other) == subject);
        let cell = format!("{}, {} connections", subject.series(), subject.connections);
        match other.and_then(|other| rate(after, other)) {
            Some(new) => {
                let change = changed(cell, Metric::Rate, old, new);
                changes.push(Change {
                    metric: "capacity",
                    ..change
                });
            }
            None => lost.push(format!("of {cell} a rate was found before only")),
        }
    }
}

/// What was searched for, wherever the search began.
fn without_rate(found: &Found<'_>) -> CellKey {
    CellKey {
        qps: None,
        ..found.subject.clone()
    }
}

impl Change {
    /// Whether it matters wherever it is.
    fn is_large(&self) -> bool {
        self.ratio
            .is_some_and(|ratio| ratio.max(1.0 / ratio) >= LARGE)
    }
}

fn change(before: &Cell, after: &Cell, metric: Metric) -> Option<Change> {
    let (old, new) = (metric.of(before)?, metric.of(after)?);
    Some(changed(before.key.slug(), metric, old, new))
}

fn changed(cell: String, metric: Metric, old: Estimate, new: Estimate) -> Change {
    let more = match metric.more_is_better() {
        true => BETTER,
        false => WORSE,
    };
    let less = if more == BETTER { WORSE } else { BETTER };
    let is_worth_it = old.value == 0.0 || (new.value / old.value - 1.0).abs() >= WORTH_MIN;
    let ends = |estimate: Estimate| [estimate.value, estimate.low, estimate.high];
    Change {
        cell,
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
    }
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
            (1..=5_000_u64).for_each(|step| latencies.record(step * 1_600).unwrap());
        }
    }

    #[test]
    fn a_run_does_not_differ_from_itself() {
        let run = sample::full_run();
        let found = compare(&run, &run);
        assert!(!found.changes.is_empty() && found.notes.is_empty() && found.lost.is_empty());
        let changed = |change: &Change| change.change != NONE_SHOWN;
        assert!(!found.changes.iter().any(changed));
        gate(&found.changes, &found.lost).unwrap();
    }

    #[test]
    fn more_latency_is_worse_and_less_is_better() {
        let (before, mut after) = (sample::full_run(), sample::full_run());
        slower(&mut after);
        let Compared { changes, lost, .. } = compare(&before, &after);
        let error = gate(&changes, &lost).unwrap_err().to_string();
        assert!(error.contains("got worse by half or more"), "{error}");
        let worse = changes;
        let worse: Vec<&Change> = worse.iter().filter(|it| it.change != NONE_SHOWN).collect();
        assert_eq!(worse.len(), 3, "{worse:?}");
        assert!(worse.iter().all(|change| change.change == WORSE));
        assert!((worse[0].ratio.unwrap() - 1.6).abs() < 0.01);
        let better = compare(&after, &before).changes;
        gate(&better, &[]).unwrap();
        assert_eq!(better.iter().filter(|it| it.change == BETTER).count(), 3);
    }

    #[test]
    fn cells_of_one_run_only_and_doubtful_ones_are_named() {
        let (mut before, mut after) = (sample::full_run(), sample::full_run());
        before.cells.remove(0);
        after.cells.remove(1);
        after.cells[1].repeats[0].verdict = Verdict::Saturated;
        let Compared { lost, notes, .. } = compare(&before, &after);
        assert_eq!((notes.len(), lost.len()), (1, 2), "{notes:?} {lost:?}");
        assert!(lost.iter().any(|note| note.ends_with("is saturated")));
    }

    #[test]
    fn a_pipeline_fails_on_what_is_lost_and_on_what_cannot_be_told() {
        let (before, mut after) = (sample::full_run(), sample::full_run());
        after.cells[1].repeats[0].verdict = Verdict::Saturated;
        let Compared { changes, lost, .. } = compare(&before, &after);
        let error = gate(&changes, &lost).unwrap_err().to_string();
        assert!(error.contains("is saturated"), "{error}");
        let mut single = sample::full_run();
        single
            .cells
            .iter_mut()
            .for_each(|cell| cell.repeats.truncate(1));
        let Compared { changes, lost, .. } = compare(&single, &single);
        let error = gate(&changes, &lost).unwrap_err().to_string();
        assert!(error.contains("--repeats 3"), "{error}");
    }

    #[test]
    fn searches_are_compared_by_what_they_found() {
        let search = |kept: u32, given_up: u32| sample::search(&[(kept, 1.0), (given_up, 0.5)], 2);
        let change = |before: &Run, after: &Run| {
            let Compared { changes, lost, .. } = compare(before, after);
            assert_eq!((changes.len(), lost.len()), (1, 0), "{changes:?} {lost:?}");
            (changes[0].change, gate(&changes, &lost).is_ok())
        };
        let [fast, near, slow] = [(4000, 4100), (4050, 4150), (2000, 2050)];
        let [fast, near, slow] = [fast, near, slow].map(|(kept, up)| search(kept, up));
        assert_eq!(change(&fast, &fast), (NONE_SHOWN, true));
        assert_eq!(change(&fast, &near), (NONE_SHOWN, true));
        assert_eq!(change(&fast, &slow), (WORSE, false));
        assert_eq!(change(&slow, &fast), (BETTER, true));
    }

    #[test]
    fn a_few_small_ones_are_chance_and_many_are_not() {
        assert!((at_least_by_chance(0, 3.0) - 1.0).abs() < 1e-12);
        assert!((at_least_by_chance(1, 1.0) - 0.632).abs() < 0.001);
        assert!(at_least_by_chance(8, 2.0) < 0.002);
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
        let changes = compare(&run, &run).changes;
        // Two repeats each: all of one are above all of the other in one of six orders.
        let expected = crate::units::count(changes.len() as u64) / 6.0;
        assert!((by_chance(changes.iter()) - expected).abs() < 1e-9);
    }
}
