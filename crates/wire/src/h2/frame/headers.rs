//! HEADERS (RFC 9113, section 6.2). Called by the connection. Never looks into the header block.

use super::super::code::{Code, Violation};
use super::{HEADER_BYTES, Header, LOW_31, PAYLOAD_MAX, continuation, flag, kind, padding, word};

/// Bytes of the deprecated priority fields.
const PRIORITY_BYTES: usize = 5;

/// What a HEADERS frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Headers<'p> {
    /// The header block, or its beginning.
    pub(in super::super) block: &'p [u8],
    /// The stream ends with this block.
    pub(in super::super) end_stream: bool,
    /// The block is complete.
    pub(in super::super) end_headers: bool,
    /// The stream says that it depends on itself, which is an error of the stream.
    pub(in super::super) depends_on_itself: bool,
}

/// Reads a whole frame.
#[inline]
pub(in super::super) fn parse<'p>(
    header: &Header,
    payload: &'p [u8],
) -> Result<Headers<'p>, Violation> {
    header.of_stream("headers frame on stream 0")?;
    let padding = padding(header, payload.first().copied())?;
    let padded = usize::from(header.has(flag::PADDED));
    let mut block = &payload[padded..payload.len() - padding];
    let mut depends_on_itself = false;
    if header.has(flag::PRIORITY) {
        depends_on_itself = word(block) & LOW_31 == header.stream;
        block = block.get(PRIORITY_BYTES..).ok_or(TOO_SHORT)?;
    }
    Ok(Headers {
        block,
        end_stream: header.has(flag::END_STREAM),
        end_headers: header.has(flag::END_HEADERS),
        depends_on_itself,
    })
}

const TOO_SHORT: Violation = Violation {
    code: Code::FrameSizeError,
    reason: "headers frame too short for its priority",
};

/// Begins a frame whose block is then appended to `out`; its place for `finish`.
#[inline]
pub(in super::super) fn begin(stream: u32, end_stream: bool, out: &mut Vec<u8>) -> usize {
    let at = out.len();
    let end = if end_stream { flag::END_STREAM } else { 0 };
    let header = Header {
        len: 0,
        kind: kind::HEADERS,
        flags: flag::END_HEADERS | end,
        stream,
    };
    header.write(out);
    at
}

/// Ends the frame that began at `at`, now that its block stands in `out`.
#[inline]
pub(in super::super) fn finish(at: usize, out: &mut Vec<u8>) {
    let len = out.len() - at - HEADER_BYTES;
    if len > PAYLOAD_MAX {
        return continuation::split(at, out);
    }
    out[at..at + 3].copy_from_slice(&(len as u32).to_be_bytes()[1..]);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{header, parts};
    use super::*;

    #[track_caller]
    fn check(flags: u8, payload: &[u8], expected: Result<(&[u8], bool), &str>) {
        let header = header(kind::HEADERS, flags, 1, payload);
        let headers = parse(&header, payload);
        let shown = headers.map(|h| (h.block, h.depends_on_itself));
        assert_eq!(shown.map_err(|v| v.reason), expected);
    }

    #[test]
    fn padding_and_priority_are_not_of_the_block() {
        let both = flag::PADDED | flag::PRIORITY;
        check(0, b"block", Ok((b"block", false)));
        check(0, b"", Ok((b"", false)));
        check(flag::PADDED, b"\x02block\0\0", Ok((b"block", false)));
        check(
            flag::PRIORITY,
            b"\0\0\0\x03\x10block",
            Ok((b"block", false)),
        );
        check(flag::PRIORITY, b"\0\0\0\x01\x10block", Ok((b"block", true)));
        check(flag::PRIORITY, b"\x80\0\0\x01\x10", Ok((b"", true)));
        check(both, b"\x01\0\0\0\x03\x10b\0", Ok((b"b", false)));
        let short = "headers frame too short for its priority";
        check(flag::PRIORITY, b"\0\0\0\x03", Err(short));
        check(both, b"\x02\0\0\0\x03\0\0", Err(short));
        let long = "padding is longer than its frame";
        check(flag::PADDED, b"\x05bloc", Err(long));
        let bare = parse(&super::super::tests::header(1, 0, 0, b""), b"");
        assert_eq!(bare.unwrap_err().code, Code::ProtocolError);
    }

    #[test]
    fn what_is_written_is_read() {
        for end in [false, true] {
            let mut out = Vec::new();
            let at = begin(7, end, &mut out);
            out.extend_from_slice(b"block");
            finish(at, &mut out);
            let (header, payload) = parts(&out);
            let headers = parse(&header, payload).unwrap();
            assert_eq!((header.stream, headers.block), (7, &b"block"[..]));
            assert_eq!((headers.end_stream, headers.end_headers), (end, true));
        }
    }
}
