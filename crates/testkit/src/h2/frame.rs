//! Frames of HTTP/2 (RFC 9113, sections 4 and 6) as a test writes them: nothing here keeps it from
//! writing a wrong one. Used by `frames` and by tests.

use super::{Lines, find};

/// Types (section 11.2).
pub mod kind {
    #![allow(missing_docs, reason = "the names of the RFC")]
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Flags.
pub mod flag {
    #![allow(missing_docs, reason = "the names of the RFC")]
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
}

/// Settings (section 6.5.2).
pub mod setting {
    #![allow(missing_docs, reason = "the names of the RFC")]
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
}

/// Error codes (section 7).
pub mod code {
    #![allow(missing_docs, reason = "the names of the RFC")]
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const INTERNAL_ERROR: u32 = 2;
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    pub const STREAM_CLOSED: u32 = 5;
    pub const FRAME_SIZE_ERROR: u32 = 6;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const COMPRESSION_ERROR: u32 = 9;
    pub const ENHANCE_YOUR_CALM: u32 = 11;
}

/// One frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    /// One of [`kind`].
    pub kind: u8,
    /// Of [`flag`].
    pub flags: u8,
    /// 0 is the connection.
    pub stream: u32,
    /// What follows the frame's head.
    pub payload: Vec<u8>,
    /// The decoded lines of a received HEADERS frame, with those of its continuations.
    pub lines: Lines,
}

impl Frame {
    /// Any frame.
    #[must_use]
    pub fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            kind,
            flags,
            stream,
            payload: payload.into(),
            lines: Lines::new(),
        }
    }

    /// A part of a body.
    #[must_use]
    pub fn data(stream: u32, payload: impl Into<Vec<u8>>, end: bool) -> Self {
        Self::new(
            kind::DATA,
            flag::END_STREAM * u8::from(end),
            stream,
            payload,
        )
    }

    /// A whole head, or trailers.
    #[must_use]
    pub fn headers(stream: u32, lines: &[(&str, &str)], end: bool) -> Self {
        let flags = flag::END_HEADERS | (flag::END_STREAM * u8::from(end));
        Self::new(kind::HEADERS, flags, stream, block(lines))
    }

    /// The head of a request without a body.
    #[must_use]
    pub fn get(stream: u32, path: &str) -> Self {
        Self::headers(stream, &request("GET", path), true)
    }

    /// The head of a request with a body.
    #[must_use]
    pub fn post(stream: u32, path: &str) -> Self {
        Self::headers(stream, &request("POST", path), false)
    }

    /// The head of an answer.
    #[must_use]
    pub fn status(stream: u32, status: u16, end: bool) -> Self {
        Self::headers(stream, &[(":status", &status.to_string())], end)
    }

    /// Settings; none is a good one.
    #[must_use]
    pub fn settings(settings: &[(u16, u32)]) -> Self {
        let one = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        let payload: Vec<_> = settings.iter().flat_map(one).collect();
        Self::new(kind::SETTINGS, 0, 0, payload)
    }

    /// A question for a sign of life.
    #[must_use]
    pub fn ping(payload: [u8; 8]) -> Self {
        Self::new(kind::PING, 0, 0, payload)
    }

    /// Gives a stream up.
    #[must_use]
    pub fn reset(stream: u32, code: u32) -> Self {
        Self::new(kind::RST_STREAM, 0, stream, code.to_be_bytes())
    }

    /// Opens a window.
    #[must_use]
    pub fn window(stream: u32, more: u32) -> Self {
        Self::new(kind::WINDOW_UPDATE, 0, stream, more.to_be_bytes())
    }

    /// Streams past `last` will not be looked at.
    #[must_use]
    pub fn go_away(last: u32, code: u32) -> Self {
        let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
        Self::new(kind::GOAWAY, 0, 0, payload)
    }

    /// As it stands on the wire.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).expect("a frame is small");
        let mut bytes = length.to_be_bytes()[1..].to_vec();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// Whether its sender ends the stream with it.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self.kind, kind::DATA | kind::HEADERS) && self.flags & flag::END_STREAM != 0
    }

    /// The error code of a reset or a goodbye.
    ///
    /// # Panics
    /// If it is neither.
    #[must_use]
    pub fn code(&self) -> u32 {
        match self.kind {
            kind::RST_STREAM => self.number(0),
            kind::GOAWAY => self.number(4),
            _ => panic!("{self:?} has no code"),
        }
    }

    /// A number of 32 bits in its payload.
    ///
    /// # Panics
    /// If the payload is shorter.
    #[must_use]
    pub fn number(&self, at: usize) -> u32 {
        let bytes = self.payload[at..at + 4].try_into();
        u32::from_be_bytes(bytes.expect("four bytes"))
    }

    /// The first value of a received line.
    #[must_use]
    pub fn line(&self, name: &str) -> Option<&str> {
        find(&self.lines, name)
    }
}

/// The lines of a request's head.
#[must_use]
pub(crate) fn request<'a>(method: &'a str, path: &'a str) -> [(&'a str, &'a str); 4] {
    [
        (":method", method),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", path),
    ]
}

/// Lines in the plainest form of HPACK: literals without a place in the table (RFC 7541, section
/// 6.2.2).
pub(crate) fn block(lines: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in lines {
        block.push(0);
        for text in [name, value] {
            length(text.len(), &mut block);
            block.extend(text.as_bytes());
        }
    }
    block
}

/// An integer with a prefix of seven bits (RFC 7541, section 5.1).
fn length(mut length: usize, out: &mut Vec<u8>) {
    let byte = |number: usize| u8::try_from(number).expect("at most eight bits");
    if length < 127 {
        return out.push(byte(length));
    }
    out.push(127);
    length -= 127;
    while length >= 128 {
        out.push(byte((length % 128) | 128));
        length /= 128;
    }
    out.push(byte(length));
}
