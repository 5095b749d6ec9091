//! HTTP/2 byte by byte, so that each of them can be wrong (RFC 9113, RFC 7541).

use super::dice::Dice;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// Bytes of a frame before its payload.
pub(super) const HEAD_BYTES: usize = 9;
/// Longest payload that may be sent without asking.
const PAYLOAD_BYTES_MAX: usize = 16_384;
/// More than any answer here has.
const WINDOW_BYTES: u32 = 1 << 30;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    lying(payload.len(), kind, flags, stream, payload)
}

/// A frame that says to have `length` bytes.
fn lying(length: usize, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(length).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// What a client begins with, and room for all answers.
pub(super) fn preface() -> Vec<u8> {
    let mut window = vec![0, 4];
    window.extend(WINDOW_BYTES.to_be_bytes());
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &window));
    bytes.extend(frame(WINDOW_UPDATE, 0, 0, &WINDOW_BYTES.to_be_bytes()));
    bytes
}

/// The head of a call, without indices or Huffman's code.
pub(super) fn head(path: &str, token: Option<&str>) -> Vec<u8> {
    let token = token.map(|token| format!("Bearer {token}"));
    let lines = [
        (":method", Some("POST")),
        (":scheme", Some("https")),
        (":authority", Some("leno-control")),
        (":path", Some(path)),
        ("content-type", Some("application/grpc")),
        ("te", Some("trailers")),
        ("authorization", token.as_deref()),
    ];
    let mut block = Vec::new();
    for (name, value) in lines {
        let Some(value) = value else { continue };
        block.push(0);
        for word in [name, value] {
            block.push(u8::try_from(word.len()).unwrap());
            assert!(word.len() < 127, "a longer one needs more than a byte");
            block.extend(word.as_bytes());
        }
    }
    block
}

/// A whole call with one body, in as many frames as the dice want.
pub(super) fn call(dice: &mut Dice, stream: u32, head: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = frame(HEADERS, END_HEADERS, stream, head);
    let mut rest = body;
    loop {
        let length = match dice.once_in(4) {
            true => dice.below(rest.len() + 1),
            false => rest.len(),
        };
        let (now, later) = rest.split_at(length.min(PAYLOAD_BYTES_MAX));
        let end = u8::from(later.is_empty()) * END_STREAM;
        bytes.extend(frame(DATA, end, stream, now));
        if later.is_empty() {
            return bytes;
        }
        rest = later;
    }
}

/// A few frames that no well-behaved client would send like this.
pub(super) fn wrong(dice: &mut Dice, path: &str) -> Vec<u8> {
    let mut bytes = match dice.once_in(8) {
        true => dice.spoil(preface()),
        false => preface(),
    };
    for _ in 0..=dice.below(6) {
        bytes.extend(wrong_one(dice, &head(path, None)));
    }
    bytes
}

fn wrong_one(dice: &mut Dice, head: &[u8]) -> Vec<u8> {
    let stream = u32::from(dice.byte());
    let odd = stream | 1;
    match dice.below(9) {
        0 => frame(dice.byte(), dice.byte(), stream, &dice.bytes(100)),
        1 => reset_at_once(odd, head),
        2 => frame(SETTINGS, dice.byte() & 1, 0, &dice.bytes(40)),
        3 => {
            let increment = [0, 1, u32::MAX >> 1][dice.below(3)];
            frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
        }
        4 => in_pieces(dice, odd, head),
        5 => frame(
            HEADERS,
            dice.byte() | END_HEADERS,
            odd,
            &dice.spoil(head.to_vec()),
        ),
        6 => {
            let length = [0, 1, PAYLOAD_BYTES_MAX + 1, 0xff_ffff][dice.below(4)];
            lying(length, dice.byte() % 10, dice.byte(), stream, head)
        }
        7 => frame(PING, 0, stream & 1, &dice.bytes(16)),
        _ => frame(GOAWAY, 0, 0, &dice.bytes(16)),
    }
}

/// Many calls that are taken back as soon as they are made.
fn reset_at_once(first: u32, head: &[u8]) -> Vec<u8> {
    let streams = (first..).step_by(2).take(30);
    let both = |stream| {
        let call = frame(HEADERS, END_HEADERS, stream, head);
        [call, frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
    };
    streams.flat_map(both).collect()
}

/// A head in many pieces that may never end.
fn in_pieces(dice: &mut Dice, stream: u32, head: &[u8]) -> Vec<u8> {
    let mut bytes = frame(HEADERS, 0, stream, head);
    for _ in 0..dice.below(20) {
        let flags = u8::from(dice.once_in(10)) * END_HEADERS;
        bytes.extend(frame(CONTINUATION, flags, stream, &dice.bytes(400)));
    }
    bytes
}
