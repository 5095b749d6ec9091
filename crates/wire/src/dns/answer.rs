//! What a server answered. Read by whoever asks one; takes whatever is in the sections, and leaves
//! it to the caller to believe it.

use super::record::Records;
use super::{HEADER_BYTES, Kind, Name, flag, word};

/// An answer to one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'d> {
    /// Of the query.
    pub id: u16,
    /// How it ends, as far as the header says: the lower four bits of a [`super::Code`].
    pub code: u16,
    /// Whether something is left out that would be there over TCP.
    pub truncated: bool,
    /// Whether it comes from who decides about the name.
    pub authoritative: bool,
    /// What was asked; `None` if the question was not understood.
    pub question: Option<(Name<'d>, Kind, u16)>,
    pub(super) message: &'d [u8],
    /// Where the records begin.
    pub(super) at: usize,
}

impl<'d> Answer<'d> {
    /// Reads the answer that `message` is; `None` if it is none.
    #[must_use]
    pub fn parse(message: &'d [u8]) -> Option<Self> {
        let flags = word(message, 2).filter(|flags| flags & flag::RESPONSE != 0)?;
        let (question, at) = match word(message, 4)? {
            0 => (None, HEADER_BYTES),
            1 => {
                let (name, end) = Name::read(message, HEADER_BYTES)?;
                let (kind, class) = (Kind(word(message, end)?), word(message, end + 2)?);
                (Some((name, kind, class)), end + 4)
            }
            _ => return None,
        };
        (message.len() >= HEADER_BYTES).then_some(Self {
            id: word(message, 0)?,
            code: flags & flag::CODE,
            truncated: flags & flag::TRUNCATED != 0,
            authoritative: flags & flag::AUTHORITATIVE != 0,
            question,
            message,
            at,
        })
    }

    /// Its records, up to the first that cannot be read.
    #[must_use]
    pub fn records(&self) -> Records<'d> {
        Records::new(self.message, self.at).expect("there is a header")
    }
}
