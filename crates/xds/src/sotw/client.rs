//! The side that is told, of the state-of-the-world variant: what it wants, what it has, and what
//! it has to say to the server. Driven by the sidecar, as `delta::client` is and with its
//! interface. No I/O, no clock.

#[cfg(test)]
mod simulation;
mod subscription;
#[cfg(test)]
mod tests;

use crate::delta::WILDCARD;
use crate::delta::server::version;
use crate::kind::Kind;
use crate::proto::discovery::{DiscoveryRequest, DiscoveryResponse, Node};
use crate::proto::google::{Any, Status};
use crate::sotw::is_whole;
use crate::update::{Added, Error, Update, check_names, refusal};
use prost::Message;
use std::collections::{BTreeSet, VecDeque};
use subscription::Subscription;

/// Everything that one client wants and has, over all streams of its life.
///
/// Each stream begins without a version: what servers call their states may count from one again
/// after a restart, and a client that names the old one would be told nothing.
#[derive(Debug)]
pub struct Client {
    node: Node,
    subscriptions: [Subscription; Kind::COUNT],
    /// Answers to responses of this stream, in the order of the responses.
    answers: VecDeque<Answer>,
    /// Counts streams, so that an update of an old one is not answered on a new one.
    stream: u64,
    is_connected: bool,
    /// Whether this stream has heard who we are.
    is_introduced: bool,
}

/// What a response is answered with. The names are those of the moment when it is sent.
#[derive(Debug)]
struct Answer {
    type_url: String,
    /// Of the state that is in use.
    version: String,
    nonce: String,
    refusal: Option<Status>,
}

/// What all resources have in common.
#[derive(Clone, PartialEq, prost::Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
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

    /// Wants `names` from now on; [`WILDCARD`] stands for all listeners or clusters, and a stream
    /// that has asked for them cannot take that back.
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
            subscription.keep(name, version);
            subscription.answered(name);
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
    pub fn take_request(&mut self) -> Option<DiscoveryRequest> {
        if !self.is_connected {
            return None;
        }
        let mut request = match self.answers.pop_front() {
            Some(answer) => self.answer(answer),
            None => Kind::ALL.into_iter().find_map(|kind| self.change(kind))?,
        };
        if !self.is_introduced {
            self.is_introduced = true;
            request.node = Some(self.node.clone());
        }
        Some(request)
    }

    /// What a response says about what is wanted, as far as it is new; the rest of it is dropped.
    /// Of listeners and clusters it says all: what is not in it is gone.
    ///
    /// # Errors
    /// [`Error`]: nothing of the response may be used. That is the server's fault, and worth a line
    /// in the log; the stream goes on.
    pub fn on_response(&mut self, response: DiscoveryResponse) -> Result<Update, Error> {
        let nonce = response.nonce.clone();
        let type_url = response.type_url.clone();
        self.read(response).inspect_err(|error| {
            if !nonce.is_empty() {
                self.conclude(&type_url, nonce, Some(&error.to_string()));
            }
        })
    }

    /// All of `update` is in use now.
    pub fn accept(&mut self, update: &Update) {
        self.keep(update, &BTreeSet::new());
        if self.is_current(update) {
            let subscription = &mut self.subscriptions[update.kind.index()];
            subscription.version.clone_from(&update.version);
        }
        self.close(update, None);
    }

    /// Nothing of `update` is in use: all stays as it was.
    pub fn refuse(&mut self, update: &Update, detail: &str) {
        self.close(update, Some(detail));
    }

    /// `update` is in use but for `refused`, which stay as they were.
    pub fn accept_but(&mut self, update: &Update, refused: &BTreeSet<String>, detail: &str) {
        self.keep(update, refused);
        self.close(update, Some(detail));
    }

    /// What is wanted, in order.
    pub fn wanted(&self, kind: Kind) -> impl Iterator<Item = &str> {
        self.subscriptions[kind.index()].wanted()
    }

    /// Wanted names of which the server has said nothing yet.
    pub fn missing(&self, kind: Kind) -> impl Iterator<Item = &str> {
        self.subscriptions[kind.index()].missing()
    }

    /// Names and versions of what was accepted.
    pub fn known(&self, kind: Kind) -> impl Iterator<Item = (&str, &str)> {
        self.subscriptions[kind.index()].known()
    }

    fn answer(&mut self, answer: Answer) -> DiscoveryRequest {
        let kind = Kind::find(&answer.type_url);
        let subscription = kind.map(|kind| &mut self.subscriptions[kind.index()]);
        DiscoveryRequest {
            resource_names: subscription
                .filter(|it| it.is_open)
                .map(|it| it.take_names(&answer.nonce))
                .unwrap_or_default(),
            version_info: answer.version,
            type_url: answer.type_url,
            response_nonce: answer.nonce,
            error_detail: answer.refusal,
            node: None,
        }
    }

    fn change(&mut self, kind: Kind) -> Option<DiscoveryRequest> {
        let subscription = &mut self.subscriptions[kind.index()];
        let resource_names = subscription.take_change()?;
        Some(DiscoveryRequest {
            resource_names,
            version_info: subscription.version.clone(),
            type_url: kind.type_url().to_owned(),
            response_nonce: subscription.nonce.clone(),
            ..DiscoveryRequest::default()
        })
    }

    fn read(&mut self, response: DiscoveryResponse) -> Result<Update, Error> {
        let Some(kind) = Kind::find(&response.type_url) else {
            return Err(Error::UnknownType(response.type_url));
        };
        let subscription = &mut self.subscriptions[kind.index()];
        if !subscription.is_open {
            return Err(Error::NotAsked(kind));
        }
        if response.nonce.is_empty() {
            return Err(Error::NoNonce(kind));
        }
        subscription.heard(&response.nonce);
        let resources = response.resources.into_iter();
        let all = resources
            .map(|one| read_one(kind, one))
            .collect::<Result<Vec<_>, _>>()?;
        check_names(kind, all.iter().map(|one| &one.name))?;
        let removed = match is_whole(kind) {
            true => subscription.absent(&all),
            false => Vec::new(),
        };
        subscription.doubt(&all);
        let is_new = |one: &Added| subscription.wants(&one.name) && !subscription.has(one);
        let added: Vec<_> = all.into_iter().filter(is_new).collect();
        subscription.begin(added.iter().map(|one| &one.name).chain(&removed));
        Ok(Update {
            kind,
            added,
            removed,
            nonce: response.nonce,
            version: response.version_info,
            stream: self.stream,
        })
    }

    fn keep(&mut self, update: &Update, refused: &BTreeSet<String>) {
        let subscription = &mut self.subscriptions[update.kind.index()];
        for one in &update.added {
            if subscription.wants(&one.name) && !refused.contains(&one.name) {
                subscription.keep(&one.name, &one.version);
            }
        }
        for name in &update.removed {
            subscription.lose(name);
        }
    }

    fn close(&mut self, update: &Update, detail: Option<&str>) {
        let subscription = &mut self.subscriptions[update.kind.index()];
        subscription.end();
        let added = update.added.iter().map(|one| one.name.as_str());
        let names = added.chain(update.removed.iter().map(String::as_str));
        names
            .chain([WILDCARD])
            .for_each(|name| subscription.answered(name));
        if self.is_current(update) {
            self.conclude(update.kind.type_url(), update.nonce.clone(), detail);
        }
    }

    fn is_current(&self, update: &Update) -> bool {
        update.stream == self.stream && self.is_connected
    }

    fn conclude(&mut self, type_url: &str, nonce: String, detail: Option<&str>) {
        let kind = Kind::find(type_url);
        let mut subscription = kind.map(|kind| &mut self.subscriptions[kind.index()]);
        if let Some(subscription) = &mut subscription {
            subscription.concluded(&nonce);
        }
        self.answers.push_back(Answer {
            type_url: type_url.to_owned(),
            version: subscription
                .map(|it| it.version.clone())
                .unwrap_or_default(),
            nonce,
            refusal: detail.map(refusal),
        });
    }
}

/// Resources have no versions of their own: that of their bytes tells whether they are new.
fn read_one(kind: Kind, resource: Any) -> Result<Added, Error> {
    let no_body = |name| Error::NoBody { kind, name };
    if resource.type_url != kind.type_url() {
        return Err(no_body(String::new()));
    }
    match Named::decode(resource.value.clone()) {
        Ok(Named { name }) if !name.is_empty() => Ok(Added {
            name,
            version: version(&resource.value),
            value: resource.value,
        }),
        _ => Err(no_body(String::new())),
    }
}
