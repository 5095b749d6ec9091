//! Bytes behind a request that are no body of it: whatever protocol was asked for, the application
//! sees the one request, and the next client its own answer.

use crate::frames::{DATA, END_STREAM, Frame, Frames, HEADERS, PROTOCOL_ERROR, RST_STREAM};
use crate::world::scripted;
use testkit::{Pair, ScriptedUpstream, Step};

/// What an attacker would like the application to take for a request of its own.
const SMUGGLED: &str = "GET /admin HTTP/1.1\r\nHost: secret\r\n\r\n";

/// An application that answers each request with its target's name.
fn app() -> Pair<ScriptedUpstream> {
    let answers = ["one", "two", "three"].map(Step::answer);
    let script = answers
        .into_iter()
        .flat_map(|answer| [Step::ReadRequest, answer]);
    scripted(vec![script.chain([Step::ReadEnd]).collect()])
}

/// The next client has its own answer, and the application has seen `before` and this.
#[track_caller]
fn next_is_served(pair: &Pair<ScriptedUpstream>, before: usize) {
    let expected = ["one", "two"][before];
    assert_eq!(pair.client().get("/victim").text(), expected);
    let received: String = (0..pair.app.connection_count())
        .map(|number| pair.app.received_text(number))
        .collect();
    assert_eq!(
        received.matches(" HTTP/1.1\r\n").count(),
        before + 1,
        "{received}"
    );
    assert!(!received.contains("/admin"), "{received}");
}

/// The first frame that answers a request of the hop and what comes behind it.
#[track_caller]
fn asked(pair: &Pair<ScriptedUpstream>, fields: &[(&str, &str)], behind: &str) -> Frame {
    let hop = pair.hop().connect(pair.inbound.addr()).unwrap();
    let mut frames = Frames::new(hop);
    frames.open(1, &[fields, &[(":path", "/open"), ("Host", "a")]].concat());
    frames.send(DATA, END_STREAM, 1, behind.as_bytes());
    frames.of(1)
}

#[test]
fn bytes_behind_an_upgrade_that_is_not_allowed_reach_nobody() {
    for method in ["GET", "POST"] {
        let pair = app();
        let fields = [(":method", method), (":upgrade", "foo")];
        let answer = asked(&pair, &fields, SMUGGLED);
        // As if the wish had not been there, or refused.
        let served = answer.kind == HEADERS && answer.payload[0] == 0x88;
        let before = usize::from(served);
        next_is_served(&pair, before);
    }
}

#[test]
fn upgrade_with_a_body_is_refused() {
    let long = format!("AAAAA{SMUGGLED}");
    for (upgrade, behind) in [
        ("foo", &*long),
        ("websocket", &*long),
        ("websocket", "AAAAA"),
    ] {
        let pair = app();
        let fields = [
            (":method", "POST"),
            (":upgrade", upgrade),
            ("Content-Length", "5"),
        ];
        let answer = asked(&pair, &fields, behind);
        let code = PROTOCOL_ERROR.to_be_bytes();
        assert_eq!(
            (answer.kind, &*answer.payload),
            (RST_STREAM, &code[..]),
            "{upgrade}"
        );
        next_is_served(&pair, 0);
    }
}

#[test]
fn bytes_behind_a_connect_for_an_unknown_protocol_reach_nobody_over_the_hop() {
    let pair = app();
    let mut frames = Frames::new(pair.client());
    let connect = [
        (":method", "CONNECT"),
        (":protocol", "foo"),
        (":scheme", "http"),
        (":path", "/open"),
        (":authority", "a"),
    ];
    frames.open(1, &connect);
    frames.send(DATA, END_STREAM, 1, SMUGGLED.as_bytes());
    assert_eq!(frames.of(1).kind, HEADERS);
    next_is_served(&pair, 0);
}
