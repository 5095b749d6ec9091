//! WebSocket and other protocols that take a connection over: asked for over HTTP/1 or HTTP/2,
//! carried over the hop, agreed on by the application alone.

use crate::frames::{DATA, END_STREAM, Frames};
use crate::world::{PROXY, flagged, listening, pattern, same, scripted};
use testkit::client::End;
use testkit::{Pair, RawClient, ScriptedUpstream, Step, until};

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
     Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\
     Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
     Sec-WebSocket-Version: 13\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno";

/// An application that agrees, and greets.
fn agreeing(then: Vec<Step>) -> Vec<Vec<Step>> {
    let mut script = vec![Step::ReadHead, Step::send(SWITCH)];
    script.extend(then);
    vec![script]
}

/// Reads the head of an answer by which the protocol changes.
#[track_caller]
fn switched(client: &mut RawClient) {
    let answer = client.response();
    assert_eq!(answer.status(), 101, "{answer:?}");
    assert_eq!(answer.start, "HTTP/1.1 101 Switching Protocols");
    let accept = answer
        .headers
        .iter()
        .find(|(name, _)| name == "Sec-WebSocket-Accept");
    assert_eq!(accept.unwrap().1, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    let upgrade = answer.header("upgrade").unwrap();
    assert!(upgrade.eq_ignore_ascii_case("websocket"), "{answer:?}");
    let connection = answer.header("connection").unwrap();
    assert!(connection.eq_ignore_ascii_case("upgrade"), "{answer:?}");
}

#[test]
fn f08_websocket_is_agreed_on_in_any_case() {
    for (upgrade, connection) in [
        ("Upgrade: websocket", "Connection: Upgrade"),
        ("upgrade: WebSocket", "connection: keep-alive, upgrade"),
        ("UPGRADE: WEBSOCKET", "CONNECTION: UPGRADE"),
    ] {
        let pair = scripted(agreeing(vec![
            Step::send("hi"),
            Step::ReadBytes(3),
            Step::ReadEnd,
        ]));
        let ask = ASK.replace("Upgrade: websocket", upgrade);
        let mut client = pair.client();
        client.send(ask.replace("Connection: Upgrade", connection));
        switched(&mut client);
        client.expect("hi");
        client.send("abc");
        client.half_close();
        pair.app.finished(0);
        let received = pair.app.received_text(0);
        for line in [
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            "Sec-WebSocket-Version: 13\r\n",
            "Host: a\r\n",
        ] {
            assert!(received.contains(line), "{received}");
        }
        let lower = received.to_ascii_lowercase();
        assert!(lower.contains("\r\nupgrade: websocket\r\n"), "{received}");
        assert!(lower.contains("\r\nconnection: upgrade\r\n"), "{received}");
        flagged(&pair, "-", 1.0);
    }
}

#[test]
fn bytes_that_come_with_the_heads_are_not_lost() {
    let script = vec![
        Step::ReadHead,
        Step::send([SWITCH, "greeting"].concat()),
        Step::ReadBytes(5),
        Step::send("bye"),
    ];
    let pair = scripted(vec![script]);
    let mut client = pair.client();
    client.send([ASK, "early"].concat());
    switched(&mut client);
    client.expect("greetingbye");
    assert_eq!(client.read_to_end(), (vec![], End::Closed));
}

#[test]
fn bytes_pass_both_ways_in_any_amount() {
    let body = pattern(2_000_000);
    let script = agreeing(vec![Step::ReadBytes(body.len()), Step::send(&body)]);
    let pair = scripted(script);
    let mut client = pair.client();
    client.send(ASK);
    switched(&mut client);
    client.send(&body);
    same(&client.read_to_end().0, &body);
    let received = pair.app.received(0);
    same(&received[received.len() - body.len()..], &body);
}

#[test]
fn end_of_one_direction_leaves_the_other_open() {
    let pair = scripted(agreeing(vec![Step::ReadEnd, Step::send("after the end")]));
    let mut client = pair.client();
    client.send([ASK, "last words"].concat());
    switched(&mut client);
    client.half_close();
    assert_eq!(
        client.read_to_end(),
        (b"after the end".to_vec(), End::Closed)
    );
    let pair = scripted(agreeing(vec![
        Step::HalfClose,
        Step::ReadBytes(5),
        Step::ReadEnd,
    ]));
    let mut client = pair.client();
    client.send(ASK);
    switched(&mut client);
    assert_eq!(client.read_to_end(), (vec![], End::Closed));
    client.send("still");
    client.half_close();
    pair.app.finished(0);
}

#[test]
fn application_that_resets_is_seen_by_the_client() {
    let pair = scripted(agreeing(vec![Step::ReadBytes(1), Step::Reset]));
    let mut client = pair.client();
    client.send(ASK);
    switched(&mut client);
    client.send("x");
    client.read_to_end();
    testkit::until("nothing is left", || {
        pair.outbound.metric("leno_requests_active", &[]) < 0.5
            && pair.inbound.metric("leno_requests_active", &[]) < 0.5
    });
}

#[test]
fn f07_websocket_outlives_a_reload() {
    let pair = scripted(agreeing(vec![
        Step::send("one"),
        Step::ReadBytes(4),
        Step::send("two"),
        Step::ReadEnd,
    ]));
    let mut client = pair.client();
    client.send(ASK);
    switched(&mut client);
    client.expect("one");
    let changed = |sidecar: &testkit::Sidecar| sidecar.clone().listener("requestId: true").yaml();
    pair.outbound.reconfigure(&changed(&pair.configs.outbound));
    pair.inbound.reconfigure(&changed(&pair.configs.inbound));
    client.send("more");
    client.expect("two");
    client.half_close();
    pair.app.finished(0);
}

#[test]
fn silent_websocket_ends_after_its_time() {
    let app = ScriptedUpstream::start(agreeing(vec![Step::Stall]));
    let brief = |sidecar: testkit::Sidecar| sidecar.with("limits: {tcpIdleTimeout: 1s}");
    let pair = Pair::start_with(PROXY, app, |inbound| inbound, brief);
    let mut client = pair.client();
    client.send(ASK);
    switched(&mut client);
    client.read_to_end();
    flagged(&pair, "SI", 1.0);
}

#[test]
fn f11_other_protocols_are_not_asked_for() {
    for upgrade in ["TLS/1.2", "h2c", "h2c, websocket", "chat/1"] {
        let pair = scripted(vec![vec![Step::ReadRequest, Step::send(OK), Step::ReadEnd]]);
        let lines = format!(
            "Upgrade: {upgrade}\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x\r\n"
        );
        let mut client = pair.client();
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}X: 1\r\n\r\n");
        assert_eq!(client.ask(request).text(), "no");
        let received = pair.app.received_text(0);
        assert_eq!(
            received, "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n",
            "{upgrade}"
        );
    }
}

#[test]
fn any_protocol_may_be_allowed() {
    let app = ScriptedUpstream::start(vec![vec![
        Step::ReadHead,
        Step::send("HTTP/1.1 101 Go\r\nUpgrade: chat/1\r\nConnection: upgrade\r\n\r\nhi"),
        Step::ReadBytes(2),
    ]]);
    let pair = listening(app, "upgrades: [\"*\"]");
    let mut client = pair.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: chat/1\r\nConnection: upgrade\r\n\r\nho");
    let answer = client.response();
    assert_eq!(
        (answer.status(), answer.header("upgrade")),
        (101, Some("chat/1"))
    );
    client.expect("hi");
    assert!(pair.app.finished(0).received.ends_with(b"\r\n\r\nho"));
}

#[test]
fn protocol_that_only_the_clients_side_allows_is_not_asked_for() {
    let app = ScriptedUpstream::start(vec![vec![Step::ReadRequest, Step::send(OK), Step::ReadEnd]]);
    let any = |sidecar: testkit::Sidecar| sidecar.listener("upgrades: [\"*\"]");
    let pair = Pair::start_with(PROXY, app, |inbound| inbound, any);
    let mut client = pair.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: chat/1\r\nConnection: upgrade\r\n\r\n");
    assert_eq!(client.response().text(), "no");
    assert!(!pair.app.received_text(0).contains("chat"));
}

#[test]
fn refusal_is_an_ordinary_answer() {
    let again = vec![
        Step::ReadHead,
        Step::send(OK),
        Step::ReadRequest,
        Step::answer("next"),
        Step::ReadEnd,
    ];
    let pair = scripted(vec![again]);
    let mut client = pair.client();
    client.send(ASK);
    let answer = client.response();
    assert_eq!((answer.status(), &*answer.text()), (200, "no"));
    assert_eq!(client.get("/").text(), "next");
    flagged(&pair, "-", 2.0);
}

#[test]
fn protocol_that_nobody_asked_for_is_an_error() {
    let pair = scripted(agreeing(vec![Step::ReadEnd]));
    let answer = pair.client().ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.status(), 502);
}

#[test]
fn websocket_of_http2_reaches_an_application_of_http1() {
    let pair = scripted(agreeing(vec![
        Step::ReadBytes(5),
        Step::send("world"),
        Step::ReadEnd,
    ]));
    let mut frames = Frames::new(pair.client());
    let ask = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/chat"),
        (":authority", "a"),
        ("sec-websocket-version", "13"),
    ];
    frames.open(1, &ask);
    assert_eq!(frames.status(1), 200);
    frames.send(DATA, 0, 1, b"hello");
    assert_eq!(frames.data(1, 5), b"world");
    frames.send(DATA, END_STREAM, 1, b"");
    pair.app.finished(0);
    let received = pair.app.received_text(0);
    assert!(received.starts_with("GET /chat HTTP/1.1\r\n"), "{received}");
    for part in [
        "upgrade: websocket\r\n",
        "connection: upgrade\r\n",
        "host: a\r\n",
    ] {
        assert_eq!(
            received.to_ascii_lowercase().matches(part).count(),
            1,
            "{received}"
        );
    }
    assert_eq!(
        received
            .to_ascii_lowercase()
            .matches("sec-websocket-key: ")
            .count(),
        1
    );
}

#[test]
fn drain_lets_a_websocket_last_as_long_as_it_may() {
    let app = ScriptedUpstream::start(agreeing(vec![
        Step::ReadBytes(4),
        Step::send("pong"),
        Step::Stall,
    ]));
    let brief = |sidecar: testkit::Sidecar| sidecar.with("limits: {drainTimeout: 2s}");
    let pair = Pair::start_with(PROXY, app, brief, |outbound| outbound);
    let mut client = pair.client();
    client.send(ASK);
    switched(&mut client);
    pair.inbound.signal(rustix::process::Signal::TERM);
    until("it takes no more", || {
        std::net::TcpStream::connect(pair.inbound.addr()).is_err()
    });
    client.send("ping");
    client.expect("pong");
    client.read_to_end();
}
