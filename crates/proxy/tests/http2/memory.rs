//! What peers can make the proxy remember: heads, storage of streams, bodies that nobody reads. The
//! bounds are generous, and each is far below what the same traffic costs where nothing is counted.

use crate::world::{World, always_http2, limits, played, scripted1_with};
use std::io::Read;
use testkit::h2::{Frame, code, flag, kind};
use testkit::{Frames, H2Server, RawClient, Step, until};

/// Bytes of the one line that goes into the peer's table.
const LINE: usize = 3_000;
/// A line that was put into the table last (RFC 7541, section 6.1).
const AGAIN: u8 = 0x80 | 62;

/// A header block that begins with `start` and puts a long line into the table.
fn long_line(start: &[u8]) -> Vec<u8> {
    let rest = LINE - 127;
    let low = u8::try_from(rest % 128 + 128).unwrap();
    let length = [127, low, u8::try_from(rest / 128).unwrap()];
    [start, &[0x40, 1, b'x'], &length, &[b'y'; LINE]].concat()
}

/// A header block that begins with `start` and repeats the long line so many times.
fn repeated(start: &[u8], times: usize) -> Vec<u8> {
    [start, &vec![AGAIN; times]].concat()
}

fn head(stream: u32, block: Vec<u8>) -> Frame {
    Frame::new(kind::HEADERS, flag::END_HEADERS, stream, block)
}

#[test]
fn endless_interim_heads_are_reset_and_cost_little() {
    /// `:status: 103`, not to be kept.
    const EARLY: &[u8] = b"\x08\x03103";
    let world = played(
        &[],
        |sidecar| sidecar,
        |_, frames| {
            let stream = frames.find_kind(kind::HEADERS).stream;
            frames.send(&[head(stream, long_line(EARLY))]);
            let many = vec![head(stream, repeated(EARLY, 15)); 200];
            // 45 KB of text each, 900 MB together; it may end before all of it is sent.
            let all_sent = (0..100).all(|_| frames.try_send(&many).is_ok());
            if all_sent {
                let ended = frames.find("an end", |frame| {
                    matches!(frame.kind, kind::RST_STREAM | kind::GOAWAY)
                });
                assert_eq!(ended.code(), code::ENHANCE_YOUR_CALM);
            }
        },
    );
    let memory = world.proxy.anon_kib();
    let mut client = world.http1();
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    world.upstream.finished(0);
    world.flagged("UPE", 1.0);
    let grown = world.proxy.anon_kib().saturating_sub(memory);
    assert!(grown < 4096, "{grown} KiB");
}

#[test]
fn heads_of_requests_that_wait_count_as_held() {
    const CONNECTIONS: usize = 4;
    const STREAMS: u32 = 99;
    /// POST, http, `/`, `:authority: a`; the latter is put into the table first.
    const FIRST: &[u8] = &[0x83, 0x86, 0x84, 0x41, 1, b'a'];
    const THEN: &[u8] = &[0x83, 0x86, 0x84, 0x80 | 63];
    let scripts = vec![vec![Step::ReadHead, Step::ReadEnd]];
    let world = scripted1_with(scripts, limits("bufferBytes: 1048576"));
    let memory = world.proxy.anon_kib();
    let one = |_| {
        let mut frames = world.frames();
        frames.send(&[head(1, long_line(FIRST))]);
        for count in 1..=STREAMS {
            frames.send(&[head(2 * count + 1, repeated(THEN, 20))]);
        }
        frames
    };
    let mut all: Vec<_> = (0..CONNECTIONS).map(one).collect();
    let mut refused = 0;
    for frames in &mut all {
        for frame in frames.sync() {
            if frame.kind == kind::RST_STREAM {
                assert_eq!(frame.code(), code::REFUSED_STREAM);
                refused += 1;
            }
        }
    }
    let grown = world.proxy.anon_kib().saturating_sub(memory);
    println!("{refused} refused, {grown} KiB");
    // 60 KB of text each, 24 MB together.
    assert!(refused > CONNECTIONS * STREAMS as usize / 2, "{refused}");
    assert!(grown < 10 * 1024, "{grown} KiB");
    drop(all);
    world.proxy.metric_becomes("leno_requests_active", &[], 0.0);
    let mut frames = world.frames();
    frames.send(&[Frame::get(1, "/")]);
    until("others are served", || {
        world.proxy.metric("leno_requests_active", &[]) > 0.5
    });
}

/// Connections that have carried as many requests at once as they may, and are idle now.
#[track_caller]
fn used(world: &World<H2Server>, count: usize) -> Vec<Frames> {
    const STREAMS: u32 = 100;
    let one = |_| {
        let mut frames = world.frames();
        let streams = || (0..STREAMS).map(|count| 2 * count + 1);
        let part = vec![b'a'; 4_000];
        let begun = streams().flat_map(|stream| {
            let part = Frame::data(stream, &*part, false);
            [Frame::post(stream, "/"), part]
        });
        frames.send(&[Frame::window(0, 1 << 30)]);
        frames.send(&begun.collect::<Vec<_>>());
        frames.sync();
        let ends = streams().map(|stream| Frame::data(stream, [], true));
        frames.send(&ends.collect::<Vec<_>>());
        for _ in 0..STREAMS {
            frames.find("an end", Frame::is_end);
        }
        frames
    };
    (0..count).map(one).collect()
}

#[test]
fn idle_connections_give_the_storage_of_their_streams_back() {
    const CONNECTIONS: usize = 50;
    let world = always_http2();
    let before = world.proxy.anon_kib();
    let mut all = used(&world, CONNECTIONS);
    let grown = world.proxy.anon_kib().saturating_sub(before);
    // They rest by themselves after a while; what they gave back serves those that come then.
    until("room is given back", || {
        let before = world.proxy.anon_kib();
        all.extend(used(&world, CONNECTIONS));
        let more = world.proxy.anon_kib().saturating_sub(before);
        println!("first {grown} KiB, then {more} KiB");
        more < grown / 4
    });
}

#[test]
fn bodies_for_slow_readers_of_http1_stay_within_the_budget() {
    const READERS: usize = 20;
    const PART: usize = 400_000;
    const BODY: usize = 10 * PART;
    let world = crate::world::http2_with(|sidecar| {
        limits("bufferBytes: 2097152")(sidecar.cluster("protocol: http2"))
    });
    let memory = world.proxy.anon_kib();
    let one = |_| {
        let mut client = world.http1();
        client.send(format!("GET /bytes/{BODY} HTTP/1.1\r\nhost: a\r\n\r\n"));
        client
    };
    let mut readers: Vec<RawClient> = (0..READERS).map(one).collect();
    let mut worst = 0;
    let mut bytes = vec![0; PART];
    for _ in 0..BODY / PART {
        // Those that leave bytes lying may be given up, so that what they hold is bounded.
        readers.retain_mut(|reader| reader.stream().read_exact(&mut bytes).is_ok());
        worst = worst.max(world.proxy.anon_kib().saturating_sub(memory));
    }
    println!("{worst} KiB, {} readers left", readers.len());
    assert!(worst < 12 * 1024, "{worst} KiB");
    drop(readers);
    world.proxy.metric_becomes("leno_requests_active", &[], 0.0);
    world.serves_others();
}
