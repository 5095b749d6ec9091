//! What a client wants of one kind, and has. A request names all that is wanted, so a server learns
//! of a change by comparing; a request that answers an older response it does not read at all.
//! Used by `client`.

use crate::delta::WILDCARD;
use crate::update::Added;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

/// How often a server is asked again for a name that it may think this client has. Each time may be
/// overlooked because another response was under way; that so many are is not to be expected.
const TRIES: u8 = 8;

/// One kind of resource.
#[derive(Debug, Default)]
pub(super) struct Subscription {
    /// Names, and whether the server has said something about each.
    wanted: BTreeMap<String, bool>,
    /// What was accepted: name → version of its bytes. Invariant: wanted, or all are.
    known: BTreeMap<String, String>,
    /// Names in updates that are not concluded, and how many of these there are: nobody knows yet
    /// in which state they will be.
    pending: (usize, BTreeSet<String>),
    /// Whether this stream has seen a request for it. Invariant: else all below is empty.
    pub(super) is_open: bool,
    /// What the server calls the state that was accepted last.
    pub(super) version: String,
    /// Of the last response.
    pub(super) nonce: String,
    /// Whether that is still to be answered, which says what is wanted as well.
    is_waiting: bool,
    /// Whether the server has not read yet what is wanted.
    is_changed: bool,
    /// Names that this stream has asked for. Once there is one, an empty list is no wildcard.
    asked: BTreeSet<String>,
    /// Names that were given up and are wanted again, with the tries that are left. To a server
    /// that has not noticed they are there already.
    doubted: BTreeMap<String, u8>,
    /// Those of them that the next request leaves out, so that the one after it asks for them.
    hidden: BTreeSet<String>,
}

impl Subscription {
    pub(super) fn wants(&self, name: &str) -> bool {
        self.wanted.contains_key(name) || self.wanted.contains_key(WILDCARD)
    }

    pub(super) fn subscribe(&mut self, name: String) {
        if self.wanted.contains_key(&name) {
            return;
        }
        self.is_changed |= self.is_open;
        if self.asked.contains(&name) {
            self.doubted.insert(name.clone(), TRIES);
            self.hidden.insert(name.clone());
        }
        let answered = self.known.contains_key(&name);
        self.wanted.insert(name, answered);
    }

    pub(super) fn unsubscribe(&mut self, name: &str) {
        if self.wanted.remove(name).is_none() {
            return;
        }
        self.is_changed |= self.is_open;
        self.settle(name);
        if !self.wanted.contains_key(WILDCARD) {
            self.known
                .retain(|known, _| self.wanted.contains_key(known));
        }
    }

    /// Has this state of a resource.
    pub(super) fn keep(&mut self, name: &str, version: &str) {
        self.settle(name);
        self.known.insert(name.to_owned(), version.to_owned());
    }

    /// Has it no more.
    pub(super) fn lose(&mut self, name: &str) {
        self.known.remove(name);
    }

    /// The server has said something about `name`.
    pub(super) fn answered(&mut self, name: &str) {
        if let Some(answered) = self.wanted.get_mut(name) {
            *answered = true;
        }
    }

    /// Whether it has this very state, and will have.
    pub(super) fn has(&self, one: &Added) -> bool {
        self.known.get(&one.name) == Some(&one.version) && !self.pending.1.contains(&one.name)
    }

    /// What is had or asked for, of which a response that says all says nothing.
    pub(super) fn absent(&self, all: &[Added]) -> Vec<String> {
        let told: BTreeSet<_> = all.iter().map(|one| one.name.as_str()).collect();
        let asked = self.wanted.keys().filter(|name| *name != WILDCARD);
        let had = self.known.keys().chain(&self.pending.1);
        let expected: BTreeSet<_> = had.chain(asked).collect();
        let expected = expected.into_iter();
        let absent = expected.filter(|name| !told.contains(name.as_str()));
        absent.cloned().collect()
    }

    /// A response has come that is to be answered.
    pub(super) fn heard(&mut self, nonce: &str) {
        nonce.clone_into(&mut self.nonce);
        self.is_waiting = true;
    }

    /// An update with these names is to be applied.
    pub(super) fn begin<'a>(&mut self, names: impl Iterator<Item = &'a String>) {
        self.pending.0 += 1;
        self.pending.1.extend(names.cloned());
    }

    /// One of those is applied, or refused.
    pub(super) fn end(&mut self) {
        self.pending.0 = self.pending.0.saturating_sub(1);
        if self.pending.0 == 0 {
            self.pending.1.clear();
        }
    }

    /// The response with this nonce can be answered.
    pub(super) fn concluded(&mut self, nonce: &str) {
        self.is_waiting &= nonce != self.nonce;
    }

    /// Names that a response does not bring though they were asked for again: it may have been
    /// under way, and then the server has overlooked that they were given up.
    pub(super) fn doubt(&mut self, told: &[Added]) {
        told.iter().for_each(|one| self.settle(&one.name));
        for (name, tries) in &mut self.doubted {
            *tries -= 1;
            self.hidden.insert(name.clone());
        }
        self.is_changed |= !self.hidden.is_empty();
        self.doubted.retain(|_, tries| *tries > 0);
    }

    fn settle(&mut self, name: &str) {
        self.doubted.remove(name);
        self.hidden.remove(name);
    }

    pub(super) fn close(&mut self) {
        *self = Self {
            wanted: take(&mut self.wanted),
            known: take(&mut self.known),
            pending: take(&mut self.pending),
            ..Self::default()
        };
    }

    /// All names, if the server has not read them yet and no answer will say them.
    pub(super) fn take_change(&mut self) -> Option<Vec<String>> {
        if !self.is_open && !self.wanted.is_empty() {
            self.is_open = true;
            self.is_changed = true;
        }
        let is_due = self.is_changed && !self.is_waiting;
        is_due.then(|| self.take_names(&self.nonce.clone()))
    }

    /// All names, for a request that answers the response with this nonce.
    pub(super) fn take_names(&mut self, nonce: &str) -> Vec<String> {
        let mut hidden = BTreeSet::new();
        if nonce == self.nonce {
            hidden = take(&mut self.hidden);
            self.is_changed = !hidden.is_empty();
        }
        let names = self.wanted.keys().filter(|name| !hidden.contains(*name));
        let names: Vec<_> = names.cloned().collect();
        // Every server takes an empty list for all; not every one knows the other way to say so.
        if names == [WILDCARD] && self.asked.is_empty() {
            return Vec::new();
        }
        self.asked.extend(names.iter().cloned());
        names
    }

    pub(super) fn wanted(&self) -> impl Iterator<Item = &str> {
        self.wanted.keys().map(String::as_str)
    }

    pub(super) fn missing(&self) -> impl Iterator<Item = &str> {
        let missing = self.wanted.iter().filter(|(_, answered)| !**answered);
        missing.map(|(name, _)| name.as_str())
    }

    pub(super) fn known(&self) -> impl Iterator<Item = (&str, &str)> {
        let known = self.known.iter();
        known.map(|(name, version)| (name.as_str(), version.as_str()))
    }
}
