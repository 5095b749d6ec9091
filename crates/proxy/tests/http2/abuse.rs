//! Peers that misbehave: each ends with the error that RFC 9113 has for it, costs little, and
//! disturbs nobody else.

use crate::world::{World, http2, http2_with, limits};
use testkit::h2::{Frame, code, flag, kind, setting};
use testkit::{Frames, H2Server, until};

/// Each of these ends its connection with this code, and others are served.
#[track_caller]
fn check_fatal(expected: u32, broken: Vec<(&str, Vec<Frame>)>) {
    let world = http2();
    for (what, sent) in broken {
        let mut frames = world.frames();
        frames.send(&sent);
        assert_eq!(frames.goodbye(), Some(expected), "{what}");
    }
    world.serves_others();
}

#[test]
fn frames_out_of_place_end_their_connection() {
    let promise = Frame::new(kind::PUSH_PROMISE, flag::END_HEADERS, 1, [0; 4]);
    let continuation = Frame::new(kind::CONTINUATION, flag::END_HEADERS, 1, []);
    let broken = vec![
        ("DATA of no stream", vec![Frame::data(0, *b"x", false)]),
        ("DATA of no stream yet", vec![Frame::data(1, *b"x", false)]),
        ("a stream of even number", vec![Frame::get(2, "/")]),
        ("a promise", vec![promise]),
        ("a continuation of nothing", vec![continuation.clone()]),
        (
            "a continuation of an end",
            vec![Frame::get(1, "/"), continuation],
        ),
        ("a window of no stream yet", vec![Frame::window(1, 1)]),
        (
            "a reset of no stream yet",
            vec![Frame::reset(1, code::CANCEL)],
        ),
        (
            "settings of a stream",
            vec![Frame::new(kind::SETTINGS, 0, 1, [])],
        ),
        (
            "a ping of a stream",
            vec![Frame::new(kind::PING, 0, 1, [0; 8])],
        ),
    ];
    check_fatal(code::PROTOCOL_ERROR, broken);
}

#[test]
fn frames_with_forbidden_values_end_their_connection() {
    let padded = Frame::new(kind::DATA, flag::PADDED, 1, [9, 0]);
    let broken = vec![
        ("a window that grows by nothing", vec![Frame::window(0, 0)]),
        ("half a push", vec![setting(setting::ENABLE_PUSH, 2)]),
        (
            "frames too small",
            vec![setting(setting::MAX_FRAME_SIZE, 16_383)],
        ),
        ("padding too long", vec![Frame::post(1, "/"), padded]),
    ];
    check_fatal(code::PROTOCOL_ERROR, broken);
    let broken = vec![
        (
            "a window too large",
            vec![setting(setting::INITIAL_WINDOW_SIZE, 1 << 31)],
        ),
        ("a window that overflows", vec![Frame::window(0, LARGEST)]),
    ];
    check_fatal(code::FLOW_CONTROL_ERROR, broken);
    let garbage = Frame::new(kind::HEADERS, 5, 1, [0xff; 20]);
    check_fatal(code::COMPRESSION_ERROR, vec![("no HPACK", vec![garbage])]);
}

#[test]
fn frames_of_wrong_sizes_end_their_connection() {
    let large = Frame::new(kind::HEADERS, flag::END_HEADERS, 1, vec![0; 16_385]);
    let broken = vec![
        (
            "half a setting",
            vec![Frame::new(kind::SETTINGS, 0, 0, [0; 5])],
        ),
        ("a short ping", vec![Frame::new(kind::PING, 0, 0, [0; 7])]),
        (
            "a short goodbye",
            vec![Frame::new(kind::GOAWAY, 0, 0, [0; 7])],
        ),
        (
            "a long window",
            vec![Frame::new(kind::WINDOW_UPDATE, 0, 0, [1; 5])],
        ),
        ("a large frame", vec![large]),
    ];
    check_fatal(code::FRAME_SIZE_ERROR, broken);
}

/// As far as a window may grow.
const LARGEST: u32 = (1 << 31) - 1;

fn setting(id: u16, value: u32) -> Frame {
    Frame::settings(&[(id, value)])
}

#[test]
fn frames_of_a_stream_that_has_ended_are_errors() {
    let world = http2();
    let late = [
        Frame::data(1, *b"x", false),
        Frame::get(1, "/"),
        Frame::window(1, 1),
    ];
    for (frame, fatal) in late.into_iter().zip([true, true, false]) {
        let mut frames = world.frames();
        frames.send(&[Frame::get(1, "/status/204")]);
        assert_eq!(frames.status(1), 204);
        frames.send(&[frame.clone(), Frame::get(3, "/status/204")]);
        let next = frames.find("what comes of it", |frame| {
            frame.stream == 3 || matches!(frame.kind, kind::GOAWAY | kind::RST_STREAM)
        });
        match next.kind {
            kind::HEADERS => assert!(!fatal, "{frame:?}"),
            _ => assert!(
                fatal && next.code() == code::STREAM_CLOSED,
                "{frame:?}: {next:?}"
            ),
        }
    }
    world.serves_others();
}

#[test]
fn window_of_a_stream_that_overflows_ends_the_stream() {
    let world = http2();
    let mut frames = world.frames();
    frames.send(&[Frame::get(1, "/hold"), Frame::window(1, LARGEST)]);
    assert_eq!(frames.reset_of(1), code::FLOW_CONTROL_ERROR);
    frames.send(&[Frame::get(3, "/status/204")]);
    assert_eq!(frames.status(3), 204);
    until("the upstream is told", || world.upstream.held() == 0);
}

#[test]
fn body_past_its_window_is_refused() {
    let world = http2();
    let mut frames = world.frames();
    frames.send(&[Frame::post(1, "/hold")]);
    let _ = frames.try_send(&vec![Frame::data(1, vec![0; 16_384], false); 80]);
    let ended = frames.find("an end", |frame| {
        matches!(frame.kind, kind::RST_STREAM | kind::GOAWAY)
    });
    assert_eq!(ended.code(), code::FLOW_CONTROL_ERROR);
    world.serves_others();
}

#[test]
fn streams_that_are_reset_at_once_again_and_again_end_the_connection() {
    for path in ["/hold", "/bytes/100000"] {
        let world = http2();
        let mut frames = world.frames();
        let pair = |stream| [Frame::get(stream, path), Frame::reset(stream, code::CANCEL)];
        let sent: Vec<_> = (0..5_000).flat_map(|count| pair(2 * count + 1)).collect();
        // It may end before all of it is sent.
        let _ = frames.try_send(&sent);
        assert!(matches!(
            frames.goodbye(),
            Some(code::ENHANCE_YOUR_CALM) | None
        ));
        until("nothing of it is left", || world.upstream.held() == 0);
        world.serves_others();
    }
}

/// So many frames of a kind end a connection; the code is lost if that happens while they are
/// still sent.
#[track_caller]
fn check_flood(what: &str, first: &[Frame], frame: &Frame) {
    let world = http2();
    let mut frames = world.frames();
    frames.send(first);
    let memory = world.proxy.anon_kib();
    let flood = vec![frame.clone(); 100];
    let held_up = (0..1_000).all(|_| frames.try_send(&flood).is_ok());
    let code = frames.goodbye();
    assert!(
        matches!(code, Some(code::ENHANCE_YOUR_CALM) | None),
        "{what}: {code:?}"
    );
    assert!(!held_up || code.is_some(), "{what}: nobody minded");
    let grown = world.proxy.anon_kib().saturating_sub(memory);
    assert!(grown < 4096, "{what}: {grown} KiB");
    world.serves_others();
}

#[test]
fn floods_end_their_connection() {
    let open = [Frame::post(1, "/hold")];
    check_flood("pings", &[], &Frame::ping(*b"flooding"));
    check_flood("settings", &[], &Frame::settings(&[]));
    check_flood("empty parts of a body", &open, &Frame::data(1, [], false));
    check_flood(
        "priorities",
        &[],
        &Frame::new(kind::PRIORITY, 0, 1, [0, 0, 0, 3, 1]),
    );
    check_flood("windows that grow by one", &open, &Frame::window(1, 1));
    check_flood(
        "frames of an unknown kind",
        &[],
        &Frame::new(0xbe, 0, 0, *b"x"),
    );
}

#[test]
fn head_without_end_ends_the_connection() {
    for part in [&b""[..], b"\0\x01x\x01y", &[0x82; 16_000]] {
        let world = http2();
        let mut frames = world.frames();
        let first = Frame::get(1, "/");
        let first = Frame::new(kind::HEADERS, flag::END_STREAM, 1, first.payload);
        frames.send(&[first]);
        let memory = world.proxy.anon_kib();
        let more = Frame::new(kind::CONTINUATION, 0, 1, part);
        let _ = frames.try_send(&vec![more; 2_000]);
        let code = frames.goodbye();
        assert!(
            matches!(code, Some(code::ENHANCE_YOUR_CALM) | None),
            "{code:?}"
        );
        let grown = world.proxy.anon_kib().saturating_sub(memory);
        assert!(grown < 4096, "{grown} KiB");
        world.serves_others();
    }
}

#[test]
fn small_block_that_becomes_a_huge_head_is_a_431() {
    let world = http2();
    let mut frames = world.frames();
    let memory = world.proxy.anon_kib();
    // A line of 4,000 bytes that goes into the table, and then a byte each time it is repeated.
    let mut bomb = Frame::get(1, "/");
    bomb.payload.extend([0x40, 1, b'x', 127, 0xa1, 0x1e]);
    bomb.payload.extend([b'y'; 4_000]);
    bomb.payload.extend([0xbe; 12_000]);
    frames.send(&[bomb]);
    assert_eq!(frames.status(1), 431);
    let grown = world.proxy.anon_kib().saturating_sub(memory);
    assert!(grown < 2048, "{grown} KiB");
    frames.send(&[Frame::get(3, "/status/204")]);
    assert_eq!(frames.status(3), 204);
}

#[test]
fn streams_over_the_limit_are_refused() {
    let world = http2_with(limits("streams: 2"));
    let mut frames = world.frames();
    let announced = frames.find_kind(kind::SETTINGS).payload;
    let streams = [0, 3, 0, 0, 0, 2];
    assert!(
        announced.chunks(6).any(|one| one == streams),
        "{announced:?}"
    );
    frames.send(&[
        Frame::get(1, "/hold"),
        Frame::post(3, "/hold"),
        Frame::get(5, "/hold"),
    ]);
    assert_eq!(frames.reset_of(5), code::REFUSED_STREAM);
    frames.send(&[Frame::reset(1, code::CANCEL), Frame::get(7, "/status/204")]);
    assert_eq!(frames.status(7), 204);
    until("one is left", || world.upstream.held() == 1);
}

#[test]
fn window_that_stays_shut_ends_its_stream() {
    let world = http2_with(limits("streamIdleTimeout: 200ms"));
    let shut = [(setting::INITIAL_WINDOW_SIZE, 0)];
    let mut frames = Frames::connect_with(world.proxy.addr(), &shut);
    frames.send(&[Frame::get(1, "/bytes/100000")]);
    assert_eq!(frames.status(1), 200);
    frames.reset_of(1);
    world.flagged("SI", 1.0);
    frames.send(&[Frame::get(3, "/status/204")]);
    assert_eq!(frames.status(3), 204);
}

#[test]
fn upload_that_stands_still_ends_its_stream() {
    let world = http2_with(limits("streamIdleTimeout: 200ms"));
    let mut frames = world.frames();
    frames.send(&[Frame::post(1, "/hold"), Frame::data(1, *b"part", false)]);
    assert_eq!(frames.status(1), 408);
    until("the upstream is told", || {
        world.upstream.resets() == [code::CANCEL]
    });
    frames.send(&[Frame::get(3, "/status/204")]);
    assert_eq!(frames.status(3), 204);
}

#[test]
fn client_that_reads_nothing_costs_little() {
    let world = http2();
    let mut frames = world.frames();
    frames.send(&[
        Frame::window(0, 1 << 30),
        setting(setting::INITIAL_WINDOW_SIZE, LARGEST),
    ]);
    let memory = world.proxy.anon_kib();
    let gets: Vec<_> = (0..100)
        .map(|count| Frame::get(2 * count + 1, "/stream/200000"))
        .collect();
    frames.send(&gets);
    for _ in 0..20 {
        world.serves_others();
    }
    let grown = world.proxy.anon_kib().saturating_sub(memory);
    // No more than what is on its way to it; what of that is held is bounded for all together.
    assert!(grown < 24 * 1024, "{grown} KiB");
    drop(frames);
    world.proxy.metric_becomes("leno_requests_active", &[], 0.0);
}

#[test]
fn half_a_preface_holds_nothing_for_long() {
    let world = http2_with(limits("headerTimeout: 300ms, idleTimeout: 300ms"));
    for part in [
        &b"PRI * HTTP/2.0\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut client = world.http1();
        client.send(part);
        client.read_to_end();
    }
    world.serves_others();
    // Behind the preface only settings may come.
    let mut client = world.http1();
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET / HTTP/1.1\r\n\r\n");
    client.read_to_end();
    world.serves_others();
}

/// Connections with as many streams each, all in flight, and then gone.
#[track_caller]
fn flood(world: &World<H2Server>, connections: usize, streams: u32) {
    let gets: Vec<_> = (0..streams)
        .map(|count| Frame::get(2 * count + 1, "/hold"))
        .collect();
    let one = |_| {
        let mut frames = world.frames();
        frames.send(&gets);
        frames
    };
    let flood: Vec<_> = (0..connections).map(one).collect();
    let all = connections * streams as usize;
    until("all are in flight", || world.upstream.held() == all);
    drop(flood);
    until("all are given up", || world.upstream.held() == 0);
    world
        .proxy
        .metric_becomes("leno_connections_active", &[], 0.0);
}

#[test]
fn memory_of_a_flood_serves_the_next_one() {
    const CONNECTIONS: usize = 200;
    const STREAMS: u32 = 50;
    /// What a stream in flight may take, both sides together.
    const STREAM_KIB: u64 = 4;
    let _ = testkit::descriptors::raise(9_000);
    let world = http2();
    world.serves_others();
    let before = world.proxy.anon_kib();
    let allowed = before + CONNECTIONS as u64 * u64::from(STREAMS) * STREAM_KIB;
    let after: Vec<_> = (0..3)
        .map(|_| {
            flood(&world, CONNECTIONS, STREAMS);
            world.proxy.anon_kib()
        })
        .collect();
    println!("before {before}, after each flood {after:?} KiB");
    assert!(
        after.iter().all(|kib| *kib <= allowed),
        "{after:?} KiB, allowed {allowed}"
    );
    world.serves_others();
}
