//! What is shown of a run over a grid: the headline, latency, CPU and memory, who is lower, and all
//! cells. Called by `report` for the experiments that are one; others take its parts.

use crate::figures::{self, number};
use crate::results::{Cell, Experiment, LoadTool, Metric, Run};
use crate::table;

use super::content::{Column, Content, Entry, Row, Section, Table};
use super::{headline, verdicts};

const LATENCIES: [Metric; 4] = [Metric::P50, Metric::P90, Metric::P99, Metric::P999];
const CPU: [Metric; 2] = [Metric::ClientCpu, Metric::ServerCpu];
const MEMORY: [Metric; 2] = [Metric::ClientMemory, Metric::ServerMemory];

/// Everything.
pub(crate) fn content(run: &Run) -> Content {
    let mut sections = match run.settings.experiment {
        // What the run is about comes first.
        Experiment::Cpu => vec![cpu(run), memory(run), latency(run)],
        _ => vec![latency(run), cpu(run), memory(run)],
    };
    sections.extend(telemetry(run));
    sections.extend(verdicts::section(run));
    sections.push(cells(run));
    Content {
        title: match run.settings.experiment {
            Experiment::Cpu => "CPU of a sidecar against the rate",
            _ => "What a sidecar costs: data planes side by side",
        }
        .to_owned(),
        summary: summary(run),
        headline: headline::build(run),
        sections,
        method: Vec::new(),
    }
}

/// What was measured, as a sentence; where, says the page.
pub(crate) fn summary(run: &Run) -> String {
    let settings = &run.settings;
    let rates: Vec<String> = settings
        .qps
        .iter()
        .map(|qps| qps.map_or_else(|| "max".to_owned(), |qps| number::grouped(f64::from(qps))))
        .collect();
    let connections: Vec<String> = settings.connections.iter().map(u32::to_string).collect();
    format!(
        "{} requests per second over {} connections, answers of {} bytes, {} × {} s in each cell.",
        list(&rates),
        list(&connections),
        number::grouped(crate::units::count(settings.payload_bytes)),
        settings.repeats,
        settings.duration_seconds,
    )
}

/// Percentiles against what varies.
pub(crate) fn latency(run: &Run) -> Section {
    Section {
        id: "latency",
        title: "Latency".to_owned(),
        text: vec![match run.settings.load {
            LoadTool::Leno => {
                "From the time at which a request was due, without a mesh and through the sidecars."
                    .to_owned()
            }
            _ => "From the send, without a mesh and through the sidecars.".to_owned(),
        }],
        figures: figures::of_metrics(run, &LATENCIES, false),
        tables: Vec::new(),
    }
}

/// CPU of both sidecars.
pub(crate) fn cpu(run: &Run) -> Section {
    Section {
        id: "cpu",
        title: "CPU".to_owned(),
        text: vec![
            "Of each sidecar alone, over exactly the measured window; for each request, of both \
             together."
                .to_owned(),
        ],
        figures: [
            figures::of_metrics(run, &CPU, true),
            figures::of_metrics(run, &[Metric::CpuPerThousand], false),
        ]
        .concat(),
        tables: Vec::new(),
    }
}

/// Memory of both sidecars.
pub(crate) fn memory(run: &Run) -> Section {
    Section {
        id: "memory",
        title: "Memory".to_owned(),
        text: vec![
            "Of each sidecar at the end of the window, as proportional set size: pages that two \
             processes share count half for each."
                .to_owned(),
        ],
        figures: figures::of_metrics(run, &MEMORY, true),
        tables: Vec::new(),
    }
}

/// What it costs, where a run has several variants of it.
pub(crate) fn telemetry(run: &Run) -> Option<Section> {
    let figures = figures::telemetry::figures(run);
    (!figures.is_empty()).then(|| Section {
        id: "telemetry",
        title: "What telemetry costs".to_owned(),
        text: vec![
            "CPU and latency of each variant over those of the least one that was measured, \
             repeat by repeat: none, metrics, or metrics and a line for each request in a file."
                .to_owned(),
        ],
        figures,
        tables: Vec::new(),
    })
}

/// A row for each cell, with the intervals.
pub(crate) fn cells(run: &Run) -> Section {
    let words = |index: usize| index < 2 || index + 1 == table::COLUMNS.len();
    let column = |(index, title): (usize, &&'static str)| match words(index) {
        true => Column::words(title),
        false => Column::number(title),
    };
    let mut before = None;
    let row = |cell: &Cell| {
        let series = Some(cell.key.series());
        let begins = before.is_some() && before != series;
        before = series;
        let (plane, verdict) = (&cell.key.data_plane, cell.verdict());
        Row {
            begins,
            ..Row::of(plane, verdict, entries(cell))
        }
    };
    let table = Table {
        caption: "All cells with their intervals".to_owned(),
        columns: table::COLUMNS.iter().enumerate().map(column).collect(),
        rows: run.cells.iter().map(row).collect(),
        notes: vec![format!(
            "mCPU: millicores, thousandths of one CPU. MiB: proportional set size at the end of \
             the window. A dash: no such sidecar in this mode, or fewer than {} samples beyond the \
             percentile.",
            crate::results::pool::SAMPLES_BEYOND_MIN
        )],
    };
    Section {
        id: "cells",
        title: "All cells".to_owned(),
        text: Vec::new(),
        figures: Vec::new(),
        tables: vec![table],
    }
}

fn entries(cell: &Cell) -> Vec<Entry> {
    let words = table::row(cell);
    let metrics = [
        Metric::P50,
        Metric::P90,
        Metric::P99,
        Metric::P999,
        Metric::Rate,
        Metric::ClientCpu,
        Metric::ServerCpu,
        Metric::ClientMemory,
        Metric::ServerMemory,
    ];
    let [plane, mode, connections, figures @ .., verdict] = words;
    let count = f64::from(cell.key.connections);
    let mut entries = vec![
        Entry::words(plane),
        Entry::words(mode),
        Entry::number(count, connections),
    ];
    entries.extend(
        metrics
            .into_iter()
            .zip(figures)
            .map(|(metric, text)| Entry {
                text,
                ..Entry::estimate(metric.of(cell))
            }),
    );
    entries.push(Entry::words(verdict));
    entries
}

/// `2, 4 and 8`.
pub(crate) fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
