//! What gRPC puts on top of HTTP/2: the prefix of a message and the status at the end. Pure; used
//! by the generator and by the echo server.

use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderMap;

/// A flag for compression and the length, before each message.
pub(crate) const PREFIX_BYTES: usize = 5;
/// As long as a body that the echo server holds.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

pub(crate) const CONTENT_TYPE: &str = "application/grpc";
pub(crate) const STATUS: &str = "grpc-status";
pub(crate) const UNARY: &str = "/leno.load.Echo/Unary";
pub(crate) const STREAM: &str = "/leno.load.Echo/Stream";

/// The status codes that are told apart here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Ok = 0,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
}

impl Code {
    /// As it stands in `grpc-status`.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Ok => "0",
            Self::ResourceExhausted => "8",
            Self::Unimplemented => "12",
            Self::Internal => "13",
        }
    }
}

/// A message behind its prefix, not compressed; none if it is longer than [`MESSAGE_BYTES_MAX`].
pub(crate) fn message(payload: &[u8]) -> Option<Bytes> {
    let length = u32::try_from(payload.len()).ok()?;
    if payload.len() > MESSAGE_BYTES_MAX {
        return None;
    }
    let mut message = BytesMut::with_capacity(PREFIX_BYTES + payload.len());
    message.put_u8(0);
    message.put_u32(length);
    message.put_slice(payload);
    Some(message.freeze())
}

/// Whether the status in these headers or trailers is OK; none if they hold no status.
pub(crate) fn is_ok(fields: &HeaderMap) -> Option<bool> {
    fields.get(STATUS).map(|status| status == Code::Ok.text())
}

/// Finds the ends of messages in a stream of bytes; keeps none of them.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    prefix: [u8; PREFIX_BYTES],
    prefix_read: usize,
    left: usize,
}

impl Messages {
    /// Takes bytes; says how many messages ended in them.
    ///
    /// # Errors
    /// The status for a message that is compressed, or longer than [`MESSAGE_BYTES_MAX`].
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<u64, Code> {
        let mut ended = 0;
        while !bytes.is_empty() {
            if self.prefix_read < PREFIX_BYTES {
                self.prefix[self.prefix_read] = bytes[0];
                self.prefix_read += 1;
                bytes = &bytes[1..];
                if self.prefix_read < PREFIX_BYTES {
                    continue;
                }
                self.left = length(self.prefix)?;
            }
            let taken = self.left.min(bytes.len());
            self.left -= taken;
            bytes = &bytes[taken..];
            if self.left == 0 {
                self.prefix_read = 0;
                ended += 1;
            }
        }
        Ok(ended)
    }

    /// Whether the last message has ended.
    pub(crate) fn is_between(&self) -> bool {
        self.prefix_read == 0
    }
}

fn length([flag, length @ ..]: [u8; PREFIX_BYTES]) -> Result<usize, Code> {
    if flag != 0 {
        return Err(Code::Unimplemented);
    }
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > MESSAGE_BYTES_MAX {
        Err(Code::ResourceExhausted)
    } else {
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Result<u64, Code>, between: bool) {
        for size in [1, 3, bytes.len()] {
            let mut messages = Messages::default();
            let ended: Result<Vec<u64>, Code> = bytes
                .chunks(size)
                .map(|piece| messages.feed(piece))
                .collect();
            let ended = ended.map(|ended| ended.iter().sum());
            assert_eq!(ended, expected, "{bytes:?} by {size}");
            assert!(
                ended.is_err() || messages.is_between() == between,
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn finds_the_ends_of_messages() {
        let two = [message(b"hello").unwrap(), message(b"").unwrap()].concat();
        check(&two, Ok(2), true);
        check(&two[..12], Ok(1), false);
        check(b"\x00\x00\x00\x00\x02a", Ok(0), false);
    }

    #[test]
    fn refuses_what_it_cannot_echo() {
        check(b"\x01\x00\x00\x00\x00", Err(Code::Unimplemented), false);
        check(b"\x00\xff\xff\xff\xff", Err(Code::ResourceExhausted), false);
    }

    #[test]
    fn only_zero_is_ok() {
        let check = |status: &str, expected| {
            let mut fields = HeaderMap::new();
            fields.insert(STATUS, status.parse().unwrap());
            assert_eq!(is_ok(&fields), Some(expected), "{status}");
        };
        check("0", true);
        check("00", false);
        check("14", false);
        assert_eq!(is_ok(&HeaderMap::new()), None);
    }
}
