//! DNS messages, as they come over UDP and in the frames of TCP (RFC 1035, RFC 6891): what a query
//! asks, the bytes of its answer, and what other servers are asked and answer. Called by the
//! proxy's name server. Never knows which names there are, and never follows a pointer forward.

mod answer;
mod kept;
mod name;
mod query;
mod question;
mod record;
mod reply;

#[cfg(test)]
mod tests;

pub use answer::Answer;
pub use kept::{Kept, Left, Lifetime};
pub use name::{LABEL_BYTES_MAX, Labels, NAME_BYTES_MAX, Name};
pub use query::{Edns, Query, Reject};
pub use question::Question;
pub use record::{Record, Records, Section};
pub use reply::{Reply, Target};

/// What a client that says nothing takes over UDP (RFC 1035, section 2.3.4).
pub const UDP_BYTES_MIN: usize = 512;

/// Most that is sent over UDP, whatever the client takes: more may be cut into fragments on its
/// way, of which some firewalls let only the first through. What the field agreed on in 2020.
pub const UDP_BYTES_MAX: usize = 1232;

/// What the length before a message over TCP can say.
pub const TCP_BYTES_MAX: usize = 65_535;

/// Class of all names in use: the internet.
pub const INTERNET: u16 = 1;

/// Bytes of a message before its question: id, flags and four counts.
const HEADER_BYTES: usize = 12;

/// The bits of a header's second word.
mod flag {
    pub(super) const RESPONSE: u16 = 0x8000;
    pub(super) const OPCODE: u16 = 0x7800;
    pub(super) const AUTHORITATIVE: u16 = 0x0400;
    pub(super) const TRUNCATED: u16 = 0x0200;
    pub(super) const RECURSION_DESIRED: u16 = 0x0100;
    pub(super) const RECURSION_AVAILABLE: u16 = 0x0080;
    pub(super) const CHECKING_DISABLED: u16 = 0x0010;
    pub(super) const CODE: u16 = 0x000f;
}

/// What is asked for: the type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(pub u16);

impl Kind {
    /// An IPv4 address.
    pub const A: Self = Self(1);
    /// That the name is another name of a host.
    pub const CNAME: Self = Self(5);
    /// Where a zone begins.
    pub const SOA: Self = Self(6);
    /// The name of an address.
    pub const PTR: Self = Self(12);
    /// An IPv6 address.
    pub const AAAA: Self = Self(28);
    /// Hosts and ports of a service (RFC 2782).
    pub const SRV: Self = Self(33);
    /// What sender and message are capable of; no record of a name (RFC 6891).
    pub const OPT: Self = Self(41);
    /// Whatever there is.
    pub const ANY: Self = Self(255);

    /// Whether it asks for something to be done rather than for records (RFC 6895, section 3.1):
    /// transfers of zones and the like. `ANY` is none of these.
    #[must_use]
    pub const fn is_meta(self) -> bool {
        self.0 == Self::OPT.0 || (self.0 >= 128 && self.0 < Self::ANY.0)
    }
}

/// How an answer ends (RFC 1035, section 4.1.1; RFC 6891, section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The name exists, with or without records of the kind.
    NoError = 0,
    /// The query cannot be understood.
    FormatError = 1,
    /// It could be, but not answered now.
    ServerFailure = 2,
    /// There is no such name, nor any below it.
    NoName = 3,
    /// The server does no such thing.
    NotImplemented = 4,
    /// The server does not do it for this client or this name.
    Refused = 5,
    /// The version of EDNS is not known here. Invariant: only where the query has EDNS.
    BadVersion = 16,
}

/// Two bytes of `message` at `at`.
fn word(message: &[u8], at: usize) -> Option<u16> {
    let bytes = message.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Four bytes of `message` at `at`.
fn double(message: &[u8], at: usize) -> Option<u32> {
    let (high, low) = (word(message, at)?, word(message, at + 2)?);
    Some(u32::from(high) << 16 | u32::from(low))
}
