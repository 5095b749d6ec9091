//! What becomes of each field of each supported message, known to us or not. prost drops what it
//! does not know without a word; so before it decodes, [`check`] walks the bytes by these tables.
//! A field is read, knowingly ignored, or refused; one that no table names is refused.
//!
//! Called by `resource` and the decoders. Must never allocate more than it has to say.

mod cluster;
mod core;
mod document;
mod endpoint;
mod google;
mod listener;
mod network;
mod rbac;
mod route;
mod tls;
mod walk;

pub use document::document;

use std::collections::BTreeMap;

use crate::error::{Error, Ignored};
use crate::kind::Kind;
use crate::place::Place;

/// What is said of one message.
#[derive(Debug)]
pub(crate) struct Message {
    /// Its full name, as in a type URL.
    pub(crate) name: &'static str,
    /// Invariant: tags are unique and below 128.
    pub(crate) fields: &'static [Field],
    /// Tags of which only one may be there, as far as we read them.
    pub(crate) oneofs: &'static [&'static [u32]],
}

/// What is said of one field.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) tag: u32,
    pub(crate) name: &'static str,
    pub(crate) rule: Rule,
    /// Whether more than one is more than one value.
    pub(crate) repeated: bool,
}

/// What becomes of a field.
#[derive(Debug)]
pub(crate) enum Rule {
    /// A scalar that a decoder looks at.
    Read,
    /// A message that a decoder looks at.
    Message(&'static Message),
    /// One of these messages, wrapped in `google.protobuf.Any`.
    Any(&'static [&'static Message]),
    /// A map from texts to what this rule says.
    Map(&'static Self),
    /// Changes nothing that is routed, secured or filtered: counted, shown, left out.
    Ignored,
    /// Must be understood, and is not.
    Refused,
}

const fn one(tag: u32, name: &'static str, rule: Rule) -> Field {
    Field {
        tag,
        name,
        rule,
        repeated: false,
    }
}

const fn many(tag: u32, name: &'static str, rule: Rule) -> Field {
    Field {
        tag,
        name,
        rule,
        repeated: true,
    }
}

/// The message that resources of this kind are.
pub(crate) fn message(kind: Kind) -> &'static Message {
    match kind {
        Kind::Secret => &tls::SECRET,
        Kind::Cluster => &cluster::CLUSTER,
        Kind::Endpoints => &endpoint::CLUSTER_LOAD_ASSIGNMENT,
        Kind::Listener => &listener::LISTENER,
        Kind::Routes => &route::ROUTE_CONFIGURATION,
    }
}

/// Walks `bytes`, a message of this kind that is called `at`, and notes what is ignored in it.
pub(crate) fn check(kind: Kind, bytes: &[u8], at: &Place<'_>) -> Result<Notes, Error> {
    let mut walk = walk::Walk::default();
    walk.message(bytes, message(kind), at, 0)?;
    Ok(walk.notes)
}

/// Most distinct paths that are noted; there are fewer fields that may be ignored in any resource.
const NOTES_MAX: usize = 256;

/// What was ignored.
#[derive(Debug, Default)]
pub(crate) struct Notes(BTreeMap<String, usize>);

impl Notes {
    /// One more field was ignored here.
    pub(crate) fn add(&mut self, at: &Place<'_>) {
        let path = at.shape();
        let path = match self.0.len() < NOTES_MAX || self.0.contains_key(&path) {
            true => path,
            false => "others".to_owned(),
        };
        *self.0.entry(path).or_default() += 1;
    }

    pub(crate) fn into_ignored(self) -> Vec<Ignored> {
        let notes = self.0.into_iter();
        notes.map(|(path, count)| Ignored { path, count }).collect()
    }
}

#[cfg(test)]
mod tests;
