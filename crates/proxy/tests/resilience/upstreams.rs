//! Upstreams that answer nonsense, half of it, or nothing.

use testkit::{RawClient, ScriptedUpstream, Sidecar, Step, until};

use crate::{ACTIVE, REQUESTS, Random, UPSTREAM_ACTIVE, send, start};

#[test]
fn garbage_from_an_upstream_is_a_bad_gateway() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let script = |bytes: Vec<u8>| vec![Step::ReadRequest, Step::Send(bytes)];
    let mut scripts: Vec<_> = (0..200)
        .map(|_| {
            let count = 1 + random.below(300);
            script([random.bytes(count), b"\r\n\r\n".to_vec()].concat())
        })
        .collect();
    scripts.push(vec![Step::ReadRequest, Step::answer("good")]);
    let upstream = ScriptedUpstream::start(scripts);
    let proxy = start(&Sidecar::inbound(upstream.addr()));
    let mut client = RawClient::connect(proxy.addr());
    for _ in 0..200 {
        assert_eq!(client.get("/").status(), 502);
    }
    assert_eq!(client.get("/").text(), "good");
    proxy.metric_becomes(REQUESTS, &[("status_class", "5xx"), ("flag", "UPE")], 200.0);
    proxy.metric_becomes(UPSTREAM_ACTIVE, &[], 0.0);
}

/// The head is on its way before the body comes, and the answer to it is the proxy's own: what
/// follows the body must not be taken for a part of it.
#[test]
fn requests_behind_one_that_fails_keep_their_bounds() {
    let fails = vec![
        Step::ReadHead,
        Step::ReadBytes(5),
        Step::send("nonsense\r\n\r\n"),
    ];
    let upstream = ScriptedUpstream::start(vec![fails, vec![Step::ReadHead, Step::answer("")]]);
    let proxy = start(&Sidecar::inbound(upstream.addr()));
    let mut client = RawClient::connect(proxy.addr());
    let head = "POST /fails HTTP/1.1\r\nhost: test\r\ncontent-length: 5\r\n\r\n";
    client.send(head);
    until("the head is through", || !upstream.received(0).is_empty());
    // A head exactly as long as the first request, and a body that looks like a request.
    let hidden = "GET /hidden HTTP/1.1\r\nhost: test\r\n\r\n";
    let next = format!(
        "POST /. HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n",
        hidden.len()
    );
    let next = next.replacen('.', &".".repeat(head.len() + 5 + 1 - next.len()), 1);
    client.send(format!("hello{next}{hidden}"));
    assert_eq!(client.response().status(), 502);
    client.half_close();
    client.read_to_end();
    proxy.metric_becomes(ACTIVE, &[], 0.0);
    let second = upstream.received_text(1);
    assert!(!second.starts_with("GET /hidden"), "{second}");
}

#[test]
fn upstream_that_never_answers_is_given_up() {
    let upstream = ScriptedUpstream::always(vec![Step::ReadRequest, Step::Stall]);
    let sidecar = Sidecar::inbound(upstream.addr()).with("limits: {requestTimeout: 300ms}");
    let proxy = start(&sidecar);
    send(proxy.addr(), 20, 60).is_only(&[504]);
    proxy.metric_becomes(REQUESTS, &[("flag", "UT")], 60.0);
    proxy.metric_becomes(UPSTREAM_ACTIVE, &[], 0.0);
    proxy.metric_becomes(ACTIVE, &[], 0.0);
}

#[test]
fn answer_that_stops_in_the_middle_is_not_taken_for_the_whole() {
    let half = Step::send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf");
    let upstream = ScriptedUpstream::always(vec![Step::ReadRequest, half, Step::Reset]);
    let proxy = start(&Sidecar::inbound(upstream.addr()));
    for _ in 0..20 {
        let mut client = RawClient::connect(proxy.addr());
        assert!(client.try_get("/").is_err());
    }
    proxy.metric_becomes(REQUESTS, &[("flag", "UC")], 20.0);
    proxy.metric_becomes(ACTIVE, &[], 0.0);
    proxy.metric_becomes(UPSTREAM_ACTIVE, &[], 0.0);
}
