//! A run seen through one metric: lines of points, and what had to be left out and why.
//! Called by `figures`; drawn by `plot`. Void repeats never reach it: `results` does not pool them.

use crate::results::{Cell, CellKey, Mode, Run, Verdict};

use super::metric::{Kind, Metric};

/// All that a drawing needs.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x_axis: &'static str,
    pub(crate) y_axis: String,
    pub(crate) lines: Vec<Line>,
    /// Both axes begin at zero, and equal differences are equal distances.
    pub(crate) linear: bool,
    /// The ordinate reaches at least this far.
    pub(crate) reach: f64,
    /// Sentences below the legend.
    pub(crate) notes: Vec<String>,
}

/// One data plane in one mode.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) data_plane: String,
    pub(crate) mode: Mode,
    pub(crate) label: String,
    /// By ascending `x`.
    pub(crate) points: Vec<Point>,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Least and greatest over repeats; absent with a single one.
    pub(crate) range: Option<(f64, f64)>,
    /// The cell's verdict is not `valid`.
    pub(crate) doubtful: bool,
}

impl Chart {
    /// The greatest value that is drawn, whiskers included; 0 without points.
    pub(crate) fn highest(&self) -> f64 {
        let points = self.lines.iter().flat_map(|line| &line.points);
        points.map(Point::highest).fold(0.0, f64::max)
    }
}

impl Point {
    /// Its value or the upper end of its range.
    pub(crate) fn highest(&self) -> f64 {
        self.range.map_or(self.y, |(_, high)| high)
    }
}

/// What the points are plotted against: what varies; connections if both do.
#[derive(Clone, Copy, PartialEq)]
enum Abscissa {
    Connections,
    Qps,
}

/// Looks at `run` through `metric`.
pub(crate) fn chart(run: &Run, metric: &Metric) -> Chart {
    let settings = &run.settings;
    let abscissa = if settings.connections.len() <= 1 && settings.qps.len() > 1 {
        Abscissa::Qps
    } else {
        Abscissa::Connections
    };
    let several_rates = abscissa == Abscissa::Connections && settings.qps.len() > 1;
    let mut lines: Vec<Line> = Vec::new();
    let mut left_out: Vec<String> = Vec::new();
    for cell in run.cells.iter().filter(|cell| applies(metric, &cell.key)) {
        let label = label(&cell.key, several_rates);
        let Some(x) = abscissa.of(&cell.key) else {
            continue;
        };
        match point(cell, metric.kind, x) {
            Some(point) => push(&mut lines, cell, label, point),
            None => left_out.push(format!("{label} at {x}")),
        }
    }
    let mut notes = Vec::new();
    if lines.is_empty() && !left_out.is_empty() {
        notes.push("Left out: every cell, void or too few samples.".to_owned());
    } else if !left_out.is_empty() {
        notes.push(format!(
            "Left out, void or too few samples: {}.",
            left_out.join(", ")
        ));
    }
    if lines
        .iter()
        .flat_map(|line| &line.points)
        .any(|point| point.doubtful)
    {
        notes.push("Hollow points: the cell was saturated or machine-bound.".to_owned());
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    Chart {
        title: metric.title.to_owned(),
        x_axis: abscissa.title(),
        y_axis: metric.axis.to_owned(),
        lines,
        linear: abscissa == Abscissa::Qps && metric.is_of_rate(),
        reach: 0.0,
        notes,
    }
}

/// A figure of a sidecar shows the modes that cross it.
fn applies(metric: &Metric, key: &CellKey) -> bool {
    match metric.kind {
        Kind::Latency(_) => true,
        Kind::Usage(..) if metric.is_per_request() => key.mode != Mode::Baseline,
        Kind::Usage(..) if metric.name.ends_with("client") => key.crosses_client(),
        Kind::Usage(..) => key.crosses_server(),
    }
}

fn label(key: &CellKey, several_rates: bool) -> String {
    if several_rates {
        format!("{} @{}", key.series(), key.qps_word())
    } else {
        key.series()
    }
}

fn push(lines: &mut Vec<Line>, cell: &Cell, label: String, point: Point) {
    if let Some(line) = lines.iter_mut().find(|line| line.label == label) {
        return line.points.push(point);
    }
    let (data_plane, mode) = (cell.key.data_plane.clone(), cell.key.mode);
    lines.push(Line {
        data_plane,
        mode,
        label,
        points: vec![point],
    });
}

fn point(cell: &Cell, kind: Kind, x: f64) -> Option<Point> {
    let (y, spread, scale) = match kind {
        Kind::Latency(quantile) => {
            let pooled = cell.percentile(quantile)? as f64;
            (pooled, cell.percentile_spread(quantile), 1e-6)
        }
        Kind::Usage(read, scale) => {
            let spread = read(cell)?;
            (spread.median, Some(spread), scale)
        }
    };
    let range = spread
        .filter(|spread| spread.repeats > 1)
        .map(|spread| (spread.min.min(y) * scale, spread.max.max(y) * scale));
    Some(Point {
        x,
        y: y * scale,
        range,
        doubtful: cell.verdict() != Verdict::Valid,
    })
}

impl Abscissa {
    fn of(self, key: &CellKey) -> Option<f64> {
        match self {
            Self::Connections => Some(f64::from(key.connections)),
            Self::Qps => key.qps.map(f64::from),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Qps => "requests per second asked for",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::metric::ALL;
    use super::*;
    use crate::results::sample;

    fn labels(chart: &Chart) -> Vec<&str> {
        chart.lines.iter().map(|line| line.label.as_str()).collect()
    }

    #[test]
    fn latency_has_a_line_for_each_data_plane_and_mode() {
        let chart = chart(&sample::full_run(), &ALL[0]);
        assert_eq!(labels(&chart), ["none baseline", "leno both", "envoy both"]);
        let xs: Vec<f64> = chart.lines[1].points.iter().map(|point| point.x).collect();
        assert_eq!(xs, [2.0, 16.0]);
    }

    #[test]
    fn a_sidecar_figure_has_no_baseline() {
        assert_eq!(
            labels(&chart(&sample::full_run(), &ALL[4])),
            ["leno both", "envoy both"]
        );
    }

    #[test]
    fn a_percentile_without_samples_is_left_out_and_named() {
        let mut run = sample::full_run();
        starve(&mut run, |cell| cell.key.data_plane == "leno");
        let p90 = chart(&run, &ALL[1]);
        assert!(p90.notes.is_empty() && p90.lines[0].points[0].range.is_some());
        let p99 = chart(&run, &ALL[2]);
        assert!(p99.notes[0].contains("leno both at 16"), "{:?}", p99.notes);
        starve(&mut run, |_| true);
        let p99 = chart(&run, &ALL[2]);
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
        let chart = chart(&run, &ALL[0]);
        assert!(chart.lines[0].points[0].doubtful);
        assert!(!chart.lines[1].points[0].doubtful);
        assert_eq!(chart.notes.len(), 1);
    }

    #[test]
    fn one_connection_count_and_several_rates_are_plotted_against_the_rate() {
        let mut run = sample::full_run();
        run.settings.connections = vec![16];
        run.settings.qps = vec![Some(10), Some(1000)];
        assert_eq!(chart(&run, &ALL[0]).x_axis, "requests per second asked for");
    }
}
