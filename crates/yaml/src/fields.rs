//! One mapping of the file, read by key. Used by every section's reader.
//! Must never let an unknown key pass: a misspelt limit would be no limit.

use crate::Fault;
use crate::node::{Key, Kind, Node, quote};

/// A mapping of which every key is known.
pub struct Fields<'a> {
    what: &'static str,
    node: &'a Node,
    entries: &'a [(Key, Node)],
    known: &'static [&'static str],
}

impl<'a> Fields<'a> {
    /// `what` names the section in messages, with its article.
    ///
    /// # Errors
    /// It is not a mapping, or has a key that is not `known`, or a key without a value.
    pub fn open(
        node: &'a Node,
        what: &'static str,
        known: &'static [&'static str],
    ) -> Result<Self, Fault> {
        Self::open_beside(node, what, known, &[])
    }

    /// As [`Self::open`], but passes over the keys in `ignored`, whatever their values.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_beside(
        node: &'a Node,
        what: &'static str,
        known: &'static [&'static str],
        ignored: &[&str],
    ) -> Result<Self, Fault> {
        let Kind::Map(entries) = &node.kind else {
            return Err(Fault::new(
                node.place,
                format!("{what} must be a mapping, found {}", node.describe()),
                format!("write `key: value` lines; known keys: {}", known.join(", ")),
            ));
        };
        for (key, value) in entries {
            if ignored.contains(&key.text.as_str()) {
                continue;
            }
            if !known.contains(&key.text.as_str()) {
                let message = format!("unknown key {} in {what}", quote(&key.text));
                return Err(Fault::new(key.place, message, suggest(&key.text, known)));
            }
            if value.is_empty() {
                let message = format!("{} has no value", quote(&key.text));
                return Err(Fault::new(
                    key.place,
                    message,
                    "give it one, or remove the key",
                ));
            }
        }
        Ok(Self {
            what,
            node,
            entries,
            known,
        })
    }

    /// The value of `key`, if it is there.
    pub fn optional(&self, key: &str) -> Option<&'a Node> {
        debug_assert!(
            self.known.contains(&key),
            "{key} is read but not listed as known"
        );
        self.entries
            .iter()
            .find(|(found, _)| found.text == key)
            .map(|(_, node)| node)
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// It is not there.
    pub fn required(&self, key: &str) -> Result<&'a Node, Fault> {
        self.optional(key).ok_or_else(|| {
            let message = format!("{} needs `{key}`", self.what);
            Fault::new(self.node.place, message, format!("add `{key}: …` here"))
        })
    }

    /// The value of an optional key, read by `read`.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn map<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'a Node) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        self.optional(key).map(read).transpose()
    }

    /// The only entry, for mappings that choose one of several things.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn single(&self) -> Result<(&'a str, &'a Node), Fault> {
        match self.entries {
            [(key, node)] => Ok((&key.text, node)),
            entries => Err(Fault::new(
                entries.get(1).map_or(self.node.place, |(key, _)| key.place),
                format!("{} has one key, found {}", self.what, entries.len()),
                format!(
                    "write one of {}, each as its own entry",
                    self.known.join(", ")
                ),
            )),
        }
    }
}

/// "did you mean" the nearest of `known`, or all of them when none is near.
#[must_use]
pub fn suggest(word: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .min();
    match nearest {
        // A third of the letters wrong is a slip; more is another word.
        Some((wrong, candidate)) if wrong * 3 <= candidate.len().max(3) => {
            format!("did you mean `{candidate}`?")
        }
        _ => format!("known here: {}", known.join(", ")),
    }
}

/// Levenshtein's, blind to case and to `_` and `-`, so that `idle_timeout` is near `idleTimeout`.
fn distance(a: &str, b: &str) -> usize {
    let fold = |s: &str| -> Vec<char> {
        s.chars()
            .filter(|c| !matches!(c, '_' | '-'))
            .flat_map(char::to_lowercase)
            .take(64)
            .collect()
    };
    let (a, b) = (fold(a), fold(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["port", "idleTimeout"];

    #[track_caller]
    fn check(text: &str, ignored: &[&str], wanted: &str) {
        let node = Node::read(text).unwrap();
        let shown = match Fields::open_beside(&node, "a thing", KNOWN, ignored) {
            Ok(fields) => match fields.required("port") {
                Ok(port) => port.describe(),
                Err(fault) => fault.to_string(),
            },
            Err(fault) => fault.to_string(),
        };
        assert_eq!(shown, wanted);
    }

    #[test]
    fn unknown_keys_are_faults_with_the_nearest_known_one() {
        check("{port: 1}", &[], "`1`");
        check(
            "{prot: 1}",
            &[],
            "line 1, column 2: unknown key `prot` in a thing; known here: port, idleTimeout",
        );
        check(
            "{idle_timeout: 1s}",
            &[],
            "line 1, column 2: unknown key `idle_timeout` in a thing; did you mean `idleTimeout`?",
        );
        check(
            "{port: ~}",
            &[],
            "line 1, column 2: `port` has no value; give it one, or remove the key",
        );
        check(
            "[port]",
            &[],
            "line 1, column 1: a thing must be a mapping, found a list; write `key: value` \
             lines; known keys: port, idleTimeout",
        );
        check(
            "{idleTimeout: 1s}",
            &[],
            "line 1, column 1: a thing needs `port`; add `port: …` here",
        );
    }

    #[test]
    fn ignored_keys_may_hold_anything_and_nothing() {
        check("{port: 1, status: ~, uid: [x]}", &["status", "uid"], "`1`");
    }
}
