//! Calls of gRPC: what goes wrong is told in their own terms, and streams last as long as they
//! like.

use crate::world::{World, http2, http2_with, limits, start};
use testkit::h2::{Answer, Request, code};
use testkit::{H2Client, H2Server, Sidecar, TestCa, until};

/// An answer of the proxy's own to a call, through a sidecar.
#[track_caller]
fn call(sidecar: &Sidecar) -> Answer {
    let proxy = start(sidecar);
    let mut client = H2Client::connect(proxy.addr());
    client.ask(&Request::grpc("/service/method"), b"\0\0\0\0\0")
}

#[track_caller]
fn check(sidecar: &Sidecar, status: &str) {
    let answer = call(sidecar);
    assert_eq!(
        (answer.status, answer.grpc_status()),
        (200, Some(status)),
        "{answer:?}"
    );
    assert_eq!(answer.header("content-type"), Some("application/grpc"));
    assert!(
        answer
            .header("grpc-message")
            .is_some_and(|text| !text.is_empty())
    );
    assert_eq!((answer.body.len(), answer.trailers.len()), (0, 0));
}

#[test]
fn errors_are_told_as_statuses_of_grpc() {
    let upstream = H2Server::start();
    let to = || Sidecar::outbound(&[upstream.addr()]);
    check(&Sidecar::outbound(&[]), "14");
    check(&Sidecar::outbound(&[testkit::dead_address()]), "14");
    check(&to().route("hosts: [other]"), "12");
    let ca = TestCa::new();
    let (server, friend) = (ca.identity("server"), ca.identity("friend"));
    let closed = Sidecar::inbound(upstream.addr()).identity(&server);
    check(&closed.allow(&[friend.id]), "7");
    assert_eq!(upstream.requests().len(), 0);
}

#[test]
fn upstream_that_fails_is_told_as_a_status_of_grpc() {
    let world = http2_with(limits("requestTimeout: 200ms"));
    let mut client = world.client();
    for (path, status) in [("/reset/2", "14"), ("/reset/7", "14"), ("/hold", "4")] {
        let answer = client.ask(&Request::grpc(path), b"");
        assert_eq!(
            (answer.status, answer.grpc_status()),
            (200, Some(status)),
            "{path}"
        );
    }
}

#[test]
fn statuses_of_the_server_pass() {
    let world = http2();
    let mut client = world.client();
    let answer = client.ask(&Request::grpc("/trailers"), b"x");
    assert_eq!(
        (answer.trailer("grpc-status"), answer.header("grpc-status")),
        (Some("0"), None)
    );
    let answer = client.ask(&Request::grpc("/trailers-only"), b"x");
    assert_eq!(
        (answer.trailer("grpc-status"), answer.header("grpc-status")),
        (None, Some("5"))
    );
    let labels = [("protocol", "grpc")];
    world
        .proxy
        .metric_becomes("leno_requests_total", &labels, 2.0);
}

#[test]
fn deadline_of_a_call_is_kept() {
    let world = http2();
    let mut client = world.client();
    for body in [&b""[..], b"x"] {
        let request = Request::grpc("/hold").with("grpc-timeout", "200m");
        let answer = client.ask(&request, body);
        assert_eq!((answer.status, answer.grpc_status()), (200, Some("4")));
    }
    until("the server is told", || {
        world.upstream.resets() == [code::CANCEL; 2]
    });
    world.flagged("UT", 2.0);
}

#[test]
fn deadline_of_a_call_that_streams_is_kept() {
    let world = http2();
    let mut client = world.client();
    let request = Request::grpc("/").with("grpc-timeout", "300m");
    let mut call = client.call(&request, false);
    assert_eq!(call.head().status, 200);
    call.send("message");
    call.expect(b"message");
    // The answer has begun: all that can be said is that it is not whole.
    assert!(call.try_answer().is_err());
    until("the server is rid of it", || {
        world.upstream.requests().is_empty()
    });
    assert_eq!(client.get("/status/204").status, 204);
}

#[test]
fn deadline_passes_to_the_server() {
    let world = http2();
    let request = Request::grpc("/trailers").with("grpc-timeout", "5S");
    world.client().ask(&request, b"x");
    assert_eq!(
        world.upstream.request("/trailers").header("grpc-timeout"),
        Some("5S")
    );
}

/// Moves a message each way.
#[track_caller]
fn talk(call: &mut testkit::h2::Call, message: &str) {
    call.send(message);
    call.expect(message.as_bytes());
}

#[test]
fn streams_outlive_the_request_timeout() {
    let world: World<H2Server> = http2_with(limits("requestTimeout: 200ms"));
    let mut client = world.client();
    let mut call = client.call(&Request::grpc("/"), false);
    assert_eq!(call.head().status, 200);
    talk(&mut call, "first");
    for _ in 0..2 {
        // Somebody else's timeout is the clock.
        assert_eq!(client.get("/hold").status, 504);
        talk(&mut call, "later");
    }
    call.finish_with(&[("grpc-status", "0")]);
    assert_eq!(call.answer().grpc_status(), Some("0"));
}

#[test]
fn stream_whose_answer_begins_late_outlives_the_request_timeout() {
    let world: World<H2Server> = http2_with(limits("requestTimeout: 200ms"));
    let mut client = world.client();
    // The body is not through: nobody can be late yet.
    let mut call = client.call(&Request::grpc("/hold"), false);
    assert_eq!(client.get("/hold").status, 504);
    call.send("still open");
    until("the other is given up", || world.upstream.held() == 1);
    call.finish();
    assert_eq!(call.answer().grpc_status(), Some("4"));
}

#[test]
fn deadlines_that_make_no_sense_are_none() {
    let world = http2();
    let mut client = world.client();
    for limit in ["", "5", "m", "123456789S", "-1S", "1.5S", "99999999H"] {
        let request = Request::grpc("/trailers").with("grpc-timeout", limit);
        assert_eq!(
            client.ask(&request, b"x").grpc_status(),
            Some("0"),
            "{limit}"
        );
    }
    let request = Request::grpc("/hold").with("grpc-timeout", "0m");
    assert_eq!(client.ask(&request, b"x").grpc_status(), Some("4"));
}
