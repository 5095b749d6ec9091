//! One kind of resource on one stream. Every request names all that is wanted.

use super::response::{respond, version_of};
use crate::delta::WILDCARD;
use crate::delta::ids::{Id, IdSet};
use crate::delta::server::interest::{Interest, check_name};
use crate::delta::server::outbox::{Answer, Outbox, RESPONSE_BYTES};
use crate::delta::server::{Change, Entry, Error, Progress, Response, View};
use crate::kind::Kind;
use crate::proto::discovery::DiscoveryRequest;
use crate::proto::endpoint::ClusterLoadAssignment;
use crate::sotw::is_whole;
use prost::Message;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::{replace, take};

#[derive(Debug, Default)]
pub(super) struct Subscription {
    /// Whether the client has asked for this kind at all.
    is_open: bool,
    /// Whether it has asked for names. Before that, none mean all.
    is_named: bool,
    /// What the names of the last request come to, so that the same need not be looked up again.
    names: u64,
    interest: Interest,
    outbox: Outbox,
    /// Of the last response; 0 before that.
    nonce: u64,
    /// Of clusters and listeners: those that the client was told last.
    told: IdSet,
    /// Clusters that are gone, and told until nothing refers to them.
    gone: BTreeMap<String, Leaving>,
    /// Endpoints of such clusters.
    former: BTreeMap<String, Entry>,
    /// Endpoints that are gone, and told once more: the client may make their cluster anew, and not
    /// hear that it is gone before it has them. `None`: there are none.
    last: BTreeMap<String, Option<Entry>>,
    /// Whether it is one of endpoints, of a client that is told clusters as well.
    answers_absent: bool,
}

/// A cluster that is gone.
#[derive(Debug)]
struct Leaving {
    entry: Entry,
    /// Whether it was not told since it went: the client may not know this last state of it.
    is_new: bool,
}

impl Subscription {
    pub(super) fn has_new(&self) -> bool {
        self.outbox.has_new() || !self.last.is_empty()
    }

    pub(super) fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    pub(super) const fn is_waiting(&self) -> bool {
        self.outbox.is_waiting()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.is_open && !self.has_new() && !self.has_gone() && self.outbox.is_settled()
    }

    pub(super) fn progress(&self) -> Option<Progress> {
        self.is_open.then(|| Progress {
            wanted: self.interest.count(),
            queued: self.outbox.len() + self.gone.len() + self.last.len(),
            is_waiting: self.is_waiting(),
            refused: self.outbox.refused.len(),
            detail: self.outbox.detail.clone(),
        })
    }

    /// `None` if the request does not answer the last response, else the refusal, if it is one.
    pub(super) fn on_request(
        &mut self,
        kind: Kind,
        request: &DiscoveryRequest,
        view: &impl View,
    ) -> Result<Option<Option<String>>, Error> {
        let is_current = self.nonce == 0 || request.response_nonce.parse() == Ok(self.nonce);
        if !is_current {
            return Ok(None);
        }
        let is_first = !self.is_open;
        let answer = self.on_answer(kind, request, view);
        let is_changed = self.on_names(kind, &request.resource_names, view)?;
        if is_first {
            self.skip_known(kind, &request.version_info, view);
        } else if !is_changed && answer.is_none() {
            self.repeat_all(kind, view);
        }
        Ok(answer)
    }

    pub(super) fn on_change(&mut self, kind: Kind, change: Change<'_>, view: &impl View) {
        let Change { id, name, is_there } = change;
        if is_there {
            if self.interest.on_added(id, name) {
                if self.gone.remove(name).is_some() {
                    self.told.insert(id);
                }
                self.former.remove(name);
                self.last.remove(name);
                self.outbox.queued.insert(id);
            }
            return;
        }
        let was_queued = self.outbox.queued.contains(id);
        self.outbox.forget(id);
        if !self.interest.on_gone(id, name) {
            return;
        }
        let former = view.former(kind, id).cloned();
        match (kind, former) {
            _ if is_whole(kind) && !self.told.remove(id) => {}
            (Kind::Cluster, Some(entry)) => {
                let is_new = true;
                self.gone.insert(name.to_owned(), Leaving { entry, is_new });
            }
            (Kind::Endpoints, Some(entry)) => {
                if was_queued {
                    self.last.insert(name.to_owned(), Some(entry.clone()));
                }
                self.former.insert(name.to_owned(), entry);
            }
            // Of the rest nothing can be said but that it is not among all.
            _ => self.outbox.owes_answer |= is_whole(kind),
        }
    }

    /// From now on endpoints that are not there are answered for: with none.
    pub(super) const fn answer_all(&mut self) {
        self.answers_absent = true;
    }

    /// Sends what has that name once more, if it is wanted.
    pub(super) fn repeat(&mut self, kind: Kind, name: &str, view: &impl View) {
        match (view.find(kind, name), self.former.get(name)) {
            (Some(id), _) if self.interest.wants(id) => drop(self.outbox.queued.insert(id)),
            (None, Some(entry)) => drop(self.last.insert(name.to_owned(), Some(entry.clone()))),
            _ => {}
        }
    }

    /// Nothing refers any more to what was told last of those that are gone.
    pub(super) fn forget_former(&mut self) {
        self.former.clear();
    }

    /// The names of what is to be told in a state that is new.
    pub(super) fn changed<'a>(
        &'a self,
        kind: Kind,
        view: &'a impl View,
    ) -> impl Iterator<Item = &'a str> {
        let queued = self.outbox.names(kind, view);
        let gone = self.gone.values().filter(|leaving| leaving.is_new);
        queued.chain(gone.map(|leaving| leaving.entry.name.as_str()))
    }

    /// Nothing refers to clusters that are gone: they are told no more.
    pub(super) fn let_go(&mut self) {
        self.gone.clear();
    }

    /// A response. Invariant: none is waiting.
    pub(super) fn respond(&mut self, kind: Kind, nonce: u64, view: &impl View) -> Response {
        let (sent, mut entries) = match is_whole(kind) {
            true => self.take_all(kind, view),
            false => {
                let wanted = (!self.interest.wants_all).then_some(&self.interest.wanted);
                self.outbox.take(kind, view, wanted)
            }
        };
        let last = self.take_last();
        entries.extend(self.gone.values().map(|leaving| &leaving.entry));
        entries.extend(&last);
        self.nonce = nonce;
        self.outbox.wait(nonce, sent);
        let response = respond(kind, nonce, &entries);
        let gone = self.gone.values_mut();
        gone.for_each(|leaving| leaving.is_new = false);
        response
    }

    fn on_answer(
        &mut self,
        kind: Kind,
        request: &DiscoveryRequest,
        view: &impl View,
    ) -> Option<Option<String>> {
        let error = request.error_detail.as_ref();
        match self.outbox.on_answer(&request.response_nonce, error)? {
            Answer::Accepted => Some(None),
            Answer::Refused(sent) => {
                // What went or is not wanted any more since it was sent cannot be refused.
                let is_there = |id| view.entry(kind, id).is_some() && self.interest.wants(id);
                let refused = sent.iter().filter(|id| is_there(*id));
                match is_whole(kind) {
                    // What is left out would be taken for gone.
                    true => self.outbox.refused.extend(&refused.collect()),
                    false => self.outbox.suspect(&refused.collect::<Vec<_>>()),
                }
                Some(Some(self.outbox.detail.clone()))
            }
        }
    }

    /// Whether something else is wanted than before.
    fn on_names(&mut self, kind: Kind, names: &[String], view: &impl View) -> Result<bool, Error> {
        let hash = hash(names);
        if self.is_open && hash == self.names {
            return Ok(false);
        }
        self.names = hash;
        self.is_named |= !names.is_empty();
        let wants_all = !self.is_named && is_whole(kind);
        let next = interest(kind, names, wants_all, view)?;
        let before = replace(&mut self.interest, next);
        if self.answers_absent {
            self.answer_absent(names, &before);
        }
        let is_first = !replace(&mut self.is_open, true);
        let is_changed = is_first || self.interest.differs(&before);
        if !self.interest.wants_all {
            self.outbox.retain(&self.interest.wanted);
        }
        let mut added: IdSet = self.wanted(kind, view).collect();
        if !before.wants_all {
            added.subtract(&before.wanted);
            self.outbox.queued.extend(&added);
        }
        self.outbox.owes_answer |= is_whole(kind) && is_changed;
        Ok(is_changed)
    }

    /// Whoever asks for the endpoints of a cluster that is gone meanwhile is told the last ones.
    fn answer_absent(&mut self, names: &[String], before: &Interest) {
        let is_absent = |name: &&String| self.interest.is_absent(name) && !before.is_absent(name);
        for name in names.iter().filter(is_absent) {
            let former = self.former.get(name).cloned();
            self.last.insert(name.clone(), former);
        }
    }

    fn wanted<'a>(&'a self, kind: Kind, view: &'a impl View) -> impl Iterator<Item = Id> + 'a {
        let all = self.interest.wants_all.then(|| view.all(kind));
        let some = (!self.interest.wants_all).then(|| self.interest.wanted.iter());
        all.into_iter().flatten().chain(some.into_iter().flatten())
    }

    fn take_all<'a>(&mut self, kind: Kind, view: &'a impl View) -> (IdSet, Vec<&'a Entry>) {
        let sent: IdSet = self.wanted(kind, view).collect();
        self.outbox.queued.clear();
        self.told.clone_from(&sent);
        let entries = sent.iter().filter_map(|id| view.entry(kind, id)).collect();
        (sent, entries)
    }

    /// As much of it as goes into one response.
    fn take_last(&mut self) -> Vec<Entry> {
        let (mut last, mut bytes) = (Vec::new(), 0);
        while bytes <= RESPONSE_BYTES
            && let Some((name, entry)) = self.last.pop_first()
        {
            let entry = entry.unwrap_or_else(|| none(&name));
            bytes += entry.encoded.len();
            last.push(entry);
        }
        last
    }

    /// Nothing is to be said to a client that uses all there is. Only of a kind of which a version
    /// stands for all: of others a client may have begun to want something since.
    fn skip_known(&mut self, kind: Kind, version: &str, view: &impl View) {
        if version.is_empty() || !is_whole(kind) || !self.interest.wants_all {
            return;
        }
        let entries = self.wanted(kind, view);
        let entries = entries.filter_map(|id| view.entry(kind, id));
        if version == version_of(entries) {
            self.told = take(&mut self.outbox.queued);
            self.outbox.owes_answer = false;
        }
    }

    /// A client that says the same again has dropped something, or made anew what uses it.
    fn repeat_all(&mut self, kind: Kind, view: &impl View) {
        let all: IdSet = self.wanted(kind, view).collect();
        self.outbox.queued.extend(&all);
        self.outbox.owes_answer |= is_whole(kind);
    }
}

fn interest(
    kind: Kind,
    names: &[String],
    wants_all: bool,
    view: &impl View,
) -> Result<Interest, Error> {
    let mut interest = Interest::default();
    interest.wants_all = wants_all;
    for name in names {
        match view.find(kind, name) {
            _ if name == WILDCARD => interest.wants_all = true,
            Some(id) => {
                interest.wanted.insert(id);
            }
            None => {
                check_name(name)?;
                interest.note_absent(name);
            }
        }
    }
    interest.check()?;
    Ok(interest)
}

/// That a cluster has no endpoints.
fn none(name: &str) -> Entry {
    let none = ClusterLoadAssignment {
        cluster_name: name.to_owned(),
        ..ClusterLoadAssignment::default()
    };
    Entry::new(
        Kind::Endpoints,
        name.to_owned(),
        none.encode_to_vec().into(),
    )
}

fn hash(names: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    names.hash(&mut hasher);
    hasher.finish()
}
