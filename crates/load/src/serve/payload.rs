//! The body of an answer of a given size. Grown as larger ones are asked for, and kept.

use bytes::Bytes;

/// Bytes for answers; shared by all of a thread.
#[derive(Default)]
pub(crate) struct Payload(Bytes);

impl Payload {
    /// The first `size` bytes, which are the same every time.
    pub(crate) fn first(&mut self, size: usize) -> &[u8] {
        if self.0.len() < size {
            self.0 = (0..size).map(byte).collect();
        }
        &self.0[..size]
    }

    /// The same, to be kept without a copy.
    pub(crate) fn share(&mut self, size: usize) -> Bytes {
        let size = self.first(size).len();
        self.0.slice(..size)
    }
}

/// Readable, and not so regular that a compressing hop would shrink it to nothing.
fn byte(index: usize) -> u8 {
    let mixed = index.wrapping_mul(2_654_435_761) >> 7;
    b'a' + (mixed % 26) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_payload_is_the_start_of_a_longer_one() {
        let mut payload = Payload::default();
        let short = payload.share(3);
        let long = payload.share(100);
        assert_eq!((short.len(), long.len()), (3, 100));
        assert_eq!(short, long.slice(..3));
        assert_eq!(payload.first(3), short);
    }
}
