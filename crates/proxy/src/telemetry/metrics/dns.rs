//! Queries for names, by how they ended, and what other name servers were asked. Counted by the
//! name server, on the quiet thread alone.

use std::time::Duration;

use super::counter::Counter;
use super::slot::{BUCKETS, bucket};

/// How a query for a name ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// With what was asked for.
    Found,
    /// The name exists, records of the kind do not.
    NoData,
    /// There is no such name in the mesh.
    NoName,
    /// With what another name server says, or said.
    Forwarded,
    /// No other name server said anything.
    Failed,
    /// The name is none of the mesh and nobody else is asked, or what is asked is not told.
    Refused,
    /// It was no query, or none that is understood.
    Malformed,
}

impl Answered {
    pub(super) const ALL: [Self; 7] = [
        Self::Found,
        Self::NoData,
        Self::NoName,
        Self::Forwarded,
        Self::Failed,
        Self::Refused,
        Self::Malformed,
    ];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Found => "answered",
            Self::NoData => "nodata",
            Self::NoName => "nxdomain",
            Self::Forwarded => "forwarded",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
        }
    }
}

/// Where the answer of another name server is got from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recalled {
    /// From memory.
    Fresh,
    /// From memory, though it is over, as nobody said anything newer.
    Stale,
    /// Somebody is asking the same already.
    Joined,
    /// From there.
    Asked,
}

impl Recalled {
    pub(super) const ALL: [Self; 4] = [Self::Fresh, Self::Stale, Self::Joined, Self::Asked];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Fresh => "hit",
            Self::Stale => "stale",
            Self::Joined => "joined",
            Self::Asked => "miss",
        }
    }
}

/// What became of a question to another name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// It answered, after so long.
    Answered(Duration),
    /// It cannot be reached, or says that it cannot answer.
    Failed,
    /// It said nothing in time, so that the next one is asked too.
    Silent,
}

impl Upstream {
    pub(super) const LABELS: [&'static str; 3] = ["answered", "failed", "silent"];

    const fn index(self) -> usize {
        match self {
            Self::Answered(_) => 0,
            Self::Failed => 1,
            Self::Silent => 2,
        }
    }
}

/// Counters of the name server. Only the thread that answers adds to them.
#[derive(Default)]
pub struct DnsCounters {
    queries: [Counter; Answered::ALL.len()],
    recalled: [Counter; Recalled::ALL.len()],
    upstream: [Counter; Upstream::LABELS.len()],
    buckets: [Counter; BUCKETS],
    duration_us: Counter,
}

impl DnsCounters {
    /// A query ended.
    pub fn add(&self, answered: Answered) {
        self.queries[answered as usize].add(1);
    }

    /// It is known where an answer is got from.
    pub fn recalled(&self, recalled: Recalled) {
        self.recalled[recalled as usize].add(1);
    }

    /// Another name server answered, or did not.
    pub fn upstream(&self, upstream: Upstream) {
        self.upstream[upstream.index()].add(1);
        if let Upstream::Answered(time) = upstream {
            let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            self.buckets[bucket(us)].add(1);
            self.duration_us.add(us);
        }
    }

    pub(crate) fn read(&self, answered: Answered) -> u64 {
        self.queries[answered as usize].read()
    }

    pub(crate) fn read_recalled(&self, recalled: Recalled) -> u64 {
        self.recalled[recalled as usize].read()
    }

    /// By [`Upstream::LABELS`].
    pub(crate) fn read_upstream(&self) -> [u64; Upstream::LABELS.len()] {
        self.upstream.each_ref().map(Counter::read)
    }

    /// Answers of others by time, and the sum of that.
    pub(super) fn read_durations(&self) -> ([u64; BUCKETS], u64) {
        let buckets = self.buckets.each_ref().map(Counter::read);
        (buckets, self.duration_us.read())
    }
}
