//! Requests that two readers could understand differently, or that are too large: each is refused,
//! its connection closed, and nothing of it reaches the upstream.

use crate::world::{World, echo, echo_with, forwarded, forwarded_with, scripted};
use testkit::{ScriptedUpstream, Step};

const BEHIND: &str = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";

fn nobody() -> World<ScriptedUpstream> {
    scripted(vec![vec![Step::ReadEnd]])
}

/// Bytes that are answered with this status and closed, whatever stands behind them.
#[track_caller]
fn check(world: &World<ScriptedUpstream>, bytes: impl AsRef<[u8]>, status: u16) {
    let bytes = bytes.as_ref();
    let shown = bytes.escape_ascii().to_string();
    let mut client = world.client();
    client.send([bytes, BEHIND.as_bytes()].concat());
    let answer = client.try_response("GET");
    let answer = answer.unwrap_or_else(|error| panic!("{error} instead of an answer to {shown}"));
    assert_eq!(
        (answer.status(), answer.header("connection")),
        (status, Some("close")),
        "{shown}"
    );
    assert_eq!(client.read_to_end().0, b"", "{shown}");
    assert_eq!(world.upstream.connection_count(), 0, "{shown}");
}

#[track_caller]
fn check_all(shapes: &[&str], wrap: impl Fn(&str) -> String) {
    let world = nobody();
    shapes
        .iter()
        .for_each(|shape| check(&world, wrap(shape), 400));
    world.flagged("DPE", f64::from(u32::try_from(shapes.len()).unwrap()));
}

/// Lines that frame a body, or seem to.
const AMBIGUOUS: &[&str] = &[
    "content-length: 4\r\ntransfer-encoding: chunked",
    "transfer-encoding: chunked\r\ncontent-length: 4",
    "content-length: 4\r\ncontent-length: 5",
    "content-length: 4\r\nContent-Length: 4",
    "content-length: 4, 4",
    "content-length: +4",
    "content-length: -4",
    "content-length: 0x4",
    "content-length: 4 4",
    "content-length: 4;",
    "content-length:",
    "content-length: 99999999999999999999",
    "content-length: 18446744073709551620",
    "content-length : 4",
    "transfer-encoding: chunked, identity",
    "transfer-encoding: identity, chunked",
    "transfer-encoding: chunked, chunked",
    "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
    "transfer-encoding: chunked\r\ntransfer-encoding: identity",
    "transfer-encoding: chunked;q=1",
    "transfer-encoding:",
    "transfer-encoding : chunked",
    "transfer-encoding: chun\r\n ked",
    "transfer-encoding: \x0bchunked",
    "\ttransfer-encoding: chunked",
    "transfer-encoding\0: chunked",
    "connection: transfer-encoding\r\ntransfer-encoding: chunked",
    "connection: content-length\r\ncontent-length: 4",
];

#[test]
fn ambiguous_framing_is_refused() {
    check_all(AMBIGUOUS, |shape| {
        format!("POST / HTTP/1.1\r\nhost: a\r\n{shape}\r\n\r\n0\r\n\r\n")
    });
}

/// Lines after a good Host.
const MALFORMED_LINES: &[&str] = &[
    "x: 1\r\n folded",
    "x: 1\r\n\tfolded",
    "x: 1\nx: 2",
    "x: 1\rx: 2",
    "x: a\0b",
    "x\0: 1",
    "x : 1",
    "x\t: 1",
    ": 1",
    "x",
    "x y: 1",
    "x(: 1",
    "x: \x01",
    "x: \x7f",
    "host: b",
    "connection: host",
];

#[test]
fn malformed_lines_are_refused() {
    check_all(MALFORMED_LINES, |shape| {
        format!("GET / HTTP/1.1\r\nhost: a\r\n{shape}\r\n\r\n")
    });
}

/// The only lines of a request.
const MALFORMED_HOSTS: &[&str] = &[
    "",
    "host: a b\r\n",
    "host: a, b\r\n",
    "host: a/b\r\n",
    "host: u@a\r\n",
    "host: a:b\r\n",
    "host: a\r\nhost: a\r\n",
    "host: [::1\r\n",
    " host: a\r\n",
];

#[test]
fn malformed_hosts_are_refused() {
    check_all(MALFORMED_HOSTS, |shape| {
        format!("GET / HTTP/1.1\r\n{shape}\r\n")
    });
}

/// Request lines with their ends.
const MALFORMED_STARTS: &[&str] = &[
    "GET /\r\n",
    "GET  / HTTP/1.1\r\n",
    "GET / HTTP/1.1 \r\n",
    "GET /a b HTTP/1.1\r\n",
    "GET\t/\tHTTP/1.1\r\n",
    "GET / HTTP/1.1\n",
    "GET / http/1.1\r\n",
    "GET / HTTP/1.1x\r\n",
    "GET a HTTP/1.1\r\n",
    "GET * HTTP/1.1\r\n",
    "GET /a#b HTTP/1.1\r\n",
    "G(T / HTTP/1.1\r\n",
    "GET http:///a HTTP/1.1\r\n",
    "GET http://u:p@a/ HTTP/1.1\r\n",
    "GET http://b/ HTTP/1.1\r\n",
    "GET ftp://a/ HTTP/1.1\r\n",
    " GET / HTTP/1.1\r\n",
    "GET /\x01 HTTP/1.1\r\n",
    "CONNECT / HTTP/1.1\r\n",
    "\x16\x03\x01\x02\0\x01\0\r\n",
];

#[test]
fn malformed_request_lines_are_refused() {
    check_all(MALFORMED_STARTS, |shape| format!("{shape}host: a\r\n\r\n"));
}

#[test]
fn encoding_in_http10_is_refused() {
    let request = "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    check(&nobody(), request, 400);
}

#[test]
fn bare_line_feeds_throughout_are_refused() {
    check(&nobody(), "GET / HTTP/1.1\nhost: a\n\n", 400);
    check(&nobody(), "GET / HTTP/1.1\r\nhost: a\r\n\n", 400);
}

#[test]
fn what_is_not_spoken_is_refused_by_name() {
    let world = nobody();
    let unknown = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n";
    check(&world, unknown, 501);
    check(&world, unknown.replace("gzip", "xchunked"), 501);
    check(&world, unknown.replace("gzip", "identity"), 501);
    check(&world, "GET / HTTP/2.0\r\nhost: a\r\n\r\n", 505);
    check(&world, "GET / HTTP/1.2\r\nhost: a\r\n\r\n", 505);
}

/// Chunked bodies.
const MALFORMED_CHUNKS: &[&str] = &[
    "x\r\n",
    "\r\n",
    "-1\r\n",
    "0x1\r\na\r\n0\r\n\r\n",
    " 1\r\na\r\n",
    "1 \r\na\r\n",
    "1\na\r\n",
    "1\r\nab\r\n",
    "1\r\na\n0\r\n\r\n",
    "10000000000000000\r\n",
    "8000000000000000\r\n",
    "1;\0\r\na\r\n",
    "1;\n\r\na\r\n",
    "0\r\n\n",
    "0\r\ntransfer-encoding: chunked\r\n\r\n",
    "0\r\ncontent-length: 3\r\n\r\n",
    "0\r\nhost: b\r\n\r\n",
    "0\r\nx : y\r\n\r\n",
];

#[test]
fn malformed_chunks_reach_nobody() {
    for chunks in MALFORMED_CHUNKS {
        let world = nobody();
        let mut client = world.client();
        let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        client.send(format!("{head}{chunks}{BEHIND}"));
        let answer = client.response();
        assert_eq!(
            (answer.status(), answer.header("connection")),
            (400, Some("close")),
            "{chunks:?}"
        );
        assert_eq!(client.read_to_end().0, b"");
        assert_eq!(world.upstream.received_text(0), "", "{chunks:?}");
    }
}

#[test]
fn malformed_chunk_amid_a_body_is_refused_and_never_ends_the_request() {
    let world = scripted(vec![vec![Step::ReadHead, Step::ReadEnd]]);
    let mut client = world.client();
    let good = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    client.send(good);
    testkit::until("it arrives", || world.upstream.received_text(0) == good);
    client.send("5\r\nworldX0\r\n\r\n");
    assert_eq!(client.response().status(), 400);
    client.read_to_end();
    let received = world.upstream.finished(0).received;
    assert!(
        !received.ends_with(b"0\r\n\r\n"),
        "{:?}",
        String::from_utf8_lossy(&received)
    );
    world.flagged("DPE", 1.0);
}

#[test]
fn unusual_but_clear_framing_passes() {
    for line in [
        "Transfer-Encoding: Chunked",
        "transfer-encoding:  chunked ",
        "TRANSFER-ENCODING:chunked",
    ] {
        let request = format!("POST / HTTP/1.1\r\nhost: a\r\n{line}\r\n\r\n0\r\n\r\n");
        assert_eq!(forwarded(&request), request);
    }
    let request = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0005\r\n\r\nhello";
    assert_eq!(forwarded(request), request);
}

#[test]
fn refusal_after_good_requests_comes_in_its_turn() {
    let world = echo();
    let mut client = world.client();
    let good = "GET /bytes/2 HTTP/1.1\r\nhost: a\r\n\r\n";
    client.send(format!(
        "{good}{good}GET / HTTP/1.1\r\nhost : a\r\n\r\n{BEHIND}"
    ));
    let answers = [0, 1, 2].map(|_| client.response().status());
    assert_eq!(answers, [200, 200, 400]);
    assert_eq!(client.read_to_end().0, b"");
    assert_eq!(world.upstream.request_count(), 2);
}

#[test]
fn refusal_reaches_a_client_that_goes_on_sending() {
    let world = echo();
    let mut client = world.client();
    client.send("GARBAGE\r\n\r\n");
    let _ = client.try_send(vec![b'x'; 100_000]);
    assert_eq!(client.response().status(), 400);
}

#[test]
fn head_beyond_the_limit_is_a_431() {
    let world = echo();
    for request in [
        format!(
            "GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n",
            "y".repeat(65_536)
        ),
        format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "y".repeat(65_536)),
        format!(
            "GET / HTTP/1.1\r\nhost: a\r\n{}\r\n",
            "x: y\r\n".repeat(200)
        ),
    ] {
        let mut client = world.client();
        let answer = client.ask(request);
        assert_eq!(
            (answer.status(), answer.header("connection")),
            (431, Some("close"))
        );
        assert_eq!(client.read_to_end().0, b"");
    }
    assert_eq!(world.upstream.request_count(), 0);
    world.flagged("DPE", 3.0);
}

#[test]
fn head_without_an_end_is_a_431_as_soon_as_it_is_too_large() {
    let world = echo_with(|sidecar| sidecar.with("limits: {headBytes: 1024}"));
    let mut client = world.client();
    client.send(format!(
        "GET / HTTP/1.1\r\nhost: a\r\nx: {}",
        "y".repeat(1024)
    ));
    assert_eq!(client.response().status(), 431);
}

#[test]
fn limits_of_a_head_can_be_raised() {
    let raise =
        |sidecar: testkit::Sidecar| sidecar.with("limits: {headBytes: 500000, headers: 1000}");
    let fields: String = (0..900)
        .map(|n| format!("x-{n}: {}\r\n", "v".repeat(400)))
        .collect();
    let request = format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
    assert_eq!(forwarded_with(&request, raise), request);
}

#[test]
fn tabs_around_framing_are_refused_because_readers_differ() {
    let lines = [
        "transfer-encoding:\tchunked",
        "transfer-encoding: chunked\t",
        "content-length:\t5",
        "content-length: 5 \t",
    ];
    check_all(&lines, |line| {
        format!("POST / HTTP/1.1\r\nhost: a\r\n{line}\r\n\r\n")
    });
}
