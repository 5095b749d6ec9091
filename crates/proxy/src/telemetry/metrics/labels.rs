//! Who talked to whom: the labels that every request's metrics have. Made once per connection.
//! Must never hold what a peer can choose freely: names come from certificates and configuration.

use std::sync::Arc;

use model::{Direction, Workload};

/// Of a peer without certificate.
const UNKNOWN: &str = "unknown";
/// Of all peers beyond the bound.
const OVERFLOW: &str = "overflow";

/// Labels of one series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Labels {
    /// Which side of the workload.
    pub direction: Direction,
    /// Who called; "unknown" without a certificate.
    pub source: Arc<str>,
    /// The caller's namespace.
    pub source_namespace: Arc<str>,
    /// Who was called; "unknown" without a certificate.
    pub destination: Arc<str>,
    /// The called one's namespace.
    pub destination_namespace: Arc<str>,
    /// What was spoken.
    pub protocol: Protocol,
}

/// What was spoken between downstream and proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// HTTP/1.0 and HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
    /// gRPC calls over HTTP/2.
    Grpc,
    /// Connections that were passed on unread: one counts as one request.
    Tcp,
}

impl Protocol {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Http2 => "http2",
            Self::Grpc => "grpc",
            Self::Tcp => "tcp",
        }
    }
}

impl Labels {
    /// Of requests between `own` and a peer (name, namespace) on the other side.
    #[must_use]
    pub fn new(
        direction: Direction,
        protocol: Protocol,
        own: &Workload,
        peer: Option<(&str, &str)>,
    ) -> Self {
        let own = (own.name.as_str(), own.namespace.as_str());
        let peer = peer.unwrap_or((UNKNOWN, UNKNOWN));
        let (source, destination) = match direction {
            Direction::Inbound => (peer, own),
            Direction::Outbound => (own, peer),
        };
        Self {
            direction,
            source: source.0.into(),
            source_namespace: source.1.into(),
            destination: destination.0.into(),
            destination_namespace: destination.1.into(),
            protocol,
        }
    }

    /// Where all go that found no place: direction and protocol are few, so they stay.
    pub(super) fn overflow(&self) -> Self {
        let overflow: Arc<str> = OVERFLOW.into();
        Self {
            source: Arc::clone(&overflow),
            source_namespace: Arc::clone(&overflow),
            destination: Arc::clone(&overflow),
            destination_namespace: overflow,
            ..*self
        }
    }

    /// In the order of the documentation.
    pub(super) fn pairs(&self) -> [(&'static str, &str); 6] {
        [
            ("direction", self.direction.label()),
            ("source_workload", &self.source),
            ("source_namespace", &self.source_namespace),
            ("destination_workload", &self.destination),
            ("destination_namespace", &self.destination_namespace),
            ("protocol", self.protocol.label()),
        ]
    }
}
