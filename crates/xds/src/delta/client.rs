//! The side that is told: what it wants, what it has, and what it has to say to the server.
//! Driven by the sidecar: names in, responses in, requests out. No I/O, no clock; a stream that
//! ends and one that begins are told to it.

#[cfg(test)]
mod tests;

pub use crate::update::{Added, Error, Update};

use super::WILDCARD;
use crate::kind::Kind;
use crate::proto::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node, Resource};
use crate::update::{check_names, refusal};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Everything that one client wants and has, over all streams of its life.
#[derive(Debug)]
pub struct Client {
    node: Node,
    subscriptions: [Subscription; Kind::COUNT],
    /// Answers to responses of this stream, in the order of the responses.
    answers: VecDeque<DeltaDiscoveryRequest>,
    /// Counts streams, so that an update of an old one is not answered on a new one.
    stream: u64,
    is_connected: bool,
    /// Whether this stream has heard who we are.
    is_introduced: bool,
}

/// One kind of resource.
#[derive(Debug, Default)]
struct Subscription {
    /// Names, and whether the server has said something about each.
    wanted: BTreeMap<String, bool>,
    /// What was accepted: name → version. Invariant: wanted, or all are.
    known: BTreeMap<String, String>,
    /// Whether this stream has seen a request for it. Invariant: else the two below are empty.
    is_open: bool,
    subscribe: BTreeSet<String>,
    unsubscribe: BTreeSet<String>,
}

impl Client {
    /// One that wants nothing yet and introduces itself as `node`.
    #[must_use]
    pub fn new(node: Node) -> Self {
        Self {
            node,
            subscriptions: Default::default(),
            answers: VecDeque::new(),
            stream: 0,
            is_connected: false,
            is_introduced: false,
        }
    }

    /// Wants `names` from now on; [`WILDCARD`] stands for all.
    pub fn subscribe(&mut self, kind: Kind, names: impl IntoIterator<Item = impl Into<String>>) {
        let subscription = &mut self.subscriptions[kind.index()];
        for name in names {
            subscription.subscribe(name.into());
        }
    }

    /// Wants `names` no more, and forgets them.
    pub fn unsubscribe(&mut self, kind: Kind, names: impl IntoIterator<Item = impl AsRef<str>>) {
        let subscription = &mut self.subscriptions[kind.index()];
        for name in names {
            subscription.unsubscribe(name.as_ref());
        }
    }

    /// Says that `name` is there already, from before this process. Only for what is wanted.
    pub fn restore(&mut self, kind: Kind, name: &str, version: &str) {
        let subscription = &mut self.subscriptions[kind.index()];
        if subscription.wants(name) {
            subscription
                .known
                .insert(name.to_owned(), version.to_owned());
            if let Some(answered) = subscription.wanted.get_mut(name) {
                *answered = true;
            }
        }
    }

    /// A stream has begun. What is to be said first is asked for with [`Self::take_request`].
    pub fn connected(&mut self) {
        self.disconnected();
        self.stream += 1;
        self.is_connected = true;
    }

    /// The stream has ended; nothing is to be sent until [`Self::connected`].
    pub fn disconnected(&mut self) {
        self.is_connected = false;
        self.is_introduced = false;
        self.answers.clear();
        for subscription in &mut self.subscriptions {
            subscription.close();
        }
    }

    /// What is to be sent next, if there is anything. To be asked again until there is not,
    /// whenever something was told to this machine.
    pub fn take_request(&mut self) -> Option<DeltaDiscoveryRequest> {
        if !self.is_connected {
            return None;
        }
        let answer = self.answers.pop_front();
        let mut request =
            answer.or_else(|| Kind::ALL.iter().find_map(|kind| self.change(*kind)))?;
        if !self.is_introduced {
            self.is_introduced = true;
            request.node = Some(self.node.clone());
        }
        Some(request)
    }

    /// What a response says about what is wanted; the rest of it is dropped.
    ///
    /// # Errors
    /// [`Error`]: nothing of the response may be used. That is the server's fault, and worth a line
    /// in the log; the stream goes on.
    pub fn on_response(&mut self, response: DeltaDiscoveryResponse) -> Result<Update, Error> {
        let nonce = response.nonce.clone();
        let type_url = response.type_url.clone();
        self.read(response).inspect_err(|error| {
            if !nonce.is_empty() {
                self.answer(&type_url, nonce, Some(&error.to_string()));
            }
        })
    }

    /// All of `update` is in use now.
    pub fn accept(&mut self, update: &Update) {
        self.keep(update, &BTreeSet::new());
        self.conclude(update, None);
    }

    /// Nothing of `update` is in use: all stays as it was.
    pub fn refuse(&mut self, update: &Update, detail: &str) {
        self.conclude(update, Some(detail));
    }

    /// `update` is in use but for `refused`, which stay as they were.
    pub fn accept_but(&mut self, update: &Update, refused: &BTreeSet<String>, detail: &str) {
        self.keep(update, refused);
        self.conclude(update, Some(detail));
    }

    /// What is wanted, in order.
    pub fn wanted(&self, kind: Kind) -> impl Iterator<Item = &str> {
        self.subscriptions[kind.index()]
            .wanted
            .keys()
            .map(String::as_str)
    }

    /// Wanted names of which the server has said nothing yet.
    pub fn missing(&self, kind: Kind) -> impl Iterator<Item = &str> {
        let wanted = self.subscriptions[kind.index()].wanted.iter();
        wanted
            .filter(|(_, answered)| !**answered)
            .map(|(name, _)| name.as_str())
    }

    /// Names and versions of what was accepted.
    pub fn known(&self, kind: Kind) -> impl Iterator<Item = (&str, &str)> {
        let known = self.subscriptions[kind.index()].known.iter();
        known.map(|(name, version)| (name.as_str(), version.as_str()))
    }

    fn change(&mut self, kind: Kind) -> Option<DeltaDiscoveryRequest> {
        let mut request = self.subscriptions[kind.index()].take_change()?;
        request.type_url = kind.type_url().to_owned();
        Some(request)
    }

    fn read(&self, response: DeltaDiscoveryResponse) -> Result<Update, Error> {
        let Some(kind) = Kind::find(&response.type_url) else {
            return Err(Error::UnknownType(response.type_url));
        };
        let subscription = &self.subscriptions[kind.index()];
        if !subscription.is_open {
            return Err(Error::NotAsked(kind));
        }
        if response.nonce.is_empty() {
            return Err(Error::NoNonce(kind));
        }
        let resources = response.resources.into_iter();
        let mut added = resources
            .map(|one| read_one(kind, one))
            .collect::<Result<Vec<_>, _>>()?;
        let mut removed = response.removed_resources;
        let names = added.iter().map(|one| &one.name);
        check_names(kind, names.chain(&removed))?;
        added.retain(|one| subscription.wants(&one.name));
        removed.retain(|name| subscription.wants(name));
        Ok(Update {
            kind,
            added,
            removed,
            nonce: response.nonce,
            version: String::new(),
            stream: self.stream,
        })
    }

    fn keep(&mut self, update: &Update, refused: &BTreeSet<String>) {
        let subscription = &mut self.subscriptions[update.kind.index()];
        for one in &update.added {
            if subscription.wants(&one.name) && !refused.contains(&one.name) {
                subscription
                    .known
                    .insert(one.name.clone(), one.version.clone());
            }
        }
        for name in update
            .removed
            .iter()
            .filter(|name| !refused.contains(*name))
        {
            subscription.known.remove(name);
        }
    }

    fn conclude(&mut self, update: &Update, detail: Option<&str>) {
        let subscription = &mut self.subscriptions[update.kind.index()];
        let added = update.added.iter().map(|one| one.name.as_str());
        let names = added.chain(update.removed.iter().map(String::as_str));
        for name in names.chain([WILDCARD]) {
            if let Some(answered) = subscription.wanted.get_mut(name) {
                *answered = true;
            }
        }
        if update.stream == self.stream && self.is_connected {
            self.answer(update.kind.type_url(), update.nonce.clone(), detail);
        }
    }

    fn answer(&mut self, type_url: &str, nonce: String, detail: Option<&str>) {
        self.answers.push_back(DeltaDiscoveryRequest {
            type_url: type_url.to_owned(),
            response_nonce: nonce,
            error_detail: detail.map(refusal),
            ..DeltaDiscoveryRequest::default()
        });
    }
}

impl Subscription {
    fn wants(&self, name: &str) -> bool {
        self.wanted.contains_key(name) || self.wanted.contains_key(WILDCARD)
    }

    fn subscribe(&mut self, name: String) {
        if self.wanted.contains_key(&name) {
            return;
        }
        if self.is_open {
            self.unsubscribe.remove(&name);
            self.subscribe.insert(name.clone());
        }
        let answered = self.known.contains_key(&name);
        self.wanted.insert(name, answered);
    }

    fn unsubscribe(&mut self, name: &str) {
        if self.wanted.remove(name).is_none() {
            return;
        }
        if self.is_open {
            // The server may have heard of an earlier subscription, so it is told in any case.
            self.subscribe.remove(name);
            self.unsubscribe.insert(name.to_owned());
        }
        if !self.wanted.contains_key(WILDCARD) {
            self.known
                .retain(|known, _| self.wanted.contains_key(known));
        }
    }

    fn close(&mut self) {
        self.is_open = false;
        self.subscribe.clear();
        self.unsubscribe.clear();
    }

    /// The first request of a stream says everything; later ones what has changed.
    fn take_change(&mut self) -> Option<DeltaDiscoveryRequest> {
        let mut request = DeltaDiscoveryRequest::default();
        if !self.is_open {
            if self.wanted.is_empty() {
                return None;
            }
            self.is_open = true;
            request.resource_names_subscribe = self.wanted.keys().cloned().collect();
            request.initial_resource_versions = self.known.clone();
            return Some(request);
        }
        if self.subscribe.is_empty() && self.unsubscribe.is_empty() {
            return None;
        }
        let subscribe = std::mem::take(&mut self.subscribe);
        request.resource_names_subscribe = subscribe.into_iter().collect();
        let unsubscribe = std::mem::take(&mut self.unsubscribe);
        request.resource_names_unsubscribe = unsubscribe.into_iter().collect();
        Some(request)
    }
}

fn read_one(kind: Kind, resource: Resource) -> Result<Added, Error> {
    let name = resource.name;
    match resource.resource {
        Some(body) if body.type_url == kind.type_url() && !name.is_empty() => Ok(Added {
            name,
            version: resource.version,
            value: body.value,
        }),
        _ => Err(Error::NoBody { kind, name }),
    }
}
