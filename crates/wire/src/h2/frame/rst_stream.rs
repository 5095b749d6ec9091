//! RST_STREAM (RFC 9113, section 6.4): the end of a stream before its time. Called by the
//! connection. Never knows what the stream was doing.

use super::super::code::{Code, Violation};
use super::{Header, fixed, kind};

/// Why the stream was reset.
pub(in super::super) fn parse(header: &Header, payload: &[u8]) -> Result<Code, Violation> {
    header.of_stream("rst_stream frame on stream 0")?;
    let code = fixed(payload, "rst_stream frame of a wrong size")?;
    Ok(u32::from_be_bytes(*code).into())
}

/// Appends a frame.
pub(in super::super) fn write(stream: u32, code: Code, out: &mut Vec<u8>) {
    let header = Header {
        len: 4,
        kind: kind::RST_STREAM,
        flags: 0,
        stream,
    };
    header.write(out);
    out.extend_from_slice(&u32::from(code).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::tests::{header, parts};
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        write(9, Code::Cancel, &mut out);
        let (header, payload) = parts(&out);
        assert_eq!(
            (header.stream, parse(&header, payload)),
            (9, Ok(Code::Cancel))
        );
    }

    #[test]
    fn it_has_four_bytes_and_a_stream() {
        let code =
            |stream, bytes: &[u8]| parse(&header(3, 0, stream, bytes), bytes).map_err(|v| v.code);
        assert_eq!(code(0, &[0; 4]), Err(Code::ProtocolError));
        assert_eq!(code(1, &[0; 3]), Err(Code::FrameSizeError));
        assert_eq!(code(1, &[0; 5]), Err(Code::FrameSizeError));
    }
}
