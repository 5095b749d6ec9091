//! Generates messages: well-formed parts and malformed ones in any combination, then a few bytes
//! changed anywhere.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const REQUEST_LINES: &[&str] = &[
    "GET / HTTP/1.1",
    "POST /a?b=c HTTP/1.1",
    "PUT /%20 HTTP/1.0",
    "DELETE /a/b;c HTTP/1.1",
    "HEAD / HTTP/1.1",
    "OPTIONS * HTTP/1.1",
    "M-SEARCH / HTTP/1.1",
    "GET http://a/x HTTP/1.1",
    "GET / HTTP/1.2",
    "GET  / HTTP/1.1",
    "GET / HTTP/2.0",
    "get a HTTP/1.1",
    "\r\nGET / HTTP/1.1",
];

const STATUS_LINES: &[&str] = &[
    "HTTP/1.1 200 OK",
    "HTTP/1.1 404 Not Found",
    "HTTP/1.0 200 OK",
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 304 Not Modified",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK",
    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK",
    "HTTP/1.1 500 ",
    "HTTP/1.1 200",
    "HTTP/1.1 999 x",
    "HTTP/1.1 20 OK",
    "HTTP/1.2 200 OK",
    "ICY 200 OK",
];

const LINES: &[&str] = &[
    "Content-Length: 5",
    "content-length: 0",
    "Content-Length: 05",
    "Content-Length: 6",
    "Content-Length: 5, 5",
    "Content-Length: +5",
    "Content-Length:",
    "Transfer-Encoding: chunked",
    "transfer-encoding: Chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked, gzip",
    "Transfer-Encoding: identity",
    "Transfer-Encoding : chunked",
    "Connection: close",
    "Connection: keep-alive, x-a",
    "Connection: content-length",
    "Expect: 100-continue",
    "X-A: 1",
    "x-a:\t2 \t",
    "X-Empty:",
    "X-Text: \u{e9}\u{fc}",
    " folded",
    ": nameless",
    "no colon",
    "X-Ctl: \u{1}",
    "Host: b",
    "Upgrade: h2c",
];

const BODIES: &[&str] = &[
    "",
    "hello",
    "hello, and more",
    "5\r\nhello\r\n0\r\n\r\n",
    "5;a=b\r\nhello\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "005\r\nhello\r\n1\r\n!\r\n000\r\nX-Sum: 1\r\n\r\n",
    "0\r\n\r\n",
    "5 \r\nhello\r\n0\r\n\r\n",
    "5\nhello\n0\n\n",
    "5\r\nhello0\r\n\r\n",
    "0\r\nContent-Length: 5\r\n\r\n",
    "0\r\nx: 1\n\r\n",
    "ffffffffffffffff\r\nhello",
    "-5\r\nhello\r\n0\r\n\r\n",
];

const ENDS: &[&str] = &[
    "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r",
];

const BYTES: &[u8] = b"\r\n\0 \t:,;aG0/5#\x7f\x80\xff";

/// What is done to a byte at a place relative to the length.
#[derive(Clone, Debug)]
enum Change {
    Insert(Index, u8),
    Replace(Index, u8),
    Remove(Index),
    Cut(Index),
}

/// A request, after which the connection closes.
pub(crate) fn request() -> impl Strategy<Value = Vec<u8>> {
    // Most requests have one Host, so that what follows is looked at.
    message(
        REQUEST_LINES,
        prop_oneof![8 => Just(Some("Host: a")), 1 => Just(None)],
    )
}

/// Interim responses and one more, after which the connection closes.
pub(crate) fn response() -> impl Strategy<Value = Vec<u8>> {
    message(STATUS_LINES, Just(None))
}

fn message(
    starts: &'static [&'static str],
    host: impl Strategy<Value = Option<&'static str>>,
) -> impl Strategy<Value = Vec<u8>> {
    let lines = prop_oneof![2 => vec(select(LINES), 0..3), 1 => vec(select(LINES), 0..9)];
    let ends = prop_oneof![4 => Just("\r\n").boxed(), 1 => select(ENDS).boxed()];
    let changes = prop_oneof![2 => vec(change(), 0..1), 1 => vec(change(), 1..4)];
    // The first few are well-formed; the others alone would end most cases at the first line.
    let start = prop_oneof![3 => select(&starts[..7]), 1 => select(starts)];
    (start, host, lines, ends, select(BODIES), changes).prop_map(
        |(start, host, lines, end, body, changes)| {
            let mut text = format!("{start}{end}");
            host.iter()
                .chain(&lines)
                .for_each(|line| text += &format!("{line}{end}"));
            let whole = format!("{text}{end}{body}").into_bytes();
            changes.iter().fold(whole, apply)
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<Index>;
    prop_oneof![
        (place(), select(BYTES)).prop_map(|(at, byte)| Change::Insert(at, byte)),
        (place(), select(BYTES)).prop_map(|(at, byte)| Change::Replace(at, byte)),
        place().prop_map(Change::Remove),
        place().prop_map(Change::Cut),
    ]
}

fn apply(mut bytes: Vec<u8>, change: &Change) -> Vec<u8> {
    match change {
        _ if bytes.is_empty() => {}
        Change::Insert(at, byte) => bytes.insert(at.index(bytes.len()), *byte),
        Change::Replace(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Change::Remove(at) => drop(bytes.remove(at.index(bytes.len()))),
        Change::Cut(at) => bytes.truncate(at.index(bytes.len())),
    }
    bytes
}
