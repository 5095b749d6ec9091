//! Draws a chart as an SVG document: axes, grid, whiskers, lines, markers, legend, notes.
//! The legend stands below the axis, so it can never cover data. Light colours are attributes,
//! so that any viewer shows them; classes let a page restyle them.

use std::fmt::Write;

use super::axis::Axis;
use super::palette::{self, Marker};
use super::series::{Chart, Line, Point};

const WIDTH: f64 = 520.0;
const PLOT: Frame = Frame {
    // So that `10,000` is clear of the axis's title.
    left: 72.0,
    right: 508.0,
    top: 38.0,
    bottom: 268.0,
};
/// Room between the outermost points and the frame.
const INSET: f64 = 18.0;
const LEGEND_TOP: f64 = 330.0;
const LEGEND_ROW: f64 = 19.0;
const LEGEND_COLUMNS: usize = 3;
const NOTE_ROW: f64 = 14.0;
const NOTE_CHARACTERS: usize = 88;
/// Of a label's size; labels that would touch the one before are left out.
const DIGIT_WIDTH: f64 = 7.0;
/// Lines are drawn this far apart, so that whiskers of equal values stay apart.
const DODGE: f64 = 3.0;

struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// The whole document.
pub(crate) fn svg(chart: &Chart) -> String {
    let legend = legend_places(&chart.lines);
    let rows = legend.iter().map(|(row, _)| row + 1).max().unwrap_or(0);
    let notes: Vec<String> = chart.notes.iter().flat_map(|note| wrap(note)).collect();
    let notes_top = LEGEND_TOP + rows as f64 * LEGEND_ROW + 4.0;
    let height = notes_top + notes.len() as f64 * NOTE_ROW + 4.0;
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         class=\"figure\" role=\"img\" aria-label=\"{title}\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif\">\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        title = escape(&chart.title),
    );
    text(&mut out, &Text::title(&chart.title));
    draw_data(&mut out, chart);
    for (line, (row, column)) in chart.lines.iter().zip(legend) {
        legend_entry(&mut out, line, row, column);
    }
    for (index, note) in notes.iter().enumerate() {
        let y = notes_top + (index as f64 + 0.7) * NOTE_ROW;
        text(
            &mut out,
            &Text {
                x: 12.0,
                y,
                size: 11.0,
                ..Text::muted(note)
            },
        );
    }
    out.push_str("</svg>\n");
    out
}

fn draw_data(out: &mut String, chart: &Chart) {
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let mut xs: Vec<f64> = points().map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let drawn = points().flat_map(|point| [point.y, point.highest()]);
    let ys: Vec<f64> = drawn.chain([chart.reach]).collect();
    let (across, up) = (
        (PLOT.left + INSET, PLOT.right - INSET),
        (PLOT.bottom, PLOT.top + 4.0),
    );
    let greatest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let (x_axis, y_axis) = match chart.linear {
        true => (
            Axis::linear(greatest(&xs), across),
            Axis::linear(greatest(&ys), up),
        ),
        false => (Axis::of_settings(&xs, across), Axis::of_values(&ys, up)),
    };
    draw_axes(out, chart, &x_axis, &y_axis);
    if xs.is_empty() {
        let middle = f64::midpoint(PLOT.top, PLOT.bottom);
        let at = Text {
            x: f64::midpoint(PLOT.left, PLOT.right),
            y: middle,
            anchor: "middle",
            ..Text::muted("too few samples, or none")
        };
        text(out, &at);
    }
    let count = chart.lines.len() as f64;
    for (index, line) in chart.lines.iter().enumerate() {
        let shift = (index as f64 - (count - 1.0) / 2.0) * DODGE.min(24.0 / count.max(1.0));
        draw_line(out, line, &x_axis, &y_axis, shift);
    }
}

fn draw_axes(out: &mut String, chart: &Chart, x_axis: &Axis, y_axis: &Axis) {
    let Frame {
        left,
        right,
        bottom,
        ..
    } = PLOT;
    for tick in &y_axis.ticks {
        let y = y_axis.at(tick.value);
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#e3e6ea\"/>"
        );
        let label = Text {
            x: left - 8.0,
            y: y + 4.0,
            anchor: "end",
            ..Text::muted(&tick.label)
        };
        text(out, &label);
    }
    let _ = writeln!(
        out,
        "<path class=\"axis\" d=\"M{left:.1} {bottom:.1}H{right:.1}\" stroke=\"#8a919c\"/>"
    );
    let mut free = f64::NEG_INFINITY;
    for tick in &x_axis.ticks {
        let x = x_axis.at(tick.value);
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v4\" stroke=\"#8a919c\"/>"
        );
        let half = tick.label.chars().count() as f64 * DIGIT_WIDTH / 2.0;
        if x - half < free {
            continue;
        }
        free = x + half + DIGIT_WIDTH;
        let label = Text {
            x,
            y: bottom + 18.0,
            anchor: "middle",
            ..Text::muted(&tick.label)
        };
        text(out, &label);
    }
    let middle = f64::midpoint(left, right);
    let y_scale = if y_axis.logarithmic {
        ", log scale"
    } else {
        ""
    };
    let x_title = Text {
        x: middle,
        y: bottom + 38.0,
        anchor: "middle",
        ..Text::ink(chart.x_axis)
    };
    text(out, &x_title);
    let y_title = format!("{}{y_scale}", chart.y_axis);
    text(
        out,
        &Text {
            x: 14.0,
            y: 153.0,
            anchor: "middle",
            turned: true,
            ..Text::ink(&y_title)
        },
    );
}

fn draw_line(out: &mut String, line: &Line, x_axis: &Axis, y_axis: &Axis, shift: f64) {
    let style = palette::style(&line.data_plane);
    let place = |point: &Point| (x_axis.at(point.x) + shift, y_axis.at(point.y));
    let _ = writeln!(
        out,
        "<g class=\"{}\" stroke=\"{color}\" fill=\"{color}\"><title>{}</title>",
        style.class,
        escape(&line.label),
        color = style.light,
    );
    for point in &line.points {
        let Some((low, high)) = point.range else {
            continue;
        };
        let (x, top, foot) = (place(point).0, y_axis.at(high), y_axis.at(low));
        let _ = writeln!(
            out,
            "<path fill=\"none\" stroke-width=\"1.2\" opacity=\"0.55\" \
             d=\"M{x:.1} {top:.1}V{foot:.1}M{a:.1} {top:.1}h5M{a:.1} {foot:.1}h5\"/>",
            a = x - 2.5,
        );
    }
    let corners: Vec<String> = line
        .points
        .iter()
        .map(place)
        .map(|(x, y)| format!("{x:.1} {y:.1}"))
        .collect();
    let _ = writeln!(
        out,
        "<path fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\"{} d=\"M{}\"/>",
        dash(line),
        corners.join("L"),
    );
    for point in &line.points {
        let (x, y) = place(point);
        out.push_str(&marker(palette::marker(line.mode), x, y, point.doubtful));
    }
    out.push_str("</g>\n");
}

fn dash(line: &Line) -> String {
    match palette::dash(line.mode) {
        "" => String::new(),
        pattern => format!(" stroke-dasharray=\"{pattern}\""),
    }
}

/// A filled marker, or a hollow one that hides the line behind it.
fn marker(shape: Marker, x: f64, y: f64, hollow: bool) -> String {
    let path = match shape {
        Marker::Circle => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
        Marker::Square => "m-3.6-3.6h7.2v7.2h-7.2z",
        Marker::Triangle => "m0-4.8l4.6 8.2h-9.2z",
        Marker::Diamond => "m0-5l4.4 5l-4.4 5l-4.4-5z",
    };
    let paint = if hollow {
        "class=\"paper\" fill=\"#ffffff\" stroke-width=\"1.8\" "
    } else {
        ""
    };
    format!("<path {paint}d=\"M{x:.1} {y:.1}{path}\"/>\n")
}

/// Row and column of each entry: a data plane with several modes begins a row of its own.
fn legend_places(lines: &[Line]) -> Vec<(usize, usize)> {
    let modes = |line: &Line| {
        lines
            .iter()
            .filter(|l| l.data_plane == line.data_plane)
            .count()
    };
    let mut places = Vec::new();
    let (mut row, mut column) = (0, 0);
    for (index, line) in lines.iter().enumerate() {
        let before = index.checked_sub(1).map(|previous| &lines[previous]);
        let another = before.is_some_and(|before| before.data_plane != line.data_plane);
        let grouped = modes(line) > 1 || before.is_some_and(|before| modes(before) > 1);
        if column == LEGEND_COLUMNS || (another && grouped && column > 0) {
            (row, column) = (row + 1, 0);
        }
        places.push((row, column));
        column += 1;
    }
    places
}

fn legend_entry(out: &mut String, line: &Line, row: usize, column: usize) {
    let style = palette::style(&line.data_plane);
    let x = 14.0 + column as f64 * 168.0;
    let y = LEGEND_TOP + row as f64 * LEGEND_ROW;
    let _ = writeln!(
        out,
        "<g class=\"{}\" stroke=\"{color}\" fill=\"{color}\">\
         <path fill=\"none\" stroke-width=\"2\"{} d=\"M{x:.1} {y:.1}h26\"/>{}</g>",
        style.class,
        dash(line),
        marker(palette::marker(line.mode), x + 13.0, y, false).trim_end(),
        color = style.light,
    );
    text(
        out,
        &Text {
            x: x + 32.0,
            y: y + 4.0,
            ..Text::ink(&line.label)
        },
    );
}

/// A piece of text and where it stands.
struct Text<'a> {
    x: f64,
    y: f64,
    size: f64,
    anchor: &'static str,
    class: &'static str,
    fill: &'static str,
    bold: bool,
    turned: bool,
    words: &'a str,
}

impl<'a> Text<'a> {
    fn ink(words: &'a str) -> Self {
        Self {
            x: 0.0,
            y: 0.0,
            size: 12.5,
            anchor: "start",
            class: "ink",
            fill: "#1f2430",
            bold: false,
            turned: false,
            words,
        }
    }

    fn muted(words: &'a str) -> Self {
        Self {
            class: "muted",
            fill: "#5b6472",
            ..Self::ink(words)
        }
    }

    fn title(words: &'a str) -> Self {
        Self {
            x: 12.0,
            y: 20.0,
            size: 15.0,
            bold: true,
            ..Self::ink(words)
        }
    }
}

fn text(out: &mut String, text: &Text<'_>) {
    let Text {
        x,
        y,
        size,
        anchor,
        class,
        fill,
        ..
    } = text;
    let weight = if text.bold {
        " font-weight=\"600\""
    } else {
        ""
    };
    let turn = if text.turned {
        format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"")
    } else {
        String::new()
    };
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" \
         text-anchor=\"{anchor}\" fill=\"{fill}\"{weight}{turn}>{}</text>",
        escape(text.words),
    );
}

fn escape(words: &str) -> String {
    words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Lines of at most [`NOTE_CHARACTERS`], broken between words.
fn wrap(note: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in note.split_whitespace() {
        let last = lines.last_mut().expect("begins with one line");
        if !last.is_empty() && last.chars().count() + word.chars().count() >= NOTE_CHARACTERS {
            lines.push(word.to_owned());
        } else {
            let space = if last.is_empty() { "" } else { " " };
            last.push_str(space);
            last.push_str(word);
        }
    }
    lines
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
            range: Some((x, x + 1.0)),
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
            x_axis: "connections",
            y_axis: "latency (ms)".to_owned(),
            lines,
            linear: false,
            reach: 0.0,
            notes: vec!["word ".repeat(40)],
        }
    }

    #[test]
    fn titles_units_and_labels_are_drawn() {
        let svg = svg(&chart(vec![line("leno", Mode::Both)]));
        check_well_formed(&svg);
        for expected in [
            "connections</text>",
            "latency (ms)</text>",
            ">leno both</text>",
            ">4<",
        ] {
            assert!(svg.contains(expected), "{expected} is not in {svg}");
        }
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
            let y = entry
                .split("y=\"")
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .unwrap();
            assert!(y.parse::<f64>().unwrap() > PLOT.bottom + 40.0);
        }
    }

    #[test]
    fn a_data_plane_with_several_modes_has_a_row_of_the_legend() {
        let lines = [
            line("none", Mode::Baseline),
            line("leno", Mode::ClientOnly),
            line("leno", Mode::Both),
            line("envoy", Mode::Both),
        ];
        assert_eq!(legend_places(&lines), [(0, 0), (1, 0), (1, 1), (2, 0)]);
    }

    #[test]
    fn long_notes_are_broken_between_words() {
        let lines = wrap(&"word ".repeat(40));
        assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= NOTE_CHARACTERS));
    }
}
