//! YAML events → a small tree in which every value knows its place. Called by `config::parse`.
//! Must never guess types (`no` is the word "no"), nor follow anchors: what is written is what is.

use std::fmt::Write as _;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::Fault;

/// Deeper nesting than any key of ours needs; bounds recursion over the tree.
const DEPTH_MAX: usize = 32;

/// Where something begins, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    fn of(span: Span) -> Self {
        Self {
            line: span.start.line(),
            column: span.start.col() + 1,
        }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    /// In the order of the file, keys unique.
    Map(Vec<(Key, Node)>),
}

#[derive(Debug)]
pub(super) struct Key {
    pub(super) text: String,
    pub(super) place: Place,
}

impl Node {
    /// The one document in `text`.
    pub(super) fn read(text: &str) -> Result<Self, Fault> {
        let mut tree = Tree::default();
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| syntax(&error))?;
            tree.push(event, Place::of(span))?;
        }
        let start = Place { line: 1, column: 1 };
        match tree.root {
            Some(root) if !root.is_empty() => Ok(root),
            _ => Err(Fault::new(
                start,
                "the file is empty",
                "see docs/configuration.md for one",
            )),
        }
    }

    /// A key with nothing after it, `~` or `null`.
    pub(super) fn is_empty(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// What it is, for messages.
    pub(super) fn describe(&self) -> String {
        match &self.kind {
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a mapping".to_owned(),
            Kind::Scalar { text, .. } => quote(text),
        }
    }

    pub(super) fn list(&self) -> Result<&[Self], Fault> {
        match &self.kind {
            Kind::List(nodes) => Ok(nodes),
            _ => Err(Fault::new(
                self.place,
                format!("expected a list, found {}", self.describe()),
                "write `- ` before each entry, or [a, b]",
            )),
        }
    }
}

/// A word of the file made safe to print: control characters escaped, long words cut.
pub(super) fn quote(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    let mut out = String::from("`");
    for c in text.chars().take(CHARS_MAX) {
        match c {
            c if c.is_control() => write!(out, "{}", c.escape_default()).expect("strings grow"),
            c => out.push(c),
        }
    }
    out.push_str(if text.chars().nth(CHARS_MAX).is_some() {
        "…`"
    } else {
        "`"
    });
    out
}

fn syntax(error: &saphyr_parser::ScanError) -> Fault {
    let mark = error.marker();
    let place = Place {
        line: mark.line(),
        column: mark.col() + 1,
    };
    let message = format!("not valid YAML: {}", error.info());
    Fault::new(
        place,
        message,
        "check indentation, quotes and brackets here and on the line above",
    )
}

/// A mapping or list whose end has not come yet.
enum Open {
    List(Place, Vec<Node>),
    Map(Place, Vec<(Key, Node)>, Option<Key>),
}

#[derive(Default)]
struct Tree {
    open: Vec<Open>,
    root: Option<Node>,
}

impl Tree {
    fn push(&mut self, event: Event<'_>, place: Place) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                plain_words_only(place, anchor, tag.is_some())?;
                let plain = style == ScalarStyle::Plain;
                self.close(Node {
                    place,
                    kind: Kind::Scalar {
                        text: text.into_owned(),
                        plain,
                    },
                })
            }
            Event::SequenceStart(anchor, tag) => {
                plain_words_only(place, anchor, tag.is_some())?;
                self.begin(Open::List(place, Vec::new()), place)
            }
            Event::MappingStart(anchor, tag) => {
                plain_words_only(place, anchor, tag.is_some())?;
                self.begin(Open::Map(place, Vec::new(), None), place)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let node = match self.open.pop().expect("ends follow starts") {
                    Open::List(place, nodes) => Node {
                        place,
                        kind: Kind::List(nodes),
                    },
                    Open::Map(place, entries, _) => Node {
                        place,
                        kind: Kind::Map(entries),
                    },
                };
                self.close(node)
            }
            Event::Alias(_) => plain_words_only(place, 1, false),
            Event::DocumentStart(_) if self.root.is_some() => Err(Fault::new(
                place,
                "a second document",
                "keep one document per file: remove everything from this `---` on",
            )),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, open: Open, place: Place) -> Result<(), Fault> {
        if self.open.len() == DEPTH_MAX {
            return Err(Fault::new(
                place,
                format!("nested deeper than {DEPTH_MAX} levels"),
                "no key needs that; check brackets and indentation",
            ));
        }
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self, node: Node) -> Result<(), Fault> {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, nodes)) => nodes.push(node),
            Some(Open::Map(_, entries, key)) => match key.take() {
                Some(key) => entries.push((key, node)),
                None => *key = Some(unique_key(node, entries)?),
            },
        }
        Ok(())
    }
}

fn unique_key(node: Node, entries: &[(Key, Node)]) -> Result<Key, Fault> {
    let place = node.place;
    let Kind::Scalar { text, .. } = node.kind else {
        let message = format!("a key must be a word, found {}", node.describe());
        return Err(Fault::new(place, message, "write `key: value`"));
    };
    match entries.iter().find(|(key, _)| key.text == text) {
        None => Ok(Key { text, place }),
        Some((first, _)) => Err(Fault::new(
            place,
            format!("{} is given twice", quote(&text)),
            format!(
                "it was given on line {} already; remove one of them",
                first.place.line
            ),
        )),
    }
}

fn plain_words_only(place: Place, anchor: usize, tag: bool) -> Result<(), Fault> {
    match (anchor, tag) {
        (0, false) => Ok(()),
        (0, true) => Err(Fault::new(
            place,
            "tags (`!`) are not supported",
            "remove the tag",
        )),
        _ => Err(Fault::new(
            place,
            "anchors (`&`) and aliases (`*`) are not supported",
            "write the value out; put quotes around it if it begins with `*` or `&`",
        )),
    }
}
