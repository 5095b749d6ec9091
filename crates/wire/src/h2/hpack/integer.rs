//! The integers of header blocks (RFC 7541, section 5.1), and reading a block from its front.
//! Called by the decoder and the encoder. Never reads beyond the block.

use super::Error;

/// The largest integer that is read. Lengths and indices are far below, whatever is announced;
/// it is what four bytes of continuation hold, so that no sum overflows.
pub(super) const INTEGER_MAX: usize = 1 << 28;

/// Bytes of an integer behind its prefix.
const CONTINUATION_BYTES_MAX: u32 = 4;

/// The rest of a header block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) fn new(block: &'b [u8]) -> Self {
        Self { rest: block }
    }

    /// The next byte, which stays.
    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// An integer whose prefix are the bits of `mask`, the lowest of the next byte.
    #[inline]
    pub(super) fn integer(&mut self, mask: u8) -> Result<usize, Error> {
        let (first, rest) = self.rest.split_first().ok_or(Error::Truncated)?;
        self.rest = rest;
        match first & mask {
            prefix if prefix < mask => Ok(usize::from(prefix)),
            prefix => self.continued(usize::from(prefix)),
        }
    }

    fn continued(&mut self, prefix: usize) -> Result<usize, Error> {
        let mut value = prefix;
        for at in 0..CONTINUATION_BYTES_MAX {
            let (byte, rest) = self.rest.split_first().ok_or(Error::Truncated)?;
            self.rest = rest;
            value += usize::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                return if value <= INTEGER_MAX {
                    Ok(value)
                } else {
                    Err(Error::Integer)
                };
            }
        }
        Err(Error::Integer)
    }

    /// The next `len` bytes.
    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Result<&'b [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// Appends `value` with its prefix in the bits of `mask` and `flags` in the bits above.
#[inline]
pub(super) fn write(flags: u8, mask: u8, value: usize, out: &mut Vec<u8>) {
    debug_assert!(flags & mask == 0);
    if value < usize::from(mask) {
        out.push(flags | value as u8);
    } else {
        out.push(flags | mask);
        write_continued(value - usize::from(mask), out);
    }
}

fn write_continued(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], mask: u8, expected: Result<usize, Error>) {
        let mut reader = Reader::new(bytes);
        assert_eq!(reader.integer(mask), expected, "{bytes:02x?}");
        if expected.is_ok() {
            assert!(reader.peek().is_none(), "{bytes:02x?}");
        }
    }

    #[test]
    fn reads_integers_within_their_bounds() {
        check(&[0xff, 0x00], 0x7f, Ok(127));
        check(&[0x9e], 0x1f, Ok(30));
        check(&[0x1f, 0x80, 0x80, 0x80, 0x00], 0x1f, Ok(31));
        check(&[0x0f, 0xf1, 0xff, 0xff, 0x7f], 0x0f, Ok(INTEGER_MAX));
        check(&[0x0f, 0xf2, 0xff, 0xff, 0x7f], 0x0f, Err(Error::Integer));
        check(
            &[0x0f, 0x80, 0x80, 0x80, 0x80, 0x00],
            0x0f,
            Err(Error::Integer),
        );
        check(&[0xff; 12], 0x7f, Err(Error::Integer));
        check(&[0xff, 0x80], 0x7f, Err(Error::Truncated));
        check(&[0xff], 0x7f, Err(Error::Truncated));
        check(&[], 0x7f, Err(Error::Truncated));
    }

    #[test]
    fn reads_what_it_writes() {
        for mask in [0x0f, 0x1f, 0x3f, 0x7f] {
            for around in [
                0,
                1,
                14,
                30,
                62,
                126,
                127,
                254,
                16_510,
                1 << 21,
                INTEGER_MAX - 3,
            ] {
                for value in around..around + 4 {
                    let mut bytes = Vec::new();
                    write(!mask, mask, value, &mut bytes);
                    assert_eq!(bytes[0] & !mask, !mask);
                    check(&bytes, mask, Ok(value));
                }
            }
        }
    }
}
