//! Clients and sidecars that leave or fall silent: what they cost the others on the same
//! connection. A hop is shared, so nobody's habits may end it.

use crate::world::{PROXY, echo, warm};
use rustix::process::Signal;
use testkit::{EchoServer, Pair, RawClient, Sidecar, until};

/// A request whose body never comes to its end.
fn unfinished(pair: &Pair<EchoServer>) -> RawClient {
    let mut client = pair.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhal");
    client
}

#[test]
fn clients_that_leave_do_not_cost_others_their_connection() {
    let pair = echo();
    warm(&pair);
    let mut patient = unfinished(&pair);
    for _ in 0..20 {
        let leaving: Vec<_> = (0..50).map(|_| unfinished(&pair)).collect();
        until("they are under way", || {
            pair.inbound.metric("leno_requests_active", &[]) > 49.5
        });
        drop(leaving);
        until("they are forgotten", || {
            pair.inbound.metric("leno_requests_active", &[]) < 1.5
        });
    }
    patient.send("lo");
    assert_eq!(patient.response().text(), "hallo");
    until("nothing is left", || {
        pair.outbound.metric("leno_requests_active", &[]) < 0.5
    });
}

#[test]
fn clients_that_leave_amid_large_answers_leave_nothing() {
    let pair = echo();
    let mut patient = warm(&pair);
    for _ in 0..100 {
        let mut client = pair.client();
        client.send("GET /bytes/1000000 HTTP/1.1\r\nHost: a\r\n\r\n");
        client.expect("HTTP/1.1 200");
        client.reset();
    }
    until("nothing is left", || {
        pair.outbound.metric("leno_requests_active", &[]) < 0.5
            && pair.inbound.metric("leno_requests_active", &[]) < 0.5
    });
    assert_eq!(patient.get("/bytes/1000000").body.len(), 1_000_000);
    assert!(
        (pair.hop_connections() - 1.0).abs() < 0.5,
        "{}",
        pair.hop_connections()
    );
}

#[test]
fn silent_sidecar_is_noticed_and_used_again_when_it_speaks() {
    let brief = |sidecar: Sidecar| {
        sidecar.with("limits: {keepaliveInterval: 1s, keepaliveTimeout: 1s, connectTimeout: 1s}")
    };
    let pair = Pair::start_with(PROXY, EchoServer::start(), |inbound| inbound, brief);
    let mut client = warm(&pair);
    pair.inbound.signal(Signal::STOP);
    until("it stands still", || stands_still(pair.inbound.pid()));
    let answer = client.get("/");
    pair.inbound.signal(Signal::CONT);
    assert!(matches!(answer.status(), 502..=504), "{answer:?}");
    until("it is used again", || {
        pair.client().get("/").status() == 200
    });
}

#[test]
fn slow_readers_do_not_hold_up_their_neighbours() {
    let pair = echo();
    let mut patient = warm(&pair);
    let slow = |_| {
        let mut client = pair.client();
        client.send("GET /bytes/30000000 HTTP/1.1\r\nHost: a\r\n\r\n");
        client
    };
    let slow: Vec<_> = (0..8).map(slow).collect();
    until("they are under way", || pair.app.request_count() > 8);
    for _ in 0..50 {
        assert_eq!(patient.get("/bytes/70000").body.len(), 70_000);
    }
    // What they do not read waits at the application, not in the sidecars.
    for proxy in [&pair.outbound, &pair.inbound] {
        assert!(proxy.anon_kib() < 48 * 1024, "{} KiB", proxy.anon_kib());
    }
    for mut client in slow {
        assert_eq!(client.response().body.len(), 30_000_000);
    }
    assert_eq!(patient.get("/bytes/70000").body.len(), 70_000);
}

#[test]
fn gone_clients_are_told_to_the_application() {
    let pair = echo();
    for _ in 0..30 {
        drop(unfinished(&pair));
    }
    until(
        "the application's connections of unfinished requests end",
        || {
            pair.app.open_connections() == 0
                && pair.inbound.metric("leno_requests_active", &[]) < 0.5
        },
    );
}

/// Whether every thread of a process was stopped by a signal.
fn stands_still(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat"));
        stat.is_ok_and(|stat| stat.contains(") T "))
    })
}
