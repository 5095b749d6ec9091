//! Large answers to clients that rest in the middle, while the connection goes on and while it
//! ends: they come whole. And connections whose listener is gone.

use crate::world::{World, http2_with, limits, pattern};
use rustix::process::Signal;
use testkit::h2::{Frame, code, kind, setting};
use testkit::{Frames, H2Server, RawClient};

/// What fits into none, some and all of the buffers between proxy and client.
const SIZES: [usize; 8] = [
    100_000, 200_000, 300_000, 450_000, 600_000, 900_000, 3_000_000, 20_000_000,
];

/// Reads so many bytes of the body.
#[track_caller]
fn read_body(frames: &mut Frames, body: &mut Vec<u8>, count: usize) {
    while body.len() < count {
        body.extend(frames.find_kind(kind::DATA).payload);
    }
}

/// A client that has begun to read.
#[track_caller]
fn begun(world: &World<H2Server>, size: usize) -> (Frames, Vec<u8>) {
    let mut frames = world.frames();
    frames.send(&[
        Frame::window(0, 1 << 30),
        Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 30)]),
        Frame::get(1, &format!("/bytes/{size}")),
    ]);
    let mut body = Vec::new();
    read_body(&mut frames, &mut body, 1);
    (frames, body)
}

/// Somebody else's timeout is the clock: longer than whatever the proxy does by the clock when a
/// connection rests.
const CLOCK: &str = "requestTimeout: 4s, drainTimeout: 20s";

fn clock(world: &World<H2Server>) -> RawClient {
    let mut clock = world.http1();
    clock.send("GET /hold HTTP/1.1\r\nhost: a\r\n\r\n");
    testkit::until("it runs", || world.upstream.held() == 1);
    clock
}

#[track_caller]
fn check_pause(at_its_beginning: impl FnOnce(&World<H2Server>)) -> World<H2Server> {
    let world = http2_with(|sidecar| limits(CLOCK)(sidecar.cluster("protocol: http2")));
    let mut clock = clock(&world);
    let begun = SIZES.map(|size| (size, begun(&world, size)));
    at_its_beginning(&world);
    assert_eq!(clock.response().status(), 504);
    for (size, (mut frames, mut body)) in begun {
        read_body(&mut frames, &mut body, size);
        assert!(body == pattern(size), "{size}");
        assert_eq!(body.len(), size);
    }
    world
}

#[test]
fn client_that_rests_amid_a_large_answer_gets_it_whole() {
    let world = check_pause(|_| {});
    world.serves_others();
}

#[test]
fn last_answers_of_a_draining_proxy_come_whole() {
    let world = check_pause(|world| world.proxy.signal(Signal::TERM));
    let exit = crate::world::ended(world.proxy);
    assert!(exit.status.success(), "{}", exit.stderr);
}

#[test]
fn last_answer_before_a_goodbye_comes_whole() {
    let world = http2_with(|sidecar| limits(CLOCK)(sidecar.cluster("protocol: http2")));
    let mut clock = clock(&world);
    let mut idle = world.frames();
    idle.sync();
    let begun = SIZES.map(|size| (size, begun(&world, size)));
    let renamed = |yaml: String| yaml.replace("- name: main\n  dir", "- name: other\n  dir");
    let sidecar = testkit::Sidecar::outbound(&[world.upstream.addr()]).listener("protocol: http");
    world.proxy.reconfigure(&renamed(
        limits(CLOCK)(sidecar.cluster("protocol: http2")).yaml(),
    ));
    let mut told = Vec::new();
    for (size, (mut frames, body)) in begun {
        // Their listener is gone: who asks once more learns of it.
        frames.send(&[Frame::get(3, "/")]);
        told.push((size, frames, body));
    }
    idle.send(&[Frame::get(1, "/")]);
    assert_eq!(idle.status(1), 404);
    assert_eq!(idle.goodbye(), Some(code::NO_ERROR));
    assert_eq!(clock.response().status(), 504);
    for (size, mut frames, mut body) in told {
        let came = frames.read_to_end();
        let parts = came
            .iter()
            .filter(|frame| (frame.kind, frame.stream) == (kind::DATA, 1));
        parts.for_each(|part| body.extend_from_slice(&part.payload));
        assert!(body == pattern(size), "{} of {size}", body.len());
        let goodbye = came.iter().find(|frame| frame.kind == kind::GOAWAY);
        assert_eq!(goodbye.map(Frame::code), Some(code::NO_ERROR), "{size}");
    }
}
