//! Prints what it costs to decode and to encode the header block of one typical request, in
//! nanoseconds; run under `valgrind --tool=callgrind` with a small count it gives instructions
//! instead (five times the count are run). Usage: `hpack_cost [COUNT [CASE]]`. A measurement for
//! tuning, never a test.

use std::hint::black_box;
use std::time::Instant;

use wire::h2::hpack::{Decoder, Encoder, Field, TABLE_BYTES_DEFAULT};

/// What a sidecar sends for its service: eight fields, one of which differs from call to call.
const REQUEST: [(&[u8], &[u8]); 8] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/hipstershop.CartService/GetCart"),
    (b":authority", b"cartservice:7070"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
    (b"user-agent", b"grpc-go/1.63.2"),
    (b"x-request-id", b""),
];

/// Ids that are taken in turns: more than an encoder remembers.
const IDS: usize = 1024;

fn main() {
    let count = std::env::args()
        .nth(1)
        .map_or(2_000_000, |n| n.parse().expect("a count"));
    let ids: Vec<String> = (0..IDS)
        .map(|id| format!("5f2b1c9e-7c1d-4a57-8d3e-0f6a2b9c{:04x}", id * 61))
        .collect();
    encode("encode, warm", count, &ids, Encoder::new());
    encode(
        "encode, warm, huffman",
        count,
        &ids,
        Encoder::with_huffman(),
    );
    decode("decode, warm", count, &ids, Encoder::new());
    decode(
        "decode, warm, huffman",
        count,
        &ids,
        Encoder::with_huffman(),
    );
    let block = block(&mut Encoder::with_huffman(), "0af7651916cd43dd");
    report("decode, all literals, huffman", count, || {
        // Nothing enters the table, so that each round is the first.
        read(&mut Decoder::new(TABLE_BYTES_DEFAULT), black_box(&block))
    });
}

fn encode(name: &str, count: u32, ids: &[String], mut encoder: Encoder) {
    let (mut out, mut turn) = (Vec::new(), 0);
    report(name, count, || {
        out.clear();
        turn += 1;
        write(&mut encoder, black_box(&ids[turn % IDS]), &mut out);
        out.len()
    });
}

fn decode(name: &str, count: u32, ids: &[String], mut encoder: Encoder) {
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    for id in ids {
        read(&mut decoder, &block(&mut encoder, id));
    }
    let blocks: Vec<Vec<u8>> = ids.iter().map(|id| block(&mut encoder, id)).collect();
    println!("  {} bytes", blocks[0].len());
    let mut turn = 0;
    report(name, count, || {
        turn += 1;
        read(&mut decoder, black_box(&blocks[turn % IDS]))
    });
}

fn block(encoder: &mut Encoder, id: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write(encoder, id, &mut out);
    out
}

fn write(encoder: &mut Encoder, id: &str, out: &mut Vec<u8>) {
    let (last, others) = REQUEST.split_last().expect("eight fields");
    for (name, value) in others {
        encoder.field(name, value, out);
    }
    encoder.field(last.0, id.as_bytes(), out);
}

/// Decodes a block and adds up what it holds.
fn read(decoder: &mut Decoder, block: &[u8]) -> usize {
    let mut bytes = 0;
    let mut visit = |field: Field<'_>| {
        bytes += field.name.len() + field.value.len();
        1
    };
    decoder.decode(block, &mut visit).expect("a good block");
    bytes
}

fn report(name: &str, count: u32, mut work: impl FnMut() -> usize) {
    if std::env::args().nth(2).is_some_and(|case| case != name) {
        return;
    }
    let best = (0..5)
        .map(|_| time(count, &mut work))
        .fold(f64::MAX, f64::min);
    println!("{name}: {best:.1} ns");
}

fn time(count: u32, work: &mut impl FnMut() -> usize) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        black_box(work());
    }
    start.elapsed().as_nanos() as f64 / f64::from(count.max(1))
}
