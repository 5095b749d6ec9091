//! The lines of a head as ranges of its buffer, and the bounds within which heads are read.
//! Shared by requests and responses; never looks into what a line means.

use std::mem::MaybeUninit;

use httparse::Header;

use super::fields::{Field, Fields};
use super::reject::Reject;

/// The most lines of a head that the scanner's own room, which lies on the stack, is enough for.
pub(super) const LINES_MAX: usize = 256;

/// How many empty lines may precede a request (RFC 9112, section 2.2, asks for at least one).
pub(crate) const EMPTY_LINES_MAX: usize = 4;

/// Where the scanner puts the lines; uninitialized, so that it costs nothing to make.
pub(super) type Room<'b> = [MaybeUninit<Header<'b>>; LINES_MAX];

/// Room for as many lines as the limits allow, for the rare head that needs it.
#[cold]
pub(super) fn large_room<'b>(limits: &Limits) -> Vec<MaybeUninit<Header<'b>>> {
    let mut room = Vec::with_capacity(limits.headers);
    room.resize_with(limits.headers, MaybeUninit::uninit);
    room
}

/// The bounds of a head.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes from the start of the buffer to the end of the blank line.
    pub head_bytes: usize,
    /// Header lines. Heads with more than 256 cost an allocation each.
    pub headers: usize,
}

impl Limits {
    /// As much of `buf` as may belong to one head. Positions in it fit a `Span`.
    pub(super) fn window<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        &buf[..buf.len().min(self.head_bytes).min(u32::MAX as usize)]
    }

    /// What an incomplete head in `buf` means: there may be more to come, or it is too large.
    pub(super) fn partial(&self, buf: &[u8]) -> Result<Parsed, Reject> {
        match self.window(buf).len() < self.head_bytes.min(u32::MAX as usize) {
            true => Ok(Parsed::Partial),
            false => Err(Reject::HeadTooLarge),
        }
    }
}

/// Whether a head was there in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// It was, and all fields of the head are set.
    Complete,
    /// More bytes are needed; the fields of the head mean nothing.
    Partial,
}

/// The version of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
}

impl Version {
    pub(super) fn from_minor(minor: Option<u8>) -> Self {
        if minor == Some(0) {
            Self::Http10
        } else {
            Self::Http11
        }
    }
}

/// A range of the buffer that a head was parsed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes in `buf`, which must begin as the buffer did that the head was parsed from.
    #[inline]
    pub fn of<'b>(&self, buf: &'b [u8]) -> &'b [u8] {
        &buf[self.start as usize..self.end as usize]
    }

    /// How many bytes it covers.
    #[inline]
    pub fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether it covers none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Invariant: `start + len` lies in the window of `Limits`, so it fits.
    #[inline]
    pub(crate) fn at(start: usize, len: usize) -> Self {
        Self {
            start: start as u32,
            end: (start + len) as u32,
        }
    }
}

/// One header line. It reaches from `name.start` to the `name.start` of the next one, or for
/// the last one to the blank line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The name in the case it was written in.
    pub name: Span,
    /// The value without the white space around it.
    pub value: Span,
    /// Not to be written to the next hop.
    pub dropped: bool,
}

/// A line of the scanner as ranges of `buf`, in which it lies.
#[inline]
fn line(buf: &[u8], header: &Header<'_>) -> Line {
    let offset = |part: *const u8| part.addr() - buf.as_ptr().addr();
    Line {
        name: Span::at(offset(header.name.as_ptr()), header.name.len()),
        value: Span::at(offset(header.value.as_ptr()), header.value.len()),
        dropped: false,
    }
}

/// Fills `lines` and `fields` from what the scanner found in `head`, and checks what it is lenient
/// about: that every line of the head ends in CR LF.
#[inline]
pub(super) fn take(
    lines: &mut Vec<Line>,
    fields: &mut Fields,
    head: &[u8],
    headers: &[Header<'_>],
) -> Result<(), Reject> {
    let mut ends = ends_in_crlf(head, head.len()) && ends_in_crlf(head, head.len() - 2);
    lines.clear();
    lines.extend(headers.iter().map(|header| {
        let line = line(head, header);
        ends &= ends_in_crlf(head, line.name.start as usize);
        line
    }));
    if !ends {
        return Err(Reject::BareLf);
    }
    for (line, header) in lines.iter_mut().zip(headers) {
        if let Some(field) = Field::of(header.name.as_bytes()) {
            if field.frames() && has_tabs(head, line) {
                return Err(field.malformed());
            }
            fields.take(field, header.value, line)?;
        }
    }
    Ok(())
}

/// Whether there are tabs around the value of a line. They may stand there, but not every reader
/// takes them for white space, and framing must be the same for all.
fn has_tabs(head: &[u8], line: &Line) -> bool {
    let before = &head[line.name.end as usize + 1..line.value.start as usize];
    let after = head[line.value.end as usize..].iter();
    before.contains(&b'\t') || after.take_while(|b| **b != b'\r').any(|b| *b == b'\t')
}

/// The first of `lines` with this name, in any case.
#[inline]
pub(super) fn find<'l>(lines: &'l [Line], buf: &[u8], name: &str) -> Option<&'l Line> {
    lines.iter().find(|line| {
        line.name.len() == name.len() && line.name.of(buf).eq_ignore_ascii_case(name.as_bytes())
    })
}

/// Whether the line before offset `end` ends in CR LF. The scanner has seen that it ends in LF
/// and, if there is a CR, that it stands before it.
#[inline]
pub(super) fn ends_in_crlf(buf: &[u8], end: usize) -> bool {
    end >= 2 && buf[end - 2] == b'\r'
}

/// Whether the new bytes of `buf`, of which `seen` were there before, make another attempt at
/// an incomplete head worth it: its end may be among them, or the buffer crossed a power of two
/// (then an error shows early, and a head that trickles in still costs linear time).
pub(super) fn worth_parsing(buf: &[u8], seen: usize) -> bool {
    let from = seen.min(buf.len()).saturating_sub(3);
    let doubled = seen == 0 || buf.len().checked_ilog2() != seen.checked_ilog2();
    doubled
        || buf[from..]
            .windows(2)
            .any(|pair| matches!(pair, b"\n\r" | b"\n\n"))
}

/// Whether `byte` may stand in a token (RFC 9110, section 5.6.2).
#[inline]
pub(crate) fn token(byte: u8) -> bool {
    TOKEN[byte as usize]
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.'
            )
            || matches!(b, b'^' | b'_' | b'`' | b'|' | b'~');
        byte += 1;
    }
    table
};
