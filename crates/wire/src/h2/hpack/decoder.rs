//! Header blocks to fields (RFC 7541, sections 3 and 6). Called by the connection with whole
//! blocks, each of them, in order. Never shows a field of which anything is missing.

use super::dynamic_table::{DynamicTable, Name};
use super::integer::{INTEGER_MAX, Reader};
use super::static_table::{STATIC, STATIC_LEN};
use super::{Error, TABLE_BYTES_DEFAULT, huffman};

/// What a visitor says of a field, for the next time that it comes. Opaque to HPACK.
pub type Mark = u8;

/// One field as the decoder shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name, as it was sent: it may be empty, and hold any byte.
    pub name: &'a [u8],
    /// The value, as it was sent: it may be empty, and hold any byte.
    pub value: &'a [u8],
    /// What the visitor said of this very field when it entered the table; `None` if the visitor
    /// has not seen it there before.
    pub mark: Option<Mark>,
    /// The field must not enter any table on the way (section 7.1.3).
    pub sensitive: bool,
}

/// What of the scratch is kept from block to block: four full default tables. A block that needs
/// more is rare, and a connection lives long.
const SCRATCH_BYTES_KEPT: usize = 16 << 10;

/// Table sizes that one block may set (section 4.2).
const SIZE_UPDATES_MAX: u32 = 2;

/// The decoding side of one direction of a connection.
///
/// After an error it must not be used again: the peer's table is not known any more.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable<Mark>,
    /// What was said of the entries of the static table.
    static_marks: [Option<Mark>; STATIC_LEN],
    table_bytes_max: usize,
    /// Strings that were Huffman-coded. Its length is how far it was ever used.
    scratch: Vec<u8>,
}

/// How the integer in front of a literal field is written, and what becomes of the field.
#[derive(Clone, Copy)]
struct Literal {
    /// The bits of the index of the name.
    mask: u8,
    enters_table: bool,
    sensitive: bool,
}

impl Decoder {
    /// `table_bytes_max`: what we announce in `SETTINGS_HEADER_TABLE_SIZE`. The peer's table has
    /// the default size until it says otherwise, also if we announce less: it may have sent blocks
    /// before it heard of that.
    pub fn new(table_bytes_max: usize) -> Self {
        Self {
            table: DynamicTable::new(TABLE_BYTES_DEFAULT),
            static_marks: [None; STATIC_LEN],
            table_bytes_max: table_bytes_max.min(INTEGER_MAX),
            scratch: Vec::new(),
        }
    }

    /// Size of the dynamic table as it is (section 4.1). Never above what was announced, or the
    /// default if that is more.
    pub fn table_bytes(&self) -> usize {
        self.table.size()
    }

    /// Decodes a whole header block and calls `visit` for each field, in order. What `visit`
    /// returns becomes the mark of the field wherever it comes from the table later on; of a field
    /// that has a mark it is ignored. Fields before an error have been visited.
    ///
    /// A few bytes of a block may be a whole line of the table: the visitor bounds what it keeps.
    ///
    /// # Errors
    /// The block is broken; see the variants of [`Error`].
    pub fn decode(
        &mut self,
        block: &[u8],
        visit: &mut impl FnMut(Field<'_>) -> Mark,
    ) -> Result<(), Error> {
        let mut reader = Reader::new(block);
        self.decode_sizes(&mut reader)?;
        while let Some(first) = reader.peek() {
            if first & 0x80 != 0 {
                let index = reader.integer(0x7f)?;
                self.indexed(index, visit)?;
                continue;
            }
            let literal = match first >> 4 {
                0b0100.. => Literal {
                    mask: 0x3f,
                    enters_table: true,
                    sensitive: false,
                },
                0b0010.. => return Err(Error::SizeUpdateLate),
                kind => Literal {
                    mask: 0x0f,
                    enters_table: false,
                    sensitive: kind == 1,
                },
            };
            self.literal(&mut reader, literal, visit)?;
        }
        if self.scratch.len() > SCRATCH_BYTES_KEPT {
            self.scratch.truncate(SCRATCH_BYTES_KEPT);
            self.scratch.shrink_to_fit();
        }
        Ok(())
    }

    /// The new sizes of the table that a block may begin with (section 6.3).
    fn decode_sizes(&mut self, reader: &mut Reader<'_>) -> Result<(), Error> {
        let mut updates = 0;
        while reader.peek().is_some_and(|first| first >> 5 == 0b001) {
            let size = reader.integer(0x1f)?;
            updates += 1;
            if updates > SIZE_UPDATES_MAX {
                return Err(Error::SizeUpdates);
            }
            if size > self.table_bytes_max {
                return Err(Error::TableSize);
            }
            self.table.resize(size);
        }
        Ok(())
    }

    /// A field that is in a table (section 6.1).
    #[inline]
    fn indexed(
        &mut self,
        index: usize,
        visit: &mut impl FnMut(Field<'_>) -> Mark,
    ) -> Result<(), Error> {
        if let Some(age) = index.checked_sub(STATIC_LEN) {
            let (name, value, mark) = self.table.entry(age).ok_or(Error::Index)?;
            visit(Field {
                name,
                value,
                mark: Some(*mark),
                sensitive: false,
            });
            return Ok(());
        }
        if index == 0 {
            return Err(Error::Index);
        }
        let (name, value) = STATIC[index];
        let mark = self.static_marks[index];
        let said = visit(Field {
            name,
            value,
            mark,
            sensitive: false,
        });
        self.static_marks[index] = mark.or(Some(said));
        Ok(())
    }

    /// A field with a value, and perhaps a name, of its own (section 6.2).
    fn literal(
        &mut self,
        reader: &mut Reader<'_>,
        literal: Literal,
        visit: &mut impl FnMut(Field<'_>) -> Mark,
    ) -> Result<(), Error> {
        let index = reader.integer(literal.mask)?;
        let mut used = 0;
        let own_name = match index {
            0 => Some(Text::read(reader, &mut self.scratch, &mut used)?),
            _ => None,
        };
        let value = Text::read(reader, &mut self.scratch, &mut used)?;
        let value = value.bytes(&self.scratch);
        let source = match (own_name, index.checked_sub(STATIC_LEN)) {
            (Some(name), _) => Name::Bytes(name.bytes(&self.scratch)),
            (None, None) => Name::Bytes(STATIC[index].0),
            (None, Some(age)) => Name::Entry(age),
        };
        let name = match source {
            Name::Bytes(name) => name,
            Name::Entry(age) => self.table.entry(age).ok_or(Error::Index)?.0,
        };
        let mark = visit(Field {
            name,
            value,
            mark: None,
            sensitive: literal.sensitive,
        });
        if literal.enters_table {
            self.table.insert(source, value, mark);
        }
        Ok(())
    }
}

/// A string (section 5.2): as it is in the block, or a range of the scratch.
#[derive(Clone, Copy)]
enum Text<'b> {
    Plain(&'b [u8]),
    Decoded { start: usize, end: usize },
}

impl<'b> Text<'b> {
    /// Reads a string; `used` of the scratch is taken.
    #[inline]
    fn read(
        reader: &mut Reader<'b>,
        scratch: &mut Vec<u8>,
        used: &mut usize,
    ) -> Result<Self, Error> {
        let coded = reader.peek().is_some_and(|first| first & 0x80 != 0);
        let len = reader.integer(0x7f)?;
        let bytes = reader.take(len)?;
        if !coded {
            return Ok(Self::Plain(bytes));
        }
        let start = *used;
        *used = huffman::decode(bytes, scratch, start)?;
        Ok(Self::Decoded { start, end: *used })
    }

    #[inline]
    fn bytes<'a>(self, scratch: &'a [u8]) -> &'a [u8]
    where
        'b: 'a,
    {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Decoded { start, end } => &scratch[start..end],
        }
    }
}

#[cfg(test)]
impl Decoder {
    /// Size and lines of the table.
    pub(super) fn table(&self) -> (usize, Vec<String>) {
        self.table.contents()
    }
}

#[cfg(test)]
mod tests {
    use super::super::integer::write;
    use super::*;

    const TABLE_BYTES_MAX: usize = 8192;

    /// Decodes blocks; all but the last are good, and the fields of the last are as expected.
    fn check(blocks: &[&[u8]], expected: Result<&[&str], Error>) {
        let mut decoder = Decoder::new(TABLE_BYTES_MAX);
        let (last, before) = blocks.split_last().unwrap();
        for block in before {
            decoder.decode(block, &mut |_| 0).unwrap();
        }
        let mut shown: Vec<String> = Vec::new();
        let verdict = decoder.decode(last, &mut |field| {
            shown.push(show(field));
            0
        });
        assert_eq!(
            verdict.map(|()| shown),
            expected.map(strings),
            "{blocks:02x?}"
        );
    }

    fn strings(lines: &[&str]) -> Vec<String> {
        lines.iter().copied().map(str::to_owned).collect()
    }

    fn show(field: Field<'_>) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let stars = if field.sensitive { " **" } else { "" };
        text(field.name) + ": " + &text(field.value) + stars
    }

    #[test]
    fn shows_fields_of_each_kind() {
        check(&[b""], Ok(&[]));
        check(&[b"\x82\x00\x01a\x01b"], Ok(&[":method: GET", "a: b"]));
        check(
            &[b"\x40\x01a\x01b\xbe\x7e\x01c\xbf\xbe"],
            Ok(&["a: b", "a: b", "a: c", "a: b", "a: c"]),
        );
        check(&[b"\x10\x00\x00\x14\x01x"], Ok(&[":  **", ":path: x **"]));
        check(&[b"\x00\x81\x1f\x82\x1c\x7f"], Ok(&["a: ab"]));
        check(&[b"\x40\x81\x1f\x81\x1f", b"\xbe"], Ok(&["a: a"]));
    }

    #[test]
    fn refuses_fields_that_are_cut() {
        let block = b"\x40\x01a\x01b\x00\x81\x1f\x82\x1c\x7f\x0f\x80\x00\x01x";
        let whole = [5, 11];
        for end in 1..block.len() {
            let mut decoder = Decoder::new(TABLE_BYTES_MAX);
            let verdict = decoder.decode(&block[..end], &mut |_| 0);
            let expected = if whole.contains(&end) {
                Ok(())
            } else {
                Err(Error::Truncated)
            };
            assert_eq!(verdict, expected, "{end}");
        }
    }

    #[test]
    fn refuses_each_kind_of_broken_block() {
        check(&[b"\x80"], Err(Error::Index));
        check(&[b"\xbe"], Err(Error::Index));
        check(&[b"\x7e\x00"], Err(Error::Index));
        check(&[b"\x0f\x2f\x00"], Err(Error::Index));
        check(&[b"\x40\x01a\x01b", b"\xbf"], Err(Error::Index));
        check(&[b"\xff\xff\xff\xff\xff\x00"], Err(Error::Integer));
        check(&[b"\x00\x01a\x7f\xff\xff\xff\x7e"], Err(Error::Truncated));
        check(&[b"\x00\x01a\x81\x1e"], Err(Error::Padding));
        check(&[b"\x00\x84\xff\xff\xff\xff\x00"], Err(Error::EndOfString));
        check(&[b"\x82\x20"], Err(Error::SizeUpdateLate));
        check(&[b"\x20\x20\x20\x82"], Err(Error::SizeUpdates));
        check(&[b"\x3f\xe2\x3f"], Err(Error::TableSize));
    }

    #[test]
    fn sizes_at_the_start_of_a_block_resize_the_table() {
        let pair = b"\x40\x01a\x01b";
        check(&[pair, b"\xbe"], Ok(&["a: b"]));
        check(&[pair, b"\x20", b"\xbe"], Err(Error::Index));
        check(&[pair, b"\x20\x3f\xe1\x1f\xbe"], Err(Error::Index));
        check(&[pair, b"\x3f\x03\xbe"], Ok(&["a: b"]));
        check(&[pair, b"\x3f\x02\xbe"], Err(Error::Index));
        check(&[b"\x20", pair, b"\xbe"], Err(Error::Index));
        check(&[b"\x3f\xe1\x3f"], Ok(&[]));
        let large = [&b"\x40\x01a\x7f\xf1\x2d"[..], &[b'v'; 6000]].concat();
        check(&[&large, b"\xbe"], Err(Error::Index));
        let shown = "a: ".to_owned() + &"v".repeat(6000);
        check(&[b"\x3f\xe1\x3f", &large, b"\xbe"], Ok(&[&shown]));
    }

    #[test]
    fn what_the_visitor_said_comes_back_with_lines_of_the_tables() {
        let mut decoder = Decoder::new(TABLE_BYTES_MAX);
        let mut marks = |block: &[u8], said: Mark| {
            let mut marks = Vec::new();
            let mut visit = |field: Field<'_>| {
                marks.push(field.mark);
                said
            };
            decoder.decode(block, &mut visit).unwrap();
            marks
        };
        assert_eq!(marks(b"\x82\x82\x83", 1), [None, Some(1), None]);
        assert_eq!(marks(b"\x82\x42\x03PUT\xbe", 2), [Some(1), None, Some(2)]);
        assert_eq!(marks(b"\x7e\x03PUT\xbe\xbf", 3), [None, Some(3), Some(2)]);
        assert_eq!(marks(b"\x02\x03GET\x82\xbf", 4), [None, Some(1), Some(2)]);
    }

    #[test]
    fn a_long_string_leaves_no_large_scratch_behind() {
        // The digit 0, whose code is five zeros.
        let code = [0; 40_000];
        let mut block = b"\x00\x01a".to_vec();
        write(0x80, 0x7f, code.len(), &mut block);
        block.extend_from_slice(&code);
        let mut decoder = Decoder::new(TABLE_BYTES_MAX);
        let mut visit = |field: Field<'_>| {
            assert_eq!(field.value, &[b'0'; 64_000]);
            0
        };
        decoder.decode(&block, &mut visit).unwrap();
        assert!(decoder.scratch.capacity() <= SCRATCH_BYTES_KEPT);
    }
}
