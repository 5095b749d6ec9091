//! GOAWAY (RFC 9113, section 6.8). Called by the connection. Never reads the debug data, which is
//! the peer's to invent.

use super::super::code::{Code, Violation};
use super::{Header, LOW_31, kind, word};

/// Bytes before the debug data.
const BYTES_MIN: usize = 8;

/// The last stream that the sender may have acted on, and why it goes.
pub(in super::super) fn parse(header: &Header, payload: &[u8]) -> Result<(u32, Code), Violation> {
    header.of_connection("goaway frame on a stream")?;
    match payload.get(BYTES_MIN - 4..) {
        Some(code) if code.len() >= 4 => Ok((word(payload) & LOW_31, word(code).into())),
        _ => Err(Violation::new(
            Code::FrameSizeError,
            "goaway frame of a wrong size",
        )),
    }
}

/// Appends a frame without debug data.
pub(in super::super) fn write(last: u32, code: Code, out: &mut Vec<u8>) {
    let header = Header {
        len: BYTES_MIN,
        kind: kind::GOAWAY,
        flags: 0,
        stream: 0,
    };
    header.write(out);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&u32::from(code).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::tests::{header, parts};
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        write(LOW_31, Code::EnhanceYourCalm, &mut out);
        let (header, payload) = parts(&out);
        assert_eq!(parse(&header, payload), Ok((LOW_31, Code::EnhanceYourCalm)));
    }

    #[test]
    fn it_has_eight_bytes_or_more_and_no_stream() {
        let code =
            |stream, bytes: &[u8]| parse(&header(7, 0, stream, bytes), bytes).map_err(|v| v.code);
        assert_eq!(
            code(0, b"\x80\0\0\x05\0\0\0\x02why"),
            Ok((5, Code::InternalError))
        );
        assert_eq!(code(1, &[0; 8]), Err(Code::ProtocolError));
        assert_eq!(code(0, &[0; 7]), Err(Code::FrameSizeError));
        assert_eq!(code(0, &[0; 3]), Err(Code::FrameSizeError));
    }
}
