//! Resource records, one after the other, as queries and answers have them. Used by both readers.
//! Says what a record has, never what it means.

use super::{Kind, double, name, word};

/// Bytes of a record between its owner and its data: kind, class, time to live and a length.
const FIXED_BYTES: usize = 10;
/// How far before the data the time to live is.
pub(super) const TTL_FROM_DATA: usize = 6;

/// A record as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'d> {
    /// What it is.
    pub kind: Kind,
    /// Its class; of `Kind::OPT`, what its sender takes over UDP.
    pub class: u16,
    /// Seconds that it may be kept for; of `Kind::OPT`, flags.
    pub ttl: u32,
    /// What it says.
    pub data: &'d [u8],
    /// The message that it is in, and where in that its owner's name begins.
    message: &'d [u8],
    at: usize,
}

impl<'d> Record<'d> {
    /// The record at `at`, and where it ends.
    pub(super) fn read(message: &'d [u8], at: usize) -> Option<(Self, usize)> {
        let fixed = name::skip(message, at)?;
        let length = usize::from(word(message, fixed + 8)?);
        let start = fixed + FIXED_BYTES;
        let record = Self {
            kind: Kind(word(message, fixed)?),
            class: word(message, fixed + 2)?,
            ttl: double(message, fixed + 4)?,
            data: message.get(start..start + length)?,
            message,
            at,
        };
        Some((record, start + length))
    }

    /// Whether its owner is the root, written as such.
    pub(super) fn is_of_root(&self) -> bool {
        self.message.get(self.at) == Some(&0)
    }

    /// Writes its owner's name to `out`, without pointers; `None` if it is none.
    pub fn owner(&self, out: &mut Vec<u8>) -> Option<()> {
        name::expand(self.message, self.at, out)
    }
}

/// Which part of an answer a record is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// It answers.
    Answer,
    /// It says who could, or why there is no answer.
    Authority,
    /// It will be wanted next.
    Additional,
}

impl Section {
    const ALL: [Self; 3] = [Self::Answer, Self::Authority, Self::Additional];
}

/// The records of a message, until one cannot be read. Made by [`super::Answer::records`].
#[derive(Clone, Debug)]
pub struct Records<'d> {
    message: &'d [u8],
    /// Where the next one begins.
    pub(super) at: usize,
    /// Still to come, by section.
    left: [u16; 3],
}

impl<'d> Records<'d> {
    /// Those that begin at `at`, with the counts of the message's header.
    pub(super) fn new(message: &'d [u8], at: usize) -> Option<Self> {
        let left = [word(message, 6)?, word(message, 8)?, word(message, 10)?];
        Some(Self { message, at, left })
    }

    /// Whether all came that the header says there are.
    pub(super) fn has_all(&self) -> bool {
        self.left == [0; 3]
    }

    /// Whether all came that the header says there are, and nothing after them.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.has_all() && self.at == self.message.len()
    }
}

impl<'d> Iterator for Records<'d> {
    type Item = (Section, Record<'d>);

    fn next(&mut self) -> Option<Self::Item> {
        let place = self.left.iter().position(|count| *count > 0)?;
        let (record, end) = Record::read(self.message, self.at)?;
        self.left[place] -= 1;
        self.at = end;
        Some((Section::ALL[place], record))
    }
}
