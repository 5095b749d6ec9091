//! Bodies in every framing, of every size and cut anywhere.

use crate::world::{answering, chunked, echo, forwarded, pattern, scripted};
use testkit::client::End;
use testkit::{Step, until};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nhost: a\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\n";
const CHUNKED: &str = "transfer-encoding: chunked\r\n\r\n";
const LARGE: usize = 10 * 1024 * 1024;

#[track_caller]
fn same(body: &[u8], expected: &[u8]) {
    let differs = body.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(
        (body.len(), differs),
        (expected.len(), None),
        "length, first difference"
    );
}

#[test]
fn chunks_and_trailers_of_a_request_pass_as_they_are() {
    let chunks = "5;name=\"v\"\r\nhello\r\n0000A\r\n0123456789\r\n0\r\nX-Sum: 1\r\nx-b:\r\n\r\n";
    let request = format!("{POST}Trailer: X-Sum\r\n{CHUNKED}{chunks}");
    assert_eq!(forwarded(&request), request);
}

#[test]
fn chunks_and_trailers_of_an_answer_pass_as_they_are() {
    let chunks = "5;a\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 1\r\ngrpc-status: 0\r\n\r\n";
    let answer = format!("{OK}trailer: X-Sum\r\n{CHUNKED}{chunks}");
    let world = answering(&answer);
    let mut client = world.client();
    client.send(GET);
    client.expect(answer);
}

#[test]
fn close_delimited_answer_ends_with_the_connection() {
    let body = pattern(100_000);
    let script = vec![
        Step::ReadRequest,
        Step::send(format!("{OK}x: 1\r\n\r\n")),
        Step::send(&body),
    ];
    let world = scripted(vec![script]);
    let mut client = world.client();
    client.send(GET);
    client.expect(format!("{OK}x: 1\r\nconnection: close\r\n\r\n"));
    let (received, end) = client.read_to_end();
    same(&received, &body);
    assert_eq!(end, End::Closed);
    world.flagged("-", 1.0);
}

#[test]
fn large_bodies_with_a_length_pass_whole_both_ways() {
    let (world, body) = (echo(), pattern(LARGE));
    let mut client = world.client();
    for size in [1400, 65_536, 1_000_003, LARGE] {
        client.send(format!("{POST}content-length: {LARGE}\r\n\r\n"));
        client.send_in_pieces(size, &body);
        same(&client.response().body, &body);
    }
    assert_eq!(world.upstream.connection_count(), 1);
}

#[test]
fn large_chunked_requests_pass_whole() {
    let (world, body) = (echo(), pattern(LARGE));
    let mut client = world.client();
    for (size, segment) in [(1000, 1460), (16_384, 65_536), (3_000_000, 100_000)] {
        client.send(format!("{POST}{CHUNKED}"));
        client.send_in_pieces(segment, chunked(size, &body));
        same(&client.response().body, &body);
    }
}

#[test]
fn large_chunked_answers_pass_whole() {
    let body = pattern(LARGE);
    for (size, segment) in [(1000, 1460), (16_384, 65_536), (3_000_000, LARGE * 2)] {
        let world = scripted(vec![vec![
            Step::ReadRequest,
            Step::send(format!("{OK}{CHUNKED}")),
            Step::SendInPieces(segment, chunked(size, &body)),
            Step::ReadRequest,
            Step::answer("next"),
        ]]);
        let mut client = world.client();
        same(&client.get("/").body, &body);
        assert_eq!(client.get("/").text(), "next");
    }
}

#[test]
fn large_close_delimited_answer_passes_whole() {
    let body = pattern(LARGE);
    let steps = [
        Step::send(format!("{OK}\r\n")),
        Step::SendInPieces(70_000, body.clone()),
    ];
    let world = scripted(vec![[vec![Step::ReadRequest], steps.to_vec()].concat()]);
    same(&world.client().get("/").body, &body);
}

#[test]
fn message_that_trickles_byte_by_byte_passes() {
    let world = echo();
    let mut client = world.client();
    for body in [
        "content-length: 5\r\n\r\nhello",
        "transfer-encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n\
         3\r\nllo\r\n0\r\nx-sum: 1\r\n\r\n",
    ] {
        client.send_in_pieces(1, format!("{POST}{body}"));
        assert_eq!(client.response().text(), "hello");
    }
}

#[test]
fn answer_that_trickles_byte_by_byte_passes() {
    let chunks = "2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nx-sum: 1\r\n\r\n";
    let answers = [
        format!("{OK}content-length: 5\r\n\r\nhello"),
        format!("HTTP/1.1 103 Early Hints\r\n\r\n{OK}{CHUNKED}{chunks}"),
    ];
    let steps = answers.iter().flat_map(|answer| {
        [
            Step::ReadRequest,
            Step::SendInPieces(1, answer.clone().into_bytes()),
        ]
    });
    let world = scripted(vec![steps.collect()]);
    let mut client = world.client();
    for answer in answers {
        client.send(GET);
        client.expect(answer);
    }
}

#[test]
fn very_many_tiny_chunks_pass() {
    let (world, body) = (echo(), pattern(100_000));
    let mut client = world.client();
    client.send(format!("{POST}{CHUNKED}"));
    client.send(chunked(1, &body));
    same(&client.response().body, &body);
}

#[test]
fn beginning_of_an_answer_arrives_before_its_end_exists() {
    for part in [
        "content-length: 10\r\n\r\nhello",
        "\r\nhello",
        "transfer-encoding: chunked\r\n\r\n5\r\nhello",
    ] {
        let steps = vec![
            Step::ReadRequest,
            Step::send(format!("{OK}{part}")),
            Step::Stall,
        ];
        let world = scripted(vec![steps]);
        let mut client = world.client();
        client.send(GET);
        let head = client.try_response("HEAD").unwrap();
        assert_eq!(head.status(), 200);
        client.expect(part.split("\r\n\r\n").nth(1).unwrap_or("hello"));
    }
}

#[test]
fn beginning_of_a_request_arrives_before_its_end_exists() {
    let world = scripted(vec![vec![Step::ReadRequest, Step::answer("ok")]]);
    let mut client = world.client();
    let half = format!("{POST}{CHUNKED}5\r\nhel");
    client.send(&half);
    until("the first half is there", || {
        world.upstream.received_text(0) == half
    });
    assert_eq!(client.ask("lo\r\n0\r\n\r\n").text(), "ok");
}

#[test]
fn answer_may_begin_before_the_request_ends() {
    let world = scripted(vec![vec![
        Step::ReadHead,
        Step::send(format!("{OK}{CHUNKED}5\r\nhello\r\n")),
        Step::ReadUntil(b"0\r\n\r\n".to_vec()),
        Step::send("0\r\n\r\n"),
        Step::ReadRequest,
        Step::answer("next"),
    ]]);
    let mut client = world.client();
    client.send(format!("{POST}{CHUNKED}1\r\na\r\n"));
    client.expect(format!("{OK}{CHUNKED}5\r\nhello\r\n"));
    client.send("1\r\nb\r\n0\r\n\r\n");
    client.expect("0\r\n\r\n");
    assert_eq!(client.get("/").text(), "next");
}

/// An upstream that refuses a body after its head, and then does this.
#[track_caller]
fn check_early_refusal(then: Step) {
    let refusal =
        "HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nno\n";
    let world = scripted(vec![vec![Step::ReadHead, Step::send(refusal), then]]);
    let mut client = world.client();
    client.send(format!("{POST}content-length: {LARGE}\r\n\r\n"));
    client.send(pattern(1000));
    let answer = client.response();
    assert_eq!((answer.status(), answer.text().as_str()), (413, "no\n"));
    // The rest of the body could not be told from a request.
    let _ = client.try_send(pattern(100_000));
    client.read_to_end();
    world.flagged("-", 1.0);
}

#[test]
fn early_refusal_of_a_body_reaches_the_client_and_closes() {
    check_early_refusal(Step::ReadEnd);
}

#[test]
fn early_refusal_by_an_upstream_that_closes_reaches_the_client() {
    check_early_refusal(Step::HalfClose);
    check_early_refusal(Step::ReadBytes(0));
}

#[test]
fn half_sent_request_is_never_completed_for_the_upstream() {
    let part = [
        "content-length: 10\r\n\r\nhello",
        "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ];
    for part in part {
        let world = scripted(vec![vec![Step::ReadHead, Step::ReadEnd]]);
        let mut client = world.client();
        client.send(format!("{POST}{part}"));
        client.half_close();
        assert_eq!(client.read_to_end().0, b"");
        let received = world.upstream.finished(0).received;
        assert_eq!(
            String::from_utf8(received).unwrap(),
            format!("{POST}{part}")
        );
        world.flagged("DC", 1.0);
    }
}
