//! Bodies of all sizes through every pair of protocols, and their trailers.

use crate::world::{HEAD, World, always_http2, echo1, http2, pattern, played, post, scripted1};
use testkit::h2::{Frame, kind};
use testkit::{Frames, H2Server, Step};

/// None, one byte, around a window, and many windows.
const SIZES: [usize; 6] = [0, 1, 65_535, 65_536, 65_537, 1 << 20];

#[test]
fn bodies_pass_from_http2_to_http2() {
    for world in [http2(), always_http2()] {
        let mut client = world.client();
        for size in SIZES {
            check_echo(&mut client, size);
            let bytes = client.get(&format!("/bytes/{size}"));
            assert_eq!(bytes.header("content-length"), Some(&*size.to_string()));
            assert!(bytes.body == pattern(size), "{size}");
            assert!(
                client.get(&format!("/stream/{size}")).body == pattern(size),
                "{size}"
            );
        }
        assert_eq!(world.upstream.connection_count(), 1);
    }
}

/// A body comes back as it was, with a length and without.
#[track_caller]
fn check_echo(client: &mut testkit::H2Client, size: usize) {
    let body = pattern(size);
    let counted = post("/").with("content-length", &size.to_string());
    for request in [counted, post("/")] {
        let answer = client.ask(&request, &body);
        assert_eq!(answer.status, 200);
        assert!(
            answer.body == body,
            "{size}: {} bytes came back",
            answer.body.len()
        );
    }
}

#[test]
fn bodies_pass_from_http2_to_http1() {
    let world = echo1();
    let mut client = world.client();
    for size in SIZES {
        check_echo(&mut client, size);
        let bytes = client.get(&format!("/bytes/{size}"));
        assert_eq!(bytes.body.len(), size);
    }
}

#[test]
fn bodies_pass_from_http1_to_http2() {
    let world = always_http2();
    let mut client = world.http1();
    for size in SIZES {
        let body = pattern(size);
        assert!(client.post("/", &body).body == body, "{size}");
        let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = format!("{size:x}\r\n");
        let chunks = match size {
            0 => vec![],
            _ => [chunk.as_bytes(), &body, b"\r\n"].concat(),
        };
        client.send([head.as_bytes(), &chunks, b"0\r\n\r\n"].concat());
        assert!(client.response().body == body, "{size}");
        assert!(
            client.get(&format!("/bytes/{size}")).body == pattern(size),
            "{size}"
        );
        assert!(
            client.get(&format!("/stream/{size}")).body == pattern(size),
            "{size}"
        );
    }
}

#[test]
fn answer_over_http1_that_ends_with_its_connection_is_whole_over_http2() {
    let body = pattern(100_000);
    let head = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    let script = vec![Step::ReadRequest, Step::send([head, body.clone()].concat())];
    let world = scripted1(vec![script]);
    assert!(world.client().get("/").body == body);
}

#[test]
fn both_directions_flow_at_once() {
    let world = http2();
    check_dialogue(&world);
    check_dialogue(&always_http2());
}

fn check_dialogue(world: &World<H2Server>) {
    let mut client = world.client();
    let mut call = client.call(&post("/"), false);
    assert_eq!(call.head().status, 200);
    for message in ["one", "two", "three"] {
        call.send(message);
        call.expect(message.as_bytes());
    }
    call.finish();
    assert_eq!(call.answer().text(), "");
}

#[test]
fn trailers_pass_from_http2_to_http2() {
    let world = http2();
    let mut client = world.client();
    let mut call = client.call(&post("/"), false);
    call.send("body");
    call.finish_with(&[("x-sum", "1"), ("x-more", "2")]);
    let answer = call.answer();
    assert_eq!(
        (answer.text().as_str(), answer.trailer("x-sum")),
        ("body", Some("1"))
    );
    let received = world.upstream.request("/");
    assert_eq!(received.trailers, answer.trailers);
    assert_eq!(client.get("/trailers").grpc_status(), Some("0"));
}

#[test]
fn trailers_without_a_body_pass() {
    let world = http2();
    let mut call = world.client().call(&post("/"), false);
    call.finish_with(&[("x-sum", "1")]);
    assert_eq!(call.answer().trailer("x-sum"), Some("1"));
}

#[test]
fn trailers_pass_from_http2_to_http1() {
    let script = vec![Step::ReadRequest, Step::answer("ok"), Step::ReadEnd];
    let world = scripted1(vec![script]);
    let mut client = world.client();
    let mut call = client.call(&post("/"), false);
    call.send("body");
    call.finish_with(&[("x-sum", "1")]);
    assert_eq!(call.answer().text(), "ok");
    let received = world.upstream.received_text(0);
    assert!(
        received.ends_with("\r\n4\r\nbody\r\n0\r\nx-sum: 1\r\n\r\n"),
        "{received}"
    );
}

#[test]
fn trailers_pass_from_http1_to_http2() {
    let world = always_http2();
    let mut client = world.http1();
    client.send(
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
         4\r\nbody\r\n0\r\nx-sum: 1\r\n\r\n",
    );
    let answer = client.response();
    let sum = ("x-sum".to_owned(), "1".to_owned());
    assert_eq!(
        (answer.text().as_str(), &answer.trailers),
        ("body", &vec![sum])
    );
    assert_eq!(world.upstream.request("/").trailers, answer.trailers);
}

#[test]
fn trailers_of_an_answer_over_http1_pass_to_http2() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                  4\r\nbody\r\n0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n";
    let script = vec![Step::ReadRequest, Step::send(answer), Step::ReadEnd];
    let world = scripted1(vec![script]);
    let answer = world.client().get("/");
    assert_eq!(
        (answer.text().as_str(), answer.trailer("x-sum")),
        ("body", Some("1"))
    );
    assert_eq!(
        (answer.trailer("x-more"), answer.header("transfer-encoding")),
        (Some("2"), None)
    );
}

#[test]
fn chunked_body_in_single_bytes_passes_to_http2() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                  4\r\nbody\r\n3;x=y\r\none\r\n0\r\nx-sum: 1\r\n\r\n";
    let pieces = Step::SendInPieces(1, answer.as_bytes().to_vec());
    let world = scripted1(vec![vec![Step::ReadRequest, pieces, Step::ReadEnd]]);
    let answer = world.client().get("/");
    assert_eq!(
        (answer.text().as_str(), answer.trailer("x-sum")),
        ("bodyone", Some("1"))
    );
}

#[test]
fn many_requests_share_one_connection() {
    let world = http2();
    let mut client = world.client();
    let body = pattern(200_000);
    let mut calls: Vec<_> = (0..100).map(|_| client.call(&post("/"), false)).collect();
    calls.iter_mut().for_each(|call| call.send_all(&body));
    for call in calls {
        assert!(call.answer().body == body);
    }
    world
        .proxy
        .metric_becomes("leno_requests_total", &[], 100.0);
}

#[test]
fn trailers_behind_a_counted_body_do_not_disturb_http1() {
    let script = vec![
        Step::ReadRequest,
        Step::answer("ok"),
        Step::ReadRequest,
        Step::answer("ok"),
    ];
    let world = scripted1(vec![script]);
    let mut client = world.client();
    for _ in 0..2 {
        let mut call = client.call(&post("/").with("content-length", "4"), false);
        call.send("body");
        call.finish_with(&[("x-sum", "1")]);
        assert_eq!(call.answer().text(), "ok");
    }
    world.upstream.finished(0);
    let world = played(
        &[],
        |sidecar| sidecar,
        |_, frames| {
            while let Ok(Frame { kind, stream, .. }) = frames.read() {
                let head = [(":status", "200"), ("content-length", "4")];
                let trailers = Frame::headers(stream, &[("x-sum", "1")], true);
                let body = Frame::data(stream, *b"body", false);
                if kind == kind::HEADERS {
                    frames.send(&[Frame::headers(stream, &head, false), body, trailers]);
                }
            }
        },
    );
    let mut client = world.http1();
    for _ in 0..2 {
        assert_eq!(client.get("/").text(), "body");
    }
}

#[test]
fn body_that_a_filter_waits_for_may_be_larger_than_a_window() {
    let world = crate::world::http2_with(|sidecar| {
        sidecar.route("filters: [{hold: {delay: 0ms, bufferBytes: 2097152}}]")
    });
    let body = pattern(1 << 20);
    let mut client = world.client();
    assert!(client.post("/", &body).body == body);
    assert_eq!(client.post("/", pattern(3 << 20)).status, 413);
    assert!(client.post("/", &body).body == body);
}

/// What a peer may send before it is told more.
const WINDOW: usize = 65_535;

/// Reads a body to its end without making room for more; says what came behind its last byte.
#[track_caller]
fn read_without_room(frames: &mut Frames, stream: u32) -> Frame {
    let mut left = WINDOW;
    loop {
        let frame = frames.find("a part of the body", |frame| {
            frame.stream == stream && frame.kind != kind::WINDOW_UPDATE
        });
        if frame.kind == kind::DATA {
            left -= frame.payload.len();
        }
        if frame.is_end() {
            assert_eq!(left, 0, "{frame:?}");
            return frame;
        }
    }
}

/// A body as large as the window, in one chunk or many, and what comes behind it.
fn chunked(head: &str, chunk: usize, end: &str) -> Vec<u8> {
    let mut text = head.as_bytes().to_vec();
    for part in pattern(WINDOW).chunks(chunk) {
        text.extend(format!("{:x}\r\n", part.len()).as_bytes());
        text.extend_from_slice(part);
        text.extend(b"\r\n");
    }
    text.extend(end.as_bytes());
    text
}

/// The chunks, and what ends them.
const EXACT: [(usize, &str); 4] = [
    (WINDOW, "0\r\n\r\n"),
    (1_000, "0\r\n\r\n"),
    (WINDOW, "0\r\nx-sum: 1\r\n\r\n"),
    (1_000, "0\r\nx-sum: 1\r\n\r\n"),
];

/// The frame with which a body ends: its trailers, if it has some.
#[track_caller]
fn check_end(last: &Frame, end: &str) {
    assert!(matches!(last.kind, kind::DATA | kind::HEADERS), "{last:?}");
    let sum = end.contains("x-sum").then_some("1");
    assert_eq!(last.line("x-sum"), sum, "{last:?}");
}

#[test]
fn request_in_chunks_that_fills_the_window_exactly_needs_no_room_for_its_end() {
    for (chunk, end) in EXACT {
        let world = played(
            &[],
            |sidecar| sidecar,
            move |_, frames| {
                let stream = frames.find_kind(kind::HEADERS).stream;
                let last = read_without_room(frames, stream);
                check_end(&last, end);
                frames.send(&[Frame::status(stream, 204, true)]);
                frames.read_to_end();
            },
        );
        let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        let answer = world.http1().ask(chunked(head, chunk, end));
        assert_eq!(answer.status(), 204, "{chunk} {end:?}");
    }
}

#[test]
fn answer_in_chunks_that_fills_the_window_exactly_needs_no_room_for_its_end() {
    for (chunk, end) in EXACT {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let answer = Step::send(chunked(head, chunk, end));
        let world = scripted1(vec![vec![Step::ReadRequest, answer, Step::ReadEnd]]);
        let mut frames = world.frames();
        frames.send(&[Frame::get(1, "/")]);
        assert_eq!(frames.status(1), 200);
        let last = read_without_room(&mut frames, 1);
        check_end(&last, end);
        world.flagged("-", 1.0);
    }
}

/// Each answer comes before the end of its request is said, and none of them ends in a reset.
#[track_caller]
fn check_late_end<U>(world: &World<U>) {
    let mut frames = world.frames();
    for stream in [1, 3, 5] {
        let post = [(":method", "POST"), ("content-length", "4")];
        let head = [&post[..1], &HEAD[1..], &post[1..]].concat();
        let head = Frame::headers(stream, &head, false);
        frames.send(&[head, Frame::data(stream, *b"body", false)]);
        frames.find("the end of the answer", |frame| {
            assert_ne!(frame.kind, kind::RST_STREAM, "{frame:?}");
            frame.stream == stream && frame.is_end()
        });
        frames.send(&[Frame::data(stream, [], true)]);
        for frame in frames.sync() {
            let ended = matches!(frame.kind, kind::RST_STREAM | kind::GOAWAY);
            assert!(!ended, "{frame:?}");
        }
    }
}

#[test]
fn client_that_says_late_that_its_body_is_over_is_not_reset() {
    let once = vec![Step::ReadRequest, Step::answer("ok")];
    check_late_end(&scripted1(vec![vec![once; 3].concat()]));
    let world = played(
        &[],
        |sidecar| sidecar,
        |_, frames| {
            while let Ok(frame) = frames.read() {
                if frame.kind == kind::DATA && !frame.payload.is_empty() {
                    frames.send(&[Frame::status(frame.stream, 204, true)]);
                }
            }
        },
    );
    check_late_end(&world);
}
