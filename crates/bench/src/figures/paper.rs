//! What every figure has: its title, axes with a grid, a legend and notes below the data, so that
//! they can never cover it. Light colours are attributes, so that any viewer shows them; classes
//! let a page restyle them. Called by `plot` and `bars`.

use std::fmt::Write;

use super::axis::Axis;
use super::palette::{self, Marker};

pub(super) const WIDTH: f64 = 560.0;
/// Where data is drawn.
pub(super) const PLOT: Frame = Frame {
    left: 56.0,
    right: 548.0,
    top: 66.0,
    bottom: 296.0,
};
const LEGEND_TOP: f64 = 358.0;
const LEGEND_ROW: f64 = 21.0;
const LEGEND_GAP: f64 = 22.0;
/// Of the legend's type, on average; a little too much rather than too little.
const CHARACTER: f64 = 6.9;
const NOTE_ROW: f64 = 15.0;
const NOTE_CHARACTERS: usize = 92;

pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// An entry of the legend.
pub(super) struct Key<'a> {
    pub(super) data_plane: &'a str,
    pub(super) label: &'a str,
    /// A line with this dash, and this marker if it has any; else a swatch.
    pub(super) line: Option<(&'static str, Option<Marker>)>,
    pub(super) hollow: bool,
}

/// The whole document, `data` between its title and its legend.
pub(super) fn document(title: &str, data: &str, keys: &[Key<'_>], notes: &[String]) -> String {
    let places = places(keys);
    let rows = places.iter().map(|(row, _)| row + 1).max().unwrap_or(0);
    let notes: Vec<String> = notes.iter().flat_map(|note| wrap(note)).collect();
    let notes_top = LEGEND_TOP + rows as f64 * LEGEND_ROW;
    let height = notes_top + notes.len() as f64 * NOTE_ROW + 6.0;
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         class=\"figure\" role=\"group\" aria-label=\"{title}\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif\">\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
        title = escape(title),
    );
    text(&mut out, &Text::title(title));
    out.push_str(data);
    for (key, (row, x)) in keys.iter().zip(places) {
        legend_entry(&mut out, key, x, LEGEND_TOP + row as f64 * LEGEND_ROW);
    }
    for (index, note) in notes.iter().enumerate() {
        let y = notes_top + (index as f64 + 0.7) * NOTE_ROW;
        text(
            &mut out,
            &Text {
                x: 12.0,
                y,
                size: 11.5,
                ..Text::muted(note)
            },
        );
    }
    out.push_str("</svg>\n");
    out
}

/// The ordinate's ticks with their grid, and its title above them.
pub(super) fn ordinate(out: &mut String, axis: &Axis, title: &str) {
    let Frame { left, right, .. } = PLOT;
    for tick in &axis.ticks {
        let y = axis.at(tick.value);
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
    let scale = if axis.logarithmic { ", log scale" } else { "" };
    let words = format!("{title}{scale}");
    text(
        out,
        &Text {
            x: 12.0,
            y: 43.0,
            ..Text::muted(&words)
        },
    );
}

/// The line below the data, labels at these places, and what they are.
pub(super) fn abscissa(out: &mut String, labels: &[(f64, &str)], title: &str) {
    let Frame {
        left,
        right,
        bottom,
        ..
    } = PLOT;
    let _ = writeln!(
        out,
        "<path class=\"axis\" d=\"M{left:.1} {bottom:.1}H{right:.1}\" stroke=\"#8a919c\"/>"
    );
    let mut free = f64::NEG_INFINITY;
    for &(x, words) in labels {
        // A label that would touch the one before is left out.
        let half = words.chars().count() as f64 * CHARACTER / 2.0;
        if x - half < free {
            continue;
        }
        free = x + half + CHARACTER;
        let label = Text {
            x,
            y: bottom + 19.0,
            anchor: "middle",
            ..Text::muted(words)
        };
        text(out, &label);
    }
    let title = Text {
        x: f64::midpoint(left, right),
        y: bottom + 38.0,
        anchor: "middle",
        ..Text::muted(title)
    };
    text(out, &title);
}

/// Stands where there is no data.
pub(super) fn empty(out: &mut String) {
    let at = Text {
        x: f64::midpoint(PLOT.left, PLOT.right),
        y: f64::midpoint(PLOT.top, PLOT.bottom),
        anchor: "middle",
        ..Text::muted("too few samples, or none")
    };
    text(out, &at);
}

/// An upright interval with its ends.
pub(super) fn whisker(out: &mut String, x: f64, (top, foot): (f64, f64)) {
    let _ = writeln!(
        out,
        "<path class=\"whisker\" fill=\"none\" stroke-width=\"1.3\" opacity=\"0.6\" \
         d=\"M{x:.1} {top:.1}V{foot:.1}M{a:.1} {top:.1}h6M{a:.1} {foot:.1}h6\"/>",
        a = x - 3.0,
    );
}

/// A value that can be pointed at: what a page's script reads, and what browsers show without one.
pub(super) struct Spot<'a> {
    /// What it is a value of, e.g. `16 connections`.
    pub(super) at: &'a str,
    pub(super) label: &'a str,
    pub(super) value: &'a str,
    /// Its interval in words, or nothing.
    pub(super) interval: &'a str,
    pub(super) place: (f64, f64),
}

/// Opens the group of a value; the caller draws into it and closes it.
pub(super) fn open_spot(out: &mut String, spot: &Spot<'_>) {
    let Spot {
        at,
        label,
        value,
        interval,
        place,
    } = spot;
    let range = match interval.is_empty() {
        true => String::new(),
        false => format!(" ({interval})"),
    };
    let _ = write!(
        out,
        "<g class=\"spot\" data-at=\"{at}\" data-value=\"{value}\" data-interval=\"{interval}\" \
         data-x=\"{x:.1}\" data-y=\"{y:.1}\"><title>{label}, {at}: {value}{range}</title>",
        at = escape(at),
        label = escape(label),
        value = escape(value),
        interval = escape(interval),
        x = place.0,
        y = place.1,
    );
}

/// Row and abscissa of each entry, as many in a row as there is room for.
fn places(keys: &[Key<'_>]) -> Vec<(usize, f64)> {
    let (mut row, mut x) = (0, 14.0);
    let place = |key: &Key<'_>| {
        let width = 34.0 + key.label.chars().count() as f64 * CHARACTER;
        if x > 14.0 && x + width > WIDTH - 8.0 {
            (row, x) = (row + 1, 14.0);
        }
        let place = (row, x);
        x += width + LEGEND_GAP;
        place
    };
    keys.iter().map(place).collect()
}

fn legend_entry(out: &mut String, key: &Key<'_>, x: f64, y: f64) {
    let style = palette::style(key.data_plane);
    let drawing = match key.line {
        Some((dash, shape)) => {
            let dash = dashes(dash);
            let marker = shape.map(|shape| palette::drawn(shape, (x + 13.0, y), key.hollow));
            let marker = marker.unwrap_or_default();
            format!(
                "<path fill=\"none\" stroke-width=\"2\"{dash} d=\"M{x:.1} {y:.1}h26\"/>{}",
                marker.trim_end()
            )
        }
        None => swatch(x, y, key.hollow),
    };
    let _ = writeln!(
        out,
        "<g class=\"{}\" stroke=\"{color}\" fill=\"{color}\">{drawing}</g>",
        style.class,
        color = style.light,
    );
    text(
        out,
        &Text {
            x: x + 33.0,
            y: y + 4.5,
            ..Text::ink(key.label)
        },
    );
}

fn swatch(x: f64, y: f64, hollow: bool) -> String {
    let paint = match hollow {
        true => "fill-opacity=\"0.15\" stroke-dasharray=\"3 2\"",
        false => "fill-opacity=\"0.85\"",
    };
    format!(
        "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"24\" height=\"12\" rx=\"2\" {paint}/>",
        y - 6.0
    )
}

/// The attribute of a dash pattern; nothing for a solid line.
pub(super) fn dashes(pattern: &str) -> String {
    match pattern {
        "" => String::new(),
        pattern => format!(" stroke-dasharray=\"{pattern}\""),
    }
}

/// A piece of text and where it stands.
pub(super) struct Text<'a> {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) size: f64,
    pub(super) anchor: &'static str,
    pub(super) class: &'static str,
    pub(super) fill: &'static str,
    pub(super) bold: bool,
    pub(super) words: &'a str,
}

impl<'a> Text<'a> {
    pub(super) fn ink(words: &'a str) -> Self {
        Self {
            x: 0.0,
            y: 0.0,
            size: 13.0,
            anchor: "start",
            class: "ink",
            fill: "#1f2430",
            bold: false,
            words,
        }
    }

    pub(super) fn muted(words: &'a str) -> Self {
        Self {
            class: "muted",
            fill: "#5b6472",
            size: 12.5,
            ..Self::ink(words)
        }
    }

    fn title(words: &'a str) -> Self {
        Self {
            x: 12.0,
            y: 24.0,
            size: 15.5,
            bold: true,
            ..Self::ink(words)
        }
    }
}

pub(super) fn text(out: &mut String, text: &Text<'_>) {
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
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" \
         text-anchor=\"{anchor}\" fill=\"{fill}\"{weight}>{}</text>",
        escape(text.words),
    );
}

pub(crate) fn escape(words: &str) -> String {
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
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_broken_between_words() {
        let lines = wrap(&"word ".repeat(40));
        assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= NOTE_CHARACTERS));
    }

    #[test]
    fn the_legend_takes_as_many_rows_as_it_needs() {
        let label = "haproxy both, gateway-ratings, 2 CPU";
        let key = |_| Key {
            data_plane: "haproxy",
            label,
            line: None,
            hollow: false,
        };
        let keys: Vec<Key<'_>> = (0..5).map(key).collect();
        let places = places(&keys);
        assert_eq!(places.last().unwrap().0, 4);
        assert!(places.iter().all(|(_, x)| *x < WIDTH / 2.0));
    }
}
