//! Draws groups of bars as an SVG document: from zero, with whiskers, the value above each bar.

use std::fmt::Write;

use super::axis::Axis;
use super::chart::{Bar, Bars, Group};
use super::paper::{self, Key, PLOT, Spot, Text};
use super::{number, palette};

/// No bar is wider.
const BAR_MAX: f64 = 46.0;
/// From this width on there is room for a value.
const VALUE_FROM: f64 = 24.0;

/// The whole document.
pub(crate) fn svg(bars: &Bars) -> String {
    let mut keys: Vec<Key<'_>> = Vec::new();
    for bar in bars.groups.iter().flat_map(|group| &group.bars) {
        if !keys.iter().any(|key| key.label == bar.label) {
            keys.push(Key {
                data_plane: &bar.data_plane,
                label: &bar.label,
                line: None,
                hollow: bar.hollow,
            });
        }
    }
    paper::document(&bars.title, &data(bars), &keys, &bars.notes)
}

fn data(bars: &Bars) -> String {
    let mut out = String::new();
    let all = || bars.groups.iter().flat_map(|group| &group.bars);
    let highest = all().map(|bar| bar.interval.map_or(bar.value, |ends| ends.1));
    let axis = Axis::linear(highest.fold(0.0, f64::max), (PLOT.bottom, PLOT.top));
    paper::ordinate(&mut out, &axis, &bars.y_axis);
    let each = (PLOT.right - PLOT.left) / bars.groups.len().max(1) as f64;
    let most = bars.groups.iter().map(|group| group.bars.len()).max();
    let width = (each * 0.8 / most.unwrap_or(1).max(1) as f64).min(BAR_MAX);
    let middle = |index: usize| PLOT.left + (index as f64 + 0.5) * each;
    for (index, group) in bars.groups.iter().enumerate() {
        let left = middle(index) - width * group.bars.len() as f64 / 2.0;
        for (place, bar) in group.bars.iter().enumerate() {
            let x = left + (place as f64 + 0.5) * width;
            draw(&mut out, bars, (group, bar), (x, width), &axis);
        }
    }
    let labels = bars.groups.iter().enumerate();
    let labels: Vec<(f64, &str)> = labels
        .map(|(index, group)| (middle(index), group.label.as_str()))
        .collect();
    paper::abscissa(&mut out, &labels, "");
    if all().next().is_none() {
        paper::empty(&mut out);
    }
    out
}

fn draw(
    out: &mut String,
    bars: &Bars,
    (group, bar): (&Group, &Bar),
    (x, width): (f64, f64),
    axis: &Axis,
) {
    let style = palette::style(&bar.data_plane);
    let (top, value) = (axis.at(bar.value), number::significant(bar.value));
    let _ = write!(
        out,
        "<g class=\"series {}\" data-label=\"{}\" stroke=\"{color}\" fill=\"{color}\">",
        style.class,
        paper::escape(&bar.label),
        color = style.light,
    );
    let interval = bar
        .interval
        .map(|ends| number::range(ends, number::significant));
    let spot = Spot {
        at: &group.label,
        label: &bar.label,
        value: &format!("{value} {}", bars.unit),
        interval: &interval.unwrap_or_default(),
        place: (x, top),
    };
    paper::open_spot(out, &spot);
    let paint = match bar.hollow {
        true => "fill-opacity=\"0.15\" stroke-dasharray=\"3 2\"",
        false => "fill-opacity=\"0.85\"",
    };
    let _ = write!(
        out,
        "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\" {paint}/>",
        x - width * 0.43,
        width * 0.86,
        (PLOT.bottom - top).max(0.0),
    );
    out.push_str("</g>");
    let mut above = top;
    if let Some((low, high)) = bar.interval {
        above = axis.at(high);
        paper::whisker(out, x, (above, axis.at(low)));
    }
    out.push_str("</g>\n");
    if width >= VALUE_FROM {
        let label = Text {
            x,
            y: above - 6.0,
            size: 12.0,
            anchor: "middle",
            ..Text::ink(&value)
        };
        paper::text(out, &label);
    }
}

#[cfg(test)]
mod tests {
    use super::super::plot::tests::check_well_formed;
    use super::*;

    #[test]
    fn groups_values_and_the_legend_are_drawn_once() {
        let bar = |data_plane: &str, value| Bar {
            data_plane: data_plane.to_owned(),
            label: format!("{data_plane} <here>"),
            value,
            interval: Some((value - 1.0, value + 1.0)),
            hollow: data_plane == "none",
        };
        let group = |label: &str| Group {
            label: label.to_owned(),
            bars: vec![bar("none", 3_283.0), bar("leno", 3_395.0)],
        };
        let bars = Bars {
            title: "Requests per second".to_owned(),
            unit: "requests/s",
            groups: vec![group("1 CPU"), group("2 CPU")],
            ..Bars::default()
        };
        let svg = svg(&bars);
        check_well_formed(&svg);
        assert_eq!(svg.matches(">3,395</text>").count(), 2);
        assert_eq!(svg.matches(">leno &lt;here&gt;</text>").count(), 1);
        assert!(
            svg.contains("1 CPU: 3,283 requests/s (3,282 – 3,284)"),
            "{svg}"
        );
    }

    #[test]
    fn no_bars_are_no_error() {
        check_well_formed(&svg(&Bars::default()));
    }
}
