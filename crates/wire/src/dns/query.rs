//! What a client asks. Read once per message by the proxy's name server. Takes one question and
//! nothing that a query has no use for: there is no second meaning to get past us.

use super::record::Records;
use super::{Code, HEADER_BYTES, INTERNET, Kind, Name, UDP_BYTES_MAX, UDP_BYTES_MIN, flag, word};

/// What a query and its answer begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub(super) id: u16,
    pub(super) flags: u16,
}

impl Header {
    /// The flags of an answer to it.
    pub(super) const fn answered(self) -> u16 {
        let kept = flag::OPCODE | flag::RECURSION_DESIRED | flag::CHECKING_DISABLED;
        flag::RESPONSE | flag::RECURSION_AVAILABLE | self.flags & kept
    }
}

/// One question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'d> {
    pub(super) header: Header,
    /// As it came: name, kind and class. An answer repeats it to the letter's case, which some
    /// clients check against forged answers.
    pub(super) question: &'d [u8],
    /// Whose records are asked for.
    pub name: Name<'d>,
    /// Which records.
    pub kind: Kind,
    /// Of which class; others than [`INTERNET`] are curiosities.
    pub class: u16,
    /// What the client is capable of, if it says so.
    pub edns: Option<Edns>,
}

/// What a client is capable of (RFC 6891).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// What it takes over UDP, in bytes; as it said, so any number.
    pub payload: u16,
    /// 0 is the only version that there is.
    pub version: u8,
    /// Whether it wants signatures.
    pub signatures: bool,
}

/// Why a message is no query that can be answered by a name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// It has no header, or it is an answer: nothing is sent, lest two servers answer each other.
    Silence,
    /// It is not a question, or not one question, or is written wrongly.
    Malformed(Header),
    /// It wants something else than an answer: an update, a transfer.
    Unsupported(Header),
}

impl Reject {
    /// Writes what is sent: a header, as the question may not be one.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (header, code) = match *self {
            Self::Silence => return,
            Self::Malformed(header) => (header, Code::FormatError),
            Self::Unsupported(header) => (header, Code::NotImplemented),
        };
        out.extend_from_slice(&header.id.to_be_bytes());
        out.extend_from_slice(&(header.answered() | code as u16).to_be_bytes());
        out.extend_from_slice(&[0; HEADER_BYTES - 4]);
    }
}

impl<'d> Query<'d> {
    /// Reads the query that `message` is.
    ///
    /// # Errors
    /// When it is none, or none that is answered.
    pub fn parse(message: &'d [u8]) -> Result<Self, Reject> {
        if message.len() < HEADER_BYTES {
            return Err(Reject::Silence);
        }
        let header = Header {
            id: u16::from_be_bytes([message[0], message[1]]),
            flags: u16::from_be_bytes([message[2], message[3]]),
        };
        if header.flags & flag::RESPONSE != 0 {
            return Err(Reject::Silence);
        }
        if header.flags & flag::OPCODE != 0 {
            return Err(Reject::Unsupported(header));
        }
        Self::read(header, message).ok_or(Reject::Malformed(header))
    }

    fn read(header: Header, message: &'d [u8]) -> Option<Self> {
        // Several questions never had a meaning (RFC 9619), answers in a query neither.
        let counts = (word(message, 4)?, word(message, 6)?, word(message, 8)?);
        if counts != (1, 0, 0) {
            return None;
        }
        // Nothing comes before the first name that it could point to.
        let (name, end) = Name::read(message, HEADER_BYTES)?;
        let question = message.get(HEADER_BYTES..end + 4)?;
        let mut records = Records::new(message, end + 4)?;
        let mut edns = None;
        for (_, record) in records.by_ref() {
            if record.kind != Kind::OPT {
                continue;
            }
            let said = Edns {
                payload: record.class,
                version: (record.ttl >> 16) as u8,
                signatures: record.ttl & 0x8000 != 0,
            };
            if !record.is_of_root() || edns.replace(said).is_some() {
                return None;
            }
        }
        records.is_at_end().then_some(Self {
            header,
            question,
            name,
            kind: Kind(word(message, end)?),
            class: word(message, end + 2)?,
            edns,
        })
    }

    /// What tells its answer from others; any number.
    #[must_use]
    pub const fn id(&self) -> u16 {
        self.header.id
    }

    /// Whether it is of the class that all names in use are of.
    #[must_use]
    pub const fn is_internet(&self) -> bool {
        self.class == INTERNET
    }

    /// Whether others are to be asked if need be; who does not want that looks into a server.
    #[must_use]
    pub const fn wants_recursion(&self) -> bool {
        self.header.flags & flag::RECURSION_DESIRED != 0
    }

    /// Whether it relies on something of EDNS that nobody knows yet.
    #[must_use]
    pub fn is_of_unknown_version(&self) -> bool {
        self.edns.is_some_and(|edns| edns.version != 0)
    }

    /// How many bytes its answer may have over UDP.
    #[must_use]
    pub fn udp_bytes_max(&self) -> usize {
        let taken = self.edns.map_or(UDP_BYTES_MIN, |edns| edns.payload.into());
        taken.clamp(UDP_BYTES_MIN, UDP_BYTES_MAX)
    }
}
