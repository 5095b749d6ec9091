//! The Huffman code of strings (RFC 7541, section 5.2 and appendix B). Called by the decoder and
//! the encoder. Never writes more than 8/5 of what it reads, the shortest code being five bits.

use super::Error;

/// Bits of the code of each byte and, last, of the end of a string. The code is canonical: ordered
/// by length and then by symbol, each code is one more than the code before, shifted to its length.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const LENGTH_MAX: usize = 30;
const END_OF_STRING: u16 = 256;

/// The code, by length.
struct Canon {
    /// The first code of each length.
    first: [u32; LENGTH_MAX + 1],
    /// How many codes of each length there are.
    count: [u32; LENGTH_MAX + 1],
    /// Where in `symbols` those of each length begin.
    start: [usize; LENGTH_MAX + 1],
    /// Ordered by length and then by symbol.
    symbols: [u16; 257],
}

static CANON: Canon = CANONICAL;
const CANONICAL: Canon = Canon::new();

impl Canon {
    const fn new() -> Self {
        let mut canon = Self {
            first: [0; LENGTH_MAX + 1],
            count: [0; LENGTH_MAX + 1],
            start: [0; LENGTH_MAX + 1],
            symbols: [0; 257],
        };
        let (mut length, mut next, mut code) = (1, 0, 0);
        while length <= LENGTH_MAX {
            code <<= 1;
            canon.first[length] = code;
            canon.start[length] = next;
            let mut symbol = 0;
            while symbol < LENGTHS.len() {
                if LENGTHS[symbol] as usize == length {
                    canon.symbols[next] = symbol as u16;
                    next += 1;
                    code += 1;
                }
                symbol += 1;
            }
            canon.count[length] = (next - canon.start[length]) as u32;
            length += 1;
        }
        // All codes are used: whatever bits come, some code begins with them.
        assert!(code == 1 << LENGTH_MAX && next == LENGTHS.len());
        canon
    }

    /// Symbol and length of the code that the highest bits are, if it is one of at most `longest`.
    const fn find(&self, bits: u64, longest: usize) -> Option<(u16, usize)> {
        let mut length = 1;
        while length <= longest {
            let above = ((bits >> (64 - length)) as u32).wrapping_sub(self.first[length]);
            if above < self.count[length] {
                return Some((self.symbols[self.start[length] + above as usize], length));
            }
            length += 1;
        }
        None
    }
}

/// Bits that one step looks at: enough for two of the usual characters, in 16 KiB of steps.
const STEP_BITS: usize = 12;

/// What the next `STEP_BITS` say.
#[derive(Clone, Copy)]
struct Step {
    symbols: [u8; 2],
    /// Bits of both symbols, or of the only one; 0 if the code of the first is longer than a step.
    bits: u8,
    /// How many symbols there are, and above those two bits, the bits of the first.
    count: u8,
}

impl Step {
    const fn count(self) -> usize {
        (self.count & 3) as usize
    }

    const fn first_bits(self) -> usize {
        (self.count >> 2) as usize
    }
}

static STEPS: [Step; 1 << STEP_BITS] = steps();

const fn steps() -> [Step; 1 << STEP_BITS] {
    let none = Step {
        symbols: [0; 2],
        bits: 0,
        count: 0,
    };
    let mut steps = [none; 1 << STEP_BITS];
    let mut at = 0;
    while at < steps.len() {
        let bits = (at as u64) << (64 - STEP_BITS);
        if let Some((first, length)) = CANONICAL.find(bits, STEP_BITS) {
            let step = &mut steps[at];
            step.symbols[0] = first as u8;
            step.bits = length as u8;
            step.count = (length as u8) << 2 | 1;
            if let Some((second, more)) = CANONICAL.find(bits << length, STEP_BITS - length) {
                step.symbols[1] = second as u8;
                step.bits += more as u8;
                step.count += 1;
            }
        }
        at += 1;
    }
    steps
}

/// The coded bits that are not decoded yet.
struct Bits<'c> {
    /// The next ones from the highest down. Below `have` there are zeros, or what `rest` begins
    /// with.
    next: u64,
    have: usize,
    rest: &'c [u8],
}

impl Bits<'_> {
    fn skip(&mut self, bits: usize) {
        self.next <<= bits;
        self.have -= bits;
    }

    /// Fills `next` from eight bytes at once; false if there are not so many.
    #[inline]
    fn refill(&mut self) -> bool {
        let Some(word) = self.rest.first_chunk::<8>() else {
            return false;
        };
        self.next |= u64::from_be_bytes(*word) >> self.have;
        self.rest = &self.rest[(63 - self.have) / 8..];
        self.have |= 56;
        true
    }

    /// Fills `next` from the last bytes, of which there are less than eight, so far as any code
    /// may need it.
    #[inline]
    fn refill_end(&mut self) {
        if self.have >= LENGTH_MAX || self.rest.is_empty() {
            return;
        }
        let mut word = [0; 8];
        word[..self.rest.len()].copy_from_slice(self.rest);
        self.next |= u64::from_be_bytes(word) >> self.have;
        let taken = self.rest.len().min((63 - self.have) / 8);
        self.rest = &self.rest[taken..];
        self.have += 8 * taken;
    }

    /// What is left is padding: less than a byte, and all ones.
    fn is_padding(&self) -> bool {
        self.have < 8 && (!self.next).leading_zeros() as usize >= self.have
    }
}

/// A byte whose code is longer than a step, and that length, from the next bits, `have` of which
/// there are.
#[cold]
fn long(next: u64, have: usize) -> Result<(u8, usize), Error> {
    match CANON.find(next, LENGTH_MAX) {
        Some((_, length)) if length > have => Err(Error::Padding),
        Some((END_OF_STRING, _)) | None => Err(Error::EndOfString),
        Some((symbol, length)) => Ok((symbol as u8, length)),
    }
}

/// Decodes `code` into `out` from `start` on, and says where the string ends there. `out` grows to
/// what `code` may become, and never shrinks: its length says nothing.
///
/// # Errors
/// `Padding` and `EndOfString`.
pub(super) fn decode(code: &[u8], out: &mut Vec<u8>, start: usize) -> Result<usize, Error> {
    // A step always writes two symbols.
    let needed = start + code.len() * 8 / 5 + 2;
    if out.len() < needed {
        out.resize(needed, 0);
    }
    let mut at = start;
    let mut bits = Bits {
        next: 0,
        have: 0,
        rest: code,
    };
    while bits.refill() {
        while bits.have >= STEP_BITS {
            let step = STEPS[(bits.next >> (64 - STEP_BITS)) as usize];
            if step.bits == 0 {
                if bits.have < LENGTH_MAX {
                    break;
                }
                let (byte, length) = long(bits.next, bits.have)?;
                out[at] = byte;
                at += 1;
                bits.skip(length);
                continue;
            }
            out[at..at + 2].copy_from_slice(&step.symbols);
            at += step.count();
            bits.skip(usize::from(step.bits));
        }
    }
    decode_end(&mut bits, out, at)
}

/// Decodes the last bits, which a step may look beyond.
fn decode_end(bits: &mut Bits<'_>, out: &mut [u8], mut at: usize) -> Result<usize, Error> {
    loop {
        bits.refill_end();
        let step = STEPS[(bits.next >> (64 - STEP_BITS)) as usize];
        if step.bits != 0 && usize::from(step.bits) <= bits.have {
            out[at..at + 2].copy_from_slice(&step.symbols);
            at += step.count();
            bits.skip(usize::from(step.bits));
        } else if step.bits != 0 && step.first_bits() <= bits.have {
            out[at] = step.symbols[0];
            at += 1;
            bits.skip(step.first_bits());
        } else if bits.is_padding() {
            return Ok(at);
        } else {
            let (byte, length) = long(bits.next, bits.have)?;
            out[at] = byte;
            at += 1;
            bits.skip(length);
        }
    }
}

/// The code of each byte.
static CODES: [u32; 256] = codes();

const fn codes() -> [u32; 256] {
    let mut codes = [0; 256];
    let mut at = 0;
    // The last in order is the end of a string.
    while at < codes.len() {
        let symbol = CANONICAL.symbols[at] as usize;
        let length = LENGTHS[symbol] as usize;
        codes[symbol] = CANONICAL.first[length] + (at - CANONICAL.start[length]) as u32;
        at += 1;
    }
    codes
}

static CODE_LENGTHS: [u8; 257] = LENGTHS;

/// Bytes that `text` has when it is coded.
pub(super) fn encoded_len(text: &[u8]) -> usize {
    let length = |byte: &u8| usize::from(CODE_LENGTHS[usize::from(*byte)]);
    text.iter().map(length).sum::<usize>().div_ceil(8)
}

/// Appends the code of `text`, padded to whole bytes.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut have) = (0_u64, 0);
    for byte in text {
        let length = CODE_LENGTHS[usize::from(*byte)];
        bits = bits << length | u64::from(CODES[usize::from(*byte)]);
        have += u32::from(length);
        while have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    if have > 0 {
        out.push((bits << (8 - have)) as u8 | 0xff >> have);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &[u8], expected: Result<&[u8], Error>) {
        for start in [0, 3] {
            let mut out = vec![b'-'; start];
            let end = decode(code, &mut out, start);
            let text = end.map(|end| out[start..end].to_vec());
            assert_eq!(text, expected.map(<[u8]>::to_vec), "{code:02x?}");
            assert!(out.len() <= start + code.len() * 8 / 5 + 2);
            assert_eq!(out[..start], b"---"[..start]);
        }
    }

    fn check_both_ways(text: &[u8]) {
        let mut code = Vec::new();
        encode(text, &mut code);
        assert_eq!(code.len(), encoded_len(text));
        check(&code, Ok(text));
    }

    #[test]
    fn reads_what_it_writes() {
        let all: Vec<u8> = (0..=255).collect();
        check_both_ways(&all);
        for first in 0..=255 {
            check_both_ways(&[first]);
            for second in 0..=255 {
                check_both_ways(&[first, second]);
                check_both_ways(&[b'a', first, b'/', second, b'Z', b'0', first, second, first]);
            }
        }
        for len in 0..100 {
            check_both_ways(&vec![b'0'; len]);
            check_both_ways(&vec![10; len]);
            check_both_ways(&all[..len]);
        }
    }

    #[test]
    fn reads_the_codes_of_the_standard() {
        check(&[], Ok(b""));
        check(
            &[
                0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
            ],
            Ok(b"www.example.com"),
        );
        check(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], Ok(b"no-cache"));
        check(&[0xff, 0xff, 0xff, 0xf3], Ok(b"\n"));
        check(&[0xff, 0xc7], Ok(&[0]));
    }

    #[test]
    fn refuses_padding_that_is_long_or_not_ones() {
        let zeros = [0x00];
        check(&zeros, Err(Error::Padding));
        check(&[0x1f], Ok(b"a"));
        check(&[0x1e], Err(Error::Padding));
        check(&[0x1f, 0xff], Err(Error::Padding));
        check(&[0xff], Err(Error::Padding));
        check(&[0xff; 3], Err(Error::Padding));
        check(&[0x1f, 0xff, 0xff, 0xff], Err(Error::Padding));
        // Whole bytes without any padding, then seven bits of it.
        check(&[0xf8], Ok(b"&"));
        check(&[0xf8, 0xff], Err(Error::Padding));
    }

    #[test]
    fn refuses_the_end_of_a_string() {
        check(&[0xff; 4], Err(Error::EndOfString));
        check(&[0xff; 20], Err(Error::EndOfString));
        check(&[0x1f, 0xff, 0xff, 0xff, 0xff], Err(Error::EndOfString));
    }
}
