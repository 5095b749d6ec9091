//! A run seen through one metric: lines of points, and what had to be left out and why.
//! Called by `figures`; drawn by `plot`. Void repeats never reach it: `results` does not pool them.

use crate::results::{Cell, CellKey, Experiment, Metric, Mode, Run, Telemetry};

use super::chart::{Chart, Line, Point, Scale};

/// What the points are plotted against: what varies; connections if both do.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Abscissa {
    Connections,
    Qps,
}

/// Looks at `run` through `metric`.
pub(crate) fn chart(run: &Run, metric: Metric) -> Chart {
    let abscissa = Abscissa::of_run(run);
    let mut lines: Vec<Line> = Vec::new();
    let mut left_out: Vec<String> = Vec::new();
    for cell in run.cells.iter().filter(|cell| applies(metric, &cell.key)) {
        let label = abscissa.label(run, &cell.key);
        let Some(x) = abscissa.of(&cell.key) else {
            left_out.push(format!("{label} at max"));
            continue;
        };
        match point(cell, metric, x) {
            Some(point) => push(&mut lines, cell, label, point),
            None => left_out.push(format!("{label} at {x}")),
        }
    }
    let notes = notes(metric, &lines, &left_out);
    Chart {
        title: title(metric),
        x_axis: abscissa.title().to_owned(),
        y_axis: axis(metric),
        unit: metric.unit(),
        abscissa: match abscissa {
            Abscissa::Qps if grows_with_rate(metric) => Scale::Linear,
            _ => Scale::Settings,
        },
        lines,
        notes,
        ..Chart::default()
    }
}

/// So that its slope over the rate says something.
fn grows_with_rate(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Rate | Metric::Cpu | Metric::ClientCpu | Metric::ServerCpu | Metric::GatewayCpu
    )
}

/// With a capital letter.
fn title(metric: Metric) -> String {
    let mut title = metric.title().to_owned();
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    title
}

fn axis(metric: Metric) -> String {
    match metric {
        Metric::Memory | Metric::ClientMemory | Metric::ServerMemory | Metric::GatewayMemory => {
            "MiB, proportional set size".to_owned()
        }
        _ => metric.unit().to_owned(),
    }
}

fn notes(metric: Metric, lines: &[Line], left_out: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    if lines.is_empty() && !left_out.is_empty() {
        notes.push("Left out: every cell, void, without a rate or too few samples.".to_owned());
    } else if !left_out.is_empty() {
        notes.push(format!(
            "Left out, void, without a rate or too few samples: {}.",
            left_out.join(", ")
        ));
    }
    if lines
        .iter()
        .flat_map(|line| &line.points)
        .any(|point| point.doubtful)
    {
        notes.push(
            "Hollow points: the cell was saturated, machine-bound, failing or passed by."
                .to_owned(),
        );
    }
    if metric.quantile().is_none() && metric != Metric::Rate && !lines.is_empty() {
        notes.push("Without a sidecar: zero.".to_owned());
    }
    notes
}

/// A figure of a sidecar shows the cells that cross it.
fn applies(metric: Metric, key: &CellKey) -> bool {
    match metric {
        Metric::ClientCpu | Metric::ClientMemory => key.crosses_client(),
        Metric::ServerCpu | Metric::ServerMemory => key.crosses_server(),
        Metric::GatewayCpu | Metric::GatewayMemory => key.crosses_gateway(),
        Metric::Cpu | Metric::Memory | Metric::CpuPerThousand => {
            key.crosses_client() || key.crosses_server()
        }
        Metric::P50 | Metric::P90 | Metric::P95 | Metric::P99 | Metric::P999 | Metric::Rate => true,
    }
}

/// To the line with this label, where its `x` puts it.
pub(super) fn push(lines: &mut Vec<Line>, cell: &Cell, label: String, point: Point) {
    if let Some(line) = lines.iter_mut().find(|line| line.label == label) {
        let place = line.points.partition_point(|other| other.x <= point.x);
        return line.points.insert(place, point);
    }
    let data_plane = cell.key.data_plane.clone();
    let mode = look(&cell.key);
    lines.push(Line {
        data_plane,
        mode,
        label,
        points: vec![point],
    });
}

/// Whose dash and marker a cell has: variants of telemetry take those of other modes, so that
/// they can be told apart.
fn look(key: &CellKey) -> Mode {
    match key.telemetry {
        Telemetry::None => Mode::ClientOnly,
        Telemetry::Metrics => key.mode,
        Telemetry::MetricsAndAccessLog => Mode::ServerOnly,
    }
}

fn point(cell: &Cell, metric: Metric, x: f64) -> Option<Point> {
    let estimate = metric.of(cell)?;
    Some(Point {
        x,
        y: estimate.value,
        interval: estimate.interval(),
        doubtful: cell.doubt().is_some(),
    })
}

impl Abscissa {
    pub(super) fn of_run(run: &Run) -> Self {
        let settings = &run.settings;
        // A search goes from rate to rate, whatever else there are several of.
        let searches = settings.experiment == Experiment::Capacity;
        match searches || (settings.connections.len() <= 1 && settings.qps.len() > 1) {
            true => Self::Qps,
            false => Self::Connections,
        }
    }

    /// One line of a figure: what the cell is, but for what it is plotted against.
    pub(super) fn label(self, run: &Run, key: &CellKey) -> String {
        let (settings, series) = (&run.settings, key.series());
        match self {
            Self::Connections if settings.qps.len() > 1 => format!("{series} @{}", key.qps_word()),
            Self::Qps if settings.connections.len() > 1 => {
                format!("{series}, {} connections", key.connections)
            }
            _ => series,
        }
    }

    pub(super) fn of(self, key: &CellKey) -> Option<f64> {
        match self {
            Self::Connections => Some(f64::from(key.connections)),
            Self::Qps => key.qps.map(f64::from),
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Qps => "requests per second asked for",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Verdict, sample};

    fn labels(chart: &Chart) -> Vec<&str> {
        chart.lines.iter().map(|line| line.label.as_str()).collect()
    }

    #[test]
    fn latency_has_a_line_for_each_data_plane_and_mode() {
        let chart = chart(&sample::full_run(), Metric::P50);
        assert_eq!(labels(&chart), ["none baseline", "leno both", "envoy both"]);
        let xs: Vec<f64> = chart.lines[1].points.iter().map(|point| point.x).collect();
        assert_eq!(xs, [2.0, 16.0]);
    }

    #[test]
    fn a_sidecar_figure_has_no_baseline() {
        assert_eq!(
            labels(&chart(&sample::full_run(), Metric::ClientCpu)),
            ["leno both", "envoy both"]
        );
    }

    #[test]
    fn a_percentile_without_samples_is_left_out_and_named() {
        let mut run = sample::full_run();
        starve(&mut run, |cell| cell.key.data_plane == "leno");
        let p90 = chart(&run, Metric::P90);
        assert!(p90.notes.is_empty() && p90.lines[0].points[0].interval.is_some());
        let p99 = chart(&run, Metric::P99);
        assert!(p99.notes[0].contains("leno both at 16"), "{:?}", p99.notes);
        starve(&mut run, |_| true);
        let p99 = chart(&run, Metric::P99);
        assert!(p99.lines.is_empty());
        assert!(p99.notes[0].contains("every cell"), "{:?}", p99.notes);
    }

    /// Leaves too few samples for a P99.
    fn starve(run: &mut Run, which: impl Fn(&Cell) -> bool) {
        let cells = run.cells.iter_mut().filter(|cell| which(cell));
        for repeat in cells.flat_map(|cell| &mut cell.repeats) {
            repeat.latencies.intended.reset();
            repeat.latencies.intended.record_n(1_000, 400).unwrap();
        }
    }

    #[test]
    fn a_saturated_cell_is_doubtful() {
        let mut run = sample::full_run();
        run.cells[0].repeats[0].verdict = Verdict::Saturated;
        let chart = chart(&run, Metric::P50);
        assert!(chart.lines[0].points[0].doubtful);
        assert!(!chart.lines[1].points[0].doubtful);
        assert_eq!(chart.notes.len(), 1);
    }

    #[test]
    fn one_connection_count_and_several_rates_are_plotted_against_the_rate() {
        let mut run = sample::full_run();
        run.settings.connections = vec![16];
        run.settings.qps = vec![Some(10), Some(1000)];
        assert_eq!(
            chart(&run, Metric::P50).x_axis,
            "requests per second asked for"
        );
    }
}
