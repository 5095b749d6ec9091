//! Names of the DNS: labels, each after a byte that says how long it is, up to the root's zero.
//! Read by queries, records and replies. Names are compared without regard to ASCII case and kept
//! in the case they came in.

use std::fmt::{self, Write as _};

use super::HEADER_BYTES;

/// Longest name, as it is written, with the root's zero (RFC 1035, section 2.3.4).
pub const NAME_BYTES_MAX: usize = 255;

/// Longest label, as its length has six bits.
pub const LABEL_BYTES_MAX: usize = 63;

/// The two bits that make of a length a pointer to an earlier place of the message.
const POINTER: u8 = 0xc0;

/// A name without pointers, borrowed from where it is written.
///
/// Invariant: labels of 1 to 63 bytes, then one zero, and at most 255 bytes.
#[derive(Clone, Copy)]
pub struct Name<'d>(&'d [u8]);

impl<'d> Name<'d> {
    /// The name that `bytes` are the whole of; `None` if they are none.
    #[must_use]
    pub fn from_wire(bytes: &'d [u8]) -> Option<Self> {
        let (name, end) = Self::read(bytes, 0)?;
        (end == bytes.len()).then_some(name)
    }

    /// The name at `at`, and where it ends; `None` if there is none, or one with a pointer.
    pub(super) fn read(message: &'d [u8], at: usize) -> Option<(Self, usize)> {
        let mut end = at;
        loop {
            let length = usize::from(*message.get(end)?);
            if length > LABEL_BYTES_MAX || end - at + length >= NAME_BYTES_MAX {
                return None;
            }
            end += 1 + length;
            if length == 0 {
                return Some((Self(&message[at..end]), end));
            }
        }
    }

    /// As it is written.
    #[must_use]
    pub const fn wire(self) -> &'d [u8] {
        self.0
    }

    /// Its labels, the most specific first; the root has none.
    #[must_use]
    pub const fn labels(self) -> Labels<'d> {
        Labels { rest: self.0 }
    }

    /// Where in this name `zone` begins, if this is `zone` or a name below it.
    pub(super) fn position(self, zone: Name<'_>) -> Option<usize> {
        let mut labels = self.labels();
        loop {
            if labels.rest.eq_ignore_ascii_case(zone.0) {
                return Some(self.0.len() - labels.rest.len());
            }
            labels.next()?;
        }
    }

    /// Whether it is `zone` or a name below it.
    #[must_use]
    pub fn is_within(self, zone: Name<'_>) -> bool {
        self.position(zone).is_some()
    }
}

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }
}

impl Eq for Name<'_> {}

/// As people write it, without the last dot; bytes that would deceive are escaped.
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.len() == 1 {
            return f.write_char('.');
        }
        for (place, label) in self.labels().enumerate() {
            if place > 0 {
                f.write_char('.')?;
            }
            for byte in label {
                match byte {
                    b'.' | b'\\' => write!(f, "\\{}", char::from(*byte))?,
                    b'!'..=b'~' => f.write_char(char::from(*byte))?,
                    _ => write!(f, "\\{byte:03}")?,
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

/// The labels of a name. Made by [`Name::labels`].
#[derive(Clone, Debug)]
pub struct Labels<'d> {
    /// Invariant: a name, until it has been taken apart.
    rest: &'d [u8],
}

impl<'d> Iterator for Labels<'d> {
    type Item = &'d [u8];

    fn next(&mut self) -> Option<&'d [u8]> {
        let (length, rest) = self.rest.split_first()?;
        if *length == 0 {
            return None;
        }
        let (label, rest) = rest.split_at_checked(usize::from(*length))?;
        self.rest = rest;
        Some(label)
    }
}

/// Where the name at `at` ends, pointers or not; they are not followed.
pub(super) fn skip(message: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    while end - at < NAME_BYTES_MAX {
        match *message.get(end)? {
            0 => return Some(end + 1),
            length if length & POINTER == POINTER => {
                message.get(end + 1)?;
                return Some(end + 2);
            }
            length if length & POINTER != 0 => return None,
            length => end += 1 + usize::from(length),
        }
    }
    None
}

/// Writes the name at `at` to `out` without pointers. Each pointer must lead further to the front
/// than all before it, so that they end.
pub(super) fn expand(message: &[u8], at: usize, out: &mut Vec<u8>) -> Option<()> {
    let (mut at, mut start, begun) = (at, at, out.len());
    loop {
        let length = *message.get(at)?;
        if length & POINTER == POINTER {
            let low = *message.get(at + 1)?;
            at = usize::from(u16::from_be_bytes([length & !POINTER, low]));
            if at >= start || at < HEADER_BYTES {
                return None;
            }
            start = at;
            continue;
        }
        let end = at + 1 + usize::from(length);
        let label = message.get(at..end)?;
        if usize::from(length) > LABEL_BYTES_MAX || out.len() - begun + label.len() > NAME_BYTES_MAX
        {
            return None;
        }
        out.extend_from_slice(label);
        if length == 0 {
            return Some(());
        }
        at = end;
    }
}
