//! One kind of resource on one stream.

use super::{ABSENT_BYTES_MAX, Change, Error, NAME_BYTES_MAX, Progress, Response, View};
use crate::delta::WILDCARD;
use crate::delta::ids::{Id, IdSet};
use crate::kind::Kind;
use crate::proto::discovery::DeltaDiscoveryRequest;
use std::collections::{BTreeMap, BTreeSet};

/// A response ends with the resource that makes it longer than this: so many bytes at once are
/// little for a socket, and far from the most that a client takes.
const RESPONSE_BYTES: usize = 512 << 10;
/// Most bytes of a refusal that are kept for people to see.
const DETAIL_BYTES_MAX: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Subscription {
    /// Whether the client has asked for this kind at all.
    is_open: bool,
    wants_all: bool,
    /// Wanted by name, and there.
    wanted: IdSet,
    /// Wanted by name, and not there.
    absent: BTreeSet<String>,
    /// Length of all names in `absent`.
    absent_bytes: usize,
    /// To be sent as they are then.
    queued: IdSet,
    /// To be told that they are gone. Invariant: none of them is queued.
    gone: BTreeSet<String>,
    /// Sent even if nothing is queued: the client waits for a first word.
    owes_answer: bool,
    waiting: Option<Waiting>,
    /// Sets of which something was refused, to be sent again one by one: a response is refused as a
    /// whole, whatever is wrong in it, and the rest of it must not be lost with that.
    suspects: Vec<IdSet>,
    /// The client does not use what it was sent last of these.
    refused: IdSet,
    detail: String,
}

/// A response that has not been answered.
#[derive(Debug)]
struct Waiting {
    nonce: u64,
    sent: IdSet,
}

impl Subscription {
    pub(super) fn has_new(&self) -> bool {
        self.owes_answer || !self.queued.is_empty() || !self.suspects.is_empty()
    }

    pub(super) fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    pub(super) const fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    pub(super) fn is_settled(&self) -> bool {
        let is_sent = !self.has_new() && !self.has_gone();
        self.is_open && is_sent && !self.is_waiting() && self.refused.is_empty()
    }

    pub(super) fn progress(&self) -> Option<Progress> {
        self.is_open.then(|| Progress {
            wanted: (!self.wants_all).then(|| self.wanted.len() + self.absent.len()),
            queued: self.queued.len() + self.gone.len() + self.suspected(),
            is_waiting: self.is_waiting(),
            refused: self.refused.len(),
            detail: self.detail.clone(),
        })
    }

    /// `None` if `request` does not answer the last response, else the refusal, if it is one.
    pub(super) fn on_answer(
        &mut self,
        kind: Kind,
        request: &DeltaDiscoveryRequest,
        view: &impl View,
    ) -> Option<Option<String>> {
        let nonce: u64 = request.response_nonce.parse().ok()?;
        let waiting = self.waiting.take_if(|waiting| waiting.nonce == nonce)?;
        let Some(error) = &request.error_detail else {
            self.refused.subtract(&waiting.sent);
            if self.refused.is_empty() && self.suspects.is_empty() {
                self.detail = String::new();
            }
            return Some(None);
        };
        // What went or is not wanted any more since it was sent cannot be refused.
        let is_there = |id: &Id| view.entry(kind, *id).is_some() && self.wants(*id);
        let refused: Vec<_> = waiting.sent.iter().filter(is_there).collect();
        match refused.split_at(refused.len() / 2) {
            (&[], last) => self.refused.extend(&last.iter().copied().collect()),
            (first, second) => {
                self.suspects.push(second.iter().copied().collect());
                self.suspects.push(first.iter().copied().collect());
            }
        }
        let end = error.message.floor_char_boundary(DETAIL_BYTES_MAX);
        self.detail = error.message[..end].to_owned();
        Some(Some(self.detail.clone()))
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
            if self.forget_absent(name) {
                self.wanted.insert(id);
            }
            if self.wants(id) {
                self.gone.remove(name);
                self.queued.insert(id);
            }
            return;
        }
        self.queued.remove(id);
        self.refused.remove(id);
        let was_wanted = self.wanted.remove(id);
        if was_wanted {
            self.note_absent(name);
        }
        if self.wants_all || was_wanted {
            self.gone.insert(name.to_owned());
        }
    }

    /// A response with as much as goes into one. Invariant: none is waiting.
    pub(super) fn respond(&mut self, kind: Kind, nonce: u64, view: &impl View) -> Response {
        debug_assert!(!self.is_waiting());
        let mut sent = IdSet::default();
        let mut added = Vec::new();
        let mut removed = Vec::new();
        if self.has_new() {
            (sent, added) = self.take_new(kind, view);
        } else {
            removed = self.take_gone();
        }
        self.owes_answer = false;
        self.waiting = Some(Waiting { nonce, sent });
        Response::new(kind, nonce, added, removed)
    }

    fn wants(&self, id: Id) -> bool {
        self.wants_all || self.wanted.contains(id)
    }

    fn take_new(&mut self, kind: Kind, view: &impl View) -> (IdSet, Vec<bytes::Bytes>) {
        let (mut sent, mut added, mut bytes) = (IdSet::default(), Vec::new(), 0);
        let suspects = self.take_suspects();
        for id in suspects.as_ref().unwrap_or(&self.queued).iter() {
            if bytes > RESPONSE_BYTES {
                break;
            }
            sent.insert(id);
            if let Some(entry) = view.entry(kind, id) {
                bytes += entry.encoded.len();
                added.push(entry.encoded.clone());
            }
        }
        self.queued.subtract(&sent);
        if self.queued.is_empty() {
            self.queued.clear();
        }
        // Those that have grown since.
        self.suspects
            .extend(suspects.and_then(|rest| rest.without(&sent)));
        (sent, added)
    }

    /// The next set of suspects, without those that are to be sent in a newer state.
    fn take_suspects(&mut self) -> Option<IdSet> {
        while let Some(mut suspects) = self.suspects.pop() {
            if !self.wants_all {
                suspects.intersect(&self.wanted);
            }
            if let Some(suspects) = suspects.without(&self.queued) {
                return Some(suspects);
            }
        }
        None
    }

    fn suspected(&self) -> usize {
        self.suspects.iter().map(IdSet::len).sum()
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
                self.wanted.insert(id);
                self.queued.insert(id);
            }
            None => {
                check_name(name)?;
                self.note_absent(name);
                self.gone.insert(name.to_owned());
            }
        }
        match self.absent_bytes {
            0..=ABSENT_BYTES_MAX => Ok(()),
            _ => Err(Error::TooManyNames),
        }
    }

    fn subscribe_all(&mut self, kind: Kind, view: &impl View) {
        self.wants_all = true;
        self.owes_answer = true;
        self.queued.extend(&view.all(kind).collect());
    }

    fn unsubscribe(&mut self, kind: Kind, name: &str, view: &impl View) {
        if name == WILDCARD {
            self.wants_all = false;
            self.queued.intersect(&self.wanted);
            self.refused.intersect(&self.wanted);
            self.gone.retain(|name| self.absent.contains(name));
            return;
        }
        let id = view.find(kind, name);
        let was_wanted = id.is_some_and(|id| self.wanted.remove(id)) | self.forget_absent(name);
        match id {
            // Still wanted as one of all: the client is told what it has.
            Some(id) if self.wants_all && was_wanted => {
                self.queued.insert(id);
            }
            None if self.wants_all && was_wanted => {
                self.gone.insert(name.to_owned());
            }
            Some(id) if !self.wants_all => {
                self.queued.remove(id);
                self.refused.remove(id);
            }
            None if !self.wants_all => {
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
                    self.queued.remove(id);
                }
                None if self.wants_all || self.absent.contains(name) => {
                    self.gone.insert(name.clone());
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }

    fn note_absent(&mut self, name: &str) {
        if self.absent.insert(name.to_owned()) {
            self.absent_bytes += name.len();
        }
    }

    /// Whether it was one.
    fn forget_absent(&mut self, name: &str) -> bool {
        let was_absent = self.absent.remove(name);
        if was_absent {
            self.absent_bytes -= name.len();
        }
        was_absent
    }
}

const fn check_name(name: &str) -> Result<(), Error> {
    match name.len() {
        0..=NAME_BYTES_MAX => Ok(()),
        _ => Err(Error::NameTooLong),
    }
}
