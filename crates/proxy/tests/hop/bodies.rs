//! Bodies over the hop: every size and framing, trailers, and answers that do not wait.

use crate::world::{GET, answering, echo, pattern, same, scripted};
use testkit::Step;

const OK: &str = "HTTP/1.1 200 OK\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
/// Around the sizes of frames, windows and buffers.
const SIZES: [usize; 12] = [
    0, 1, 2, 4095, 4096, 16_383, 16_384, 16_385, 65_535, 65_536, 100_000, 3_000_000,
];

fn chunks(size: usize, body: &[u8], trailers: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in body.chunks(size) {
        out.extend(format!("{:X}\r\n", chunk.len()).into_bytes());
        out.extend([chunk, b"\r\n"].concat());
    }
    out.extend(format!("0\r\n{trailers}\r\n").into_bytes());
    out
}

#[test]
fn bodies_of_every_size_pass_both_ways() {
    let pair = echo();
    let mut client = pair.client();
    for size in SIZES {
        let body = pattern(size);
        same(&client.post("/", &body).body, &body);
        let head = format!("{POST}{CHUNKED}\r\n");
        client.send([head.as_bytes(), &chunks(size.max(1), &body, "")].concat());
        same(&client.response().body, &body);
        same(
            &client.get(&format!("/bytes/{size}")).body,
            &vec![b'x'; size],
        );
    }
    assert_eq!(pair.app.connection_count(), 1);
}

#[test]
fn bodies_in_many_small_chunks_pass() {
    let (pair, body) = (echo(), pattern(50_000));
    let mut client = pair.client();
    client.send(format!("{POST}{CHUNKED}\r\n"));
    client.send_in_pieces(999, chunks(7, &body, ""));
    same(&client.response().body, &body);
}

#[test]
fn trailers_of_a_request_arrive() {
    for body in [&b""[..], b"hello"] {
        let script = vec![Step::ReadRequest, Step::answer("ok"), Step::ReadEnd];
        let pair = scripted(vec![script]);
        let head = format!("{POST}Trailer: X-Sum\r\n{CHUNKED}\r\n");
        let rest = chunks(3, body, "X-Sum: 1\r\nx-Two: a b\r\n");
        let mut client = pair.client();
        assert_eq!(client.ask([head.as_bytes(), &rest].concat()).text(), "ok");
        let received = pair.app.received_text(0);
        assert!(
            received.ends_with("0\r\nX-Sum: 1\r\nx-Two: a b\r\n\r\n"),
            "{received}"
        );
    }
}

#[test]
fn trailers_of_an_answer_arrive() {
    for body in [&b""[..], b"hello"] {
        let head = format!("{OK}Trailer: X-Sum\r\n{CHUNKED}\r\n");
        let rest = chunks(3, body, "X-Sum: 1\r\nx-Two: a b\r\n");
        let pair = answering([head.as_bytes(), &rest].concat());
        let answer = pair.client().ask(GET);
        assert_eq!(answer.body, body);
        let names: Vec<_> = answer.trailers.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["X-Sum", "x-Two"]);
    }
}

#[test]
fn trailers_that_would_change_a_message_do_not_arrive() {
    let rest = chunks(3, b"hello", "Content-Length: 1\r\nX-Sum: 1\r\n");
    let head = format!("{OK}{CHUNKED}\r\n");
    let pair = answering([head.as_bytes(), &rest].concat());
    let mut client = pair.client();
    client.send(GET);
    if let Ok(answer) = client.try_response("GET") {
        assert_eq!(answer.text(), "hello");
        assert!(
            answer.trailers.iter().all(|(name, _)| name == "X-Sum"),
            "{answer:?}"
        );
    }
}

#[test]
fn large_answer_with_a_length_to_a_slow_reader_is_whole() {
    let (pair, body) = (echo(), pattern(8_000_000));
    let mut client = pair.client();
    let head = format!("{POST}Content-Length: {}\r\n\r\n", body.len());
    let mut other = pair.client();
    std::thread::scope(|scope| {
        let mut writing = client.stream().try_clone().unwrap();
        let (head, sent) = (head.as_bytes(), &body);
        scope.spawn(move || {
            std::io::Write::write_all(&mut writing, &[head, sent].concat()).unwrap();
        });
        // Others are served while it waits for its reader.
        for _ in 0..20 {
            assert_eq!(other.get("/bytes/100").body.len(), 100);
        }
        same(&client.response().body, &body);
    });
}

#[test]
fn body_with_a_length_arrives_piece_by_piece() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
    let script = vec![
        Step::ReadHead,
        Step::ReadBytes(5),
        Step::send(format!("{OK}Content-Length: 10\r\n\r\nfirst")),
        Step::ReadBytes(5),
        Step::send("later"),
        Step::ReadEnd,
    ];
    let pair = scripted(vec![script]);
    let mut client = pair.client();
    client.send(head);
    client.send("12345");
    client.expect(format!("{OK}Content-Length: 10\r\n\r\nfirst"));
    client.send("67890");
    client.expect("later");
    assert_eq!(pair.app.received_text(0), format!("{head}1234567890"));
}

#[test]
fn answer_may_come_before_the_body_is_through() {
    let answer = format!("{OK}Content-Length: 4\r\n\r\nstop");
    let script = vec![Step::ReadHead, Step::send(&answer), Step::Stall];
    let pair = scripted(vec![script]);
    let mut client = pair.client();
    client.send(format!("{POST}Content-Length: 1000000\r\n\r\nsome of it"));
    assert_eq!(client.response().text(), "stop");
    // What of the body still comes belongs to nobody: that connection is over, others are not.
    client.read_to_end();
    assert_eq!(pair.client().ask(GET).text(), "stop");
}

#[test]
fn client_that_leaves_amid_its_body_is_seen_by_the_application() {
    let script = vec![Step::ReadHead, Step::ReadBytes(4), Step::ReadEnd];
    let pair = scripted(vec![script]);
    let mut client = pair.client();
    client.send(format!("{POST}Content-Length: 100\r\n\r\nsome"));
    testkit::until("it arrives", || pair.app.received_text(0).ends_with("some"));
    drop(client);
    pair.app.finished(0);
}

#[test]
fn application_that_dies_amid_its_answer_is_seen_by_the_client() {
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let script = vec![
            Step::ReadRequest,
            Step::send(format!("{OK}{head}\r\n\r\n4\r\n")),
        ];
        let pair = scripted(vec![script]);
        let mut client = pair.client();
        client.send(GET);
        let error = client.try_response("GET").unwrap_err();
        assert!(
            !matches!(error.kind(), std::io::ErrorKind::TimedOut),
            "{error:?}"
        );
    }
}
