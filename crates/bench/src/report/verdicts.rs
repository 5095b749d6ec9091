//! Which of two data planes is lower in what: said only where intervals part, and only of cells
//! that are valid. Called by `standard` and `headline`. Pure.

use std::cmp::Ordering;

use crate::figures::number;
use crate::results::{Cell, CellKey, Metric, Mode, Run, Verdict};

use super::content::{Column, Entry, Row, Section, Table};

/// What data planes are compared in.
pub(crate) const COMPARED: [Metric; 5] = [
    Metric::P50,
    Metric::P90,
    Metric::P99,
    Metric::CpuPerThousand,
    Metric::Memory,
];

/// How one cell stands to another one in a metric; `None` where either has no such figure, or is
/// not valid.
pub(crate) fn between(mine: &Cell, theirs: &Cell, metric: Metric) -> Option<Option<Ordering>> {
    let sound = |cell: &Cell| cell.verdict() == Verdict::Valid;
    if !(sound(mine) && sound(theirs)) {
        return None;
    }
    Some(metric.of(mine)?.against(&metric.of(theirs)?))
}

/// Pairs of cells that differ in the data plane alone, without those that have no mesh.
pub(crate) fn pairs(run: &Run) -> Vec<(&Cell, &Cell)> {
    let meshed = |cell: &&Cell| cell.key.data_plane != "none" && cell.key.mode != Mode::Baseline;
    let cells: Vec<&Cell> = run.cells.iter().filter(meshed).collect();
    let mut pairs = Vec::new();
    for (index, mine) in cells.iter().enumerate() {
        let others = cells[index + 1..].iter();
        let alike = others.filter(|theirs| only_plane_differs(&mine.key, &theirs.key));
        pairs.extend(alike.map(|theirs| (*mine, *theirs)));
    }
    pairs
}

fn only_plane_differs(mine: &CellKey, theirs: &CellKey) -> bool {
    let renamed = CellKey {
        data_plane: theirs.data_plane.clone(),
        ..mine.clone()
    };
    mine.data_plane != theirs.data_plane && renamed == *theirs
}

/// One sentence for a pair: in what the first is lower, in what higher, in what neither is shown.
pub(crate) fn sentence(mine: &Cell, theirs: &Cell) -> String {
    let (mut lower, mut higher, mut neither) = (Vec::new(), Vec::new(), Vec::new());
    for metric in COMPARED {
        match between(mine, theirs, metric) {
            Some(Some(Ordering::Less)) => lower.push(words(mine, theirs, metric)),
            Some(Some(_)) => higher.push(words(mine, theirs, metric)),
            Some(None) => neither.push(metric.title().to_owned()),
            None => {}
        }
    }
    let (me, you) = (&mine.key.data_plane, &theirs.key.data_plane);
    let mode = mine.key.mode.name();
    let mut parts = Vec::new();
    for (what, list) in [
        (format!("{me} is lower than {you} in "), lower),
        (format!("{you} is lower than {me} in "), higher),
        ("no difference is shown in ".to_owned(), neither),
    ] {
        if !list.is_empty() {
            parts.push(format!("{what}{}", list.join(", ")));
        }
    }
    match parts.is_empty() {
        true => format!("{mode}: no verdict between {me} and {you}, see the cells' own verdicts."),
        false => format!("{mode}: {}.", parts.join("; ")),
    }
}

/// `latency P50 (0.412 against 0.933 ms)`, the lower one first.
fn words(mine: &Cell, theirs: &Cell, metric: Metric) -> String {
    let value = |cell| metric.of(cell).map_or(f64::NAN, |found| found.value);
    let (mine, theirs) = (value(mine), value(theirs));
    let unit = match metric {
        Metric::CpuPerThousand => "millicores",
        _ => metric.unit(),
    };
    format!(
        "{} ({} against {} {unit})",
        metric.title(),
        number::significant(mine.min(theirs)),
        number::significant(mine.max(theirs)),
    )
}

/// A table of all pairs; `None` with a single data plane.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let pairs = pairs(run);
    if pairs.is_empty() {
        return None;
    }
    let mut columns = vec![
        Column::words("between"),
        Column::words("mode"),
        Column::number("conns"),
        Column::words("rate"),
    ];
    columns.extend(COMPARED.map(|metric| Column::words(metric.title())));
    let table = Table {
        caption: "Which of two data planes is lower, where intervals part".to_owned(),
        columns,
        rows: pairs
            .iter()
            .map(|(mine, theirs)| row(mine, theirs))
            .collect(),
        notes: vec![chance(run)],
    };
    Some(Section {
        id: "differences",
        title: "Who is lower".to_owned(),
        text: vec![
            "A name stands where the two intervals part: that data plane is lower. Elsewhere this \
             run shows no difference, which is not to say that there is none. Cells that are not \
             valid get no verdict."
                .to_owned(),
        ],
        figures: Vec::new(),
        tables: vec![table],
    })
}

fn row(mine: &Cell, theirs: &Cell) -> Row {
    let key = &mine.key;
    let mut entries = vec![
        Entry::words(format!("{} and {}", key.data_plane, theirs.key.data_plane)),
        Entry::words(key.mode.name()),
        Entry::number(f64::from(key.connections), key.connections.to_string()),
        Entry::words(key.qps_word()),
    ];
    entries.extend(COMPARED.map(|metric| {
        Entry::words(match between(mine, theirs, metric) {
            Some(Some(Ordering::Less)) => key.data_plane.as_str(),
            Some(Some(_)) => theirs.key.data_plane.as_str(),
            Some(None) => "no difference shown",
            None => super::content::NOTHING,
        })
    }));
    Row::plain(entries)
}

/// How often two equal data planes would get a verdict all the same.
pub(crate) fn chance(run: &Run) -> String {
    let repeats = run.settings.repeats;
    if repeats < 2 {
        return "With one repeat there are no intervals, hence no verdicts.".to_owned();
    }
    // All of one above all of the other: two of (2n over n) orders.
    let orders = (1..=repeats).map(|step| f64::from(repeats + step) / f64::from(step));
    let one_in = orders.product::<f64>() / 2.0;
    format!(
        "With {repeats} repeats the intervals of two equal data planes part by chance in about one \
         of {} comparisons of CPU or memory: read a verdict together with its neighbours.",
        number::grouped(one_in)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    /// Envoy's cells take twice as long, and three repeats tell.
    fn run() -> Run {
        let mut run = sample::full_run();
        run.settings.repeats = 3;
        for cell in &mut run.cells {
            let mut third = cell.repeats[0].clone();
            third.index = 2;
            cell.repeats.push(third);
        }
        let cells = run.cells.iter_mut();
        let envoys = cells.filter(|cell| cell.key.data_plane == "envoy");
        for repeat in envoys.flat_map(|cell| &mut cell.repeats) {
            repeat.latencies.intended.reset();
            for step in 1..=5_000_u64 {
                repeat.latencies.intended.record(step * 2_000).unwrap();
            }
        }
        run
    }

    #[test]
    fn a_verdict_is_given_only_where_intervals_part() {
        let run = run();
        let (leno, envoy) = pairs(&run)[0];
        assert_eq!(
            between(leno, envoy, Metric::P50),
            Some(Some(Ordering::Less))
        );
        assert_eq!(between(leno, envoy, Metric::Memory), Some(None));
        let text = sentence(leno, envoy);
        assert!(text.contains("leno is lower than envoy in latency P50 (2.50 against 5.00 ms)"));
        assert!(
            text.ends_with(
                "no difference is shown in CPU per 1,000 requests/s, memory of the sidecars."
            ),
            "{text}"
        );
    }

    #[test]
    fn a_cell_that_is_not_valid_gets_no_verdict() {
        let mut run = run();
        run.cells[2].repeats[0].verdict = Verdict::MachineBound;
        let (leno, envoy) = pairs(&run)[0];
        assert_eq!(between(leno, envoy, Metric::P50), None);
        assert!(sentence(leno, envoy).contains("no verdict between leno and envoy"));
    }

    #[test]
    fn chance_is_counted() {
        let mut run = sample::run();
        for (repeats, words) in [(1, "no intervals"), (3, "one of 10 "), (5, "one of 126 ")] {
            run.settings.repeats = repeats;
            assert!(chance(&run).contains(words), "{}", chance(&run));
        }
    }
}
