//! Which requests are sent again: what nobody can have seen, and what does no harm twice.

use crate::world::{World, echo, scripted, start};
use testkit::client::End;
use testkit::{EchoServer, Probes, RawClient, ScriptedUpstream, Sidecar, Step, dead_address};

const RETRIES: &str = "leno_request_retries_total";

/// An upstream whose first connection answers once and dies on the next request, which it has
/// read by then: to the proxy it looks as if it had closed the idle connection.
fn stale(death: Vec<Step>) -> World<ScriptedUpstream> {
    let first = [
        vec![Step::ReadRequest, Step::answer("first"), Step::ReadHead],
        death,
    ]
    .concat();
    let next = vec![Step::ReadRequest, Step::answer("again"), Step::ReadEnd];
    scripted(vec![first, next])
}

#[track_caller]
fn check_sent_again(method: &str, death: Vec<Step>) {
    let world = stale(death);
    let mut client = world.client();
    assert_eq!(client.get("/").text(), "first");
    let body = if method == "PUT" {
        "content-length: 4\r\n\r\nbody"
    } else {
        "\r\n"
    };
    client.send(format!("{method} /x HTTP/1.1\r\nhost: a\r\n{body}"));
    assert_eq!(client.try_response(method).unwrap().status(), 200);
    let request = format!("{method} /x HTTP/1.1\r\nhost: a\r\n{body}");
    assert_eq!(world.upstream.received_text(1), request);
    world.proxy.metric_becomes(RETRIES, &[], 1.0);
    world.flagged("-", 2.0);
}

#[track_caller]
fn check_not_sent_again(method: &str, death: Vec<Step>) {
    let world = stale(death);
    let mut client = world.client();
    assert_eq!(client.get("/").text(), "first");
    let answer = client.ask(format!(
        "{method} / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nab"
    ));
    assert_eq!(answer.status(), 502);
    assert_eq!(world.upstream.connection_count(), 1);
    assert!(world.proxy.metric(RETRIES, &[]) < 0.5);
    // The answer is whole, so the connection goes on.
    assert_eq!(client.get("/").text(), "again");
}

#[test]
fn idempotent_request_on_a_stale_connection_is_sent_again() {
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
        check_sent_again(method, vec![]);
    }
    check_sent_again("GET", vec![Step::Reset]);
}

#[test]
fn other_request_on_a_stale_connection_is_not_sent_again() {
    for method in ["POST", "PATCH", "BREW"] {
        check_not_sent_again(method, vec![]);
    }
    check_not_sent_again("POST", vec![Step::Reset]);
}

#[test]
fn request_is_not_sent_again_once_an_answer_began() {
    let world = stale(vec![Step::send("HTTP/1.1 20")]);
    let mut client = world.client();
    assert_eq!(client.get("/").text(), "first");
    assert_eq!(client.get("/").status(), 502);
    assert_eq!(world.upstream.connection_count(), 1);
}

#[test]
fn request_is_sent_again_once_only() {
    let world = scripted(vec![
        vec![Step::ReadRequest, Step::answer("first"), Step::ReadHead],
        vec![Step::ReadHead],
    ]);
    let mut client = world.client();
    assert_eq!(client.get("/").text(), "first");
    assert_eq!(client.get("/").status(), 502);
    assert_eq!(world.upstream.connection_count(), 2);
}

#[test]
fn request_on_a_fresh_connection_is_not_sent_again() {
    let world = scripted(vec![
        vec![Step::ReadHead],
        vec![Step::ReadRequest, Step::answer("no")],
    ]);
    assert_eq!(world.client().get("/").status(), 502);
    assert_eq!(world.upstream.connection_count(), 1);
}

#[test]
fn connection_that_the_upstream_closed_is_not_lent() {
    let world = scripted(vec![
        vec![Step::ReadRequest, Step::answer("first")],
        vec![Step::ReadRequest, Step::answer("second"), Step::ReadEnd],
    ]);
    let mut client = world.client();
    assert_eq!(client.get("/").text(), "first");
    world.upstream.finished(0);
    world
        .proxy
        .metric_becomes("leno_upstream_connections_active", &[], 0.0);
    assert_eq!(client.post("/", "body").text(), "second");
    assert!(world.proxy.metric(RETRIES, &[]) < 0.5);
}

#[test]
fn unreachable_endpoint_fails_no_request() {
    let (app, probes) = (EchoServer::start(), Probes::begin());
    let proxy = start(&Sidecar::outbound(&[
        dead_address(),
        app.addr(),
        dead_address(),
    ]));
    for number in 0..30 {
        let body = number.to_string();
        assert_eq!(
            RawClient::connect(proxy.addr()).post("/", &body).text(),
            body
        );
    }
    assert_eq!(app.request_count(), 30);
    let failed = proxy.metric("leno_upstream_connect_failures_total", &[]);
    assert!(
        (1.0..=2.0 * (1.0 + probes.most())).contains(&failed),
        "a dead endpoint is left alone: {failed}"
    );
}

#[test]
fn endpoint_that_comes_back_is_used_again() {
    let addr = dead_address();
    let proxy = start(&Sidecar::outbound(&[addr]));
    let mut client = RawClient::connect(proxy.addr());
    assert_eq!(client.get("/").status(), 503);
    let app = EchoServer::start_on(&addr.to_string());
    testkit::until("it is reached", || client.get("/").status() == 200);
    assert!(app.request_count() >= 1);
}

#[test]
fn nobody_to_connect_to_is_a_503_and_the_connection_stays() {
    let proxy = start(&Sidecar::outbound(&[dead_address()]));
    let mut client = RawClient::connect(proxy.addr());
    for flag_count in [1.0, 2.0] {
        let answer = client.post("/", "body");
        assert_eq!((answer.status(), answer.header("connection")), (503, None));
        proxy.metric_becomes("leno_requests_total", &[("flag", "UF")], flag_count);
    }
}

#[test]
fn cluster_without_endpoints_is_a_503() {
    let proxy = start(&Sidecar::outbound(&[]));
    assert_eq!(RawClient::connect(proxy.addr()).get("/").status(), 503);
    proxy.metric_becomes("leno_requests_total", &[("flag", "NE")], 1.0);
}

#[test]
fn request_half_sent_to_a_dying_upstream_is_not_sent_again() {
    let first = vec![Step::ReadRequest, Step::answer("first"), Step::ReadHead];
    let world = scripted(vec![first, vec![Step::ReadRequest, Step::answer("no")]]);
    let mut client = world.client();
    assert_eq!(client.get("/").text(), "first");
    client.send("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbo");
    assert_eq!(client.response().status(), 502);
    let end = client.read_to_end();
    assert!(matches!(end.1, End::Closed | End::Reset));
    assert_eq!(world.upstream.connection_count(), 1);
}

#[test]
fn echo_is_not_disturbed_by_restarts() {
    let world = echo();
    let mut client = world.client();
    for _ in 0..20 {
        assert_eq!(client.get("/close").status(), 200);
        assert_eq!(client.post("/", "body").text(), "body");
    }
}
