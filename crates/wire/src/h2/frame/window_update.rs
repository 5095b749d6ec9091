//! WINDOW_UPDATE (RFC 9113, section 6.9). Called by the connection. Never changes a window.

use super::super::code::{Code, Fault, Violation};
use super::{Header, LOW_31, fixed, kind};

/// By how many bytes the window grows, 1 to 2^31 - 1. None at all is an error of the stream, if
/// it has one.
pub(in super::super) fn parse(header: &Header, payload: &[u8]) -> Result<u32, Fault> {
    let bytes = fixed(payload, "window_update frame of a wrong size")?;
    match u32::from_be_bytes(*bytes) & LOW_31 {
        0 if header.stream == 0 => Err(Violation::protocol("window update of nothing").into()),
        0 => Err(Fault::Stream(Code::ProtocolError)),
        increment => Ok(increment),
    }
}

/// Appends a frame.
pub(in super::super) fn write(stream: u32, increment: u32, out: &mut Vec<u8>) {
    let header = Header {
        len: 4,
        kind: kind::WINDOW_UPDATE,
        flags: 0,
        stream,
    };
    header.write(out);
    out.extend_from_slice(&increment.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::tests::{header, parts};
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (stream, increment) in [(0, 1), (5, LOW_31)] {
            let mut out = Vec::new();
            write(stream, increment, &mut out);
            let (header, payload) = parts(&out);
            assert_eq!(header.stream, stream);
            assert_eq!(parse(&header, payload), Ok(increment));
        }
    }

    #[test]
    fn nothing_is_no_update() {
        let of = |stream, bytes: &[u8]| parse(&header(8, 0, stream, bytes), bytes);
        let stream = Err(Fault::Stream(Code::ProtocolError));
        assert_eq!(of(1, &[0x80, 0, 0, 0]), stream);
        assert!(matches!(of(0, &[0; 4]), Err(Fault::Connection(_))));
        assert!(matches!(of(1, &[0; 5]), Err(Fault::Connection(_))));
    }
}
