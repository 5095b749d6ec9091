//! PRIORITY (RFC 9113, section 6.3), which is deprecated: it is checked and then ignored. Called by
//! the connection. Never written.

use super::super::code::{Code, Fault};
use super::{Header, LOW_31, word};

/// Bytes of the payload.
const BYTES: usize = 5;

/// Checks a frame.
pub(in super::super) fn check(header: &Header, payload: &[u8]) -> Result<(), Fault> {
    header.of_stream("priority frame on stream 0")?;
    if payload.len() != BYTES {
        return Err(Fault::Stream(Code::FrameSizeError));
    }
    match word(payload) & LOW_31 == header.stream {
        true => Err(Fault::Stream(Code::ProtocolError)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{kind, tests};
    use super::*;

    #[test]
    fn a_stream_does_not_depend_on_itself() {
        let of = |stream, payload: &[u8]| {
            check(&tests::header(kind::PRIORITY, 0, stream, payload), payload)
        };
        assert_eq!(of(1, &[0, 0, 0, 3, 0]), Ok(()));
        assert_eq!(of(3, &[0, 0, 0, 0, 0]), Ok(()));
        let itself = Err(Fault::Stream(Code::ProtocolError));
        assert_eq!(of(3, &[0x80, 0, 0, 3, 0]), itself);
        let size = Err(Fault::Stream(Code::FrameSizeError));
        assert_eq!(of(3, &[0, 0, 0, 1]), size);
        assert!(matches!(of(0, &[0; 5]), Err(Fault::Connection(_))));
    }
}
