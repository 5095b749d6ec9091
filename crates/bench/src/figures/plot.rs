//! Draws a chart as an SVG document: lines with whiskers and markers over a common abscissa.

use std::fmt::Write;

use super::axis::Axis;
use super::chart::{Chart, Line, Point, Scale};
use super::paper::{self, Key, PLOT, Spot, Text};
use super::{number, palette};

/// Room between the outermost points and the frame.
const INSET: f64 = 22.0;
/// Lines are drawn this far apart, so that whiskers of equal values stay apart.
const DODGE: f64 = 3.0;
/// So far from a point it is still pointed at.
const REACH: f64 = 9.0;

/// The whole document.
pub(crate) fn svg(chart: &Chart) -> String {
    let key = |line| -> Key<'_> {
        let line: &Line = line;
        Key {
            data_plane: &line.data_plane,
            label: &line.label,
            line: Some((
                palette::dash(line.mode),
                (chart.abscissa != Scale::Time).then(|| palette::marker(&line.data_plane)),
            )),
            hollow: false,
        }
    };
    let keys: Vec<Key<'_>> = chart.lines.iter().map(key).collect();
    paper::document(&chart.title, &data(chart), &keys, &chart.notes)
}

struct Axes {
    x: Axis,
    y: Axis,
}

fn data(chart: &Chart) -> String {
    let mut out = String::new();
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let mut xs: Vec<f64> = points().map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let drawn = points().flat_map(|point| [point.lowest(), point.y, point.highest()]);
    let beyond = chart
        .mark
        .iter()
        .map(|(value, _)| *value)
        .chain([chart.reach]);
    let ys: Vec<f64> = drawn.chain(beyond).collect();
    let (across, up) = (
        (PLOT.left + INSET, PLOT.right - INSET),
        (PLOT.bottom, PLOT.top),
    );
    let greatest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let x = match chart.abscissa {
        Scale::Settings => Axis::of_settings(&xs, across),
        Scale::Linear | Scale::Time => Axis::linear(greatest(&xs), across),
    };
    let y = match chart.abscissa {
        _ if ys.iter().any(|&y| y < 0.0) => Axis::signed(&ys, up),
        Scale::Linear | Scale::Time => Axis::linear(greatest(&ys), up),
        Scale::Settings => Axis::of_values(&ys, up),
    };
    let axes = Axes { x, y };
    paper::ordinate(&mut out, &axes.y, &chart.y_axis);
    let labels: Vec<(f64, &str)> = axes
        .x
        .ticks
        .iter()
        .map(|tick| (axes.x.at(tick.value), tick.label.as_str()))
        .collect();
    paper::abscissa(&mut out, &labels, &chart.x_axis);
    if xs.is_empty() {
        paper::empty(&mut out);
    }
    if let Some((value, words)) = &chart.mark {
        draw_mark(&mut out, axes.y.at(*value), words);
    }
    let count = chart.lines.len() as f64;
    for (index, line) in chart.lines.iter().enumerate() {
        let dodge = match chart.abscissa {
            Scale::Settings | Scale::Linear => DODGE.min(24.0 / count.max(1.0)),
            Scale::Time => 0.0,
        };
        let shift = (index as f64 - (count - 1.0) / 2.0) * dodge;
        draw_line(&mut out, chart, line, &axes, shift);
    }
    out
}

fn draw_mark(out: &mut String, y: f64, words: &str) {
    let _ = writeln!(
        out,
        "<path class=\"axis\" d=\"M{:.1} {y:.1}H{:.1}\" stroke=\"#8a919c\" stroke-width=\"1.4\" \
         stroke-dasharray=\"6 4\"/>",
        PLOT.left, PLOT.right
    );
    let label = Text {
        x: PLOT.right - 4.0,
        y: y - 5.0,
        anchor: "end",
        ..Text::muted(words)
    };
    paper::text(out, &label);
}

fn draw_line(out: &mut String, chart: &Chart, line: &Line, axes: &Axes, shift: f64) {
    let style = palette::style(&line.data_plane);
    let place = |point: &Point| (axes.x.at(point.x) + shift, axes.y.at(point.y));
    let _ = writeln!(
        out,
        "<g class=\"series {}\" data-label=\"{}\" stroke=\"{color}\" fill=\"{color}\">",
        style.class,
        paper::escape(&line.label),
        color = style.light,
    );
    for point in &line.points {
        if let Some((low, high)) = point.interval {
            paper::whisker(out, place(point).0, (axes.y.at(high), axes.y.at(low)));
        }
    }
    let corners = line.points.iter().map(place);
    let corners: Vec<String> = corners.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let _ = writeln!(
        out,
        "<path fill=\"none\" stroke-width=\"2.2\" stroke-linejoin=\"round\" \
         stroke-linecap=\"round\"{} d=\"M{}\"/>",
        paper::dashes(palette::dash(line.mode)),
        corners.join("L"),
    );
    for point in &line.points {
        draw_point(out, chart, line, point, place(point));
    }
    out.push_str("</g>\n");
}

fn draw_point(out: &mut String, chart: &Chart, line: &Line, point: &Point, place: (f64, f64)) {
    let at = match chart.abscissa {
        Scale::Settings | Scale::Linear => {
            format!("{} {}", number::grouped(point.x), chart.x_axis)
        }
        Scale::Time => format!("{}, {}", chart.x_axis, number::grouped(point.x)),
    };
    let interval = point
        .interval
        .map(|ends| number::range(ends, number::significant));
    let spot = Spot {
        at: &at,
        label: &line.label,
        value: &format!("{} {}", number::significant(point.y), chart.unit),
        interval: &interval.unwrap_or_default(),
        place,
    };
    paper::open_spot(out, &spot);
    let (x, y) = place;
    let _ = write!(
        out,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{REACH}\" fill-opacity=\"0\" stroke=\"none\"/>"
    );
    if chart.abscissa != Scale::Time {
        out.push_str(
            palette::drawn(palette::marker(&line.data_plane), place, point.doubtful).trim_end(),
        );
    }
    out.push_str("</g>\n");
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::results::Mode;

    /// Every element that is opened is closed in order, and no value is not a number.
    pub(crate) fn check_well_formed(document: &str) {
        assert!(
            !document.contains("NaN") && !document.contains("inf"),
            "{document}"
        );
        let mut open: Vec<&str> = Vec::new();
        for tag in document.split('<').skip(1) {
            let (tag, rest) = tag.split_once('>').expect("every < has its >");
            assert!(
                !rest.contains('>') && tag.matches('"').count() % 2 == 0,
                "{tag}"
            );
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap());
            }
        }
        assert!(open.is_empty(), "left open: {open:?}");
    }

    fn line(data_plane: &str, mode: Mode) -> Line {
        let point = |x| Point {
            x,
            y: x,
            interval: Some((x, x + 1.0)),
            doubtful: x > 3.0,
        };
        let label = format!("{data_plane} {}", mode.name());
        Line {
            data_plane: data_plane.to_owned(),
            mode,
            label,
            points: vec![point(2.0), point(4.0)],
        }
    }

    fn chart(lines: Vec<Line>) -> Chart {
        Chart {
            title: "P50 < P90 & \"more\"".to_owned(),
            x_axis: "connections".to_owned(),
            y_axis: "ms".to_owned(),
            unit: "ms",
            lines,
            notes: vec!["word ".repeat(40)],
            ..Chart::default()
        }
    }

    #[test]
    fn titles_units_labels_and_values_are_drawn() {
        let svg = svg(&chart(vec![line("leno", Mode::Both)]));
        check_well_formed(&svg);
        for expected in [
            "connections</text>",
            ">ms</text>",
            ">leno both</text>",
            ">4<",
            "<title>leno both, 2 connections: 2.00 ms (2.00 – 3.00)</title>",
        ] {
            assert!(svg.contains(expected), "{expected} is not in {svg}");
        }
    }

    #[test]
    fn time_has_round_ticks_and_no_markers() {
        let chart = Chart {
            abscissa: Scale::Time,
            mark: Some((9.0, "objective".to_owned())),
            ..chart(vec![line("leno", Mode::Both)])
        };
        let svg = svg(&chart);
        check_well_formed(&svg);
        assert!(
            svg.contains(">objective</text>") && !svg.contains("class=\"mark"),
            "{svg}"
        );
    }

    #[test]
    fn the_legend_is_below_the_plot_whatever_its_size() {
        let planes = ["none", "leno", "envoy", "envoy-h2", "a", "b", "c", "d"];
        let lines: Vec<Line> = planes.iter().map(|plane| line(plane, Mode::Both)).collect();
        let svg = svg(&chart(lines));
        check_well_formed(&svg);
        let entries = svg
            .split("<text class=\"ink\"")
            .filter(|part| part.contains(" both</text>"));
        for entry in entries {
            let y = entry.split(" y=\"").nth(1).unwrap();
            let y: f64 = y.split('"').next().unwrap().parse().unwrap();
            assert!(y > PLOT.bottom + 40.0);
        }
    }
}
