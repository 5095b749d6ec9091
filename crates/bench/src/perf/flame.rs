//! Stacks as a flame graph: each frame as wide as its share of the samples, what it calls above it.
//! An SVG by hand like the other figures: no script, names and shares on hover. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::stacks::{KERNEL, Stacks};
use crate::figures::escape;
use crate::units;

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const HEAD: f64 = 44.0;
const ROW: f64 = 17.0;
/// Narrower frames are left out, with what is above them: nobody could see or read them.
const WIDTH_MIN: f64 = 0.6;
/// Of a character.
const LETTER: f64 = 6.6;

/// A frame and what it calls.
#[derive(Default)]
struct Node {
    samples: u64,
    calls: BTreeMap<String, Self>,
}

/// The whole document.
pub(crate) fn svg(title: &str, stacks: &Stacks) -> String {
    let mut root = Node::default();
    for (stack, samples) in &stacks.0 {
        root.add(stack, *samples);
    }
    let rows = root.depth(px_of(&root));
    let height = HEAD + units::count(rows as u64) * ROW + MARGIN;
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         class=\"flame\" role=\"img\" aria-label=\"{title}\" font-family=\"ui-monospace, Menlo, \
         Consolas, monospace\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"{MARGIN}\" y=\"18\" font-size=\"14\" fill=\"#1f2430\">{title}</text>\n\
         <text x=\"{MARGIN}\" y=\"34\" fill=\"#5b6472\">{} samples; width is the share of CPU \
          time, blue is the kernel, a frame calls those above it</text>\n",
        root.samples,
        title = escape(title),
    );
    let mut drawing = Drawing {
        out: &mut out,
        all: root.samples,
        px: px_of(&root),
        bottom: height - MARGIN,
    };
    drawing.calls(&root, MARGIN, 0);
    out.push_str("</svg>\n");
    out
}

/// Of one sample.
fn px_of(root: &Node) -> f64 {
    (WIDTH - 2.0 * MARGIN) / units::count(root.samples.max(1))
}

impl Node {
    fn add(&mut self, stack: &[String], samples: u64) {
        let mut node = self;
        node.samples += samples;
        for frame in stack {
            node = node.calls.entry(frame.clone()).or_default();
            node.samples += samples;
        }
    }

    /// Rows above it that are drawn.
    fn depth(&self, px: f64) -> usize {
        let drawn = self
            .calls
            .values()
            .filter(|call| call.width(px) >= WIDTH_MIN);
        drawn.map(|call| 1 + call.depth(px)).max().unwrap_or(0)
    }

    fn width(&self, px: f64) -> f64 {
        units::count(self.samples) * px
    }
}

struct Drawing<'a> {
    out: &'a mut String,
    all: u64,
    px: f64,
    bottom: f64,
}

impl Drawing<'_> {
    fn calls(&mut self, node: &Node, mut x: f64, row: u64) {
        for (name, call) in &node.calls {
            let width = call.width(self.px);
            if width >= WIDTH_MIN {
                self.frame(name, call, x, row);
                self.calls(call, x, row + 1);
            }
            x += width;
        }
    }

    fn frame(&mut self, name: &str, call: &Node, x: f64, row: u64) {
        let y = self.bottom - units::count(row + 1) * ROW;
        let width = call.width(self.px);
        let shown = name.strip_suffix(KERNEL).unwrap_or(name);
        let share = units::count(call.samples) * 100.0 / units::count(self.all.max(1));
        let _ = write!(
            self.out,
            "<g><title>{} · {share:.1} %, {} samples</title>\
             <rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"1\" \
             fill=\"{}\"/>",
            escape(shown),
            call.samples,
            (width - 0.4).max(0.2),
            ROW - 1.0,
            colour(name),
        );
        if let Some(label) = label(shown, width) {
            let _ = write!(
                self.out,
                "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#1f2430\">{}</text>",
                x + 3.0,
                y + 12.0,
                escape(&label),
            );
        }
        self.out.push_str("</g>\n");
    }
}

/// As much of a name as there is room for; none where that would say nothing.
fn label(name: &str, width: f64) -> Option<String> {
    let mut room = (width - 6.0) / LETTER;
    let mut label = String::new();
    for letter in name.chars() {
        room -= 1.0;
        if room < 0.0 {
            label.pop();
            label.push('…');
            break;
        }
        label.push(letter);
    }
    (label.chars().count() > 2).then_some(label)
}

/// Warm for programs, blue for the kernel; a name has the same everywhere.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(7_u32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    let (hue, light) = match name.ends_with(KERNEL) {
        true => (205 + hash % 20, 76 + hash / 32 % 8),
        false => (22 + hash % 28, 68 + hash / 32 % 10),
    };
    format!("hsl({hue} 78% {light}%)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::plot::tests::check_well_formed;

    fn stacks(of: &[(&[&str], u64)]) -> Stacks {
        let owned = |stack: &[&str]| stack.iter().map(|&frame| frame.to_owned()).collect();
        Stacks(
            of.iter()
                .map(|(stack, count)| (owned(stack), *count))
                .collect(),
        )
    }

    #[test]
    fn a_frame_is_as_wide_as_its_share_and_named_on_hover() {
        let drawn = svg(
            "leno both, server",
            &stacks(&[
                (&["leno", "serve<&T>"], 30),
                (&["leno", "serve<&T>", "send_[k]"], 10),
                (&["leno", "read"], 60),
            ]),
        );
        check_well_formed(&drawn);
        assert!(drawn.contains("serve&lt;&amp;T&gt; · 40.0 %, 40 samples"));
        assert!(drawn.contains("send · 10.0 %, 10 samples"), "{drawn}");
        assert!(drawn.contains("width=\"1179.6\""), "{drawn}");
    }

    #[test]
    fn what_nobody_could_see_is_left_out() {
        let drawn = svg("x", &stacks(&[(&["a"], 100_000), (&["b", "c"], 1)]));
        assert!(drawn.contains("<title>a ·") && !drawn.contains("<title>b ·"));
    }

    #[test]
    fn without_samples_there_is_an_empty_drawing() {
        check_well_formed(&svg("nothing", &Stacks::default()));
    }
}
