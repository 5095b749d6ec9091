//! Pairs of sidecars in front of an echo server or a script. Used by every file of this program.

use testkit::pair::{App, Pair};
use testkit::{EchoServer, RawClient, ScriptedUpstream, Sidecar, Step};

/// The program under test.
pub(crate) const PROXY: &str = env!("CARGO_BIN_EXE_leno-proxy");

pub(crate) const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// In front of an echo server.
#[track_caller]
pub(crate) fn echo() -> Pair<EchoServer> {
    Pair::start(PROXY, EchoServer::start())
}

/// In front of an upstream that plays a script on each connection, the last one on all further.
#[track_caller]
pub(crate) fn scripted(scripts: Vec<Vec<Step>>) -> Pair<ScriptedUpstream> {
    Pair::start(PROXY, ScriptedUpstream::start(scripts))
}

/// In front of an upstream that reads one whole request and then sends this.
#[track_caller]
pub(crate) fn answering(answer: impl AsRef<[u8]>) -> Pair<ScriptedUpstream> {
    scripted(vec![vec![
        Step::ReadRequest,
        Step::send(answer),
        Step::ReadEnd,
    ]])
}

/// With the same lines of the listener on both sides.
#[track_caller]
pub(crate) fn listening<A: App>(app: A, line: &str) -> Pair<A> {
    let with = |sidecar: Sidecar| sidecar.listener(line);
    Pair::start_with(PROXY, app, with, with)
}

/// What the application receives of a request.
#[track_caller]
pub(crate) fn forwarded(request: impl AsRef<[u8]>) -> String {
    let script = vec![Step::ReadRequest, Step::answer("ok"), Step::ReadEnd];
    let pair = scripted(vec![script]);
    let answer = pair.client().ask(request);
    assert_eq!(
        (answer.status(), &*answer.text()),
        (200, "ok"),
        "{answer:?}"
    );
    pair.app.received_text(0)
}

/// Everything that a client receives of an answer to this request.
#[track_caller]
pub(crate) fn answered(request: &str, answer: impl AsRef<[u8]>) -> Vec<u8> {
    let pair = answering(answer);
    let mut client = pair.client();
    client.send(request);
    client.half_close();
    client.read_to_end().0
}

/// As [`answered`], as text.
#[track_caller]
pub(crate) fn answered_text(request: &str, answer: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(&answered(request, answer)).into_owned()
}

/// Waits until a client's side has counted so many requests with this flag.
#[track_caller]
pub(crate) fn flagged<A: App>(pair: &Pair<A>, flag: &str, count: f64) {
    let labels = [("flag", flag)];
    pair.outbound
        .metric_becomes("leno_requests_total", &labels, count);
}

/// Bytes that repeat only after a long while, so that what is lost or doubled shows.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at / 251 + at) % 251).unwrap();
    (0..length).map(byte).collect()
}

/// Compares long bodies without printing them.
#[track_caller]
pub(crate) fn same(body: &[u8], expected: &[u8]) {
    let differs = body.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(
        (body.len(), differs),
        (expected.len(), None),
        "length, first difference"
    );
}

/// A client that has been served once, so that all connections behind it are there.
#[track_caller]
pub(crate) fn warm<A: App>(pair: &Pair<A>) -> RawClient {
    let mut client = pair.client();
    assert_eq!(client.get("/").status(), 200);
    client
}
