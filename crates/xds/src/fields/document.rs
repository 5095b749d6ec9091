//! The tables as a page for people, `docs/xds-fields.md`. Written by `cargo xtask fields`, and
//! compared with the page by a test.

use super::{Message, Rule, message};
use crate::kind::Kind;
use std::fmt::Write;

const HEAD: &str = "\
# Fields of xDS

What becomes of each field of each message that a sidecar is told, as
[xDS](xds.md#what-is-understood) describes it: *read* are those that it goes by, *ignored* those
that it counts and leaves out, and because of one that is *refused*, or is not listed, it does not
take the resource. A field that is read may still have a value that is refused. This page is made of
the tables that the sidecar goes by: `cargo xtask fields` writes it.
";

/// The page.
#[must_use]
pub fn document() -> String {
    let mut page = HEAD.to_owned();
    let mut seen: Vec<&'static Message> = Vec::new();
    for kind in Kind::ALL {
        let known = seen.len();
        visit(message(kind), &mut seen);
        // A text that grows takes everything.
        let _ = write!(
            page,
            "\n## `{}`\n\n| message | read | ignored | refused |\n|---|---|---|---|\n",
            message(kind).name
        );
        for message in &seen[known..] {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} |",
                message.name,
                names(message, |rule| !matches!(
                    rule,
                    Rule::Ignored | Rule::Refused
                )),
                names(message, |rule| matches!(rule, Rule::Ignored)),
                names(message, |rule| matches!(rule, Rule::Refused)),
            );
        }
    }
    page
}

fn names(message: &Message, fits: impl Fn(&Rule) -> bool) -> String {
    let fields = message.fields.iter().filter(|field| fits(&field.rule));
    let names: Vec<_> = fields.map(|field| format!("`{}`", field.name)).collect();
    names.join(" ")
}

/// The message and all that may be in it, each once, in the order in which they are reached.
fn visit(message: &'static Message, seen: &mut Vec<&'static Message>) {
    if seen.iter().any(|known| known.name == message.name) {
        return;
    }
    seen.push(message);
    for field in message.fields {
        inside(&field.rule)
            .into_iter()
            .for_each(|inner| visit(inner, seen));
    }
}

fn inside(rule: &'static Rule) -> Vec<&'static Message> {
    match rule {
        Rule::Message(inner) => vec![inner],
        Rule::Any(inner) => inner.to_vec(),
        Rule::Map(rule) => inside(rule),
        Rule::Read | Rule::Ignored | Rule::Refused => Vec::new(),
    }
}
