//! An answer of another server, in a form that can be given to whoever asks the same: without what
//! concerned our connection to it, and with times to live that go down. Used by the proxy's cache.
//! Takes whole answers only, and never looks at what they say.

use super::record::{Section, TTL_FROM_DATA};
use super::{Answer, Code, HEADER_BYTES, Kind, Query, Reply, double};

/// Larger times to live are read as 0 (RFC 2181, section 8).
const TTL_MAX: u32 = 0x7fff_ffff;
/// The last of the numbers that an SOA record ends with.
const SOA_MINIMUM_BYTES: usize = 4;

/// What another server answered: that there is something, or that there is nothing.
///
/// Invariant: a message that `Answer` reads to its last record, whose code is `NoError` or
/// `NoName`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    message: Box<[u8]>,
    lifetime: Lifetime,
}

/// For how many seconds an answer may be given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// There is something; the shortest time of the records that say so.
    Found(u32),
    /// There is nothing (RFC 2308).
    Nothing(u32),
    /// There is nothing, and the server does not say for how long.
    Unknown,
}

/// What becomes of the times to live of an answer, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// At most `most`, whatever the server said, and less by the `age` of the answer.
    Fresh {
        /// See above.
        most: u32,
        /// Since it came.
        age: u32,
    },
    /// This, as they are over (RFC 8767).
    Stale(u32),
}

impl Left {
    fn of(self, ttl: u32) -> u32 {
        match self {
            Self::Fresh { most, age } => sane(ttl).min(most).saturating_sub(age),
            Self::Stale(ttl) => ttl,
        }
    }
}

const fn sane(ttl: u32) -> u32 {
    if ttl > TTL_MAX { 0 } else { ttl }
}

impl Kept {
    /// What `answer` says; `None` if it is cut or written wrongly, or says that the server failed.
    #[must_use]
    pub fn read(answer: &Answer<'_>) -> Option<Self> {
        let has_answered = [Code::NoError, Code::NoName].map(|code| code as u16);
        let (_, kind, _) = answer.question?;
        if answer.truncated || !has_answered.contains(&answer.code) {
            return None;
        }
        let (end, counts) = trim(answer)?;
        let mut message: Box<[u8]> = answer.message[..end].into();
        let places = message[HEADER_BYTES - 2 * counts.len()..].chunks_exact_mut(2);
        for (place, count) in places.zip(counts) {
            place.copy_from_slice(&count.to_be_bytes());
        }
        let lifetime = lifetime(answer, kind);
        is_steady(&message).then_some(Self { message, lifetime })
    }

    /// For how long it may be given again.
    #[must_use]
    pub const fn lifetime(&self) -> Lifetime {
        self.lifetime
    }

    /// How many bytes it takes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.message.len() + size_of::<Self>()
    }

    /// Adds the answer to `query`, which asks the same, to `out`. It has at most `bytes_max` bytes.
    pub fn write(&self, query: &Query<'_>, left: Left, bytes_max: usize, out: &mut Vec<u8>) {
        let answer = Answer::parse(&self.message).expect("it was read before");
        // Records lie where they lay, so that names which point to others still do.
        debug_assert!(answer.at == HEADER_BYTES + query.question.len());
        let code = match answer.code {
            0 => Code::NoError,
            _ => Code::NoName,
        };
        let mut reply = Reply::new(query, code, bytes_max, out);
        let mut records = answer.records();
        let mut start = records.at;
        while let Some((section, record)) = records.next() {
            let bytes = &self.message[start..records.at];
            let ttl_at = bytes.len() - record.data.len() - TTL_FROM_DATA;
            if !reply.copy(section, bytes, ttl_at, left.of(record.ttl)) {
                break;
            }
            start = records.at;
        }
        reply.finish();
    }
}

/// Where the records end that concern clients, and how many there are by section: those before
/// what is said of the connection, which is the last but for signatures of it.
fn trim(answer: &Answer<'_>) -> Option<(usize, [u16; 3])> {
    let mut records = answer.records();
    let (mut end, mut counts, mut is_over) = (records.at, [0; 3], false);
    while let Some((section, record)) = records.next() {
        // The upper bits of the code, of which no server that answers has any.
        if record.kind == Kind::OPT && record.ttl >> 24 != 0 {
            return None;
        }
        is_over |= record.kind == Kind::OPT;
        if !is_over {
            counts[section as usize] += 1;
            end = records.at;
        }
    }
    records.has_all().then_some((end, counts))
}

/// Whether owners are names, and none of them leads through a time to live, which will change.
fn is_steady(message: &[u8]) -> bool {
    let owners = owners(message, 0);
    owners.is_some() && owners == self::owners(message, u8::MAX)
}

/// All owners, one after the other, if each byte of the times to live is `ttl`.
fn owners(message: &[u8], ttl: u8) -> Option<Vec<u8>> {
    let mut changed = message.to_vec();
    let mut records = Answer::parse(message)?.records();
    while let Some((_, record)) = records.next() {
        let at = records.at - record.data.len() - TTL_FROM_DATA;
        changed[at..at + size_of::<u32>()].fill(ttl);
    }
    let mut out = Vec::new();
    for (_, record) in Answer::parse(&changed)?.records() {
        record.owner(&mut out)?;
    }
    Some(out)
}

fn lifetime(answer: &Answer<'_>, kind: Kind) -> Lifetime {
    let (mut found, mut shortest, mut nothing) = (false, TTL_MAX, None);
    for (section, record) in answer.records() {
        if section == Section::Answer {
            found |= record.kind == kind || kind == Kind::ANY;
            shortest = shortest.min(sane(record.ttl));
        } else if section == Section::Authority && record.kind == Kind::SOA {
            let at = record.data.len().saturating_sub(SOA_MINIMUM_BYTES);
            nothing = double(record.data, at).map(|minimum| minimum.min(sane(record.ttl)));
        }
    }
    match nothing {
        _ if found && answer.code == Code::NoError as u16 => Lifetime::Found(shortest),
        Some(seconds) => Lifetime::Nothing(seconds.min(shortest)),
        None => Lifetime::Unknown,
    }
}
