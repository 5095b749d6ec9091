//! One kind of resource on one stream.

use super::interest::{Interest, check_name};
use super::outbox::{Answer, Outbox, RESPONSE_BYTES};
use super::{Change, Error, Progress, Response, View};
use crate::delta::WILDCARD;
use crate::delta::ids::IdSet;
use crate::kind::Kind;
use crate::proto::discovery::DeltaDiscoveryRequest;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Subscription {
    /// Whether the client has asked for this kind at all.
    is_open: bool,
    interest: Interest,
    outbox: Outbox,
    /// To be told that they are gone. Invariant: none of them is queued.
    gone: BTreeSet<String>,
}

impl Subscription {
    pub(super) fn has_new(&self) -> bool {
        self.outbox.has_new()
    }

    pub(super) fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    pub(super) const fn is_waiting(&self) -> bool {
        self.outbox.is_waiting()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.is_open && !self.has_gone() && self.outbox.is_settled()
    }

    pub(super) fn progress(&self) -> Option<Progress> {
        self.is_open.then(|| Progress {
            wanted: self.interest.count(),
            queued: self.outbox.len() + self.gone.len(),
            is_waiting: self.is_waiting(),
            refused: self.outbox.refused.len(),
            detail: self.outbox.detail.clone(),
        })
    }

    /// `None` if `request` does not answer the last response, else the refusal, if it is one.
    pub(super) fn on_answer(
        &mut self,
        kind: Kind,
        request: &DeltaDiscoveryRequest,
        view: &impl View,
    ) -> Option<Option<String>> {
        let error = request.error_detail.as_ref();
        match self.outbox.on_answer(&request.response_nonce, error)? {
            Answer::Accepted => Some(None),
            Answer::Refused(sent) => {
                // What went or is not wanted any more since it was sent cannot be refused.
                let is_there = |id| view.entry(kind, id).is_some() && self.interest.wants(id);
                let refused: Vec<_> = sent.iter().filter(|id| is_there(*id)).collect();
                self.outbox.suspect(&refused);
                Some(Some(self.outbox.detail.clone()))
            }
        }
    }

    /// Takes the names of a request. The first one of a kind also says what the client has.
    pub(super) fn on_names(
        &mut self,
        kind: Kind,
        request: &DeltaDiscoveryRequest,
        view: &impl View,
    ) -> Result<(), Error> {
        let is_first = !self.is_open;
        self.is_open = true;
        for name in &request.resource_names_unsubscribe {
            self.unsubscribe(kind, name, view);
        }
        for name in &request.resource_names_subscribe {
            self.subscribe(kind, name, view)?;
        }
        if !is_first {
            return Ok(());
        }
        // Clients older than the wildcard mean it when they ask for nothing at all.
        let asks_nothing = request.resource_names_subscribe.is_empty();
        if asks_nothing && matches!(kind, Kind::Cluster | Kind::Listener) {
            self.subscribe_all(kind, view);
        }
        self.skip_known(kind, &request.initial_resource_versions, view)
    }

    pub(super) fn on_change(&mut self, change: Change<'_>) {
        let Change { id, name, is_there } = change;
        if is_there {
            if self.interest.on_added(id, name) {
                self.gone.remove(name);
                self.outbox.queued.insert(id);
            }
            return;
        }
        self.outbox.forget(id);
        if self.interest.on_gone(id, name) {
            self.gone.insert(name.to_owned());
        }
    }

    /// The names of what is new.
    pub(super) fn changed<'a>(
        &'a self,
        kind: Kind,
        view: &'a impl View,
    ) -> impl Iterator<Item = &'a str> {
        self.outbox.names(kind, view)
    }

    /// Sends what has that name once more, if it is wanted.
    pub(super) fn repeat(&mut self, kind: Kind, name: &str, view: &impl View) {
        if let Some(id) = view.find(kind, name).filter(|id| self.interest.wants(*id)) {
            self.outbox.queued.insert(id);
        }
    }

    /// A response with as much as goes into one. Invariant: none is waiting.
    pub(super) fn respond(&mut self, kind: Kind, nonce: u64, view: &impl View) -> Response {
        let mut sent = IdSet::default();
        let mut added = Vec::new();
        let mut removed = Vec::new();
        if self.has_new() {
            let wanted = (!self.interest.wants_all).then_some(&self.interest.wanted);
            let entries;
            (sent, entries) = self.outbox.take(kind, view, wanted);
            added = entries.iter().map(|entry| entry.encoded.clone()).collect();
        } else {
            removed = self.take_gone();
        }
        self.outbox.wait(nonce, sent);
        Response::new(kind, nonce, added, removed)
    }

    fn take_gone(&mut self) -> Vec<String> {
        let (mut removed, mut bytes) = (Vec::new(), 0);
        while bytes <= RESPONSE_BYTES {
            let Some(name) = self.gone.pop_first() else {
                break;
            };
            bytes += name.len();
            removed.push(name);
        }
        removed
    }

    /// Whatever is asked for is sent, though it may have been before: the client may have dropped
    /// it, and changed its mind before it said so.
    fn subscribe(&mut self, kind: Kind, name: &str, view: &impl View) -> Result<(), Error> {
        if name == WILDCARD {
            self.subscribe_all(kind, view);
            return Ok(());
        }
        match view.find(kind, name) {
            Some(id) => {
                self.interest.wanted.insert(id);
                self.outbox.queued.insert(id);
            }
            None => {
                check_name(name)?;
                self.interest.note_absent(name);
                self.gone.insert(name.to_owned());
            }
        }
        self.interest.check()
    }

    fn subscribe_all(&mut self, kind: Kind, view: &impl View) {
        self.interest.wants_all = true;
        self.outbox.owes_answer = true;
        self.outbox.queued.extend(&view.all(kind).collect());
    }

    fn unsubscribe(&mut self, kind: Kind, name: &str, view: &impl View) {
        if name == WILDCARD {
            self.interest.wants_all = false;
            self.outbox.retain(&self.interest.wanted);
            self.gone.retain(|name| self.interest.is_absent(name));
            return;
        }
        let id = view.find(kind, name);
        let was_wanted = id.is_some_and(|id| self.interest.wanted.remove(id))
            | self.interest.forget_absent(name);
        let wants_all = self.interest.wants_all;
        match id {
            // Still wanted as one of all: the client is told what it has.
            Some(id) if wants_all && was_wanted => {
                self.outbox.queued.insert(id);
            }
            None if wants_all && was_wanted => {
                self.gone.insert(name.to_owned());
            }
            Some(id) if !wants_all => {
                self.outbox.forget(id);
            }
            None if !wants_all => {
                self.gone.remove(name);
            }
            Some(_) | None => {}
        }
    }

    /// Drops from the queue what the client has, and queues what it has and there is no more.
    fn skip_known(
        &mut self,
        kind: Kind,
        known: &BTreeMap<String, String>,
        view: &impl View,
    ) -> Result<(), Error> {
        for (name, version) in known {
            check_name(name)?;
            let entry = view
                .find(kind, name)
                .and_then(|id| Some((id, view.entry(kind, id)?)));
            match entry {
                Some((id, entry)) if entry.version == *version => {
                    self.outbox.queued.remove(id);
                }
                None if self.interest.wants_all || self.interest.is_absent(name) => {
                    self.gone.insert(name.clone());
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }
}
