//! Seeded simulations: our encoder against our decoder, and our decoder against a peer that uses
//! every representation there is over the plainest possible table.

use super::static_table::{STATIC, STATIC_LEN};
use super::{Decoder, ENTRY_OVERHEAD, Encoder, Field, Mark, TABLE_BYTES_DEFAULT, huffman, integer};

const BLOCKS: usize = 3000;

type Line = (Vec<u8>, Vec<u8>);

/// Xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A line: one of the static table, one that repeats, or one of its own.
    fn line(&mut self) -> Line {
        let (name, value) = STATIC[1 + self.below(STATIC_LEN - 1)];
        let mut line = (name.to_vec(), value.to_vec());
        match self.below(4) {
            0 => {}
            1 => line.1 = vec![b'a' + self.below(20) as u8; self.below(40)],
            2 => line.0 = format!("x-{}", self.below(30)).into_bytes(),
            _ => {
                line.0 = self.bytes(20);
                line.1 = self.bytes(300);
            }
        }
        line
    }

    fn bytes(&mut self, end: usize) -> Vec<u8> {
        (0..self.below(end))
            .map(|_| self.below(256) as u8)
            .collect()
    }

    fn size(&mut self) -> usize {
        [0, 1, 40, 100, 500, 4095, 4096, 100_000][self.below(8)]
    }
}

/// What the visitor says of a line: any function of it.
fn mark(name: &[u8], value: &[u8]) -> Mark {
    let sum = |text: &[u8]| text.iter().fold(7_u8, |sum, b| sum.wrapping_mul(31) ^ b);
    sum(name).wrapping_add(sum(value))
}

/// Decodes a block; marks that come back are those of the line.
fn decode(decoder: &mut Decoder, block: &[u8]) -> Vec<(Line, bool)> {
    let mut lines = Vec::new();
    let mut visit = |field: Field<'_>| {
        let said = mark(field.name, field.value);
        assert!(field.mark.is_none_or(|mark| mark == said));
        let line = (field.name.to_vec(), field.value.to_vec());
        lines.push((line, field.sensitive));
        said
    };
    decoder.decode(block, &mut visit).unwrap();
    lines
}

fn check_own_peer(seed: u64, mut encoder: Encoder) {
    let mut random = Random(seed);
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    let mut repeated: Vec<Line> = (0..20).map(|_| random.line()).collect();
    let mut block = Vec::new();
    for _ in 0..BLOCKS {
        while random.one_in(10) {
            encoder.set_table_bytes_max(random.size());
        }
        let mut sent = Vec::new();
        block.clear();
        for _ in 0..random.below(12) {
            let line = if random.one_in(3) {
                random.line()
            } else {
                repeated[random.below(20)].clone()
            };
            let sensitive = random.one_in(10);
            if sensitive {
                encoder.sensitive(&line.0, &line.1, &mut block);
            } else {
                encoder.field(&line.0, &line.1, &mut block);
            }
            sent.push((line, sensitive));
        }
        let shown = decode(&mut decoder, &block);
        assert_eq!(shown.len(), sent.len());
        for (shown, sent) in shown.iter().zip(&sent) {
            assert!(shown.0 == sent.0 && shown.1 >= sent.1, "{shown:?} {sent:?}");
        }
        if !sent.is_empty() {
            assert_eq!(decoder.table(), encoder.table());
        }
        let at = random.below(20);
        if random.one_in(20) {
            repeated[at] = random.line();
        }
    }
}

#[test]
fn our_decoder_reads_what_our_encoder_writes() {
    for seed in 1..=8 {
        check_own_peer(seed, Encoder::new());
        check_own_peer(seed * 1000, Encoder::with_huffman());
    }
}

/// A peer that chooses among all representations.
struct Peer {
    random: Random,
    /// Newest first.
    table: Vec<Line>,
    size_max: usize,
    block: Vec<u8>,
}

impl Peer {
    fn line(&self, index: usize) -> Line {
        match index.checked_sub(STATIC_LEN) {
            Some(age) => self.table[age].clone(),
            None => (STATIC[index].0.to_vec(), STATIC[index].1.to_vec()),
        }
    }

    fn evict(&mut self) {
        let size = |line: &Line| line.0.len() + line.1.len() + ENTRY_OVERHEAD;
        while self.table.iter().map(size).sum::<usize>() > self.size_max {
            self.table.pop();
        }
    }

    fn resize(&mut self, size: usize) {
        integer::write(0x20, 0x1f, size, &mut self.block);
        self.size_max = size;
        self.evict();
    }

    fn string(&mut self, text: &[u8]) {
        if self.random.one_in(2) {
            integer::write(0x80, 0x7f, huffman::encoded_len(text), &mut self.block);
            huffman::encode(text, &mut self.block);
        } else {
            integer::write(0, 0x7f, text.len(), &mut self.block);
            self.block.extend_from_slice(text);
        }
    }

    /// Writes a field and says which one it is.
    fn field(&mut self) -> (Line, bool) {
        let index = 1 + self.random.below(STATIC_LEN - 1 + self.table.len());
        let (flags, mask) =
            [(0x80, 0x7f), (0x40, 0x3f), (0x00, 0x0f), (0x10, 0x0f)][self.random.below(4)];
        let mut line = self.line(index);
        if flags == 0x80 {
            integer::write(flags, mask, index, &mut self.block);
            return (line, false);
        }
        let own = self.random.line();
        line.1 = own.1;
        if self.random.one_in(2) {
            line.0 = own.0;
            self.block.push(flags);
            self.string(&line.0);
        } else {
            integer::write(flags, mask, index, &mut self.block);
        }
        self.string(&line.1);
        if flags == 0x40 {
            self.table.insert(0, line.clone());
            self.evict();
        }
        (line, flags == 0x10)
    }
}

#[test]
fn our_decoder_agrees_with_a_peer_that_does_everything() {
    let mut peer = Peer {
        random: Random(42),
        table: Vec::new(),
        size_max: TABLE_BYTES_DEFAULT,
        block: Vec::new(),
    };
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    for _ in 0..BLOCKS {
        peer.block.clear();
        for _ in 0..peer.random.below(30).saturating_sub(27) {
            let size = peer.random.size().min(TABLE_BYTES_DEFAULT);
            peer.resize(size);
        }
        let sent: Vec<_> = (0..peer.random.below(20)).map(|_| peer.field()).collect();
        assert_eq!(decode(&mut decoder, &peer.block), sent);
        assert_eq!(decoder.table().1.len(), peer.table.len());
    }
}
