//! The report of a search: what was found, latency against rate with the objective as a line, and
//! what was used on the way. Pure.

use super::{found, table};
use crate::figures::{self, series};
use crate::report::content::{Column, Content, Entry, Row, Section, Table};
use crate::report::standard;
use crate::results::{Metric, Run, Verdict};

/// Everything.
pub(crate) fn of(run: &Run) -> Content {
    let mut sections = vec![capacity(run), standard::cpu(run), standard::memory(run)];
    sections.extend(standard::telemetry(run));
    sections.push(standard::cells(run));
    let connections = run.settings.connections.iter().map(u32::to_string);
    let connections: Vec<String> = connections.collect();
    Content {
        title: table::caption(run),
        summary: format!(
            "Over {} connections, answers of {} bytes; each rate was tried for {} s, and what was \
             found {} times.",
            standard::list(&connections),
            run.settings.payload_bytes,
            run.settings.duration_seconds,
            run.settings.repeats,
        ),
        headline: None,
        sections,
        method: vec![
            "A rate is kept when the percentile stays within its bound, at least 99 % of the asked \
             rate was taken on, and at most 0.1 % of the requests failed or were never sent. It is \
             doubled until it is not kept, then halved between the two."
                .to_owned(),
        ],
    }
}

fn capacity(run: &Run) -> Section {
    Section {
        id: "capacity",
        title: "The highest rate that is kept".to_owned(),
        text: Vec::new(),
        figures: curve(run).into_iter().collect(),
        tables: vec![rates(run)],
    }
}

/// The latency that the objective is about against the rate, and its bound.
fn curve(run: &Run) -> Option<figures::Figure> {
    let objective = run.settings.objective?;
    let of_it = |metric: &Metric| {
        let quantile = metric.quantile();
        quantile.is_some_and(|quantile| (quantile - objective.quantile).abs() < 1e-9)
    };
    let metric = Metric::ALL.into_iter().find(of_it)?;
    let mut chart = series::chart(run, metric);
    chart.mark = Some((objective.millis, objective.words()));
    Some(figures::of_chart(metric.name(), &chart))
}

fn rates(run: &Run) -> Table {
    let words = |index: usize| index < 2 || index + 1 == table::COLUMNS.len();
    let column = |(index, title): (usize, &&'static str)| match words(index) {
        true => Column::words(title),
        false => Column::number(title),
    };
    let row = |(found, words): (super::Found<'_>, [String; 11])| {
        let verdict = found.cell.map_or(Verdict::Valid, |cell| cell.verdict());
        let entries = words.into_iter().map(entry).collect();
        Row::of(&found.subject.data_plane, verdict, entries)
    };
    Table {
        caption: table::caption(run),
        columns: table::COLUMNS.iter().enumerate().map(column).collect(),
        rows: found(run)
            .into_iter()
            .zip(table::rows(run))
            .map(row)
            .collect(),
        notes: vec![
            "CPU, memory and latencies are those at the rate that is kept. The last column is the \
             lowest rate that is not kept, and why; where it says machine-bound, the data plane \
             may keep more on a larger machine."
                .to_owned(),
        ],
    }
}

/// Sorted by its number, where it is one.
fn entry(text: String) -> Entry {
    match text.replace(',', "").parse() {
        Ok(value) => Entry::number(value, text),
        Err(_) => Entry::words(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Experiment, Objective, sample};

    #[test]
    fn the_curve_has_its_objective_as_a_line() {
        let mut run = sample::full_run();
        run.settings.experiment = Experiment::Capacity;
        run.settings.connections = vec![16];
        run.settings.objective = Some(Objective {
            quantile: 0.9,
            millis: 2.5,
            tolerance: 0.05,
        });
        let content = of(&run);
        let figure = &content.sections[0].figures[0];
        assert_eq!(figure.name, "latency-p90");
        assert!(figure.svg.contains("P90 ≤ 2.5 ms"), "{}", figure.svg);
        assert_eq!(content.sections[0].tables[0].rows.len(), 3);
    }
}
