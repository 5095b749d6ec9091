//! How the side that tells is driven, in either variant of the protocol: `delta::server` and
//! `sotw::server`. Implemented by these, used by the control plane. No I/O, no clock.

use crate::delta::server::{Error, Event, Progress, Response, View};
use crate::kind::Kind;
use crate::proto::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, Node};

/// One stream of a client.
pub trait Machine: Sized {
    /// What the client says.
    type Request: Request;

    /// A short word for metrics and pages.
    const LABEL: &'static str;

    /// A stream that begins now, and wants nothing yet.
    fn new(view: &impl View) -> Self;

    /// The client says something.
    ///
    /// # Errors
    /// [`Error`]: the stream is to be ended.
    fn on_request(&mut self, request: &Self::Request, view: &impl View) -> Result<Event, Error>;

    /// Queues what has changed since the last time.
    ///
    /// # Errors
    /// [`Error::Behind`]: the stream is to be ended.
    fn advance(&mut self, view: &impl View) -> Result<(), Error>;

    /// What is to be sent next, if anything. Of each kind one response at a time waits for its
    /// answer.
    fn take_response(&mut self, view: &impl View) -> Option<Response>;

    /// Whether [`Self::take_response`] would give one.
    fn has_response(&self) -> bool;

    /// Everything up to this generation has been queued, if not sent.
    fn generation(&self) -> u64;

    /// Whether the client uses everything of `kind` that it wants, as of [`Self::generation`].
    fn is_settled(&self, kind: Kind) -> bool;

    /// Whether the client uses everything that it wants, or has said why not.
    fn is_idle(&self) -> bool;

    /// How far the client has come; `None` if it never asked for that kind.
    fn progress(&self, kind: Kind) -> Option<Progress>;
}

/// What both variants of a request have.
pub trait Request: prost::Message + Default {
    /// Who asks. Only the first request of a stream must say it.
    fn node(&self) -> Option<&Node>;
    /// Of the resources that are asked for.
    fn type_url(&self) -> &str;
}

impl Request for DeltaDiscoveryRequest {
    fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    fn type_url(&self) -> &str {
        &self.type_url
    }
}

impl Request for DiscoveryRequest {
    fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    fn type_url(&self) -> &str {
        &self.type_url
    }
}
