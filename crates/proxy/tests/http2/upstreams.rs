//! Upstreams of HTTP/2 that refuse, reset, say goodbye, end or break the protocol.

use crate::world::{World, get, http2, limits, played, post, start};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::h2::{Frame, Settings, code, flag, kind, setting};
use testkit::{Frames, H2Client, H2Server, RawH2Server, Sidecar, until};

fn as_is(sidecar: Sidecar) -> Sidecar {
    sidecar
}

/// Answers the next request with a 204, whatever its stream is.
fn answer(frames: &mut Frames) -> u32 {
    let stream = frames.find_kind(kind::HEADERS).stream;
    frames.send(&[Frame::status(stream, 204, true)]);
    stream
}

/// Answers requests until the peer ends.
fn answer_all(frames: &mut Frames) {
    while let Ok(frame) = frames.read() {
        if frame.kind == kind::HEADERS {
            frames.send(&[Frame::status(frame.stream, 204, true)]);
        }
    }
}

#[test]
fn reset_before_an_answer_is_a_502() {
    let world = http2();
    let mut client = world.client();
    for code in [
        code::INTERNAL_ERROR,
        code::CANCEL,
        code::ENHANCE_YOUR_CALM,
        code::NO_ERROR,
    ] {
        assert_eq!(client.get(&format!("/reset/{code}")).status, 502, "{code}");
    }
    world.flagged("UC", 4.0);
    assert_eq!(world.upstream.connection_count(), 1);
}

/// Gives up the answers that it has begun, at once or once their beginnings have been passed on.
fn cut(at_once: bool) -> World<RawH2Server> {
    played(&[], as_is, move |_, frames| {
        while let Ok(frame) = frames.read() {
            if frame.kind != kind::HEADERS {
                continue;
            }
            let (stream, part) = (frame.stream, *b"part");
            let begin = [
                Frame::status(stream, 200, false),
                Frame::data(stream, part, false),
            ];
            let reset = [Frame::reset(stream, code::CANCEL)];
            if at_once {
                frames.send(&[&begin[..], &reset].concat());
            } else {
                frames.send(&begin);
                frames.sync();
                frames.send(&reset);
            }
        }
    })
}

#[test]
fn reset_amid_an_answer_is_a_reset_for_the_client() {
    for at_once in [true, false] {
        let world = cut(at_once);
        let mut client = world.client();
        for count in [1.0, 2.0] {
            let mut call = client.call(&get("/"), true);
            assert_eq!(call.head().status, 200);
            let error = call.try_answer().unwrap_err();
            assert_eq!(error.reason().map(u32::from), Some(code::INTERNAL_ERROR));
            world.flagged("UC", count);
        }
        let mut client = world.http1();
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        let (came, end) = client.read_to_end();
        assert!(!came.ends_with(b"0\r\n\r\n"));
        assert_eq!(end, testkit::client::End::Reset);
    }
}

#[test]
fn stream_that_is_refused_is_sent_again() {
    for request in [get("/"), post("/")] {
        let world = played(&[], as_is, |_, frames| {
            let stream = frames.find_kind(kind::HEADERS).stream;
            frames.send(&[Frame::reset(stream, code::REFUSED_STREAM)]);
            answer_all(frames);
        });
        assert_eq!(world.client().ask(&request, b"").status, 204);
        world
            .proxy
            .metric_becomes("leno_requests_total", &[("flag", "-")], 1.0);
    }
}

#[test]
fn stream_that_is_refused_for_ever_is_a_503() {
    let world = http2();
    let answer = world
        .client()
        .get(&format!("/reset/{}", code::REFUSED_STREAM));
    assert_eq!(answer.status, 503);
    world.flagged("UR", 1.0);
}

#[test]
fn requests_beyond_a_goodbye_are_sent_again_elsewhere() {
    for request in [get("/"), post("/")] {
        let world = played(&[], as_is, |number, frames| {
            if number == 0 {
                frames.find_kind(kind::HEADERS);
                frames.send(&[Frame::go_away(0, code::NO_ERROR)]);
                frames.read_to_end();
            } else {
                answer_all(frames);
            }
        });
        assert_eq!(world.client().ask(&request, b"").status, 204);
        assert_eq!(world.upstream.connection_count(), 2);
        world.upstream.finished(0);
    }
}

#[test]
fn request_that_is_sent_again_has_its_body() {
    let refuse = |frames: &mut Frames, stream| {
        frames.send(&[Frame::reset(stream, code::REFUSED_STREAM)]);
    };
    let leave = |frames: &mut Frames, _| {
        frames.send(&[Frame::go_away(0, code::NO_ERROR)]);
    };
    let ways: [fn(&mut Frames, u32); 2] = [refuse, leave];
    for way in ways {
        let seen = Arc::new(AtomicBool::new(false));
        let world = played(&[], as_is, move |_, frames| {
            while let Ok(frame) = frames.read() {
                if !frame.is_end() {
                    continue;
                }
                assert_eq!((frame.kind, &*frame.payload), (kind::DATA, &b"body"[..]));
                match seen.swap(true, Ordering::SeqCst) {
                    false => way(frames, frame.stream),
                    true => frames.send(&[Frame::status(frame.stream, 204, true)]),
                }
            }
        });
        // In one write: the proxy has all of it before it begins.
        let mut frames = world.frames();
        frames.send(&[Frame::post(1, "/"), Frame::data(1, *b"body", true)]);
        assert_eq!(frames.status(1), 204);
    }
}

#[test]
fn endpoint_that_cannot_be_reached_is_passed_over() {
    let upstream = H2Server::start();
    let sidecar = Sidecar::outbound(&[testkit::dead_address(), upstream.addr()]);
    let proxy = start(&sidecar.cluster("protocol: http2"));
    let mut client = H2Client::connect(proxy.addr());
    for _ in 0..4 {
        assert_eq!(client.post("/", "body").text(), "body");
    }
}

#[test]
fn streams_before_a_goodbye_are_finished() {
    let world = http2();
    let mut client = world.client();
    let mut call = client.call(&post("/"), false);
    assert_eq!(call.head().status, 200);
    assert_eq!(client.get("/goaway").text(), "ok");
    until("the next goes elsewhere", || {
        client.get("/status/204").header("x-connection") == Some("1")
    });
    call.send("still here");
    call.expect(b"still here");
    call.finish();
    assert_eq!(call.answer().text(), "");
    until("the first ends", || world.upstream.open_connections() == 1);
}

#[test]
fn no_connection_carries_more_streams_than_its_upstream_takes() {
    let settings = Settings {
        streams: Some(2),
        ..Settings::default()
    };
    let upstream = H2Server::start_with(settings);
    let sidecar = Sidecar::outbound(&[upstream.addr()]).cluster("protocol: http2");
    let proxy = start(&sidecar);
    let mut client = H2Client::connect(proxy.addr());
    assert_eq!(client.get("/status/204").status, 204);
    let calls: Vec<_> = (0..20).map(|_| client.call(&get("/hold"), true)).collect();
    until("all are there", || upstream.held() == 20);
    assert!(
        upstream.connection_count() >= 10,
        "{}",
        upstream.connection_count()
    );
    drop(calls);
    until("all are given up", || upstream.held() == 0);
    assert_eq!(client.get("/status/204").status, 204);
    proxy.metric_becomes("leno_requests_total", &[("flag", "UR")], 0.0);
}

#[test]
fn connection_that_ended_while_nobody_used_it_is_replaced() {
    for request in [get("/"), post("/")] {
        let world = played(&[], as_is, |_, frames| {
            answer(frames);
        });
        let mut client = world.client();
        for number in 0..3 {
            assert_eq!(client.ask(&request, b"").status, 204, "{number}");
            world.upstream.finished(number);
            world
                .proxy
                .metric_becomes("leno_upstream_connections_active", &[], 0.0);
        }
    }
}

#[test]
fn request_on_a_connection_that_ends_instead_of_answering_is_repeated_if_that_is_safe() {
    for (request, status) in [(get("/"), 204), (post("/"), 502)] {
        let world = played(&[], as_is, |number, frames| {
            answer(frames);
            match number {
                0 => drop(frames.find_kind(kind::HEADERS)),
                _ => answer_all(frames),
            }
        });
        let mut client = world.client();
        assert_eq!(client.get("/").status, 204);
        assert_eq!(client.ask(&request, b"").status, status);
        assert_eq!(client.get("/").status, 204);
    }
}

#[test]
fn connection_that_ends_loses_all_of_its_requests_and_no_other() {
    let world = played(&[], as_is, |number, frames| {
        if number > 0 {
            return answer_all(frames);
        }
        for _ in 0..10 {
            frames.find_kind(kind::HEADERS);
        }
    });
    let mut client = world.client();
    let calls: Vec<_> = (0..10).map(|_| client.call(&post("/"), true)).collect();
    for call in calls {
        assert_eq!(call.answer().status, 502);
    }
    world.flagged("UC", 10.0);
    assert_eq!(client.get("/").status, 204);
}

#[test]
fn answer_before_the_end_of_its_request_passes() {
    let world = played(&[], as_is, |_, frames| {
        let stream = frames.find_kind(kind::HEADERS).stream;
        let reset = Frame::reset(stream, code::NO_ERROR);
        frames.send(&[Frame::status(stream, 413, true), reset]);
        answer_all(frames);
    });
    let mut frames = world.frames();
    frames.send(&[Frame::post(1, "/"), Frame::data(1, vec![b'x'; 1000], false)]);
    assert_eq!(frames.status(1), 413);
    // What is left of the body need not be sent.
    assert_eq!(frames.reset_of(1), code::NO_ERROR);
    frames.send(&[Frame::get(3, "/")]);
    assert_eq!(frames.status(3), 204);
    let mut client = world.http1();
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n12345");
    assert_eq!(client.response().status(), 204);
}

#[test]
fn upstream_that_does_not_answer_in_time_is_a_504_and_keeps_its_connection() {
    let world = crate::world::http2_with(limits("requestTimeout: 200ms"));
    let mut client = world.client();
    assert_eq!(client.get("/hold").status, 504);
    assert_eq!(client.post("/hold", "body").status, 504);
    world.flagged("UT", 2.0);
    until("it is told", || {
        world.upstream.resets() == [code::CANCEL; 2]
    });
    assert_eq!(client.get("/status/204").header("x-connection"), Some("0"));
}

#[test]
fn request_timeout_does_not_cut_an_answer_that_has_begun() {
    let world = crate::world::http2_with(limits("requestTimeout: 200ms"));
    let mut client = world.client();
    let mut call = client.call(&post("/"), false);
    assert_eq!(call.head().status, 200);
    // Somebody else's timeout is the clock.
    assert_eq!(client.get("/hold").status, 504);
    call.send("late");
    call.expect(b"late");
    // Half closed, and still to be answered.
    call.finish();
    assert_eq!(call.answer().text(), "");
}

#[test]
fn answer_that_stops_moving_is_cut() {
    let world = played(&[], limits("streamIdleTimeout: 200ms"), |_, frames| {
        let stream = frames.find_kind(kind::HEADERS).stream;
        frames.send(&[
            Frame::status(stream, 200, false),
            Frame::data(stream, *b"part", false),
        ]);
        assert_eq!(frames.reset_of(stream), code::CANCEL);
        answer_all(frames);
    });
    let mut client = world.client();
    let mut call = client.call(&get("/"), true);
    call.head();
    call.expect(b"part");
    assert!(call.try_answer().is_err());
    world.flagged("SI", 1.0);
    assert_eq!(client.get("/").status, 204);
    assert_eq!(world.upstream.connection_count(), 1);
}

/// The first request's stream gets this; the connection goes on to serve.
#[track_caller]
fn check_broken_answer(what: &str, frames: impl Fn(u32) -> Vec<Frame> + Clone + Send + 'static) {
    let world = played(&[], as_is, move |_, upstream| {
        let stream = upstream.find_kind(kind::HEADERS).stream;
        upstream.send(&frames(stream));
        answer_all(upstream);
    });
    let mut client = world.client();
    assert_eq!(client.get("/").status, 502, "{what}");
    world.flagged("UPE", 1.0);
    assert_eq!(client.get("/").status, 204, "{what}");
    assert_eq!(world.upstream.connection_count(), 1, "{what}");
}

#[test]
fn malformed_answers_are_502s_and_cost_only_their_stream() {
    const HEADS: &[&[(&str, &str)]] = &[
        &[],
        &[("x", "y")],
        &[(":status", "20")],
        &[(":status", "2000")],
        &[(":status", "101")],
        &[(":status", "200"), (":status", "200")],
        &[(":status", "200"), (":path", "/")],
        &[("x", "y"), (":status", "200")],
        &[(":status", "200"), ("X-Upper", "x")],
        &[(":status", "200"), ("connection", "close")],
        &[(":status", "200"), ("transfer-encoding", "chunked")],
        &[(":status", "200"), ("x", "a\r\nb: c")],
        &[
            (":status", "200"),
            ("content-length", "1"),
            ("content-length", "2"),
        ],
    ];
    for head in HEADS {
        check_broken_answer(&format!("{head:?}"), |stream| {
            vec![Frame::headers(stream, head, true)]
        });
    }
    let long = "y".repeat(90_000);
    let many: Vec<_> = (0..210).map(|_| ("x", "y")).collect();
    let many = [&[(":status", "200")], &*many].concat();
    check_broken_answer("too many lines", move |stream| {
        vec![Frame::headers(stream, &many, true)]
    });
    check_broken_answer("too long a line", move |stream| {
        let whole = Frame::headers(stream, &[(":status", "200"), ("x", &long)], true);
        let parts = whole.payload.chunks(16_000);
        let last = parts.len() - 1;
        let one = |(at, part): (usize, &[u8])| match at {
            0 => Frame::new(kind::HEADERS, flag::END_STREAM, stream, part),
            _ if at == last => Frame::new(kind::CONTINUATION, flag::END_HEADERS, stream, part),
            _ => Frame::new(kind::CONTINUATION, 0, stream, part),
        };
        parts.enumerate().map(one).collect()
    });
    check_broken_answer("a body before its head", |stream| {
        vec![Frame::data(stream, *b"body", true)]
    });
}

#[test]
fn answer_that_is_not_as_long_as_said_is_cut() {
    for (said, sent) in [("5", "four"), ("3", "four")] {
        let world = played(&[], as_is, move |_, frames| {
            let stream = frames.find_kind(kind::HEADERS).stream;
            let head = [(":status", "200"), ("content-length", said)];
            frames.send(&[Frame::headers(stream, &head, false)]);
            // Not before the proxy has passed the head on.
            frames.sync();
            frames.send(&[Frame::data(stream, sent, true)]);
            answer_all(frames);
        });
        let mut client = world.client();
        let mut call = client.call(&get("/"), true);
        assert_eq!(call.head().status, 200);
        assert!(call.try_answer().is_err(), "{said}");
        world.flagged("UPE", 1.0);
    }
}

#[test]
fn upstream_that_breaks_the_protocol_loses_its_connection_and_nobody_else_does() {
    let broken: [fn() -> Vec<Frame>; 6] = [
        || vec![Frame::data(0, *b"x", false)],
        || {
            vec![Frame::new(
                kind::PUSH_PROMISE,
                flag::END_HEADERS,
                1,
                [0, 0, 0, 2],
            )]
        },
        || vec![Frame::window(0, 0)],
        || vec![Frame::settings(&[(setting::MAX_FRAME_SIZE, 1)])],
        || vec![Frame::new(kind::HEADERS, flag::END_HEADERS, 1, [0xff; 20])],
        || vec![Frame::new(kind::DATA, 0, 1, vec![0; 20_000])],
    ];
    for broken in broken {
        let world = played(&[], as_is, move |number, frames| {
            if number > 0 {
                return answer_all(frames);
            }
            frames.find_kind(kind::HEADERS);
            frames.send(&broken());
            assert_ne!(frames.goodbye(), Some(code::NO_ERROR));
        });
        let mut client = world.client();
        assert_eq!(client.post("/", "").status, 502, "{:?}", broken());
        world.upstream.finished(0);
        assert_eq!(client.get("/").status, 204);
    }
}

#[test]
fn upstream_that_speaks_something_else_is_a_502() {
    let upstream = testkit::EchoServer::start();
    let sidecar = Sidecar::outbound(&[upstream.addr()]).cluster("protocol: http2");
    let proxy = start(&sidecar);
    let mut client = H2Client::connect(proxy.addr());
    for _ in 0..3 {
        assert_eq!(client.get("/").status, 502);
    }
}

#[test]
fn upstream_that_says_goodbye_at_once_is_not_asked_for_ever() {
    let world: World<RawH2Server> = played(&[], as_is, |_, frames| {
        frames.send(&[Frame::go_away(0, code::NO_ERROR)]);
        frames.read_to_end();
    });
    let answer = world.client().get("/");
    assert!(matches!(answer.status, 502 | 503), "{}", answer.status);
    assert!(
        world.upstream.connection_count() < 50,
        "{}",
        world.upstream.connection_count()
    );
}

#[test]
fn settings_that_come_late_are_obeyed() {
    let world = played(&[], as_is, |_, frames| {
        let stream = frames.find_kind(kind::HEADERS).stream;
        // From here on no body may be sent unasked.
        let shut = Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 0)]);
        frames.send(&[shut, Frame::status(stream, 204, true)]);
        let stream = frames.find_kind(kind::HEADERS).stream;
        for frame in frames.sync() {
            assert!(
                frame.kind != kind::DATA || frame.payload.is_empty(),
                "{frame:?}"
            );
        }
        frames.send(&[Frame::window(stream, 4)]);
        assert_eq!(frames.find_kind(kind::DATA).payload, b"body");
        frames.send(&[Frame::status(stream, 204, true)]);
        answer_all(frames);
    });
    let mut client = world.client();
    assert_eq!(client.get("/").status, 204);
    let mut call = client.call(&post("/"), false);
    call.send_all(b"body");
    assert_eq!(call.answer().status, 204);
}
