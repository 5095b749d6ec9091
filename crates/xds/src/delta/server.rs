//! The side that tells: what one stream wants, and what it has yet to be sent. It remembers no
//! versions: a stream was told everything up to a generation of the catalogue, but for what it
//! lists. Driven by the control plane, once per stream. No I/O, no clock.

pub(crate) mod interest;
pub(crate) mod outbox;
mod response;
mod subscription;

#[cfg(test)]
mod tests;

pub(crate) use response::version;
pub use response::{Entry, Response};

use super::ids::Id;
use crate::kind::Kind;
use crate::proto::discovery::DeltaDiscoveryRequest;
use crate::server::Machine;
use subscription::Subscription;

/// Longest name that is taken: a SPIFFE id or a DNS name with ports, twice.
const NAME_BYTES_MAX: usize = 512;
/// Most bytes of one kind's names on one stream that stand for nothing here: services that were
/// removed, and what was asked for in vain. Some ten thousand.
const ABSENT_BYTES_MAX: usize = 1 << 20;

/// What one stream may see of a catalogue, now.
pub trait View {
    /// Of the newest change in it.
    fn generation(&self) -> u64;
    /// The generation from which on [`Self::changed`] knows everything.
    fn complete_since(&self) -> u64;
    /// The resource of that name.
    fn find(&self, kind: Kind, name: &str) -> Option<Id>;
    /// The resource at that place; `None` if it is gone, or not for this stream.
    fn entry(&self, kind: Kind, id: Id) -> Option<&Entry>;
    /// What was at that place last, as long as some stream remembers it; it may be there still.
    fn former(&self, kind: Kind, id: Id) -> Option<&Entry>;
    /// All resources of a kind.
    fn all(&self, kind: Kind) -> impl Iterator<Item = Id> + '_;
    /// What came, changed or went after the generation `since`.
    fn changed(&self, kind: Kind, since: u64) -> impl Iterator<Item = Change<'_>> + '_;
}

/// One resource that is not what it was.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Its place.
    pub id: Id,
    /// Its name.
    pub name: &'a str,
    /// Whether it is there, or gone.
    pub is_there: bool,
}

/// One stream of a client. What is new is sent in the order of kinds, then what is gone in the
/// reverse order.
#[derive(Debug)]
pub struct Stream {
    subscriptions: [Subscription; Kind::COUNT],
    /// Everything up to it was queued.
    generation: u64,
    /// Of the last response.
    nonce: u64,
}

/// What a request meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A change of what is wanted, or an answer to something older than the last response.
    Noted,
    /// All of the last response of that kind is in use.
    Acked(Kind),
    /// Something of the last response of that kind is not, because of this.
    Refused(Kind, String),
    /// It wants something that there is not. There will be no answer.
    UnknownType,
}

/// Why a stream cannot go on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Changes that it has not seen were forgotten.
    #[error("this stream is too far behind; open another one")]
    Behind,
    /// A name that nothing can have.
    #[error("a name is longer than {NAME_BYTES_MAX} bytes")]
    NameTooLong,
    /// More names than are remembered.
    #[error("more than {ABSENT_BYTES_MAX} bytes of names stand for nothing; unsubscribe from some")]
    TooManyNames,
}

/// How far a client has come with one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Resources that were asked for by name, or `None` for all.
    pub wanted: Option<usize>,
    /// Resources and removals that have not been sent yet.
    pub queued: usize,
    /// Whether the last response has not been answered yet.
    pub is_waiting: bool,
    /// Resources whose last state was refused.
    pub refused: usize,
    /// The client's last refusal; empty if none stands.
    pub detail: String,
}

impl Machine for Stream {
    type Request = DeltaDiscoveryRequest;

    const LABEL: &'static str = "delta";

    fn new(view: &impl View) -> Self {
        Self {
            subscriptions: Default::default(),
            generation: view.generation(),
            nonce: 0,
        }
    }

    fn on_request(&mut self, request: &Self::Request, view: &impl View) -> Result<Event, Error> {
        self.advance(view)?;
        let Some(kind) = Kind::find(&request.type_url) else {
            return Ok(Event::UnknownType);
        };
        let subscription = &mut self.subscriptions[kind.index()];
        let answer = subscription.on_answer(kind, request, view);
        subscription.on_names(kind, request, view)?;
        Ok(match answer {
            None => Event::Noted,
            Some(None) => Event::Acked(kind),
            Some(Some(detail)) => Event::Refused(kind, detail),
        })
    }

    fn advance(&mut self, view: &impl View) -> Result<(), Error> {
        if self.generation == view.generation() {
            return Ok(());
        }
        if self.generation < view.complete_since() {
            return Err(Error::Behind);
        }
        for kind in Kind::ALL {
            let subscription = &mut self.subscriptions[kind.index()];
            for change in view.changed(kind, self.generation) {
                subscription.on_change(change);
            }
        }
        self.generation = view.generation();
        Ok(())
    }

    fn take_response(&mut self, view: &impl View) -> Option<Response> {
        let kind = self.next_new().or_else(|| self.next_gone())?;
        if kind == Kind::Cluster {
            self.warm(view);
        }
        self.nonce += 1;
        Some(self.subscriptions[kind.index()].respond(kind, self.nonce, view))
    }

    fn has_response(&self) -> bool {
        self.next_new().or_else(|| self.next_gone()).is_some()
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn is_settled(&self, kind: Kind) -> bool {
        self.subscriptions[kind.index()].is_settled()
    }

    fn is_idle(&self) -> bool {
        let mut all = self.subscriptions.iter();
        all.all(|one| !one.has_new() && !one.has_gone() && !one.is_waiting())
    }

    fn progress(&self, kind: Kind) -> Option<Progress> {
        self.subscriptions[kind.index()].progress()
    }
}

impl Stream {
    /// Endpoints of clusters that are about to be sent in another state: Envoy makes such a cluster
    /// anew, does not ask for its endpoints again, and waits for them nevertheless.
    fn warm(&mut self, view: &impl View) {
        let [_, clusters, endpoints, ..] = &mut self.subscriptions;
        for name in clusters.changed(Kind::Cluster, view) {
            endpoints.repeat(Kind::Endpoints, name, view);
        }
    }

    fn next_new(&self) -> Option<Kind> {
        let mut kinds = Kind::ALL.into_iter();
        let kind = kinds.find(|kind| self.subscriptions[kind.index()].has_new())?;
        self.is_free(kind).then_some(kind)
    }

    fn next_gone(&self) -> Option<Kind> {
        if self.subscriptions.iter().any(Subscription::has_new) {
            return None;
        }
        let mut kinds = Kind::ALL.into_iter().rev();
        let kind = kinds.find(|kind| self.subscriptions[kind.index()].has_gone())?;
        self.is_free(kind).then_some(kind)
    }

    fn is_free(&self, kind: Kind) -> bool {
        !self.subscriptions[kind.index()].is_waiting()
    }
}
