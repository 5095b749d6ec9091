//! Bytes, ends and resets, through one proxy and through a pair with mutual TLS between.

use testkit::client::End;
use testkit::{RawClient, ScriptedUpstream, Sidecar, Step};

use super::{ANSWER, Pair, QUESTION, start};

/// Plays `client` against `script`, without and with mutual TLS on the way.
fn check(script: Vec<Step>, client: impl Fn(RawClient)) {
    let app = ScriptedUpstream::always(script);
    let proxy = start(&Sidecar::outbound(&[app.addr()]));
    client(RawClient::connect(proxy.addr()));
    app.finished(0);
    let pair = Pair::new(&app, |sidecar, _| sidecar);
    client(RawClient::connect(pair.client.addr()));
    app.finished(1);
}

fn question() -> Step {
    Step::ReadUntil(QUESTION.to_vec())
}

#[test]
fn bytes_pass_both_ways_again_and_again() {
    let round = || [question(), Step::send(ANSWER)];
    let mut script: Vec<_> = (0..5).flat_map(|_| round()).collect();
    script.push(Step::ReadEnd);
    check(script, |mut client| {
        for _ in 0..5 {
            client.send(QUESTION);
            client.expect(ANSWER);
        }
    });
}

#[test]
fn client_that_ends_first_is_still_answered() {
    let script = vec![question(), Step::ReadEnd, Step::send(ANSWER)];
    check(script, |mut client| {
        client.send(QUESTION);
        client.half_close();
        assert_eq!(client.read_to_end(), (ANSWER.to_vec(), End::Closed));
    });
}

#[test]
fn server_that_ends_first_still_hears() {
    let script = vec![
        question(),
        Step::send(ANSWER),
        Step::HalfClose,
        Step::ReadUntil(b"thanks".to_vec()),
        Step::ReadEnd,
    ];
    check(script, |mut client| {
        client.send(QUESTION);
        assert_eq!(super::read_all(&mut client), ANSWER);
        client.send("thanks");
    });
}

#[test]
fn much_passes_whole() {
    let many: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let script = vec![
        Step::ReadBytes(many.len()),
        Step::send(&many),
        Step::HalfClose,
        Step::ReadEnd,
    ];
    check(script, |mut client| {
        client.send(&many);
        assert!(super::read_all(&mut client) == many);
    });
}

#[test]
fn reset_of_the_server_reaches_the_client() {
    check(vec![question(), Step::Reset], |mut client| {
        client.send(QUESTION);
        assert_eq!(client.read_to_end(), (vec![], End::Reset));
    });
}

#[test]
fn reset_of_the_client_reaches_the_server() {
    for pair in [false, true] {
        let app = ScriptedUpstream::always(vec![question(), Step::send(ANSWER), Step::ReadEnd]);
        let alone = start(&Sidecar::outbound(&[app.addr()]));
        let world = pair.then(|| Pair::new(&app, |sidecar, _| sidecar));
        let proxy = world.as_ref().map_or(&alone, |pair| &pair.server);
        let mut client = RawClient::connect(world.as_ref().map_or(&alone, |p| &p.client).addr());
        client.send(QUESTION);
        client.expect(ANSWER);
        client.reset();
        let flag = [("flag", "DC"), ("protocol", "tcp")];
        proxy.metric_becomes("leno_requests_total", &flag, 1.0);
        app.finished(0);
    }
}
