//! What the control plane counts, and how Prometheus reads it. Counted by `serve`, `ads` and `app`,
//! rendered by `admin`. Labels come from small closed sets, never from a peer.

mod families;
mod histogram;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use xds::kind::Kind;

pub use families::Gauges;
pub use histogram::Histogram;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// How many so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One counter for each of a few words.
#[derive(Debug, Default)]
pub struct Labelled(Mutex<BTreeMap<&'static str, u64>>);

impl Labelled {
    /// One more of `label`.
    pub fn increment(&self, label: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(label).or_default() += 1;
    }

    /// All labels that were counted so far.
    #[must_use]
    pub fn values(&self) -> BTreeMap<&'static str, u64> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Counters of one kind of resource.
#[derive(Debug, Default)]
pub struct PerKind {
    /// Responses that were sent.
    pub responses: Counter,
    /// Resources in them.
    pub resources: Counter,
    /// Responses that were accepted.
    pub acks: Counter,
    /// Responses that were refused.
    pub nacks: Counter,
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Connections that were accepted.
    pub connections: Counter,
    /// Connections that were closed at once because there were too many, by whose limit it was.
    pub connections_refused: Labelled,
    /// Handshakes that failed, by reason.
    pub handshake_failures: Labelled,
    /// Streams of resources that were opened, by the variant of the protocol.
    pub streams: Labelled,
    /// Streams of resources that ended, by their status.
    pub streams_ended: Labelled,
    /// Requests for certificates, by the status of the answer.
    pub signatures: Labelled,
    /// By kind of resource.
    pub kinds: [PerKind; Kind::COUNT],
    /// From a change to the acceptance of all of it by one sidecar.
    pub push: Histogram,
    /// From a change to its publication.
    pub translation: Histogram,
    /// Changes of the mesh that were published.
    pub pushes: Counter,
    /// Times that the sources were read.
    pub reads: Counter,
    /// Times that something was wrong with them.
    pub read_failures: Counter,
    /// Resources that could not be encoded.
    pub encode_failures: Counter,
}

impl Metrics {
    /// The counters of one kind.
    #[must_use]
    pub const fn kind(&self, kind: Kind) -> &PerKind {
        &self.kinds[kind.index()]
    }
}
