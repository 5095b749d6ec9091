//! Peers that speak the hop's protocol badly, or speak it where it is not spoken: whoever has a
//! certificate is still a peer from the network.

use crate::frames::{DATA, END_STREAM, Frames, GOAWAY, HEADERS, PROTOCOL_ERROR, RST_STREAM, block};
use crate::world::{PROXY, echo};
use std::net::TcpStream;
use testkit::pair::Pair;
use testkit::{EchoServer, RawClient, TlsClient};

type Fields<'a> = Vec<(&'a str, &'a str)>;

fn hop(pair: &Pair<EchoServer>) -> Frames<<TlsClient as Speaks>::Stream> {
    Frames::new(pair.hop().connect(pair.inbound.addr()).unwrap())
}

/// The stream inside a client.
trait Speaks {
    type Stream;
}

impl<S> Speaks for testkit::client::Client<S> {
    type Stream = S;
}

/// In front of an application that speaks HTTP/1 only.
fn public(pair: &Pair<EchoServer>) -> Frames<TcpStream> {
    Frames::new(RawClient::connect(pair.outbound.addr()))
}

/// A request of the hop that is fine, with further fields.
fn fine<'a>(further: &[(&'a str, &'a str)]) -> Fields<'a> {
    let start = [(":method", "GET"), (":path", "/bytes/3"), ("Host", "a")];
    [&start[..], further].concat()
}

/// Each of these costs its stream and nothing else.
#[track_caller]
fn is_reset<S: std::io::Read + std::io::Write>(frames: &mut Frames<S>, heads: &[Fields<'_>]) {
    let mut stream = 1;
    for fields in heads {
        frames.request(stream, fields);
        let frame = frames.of(stream);
        assert_eq!(frame.kind, RST_STREAM, "{fields:?}: {frame:?}");
        assert_eq!(frame.payload, PROTOCOL_ERROR.to_be_bytes(), "{fields:?}");
        stream += 2;
    }
}

#[test]
fn request_by_hand_is_served() {
    let pair = echo();
    let mut frames = hop(&pair);
    for (stream, further) in [(1, &[][..]), (3, &[("X-Any", "1")]), (5, &[("x-any", "")])] {
        frames.request(stream, &fine(further));
        assert_eq!(frames.status(stream), 200);
        assert_eq!(frames.data(stream, 3), b"xxx");
    }
    let old = [(":method", "GET"), (":path", "/"), (":version", "1.0")];
    frames.request(7, &old);
    assert_eq!(frames.status(7), 200);
}

/// Further fields of a head, `name=value` with `|` between, none of which may arrive.
const LINES: &[&str] = &[
    // What splits messages, in names and in values.
    "X-A=1\r\nX-B: 2",
    "X-A=1\nX-B: 2",
    "X-A=1\0",
    "X-A: 1\r\nX-B=2",
    "X A=1",
    "X-A:=1",
    "=1",
    "X-A= 1",
    "X-A=1\t",
    // What frames messages.
    "Transfer-Encoding=chunked",
    "transfer-encoding=identity",
    "Connection=close",
    "Keep-Alive=timeout",
    "Upgrade=websocket",
    "Proxy-Connection=close",
    "TE=gzip",
    "Content-Length=1",
    "Content-Length=0|Content-Length=5",
    "Content-Length=+0",
    "Content-Length=0x0",
    "Host=b",
];

/// Whole heads, written alike.
const HEADS: &[&str] = &[
    // Targets and methods.
    ":method=GET|:path=/x y|Host=a",
    ":method=GET|:path=/x HTTP/1.1\r\nX: |Host=a",
    ":method=GET|:path=|Host=a",
    ":method=G T|:path=/|Host=a",
    ":method=|:path=/|Host=a",
    ":method=GET|:path=/|Host=a b",
    ":method=GET|:path=/|Host=u@a",
    // Pseudo-headers: missing, twice, late, of the other dialect or kind, unknown.
    ":path=/|Host=a",
    ":method=GET|Host=a",
    ":method=GET|:method=GET|:path=/|Host=a",
    ":method=GET|Host=a|:path=/",
    ":method=GET|:path=/|:scheme=http|Host=a",
    ":method=GET|:path=/|:authority=a",
    ":method=GET|:path=/|:status=200|Host=a",
    ":method=GET|:path=/|:reason=x|Host=a",
    ":method=GET|:path=/|:version=3|Host=a",
    ":method=GET|:path=/|:version=|Host=a",
    ":method=GET|:path=/|:upgrade=a\r\nb: c|Host=a",
    ":method=GET|:path=/|:upgrade=|Host=a",
    ":method=GET|:path=/|:unknown=x|Host=a",
    ":method=GET|:path=/|:METHOD=GET|Host=a",
];

fn fields(text: &str) -> Fields<'_> {
    text.split('|')
        .map(|field| field.split_once('=').unwrap())
        .collect()
}

#[test]
fn bad_heads_cost_their_stream_only() {
    let pair = echo();
    let mut frames = hop(&pair);
    let lines = LINES.iter().map(|text| fine(&fields(text)));
    let heads: Vec<_> = lines.chain(HEADS.iter().map(|text| fields(text))).collect();
    is_reset(&mut frames, &heads);
    let after = u32::try_from(heads.len()).unwrap() * 2 + 1;
    frames.request(after, &fine(&[]));
    assert_eq!(frames.status(after), 200);
    assert_eq!(pair.app.request_count(), 1);
}

#[test]
fn request_without_a_host_is_refused_as_over_http1() {
    let pair = echo();
    let mut frames = hop(&pair);
    frames.request(1, &[(":method", "GET"), (":path", "/")]);
    let frame = frames.of(1);
    let refused = frame.kind == RST_STREAM || frame.payload[0] == 0x8c;
    assert!(refused && pair.app.request_count() == 0, "{frame:?}");
}

#[test]
fn body_that_is_not_as_long_as_it_says_reaches_nobody_whole() {
    let pair = echo();
    let mut frames = hop(&pair);
    let post = |length| {
        vec![
            (":method", "POST"),
            (":path", "/"),
            ("Host", "a"),
            ("Content-Length", length),
        ]
    };
    for (stream, length) in [(1, "3"), (3, "9")] {
        frames.open(stream, &post(length));
        frames.send(DATA, END_STREAM, stream, b"hello");
        let frame = frames.of(stream);
        assert_eq!(frame.kind, RST_STREAM, "{frame:?}");
    }
    frames.request(5, &fine(&[]));
    assert_eq!(frames.status(5), 200);
    assert_eq!(pair.app.request_count(), 1);
}

#[test]
fn trailers_are_validated_as_heads_are() {
    let pair = echo();
    let mut frames = hop(&pair);
    let post = [(":method", "POST"), (":path", "/"), ("Host", "a")];
    for (stream, trailer) in [
        (1, ("X-Sum", "1\r\nX-B: 2")),
        (3, (":path", "/")),
        (5, ("X Sum", "1")),
    ] {
        frames.open(stream, &post);
        frames.send(DATA, 0, stream, b"hello");
        frames.send(HEADERS, 5, stream, &block(&[trailer]));
        let frame = frames.of(stream);
        assert_eq!(frame.kind, RST_STREAM, "{trailer:?}: {frame:?}");
    }
    assert_eq!(pair.app.request_count(), 0);
}

#[test]
fn peer_that_breaks_the_connection_is_told_and_harms_nobody() {
    let pair = echo();
    let mut client = crate::world::warm(&pair);
    for (kind, stream, payload) in [
        (DATA, 1, &b"on a stream that is not there"[..]),
        (HEADERS, 2, b"\x82"),
        (HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"),
        (5, 1, b"\0\0\0\x02"),
        (4, 0, b"odd"),
    ] {
        let mut frames = hop(&pair);
        frames.send(kind, 4, stream, payload);
        let frame = frames.of(0);
        assert_eq!(frame.kind, GOAWAY, "{kind}: {frame:?}");
        assert_eq!(client.get("/").status(), 200);
    }
}

#[test]
fn public_names_of_the_hop_are_refused() {
    let http1 = |sidecar: testkit::Sidecar| sidecar.cluster("protocol: http1");
    let pair = Pair::start_with(PROXY, EchoServer::start(), http1, |outbound| outbound);
    let mut frames = public(&pair);
    let start = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "a"),
    ];
    let with = |field| [&start[..], &[field]].concat();
    let heads = [
        with((":version", "1.0")),
        with((":version", "2")),
        with((":reason", "OK")),
        with((":upgrade", "websocket")),
        with(("X-Upper", "1")),
        vec![(":method", "GET"), (":path", "/"), ("host", "a")],
    ];
    is_reset(&mut frames, &heads);
    frames.request(13, &start);
    assert_eq!(frames.status(13), 200);
    assert_eq!(pair.app.request_count(), 1);
}
