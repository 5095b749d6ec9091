//! How the control plane grows with the mesh, as SVG: one figure for each measure, sidecars along
//! the bottom, a line for each number of Services. Pure.

use std::collections::BTreeMap;

use super::outcome::{Outcome, Row};
use crate::figures::{Chart, Line, Point, plot};
use crate::results::Mode;
use crate::units::mebibytes;

/// What is drawn of a row.
struct Measure {
    /// File name without its ending.
    name: &'static str,
    title: &'static str,
    axis: &'static str,
    read: fn(&Row) -> Option<f64>,
}

const MEASURES: [Measure; 5] = [
    Measure {
        name: "scale-memory",
        title: "Memory of the control plane",
        axis: "resident (MiB)",
        read: |row| Some(mebibytes(row.rss())),
    },
    Measure {
        name: "scale-connect",
        title: "CPU until all sidecars have everything",
        axis: "CPU (s)",
        read: |row| Some(row.connect.cpu_seconds),
    },
    Measure {
        name: "scale-change",
        title: "A change of an endpoint, until each interested sidecar has it",
        axis: "P99 (ms)",
        read: |row| row.churn.each.p99,
    },
    Measure {
        name: "scale-change-cpu",
        title: "CPU for a change of an endpoint",
        axis: "CPU (ms)",
        read: |row| Some(row.churn.cpu_millis()),
    },
    Measure {
        name: "scale-restart",
        title: "A restart, until all sidecars are served",
        axis: "time (s)",
        read: |row| Some(row.storm.seconds),
    },
];

/// Names and texts of all figures.
pub(super) fn all(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let figures = MEASURES.iter();
    figures
        .map(|measure| (measure.name, plot::svg(&chart(outcome, measure))))
        .collect()
}

fn chart(outcome: &Outcome, measure: &Measure) -> Chart {
    let mut lines: BTreeMap<(&str, usize), Vec<Point>> = BTreeMap::new();
    for row in &outcome.rows {
        let Some(y) = (measure.read)(row) else {
            continue;
        };
        let point = Point {
            x: row.shape.sidecars as f64,
            y,
            ..Point::default()
        };
        let key = (row.shape.mode.name(), row.shape.services);
        lines.entry(key).or_default().push(point);
    }
    let lines = lines.into_iter().enumerate();
    let lines = lines.map(|(index, ((mode, services), mut points))| {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Line {
            data_plane: mode.to_owned(),
            mode: [
                Mode::Both,
                Mode::ServerOnly,
                Mode::ClientOnly,
                Mode::Baseline,
            ][index % 4],
            label: format!("{mode}, {services} Services"),
            points,
        }
    });
    Chart {
        title: measure.title.to_owned(),
        x_axis: "sidecars".to_owned(),
        y_axis: measure.axis.to_owned(),
        lines: lines.collect(),
        ..Chart::default()
    }
}
