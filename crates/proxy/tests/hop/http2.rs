//! HTTP/2 at either end of the hop: calls keep their trailers and times, and a request may change
//! its protocol on its way.

use crate::world::{PROXY, echo, pattern, same};
use testkit::h2::Request;
use testkit::{H2Client, H2Server, Pair, Sidecar};

fn as_it_is(sidecar: Sidecar) -> Sidecar {
    sidecar
}

fn http2() -> Pair<H2Server> {
    Pair::start(PROXY, H2Server::start())
}

fn client(pair: &Pair<H2Server>) -> H2Client {
    H2Client::connect(pair.outbound.addr())
}

#[test]
fn f30_calls_keep_their_trailers_and_what_they_may_take() {
    let pair = http2();
    let mut client = client(&pair);
    let answer = client.ask(
        &Request::grpc("/trailers").with("te", "trailers"),
        b"\0\0\0\0\x01x",
    );
    assert_eq!((answer.status, answer.grpc_status()), (200, Some("0")));
    assert_eq!(answer.trailer("grpc-status"), Some("0"));
    let received = pair.app.request("/trailers");
    assert_eq!(received.header("te"), Some("trailers"));
    assert_eq!(received.authority.as_deref(), Some("test"));
    assert_eq!(received.header("host"), None);
    let only = client.ask(&Request::grpc("/trailers-only"), b"");
    assert_eq!(only.header("grpc-status"), Some("5"));
    for proxy in [&pair.outbound, &pair.inbound] {
        let labels = [("protocol", "grpc"), ("flag", "-")];
        proxy.metric_becomes("leno_requests_total", &labels, 2.0);
    }
}

#[test]
fn trailers_of_a_request_pass() {
    let pair = http2();
    let mut call = client(&pair).call(&Request::new("POST", "/"), false);
    call.send(b"hello");
    call.finish_with(&[("x-sum", "1"), ("x-sum", "2")]);
    let answer = call.answer();
    assert_eq!(answer.body, b"hello");
    let received = pair.app.request("/");
    let sums: Vec<_> = received
        .trailers
        .iter()
        .map(|(_, value)| &**value)
        .collect();
    assert_eq!(sums, ["1", "2"]);
}

#[test]
fn messages_flow_both_ways_at_once() {
    let pair = http2();
    let mut client = client(&pair);
    let mut call = client.call(&Request::grpc("/echo"), false);
    for round in 0..50_u32 {
        let message = round.to_be_bytes();
        call.send(message);
        if round == 0 {
            assert_eq!(call.head().status, 200);
        }
        call.expect(&message);
    }
    call.finish();
    assert!(call.answer().body.is_empty());
}

#[test]
fn f09_streams_last_longer_than_requests_may() {
    let brief = |sidecar: Sidecar| sidecar.with("limits: {requestTimeout: 500ms}");
    let pair = Pair::start_with(PROXY, H2Server::start(), brief, brief);
    let mut client = client(&pair);
    let mut call = client.call(&Request::grpc("/echo"), false);
    call.send(b"one");
    call.head();
    call.expect(b"one");
    // Longer than a request may take to be answered: this one is not, and says when.
    let held = client.ask(&Request::grpc("/hold"), b"");
    assert_eq!(held.grpc_status(), Some("4"));
    call.send(b"two");
    call.expect(b"two");
    call.finish();
    assert!(call.answer().body.is_empty());
}

#[test]
fn time_of_a_call_is_kept() {
    let pair = http2();
    let request = Request::grpc("/hold").with("grpc-timeout", "200m");
    let answer = client(&pair).ask(&request, b"x");
    assert_eq!(answer.grpc_status(), Some("4"));
}

#[test]
fn large_bodies_pass_both_ways() {
    let (pair, body) = (http2(), pattern(3_000_000));
    let mut client = client(&pair);
    same(&client.post("/", &body).body, &body);
    same(&client.post("/", &body[..65_536]).body, &body[..65_536]);
    assert_eq!(client.get("/bytes/1000000").body.len(), 1_000_000);
    assert_eq!(client.get("/stream/1000000").body.len(), 1_000_000);
}

#[test]
fn reset_of_the_application_is_an_error() {
    let pair = http2();
    let mut client = client(&pair);
    assert_eq!(client.get("/reset/2").status, 502);
    assert_eq!(client.get("/").status, 200);
}

#[test]
fn request_that_was_given_back_is_sent_again() {
    let pair = http2();
    let mut client = client(&pair);
    for _ in 0..4 {
        assert_eq!(client.get("/goaway").status, 200);
        assert_eq!(client.get("/").status, 200);
    }
}

#[test]
fn client_of_http1_reaches_an_application_of_http2() {
    let newer = |sidecar: Sidecar| sidecar.cluster("protocol: http2");
    let pair = Pair::start_with(PROXY, H2Server::start(), newer, as_it_is);
    let mut client = pair.client();
    let body = pattern(200_000);
    same(&client.post("/", &body).body, &body);
    let request = "GET /bytes/3 HTTP/1.1\r\nHost: b:80\r\nX-Upper: V\r\nCookie: a\r\n\r\n";
    assert_eq!(client.ask(request).text().len(), 3);
    let received = pair.app.request("/bytes/3");
    assert_eq!(received.authority.as_deref(), Some("b:80"));
    assert_eq!(received.header("x-upper"), Some("V"));
    let trailers = client.get("/trailers").trailers;
    assert!(
        trailers.contains(&("grpc-status".to_owned(), "0".to_owned())),
        "{trailers:?}"
    );
    assert_eq!(pair.app.connection_count(), 1);
}

#[test]
fn client_of_http2_reaches_an_application_of_http1() {
    let older = |sidecar: Sidecar| sidecar.cluster("protocol: http1");
    let pair = Pair::start_with(PROXY, testkit::EchoServer::start(), older, as_it_is);
    let mut client = H2Client::connect(pair.outbound.addr());
    let body = pattern(200_000);
    same(&client.post("/", &body).body, &body);
    assert_eq!(client.get("/bytes/70000").body.len(), 70_000);
    let request = Request::new("GET", "/x")
        .with("cookie", "a=1")
        .with("cookie", "b=2");
    assert_eq!(client.ask(&request, b"").status, 200);
    let received = pair.app.requests().pop().unwrap();
    assert_eq!(received.header("cookie"), Some("a=1; b=2"));
    assert_eq!(received.header("host"), Some("test"));
    assert_eq!(received.header("te"), None);
    assert!(received.start.ends_with("HTTP/1.1"), "{received:?}");
}

#[test]
fn client_of_http2_reaches_what_its_own_sidecar_knows_to_be_of_http1() {
    let older = |sidecar: Sidecar| sidecar.cluster("protocol: http1");
    let pair = Pair::start_with(PROXY, testkit::EchoServer::start(), as_it_is, older);
    let mut client = H2Client::connect(pair.outbound.addr());
    assert_eq!(client.get("/bytes/70000").body.len(), 70_000);
    let received = pair.app.requests().pop().unwrap();
    assert!(received.start.ends_with("HTTP/1.1"), "{received:?}");
}

#[test]
fn both_protocols_share_the_hop() {
    let pair = echo();
    let mut old = pair.client();
    assert_eq!(old.get("/").status(), 200);
    // The application speaks HTTP/1 only, and is asked in HTTP/2: its sidecar says so.
    let answer = H2Client::connect(pair.outbound.addr()).get("/");
    assert_eq!(answer.status, 502);
    assert_eq!(old.get("/").status(), 200);
    assert!((pair.hop_connections() - 1.0).abs() < 0.5);
}
