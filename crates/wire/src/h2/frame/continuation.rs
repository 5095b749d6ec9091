//! CONTINUATION (RFC 9113, section 6.10): more of a header block. Called by the connection, and by
//! HEADERS for a block that is larger than a frame. Never looks into the block.

use super::super::code::Violation;
use super::{HEADER_BYTES, Header, PAYLOAD_MAX, flag, kind};

/// Whether the block of this frame is the last part; the whole payload is a part.
pub(in super::super) fn parse(header: &Header) -> Result<bool, Violation> {
    header.of_stream("continuation frame on stream 0")?;
    Ok(header.has(flag::END_HEADERS))
}

/// Cuts the HEADERS frame at `at`, whose block reaches to the end of `out`, into frames of a size
/// that every peer takes. Rare: a block over 16 KiB.
#[cold]
pub(super) fn split(at: usize, out: &mut Vec<u8>) {
    let Some(first) = Header::parse(&out[at..]) else {
        return;
    };
    let block = out.split_off(at + HEADER_BYTES);
    out.truncate(at);
    let parts = block.chunks(PAYLOAD_MAX);
    let last = parts.len() - 1;
    for (place, part) in parts.enumerate() {
        let end = if place == last { flag::END_HEADERS } else { 0 };
        let of_first = first.flags & !flag::END_HEADERS;
        let header = Header {
            len: part.len(),
            kind: if place == 0 {
                first.kind
            } else {
                kind::CONTINUATION
            },
            flags: end | if place == 0 { of_first } else { 0 },
            stream: first.stream,
        };
        header.write(out);
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::super::headers;
    use super::*;

    /// Kind, flags and length of each frame of a block this long.
    fn check(block: usize, expected: &[(u8, u8, usize)]) {
        let mut out = b"before".to_vec();
        let at = headers::begin(3, true, &mut out);
        out.extend((0..block).map(|at| at as u8));
        headers::finish(at, &mut out);
        let (mut rest, mut whole, mut frames) = (&out[6..], Vec::new(), Vec::new());
        while let Some(header) = Header::parse(rest) {
            assert_eq!(header.stream, 3);
            frames.push((header.kind, header.flags, header.len));
            whole.extend_from_slice(&rest[HEADER_BYTES..HEADER_BYTES + header.len]);
            rest = &rest[HEADER_BYTES + header.len..];
        }
        assert_eq!(frames, expected);
        assert!(whole.iter().enumerate().all(|(at, byte)| *byte == at as u8));
    }

    #[test]
    fn a_large_block_is_continued() {
        let (headers, more, end) = (kind::HEADERS, kind::CONTINUATION, flag::END_HEADERS);
        check(0, &[(headers, end | 1, 0)]);
        check(PAYLOAD_MAX, &[(headers, end | 1, PAYLOAD_MAX)]);
        check(
            PAYLOAD_MAX + 1,
            &[(headers, 1, PAYLOAD_MAX), (more, end, 1)],
        );
        let full = PAYLOAD_MAX;
        check(
            2 * full + 9,
            &[(headers, 1, full), (more, 0, full), (more, end, 9)],
        );
    }

    #[test]
    fn it_belongs_to_a_stream() {
        let header = |stream| super::super::tests::header(kind::CONTINUATION, 4, stream, b"");
        assert_eq!(parse(&header(1)), Ok(true));
        assert!(parse(&header(0)).is_err());
    }
}
