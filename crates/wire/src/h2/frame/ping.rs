//! PING (RFC 9113, section 6.7). Called by the connection. Never measures time.

use super::super::code::Violation;
use super::{Header, fixed, flag, kind};

/// Whether it answers a ping of ours, and what it says.
pub(in super::super) fn parse(
    header: &Header,
    payload: &[u8],
) -> Result<(bool, [u8; 8]), Violation> {
    header.of_connection("ping frame on a stream")?;
    let payload = fixed(payload, "ping frame of a wrong size")?;
    Ok((header.has(flag::ACK), *payload))
}

/// Appends a ping, or the answer to one.
pub(in super::super) fn write(ack: bool, payload: [u8; 8], out: &mut Vec<u8>) {
    let header = Header {
        len: payload.len(),
        kind: kind::PING,
        flags: if ack { flag::ACK } else { 0 },
        stream: 0,
    };
    header.write(out);
    out.extend_from_slice(&payload);
}

#[cfg(test)]
mod tests {
    use super::super::super::code::Code;
    use super::super::tests::{header, parts};
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for ack in [false, true] {
            let mut out = Vec::new();
            write(ack, *b"01234567", &mut out);
            let (header, payload) = parts(&out);
            assert_eq!(parse(&header, payload), Ok((ack, *b"01234567")));
        }
    }

    #[test]
    fn it_has_eight_bytes_and_no_stream() {
        let code =
            |stream, bytes: &[u8]| parse(&header(6, 0, stream, bytes), bytes).map_err(|v| v.code);
        assert_eq!(code(1, &[0; 8]), Err(Code::ProtocolError));
        assert_eq!(code(0, &[0; 7]), Err(Code::FrameSizeError));
        assert_eq!(code(0, &[0; 9]), Err(Code::FrameSizeError));
    }
}
