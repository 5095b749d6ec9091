//! Frames (RFC 9113, sections 4 and 6): nine bytes of header, then a payload of a kind of its own,
//! one file each. Called by the connection. Never knows of any state: it checks what a frame says
//! by itself, nothing else.

pub(super) mod continuation;
pub(super) mod data;
pub(super) mod goaway;
pub(super) mod headers;
pub(super) mod ping;
pub(super) mod priority;
pub(super) mod push_promise;
pub(super) mod rst_stream;
pub(super) mod settings;
pub(super) mod window_update;

use super::code::{Code, Violation};

/// Bytes before each payload.
pub(super) const HEADER_BYTES: usize = 9;

/// The largest payload we take and send: the protocol's initial SETTINGS_MAX_FRAME_SIZE, which we
/// never raise. Larger frames would only make others wait longer behind them.
pub(super) const PAYLOAD_MAX: usize = 16_384;

/// Ids and increments have 31 bits; the first one is reserved.
const LOW_31: u32 = (1 << 31) - 1;

/// Flags; their meaning depends on the kind.
pub(super) mod flag {
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// Kinds of frames (section 6), as they stand in the header.
pub(super) mod kind {
    pub(crate) const DATA: u8 = 0x0;
    pub(crate) const HEADERS: u8 = 0x1;
    pub(crate) const PRIORITY: u8 = 0x2;
    pub(crate) const RST_STREAM: u8 = 0x3;
    pub(crate) const SETTINGS: u8 = 0x4;
    pub(crate) const PUSH_PROMISE: u8 = 0x5;
    pub(crate) const PING: u8 = 0x6;
    pub(crate) const GOAWAY: u8 = 0x7;
    pub(crate) const WINDOW_UPDATE: u8 = 0x8;
    pub(crate) const CONTINUATION: u8 = 0x9;
}

/// The header of a frame (section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of the payload.
    pub(super) len: usize,
    /// One of `kind`, or anything else.
    pub(super) kind: u8,
    /// Some of `flag`.
    pub(super) flags: u8,
    /// The stream, or 0 for the connection.
    pub(super) stream: u32,
}

impl Header {
    /// The header at the beginning of `input`, if it is there in full.
    #[inline]
    pub(super) fn parse(input: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = input.first_chunk()?;
        Some(Self {
            len: u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize,
            kind: bytes[3],
            flags: bytes[4],
            stream: word(&bytes[5..]) & LOW_31,
        })
    }

    /// Appends it to `out`. Invariant: `len` has at most 24 bits.
    #[inline]
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let [_, a, b, c] = (self.len as u32).to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        out.extend_from_slice(&[a, b, c, self.kind, self.flags, d, e, f, g]);
    }

    /// Whether `flag` is set.
    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Refuses a frame of a stream that names none.
    #[inline]
    fn of_stream(&self, reason: &'static str) -> Result<(), Violation> {
        match self.stream {
            0 => Err(Violation::protocol(reason)),
            _ => Ok(()),
        }
    }

    /// Refuses a frame of the connection that names a stream.
    fn of_connection(&self, reason: &'static str) -> Result<(), Violation> {
        match self.stream {
            0 => Ok(()),
            _ => Err(Violation::protocol(reason)),
        }
    }
}

/// The first four bytes as a number; zero if there are fewer.
#[inline]
fn word(bytes: &[u8]) -> u32 {
    bytes
        .first_chunk()
        .map_or(0, |word| u32::from_be_bytes(*word))
}

/// A payload of a fixed size, or the violation.
fn fixed<'p, const N: usize>(
    payload: &'p [u8],
    reason: &'static str,
) -> Result<&'p [u8; N], Violation> {
    payload
        .try_into()
        .map_err(|_| Violation::new(Code::FrameSizeError, reason))
}

/// Bytes of padding that the first payload byte of a padded frame announces. The padding and
/// that byte must fit the frame (section 6.1).
#[inline]
fn padding(header: &Header, first: Option<u8>) -> Result<usize, Violation> {
    if !header.has(flag::PADDED) {
        return Ok(0);
    }
    match first {
        None => Err(Violation::new(
            Code::FrameSizeError,
            "padded frame without its padding length",
        )),
        Some(padding) if usize::from(padding) >= header.len => {
            Err(Violation::protocol("padding is longer than its frame"))
        }
        Some(padding) => Ok(padding.into()),
    }
}

/// What the tests of all frames share.
#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The header and payload of the one frame in `bytes`.
    pub(crate) fn parts(bytes: &[u8]) -> (Header, &[u8]) {
        let header = Header::parse(bytes).unwrap();
        assert_eq!(bytes.len(), HEADER_BYTES + header.len);
        (header, &bytes[HEADER_BYTES..])
    }

    /// A header with the length of `payload`.
    pub(crate) fn header(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Header {
        let len = payload.len();
        Header {
            len,
            kind,
            flags,
            stream,
        }
    }

    #[test]
    fn a_header_is_what_was_written() {
        let cases = [
            (0, 0, 0, 0),
            (1, 2, 3, 4),
            (0xff_ffff, 0xff, 0xff, 0x7fff_ffff),
        ];
        for (len, kind, flags, stream) in cases {
            let header = Header {
                len,
                kind,
                flags,
                stream,
            };
            let mut out = Vec::new();
            header.write(&mut out);
            assert_eq!(Header::parse(&out), Some(header));
            assert_eq!(Header::parse(&out[..8]), None);
        }
    }

    #[test]
    fn the_reserved_bit_means_nothing() {
        let bytes = [0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(Header::parse(&bytes).unwrap().stream, 0x7fff_ffff);
    }
}
