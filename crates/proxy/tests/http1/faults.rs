//! What a client sees when its upstream fails: a 502 before the answer, a cut after.

use crate::world::{World, scripted};
use testkit::client::End;
use testkit::{ScriptedUpstream, Step};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\n";

/// An upstream that sends this after a request and then ends like that.
fn breaking(answer: impl AsRef<[u8]>, end: &[Step]) -> World<ScriptedUpstream> {
    scripted(vec![
        [&[Step::ReadRequest, Step::send(answer)], end].concat(),
    ])
}

#[test]
fn upstream_that_ends_before_its_answer_is_a_502() {
    let part = "HTTP/1.1 200 OK\r\ncontent-le";
    for (answer, end) in [
        ("", &[][..]),
        ("", &[Step::Reset]),
        (part, &[]),
        (part, &[Step::Reset]),
    ] {
        let world = breaking(answer, end);
        let mut client = world.client();
        for count in [1.0, 2.0] {
            let received = client.get("/");
            assert_eq!(
                (received.status(), received.header("connection")),
                (502, None),
                "{answer}"
            );
            world.flagged("UC", count);
        }
    }
}

#[test]
fn upstream_that_ends_after_an_interim_answer_is_a_502() {
    let world = breaking("HTTP/1.1 103 Early Hints\r\n\r\n", &[]);
    let mut client = world.client();
    client.send(GET);
    assert_eq!(client.response().status(), 103);
    assert_eq!(client.response().status(), 502);
    world.flagged("UC", 1.0);
}

/// The upstream ends amid its body: the client has exactly what came, and knows that it is a part.
#[track_caller]
fn check_cut(answer: &str, passed: &str, end: &[Step]) {
    let world = breaking(format!("{OK}{answer}"), end);
    let mut client = world.client();
    client.send(GET);
    client.expect(format!("{OK}{passed}"));
    assert_eq!(client.read_to_end(), (vec![], End::Reset), "{answer}");
    world.flagged("UC", 1.0);
}

#[test]
fn upstream_that_ends_amid_a_counted_body_cuts_the_client() {
    let part = "content-length: 10\r\n\r\nhello";
    check_cut(part, part, &[]);
}

#[test]
fn upstream_that_ends_amid_chunks_never_becomes_a_last_chunk() {
    for part in [
        "5\r\nhello\r\n",
        "5\r\nhel",
        "5\r\nhello\r\n0\r\n",
        "5\r\nhello\r\n0\r\nx: y\r\n",
    ] {
        let answer = format!("transfer-encoding: chunked\r\n\r\n{part}");
        check_cut(&answer, &answer, &[]);
    }
}

#[test]
fn reset_amid_a_body_is_a_reset_for_the_client() {
    let counted = "content-length: 10\r\n\r\nhello";
    let chunked = "transfer-encoding: chunked\r\n\r\n5\r\nhel";
    for part in [counted, chunked] {
        let part = format!("{OK}{part}");
        let world = breaking_later(&part, &[Step::Reset]);
        assert_eq!(watch(&world, &part), (vec![], End::Reset));
        world.flagged("UC", 1.0);
    }
}

#[test]
fn reset_of_a_close_delimited_answer_is_not_its_end() {
    let world = breaking_later(&format!("{OK}\r\nhello"), &[Step::Reset]);
    let beginning = format!("{OK}connection: close\r\n\r\nhello");
    assert_eq!(watch(&world, &beginning), (vec![], End::Reset));
    world.flagged("UC", 1.0);
}

/// Answers that do not even begin well.
const GARBAGE: &[&str] = &[
    "garbage\r\n\r\n",
    "\0\0\0\0\0\0\0\0",
    "HTTP/2.0 200 OK\r\n\r\n",
    "HTTP/1.1 20 OK\r\n\r\n",
    "HTTP/1.1 200 OK\ncontent-length: 0\n\n",
    "SSH-2.0-OpenSSH_9.2\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: a\r\nconnection: upgrade\r\n\r\n",
];

/// Lines that no answer may have.
const BROKEN_LINES: &[&str] = &[
    "content-length: 5\r\ncontent-length: 6",
    "content-length: 5\r\ntransfer-encoding: chunked",
    "content-length: -5",
    "transfer-encoding: gzip, chunked",
    "a: b\r\n folded: c\r\ncontent-length: 5",
    "a : b\r\ncontent-length: 5",
    "a: \0\r\ncontent-length: 5",
];

/// The answer is replaced by a 502, and its connection is not used again.
#[track_caller]
fn check_refused(answer: &str) {
    let world = breaking(answer, &[Step::ReadEnd]);
    let received = world.client().ask(GET);
    assert_eq!(
        (received.status(), received.header("connection")),
        (502, None),
        "{answer:.99}"
    );
    world.upstream.finished(0);
    world.flagged("UPE", 1.0);
}

#[test]
fn answer_that_breaks_the_protocol_is_a_502() {
    GARBAGE.iter().for_each(|answer| check_refused(answer));
    let lines = |lines: &str| check_refused(&format!("{OK}{lines}\r\n\r\nhello"));
    BROKEN_LINES.iter().for_each(|broken| lines(broken));
    lines(&"x: y\r\n".repeat(201));
    lines(&format!("x: {}", "y".repeat(70_000)));
}

/// The beginning of an answer, then this when it has arrived.
fn breaking_later(beginning: &str, then: &[Step]) -> World<ScriptedUpstream> {
    let wait = Step::ReadUntil(b"go".to_vec());
    let steps = [&[Step::ReadHead, Step::send(beginning), wait], then].concat();
    scripted(vec![steps])
}

/// The client has the beginning for sure when the rest comes; says what came after, and how the
/// connection ended.
fn watch(world: &World<ScriptedUpstream>, beginning: &str) -> (Vec<u8>, End) {
    let mut client = world.client();
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n");
    client.expect(beginning);
    client.send("go");
    client.read_to_end()
}

#[test]
fn broken_chunks_of_an_answer_cut_the_client() {
    let head = format!("{OK}transfer-encoding: chunked\r\n\r\n");
    let trailer = "0\r\ncontent-length: 1\r\n\r\n";
    for chunks in [
        "x\r\n",
        "5\r\nhelloX",
        "-1\r\n\r\n",
        "5\nhello\r\n",
        trailer,
    ] {
        let world = breaking_later(&head, &[Step::send(chunks), Step::ReadEnd]);
        let (rest, end) = watch(&world, &head);
        assert!(!rest.ends_with(b"\r\n\r\n"), "{chunks:?}: {rest:?}");
        assert_eq!(end, End::Reset, "{chunks:?}");
        world.flagged("UPE", 1.0);
    }
}

const EVIL: &str = "GET /evil HTTP/1.1\r\nhost: a\r\n\r\n";

/// A request whose body is another one, and whose head has this length.
fn wrapped(head_bytes: usize) -> String {
    let length = EVIL.len();
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\nx: ");
    let padding = "x".repeat(head_bytes - head.len() - 4);
    format!("{head}{padding}\r\n\r\n{EVIL}")
}

#[test]
fn failed_upload_does_not_lose_step_with_what_follows() {
    let world = scripted(vec![
        vec![Step::ReadHead, Step::ReadBytes(4)],
        vec![Step::ReadRequest, Step::answer("second"), Step::ReadEnd],
    ]);
    let first = "POST / HTTP/1.1\r\nhost: a\r\nx-first: of a length that hides the second's\r\n\
                 content-length: 4\r\n\r\n";
    let mut client = world.client();
    client.send(first);
    testkit::until("it arrives", || world.upstream.received_text(0) == first);
    // If the first were taken to stand where the second does, the second's body would be next.
    client.send(format!("body{}", wrapped(first.len() + 4)));
    assert_eq!(client.response().status(), 502);
    client.read_to_end();
    assert_eq!(world.upstream.received_text(1), "");
}

#[test]
fn upstream_that_fails_does_not_disturb_others() {
    let world = scripted(vec![
        vec![
            Step::ReadRequest,
            Step::send(format!("{OK}content-length: 5\r\n\r\nhe")),
            Step::Stall,
        ],
        vec![Step::ReadRequest, Step::Reset],
        vec![
            Step::ReadRequest,
            Step::answer("good"),
            Step::ReadRequest,
            Step::answer("again"),
        ],
    ]);
    let mut waiting = world.client();
    waiting.send(GET);
    waiting.expect(format!("{OK}content-length: 5\r\n\r\nhe"));
    assert_eq!(world.client().get("/").status(), 502);
    assert_eq!(world.client().get("/").text(), "good");
    assert_eq!(world.client().get("/").text(), "again");
}
