//! Windows: who is slow holds up nobody else, and makes the other end wait instead of the proxy's
//! memory grow. And what becomes of the other side when one gives up.

use crate::world::{World, always_http2, get, http2, pattern, played, post, scripted1};
use testkit::h2::{Frame, code, kind, setting};
use testkit::{Frames, H2Server, Step, until};

/// What a client may send on a new stream, or connection, before it is told more.
const WINDOW: usize = 65_535;
/// What a client that never stops would like to send.
const OFFERED: usize = 100 << 20;

/// Reads so many bytes of bodies of a stream.
#[track_caller]
fn read_body(frames: &mut Frames, stream: u32, count: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < count {
        let part = frames.find("a part of a body", |frame| {
            (frame.kind, frame.stream) == (kind::DATA, stream)
        });
        body.extend(part.payload);
    }
    body
}

#[test]
fn stalled_reader_stalls_only_its_own_stream() {
    for world in [http2(), always_http2()] {
        let mut frames = world.frames();
        frames.send(&[Frame::window(0, 1 << 30), Frame::get(1, "/bytes/1000000")]);
        let mut body = read_body(&mut frames, 1, WINDOW);
        assert_eq!(body.len(), WINDOW);
        frames.send(&[Frame::get(3, "/bytes/60000")]);
        assert_eq!(read_body(&mut frames, 3, 60_000), pattern(60_000));
        frames.send(&[Frame::get(5, "/status/204")]);
        assert_eq!(frames.status(5), 204);
        frames.send(&[Frame::window(1, 1_000_000)]);
        body.extend(read_body(&mut frames, 1, 1_000_000 - WINDOW));
        assert!(body == pattern(1_000_000));
    }
}

#[test]
fn stalled_reader_of_a_body_from_http1_stalls_only_its_own_stream() {
    let world = crate::world::echo1();
    let mut frames = world.frames();
    frames.send(&[Frame::window(0, 1 << 30), Frame::get(1, "/bytes/1000000")]);
    assert_eq!(read_body(&mut frames, 1, WINDOW).len(), WINDOW);
    frames.send(&[Frame::get(3, "/bytes/60000")]);
    assert_eq!(read_body(&mut frames, 3, 60_000).len(), 60_000);
    frames.send(&[Frame::window(1, 1_000_000)]);
    read_body(&mut frames, 1, 1_000_000 - WINDOW);
}

#[test]
fn connection_window_that_is_shut_holds_bodies_but_no_heads() {
    let world = http2();
    let mut frames = world.frames();
    frames.send(&[Frame::get(1, "/bytes/100000")]);
    read_body(&mut frames, 1, WINDOW);
    frames.send(&[Frame::get(3, "/bytes/10")]);
    assert_eq!(frames.status(3), 200);
    frames.send(&[Frame::window(0, 10 + 100_000), Frame::window(1, 100_000)]);
    let (mut first, mut third) = (0, 0);
    while (first, third) != (100_000 - WINDOW, 10) {
        let part = frames.find_kind(kind::DATA);
        match part.stream {
            1 => first += part.payload.len(),
            _ => third += part.payload.len(),
        }
    }
}

/// Sends a body as far as windows let it, until they stay shut; says how far that was.
#[track_caller]
fn offer(frames: &mut Frames, stream: u32) -> usize {
    /// Signs of life without more room: then there is none to come while nobody reads.
    const QUIET: u32 = 20;
    let (mut shared, mut own, mut sent, mut quiet) = (WINDOW, WINDOW, 0, 0);
    while sent < OFFERED && quiet < QUIET {
        let room = shared.min(own).min(16_384);
        if room > 0 {
            frames.send(&[Frame::data(stream, vec![b'x'; room], false)]);
            (shared, own, sent, quiet) = (shared - room, own - room, sent + room, 0);
            continue;
        }
        quiet += 1;
        for frame in frames.sync() {
            match (frame.kind, frame.stream) {
                (kind::WINDOW_UPDATE, 0) => shared += frame.number(0) as usize,
                (kind::WINDOW_UPDATE, _) => own += frame.number(0) as usize,
                (kind::RST_STREAM | kind::GOAWAY, _) => panic!("{frame:?}"),
                _ => {}
            }
        }
    }
    sent
}

#[test]
fn slow_upstream_keeps_the_windows_of_its_clients_shut() {
    for world in [http2(), always_http2()] {
        let mut frames = world.frames();
        frames.send(&[Frame::post(1, "/hold")]);
        let taken = offer(&mut frames, 1);
        // A window on each side, and what waits between them.
        assert!((WINDOW..=4 * WINDOW).contains(&taken), "{taken}");
        // The other streams go on, on the same connections.
        frames.send(&[Frame::get(3, "/status/204")]);
        assert_eq!(frames.status(3), 204);
        assert_eq!(world.upstream.connection_count(), 1);
        frames.send(&[Frame::reset(1, code::CANCEL)]);
        until("the upstream is told", || {
            world.upstream.resets() == [code::CANCEL]
        });
    }
}

#[test]
fn slow_upstream_of_http1_keeps_the_windows_of_its_clients_shut() {
    let world = scripted1(vec![vec![Step::ReadHead, Step::Stall]]);
    let mut frames = world.frames();
    frames.send(&[Frame::post(1, "/")]);
    let memory = world.proxy.anon_kib();
    let taken = offer(&mut frames, 1);
    // Mostly in buffers of the kernel, which grow to some megabytes on a fast path.
    assert!((WINDOW..OFFERED / 4).contains(&taken), "{taken}");
    let grown = world.proxy.anon_kib().saturating_sub(memory);
    assert!(grown < 2048, "{grown} KiB");
}

#[test]
fn slow_client_keeps_its_upstream_waiting() {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {OFFERED}\r\n\r\n").into_bytes();
    let body = Step::send([head, vec![b'x'; OFFERED]].concat());
    let world = scripted1(vec![vec![Step::ReadRequest, body, Step::ReadEnd]]);
    let memory = world.proxy.anon_kib();
    let mut frames = world.frames();
    frames.send(&[Frame::window(0, 1 << 30), Frame::get(1, "/")]);
    read_body(&mut frames, 1, WINDOW);
    for _ in 0..20 {
        assert!(frames.sync().is_empty());
    }
    let grown = world.proxy.anon_kib().saturating_sub(memory);
    assert!(grown < 2048, "{grown} KiB");
    frames.send(&[Frame::reset(1, code::CANCEL)]);
    world.flagged("DC", 1.0);
}

/// Ends the request of the first stream, in one way or another.
type GiveUp = fn(Frames) -> Option<Frames>;
const GIVE_UP: [GiveUp; 3] = [
    |mut frames| {
        frames.send(&[Frame::reset(1, code::CANCEL)]);
        Some(frames)
    },
    |frames| {
        drop(frames);
        None
    },
    |frames| {
        frames.reset();
        None
    },
];

#[test]
fn client_that_gives_up_ends_its_stream_upstream() {
    for (give_up, first) in GIVE_UP
        .iter()
        .flat_map(|how| [Frame::get(1, "/hold"), Frame::post(1, "/hold")].map(|first| (how, first)))
    {
        let world = http2();
        let mut frames = world.frames();
        frames.send(&[first]);
        until("it arrives", || world.upstream.held() == 1);
        let left = give_up(frames);
        until("the upstream is told", || {
            world.upstream.resets() == [code::CANCEL]
        });
        world.flagged("DC", 1.0);
        if let Some(mut frames) = left {
            frames.send(&[Frame::get(3, "/status/204")]);
            assert_eq!(frames.status(3), 204);
        }
        world.serves_others();
        assert_eq!(world.upstream.connection_count(), 1);
    }
}

#[test]
fn client_that_gives_up_ends_its_connection_of_http1_upstream() {
    for give_up in GIVE_UP {
        for first in [Frame::get(1, "/"), Frame::post(1, "/")] {
            let world = scripted1(vec![vec![Step::ReadHead, Step::ReadEnd]]);
            let mut frames = world.frames();
            frames.send(&[first]);
            until("it arrives", || {
                world.upstream.received_text(0).ends_with("\r\n\r\n")
            });
            let _left = give_up(frames);
            world.upstream.finished(0);
            world.flagged("DC", 1.0);
        }
    }
}

#[test]
fn client_of_http1_that_gives_up_ends_its_stream_upstream() {
    let world = always_http2();
    for head in ["GET /hold", "POST /hold"] {
        let mut client = world.http1();
        client.send(format!(
            "{head} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"
        ));
        until("it arrives", || world.upstream.held() == 1);
        client.reset();
        until("the upstream is told", || world.upstream.held() == 0);
    }
    world.flagged("DC", 2.0);
    assert_eq!(world.upstream.connection_count(), 1);
}

#[test]
fn download_that_is_given_up_costs_its_upstream_connection_nothing() {
    let world: World<H2Server> = http2();
    let mut client = world.client();
    for _ in 0..50 {
        let mut call = client.call(&get("/stream/1000000"), true);
        call.head();
        call.part().unwrap();
        call.reset();
    }
    assert!(client.get("/bytes/1000000").body == pattern(1_000_000));
    assert_eq!(world.upstream.connection_count(), 1);
}

#[test]
fn upload_that_is_given_up_costs_its_upstream_connection_nothing() {
    let world: World<H2Server> = http2();
    let mut client = world.client();
    for _ in 0..50 {
        let mut call = client.call(&post("/"), false);
        call.head();
        call.send(pattern(100_000));
        call.reset();
    }
    let body = pattern(1_000_000);
    assert!(client.post("/", &body).body == body);
    assert_eq!(world.upstream.connection_count(), 1);
}

/// Reads so many bytes of bodies, and each time lets as many more through.
#[track_caller]
fn read_narrowly(frames: &mut Frames, mut left: usize) {
    while left > 0 {
        let part = frames.find_kind(kind::DATA);
        left -= part.payload.len();
        if let Ok(more @ 1..) = u32::try_from(part.payload.len()) {
            frames.send(&[Frame::window(0, more), Frame::window(part.stream, more)]);
        }
    }
}

#[test]
fn narrow_window_of_a_client_loses_nothing() {
    for window in [1, 100, 1_000, 16_385] {
        let world = http2();
        let narrow = [(setting::INITIAL_WINDOW_SIZE, window)];
        let mut frames = Frames::connect_with(world.proxy.addr(), &narrow);
        let length = if window == 1 { 100 } else { 20_000 };
        let path = format!("/bytes/{length}");
        let gets: Vec<_> = (0..10)
            .map(|count| Frame::get(2 * count + 1, &path))
            .collect();
        frames.send(&gets);
        read_narrowly(&mut frames, 10 * length);
        world
            .proxy
            .metric_becomes("leno_requests_total", &[("flag", "-")], 10.0);
    }
}

#[test]
fn narrow_window_of_an_upstream_loses_nothing() {
    for window in [1, 100, 1_000, 16_385] {
        let length = if window == 1 { 100 } else { 20_000 };
        let narrow = [(setting::INITIAL_WINDOW_SIZE, window)];
        let world = played(
            &narrow,
            |sidecar| sidecar,
            move |_, frames| {
                read_narrowly(frames, 10 * length);
                let answers = (0..10).map(|count| Frame::status(2 * count + 1, 204, true));
                frames.send(&answers.collect::<Vec<_>>());
                frames.read_to_end();
            },
        );
        let mut client = world.client();
        let body = pattern(length);
        let mut calls: Vec<_> = (0..10).map(|_| client.call(&post("/"), false)).collect();
        calls.iter_mut().for_each(|call| call.send_all(&body));
        for call in calls {
            assert_eq!(call.answer().status, 204);
        }
    }
}

#[test]
fn one_connection_carries_thousands_of_requests() {
    let world = http2();
    let mut frames = world.frames();
    let mut memory = 0;
    for round in 0_u32..40 {
        let stream = |count: u32| 200 * round + 2 * count + 1;
        let paths = ["/status/204", "/trailers", "/hold", "/interim", "/bytes/10"];
        let path = |count: u32| paths[count as usize % 5];
        let gets: Vec<_> = (0..100)
            .map(|count| Frame::get(stream(count), path(count)))
            .collect();
        frames.send(&gets);
        let mut left = 80;
        while left > 0 {
            let frame = frames.find("an end", Frame::is_end);
            frames.send(&[Frame::window(0, 1_000)]);
            assert!(frame.stream >= stream(0), "{frame:?}");
            left -= 1;
        }
        let held = (0..100).filter(|count| count % 5 == 2);
        let resets: Vec<_> = held
            .map(|count| Frame::reset(stream(count), code::CANCEL))
            .collect();
        frames.send(&resets);
        if round == 10 {
            memory = world.proxy.anon_kib();
        }
    }
    until("all are given up", || world.upstream.resets().len() == 800);
    world.proxy.metric_becomes("leno_requests_active", &[], 0.0);
    let grown = world.proxy.anon_kib().saturating_sub(memory);
    assert!(grown < 1024, "{grown} KiB");
}

#[test]
fn slow_readers_that_fill_the_budget_hold_up_nobody_else() {
    let world = crate::world::http2_with(crate::world::limits("bufferBytes: 1048576"));
    let memory = world.proxy.anon_kib();
    let mut slow = world.frames();
    let gets = (0..40).map(|count| Frame::get(2 * count + 1, "/bytes/1000000"));
    slow.send(&gets.collect::<Vec<_>>());
    read_body(&mut slow, 1, 1);
    for _ in 0..20 {
        slow.sync();
        // Neither who comes with a connection of its own, nor a body on the shared one above.
        let mut client = world.client();
        assert_eq!(client.get("/status/204").status, 204);
        assert!(client.get("/bytes/200000").body == pattern(200_000));
    }
    let grown = world.proxy.anon_kib().saturating_sub(memory);
    assert!(grown < 8 * 1024, "{grown} KiB");
}
