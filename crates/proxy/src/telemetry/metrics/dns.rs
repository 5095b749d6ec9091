//! Queries for names, by how they ended. Counted by the name server, on the quiet thread alone.

use super::counter::Counter;

/// How a query for a name ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// With what was asked for.
    Found,
    /// The name exists, records of the kind do not.
    NoData,
    /// There is no such name in the mesh.
    NoName,
    /// The name is none of the mesh, or what is asked of it is not told.
    Refused,
    /// It was no query, or none that is understood.
    Malformed,
}

impl Answered {
    pub(super) const ALL: [Self; 5] = [
        Self::Found,
        Self::NoData,
        Self::NoName,
        Self::Refused,
        Self::Malformed,
    ];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Found => "answered",
            Self::NoData => "nodata",
            Self::NoName => "nxdomain",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
        }
    }
}

/// Counters of the name server.
#[derive(Default)]
pub struct DnsCounters([Counter; Answered::ALL.len()]);

impl DnsCounters {
    /// A query ended. Only for the thread that answers.
    pub fn add(&self, answered: Answered) {
        self.0[answered as usize].add(1);
    }

    pub(crate) fn read(&self, answered: Answered) -> u64 {
        self.0[answered as usize].read()
    }
}
