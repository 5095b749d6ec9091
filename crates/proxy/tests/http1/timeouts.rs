//! What happens when somebody is too slow. Short limits, and then the answer is waited for.

use crate::world::{echo_with, scripted_with};
use std::time::Duration;
use testkit::client::End;
use testkit::{Sidecar, Step};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

fn limits(limits: &'static str) -> impl FnOnce(Sidecar) -> Sidecar {
    move |sidecar| sidecar.with(&format!("limits: {{{limits}}}"))
}

#[test]
fn idle_connection_is_closed() {
    let world = echo_with(limits("idleTimeout: 200ms"));
    assert_eq!(world.client().read_to_end(), (vec![], End::Closed));
    let mut client = world.client();
    assert_eq!(client.get("/").status(), 200);
    assert_eq!(client.read_to_end(), (vec![], End::Closed));
    world.proxy.metric_becomes("leno_requests_total", &[], 1.0);
}

#[test]
fn head_that_does_not_end_is_answered_408() {
    let world = echo_with(limits("headerTimeout: 200ms"));
    let mut client = world.client();
    client.send("GET / HTTP/1.1\r\nhost:");
    let answer = client.response();
    assert_eq!(
        (answer.status(), answer.header("connection")),
        (408, Some("close"))
    );
    assert_eq!(client.read_to_end(), (vec![], End::Closed));
    world.flagged("DT", 1.0);
}

#[test]
fn head_that_trickles_for_ever_is_answered_408() {
    let world = echo_with(limits("headerTimeout: 300ms"));
    let mut client = world.client();
    client.send("GET / HTTP/1.1\r\nhost: a\r\nx: ");
    client
        .stream()
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let answer = testkit::eventually("an answer", || {
        // Each look for an answer waits for a moment, and then another byte is sent.
        let _ = client.try_send("x");
        client.try_response("GET").ok()
    });
    assert_eq!(answer.status(), 408);
    assert_eq!(world.upstream.request_count(), 0);
}

#[test]
fn second_head_has_its_own_time() {
    let world = echo_with(limits("headerTimeout: 200ms"));
    let mut client = world.client();
    assert_eq!(client.get("/").status(), 200);
    client.send("GET /");
    assert_eq!(client.response().status(), 408);
}

#[test]
fn upstream_that_does_not_answer_in_time_is_a_504() {
    let script = vec![Step::ReadRequest, Step::Stall];
    let world = scripted_with(vec![script], limits("requestTimeout: 200ms"));
    let mut client = world.client();
    for _ in 0..2 {
        let answer = client.get("/");
        assert_eq!((answer.status(), answer.header("connection")), (504, None));
    }
    world.flagged("UT", 2.0);
    assert_eq!(world.upstream.connection_count(), 2);
}

#[test]
fn request_whose_body_came_late_has_its_timeout_as_well() {
    let script = vec![Step::ReadRequest, Step::Stall];
    let world = scripted_with(vec![script], limits("requestTimeout: 300ms"));
    let mut client = world.client();
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n12");
    testkit::until("it arrives", || {
        world.upstream.received_text(0).ends_with("12")
    });
    client.send("34");
    assert_eq!(client.response().status(), 504);
    world.flagged("UT", 1.0);
}

#[test]
fn request_timeout_does_not_cut_an_answer_that_has_begun() {
    let streaming = vec![
        Step::ReadHead,
        Step::send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe"),
        Step::ReadBytes(1),
        Step::send("llo"),
        Step::ReadEnd,
    ];
    let scripts = vec![streaming, vec![Step::ReadRequest, Step::Stall]];
    let world = scripted_with(scripts, limits("requestTimeout: 200ms"));
    let mut client = world.client();
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n");
    client.expect("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe");
    // Somebody else's timeout is the clock: more than that has passed then.
    assert_eq!(world.client().get("/").status(), 504);
    client.send("x");
    client.expect("llo");
}

#[test]
fn answer_that_stops_moving_is_cut() {
    let part = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe";
    let script = vec![Step::ReadRequest, Step::send(part), Step::Stall];
    let world = scripted_with(vec![script], limits("streamIdleTimeout: 200ms"));
    let mut client = world.client();
    client.send(GET);
    client.expect(part);
    assert_eq!(client.read_to_end().1, End::Reset);
    world.flagged("SI", 1.0);
}

#[test]
fn request_body_that_stops_moving_ends_both_connections() {
    let script = vec![Step::ReadHead, Step::ReadEnd];
    let world = scripted_with(vec![script], limits("streamIdleTimeout: 200ms"));
    let mut client = world.client();
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n12");
    // The client is to blame, and is told so.
    assert_eq!(client.response().status(), 408);
    client.read_to_end();
    world.upstream.finished(0);
    world.flagged("SI", 1.0);
}

#[test]
fn timeouts_of_zero_are_none() {
    let part = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe";
    let streaming = vec![
        Step::ReadHead,
        Step::send(part),
        Step::ReadBytes(1),
        Step::send("llo"),
    ];
    let none = "idleTimeout: 0s, streamIdleTimeout: 0s, requestTimeout: 0s, headerTimeout: 200ms";
    let world = scripted_with(vec![streaming], limits(none));
    let (mut idle, mut client) = (world.client(), world.client());
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n");
    client.expect(part);
    // Somebody else's timeout is the clock.
    assert_eq!(world.client().ask("GET").status(), 408);
    client.send("x");
    client.expect("llo");
    assert_eq!(idle.ask("BAD\r\n\r\n").status(), 400);
}
