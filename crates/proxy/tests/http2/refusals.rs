//! Heads and bodies that no client may send: each ends its own stream, and nothing else.

use crate::world::{HEAD, http2, http2_with, limits};
use testkit::h2::{Frame, code};

fn with<'a>(lines: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&HEAD, lines].concat()
}

#[test]
fn head_that_is_too_large_is_a_431_and_the_connection_lives() {
    let world = http2_with(limits("headBytes: 2048, headers: 20"));
    let mut frames = world.frames();
    let large = "x".repeat(15_000);
    let many: Vec<_> = (0..150).map(|_| ("x", "y")).collect();
    frames.send(&[Frame::headers(1, &with(&[("x", &large)]), true)]);
    assert_eq!(frames.status(1), 431);
    frames.send(&[Frame::headers(3, &with(&many), true)]);
    assert_eq!(frames.status(3), 431);
    frames.send(&[Frame::get(5, "/status/204")]);
    assert_eq!(frames.status(5), 204);
    world.flagged("DPE", 2.0);
}

/// Heads that no client may send.
const MALFORMED: &[&[(&str, &str)]] = &[
    &[(":method", "GET"), (":scheme", "http"), (":authority", "a")],
    &[(":method", "GET"), (":authority", "a"), (":path", "/")],
    &[(":scheme", "http"), (":authority", "a"), (":path", "/")],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", ""),
    ],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        ("x", "y"),
        (":path", "/"),
    ],
    &[
        (":method", "G T"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "u@a"),
        (":path", "/"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/"),
        ("host", "b"),
    ],
    &[
        (":method", "GET"),
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
    ],
];

/// Lines that no head may have.
const MALFORMED_LINES: &[(&str, &str)] = &[
    (":status", "200"),
    (":other", "x"),
    ("X-Upper", "x"),
    ("connection", "close"),
    ("transfer-encoding", "chunked"),
    ("keep-alive", "5"),
    ("upgrade", "websocket"),
    ("te", "gzip"),
    ("x y", "z"),
    ("", "z"),
    ("x", "a\r\nb: c"),
    ("x", "a\0"),
    ("x", " a"),
    ("content-length", "x"),
    ("content-length", "5"),
];

#[test]
fn malformed_heads_reset_their_stream_only() {
    let world = http2();
    let mut frames = world.frames();
    let lines = MALFORMED_LINES.iter().map(|line| with(&[*line]));
    let heads = MALFORMED.iter().map(|head| head.to_vec()).chain(lines);
    let mut stream = 1;
    for head in heads {
        frames.send(&[Frame::headers(stream, &head, true)]);
        assert_eq!(frames.reset_of(stream), code::PROTOCOL_ERROR, "{head:?}");
        frames.send(&[Frame::get(stream + 2, "/status/204")]);
        assert_eq!(frames.status(stream + 2), 204, "{head:?}");
        stream += 4;
    }
    assert_eq!(world.upstream.requests().len(), stream as usize / 4);
}

#[test]
fn body_that_is_not_as_long_as_said_resets_its_stream() {
    for (said, sent) in [("5", "four"), ("3", "four")] {
        let world = http2();
        let mut frames = world.frames();
        let mut head = with(&[("content-length", said)]);
        head[0].1 = "POST";
        head[3].1 = "/hold";
        frames.send(&[Frame::headers(1, &head, false), Frame::data(1, sent, true)]);
        assert_eq!(frames.reset_of(1), code::PROTOCOL_ERROR, "{said}");
        frames.send(&[Frame::get(3, "/status/204")]);
        assert_eq!(frames.status(3), 204);
        testkit::until("the upstream is told", || world.upstream.held() == 0);
    }
}
