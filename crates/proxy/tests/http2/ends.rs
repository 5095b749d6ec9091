//! How connections of HTTP/2 end, and what they outlive.

use crate::world::{World, get, http2, http2_with, limits, played, post};
use rustix::process::Signal;
use testkit::h2::{Frame, code, kind};
use testkit::{Frames, H2Server, until};

/// What a goodbye says that leaves streams time to arrive (RFC 9113, section 6.8).
const LAST: u32 = (1 << 31) - 1;

/// A connection with a stream in flight.
#[track_caller]
fn in_flight(world: &World<H2Server>) -> Frames {
    let mut frames = world.frames();
    frames.send(&[Frame::post(1, "/")]);
    assert_eq!(frames.status(1), 200);
    frames
}

/// The stream still works in both directions.
#[track_caller]
fn still_works(frames: &mut Frames) {
    frames.send(&[Frame::data(1, *b"message", false)]);
    assert_eq!(frames.find_kind(kind::DATA).payload, b"message");
}

/// The process ends by itself.
#[track_caller]
fn ends_well(world: World<H2Server>) {
    let exit = crate::world::ended(world.proxy);
    assert!(exit.status.success(), "{}", exit.stderr);
}

#[test]
fn drain_says_goodbye_and_finishes_what_is_in_flight() {
    let world = http2();
    let mut frames = in_flight(&world);
    world.proxy.signal(Signal::TERM);
    let goodbye = frames.find_kind(kind::GOAWAY);
    assert_eq!((goodbye.number(0), goodbye.code()), (LAST, code::NO_ERROR));
    // Begun before the goodbye was known: taken.
    frames.send(&[Frame::get(3, "/status/204")]);
    still_works(&mut frames);
    frames.send(&[Frame::data(1, [], true)]);
    let came = frames.read_to_end();
    assert!(
        came.iter().any(|frame| frame.stream == 1 && frame.is_end()),
        "{came:?}"
    );
    ends_well(world);
}

#[test]
fn drain_ends_idle_connections() {
    let world = http2();
    let mut frames = world.frames();
    frames.sync();
    world.proxy.signal(Signal::TERM);
    assert_eq!(frames.goodbye(), Some(code::NO_ERROR));
    ends_well(world);
}

#[test]
fn peer_that_does_not_answer_the_goodbye_does_not_hold_the_drain_up() {
    let world = http2();
    let mut frames = world.frames();
    frames.sync();
    frames.stop_answering();
    world.proxy.signal(Signal::TERM);
    assert_eq!(frames.goodbye(), Some(code::NO_ERROR));
    ends_well(world);
}

#[test]
fn reload_keeps_connections_and_streams() {
    let upstream = H2Server::start();
    let sidecar = testkit::Sidecar::outbound(&[upstream.addr()]).listener("protocol: http");
    let proxy = crate::world::start(&sidecar);
    let world = World { proxy, upstream };
    let mut frames = in_flight(&world);
    for limit in ["headers: 100", "headers: 50"] {
        let changed = sidecar.clone().with(&format!("limits: {{{limit}}}"));
        world.proxy.reconfigure(&changed.yaml());
        still_works(&mut frames);
    }
    frames.send(&[Frame::get(3, "/status/204")]);
    assert_eq!(frames.status(3), 204);
    assert!(frames.sync().iter().all(|frame| frame.kind != kind::GOAWAY));
    assert_eq!(world.upstream.connection_count(), 1);
}

#[test]
fn reload_that_takes_an_endpoint_away_finishes_its_streams() {
    let (old, new) = (H2Server::start(), H2Server::start());
    let to =
        |server: &H2Server| testkit::Sidecar::outbound(&[server.addr()]).listener("protocol: http");
    let proxy = crate::world::start(&to(&old));
    let world = World {
        proxy,
        upstream: old,
    };
    let mut frames = in_flight(&world);
    world.proxy.reconfigure(&to(&new).yaml());
    still_works(&mut frames);
    frames.send(&[Frame::get(3, "/status/204")]);
    assert_eq!(frames.status(3), 204);
    assert_eq!(
        (new.requests().len(), world.upstream.requests().len()),
        (1, 0)
    );
    frames.send(&[Frame::data(1, [], true)]);
    frames.find("its end", |frame| frame.stream == 1 && frame.is_end());
    until("nothing is left of it", || {
        world.upstream.open_connections() == 0
    });
}

#[test]
fn silent_client_is_asked_for_a_sign_of_life() {
    let world = http2_with(limits("keepaliveInterval: 200ms, keepaliveTimeout: 400ms"));
    let mut frames = in_flight(&world);
    for _ in 0..3 {
        frames.find_kind(kind::PING);
    }
    still_works(&mut frames);
    frames.stop_answering();
    frames.read_to_end();
    until("its stream is given up", || {
        world.upstream.requests().is_empty()
    });
    world.flagged("DC", 1.0);
}

#[test]
fn silent_upstream_is_asked_for_a_sign_of_life() {
    let quick = limits("keepaliveInterval: 200ms, keepaliveTimeout: 400ms");
    let world = played(&[], quick, |number, frames| {
        let stream = frames.find_kind(kind::HEADERS).stream;
        frames.find_kind(kind::PING);
        frames.find_kind(kind::PING);
        if number == 0 {
            frames.stop_answering();
            frames.read_to_end();
        } else {
            frames.send(&[Frame::status(stream, 204, true)]);
            frames.read_to_end();
        }
    });
    let mut client = world.client();
    assert_eq!(client.post("/", "").status, 502);
    assert_eq!(client.get("/").status, 204);
}

#[test]
fn pings_are_answered() {
    let world = http2();
    let mut frames = world.frames();
    for payload in [*b"abcdefgh", [0; 8], [255; 8]] {
        frames.send(&[Frame::ping(payload)]);
        let pong = frames.find_kind(kind::PING);
        assert_eq!((pong.flags, &*pong.payload), (1, &payload[..]));
    }
}

#[test]
fn idle_connection_is_closed_with_a_goodbye() {
    let world = http2_with(limits("idleTimeout: 300ms"));
    let mut fresh = world.frames();
    assert_eq!(fresh.goodbye(), Some(code::NO_ERROR));
    let mut frames = world.frames();
    frames.send(&[Frame::get(1, "/status/204")]);
    assert_eq!(frames.status(1), 204);
    assert_eq!(frames.goodbye(), Some(code::NO_ERROR));
}

#[test]
fn connection_with_a_stream_is_not_idle() {
    let world = http2_with(limits("idleTimeout: 200ms"));
    let mut frames = in_flight(&world);
    // Somebody else's end is the clock.
    assert_eq!(world.frames().goodbye(), Some(code::NO_ERROR));
    still_works(&mut frames);
}

#[test]
fn idle_upstream_connection_is_closed() {
    let world = http2_with(limits("poolIdleTimeout: 200ms"));
    let mut client = world.client();
    let mut call = client.call(&post("/"), false);
    assert_eq!(call.head().status, 200);
    call.finish();
    assert_eq!(call.answer().status, 0);
    until("it is closed", || world.upstream.open_connections() == 0);
    assert_eq!(client.ask(&get("/status/204"), b"").status, 204);
}

#[test]
fn client_that_says_goodbye_gets_its_answers() {
    let world = http2();
    let mut frames = in_flight(&world);
    frames.send(&[Frame::go_away(0, code::NO_ERROR)]);
    still_works(&mut frames);
    frames.send(&[Frame::data(1, [], true)]);
    frames.find("its end", |frame| frame.stream == 1 && frame.is_end());
}
