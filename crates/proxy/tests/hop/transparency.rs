//! What an application sees of a request and a client of an answer: what was written, though the
//! hop between their sidecars frames it in another way.

use crate::world::{GET, answered_text, answering, echo, forwarded, scripted};
use testkit::Step;
use testkit::client::End;

const OK: &str = "HTTP/1.1 200 OK\r\n";

#[test]
fn f12_case_order_and_repetition_of_lines_stay() {
    for request in [
        "GET /Path%2f;a=b?Q=1&&x HTTP/1.1\r\nX-First: 1\r\nHOST: a:8080\r\nx-b: \r\nX-First: 2\r\n\
         Accept: */*\r\ncookie: a=1\r\nCookie: b=2\r\nUSER-agent: x/1 (y; z)\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n",
        "PURGE //a/../b/./%00?? HTTP/1.1\r\nHost: [::1]:80\r\n!#$%&'*+-.^_`|~09aZ: \"odd\"\r\n\r\n",
        "get /lower HTTP/1.1\r\nHost: A.Example\r\nX-Latin: caf\u{e9}\tx\r\n\r\n",
        "GET /empty-host HTTP/1.1\r\nHost:\r\n\r\n",
        "DELETE /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    ] {
        assert_eq!(forwarded(request).replace("Host: \r", "Host:\r"), request);
    }
}

#[test]
fn what_is_for_one_hop_only_is_not_passed_on() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n\
                   Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: gzip\r\n\
                   X-End: 1\r\n\r\n";
    let expected = "GET / HTTP/1.1\r\nHost: a\r\nX-End: 1\r\n\r\n";
    assert_eq!(forwarded(request), expected);
    let lines = "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\
                 Upgrade: h2c\r\n";
    let answer = format!("{OK}{lines}X-End: 1\r\nContent-Length: 2\r\n\r\nhi");
    let expected = format!("{OK}X-End: 1\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(answered_text(GET, answer), expected);
}

#[test]
fn absolute_target_becomes_path_and_host() {
    let request = "GET http://b.example:81/x?y HTTP/1.1\r\nHost: b.example:81\r\nX: 1\r\n\r\n";
    let expected = "GET /x?y HTTP/1.1\r\nX: 1\r\nhost: b.example:81\r\n\r\n";
    assert_eq!(forwarded(request), expected);
    let request = "OPTIONS http://b.example HTTP/1.1\r\nHost: b.example\r\n\r\n";
    assert_eq!(
        forwarded(request),
        "OPTIONS * HTTP/1.1\r\nhost: b.example\r\n\r\n"
    );
}

#[test]
fn answers_pass_as_they_were_written() {
    for answer in [
        "HTTP/1.1 200 OK\r\nSERVER: x\r\nset-cookie: a=1\r\nSet-Cookie: b=2; Path=/\r\n\
         X-Empty: \r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 Everything is fine\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 not found\r\nX: \"a, b\"\tc\r\ncontent-length: 1\r\n\r\nx",
        "HTTP/1.1 599 Of our own\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nDate: today\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 100\r\n\r\n",
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
    ] {
        assert_eq!(answered_text(GET, answer), answer);
    }
}

#[test]
fn head_is_answered_without_a_body_but_with_its_length() {
    let head = "HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n";
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nX: 1\r\n\r\n";
    assert_eq!(answered_text(head, answer), answer);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: 1\r\n\r\n";
    let received = answered_text(head, chunked);
    assert!(
        received.starts_with(OK) && received.ends_with("\r\n\r\n"),
        "{received}"
    );
    assert!(!received.contains("Content-Length"), "{received}");
}

#[test]
fn interim_answers_come_before_the_final_one() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    let answer = format!("{hints}{hints}{OK}Content-Length: 2\r\n\r\nhi");
    assert_eq!(answered_text(GET, &answer), answer);
}

#[test]
fn expectation_is_answered_by_the_application() {
    let script = vec![
        Step::ReadHead,
        Step::send("HTTP/1.1 100 Continue\r\n\r\n"),
        Step::ReadBytes(5),
        Step::answer("thanks"),
        Step::ReadEnd,
    ];
    let pair = scripted(vec![script]);
    let mut client = pair.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    client.expect("HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    assert_eq!(client.response().text(), "thanks");
    assert!(
        pair.app
            .received_text(0)
            .contains("Expect: 100-continue\r\n")
    );
}

#[test]
fn refused_expectation_needs_no_body() {
    let answer = "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n";
    let script = vec![Step::ReadHead, Step::send(answer), Step::ReadEnd];
    let pair = scripted(vec![script]);
    let mut client = pair.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(client.response().status(), 417);
}

#[test]
fn f10_old_client_gets_no_chunks() {
    let old = "GET / HTTP/1.0\r\n\r\n";
    let chunked = format!("{OK}Transfer-Encoding: chunked\r\nX: 1\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    let expected = format!("{OK}X: 1\r\nconnection: close\r\n\r\nabc");
    assert_eq!(answered_text(old, &chunked), expected);
    let until_close = format!("{OK}X: 1\r\n\r\nabc");
    let pair = scripted(vec![vec![Step::ReadRequest, Step::send(until_close)]]);
    let mut client = pair.client();
    client.send(old);
    let (bytes, end) = client.read_to_end();
    assert_eq!(String::from_utf8_lossy(&bytes), expected);
    assert_eq!(end, End::Closed);
    let length = format!("{OK}Content-Length: 3\r\n\r\nabc");
    let expected = format!("{OK}Content-Length: 3\r\nconnection: close\r\n\r\nabc");
    assert_eq!(answered_text(old, length), expected);
}

#[test]
fn old_client_that_asks_keeps_its_connection() {
    let pair = echo();
    let mut client = pair.client();
    for _ in 0..3 {
        client.send("GET /bytes/3 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let answer = client.response();
        assert_eq!(answer.text(), "xxx");
        assert_eq!(answer.header("connection"), Some("keep-alive"));
    }
    assert_eq!(pair.app.connection_count(), 1);
}

#[test]
fn application_is_told_that_a_request_was_old() {
    assert_eq!(
        forwarded("GET /x HTTP/1.0\r\nUser-Agent: ab\r\nConnection: keep-alive\r\n\r\n"),
        "GET /x HTTP/1.1\r\nUser-Agent: ab\r\nhost: \r\n\r\n"
    );
}

#[test]
fn answer_until_close_ends_as_a_message() {
    let script = vec![
        Step::ReadRequest,
        Step::send(format!("{OK}X: 1\r\n\r\nall of it")),
    ];
    let pair = scripted(vec![script]);
    let mut client = pair.client();
    assert_eq!(client.ask(GET).text(), "all of it");
    assert_eq!(client.ask(GET).text(), "all of it");
    assert_eq!(pair.app.connection_count(), 2);
}

#[test]
fn connections_of_both_outer_sides_are_kept() {
    let pair = echo();
    let mut client = pair.client();
    for number in 0..20 {
        assert_eq!(
            client.post("/", format!("{number}")).text(),
            number.to_string()
        );
    }
    assert_eq!(pair.app.connection_count(), 1);
    assert!((pair.hop_connections() - 1.0).abs() < 0.5);
}

#[test]
fn closing_concerns_one_connection_only() {
    let pair = echo();
    for _ in 0..3 {
        let mut client = pair.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(client.response().header("connection"), Some("close"));
        assert_eq!(client.read_to_end(), (vec![], End::Closed));
    }
    assert_eq!(pair.app.connection_count(), 1);
    let mut client = pair.client();
    for _ in 0..3 {
        // The application closes its connection; the client's stays.
        assert_eq!(client.get("/close").header("connection"), None);
    }
    assert!((pair.hop_connections() - 1.0).abs() < 0.5);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let pair = echo();
    let mut client = pair.client();
    let one = |n: usize| format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n{n}");
    client.send((0..9).map(one).collect::<String>());
    for number in 0..9 {
        assert_eq!(client.response().text(), number.to_string());
    }
}

#[test]
fn reason_of_an_error_is_the_sidecars_own() {
    let pair = answering("nonsense\r\n\r\n");
    let answer = pair.client().ask(GET);
    assert_eq!(
        (answer.status(), &*answer.start),
        (502, "HTTP/1.1 502 Bad Gateway")
    );
}
