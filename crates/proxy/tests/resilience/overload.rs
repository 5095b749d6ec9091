//! Too many connections, too fast, or more than there are descriptors.

use std::collections::BTreeMap;

use testkit::{EchoServer, RawClient, Sidecar, descriptors, until};

use crate::{ACTIVE, Baseline, GET, send, start};

#[test]
fn short_connections_leave_nothing_behind() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()).workers(2));
    let baseline = Baseline::of(&proxy);
    let churn = |connections: usize| {
        let addr = proxy.addr();
        let one = move || {
            for number in 0..connections {
                let mut client = RawClient::connect(addr);
                match number % 4 {
                    0 => drop(client),
                    1 => {
                        client.send(GET);
                        client.reset();
                    }
                    _ => assert_eq!(client.get("/").status(), 200),
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(one);
            }
        });
    };
    churn(100);
    baseline.comes_back(&proxy);
    let before = proxy.anon_kib();
    churn(400);
    baseline.comes_back(&proxy);
    let grown = proxy.anon_kib().saturating_sub(before);
    assert!(grown < 1024, "{grown} KiB after 3,200 connections");
}

#[test]
fn connections_over_the_limit_are_closed_and_counted() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()).with("limits: {connections: 10}"));
    let mut clients: Vec<_> = (0..10).map(|_| RawClient::connect(proxy.addr())).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status(), 200);
    }
    for number in 1..=5 {
        let mut refused = RawClient::connect(proxy.addr());
        assert_eq!(refused.read_to_end().0, b"");
        proxy.metric_becomes("leno_connections_rejected_total", &[], f64::from(number));
    }
    assert_eq!(clients[3].get("/").status(), 200);
    clients.pop();
    proxy.metric_becomes(ACTIVE, &[], 9.0);
    assert_eq!(RawClient::connect(proxy.addr()).get("/").status(), 200);
}

#[test]
fn without_descriptors_accepting_rests_and_recovers() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()));
    let baseline = Baseline::of(&proxy);
    let mut early = RawClient::connect(proxy.addr());
    assert_eq!(early.get("/").status(), 200);
    descriptors::limit(proxy.pid(), proxy.open_fds() + 20);
    let mut clients: Vec<_> = (0..100).map(|_| RawClient::connect(proxy.addr())).collect();
    for client in &mut clients {
        client.send(GET);
    }
    until("accepting rests", || {
        proxy.stderr().contains("accepting rests")
    });
    // Its upstream connection may be another's by now, and there is no new one.
    assert!([200, 503].contains(&early.get("/").status()));
    // Whoever was accepted leaves, so that the others find room.
    for mut client in clients {
        let status = client.response().status();
        assert!([200, 503].contains(&status), "{status}");
    }
    send(proxy.addr(), 4, 100).is_only(&[200]);
    assert_eq!(early.get("/").status(), 200);
    drop(early);
    baseline.comes_back(&proxy);
    let warnings = proxy.stderr().matches("accepting rests").count();
    assert!(warnings < 1_000, "{warnings} lines of the same warning");
}

/// Each worker keeps its own upstream connections, the last used first: clients that ask one after
/// the other see one upstream connection per worker.
fn workers_of(clients: &mut [RawClient]) -> Vec<String> {
    let worker = |client: &mut RawClient| {
        let answer = client.get("/");
        answer.header("x-connection").unwrap().to_owned()
    };
    clients.iter_mut().map(worker).collect()
}

/// Fails unless the busier of two workers has at most 1.3 times the other's share.
#[track_caller]
fn is_shared(workers: &[String]) {
    let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
    for worker in workers {
        *shares.entry(worker).or_default() += 1;
    }
    let (least, most) = (
        shares.values().min().unwrap(),
        shares.values().max().unwrap(),
    );
    assert!(shares.len() == 2 && most * 10 <= least * 13, "{shares:?}");
}

#[test]
fn two_workers_share_the_connections_and_go_on_to() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()).workers(2));
    let connect = |count| (0..count).map(|_| RawClient::connect(proxy.addr()));
    let mut clients: Vec<_> = connect(64).collect();
    let workers = workers_of(&mut clients);
    is_shared(&workers);
    // One worker loses most of its connections: the next ones are its.
    let mut numbers = 0..;
    clients.retain(|_| {
        let number: usize = numbers.next().unwrap();
        workers[number] == workers[0] || number.is_multiple_of(4)
    });
    proxy.metric_becomes(ACTIVE, &[], clients.len() as f64);
    clients.extend(connect(64 - clients.len()));
    is_shared(&workers_of(&mut clients));
}

#[test]
fn connections_beyond_the_rate_are_closed_at_once_and_counted() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::outbound(&[app.addr()]).with("limits: {connectionRate: 2}"));
    let mut first = RawClient::connect(proxy.addr());
    assert_eq!(first.get("/").status(), 200);
    until("one is refused", || {
        let refused = RawClient::connect(proxy.addr()).try_get("/").is_err();
        let rejected = proxy.metric("leno_connections_rejected_total", &[]);
        refused && rejected > 0.5
    });
    assert_eq!(first.get("/").status(), 200);
    until("they are served again", || {
        RawClient::connect(proxy.addr()).try_get("/").is_ok()
    });
}
