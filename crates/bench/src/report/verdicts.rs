//! Which of two data planes is lower in what: said only where intervals part, and only of cells
//! that may be compared. Called by `standard` and `headline`. Pure.

use std::cmp::Ordering;

use crate::figures::number;
use crate::results::{COUNTED_MAX, Cell, CellKey, Metric, Mode, Run};

use super::content::{Column, Entry, Row, Section, Table};

/// What data planes are compared in.
pub(crate) const COMPARED: [Metric; 5] = [
    Metric::P50,
    Metric::P90,
    Metric::P99,
    Metric::CpuPerThousand,
    Metric::Memory,
];

/// How one cell stands to another one in a metric; `None` where either has no such figure, or may
/// not be compared.
pub(crate) fn between(mine: &Cell, theirs: &Cell, metric: Metric) -> Option<Option<Ordering>> {
    if mine.doubt().or_else(|| theirs.doubt()).is_some() {
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
    let path = mine.key.variant();
    let mut parts = Vec::new();
    for (what, list) in [
        (format!("{me} is lower than {you} in "), lower),
        (format!("{you} is lower than {me} in "), higher),
        (
            format!("no difference between {me} and {you} is shown in "),
            neither,
        ),
    ] {
        if !list.is_empty() {
            parts.push(format!("{what}{}", list.join(", ")));
        }
    }
    match parts.is_empty() {
        true => format!("{path}: no verdict between {me} and {you}, see the cells' own verdicts."),
        false => format!("{path}: {}.", parts.join("; ")),
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
        Column::words("path"),
        Column::number("conns"),
        Column::number("rate"),
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
             valid, that answered errors, or whose sidecars were passed by get no verdict."
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
        Entry::words(key.variant()),
        Entry::number(f64::from(key.connections), key.connections.to_string()),
        match key.qps {
            Some(qps) => Entry::number(f64::from(qps), number::grouped(f64::from(qps))),
            None => Entry::words(key.qps_word()),
        },
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
    let repeats = pairs(run)
        .into_iter()
        .flat_map(|(mine, theirs)| [mine, theirs]);
    // Void ones are not there, and an interrupted run has fewer than were asked for.
    let repeats = repeats.map(|cell| cell.counted().count());
    let repeats = repeats.filter(|&count| count > 1).min();
    match repeats.unwrap_or(0) {
        0 | 1 => "With one repeat there are no intervals, hence no verdicts.".to_owned(),
        few @ 2..=COUNTED_MAX => format!(
            "With {few} repeats the intervals of two equal data planes part by chance in about one \
             of {} comparisons: read a verdict together with its neighbours.",
            number::grouped(1.0 / by_chance(few))
        ),
        _ => {
            "Of two equal data planes two such intervals part by chance in up to one of a hundred \
              comparisons: read a verdict together with its neighbours."
                .to_owned()
        }
    }
}

/// How likely two intervals of the same thing part, with so many repeats each. Few have their range
/// as interval: all of one are above all of the other in two of (2n over n) orders.
pub(crate) fn by_chance(repeats: usize) -> f64 {
    let number = |count: usize| crate::units::count(count as u64);
    let orders = (1..=repeats).map(|step| number(repeats + step) / number(step));
    match repeats {
        0 | 1 => 0.0,
        2..=COUNTED_MAX => 2.0 / orders.product::<f64>(),
        // Of two 95 % intervals, at most.
        _ => 0.01,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Verdict, sample};

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
                "no difference between leno and envoy is shown in CPU per 1,000 requests/s, memory \
                 of the sidecars."
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
    fn chance_is_that_of_the_repeats_that_count() {
        let mut run = run();
        assert!(chance(&run).contains("one of 10 "), "{}", chance(&run));
        run.cells[2].repeats[0].verdict = Verdict::Void;
        assert!(chance(&run).contains("one of 3 "), "{}", chance(&run));
        run.cells
            .iter_mut()
            .for_each(|cell| cell.repeats.truncate(1));
        assert!(chance(&run).contains("no intervals"), "{}", chance(&run));
        assert!((1.0 / by_chance(5) - 126.0).abs() < 1e-9);
    }

    #[test]
    fn errors_and_ways_round_a_sidecar_get_no_verdict() {
        let mut failing = run();
        failing.cells[2].repeats[0].errors = 100;
        let mut bypassed = run();
        bypassed.cells[2].repeats[0].client = None;
        for (run, doubt) in [(failing, "failing"), (bypassed, "bypassed")] {
            let (leno, envoy) = pairs(&run)[0];
            assert_eq!(leno.doubt(), Some(doubt));
            assert_eq!(between(leno, envoy, Metric::P50), None);
        }
    }
}
