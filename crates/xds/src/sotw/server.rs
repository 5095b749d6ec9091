//! The side that tells, of the state-of-the-world variant: what one stream wants, and what it has
//! yet to be sent. Of clusters and listeners it says all in every response, of the rest what is
//! new. Driven by the control plane, once per stream, as `delta::server` is and over the same view.
//! No I/O, no clock.

mod response;
mod subscription;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use crate::delta::server::{Error, Event, Progress, Response, View};
use crate::kind::Kind;
use crate::proto::discovery::DiscoveryRequest;
use crate::server::Machine;
use subscription::Subscription;

/// One stream of a client. What is new is sent in the order of kinds, then what clusters are left.
/// What answers an older response than the last of its kind is not read: the client says all of it
/// again in its answer to that.
#[derive(Debug)]
pub struct Stream {
    subscriptions: [Subscription; Kind::COUNT],
    /// Everything up to it was queued.
    generation: u64,
    /// Of the last response.
    nonce: u64,
}

impl Machine for Stream {
    type Request = DiscoveryRequest;

    const LABEL: &'static str = "stateOfTheWorld";

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
        if kind == Kind::Cluster {
            // Clusters that are told now may be gone when the client asks for their endpoints.
            self.subscriptions[Kind::Endpoints.index()].answer_all();
        }
        let subscription = &mut self.subscriptions[kind.index()];
        Ok(match subscription.on_request(kind, request, view)? {
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
                subscription.on_change(kind, change, view);
            }
        }
        self.generation = view.generation();
        self.forget_former();
        Ok(())
    }

    fn take_response(&mut self, view: &impl View) -> Option<Response> {
        let kind = self.next()?;
        if kind == Kind::Cluster {
            if !self.is_referring() {
                self.subscriptions[kind.index()].let_go();
            }
            self.warm(view);
            self.forget_former();
        }
        self.nonce += 1;
        Some(self.subscriptions[kind.index()].respond(kind, self.nonce, view))
    }

    fn has_response(&self) -> bool {
        self.next().is_some()
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn is_settled(&self, kind: Kind) -> bool {
        self.of(kind).is_settled()
    }

    fn is_idle(&self) -> bool {
        let mut all = self.subscriptions.iter();
        all.all(|one| !one.has_new() && !one.has_gone() && !one.is_waiting())
    }

    fn progress(&self, kind: Kind) -> Option<Progress> {
        self.of(kind).progress()
    }
}

impl Stream {
    fn next(&self) -> Option<Kind> {
        let is_next = |kind: &Kind| {
            let subscription = self.of(*kind);
            subscription.has_new() && !subscription.is_waiting() && !self.is_held(*kind)
        };
        let clusters = self.of(Kind::Cluster);
        let is_last = clusters.has_gone() && !clusters.is_waiting() && !self.is_referring();
        let new = Kind::ALL.into_iter().find(is_next);
        new.or_else(|| is_last.then_some(Kind::Cluster))
    }

    /// Whether what it refers to is not in use yet. A client that has to learn the endpoints of new
    /// clusters answers for these when it has; their endpoints must therefore not wait for that.
    fn is_held(&self, kind: Kind) -> bool {
        let before: &[Kind] = match kind {
            Kind::Secret | Kind::Cluster | Kind::Endpoints => return false,
            Kind::Listener => &[Kind::Secret, Kind::Cluster, Kind::Endpoints],
            Kind::Routes => &[Kind::Secret, Kind::Cluster, Kind::Endpoints, Kind::Listener],
        };
        self.of(Kind::Cluster).is_waiting() || before.iter().any(|kind| self.of(*kind).has_new())
    }

    /// Whether the client may still refer to clusters that are gone.
    fn is_referring(&self) -> bool {
        let mut kinds = [Kind::Listener, Kind::Routes].into_iter();
        kinds.any(|kind| self.of(kind).has_new() || self.of(kind).is_waiting())
    }

    /// Endpoints of clusters that are about to be sent in another state: a client may make such a
    /// cluster anew, and then waits for its endpoints though it was told them before.
    fn warm(&mut self, view: &impl View) {
        let [_, clusters, endpoints, ..] = &mut self.subscriptions;
        for name in clusters.changed(Kind::Cluster, view) {
            endpoints.repeat(Kind::Endpoints, name, view);
        }
    }

    fn forget_former(&mut self) {
        if !self.of(Kind::Cluster).has_gone() {
            self.subscriptions[Kind::Endpoints.index()].forget_former();
        }
    }

    const fn of(&self, kind: Kind) -> &Subscription {
        &self.subscriptions[kind.index()]
    }
}
