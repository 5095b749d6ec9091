//! The examples of RFC 7541, appendix C, that are more than an integer or a string: each sequence
//! of blocks with its fields and the table behind it.

use super::{Decoder, Encoder, TABLE_BYTES_DEFAULT};

/// A block in hexadecimal, its fields, and the size and lines of the table behind it.
type Example<'a> = (&'a str, &'a [&'a str], usize, &'a [&'a str]);

const GET_HTTP: [&str; 4] = [
    ":method: GET",
    ":scheme: http",
    ":path: /",
    ":authority: www.example.com",
];
const CACHED: [&str; 5] = [
    ":method: GET",
    ":scheme: http",
    ":path: /",
    ":authority: www.example.com",
    "cache-control: no-cache",
];
const CUSTOM: [&str; 5] = [
    ":method: GET",
    ":scheme: https",
    ":path: /index.html",
    ":authority: www.example.com",
    "custom-key: custom-value",
];
const MOVED: [&str; 4] = [
    ":status: 302",
    "cache-control: private",
    "date: Mon, 21 Oct 2013 20:13:21 GMT",
    "location: https://www.example.com",
];
const MOVED_AGAIN: [&str; 4] = [":status: 307", MOVED[1], MOVED[2], MOVED[3]];
const LATER: &str = "date: Mon, 21 Oct 2013 20:13:22 GMT";
const COOKIE: &str = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
const ANSWERED: [&str; 6] = [
    ":status: 200",
    MOVED[1],
    LATER,
    MOVED[3],
    "content-encoding: gzip",
    COOKIE,
];

/// The tables behind the three requests, and behind the three responses.
const REQUEST_TABLES: [&[&str]; 3] = [
    &[GET_HTTP[3]],
    &[CACHED[4], GET_HTTP[3]],
    &[CUSTOM[4], CACHED[4], GET_HTTP[3]],
];
const RESPONSE_TABLES: [&[&str]; 3] = [
    &[MOVED[3], MOVED[2], MOVED[1], MOVED[0]],
    &[MOVED_AGAIN[0], MOVED[3], MOVED[2], MOVED[1]],
    &[COOKIE, ANSWERED[4], LATER],
];

fn check(table_bytes: usize, examples: &[Example<'_>]) {
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    let mut block = Vec::new();
    super::integer::write(0x20, 0x1f, table_bytes, &mut block);
    for (hex, fields, size, lines) in examples {
        block.extend(bytes(hex));
        assert_eq!(decode(&mut decoder, &block), *fields);
        let (table_size, table_lines) = decoder.table();
        assert_eq!(
            (table_size, table_lines.as_slice()),
            (*size, &*strings(lines))
        );
        block.clear();
    }
    for encoder in [Encoder::new(), Encoder::with_huffman()] {
        check_encoder(encoder, table_bytes, examples);
    }
}

/// The same fields through our own encoder, three times so that its table is used.
fn check_encoder(mut encoder: Encoder, table_bytes: usize, examples: &[Example<'_>]) {
    let mut decoder = Decoder::new(TABLE_BYTES_DEFAULT);
    encoder.set_table_bytes_max(table_bytes);
    for (_, fields, ..) in examples.iter().cycle().take(3 * examples.len()) {
        let mut block = Vec::new();
        for field in *fields {
            let (name, value) = field.split_at(field[1..].find(": ").unwrap() + 1);
            encoder.field(name.as_bytes(), &value.as_bytes()[2..], &mut block);
        }
        assert_eq!(decode(&mut decoder, &block), *fields);
        assert_eq!(decoder.table(), encoder.table());
    }
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Vec<String> {
    let mut shown = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    decoder
        .decode(block, &mut |field| {
            shown.push(text(field.name) + ": " + &text(field.value));
            0
        })
        .unwrap();
    shown
}

fn strings(lines: &[&str]) -> Vec<String> {
    lines.iter().copied().map(str::to_owned).collect()
}

fn bytes(hex: &str) -> impl Iterator<Item = u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect();
    bytes.into_iter()
}

#[test]
fn single_fields() {
    let custom = "custom-key: custom-header";
    let hex = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    check(4096, &[(hex, &[custom], 55, &[custom])]);
    let hex = "040c 2f73 616d 706c 652f 7061 7468";
    check(4096, &[(hex, &[":path: /sample/path"], 0, &[])]);
    let hex = "1008 7061 7373 776f 7264 0673 6563 7265 74";
    check(4096, &[(hex, &["password: secret"], 0, &[])]);
    check(4096, &[("82", &[":method: GET"], 0, &[])]);
}

#[test]
fn requests() {
    let [first, second, third] = REQUEST_TABLES;
    check(
        4096,
        &[
            (
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                &GET_HTTP,
                57,
                first,
            ),
            ("8286 84be 5808 6e6f 2d63 6163 6865", &CACHED, 110, second),
            (
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
                &CUSTOM,
                164,
                third,
            ),
        ],
    );
}

#[test]
fn requests_with_huffman_code() {
    let [first, second, third] = REQUEST_TABLES;
    check(
        4096,
        &[
            (
                "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
                &GET_HTTP,
                57,
                first,
            ),
            ("8286 84be 5886 a8eb 1064 9cbf", &CACHED, 110, second),
            (
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
                &CUSTOM,
                164,
                third,
            ),
        ],
    );
}

#[test]
fn responses_that_evict() {
    let [first, second, third] = RESPONSE_TABLES;
    let moved = "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 \
        2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 \
        6f6d";
    let answered = "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 \
        474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 \
        5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31";
    check(
        256,
        &[
            (moved, &MOVED, 222, first),
            ("4803 3330 37c1 c0bf", &MOVED_AGAIN, 222, second),
            (answered, &ANSWERED, 215, third),
        ],
    );
}

#[test]
fn responses_that_evict_with_huffman_code() {
    let [first, second, third] = RESPONSE_TABLES;
    let moved = "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 \
        2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
    let answered = "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b \
        d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 \
        3160 65c0 03ed 4ee5 b106 3d50 07";
    check(
        256,
        &[
            (moved, &MOVED, 222, first),
            ("4883 640e ffc1 c0bf", &MOVED_AGAIN, 222, second),
            (answered, &ANSWERED, 215, third),
        ],
    );
}
