//! Fields to header blocks (RFC 7541, sections 4.2 and 6). Called by the connection for each field
//! that it sends. Spends bytes rather than time: strings go out as they are unless asked
//! otherwise. Never lets a secret, or a line that came only once, into the peer's table.

use super::dynamic_table::{DynamicTable, Name};
use super::static_table::{STATIC_LEN, find_control, find_name, find_status, find_value};
use super::{ENTRY_OVERHEAD, TABLE_BYTES_DEFAULT, huffman, integer};

/// Places that lines of the table are found by: as many as the default table has room for.
const SLOTS: usize = TABLE_BYTES_DEFAULT / ENTRY_OVERHEAD;

/// Lines remembered as seen. A few requests' worth, so that what each request repeats is still
/// there when it comes again, and what only looks repeated over hours is not.
const SEEN: usize = 64;

/// A line larger than this part of the table does not enter: it would drive out too many others.
const LINE_PART_MAX: usize = 4;

/// A cookie shorter than this could be guessed byte by byte through the size of what is sent,
/// so it never enters a table (section 7.1.3).
const COOKIE_BYTES_MIN: usize = 20;

/// The encoding side of one direction of a connection.
#[derive(Debug)]
pub struct Encoder {
    table: DynamicTable<()>,
    /// Lines that ever entered the table, modulo 2^32.
    inserted: u32,
    /// By hash: which of the inserted lines was the last with it. What it says may be stale, so the
    /// line itself is compared; collisions, also wilful ones, cost bytes and nothing else.
    slots: [u32; SLOTS],
    /// By hash: the last line that did not enter.
    seen: [u32; SEEN],
    /// Table sizes that the peer has not been told: the smallest, if it is not the last, which is
    /// the size of the table.
    resized: Option<usize>,
    huffman: bool,
}

/// The ways to write a field that is in no table: the bits above the index of its name, and the
/// bits of that index.
#[derive(Clone, Copy)]
struct Literal {
    flags: u8,
    mask: u8,
}

const ENTERS_TABLE: Literal = Literal {
    flags: 0x40,
    mask: 0x3f,
};
const PLAIN: Literal = Literal {
    flags: 0x00,
    mask: 0x0f,
};
const SENSITIVE: Literal = Literal {
    flags: 0x10,
    mask: 0x0f,
};

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// For a peer whose table has the default size, with strings as they are.
    pub fn new() -> Self {
        Self {
            table: DynamicTable::new(TABLE_BYTES_DEFAULT),
            inserted: 0,
            slots: [0; SLOTS],
            seen: [0; SEEN],
            resized: None,
            huffman: false,
        }
    }

    /// As [`Encoder::new`], with strings Huffman-coded where that makes them shorter.
    pub fn with_huffman() -> Self {
        Self {
            huffman: true,
            ..Self::new()
        }
    }

    /// The peer's `SETTINGS_HEADER_TABLE_SIZE`. Of more than the default, nothing is used. To be
    /// called between blocks: the next one begins with the change.
    pub fn set_table_bytes_max(&mut self, bytes: usize) {
        let bytes = bytes.min(TABLE_BYTES_DEFAULT);
        if bytes == self.table.size_max() && self.resized.is_none() {
            return;
        }
        self.resized = Some(self.resized.unwrap_or(bytes).min(bytes));
        self.table.resize(bytes);
    }

    /// Appends a field. The name is sent as it is given, and in HTTP/2 must be in lower case.
    /// Credentials and short cookies are treated as by [`Encoder::sensitive`].
    #[inline]
    pub fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.write_sizes(out);
        if name.first() == Some(&b':')
            && let Some(index) = find_control(name, value)
        {
            return integer::write(0x80, 0x7f, index, out);
        }
        let hash = hash(name, value);
        match self.find(hash, name, value) {
            Some(index) => integer::write(0x80, 0x7f, index, out),
            None => self.absent(hash, name, value, out),
        }
    }

    /// Appends a field that no table on the way may hold (section 7.1.3).
    pub fn sensitive(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.write_sizes(out);
        self.literal(SENSITIVE, find_name(name), (name, value), out);
    }

    /// Appends `:status`. Precondition: `status` has three digits.
    pub fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        debug_assert!((100..1000).contains(&status));
        if let Some(index) = find_status(status) {
            self.write_sizes(out);
            return integer::write(0x80, 0x7f, index, out);
        }
        let digit = |unit: u16| b'0' + (status / unit % 10) as u8;
        self.field(b":status", &[digit(100), digit(10), digit(1)], out);
    }

    /// Tells the peer of a change of the table's size (section 4.2).
    #[inline]
    fn write_sizes(&mut self, out: &mut Vec<u8>) {
        if let Some(smallest) = self.resized.take() {
            let last = self.table.size_max();
            if smallest < last {
                integer::write(0x20, 0x1f, smallest, out);
            }
            integer::write(0x20, 0x1f, last, out);
        }
    }

    /// The index of a line that is in the table.
    #[inline]
    fn find(&self, hash: u64, name: &[u8], value: &[u8]) -> Option<usize> {
        let inserted = self.slots[slot(hash)];
        let age = self.inserted.wrapping_sub(inserted) as usize;
        let (its_name, its_value, ()) = self.table.entry(age.checked_sub(1)?)?;
        (is_same(its_value, value) && is_same(its_name, name)).then_some(STATIC_LEN + age - 1)
    }

    /// A line that is not in the dynamic table.
    #[inline(never)]
    fn absent(&mut self, hash: u64, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let first = find_name(name);
        if let Some(index) = find_value(first, value) {
            return integer::write(0x80, 0x7f, index, out);
        }
        if is_sensitive(name, value) {
            return self.literal(SENSITIVE, first, (name, value), out);
        }
        let size = name.len() + value.len() + ENTRY_OVERHEAD;
        if size > self.table.size_max() / LINE_PART_MAX || !self.see(hash) {
            return self.literal(PLAIN, first, (name, value), out);
        }
        self.literal(ENTERS_TABLE, first, (name, value), out);
        self.table.insert(Name::Bytes(name), value, ());
        self.slots[slot(hash)] = self.inserted;
        self.inserted = self.inserted.wrapping_add(1);
    }

    /// Notes that a line came; true if it came before, not long ago.
    fn see(&mut self, hash: u64) -> bool {
        let tag = hash as u32;
        let last = &mut self.seen[(hash >> 32) as usize % SEEN];
        std::mem::replace(last, tag) == tag
    }

    /// Writes a line whose name is the entry `index` of the static table, or none if that is 0.
    fn literal(
        &self,
        literal: Literal,
        index: usize,
        (name, value): (&[u8], &[u8]),
        out: &mut Vec<u8>,
    ) {
        integer::write(literal.flags, literal.mask, index, out);
        if index == 0 {
            self.string(name, out);
        }
        self.string(value, out);
    }

    fn string(&self, text: &[u8], out: &mut Vec<u8>) {
        if self.huffman {
            let len = huffman::encoded_len(text);
            if len < text.len() {
                integer::write(0x80, 0x7f, len, out);
                return huffman::encode(text, out);
            }
        }
        integer::write(0, 0x7f, text.len(), out);
        out.extend_from_slice(text);
    }
}

/// Whether a line holds a secret. Names are compared without case: not every peer lowers them.
fn is_sensitive(name: &[u8], value: &[u8]) -> bool {
    let is = |secret: &[u8]| name.eq_ignore_ascii_case(secret);
    match name.len() {
        6 => value.len() < COOKIE_BYTES_MIN && is(b"cookie"),
        10 => value.len() < COOKIE_BYTES_MIN && is(b"set-cookie"),
        13 => is(b"authorization"),
        19 => is(b"proxy-authorization"),
        _ => false,
    }
}

fn slot(hash: u64) -> usize {
    // The highest bits are the best of a product.
    (hash >> (64 - SLOTS.ilog2())) as usize
}

/// A hash of a line, eight bytes at a time. It is not keyed: see `Encoder::slots`.
#[inline]
fn hash(name: &[u8], value: &[u8]) -> u64 {
    let lengths = (name.len() as u64) << 32 ^ value.len() as u64;
    let hash = mix(MULTIPLIER, lengths);
    let hash = absorb(absorb(hash, name), value);
    (hash ^ hash >> 32).wrapping_mul(MULTIPLIER)
}

/// Odd, with its bits spread evenly: that of the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER)
}

#[inline]
fn absorb(mut hash: u64, text: &[u8]) -> u64 {
    let Some(last) = text.last_chunk::<8>() else {
        return mix(hash, short(text));
    };
    // The last word overlaps the one before, rather than being shorter.
    for word in text[..text.len() - 1].as_chunks::<8>().0 {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    mix(hash, u64::from_le_bytes(*last))
}

/// `==`, without a call: lines are short.
#[inline]
fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let (Some(last), Some(its_last)) = (a.last_chunk::<8>(), b.last_chunk::<8>()) else {
        return short(a) == short(b);
    };
    let (words, its_words) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    let is_same = |(a, b): (&[u8; 8], &[u8; 8])| u64::from_le_bytes(*a) == u64::from_le_bytes(*b);
    is_same((last, its_last)) && words.iter().zip(its_words).all(is_same)
}

/// A text of less than eight bytes as a number that no other of its length has.
#[inline]
fn short(text: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
    }
    let Some(last) = text.last() else { return 0 };
    u64::from_le_bytes([text[0], text[text.len() / 2], *last, 0, 0, 0, 0, 0])
}

#[cfg(test)]
impl Encoder {
    /// Size and lines of the table.
    pub(super) fn table(&self) -> (usize, Vec<String>) {
        self.table.contents()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a new encoder writes for `line` when it comes for the last of so many times.
    fn check(line: (&str, &str), times: usize, expected: &[u8]) {
        let mut encoder = Encoder::new();
        let mut out = Vec::new();
        for _ in 0..times {
            out.clear();
            encoder.field(line.0.as_bytes(), line.1.as_bytes(), &mut out);
        }
        assert_eq!(out, expected, "{line:?}, {times} times");
    }

    #[test]
    fn lines_of_the_static_table_take_one_byte() {
        check((":method", "GET"), 1, &[0x82]);
        check((":path", "/"), 1, &[0x84]);
        check((":scheme", "https"), 1, &[0x87]);
        check((":status", "404"), 1, &[0x8d]);
        check(("accept-encoding", "gzip, deflate"), 1, &[0x90]);
        check(("accept-encoding", "gzip, deflate"), 3, &[0x90]);
    }

    #[test]
    fn a_line_enters_the_table_when_it_comes_again() {
        check((":path", "/a"), 1, b"\x04\x02/a");
        check((":path", "/a"), 2, b"\x44\x02/a");
        check((":path", "/a"), 3, &[0xbe]);
        check(("X-A", "b"), 1, b"\x00\x03X-A\x01b");
        check(("X-A", "b"), 2, b"\x40\x03X-A\x01b");
        check(("X-A", "b"), 3, &[0xbe]);
        check(("", ""), 1, &[0, 0, 0]);
        check(("", ""), 3, &[0xbe]);
    }

    #[test]
    fn secrets_never_enter_the_table() {
        check(("authorization", "a"), 3, b"\x1f\x08\x01a");
        check(("Authorization", "a"), 3, b"\x10\x0dAuthorization\x01a");
        check(("proxy-authorization", "a"), 3, b"\x1f\x22\x01a");
        check(
            ("cookie", "a=1234567890123456"),
            3,
            b"\x1f\x11\x12a=1234567890123456",
        );
        check(("set-cookie", "a"), 3, b"\x1f\x28\x01a");
        check(("cookie", "a=123456789012345678"), 3, &[0xbe]);
        let (mut encoder, mut out) = (Encoder::new(), Vec::new());
        encoder.sensitive(b"x", b"y", &mut out);
        encoder.sensitive(b":path", b"/", &mut out);
        assert_eq!(out, b"\x10\x01x\x01y\x14\x01/");
    }

    #[test]
    fn long_lines_and_lines_that_differ_never_enter_the_table() {
        let value = "v".repeat(TABLE_BYTES_DEFAULT / LINE_PART_MAX);
        let (mut encoder, mut out) = (Encoder::new(), Vec::new());
        for id in 0..1000 {
            encoder.field(b"x", value.as_bytes(), &mut out);
            encoder.field(b"x-request-id", format!("{id}").as_bytes(), &mut out);
        }
        assert_eq!(encoder.table(), (0, vec![]));
    }

    #[test]
    fn tells_the_smallest_and_the_last_size_at_the_next_block() {
        let cases: [(&[usize], &[u8]); 6] = [
            (&[4096], &[0x82]),
            (&[65536], &[0x82]),
            (&[0], &[0x20, 0x82]),
            (&[100], &[0x3f, 0x45, 0x82]),
            (&[100, 0, 4096], &[0x20, 0x3f, 0xe1, 0x1f, 0x82]),
            (&[100, 100, 30], &[0x3e, 0x82]),
        ];
        for (sizes, expected) in cases {
            let (mut encoder, mut out) = (Encoder::new(), Vec::new());
            sizes
                .iter()
                .for_each(|size| encoder.set_table_bytes_max(*size));
            encoder.field(b":method", b"GET", &mut out);
            assert_eq!(out, expected, "{sizes:?}");
        }
    }

    #[test]
    fn status_is_written_as_three_digits() {
        for (status, expected) in [(200, &b"\x88"[..]), (500, b"\x8e"), (418, b"\x08\x03418")] {
            let mut out = Vec::new();
            Encoder::new().status(status, &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn texts_are_the_same_where_all_their_bytes_are() {
        let text = b"abcdefghijklmnopqrstuvwxyz";
        for len in 0..=text.len() {
            assert!(is_same(&text[..len], &text.to_vec()[..len]));
            for at in 0..len {
                let mut other = text[..len].to_vec();
                assert!(!is_same(&text[..at], &other));
                other[at] ^= 1;
                assert!(!is_same(&text[..len], &other));
            }
        }
    }

    #[test]
    fn hashes_differ_where_lines_do() {
        let text = "abcdefghijklmnopqrstuvwxyz";
        let mut hashes = std::collections::HashSet::new();
        for len in 0..=text.len() {
            for split in 0..=len {
                let (name, value) = text[..len].split_at(split);
                assert!(hashes.insert(hash(name.as_bytes(), value.as_bytes())));
            }
        }
    }
}
