//! DATA (RFC 9113, section 6.1). Called by the connection as soon as the header is there, before
//! the payload is. Never sees the payload.

use super::super::code::Violation;
use super::{Header, PAYLOAD_MAX, flag, kind, padding};

/// What the payload of a DATA frame consists of, the padding length being read already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Data {
    /// Bytes of data.
    pub(in super::super) payload: usize,
    /// Bytes of padding behind them.
    pub(in super::super) padding: usize,
    /// The stream ends with it.
    pub(in super::super) end: bool,
}

/// Reads what can be known from the header and, of a padded frame, `first`, its first byte.
#[inline]
pub(in super::super) fn parse(header: &Header, first: Option<u8>) -> Result<Data, Violation> {
    header.of_stream("data frame on stream 0")?;
    let padding = padding(header, first)?;
    Ok(Data {
        payload: header.len - padding - usize::from(header.has(flag::PADDED)),
        padding,
        end: header.has(flag::END_STREAM),
    })
}

/// Appends one frame. Invariant: `payload` has at most `PAYLOAD_MAX` bytes.
#[inline]
pub(in super::super) fn write(stream: u32, payload: &[u8], end: bool, out: &mut Vec<u8>) {
    debug_assert!(payload.len() <= PAYLOAD_MAX);
    let header = Header {
        len: payload.len(),
        kind: kind::DATA,
        flags: if end { flag::END_STREAM } else { 0 },
        stream,
    };
    header.write(out);
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{header, parts};
    use super::*;

    #[track_caller]
    fn check(flags: u8, stream: u32, payload: &[u8], expected: Result<(usize, usize), &str>) {
        let header = header(kind::DATA, flags, stream, payload);
        let data = parse(&header, payload.first().copied());
        let shown = data.map(|d| (d.payload, d.padding)).map_err(|v| v.reason);
        assert_eq!(shown, expected);
    }

    #[test]
    fn padding_is_not_payload() {
        check(0, 1, b"abc", Ok((3, 0)));
        check(flag::PADDED, 1, b"\x02abc\0\0", Ok((3, 2)));
        check(flag::PADDED, 1, b"\x02\0\0", Ok((0, 2)));
        check(flag::PADDED, 1, b"\0", Ok((0, 0)));
        check(
            flag::PADDED,
            1,
            b"\x01",
            Err("padding is longer than its frame"),
        );
        check(
            flag::PADDED,
            1,
            b"",
            Err("padded frame without its padding length"),
        );
        check(0, 0, b"abc", Err("data frame on stream 0"));
    }

    #[test]
    fn what_is_written_is_read() {
        for end in [false, true] {
            let mut out = Vec::new();
            write(5, b"hello", end, &mut out);
            let (header, payload) = parts(&out);
            assert_eq!((header.stream, payload), (5, &b"hello"[..]));
            let data = parse(&header, payload.first().copied()).unwrap();
            assert_eq!((data.payload, data.padding, data.end), (5, 0, end));
        }
    }
}
