//! The machine of the variant that is spoken, and its messages as bytes. Used by `control`, which
//! need not know which of them it is.

use bytes::Bytes;
use model::XdsVariant;
use prost::{DecodeError, Message};
use xds::kind::Kind;
use xds::proto::discovery::{DeltaDiscoveryResponse, DiscoveryResponse, Node};
use xds::update::{Error, Update};
use xds::{delta, sotw};

use std::collections::BTreeSet;

/// What is wanted of the control plane, and had.
pub(super) enum Machine {
    Delta(Box<delta::client::Client>),
    StateOfTheWorld(Box<sotw::client::Client>),
}

/// The same said to whichever it is.
macro_rules! either {
    ($machine:expr, $inner:ident => $what:expr) => {
        match $machine {
            Machine::Delta($inner) => $what,
            Machine::StateOfTheWorld($inner) => $what,
        }
    };
}

impl Machine {
    /// One that wants nothing yet.
    pub(super) fn new(variant: XdsVariant, node: Node) -> Self {
        match variant {
            XdsVariant::Delta => Self::Delta(Box::new(delta::client::Client::new(node))),
            XdsVariant::StateOfTheWorld => {
                Self::StateOfTheWorld(Box::new(sotw::client::Client::new(node)))
            }
        }
    }

    /// The gRPC method.
    pub(super) const fn path(&self) -> &'static str {
        match self {
            Self::Delta(_) => delta::PATH,
            Self::StateOfTheWorld(_) => sotw::PATH,
        }
    }

    pub(super) fn subscribe(
        &mut self,
        kind: Kind,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) {
        either!(self, it => it.subscribe(kind, names));
    }

    pub(super) fn unsubscribe(&mut self, kind: Kind, names: &[String]) {
        either!(self, it => it.unsubscribe(kind, names));
    }

    pub(super) fn restore(&mut self, kind: Kind, name: &str, version: &str) {
        either!(self, it => it.restore(kind, name, version));
    }

    pub(super) fn connected(&mut self) {
        either!(self, it => it.connected());
    }

    pub(super) fn disconnected(&mut self) {
        either!(self, it => it.disconnected());
    }

    /// The message that is to be sent next, if there is any.
    pub(super) fn take_request(&mut self) -> Option<Bytes> {
        either!(self, it => it.take_request().map(|request| request.encode_to_vec().into()))
    }

    /// What a message that has come says.
    pub(super) fn on_response(
        &mut self,
        message: Bytes,
    ) -> Result<Result<Update, Error>, DecodeError> {
        Ok(match self {
            Self::Delta(it) => it.on_response(DeltaDiscoveryResponse::decode(message)?),
            Self::StateOfTheWorld(it) => it.on_response(DiscoveryResponse::decode(message)?),
        })
    }

    pub(super) fn accept(&mut self, update: &Update) {
        either!(self, it => it.accept(update));
    }

    pub(super) fn accept_but(&mut self, update: &Update, refused: &BTreeSet<String>, why: &str) {
        either!(self, it => it.accept_but(update, refused, why));
    }

    pub(super) fn wanted(&self, kind: Kind) -> Box<dyn Iterator<Item = &str> + '_> {
        either!(self, it => Box::new(it.wanted(kind)))
    }

    pub(super) fn missing(&self, kind: Kind) -> Box<dyn Iterator<Item = &str> + '_> {
        either!(self, it => Box::new(it.missing(kind)))
    }

    pub(super) fn known(&self, kind: Kind) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        either!(self, it => Box::new(it.known(kind)))
    }
}
