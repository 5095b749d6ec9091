//! One worker's counters of connections and TLS handshakes. Written by accept, handshake and pool.
//! Must never be written by another thread than its worker.

use identity::HandshakeFailure;
use model::Direction;

use super::counter::Counter;

const REASONS: usize = HandshakeFailure::ALL.len();

/// Which side of the proxy a handshake was on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A peer connected to us.
    Downstream,
    /// We connected to a peer.
    Upstream,
}

impl Side {
    pub(super) const ALL: [Self; 2] = [Self::Downstream, Self::Upstream];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Downstream => "downstream",
            Self::Upstream => "upstream",
        }
    }
}

/// Counters of one worker.
#[derive(Default)]
#[repr(align(128))]
pub struct ConnectionCounters {
    downstream: [Downstream; 2],
    upstream: Upstream,
    handshakes: [Handshakes; 2],
}

#[derive(Default)]
struct Downstream {
    opened: Counter,
    closed: Counter,
    rejected: Counter,
}

#[derive(Default)]
struct Upstream {
    opened: Counter,
    closed: Counter,
    failed: Counter,
}

#[derive(Default)]
struct Handshakes {
    full: Counter,
    resumed: Counter,
    failed: [Counter; REASONS],
}

impl ConnectionCounters {
    /// A downstream connection was accepted.
    pub fn opened(&self, direction: Direction) {
        self.downstream[direction.index()].opened.add(1);
    }

    /// It is gone.
    pub fn closed(&self, direction: Direction) {
        self.downstream[direction.index()].closed.add(1);
    }

    /// A downstream connection was closed at once: there were too many. Not `opened` before.
    pub fn rejected(&self, direction: Direction) {
        self.downstream[direction.index()].rejected.add(1);
    }

    /// A connection to an endpoint stands (before its handshake, if it has one).
    pub fn upstream_opened(&self) {
        self.upstream.opened.add(1);
    }

    /// It is gone.
    pub fn upstream_closed(&self) {
        self.upstream.closed.add(1);
    }

    /// A connection to an endpoint could not be made. Not `upstream_opened` before.
    pub fn upstream_failed(&self) {
        self.upstream.failed.add(1);
    }

    /// A handshake succeeded.
    pub fn handshake(&self, side: Side, resumed: bool) {
        let handshakes = &self.handshakes[side as usize];
        if resumed {
            &handshakes.resumed
        } else {
            &handshakes.full
        }
        .add(1);
    }

    /// A handshake failed.
    pub fn handshake_failed(&self, side: Side, reason: HandshakeFailure) {
        self.handshakes[side as usize].failed[reason as usize].add(1);
    }
}

/// Sums over workers.
#[derive(Default)]
pub(super) struct Totals {
    /// Opened, active, rejected; by direction.
    pub(super) downstream: [[u64; 3]; 2],
    /// Opened, active, failed.
    pub(super) upstream: [u64; 3],
    /// Full, resumed; by side.
    pub(super) handshakes: [[u64; 2]; 2],
    /// By side and reason.
    pub(super) failures: [[u64; REASONS]; 2],
}

impl Totals {
    pub(super) fn add(&mut self, worker: &ConnectionCounters) {
        for (sums, now) in self.downstream.iter_mut().zip(&worker.downstream) {
            add(sums, &now.opened, &now.closed, &now.rejected);
        }
        let now = &worker.upstream;
        add(&mut self.upstream, &now.opened, &now.closed, &now.failed);
        for (side, now) in worker.handshakes.iter().enumerate() {
            self.handshakes[side][0] += now.full.read();
            self.handshakes[side][1] += now.resumed.read();
            for (sum, failed) in self.failures[side].iter_mut().zip(&now.failed) {
                *sum += failed.read();
            }
        }
    }
}

/// Closed ones are read first, so that active ones are never negative.
fn add(sums: &mut [u64; 3], opened: &Counter, closed: &Counter, other: &Counter) {
    let closed = closed.read();
    let opened = opened.read();
    sums[0] += opened;
    sums[1] += opened.saturating_sub(closed);
    sums[2] += other.read();
}
