//! YAML events → a small tree in which every value knows its place. Called with a whole file.
//! Must never guess types (`no` is the word "no"), nor follow anchors: what is written is what is.

use std::fmt::Write as _;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::Fault;

/// Deeper nesting than any key of ours needs; bounds recursion over the tree.
const DEPTH_MAX: usize = 32;

/// More keys than any mapping of ours has; each new one is compared with all before it.
const KEYS_MAX: usize = 1000;

/// More resources than one file should hold; a mesh of ten thousand services has several files.
const DOCUMENTS_MAX: usize = 100_000;

/// Where something begins, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Counted in lines.
    pub line: usize,
    /// Counted in characters.
    pub column: usize,
}

impl Place {
    /// The first character of a file.
    pub const START: Self = Self { line: 1, column: 1 };

    fn of(span: Span) -> Self {
        Self {
            line: span.start.line(),
            column: span.start.col() + 1,
        }
    }
}

/// A value, with where it begins.
#[derive(Debug)]
pub struct Node {
    /// Its first character.
    pub place: Place,
    /// What it is.
    pub kind: Kind,
}

/// What a value is.
#[derive(Debug)]
pub enum Kind {
    /// A word.
    Scalar {
        /// As it reads, without quotes.
        text: String,
        /// Whether it was written without quotes.
        plain: bool,
    },
    /// In the order of the file.
    List(Vec<Node>),
    /// In the order of the file, keys unique.
    Map(Vec<(Key, Node)>),
}

/// The key of an entry.
#[derive(Debug)]
pub struct Key {
    /// As it reads, without quotes.
    pub text: String,
    /// Its first character.
    pub place: Place,
}

impl Node {
    /// The one document in `text`.
    ///
    /// # Errors
    /// The first thing that is not YAML as we take it; no document, or a second one.
    pub fn read(text: &str) -> Result<Self, Fault> {
        let documents = Tree::read(text, Documents::One)?;
        documents.into_iter().next().ok_or_else(|| {
            let hint = "see docs/configuration.md for one";
            Fault::new(Place::START, "the file is empty", hint)
        })
    }

    /// The documents in `text`, which `---` separates. Empty ones are passed over, so that there
    /// may be none.
    ///
    /// # Errors
    /// The first thing that is not YAML as we take it.
    pub fn read_all(text: &str) -> Result<Vec<Self>, Fault> {
        Tree::read(text, Documents::Several)
    }

    /// A key with nothing after it, `~` or `null`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// What it is, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a mapping".to_owned(),
            Kind::Scalar { text, .. } => quote(text),
        }
    }

    /// The entries of a list.
    ///
    /// # Errors
    /// It is a word or a mapping.
    pub fn list(&self) -> Result<&[Self], Fault> {
        match &self.kind {
            Kind::List(nodes) => Ok(nodes),
            _ => Err(Fault::new(
                self.place,
                format!("expected a list, found {}", self.describe()),
                "write `- ` before each entry, or [a, b]",
            )),
        }
    }

    /// The entries of a mapping with free keys, such as labels.
    ///
    /// # Errors
    /// It is a word or a list.
    pub fn entries(&self) -> Result<&[(Key, Self)], Fault> {
        match &self.kind {
            Kind::Map(entries) => Ok(entries),
            _ => Err(Fault::new(
                self.place,
                format!("expected a mapping, found {}", self.describe()),
                "write `key: value` lines, or {key: value}",
            )),
        }
    }
}

/// A word of the file made safe to print: control characters escaped, long words cut.
#[must_use]
pub fn quote(text: &str) -> String {
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

/// How many documents a file may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Documents {
    One,
    Several,
}

struct Tree {
    allowed: Documents,
    open: Vec<Open>,
    /// Empty ones are among them.
    documents: Vec<Node>,
}

impl Tree {
    fn read(text: &str, allowed: Documents) -> Result<Vec<Node>, Fault> {
        let mut tree = Self {
            allowed,
            open: Vec::new(),
            documents: Vec::new(),
        };
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| syntax(&error))?;
            tree.push(event, Place::of(span))?;
        }
        tree.documents.retain(|node| !node.is_empty());
        Ok(tree.documents)
    }

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
            Event::DocumentStart(_) => self.check_another(place),
            _ => Ok(()),
        }
    }

    fn check_another(&self, place: Place) -> Result<(), Fault> {
        match (self.allowed, self.documents.len()) {
            (_, 0) | (Documents::Several, 1..DOCUMENTS_MAX) => Ok(()),
            (Documents::One, _) => Err(Fault::new(
                place,
                "a second document",
                "keep one document per file: remove everything from this `---` on",
            )),
            (Documents::Several, _) => Err(Fault::new(
                place,
                format!("more than {DOCUMENTS_MAX} documents"),
                "spread them over several files",
            )),
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
            None => self.documents.push(node),
            Some(Open::List(_, nodes)) => nodes.push(node),
            Some(Open::Map(_, entries, key)) => match key.take() {
                Some(key) => entries.push((key, node)),
                None if entries.len() == KEYS_MAX => {
                    let message = format!("more than {KEYS_MAX} keys in one mapping");
                    let hint = "no mapping needs that; check the indentation";
                    return Err(Fault::new(node.place, message, hint));
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree in one line: words as they are, with the place of each.
    fn show(node: &Node) -> String {
        let Place { line, column } = node.place;
        match &node.kind {
            Kind::Scalar { text, .. } => format!("{text}@{line}:{column}"),
            Kind::List(nodes) => {
                let nodes: Vec<_> = nodes.iter().map(show).collect();
                format!("[{}]", nodes.join(" "))
            }
            Kind::Map(entries) => {
                let entry = |(key, node): &(Key, Node)| format!("{}={}", key.text, show(node));
                let entries: Vec<_> = entries.iter().map(entry).collect();
                format!("{{{}}}@{line}:{column}", entries.join(" "))
            }
        }
    }

    #[track_caller]
    fn check_all(text: &str, wanted: &[&str]) {
        let shown: Vec<_> = match Node::read_all(text) {
            Ok(nodes) => nodes.iter().map(show).collect(),
            Err(fault) => vec![fault.to_string()],
        };
        assert_eq!(shown, wanted);
    }

    #[test]
    fn documents_keep_their_places_in_the_file() {
        check_all(
            "a: no\n---\nb: [1, 'x']\n",
            &["{a=no@1:4}@1:1", "{b=[1@3:5 x@3:8]}@3:1"],
        );
    }

    #[test]
    fn empty_documents_are_passed_over() {
        check_all("", &[]);
        check_all("# only words\n", &[]);
        check_all("---\n---\na: b\n---\n# end\n", &["{a=b@3:4}@3:1"]);
        check_all("---\na: b\n...\n---\nnull\n", &["{a=b@2:4}@2:1"]);
    }

    #[test]
    fn what_is_not_taken_in_one_document_is_in_none() {
        check_all(
            "a: b\n---\nc: 1\nc: 2\n",
            &[
                "line 4, column 1: `c` is given twice; it was given on line 3 already; remove one \
               of them",
            ],
        );
        check_all(
            "a: b\n---\nc: &d 1\n",
            &[
                "line 3, column 4: anchors (`&`) and aliases (`*`) are not supported; write the \
               value out; put quotes around it if it begins with `*` or `&`",
            ],
        );
    }

    #[test]
    fn keys_and_depth_are_bounded() {
        use std::fmt::Write as _;
        let fault = |text: &str| Node::read_all(text).unwrap_err().message;
        assert_eq!(fault(&"[".repeat(40)), "nested deeper than 32 levels");
        let mut keys = String::new();
        for key in 0..=KEYS_MAX {
            writeln!(keys, "k{key}: v").unwrap();
        }
        assert_eq!(fault(&keys), "more than 1000 keys in one mapping");
    }

    #[test]
    fn one_document_is_one() {
        let fault = |text: &str| Node::read(text).unwrap_err().to_string();
        assert!(fault("a: b\n---\nc: d\n").starts_with("line 2, column 1: a second document; "));
        assert!(fault("# nothing\n").starts_with("line 1, column 1: the file is empty; "));
        assert_eq!(show(&Node::read("a: b").unwrap()), "{a=b@1:4}@1:1");
    }
}
