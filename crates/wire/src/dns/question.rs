//! What another name server is asked: a question of a client without what is the client's own.
//! Equal ones have the same answer, so that it is the key of what is remembered.

use super::query::Header;
use super::{Answer, Kind, Name, Query, UDP_BYTES_MAX, flag};

/// A question for another server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// Name in lower case, kind and class, as they are written.
    wire: Box<[u8]>,
    /// Whether signatures are wanted, which makes another answer.
    signatures: bool,
    /// Whether nobody is to check them.
    unchecked: bool,
}

impl Question {
    /// What `query` asks.
    #[must_use]
    pub fn of(query: &Query<'_>) -> Self {
        let Header { flags, .. } = query.header;
        let mut wire: Box<[u8]> = query.question.into();
        // Not kind and class, which may look like letters.
        wire[..query.name.wire().len()].make_ascii_lowercase();
        Self {
            wire,
            signatures: query.edns.is_some_and(|edns| edns.signatures),
            unchecked: flags & flag::CHECKING_DISABLED != 0,
        }
    }

    /// Writes the query with this id. `edns` says that long answers are taken over UDP, which some
    /// old servers do not understand.
    pub fn write(&self, id: u16, edns: bool, out: &mut Vec<u8>) {
        let unchecked = if self.unchecked {
            flag::CHECKING_DISABLED
        } else {
            0
        };
        let flags = flag::RECURSION_DESIRED | unchecked;
        for word in [id, flags, 1, 0, 0, u16::from(edns)] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(&self.wire);
        if edns {
            let signatures = if self.signatures { 0x8000 } else { 0 };
            out.push(0);
            for word in [Kind::OPT.0, UDP_BYTES_MAX as u16, 0, signatures, 0] {
                out.extend_from_slice(&word.to_be_bytes());
            }
        }
    }

    /// Whether `answer` is one to this.
    #[must_use]
    pub fn is_answered_by(&self, answer: &Answer<'_>) -> bool {
        answer.question == Some(self.parts())
    }

    /// How many bytes it takes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.wire.len() + size_of::<Self>()
    }

    fn parts(&self) -> (Name<'_>, Kind, u16) {
        let (name, end) = Name::read(&self.wire, 0).expect("a query had it");
        let word = |at| super::word(&self.wire, at).expect("a query had it");
        (name, Kind(word(end)), word(end + 2))
    }
}
