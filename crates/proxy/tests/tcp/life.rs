//! How long connections last, and what is told of them.

use rustix::process::Signal;
use testkit::client::End;
use testkit::{ScriptedUpstream, Sidecar, Step, until};

use super::{ANSWER, Pair, QUESTION, answering, ask, start};

const REQUESTS: &str = "leno_requests_total";
const TCP: (&str, &str) = ("protocol", "tcp");

#[test]
fn connection_that_stands_still_is_ended() {
    let question = Step::ReadUntil(QUESTION.to_vec());
    let app = ScriptedUpstream::always(vec![question, Step::send(ANSWER), Step::Stall]);
    for limit in ["tcpIdleTimeout", "halfCloseTimeout"] {
        let sidecar = Sidecar::outbound(&[app.addr()]);
        let proxy = start(&sidecar.with(&format!("limits: {{{limit}: 100ms}}")));
        let mut client = ask(&proxy);
        if limit == "halfCloseTimeout" {
            client.half_close();
        }
        assert_eq!(client.read_to_end(), (vec![], End::Closed));
        proxy.metric_becomes(REQUESTS, &[TCP, ("flag", "SI")], 1.0);
    }
}

#[test]
fn connections_and_their_bytes_are_counted() {
    let app = answering();
    let pair = Pair::new(&app, |sidecar, _| sidecar);
    let client = ask(&pair.client);
    for proxy in [&pair.client, &pair.server] {
        proxy.metric_becomes("leno_requests_active", &[TCP], 1.0);
    }
    drop(client);
    for proxy in [&pair.client, &pair.server] {
        let ended = [
            TCP,
            ("flag", "-"),
            ("source_workload", "client"),
            ("destination_workload", "server"),
        ];
        proxy.metric_becomes(REQUESTS, &ended, 1.0);
        proxy.metric_becomes("leno_requests_active", &[TCP], 0.0);
        let (up, down) = (QUESTION.len() as f64, ANSWER.len() as f64);
        proxy.metric_becomes("leno_request_bytes_total", &[TCP], up);
        proxy.metric_becomes("leno_response_bytes_total", &[TCP], down);
        proxy.metric_becomes("leno_upstream_connections_active", &[], 0.0);
    }
}

#[test]
fn bytes_are_counted_before_their_connection_ends() {
    let turn = [Step::ReadUntil(QUESTION.to_vec()), Step::send(ANSWER)];
    let turns = turn.iter().cycle().take(2 * 5000).cloned();
    let app = ScriptedUpstream::always(turns.collect());
    let proxy = start(&Sidecar::outbound(&[app.addr()]));
    let mut client = ask(&proxy);
    let mut asked = 1;
    until("some are counted", || {
        client.send(QUESTION);
        client.expect(ANSWER);
        asked += 1;
        proxy.metric("leno_request_bytes_total", &[TCP]) > 0.0
    });
    assert!(proxy.metric("leno_response_bytes_total", &[TCP]) > 0.0);
    drop(client);
    // No byte is counted twice.
    let [up, down] = [QUESTION, ANSWER].map(|one: &[u8]| f64::from(asked) * one.len() as f64);
    proxy.metric_becomes(REQUESTS, &[TCP], 1.0);
    proxy.metric_becomes("leno_request_bytes_total", &[TCP], up);
    proxy.metric_becomes("leno_response_bytes_total", &[TCP], down);
}

#[test]
fn connection_has_a_line_in_the_access_log() {
    let app = answering();
    let log = "accessLog: {path: /dev/stdout, format: text}";
    let proxy = start(&Sidecar::outbound(&[app.addr()]).with(log));
    drop(ask(&proxy));
    let line = testkit::eventually("a line", || proxy.stdout_lines().pop());
    let told = format!(" \"TCP\" 0 - {} {} ", QUESTION.len(), ANSWER.len());
    assert!(line.contains(&told), "{line}");
    assert!(line.contains(&app.addr().to_string()), "{line}");
}

/// An upstream that answers as often as it is asked.
fn patient() -> ScriptedUpstream {
    let round = || [Step::ReadUntil(QUESTION.to_vec()), Step::send(ANSWER)];
    let mut script: Vec<_> = (0..3).flat_map(|_| round()).collect();
    script.push(Step::ReadEnd);
    ScriptedUpstream::always(script)
}

#[test]
fn reload_keeps_connections() {
    let (app, next) = (patient(), patient());
    let proxy = start(&Sidecar::outbound(&[app.addr()]));
    let mut client = ask(&proxy);
    proxy.reconfigure(&Sidecar::outbound(&[next.addr()]).yaml());
    until("new connections go elsewhere", || {
        drop(ask(&proxy));
        next.connection_count() > 0
    });
    client.send(QUESTION);
    client.expect(ANSWER);
}

#[test]
fn drain_lets_connections_last_as_long_as_it_may_and_ends_them_in_order() {
    let app = patient();
    let pair = Pair::new(&app, |sidecar, _| {
        sidecar.with("limits: {drainTimeout: 2s}")
    });
    let server = format!("/proc/{}/fd/0", pair.server.pid());
    let mut client = ask(&pair.client);
    pair.server.signal(Signal::TERM);
    until("it accepts no more", || {
        std::net::TcpStream::connect(pair.server.addr()).is_err()
    });
    client.send(QUESTION);
    client.expect(ANSWER);
    assert_eq!(client.read_to_end(), (vec![], End::Closed));
    until("it has ended", || !std::path::Path::new(&server).exists());
}

#[test]
fn connection_of_a_peer_that_is_trusted_no_more_ends() {
    let app = answering();
    let pair = Pair::new(&app, |sidecar, _| sidecar);
    let mut client = ask(&pair.client);
    let other = testkit::TestCa::new();
    let bundle = other.authority().certificate_pem().to_owned();
    pair.server
        .reload(|| std::fs::write(pair.ca.bundle(), &bundle).unwrap());
    assert_eq!(client.read_to_end().0, b"");
    app.finished(0);
    pair.server
        .metric_becomes(REQUESTS, &[TCP, ("flag", "RBAC")], 1.0);
}
