//! How messages lie in a stream of bytes: a byte for compression (always 0 here), four for the
//! length, the message. Called by `stream`; pure.

use super::Error;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

/// Bytes before each message.
pub const PREFIX_BYTES: usize = 5;

/// A message with its prefix.
#[must_use]
pub fn encode(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut out = BytesMut::with_capacity(PREFIX_BYTES + length);
    out.put_slice(&prefix(length));
    message.encode(&mut out).expect("a buffer that grows");
    out.freeze()
}

/// What goes before a message of `length` bytes. Lengths over 4 GiB are not made here.
#[must_use]
pub fn prefix(length: usize) -> [u8; PREFIX_BYTES] {
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [0, length[0], length[1], length[2], length[3]]
}

/// Takes bytes as they come and gives whole messages.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    /// Longest message that is taken.
    message_bytes_max: usize,
}

impl Decoder {
    /// One that refuses longer messages.
    #[must_use]
    pub fn new(message_bytes_max: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            message_bytes_max,
        }
    }

    /// More bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, if it is there whole. A decoder that failed is not to be asked again.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Compressed`].
    pub fn take(&mut self) -> Result<Option<Bytes>, Error> {
        let Some((prefix, rest)) = self.buffer.split_first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let [compressed, a, b, c, d] = *prefix;
        if compressed != 0 {
            return Err(Error::Compressed);
        }
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > self.message_bytes_max {
            return Err(Error::TooLarge {
                bytes: length,
                limit: self.message_bytes_max,
            });
        }
        if rest.len() < length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        let message = self.buffer.split_to(length).freeze();
        if self.buffer.is_empty() {
            // Streams rest most of the time: what a long message took is not kept for the next.
            self.buffer = BytesMut::new();
        }
        Ok(Some(message))
    }

    /// Whether nothing of a message is left over, as must be at the end of a stream.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(decoder: &mut Decoder) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| decoder.take().unwrap().map(|bytes| bytes.to_vec())).collect()
    }

    #[test]
    fn messages_come_out_whole_however_their_bytes_arrive() {
        let mut stream = Vec::new();
        for message in [&b"one"[..], b"", b"three"] {
            stream.extend_from_slice(&prefix(message.len()));
            stream.extend_from_slice(message);
        }
        for piece in 1..=stream.len() {
            let mut decoder = Decoder::new(5);
            let mut found = Vec::new();
            for bytes in stream.chunks(piece) {
                decoder.push(bytes);
                found.extend(messages(&mut decoder));
            }
            assert_eq!(found, [&b"one"[..], b"", b"three"], "pieces of {piece}");
            assert!(decoder.is_empty());
        }
    }

    #[test]
    fn a_decoder_that_rests_holds_nothing() {
        let mut decoder = Decoder::new(1 << 20);
        decoder.push(&prefix(1 << 19));
        decoder.push(&[0; 1 << 19]);
        assert_eq!(messages(&mut decoder).len(), 1);
        assert_eq!(decoder.buffer.capacity(), 0);
    }

    #[test]
    fn what_is_too_long_or_compressed_is_refused_before_it_is_kept() {
        let mut decoder = Decoder::new(5);
        decoder.push(&prefix(6));
        assert!(matches!(
            decoder.take(),
            Err(Error::TooLarge { bytes: 6, limit: 5 })
        ));
        let mut decoder = Decoder::new(5);
        decoder.push(&[1, 0, 0, 0, 0]);
        assert!(matches!(decoder.take(), Err(Error::Compressed)));
    }
}
