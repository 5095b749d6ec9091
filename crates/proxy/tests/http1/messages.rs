//! Heads and statuses: what passes as it is, what stays on its hop, what the proxy adds.

use crate::world::{answering, echo, forwarded, forwarded_with, scripted};
use testkit::Step;

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// An upstream's answer, byte for byte as a client that keeps its connection gets it.
#[track_caller]
fn check_answer(answer: &str, passed: &str) {
    let world = answering(answer);
    let mut client = world.client();
    client.send(GET);
    client.expect(passed);
}

#[test]
fn request_passes_byte_for_byte() {
    let request = "BREW /a/../b//c%2e?d=%20&e=\"f\" HTTP/1.1\r\nhOsT: a\r\nX-b: 1\r\n\
                   x-A:2\r\nX-B:  3 \r\nAccept: */*\r\nx-empty:\r\n\r\n";
    assert_eq!(forwarded(request), request);
}

#[test]
fn answer_passes_byte_for_byte() {
    let answer = "HTTP/1.1 299 Good  Enough\r\nX-b: 1\r\nSET-cookie: a=b; c\r\nset-Cookie: d\r\n\
                  x-A:2\r\ncontent-LENGTH: 2\r\n\r\nok";
    check_answer(answer, answer);
}

#[test]
fn answer_without_a_reason_passes() {
    let answer = "HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nok";
    check_answer(answer, answer);
}

#[test]
fn bytes_beyond_ascii_in_values_pass() {
    let request = "GET / HTTP/1.1\r\nhost: a\r\nx-name: J\u{fc}rgen\t\u{1f600}\r\n\r\n";
    assert_eq!(forwarded(request), request);
}

#[test]
fn hop_by_hop_headers_of_a_request_stay_on_their_hop() {
    let request = "GET / HTTP/1.1\r\nhost: a\r\nKeep-Alive: timeout=5\r\nx-1: 1\r\n\
                   Connection: X-Private, keep-alive\r\nx-PRIVATE: s\r\n\
                   Proxy-Connection: keep-alive\r\nTE: trailers\r\nx-2: 2\r\n\r\n";
    assert_eq!(
        forwarded(request),
        "GET / HTTP/1.1\r\nhost: a\r\nx-1: 1\r\nx-2: 2\r\n\r\n"
    );
}

#[test]
fn hop_by_hop_headers_of_an_answer_stay_on_their_hop() {
    check_answer(
        "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nx-1: 1\r\nConnection: x-private\r\n\
         X-Private: s\r\nProxy-Connection: close\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nx-1: 1\r\ncontent-length: 2\r\n\r\nok",
    );
}

#[test]
fn close_of_one_hop_does_not_close_the_other() {
    let world = echo();
    let mut staying = world.client();
    assert_eq!(staying.get("/close").header("connection"), None);
    for _ in 0..2 {
        let answer = world
            .client()
            .ask("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(answer.header("x-connection"), Some("1"));
    }
    assert_eq!(staying.get("/").header("x-connection"), Some("1"));
}

#[test]
fn unasked_upgrades_are_ignored() {
    let request = "GET / HTTP/1.1\r\nhost: a\r\nUpgrade: TLS/1.2, h2c\r\n\
                   HTTP2-Settings: AAMAAABk\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n";
    assert_eq!(forwarded(request), GET);
}

#[test]
fn trace_context_passes_untouched_whatever_is_added() {
    let trace = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\
                 tracestate: a=1,b=2\r\nbaggage: c=3\r\n";
    let request = format!("GET / HTTP/1.1\r\nhost: a\r\n{trace}\r\n");
    let adapt = |s: testkit::Sidecar| s.listener("requestId: true").listener("forwardedFor: true");
    let received = forwarded_with(request, adapt);
    assert!(received.contains(trace), "{received}");
}

#[test]
fn request_id_is_added_where_there_is_none() {
    let received = forwarded_with(GET, |sidecar| sidecar.listener("requestId: true"));
    let id = received
        .split("x-request-id: ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap();
    let parts: Vec<_> = id.split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12], "{id}");
    assert_eq!(&id[14..15], "4", "{id}");
    let again = forwarded_with(GET, |sidecar| sidecar.listener("requestId: true"));
    assert!(!again.contains(id), "{again}");
}

#[test]
fn request_id_of_the_client_is_kept() {
    let request = "GET / HTTP/1.1\r\nhost: a\r\nX-Request-ID: mine\r\n\r\n";
    assert_eq!(
        forwarded_with(request, |s| s.listener("requestId: true")),
        request
    );
}

#[test]
fn forwarded_for_is_appended() {
    let adapt = |sidecar: testkit::Sidecar| sidecar.listener("forwardedFor: true");
    let received = forwarded_with(GET, adapt);
    assert!(
        received.ends_with("\r\nx-forwarded-for: 127.0.0.1\r\n\r\n"),
        "{received}"
    );
    let request = "GET / HTTP/1.1\r\nhost: a\r\nX-Forwarded-For: 10.0.0.1, 10.0.0.2\r\nx-1: 1\r\n\
                   x-forwarded-for: 10.0.0.3\r\n\r\n";
    let received = forwarded_with(request, adapt);
    let all = "x-forwarded-for: 10.0.0.1, 10.0.0.2, 10.0.0.3, 127.0.0.1\r\n";
    assert!(received.contains(all), "{received}");
    assert_eq!(
        received.to_lowercase().matches("x-forwarded-for").count(),
        1,
        "{received}"
    );
}

#[test]
fn large_heads_pass_by_default() {
    let fields: String = (0..190)
        .map(|n| format!("x-{n}: {}\r\n", "v".repeat(300)))
        .collect();
    let request = format!(
        "GET /{} HTTP/1.1\r\nhost: a\r\n{fields}\r\n",
        "p".repeat(4000)
    );
    assert!(request.len() > 60_000);
    assert_eq!(forwarded(&request), request);
    let answer = format!("HTTP/1.1 200 OK\r\n{fields}content-length: 2\r\n\r\nok");
    check_answer(&answer, &answer);
}

#[test]
fn answers_without_a_body_leave_the_connection_in_step() {
    let world = echo();
    let mut client = world.client();
    for (method, path, status) in [
        ("HEAD", "/bytes/5", 200),
        ("GET", "/status/204", 204),
        ("GET", "/status/304", 304),
        ("HEAD", "/status/404", 404),
        ("POST", "/status/204", 204),
    ] {
        let body = if method == "POST" {
            "content-length: 3\r\n\r\nabc"
        } else {
            "\r\n"
        };
        client.send(format!("{method} {path} HTTP/1.1\r\nhost: a\r\n{body}"));
        assert_eq!(client.try_response(method).unwrap().status(), status);
        assert_eq!(client.get("/bytes/4").text(), "xxxx");
    }
    assert_eq!(world.upstream.connection_count(), 1);
}

#[test]
fn length_of_an_absent_body_passes_where_it_means_something() {
    let answer = "HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\ncontent-length: 5\r\n\r\n";
    check_answer(answer, answer);
    let world = answering("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
    let mut client = world.client();
    client.send("HEAD / HTTP/1.1\r\nhost: a\r\n\r\n");
    client.expect("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
}

#[test]
fn length_of_a_204_does_not_mislead_the_client() {
    let world = scripted(vec![vec![
        Step::ReadRequest,
        Step::send("HTTP/1.1 204 No Content\r\nx: 1\r\ncontent-length: 5\r\n\r\n"),
        Step::ReadRequest,
        Step::answer("next"),
        Step::ReadEnd,
    ]]);
    let mut client = world.client();
    client.send(GET);
    client.expect("HTTP/1.1 204 No Content\r\nx: 1\r\n\r\n");
    assert_eq!(client.get("/").text(), "next");
}

#[test]
fn interim_answers_pass_in_order() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\n\
                   HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nlink: </b>\r\n\r\n\
                   HTTP/1.1 102 Processing\r\n\r\n";
    let answer = format!("{interim}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    check_answer(&answer, &answer);
}

#[test]
fn interim_answer_arrives_before_the_final_one_exists() {
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    let world = scripted(vec![vec![
        Step::ReadRequest,
        Step::send(hints),
        Step::Stall,
    ]]);
    let mut client = world.client();
    client.send(GET);
    client.expect(hints);
}

#[test]
fn body_is_sent_when_the_upstream_says_continue() {
    let world = scripted(vec![vec![
        Step::ReadHead,
        Step::send("HTTP/1.1 100 Continue\r\n\r\n"),
        Step::ReadBytes(5),
        Step::answer("thanks"),
        Step::ReadRequest,
        Step::answer("next"),
    ]]);
    let mut client = world.client();
    let head = "POST / HTTP/1.1\r\nhost: a\r\nExpect: 100-continue\r\ncontent-length: 5\r\n\r\n";
    client.send(head);
    client.expect("HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(world.upstream.received_text(0), head);
    assert_eq!(client.ask("hello").text(), "thanks");
    assert_eq!(client.get("/").text(), "next");
}

#[test]
fn refused_expectation_ends_the_connection() {
    let refusal = "HTTP/1.1 417 Expectation Failed\r\ncontent-length: 2\r\n\r\nno";
    let world = scripted(vec![vec![
        Step::ReadHead,
        Step::send(refusal),
        Step::ReadEnd,
    ]]);
    let mut client = world.client();
    let head = "POST / HTTP/1.1\r\nhost: a\r\nExpect: 100-continue\r\ncontent-length: 5\r\n\r\n";
    let answer = client.ask(head);
    assert_eq!((answer.status(), answer.text().as_str()), (417, "no"));
    // The body was never sent, so what comes next could be taken for it.
    assert_eq!(client.read_to_end().0, b"");
    assert_eq!(world.upstream.finished(0).received, head.as_bytes());
}
