//! Clients and upstreams of HTTP/1.0.

use crate::world::{answering, echo, forwarded, scripted};
use testkit::Step;
use testkit::client::End;

const OK: &str = "HTTP/1.1 200 OK\r\n";

#[test]
fn client_of_http10_is_answered_and_closed() {
    let world = echo();
    let mut client = world.client();
    let answer = client.ask("POST / HTTP/1.0\r\ncontent-length: 5\r\n\r\nhello");
    assert_eq!((answer.status(), answer.text().as_str()), (200, "hello"));
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(client.read_to_end(), (vec![], End::Closed));
}

#[test]
fn client_of_http10_may_keep_its_connection() {
    let world = echo();
    let mut client = world.client();
    for _ in 0..3 {
        let request = "GET /bytes/3 HTTP/1.0\r\nConnection: Keep-Alive\r\nhost: a\r\n\r\n";
        let answer = client.ask(request);
        assert_eq!(answer.text(), "xxx");
        assert_eq!(answer.header("connection"), Some("keep-alive"));
    }
    assert_eq!(
        client.ask("GET / HTTP/1.0\r\n\r\n").header("connection"),
        Some("close")
    );
    assert_eq!(client.read_to_end(), (vec![], End::Closed));
    assert_eq!(world.upstream.connection_count(), 1);
}

#[test]
fn request_of_http10_goes_upstream_as_http11() {
    let received = forwarded("GET /a HTTP/1.0\r\nHost: a\r\nX-1: 1\r\n\r\n");
    assert_eq!(received, "GET /a HTTP/1.1\r\nHost: a\r\nX-1: 1\r\n\r\n");
    // HTTP/1.1 demands a Host, and an empty one where there is no authority.
    let received = forwarded("GET /a HTTP/1.0\r\nX-1: 1\r\n\r\n");
    assert_eq!(received, "GET /a HTTP/1.1\r\nX-1: 1\r\nhost: \r\n\r\n");
}

#[test]
fn chunked_answer_is_unchunked_for_http10() {
    let chunks = "transfer-encoding: chunked\r\ntrailer: x-sum\r\nx: 1\r\n\r\n\
                  5;ext=1\r\nhello\r\n6\r\n world\r\n0\r\nx-sum: 1\r\n\r\n";
    for keep in ["", "connection: keep-alive\r\n"] {
        let world = answering(format!("{OK}{chunks}"));
        let mut client = world.client();
        client.send(format!("GET / HTTP/1.0\r\n{keep}\r\n"));
        let (answer, end) = client.read_to_end();
        let expected = format!("{OK}x: 1\r\nconnection: close\r\n\r\nhello world");
        assert_eq!(
            (String::from_utf8(answer).unwrap(), end),
            (expected, End::Closed)
        );
    }
}

#[test]
fn cut_chunked_answer_is_a_reset_for_http10() {
    let chunks = "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let script = vec![Step::ReadHead, Step::send(format!("{OK}{chunks}"))];
    let world = scripted(vec![script]);
    let mut client = world.client();
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.read_to_end().1, End::Reset);
    world.flagged("UC", 1.0);
}

#[test]
fn interim_answers_are_kept_from_http10() {
    let answer = format!(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n\
         {OK}content-length: 2\r\n\r\nok"
    );
    let world = answering(answer);
    let mut client = world.client();
    client.send("GET / HTTP/1.0\r\n\r\n");
    client.expect(format!(
        "{OK}content-length: 2\r\nconnection: close\r\n\r\nok"
    ));
}

#[test]
fn answer_of_http10_is_passed_as_http11() {
    let world = answering("HTTP/1.0 200 Fine\r\nX-1: 1\r\nContent-Length: 2\r\n\r\nok");
    let mut client = world.client();
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    client.expect("HTTP/1.1 200 Fine\r\nX-1: 1\r\nContent-Length: 2\r\n\r\nok");
}

#[test]
fn connection_to_an_upstream_of_http10_is_used_again_only_if_it_says_so() {
    let answer = |keep: &str| format!("HTTP/1.0 200 OK\r\n{keep}content-length: 1\r\n\r\n1");
    let world = scripted(vec![
        vec![
            Step::ReadRequest,
            Step::send(answer("connection: keep-alive\r\n")),
            Step::ReadRequest,
            Step::send(answer("")),
            Step::ReadEnd,
        ],
        vec![Step::ReadRequest, Step::answer("2"), Step::ReadEnd],
    ]);
    let mut client = world.client();
    let answers = ["/1", "/2", "/3"].map(|path| client.get(path).text());
    assert_eq!(answers, ["1", "1", "2"]);
    world.upstream.finished(0);
}
