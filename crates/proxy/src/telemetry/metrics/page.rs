//! Writes a view down: the Prometheus text format 0.0.4 in pieces, or JSON.
//! Called for every scrape. Must never let a label's value end its line or its quotes.

use std::fmt::Write as _;

use serde_json::{Map, json};

use super::families::{FAMILIES, seconds};
use super::view::{Sample, Value, View};

/// Of what [`Page`] yields.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Large enough that a piece costs few writes, small enough to be forgotten.
const PIECE_BYTES: usize = 32 * 1024;

/// The Prometheus text, piece by piece; each piece ends with a line.
pub struct Page {
    view: View,
    family: usize,
    step: usize,
}

impl Page {
    pub(super) const fn new(view: View) -> Self {
        Self {
            view,
            family: 0,
            step: 0,
        }
    }
}

impl Iterator for Page {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut text = String::new();
        while text.len() < PIECE_BYTES
            && let Some(family) = FAMILIES.get(self.family)
        {
            if self.step == 0 {
                write!(
                    text,
                    "# HELP {0} {1}\n# TYPE {0} {2}\n",
                    family.name, family.help, family.kind
                )
                .expect("strings grow");
            }
            if self.step < self.view.steps(family) {
                self.view.visit(family, self.step, &mut |sample| {
                    line(&mut text, family.name, &sample)
                });
                self.step += 1;
            } else {
                (self.family, self.step) = (self.family + 1, 0);
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

fn line(text: &mut String, name: &str, sample: &Sample<'_>) {
    text.push_str(name);
    text.push_str(sample.suffix);
    for (place, (label, value)) in sample.labels.iter().chain(sample.more).enumerate() {
        text.push(if place == 0 { '{' } else { ',' });
        text.push_str(label);
        text.push_str("=\"");
        escape(text, value);
        text.push('"');
    }
    let close = if sample.labels.is_empty() && sample.more.is_empty() {
        ""
    } else {
        "}"
    };
    writeln!(text, "{close} {}", show(sample.value)).expect("strings grow");
}

/// The three escapes that the format knows.
fn escape(text: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
}

fn show(value: Value) -> String {
    match value {
        Value::Count(count) => count.to_string(),
        Value::Micros(micros) => seconds(micros),
    }
}

pub(super) fn json(view: &View) -> serde_json::Value {
    let mut all = Vec::new();
    view.visit_all(&mut |family, sample| {
        let labels: Map<String, serde_json::Value> = sample
            .labels
            .iter()
            .chain(sample.more)
            .map(|(label, value)| ((*label).to_owned(), json!(value)))
            .collect();
        let value = match sample.value {
            Value::Count(count) => json!(count),
            Value::Micros(micros) => json!(std::time::Duration::from_micros(micros).as_secs_f64()),
        };
        let name = format!("{}{}", family.name, sample.suffix);
        all.push(json!({"name": name, "labels": labels, "value": value}));
    });
    serde_json::Value::Array(all)
}
