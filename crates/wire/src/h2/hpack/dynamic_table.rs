//! The dynamic table of either side (RFC 7541, section 4): lines in the order in which they came,
//! the oldest of which leave as new ones need their room. Called by the decoder and the encoder.
//! Never holds more than its size says.

use std::collections::VecDeque;

use super::ENTRY_OVERHEAD;

/// Lines with a tag each.
///
/// The bytes of all lines lie behind each other in the order in which they came, each name before
/// its value. Those of lines that left stay in front until they are as many as the table may hold:
/// then the rest moves up, so that each byte moves at most once and no line is ever split.
#[derive(Debug)]
pub(super) struct DynamicTable<T> {
    bytes: Vec<u8>,
    /// Position of the first of `bytes` among all that ever were in the table, modulo 2^32.
    base: u32,
    /// Newest first.
    entries: VecDeque<Entry<T>>,
    /// Invariant: the sum of the sizes of `entries`, and not above `size_max`.
    size: usize,
    size_max: usize,
}

#[derive(Debug)]
struct Entry<T> {
    /// Position of the name, counted as `base` is.
    start: u32,
    name_len: u32,
    value_len: u32,
    tag: T,
}

impl<T> Entry<T> {
    fn size(&self) -> usize {
        self.name_len as usize + self.value_len as usize + ENTRY_OVERHEAD
    }
}

/// What a line is called.
#[derive(Clone, Copy, Debug)]
pub(super) enum Name<'a> {
    Bytes(&'a [u8]),
    /// As the entry of this age.
    Entry(usize),
}

impl<T> DynamicTable<T> {
    /// Precondition: sizes are far below 2^32, here and in `resize`.
    pub(super) fn new(size_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            base: 0,
            entries: VecDeque::new(),
            size: 0,
            size_max,
        }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn size_max(&self) -> usize {
        self.size_max
    }

    /// Name, value and tag of an entry; the newest has the age 0.
    #[inline]
    pub(super) fn entry(&self, age: usize) -> Option<(&[u8], &[u8], &T)> {
        let entry = self.entries.get(age)?;
        let line = &self.bytes[entry.start.wrapping_sub(self.base) as usize..];
        let (name, rest) = line.split_at(entry.name_len as usize);
        Some((name, &rest[..entry.value_len as usize], &entry.tag))
    }

    /// Adds a line. One that is larger than the table empties it and is not added (section 4.4).
    /// Precondition: an entry that gives the name exists.
    pub(super) fn insert(&mut self, name: Name<'_>, value: &[u8], tag: T) {
        let name_len = match name {
            Name::Bytes(name) => name.len(),
            Name::Entry(age) => self.entries[age].name_len as usize,
        };
        let size = name_len + value.len() + ENTRY_OVERHEAD;
        if size > self.size_max {
            self.evict(0);
            return;
        }
        // Before anything leaves: the entry that gives the name may be the first to go.
        if self.bytes.len() + size > 2 * self.size_max {
            self.move_up();
        }
        let source = match name {
            Name::Bytes(_) => 0,
            Name::Entry(age) => self.entries[age].start.wrapping_sub(self.base) as usize,
        };
        self.evict(self.size_max - size);
        let start = self.base.wrapping_add(self.bytes.len() as u32);
        match name {
            Name::Bytes(name) => self.bytes.extend_from_slice(name),
            Name::Entry(_) => self.bytes.extend_from_within(source..source + name_len),
        }
        self.bytes.extend_from_slice(value);
        self.entries.push_front(Entry {
            start,
            name_len: name_len as u32,
            value_len: value.len() as u32,
            tag,
        });
        self.size += size;
    }

    /// Sets how large the table may be; what does not fit leaves (section 4.3).
    pub(super) fn resize(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict(size_max);
    }

    /// Lets the oldest go until the rest is at most `size`.
    fn evict(&mut self, size: usize) {
        while self.size > size {
            let oldest = self.entries.pop_back();
            self.size -= oldest.expect("a size is that of entries").size();
        }
    }

    /// Forgets the bytes of lines that left.
    fn move_up(&mut self) {
        let gone = match self.entries.back() {
            Some(oldest) => oldest.start.wrapping_sub(self.base),
            None => self.bytes.len() as u32,
        };
        self.bytes.drain(..gone as usize);
        self.base = self.base.wrapping_add(gone);
    }
}

#[cfg(test)]
impl<T> DynamicTable<T> {
    /// Size, and the lines as text, newest first.
    pub(super) fn contents(&self) -> (usize, Vec<String>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let entry = |age| self.entry(age).expect("an age below the number of entries");
        let lines = (0..self.entries.len())
            .map(|age| text(entry(age).0) + ": " + &text(entry(age).1))
            .collect();
        (self.size, lines)
    }

    /// Bytes of lines, present and gone, that are in memory.
    pub(super) fn bytes_held(&self) -> usize {
        self.bytes.len()
    }

    /// As if so many bytes had been in the table before.
    pub(super) fn starting_at(mut self, base: u32) -> Self {
        self.base = base;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 110;

    /// Inserts lines of 35 bytes with one letter each into a table for three of them, from a
    /// position on, and compares what is left.
    fn check(base: u32, letters: &str, expected: &[&str]) {
        let mut table = DynamicTable::new(SIZE).starting_at(base);
        for letter in letters.bytes() {
            table.insert(Name::Bytes(b"nn"), &[letter], letter);
            let (name, value, tag) = table.entry(0).unwrap();
            assert_eq!((name, value, *tag), (&b"nn"[..], &[letter][..], letter));
            assert!(table.bytes_held() <= 2 * SIZE);
        }
        let (size, lines) = table.contents();
        assert_eq!(
            (size, lines.as_slice()),
            (35 * expected.len(), strings(expected).as_slice())
        );
        assert!(table.entry(expected.len()).is_none());
    }

    fn strings(lines: &[&str]) -> Vec<String> {
        lines.iter().copied().map(str::to_owned).collect()
    }

    #[test]
    fn the_oldest_leave_when_there_is_no_room() {
        let long = "abcdefghijklmnopqrstuvwxyz".repeat(10);
        for base in [0, 1, u32::MAX, u32::MAX - 5, u32::MAX - 500] {
            check(base, "", &[]);
            check(base, "ab", &["nn: b", "nn: a"]);
            check(base, "abcd", &["nn: d", "nn: c", "nn: b"]);
            check(base, &long, &["nn: z", "nn: y", "nn: x"]);
        }
    }

    #[test]
    fn a_name_survives_the_entry_that_gave_it() {
        let mut table = DynamicTable::new(SIZE);
        table.insert(Name::Bytes(b"name"), b"first", ());
        for round in 0..100 {
            let value = vec![b'v'; 74 - round % 3];
            table.insert(Name::Entry(0), &value, ());
            assert_eq!(table.entry(0), Some((&b"name"[..], &value[..], &())));
            assert_eq!(table.contents().1.len(), 1);
        }
    }

    #[test]
    fn a_line_larger_than_the_table_empties_it() {
        let mut table = DynamicTable::new(SIZE);
        table.insert(Name::Bytes(b"a"), b"b", ());
        table.insert(Name::Bytes(b"a"), &[0; SIZE - ENTRY_OVERHEAD], ());
        assert_eq!(table.contents(), (0, vec![]));
        table.insert(Name::Bytes(b"a"), &[b'v'; SIZE - ENTRY_OVERHEAD - 1], ());
        assert_eq!(table.contents().0, SIZE);
    }

    #[test]
    fn a_smaller_table_keeps_the_newest() {
        let mut table = DynamicTable::new(SIZE);
        for value in [b"a", b"b", b"c"] {
            table.insert(Name::Bytes(b"nn"), value, ());
        }
        table.resize(70);
        assert_eq!(table.contents(), (70, strings(&["nn: c", "nn: b"])));
        table.resize(69);
        assert_eq!(table.contents(), (35, strings(&["nn: c"])));
        table.resize(0);
        table.insert(Name::Bytes(b""), b"", ());
        table.resize(SIZE);
        assert_eq!(table.contents(), (0, vec![]));
    }
}
