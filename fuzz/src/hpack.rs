//! What must hold of header compression for any sequence of blocks. Called by the fuzz target and,
//! over its seeds, by wire's own tests. Panics where it does not hold.

use wire::h2::hpack::{Decoder, ENTRY_OVERHEAD, Encoder, Field, Mark, TABLE_BYTES_DEFAULT};

/// What is announced to the peer: the default, and sizes that inputs of some hundred bytes fill.
const TABLE_SIZES: [usize; 4] = [TABLE_BYTES_DEFAULT, 0, 120, 65536];

/// The most that any coding makes of a byte of a string: codes of five bits.
const EXPANSION: (usize, usize) = (8, 5);

type Line = (Vec<u8>, Vec<u8>, bool);

/// Blocks through one decoder: its table stays in bounds, marks come back with their lines, and
/// the lines survive being encoded again.
pub fn hpack(data: &[u8]) {
    for table_bytes_max in TABLE_SIZES {
        let mut decoder = Decoder::new(table_bytes_max);
        let mut again = [
            (Encoder::new(), Decoder::new(TABLE_BYTES_DEFAULT)),
            (Encoder::with_huffman(), Decoder::new(TABLE_BYTES_DEFAULT)),
        ];
        for block in blocks(data) {
            let mut lines = Vec::new();
            let verdict = decode(&mut decoder, block, &mut lines);
            assert!(decoder.table_bytes() <= table_bytes_max.max(TABLE_BYTES_DEFAULT));
            for (encoder, decoder) in &mut again {
                // Any sizes will do, if only they differ from block to block.
                encoder.set_table_bytes_max(block.len() * 32);
                check_again(encoder, decoder, &lines);
            }
            if verdict.is_err() {
                break;
            }
        }
    }
}

/// Whether all blocks are good.
pub fn is_good(data: &[u8]) -> bool {
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    blocks(data).all(|block| decode(&mut decoder, block, &mut Vec::new()).is_ok())
}

/// Cuts `data` into blocks, each behind a byte with its length; the last one may be shorter.
fn blocks(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = data.split_first()?;
        let (block, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        data = rest;
        Some(block)
    })
}

fn decode(
    decoder: &mut Decoder,
    block: &[u8],
    lines: &mut Vec<Line>,
) -> Result<(), wire::h2::hpack::Error> {
    let longest = block.len() * EXPANSION.0 / EXPANSION.1;
    let held = decoder.table_bytes().saturating_sub(ENTRY_OVERHEAD);
    let mut visit = |field: Field<'_>| {
        let said = mark(field.name, field.value);
        assert!(field.mark.is_none_or(|mark| mark == said));
        assert!(field.mark.is_none() || !field.sensitive);
        // A line is of this block, of the table, or half of each; or its name is a fixed one.
        assert!(field.value.len() <= longest.max(held).max(13));
        lines.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
        said
    };
    decoder.decode(block, &mut visit)
}

/// Any function of a line.
fn mark(name: &[u8], value: &[u8]) -> Mark {
    let sum = |text: &[u8]| text.iter().fold(7_u8, |sum, b| sum.wrapping_mul(31) ^ b);
    sum(name).wrapping_add(sum(value))
}

/// Encodes `lines` and decodes them; twice, so that some of them come from the table.
fn check_again(encoder: &mut Encoder, decoder: &mut Decoder, lines: &[Line]) {
    for _ in 0..2 {
        let (mut block, mut read) = (Vec::new(), Vec::new());
        for (name, value, sensitive) in lines {
            if *sensitive {
                encoder.sensitive(name, value, &mut block);
            } else {
                encoder.field(name, value, &mut block);
            }
        }
        decode(decoder, &block, &mut read).expect("a block of our own is good");
        assert_eq!(read.len(), lines.len());
        for (read, line) in read.iter().zip(lines) {
            assert!((&read.0, &read.1) == (&line.0, &line.1) && read.2 >= line.2);
        }
    }
}
