//! Holds header compression against an independent one: what either side encodes, the other
//! decodes to the same fields, block after block; what both accept of any bytes, they read alike.

use proptest::prelude::*;
use wire::h2::hpack::{Decoder, Encoder, TABLE_BYTES_DEFAULT};

type Line = (Vec<u8>, Vec<u8>);

/// Lines as they are sent, some of them again and again.
fn line() -> impl Strategy<Value = Line> {
    let name = prop_oneof![
        Just(":method"),
        Just(":path"),
        Just(":status"),
        Just("accept-encoding"),
        Just("cookie"),
        Just("authorization"),
        Just("x-request-id"),
        Just("te"),
    ];
    let value = prop_oneof![
        Just("GET".to_owned()),
        Just("/".to_owned()),
        Just("200".to_owned()),
        "[a-c]{0,3}",
        "[ -~]{0,40}",
        Just("v".repeat(1000)),
    ];
    let own = (any::<Vec<u8>>(), any::<Vec<u8>>());
    let usual = (name, value).prop_map(|(name, value)| (name.into(), value.into()));
    prop_oneof![9 => usual, 1 => own]
}

fn blocks() -> impl Strategy<Value = Vec<Vec<Line>>> {
    prop::collection::vec(prop::collection::vec(line(), 1..12), 1..12)
}

fn read(decoder: &mut Decoder, block: &[u8]) -> Option<Vec<Line>> {
    let mut lines = Vec::new();
    let mut visit = |field: wire::h2::hpack::Field<'_>| {
        lines.push((field.name.to_vec(), field.value.to_vec()));
        0
    };
    decoder.decode(block, &mut visit).ok().map(|()| lines)
}

fn check_ours(mut encoder: Encoder, blocks: &[Vec<Line>]) {
    let mut decoder = fluke_hpack::Decoder::new();
    let mut block = Vec::new();
    for lines in blocks {
        block.clear();
        for (name, value) in lines {
            encoder.field(name, value, &mut block);
        }
        assert_eq!(&decoder.decode(&block).unwrap(), lines);
    }
}

fn check_theirs(blocks: &[Vec<Line>]) {
    let mut encoder = fluke_hpack::Encoder::new();
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    for lines in blocks {
        let block = encoder.encode(lines.iter().map(|line| (&*line.0, &*line.1)));
        assert_eq!(read(&mut decoder, &block).as_ref(), Some(lines));
    }
}

fn check_bytes(blocks: &[Vec<u8>]) {
    let mut theirs = fluke_hpack::Decoder::new();
    theirs.set_max_allowed_table_size(TABLE_BYTES_DEFAULT);
    let mut ours = Decoder::new(TABLE_BYTES_DEFAULT);
    for block in blocks {
        // Theirs panics at some of the blocks that we refuse.
        let Some(ours) = read(&mut ours, block) else {
            return;
        };
        let Ok(theirs) = theirs.decode(block) else {
            return;
        };
        assert_eq!(ours, theirs);
    }
}

/// Bytes that are fields more often than chance would have it.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        Just(0x40_u8),
        Just(0x00),
        Just(0x82),
        Just(0xbe),
        Just(0x7e),
        0_u8..4,
        any::<u8>(),
    ]
}

/// A case is a connection of many blocks, so fewer of them do.
fn config() -> ProptestConfig {
    let config = super::config();
    ProptestConfig {
        cases: config.cases / 8,
        ..config
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn encoded_blocks_are_read_by_either_side(blocks in blocks()) {
        check_ours(Encoder::new(), &blocks);
        check_ours(Encoder::with_huffman(), &blocks);
        check_theirs(&blocks);
    }

    #[test]
    fn any_bytes_that_both_accept_are_read_alike(
        blocks in prop::collection::vec(prop::collection::vec(byte(), 0..20), 1..6)
    ) {
        check_bytes(&blocks);
    }
}
