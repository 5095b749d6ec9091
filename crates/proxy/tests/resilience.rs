//! What broken peers do to the proxy: endpoints that are down, upstreams that end in the middle,
//! clients that send half of it, garbage, or too much at once. Nothing may be lost but what they
//! broke themselves: no descriptor, no memory, no other request.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use testkit::traffic::Tally;
use testkit::{
    DeadPort, EchoServer, ProxyProcess, RawClient, ScriptedUpstream, Sidecar, Step, TestCa,
    Traffic, descriptors, until,
};

const REQUESTS: &str = "leno_requests_total";
const ACTIVE: &str = "leno_connections_active";
const UPSTREAM_ACTIVE: &str = "leno_upstream_connections_active";
const CONNECT_FAILURES: &str = "leno_upstream_connect_failures_total";
const GET: &str = "GET / HTTP/1.1\r\nhost: test\r\n\r\n";

fn start(sidecar: &Sidecar) -> ProxyProcess {
    start_yaml(&sidecar.yaml())
}

fn start_yaml(yaml: &str) -> ProxyProcess {
    ProxyProcess::start(env!("CARGO_BIN_EXE_leno-proxy"), yaml)
}

fn balanced(sidecar: &Sidecar, balance: &str) -> String {
    let yaml = sidecar.yaml();
    assert_eq!(yaml.matches("  endpoints:\n").count(), 1);
    yaml.replace(
        "  endpoints:\n",
        &format!("  balance: {balance}\n  endpoints:\n"),
    )
}

fn send(addr: SocketAddr, clients: usize, requests: usize) -> Tally {
    Traffic::with(clients, requests, move || RawClient::connect(addr)).join()
}

/// Deterministic chance.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
}

/// What a proxy holds when nobody uses it.
struct Baseline {
    descriptors: usize,
}

impl Baseline {
    /// After one request, so that what is kept for ever is there.
    fn of(proxy: &ProxyProcess) -> Self {
        assert_eq!(RawClient::connect(proxy.addr()).get("/").status(), 200);
        proxy.metric_becomes(ACTIVE, &[], 0.0);
        let held = proxy.open_fds() - upstream_connections(proxy);
        Self { descriptors: held }
    }

    /// Everything that came is gone again, idle upstream connections excepted.
    #[track_caller]
    fn comes_back(&self, proxy: &ProxyProcess) {
        until("all descriptors are back", || {
            let expected = self.descriptors + upstream_connections(proxy);
            // Scrapes take descriptors as well.
            proxy.open_fds() <= expected + 2 && proxy.metric(ACTIVE, &[]) < 0.5
        });
        assert!(!proxy.stderr().contains("panicked"), "{}", proxy.stderr());
        let internal = proxy.metric(REQUESTS, &[("flag", "IE")]);
        assert!(
            internal < 0.5,
            "{internal} internal errors\n{}",
            proxy.stderr()
        );
    }
}

fn upstream_connections(proxy: &ProxyProcess) -> usize {
    proxy.metric(UPSTREAM_ACTIVE, &[]) as usize
}

// Endpoints that are down.

fn one_of_three_is_dead(balance: &str) {
    let (one, dead, other) = (EchoServer::start(), DeadPort::hold(), EchoServer::start());
    let sidecar = Sidecar::outbound(&[one.addr(), dead.addr(), other.addr()]);
    let proxy = start_yaml(&balanced(&sidecar, balance));
    let begun = Instant::now();
    let tally = send(proxy.addr(), 8, 10_000);
    tally.is_only(&[200]);
    assert_eq!(tally.requests(), 10_000);
    assert_eq!(one.request_count() + other.request_count(), 10_000);
    for server in [&one, &other] {
        let count = server.request_count();
        assert!(
            count > 3_000,
            "{count} of 10,000 on one of the two that live"
        );
    }
    // At most what the clients began at the same moment; later ones know better. Probes are not
    // requests'.
    let failures = proxy.metric(CONNECT_FAILURES, &[]);
    let probes = probes_until(begun);
    assert!(
        (1.0..=8.0 + probes).contains(&failures),
        "{failures} connects failed"
    );
}

/// Probes of one endpoint since it failed first: after 1 s, then 2, 4 and so on.
fn probes_until(begun: Instant) -> f64 {
    (begun.elapsed().as_secs_f64() + 1.0).log2().floor()
}

#[test]
fn one_dead_endpoint_of_three_fails_no_request() {
    one_of_three_is_dead("roundRobin");
}

#[test]
fn one_dead_endpoint_of_three_fails_no_request_by_least_request() {
    one_of_three_is_dead("leastRequest");
}

#[test]
fn endpoint_that_refuses_handshakes_gets_probes_only() {
    let ca = TestCa::new();
    let (client, server) = (ca.identity("client"), ca.identity("server"));
    let alpn = &[identity::tls::ALPN_HTTP1];
    let tickets = identity::tls::Tickets::new();
    let config = identity::tls::server_config(&server.credentials(), alpn, &tickets).unwrap();
    let living = EchoServer::start_tls(config);
    let closing = ScriptedUpstream::always(vec![]);
    let sidecar = Sidecar::outbound(&[living.addr(), closing.addr()]).identity(&client);
    let proxy = start(&sidecar.mtls(&[server.id]));
    let begun = Instant::now();
    // One client: no two requests can find out at the same moment.
    send(proxy.addr(), 1, 500).is_only(&[200]);
    assert_eq!(living.request_count(), 500);
    let (connects, probes) = (closing.connection_count(), probes_until(begun));
    assert!(
        (1.0..=1.0 + probes).contains(&(connects as f64)),
        "{connects} connects"
    );
}

#[test]
fn endpoint_that_never_answers_a_connect_costs_no_request() {
    let (living, silent) = (EchoServer::start(), DeadPort::hold().silent());
    let sidecar = Sidecar::outbound(&[silent.addr(), living.addr()]);
    let proxy = start(&sidecar.with("limits: {connectTimeout: 200ms}"));
    send(proxy.addr(), 4, 400).is_only(&[200]);
    assert_eq!(living.request_count(), 400);
    let failures = proxy.metric(CONNECT_FAILURES, &[]);
    assert!(
        (1.0..=8.0).contains(&failures),
        "{failures} connects failed"
    );
}

#[test]
fn revived_endpoint_gets_requests_again() {
    let (living, dead) = (EchoServer::start(), DeadPort::hold());
    let proxy = start(&Sidecar::outbound(&[living.addr(), dead.addr()]));
    let mut client = RawClient::connect(proxy.addr());
    for _ in 0..4 {
        assert_eq!(client.get("/").status(), 200);
    }
    proxy.metric_becomes(CONNECT_FAILURES, &[], 1.0);
    let revived = dead.revive();
    until("the revived endpoint serves", || {
        assert_eq!(client.get("/").status(), 200);
        revived.request_count() > 0
    });
}

#[test]
fn only_endpoint_serves_as_soon_as_it_listens() {
    let dead = DeadPort::hold();
    let proxy = start(&Sidecar::outbound(&[dead.addr()]));
    let mut client = RawClient::connect(proxy.addr());
    for _ in 0..20 {
        assert_eq!(client.get("/").status(), 503);
    }
    let failed = [("status_class", "5xx"), ("flag", "UF")];
    proxy.metric_becomes(REQUESTS, &failed, 20.0);
    let revived = dead.revive();
    assert_eq!(client.post("/", "at once").text(), "at once");
    assert_eq!(revived.request_count(), 1);
}

#[test]
fn killed_upstream_gives_clear_answers_and_full_recovery() {
    let port = DeadPort::hold();
    let mut app = port.revive();
    let proxy = start(&Sidecar::inbound(port.addr()));
    let baseline = Baseline::of(&proxy);
    let traffic = Traffic::start(proxy.addr(), 8);
    for _ in 0..3 {
        traffic.sees(200, 200);
        drop(app);
        traffic.sees(503, 50);
        app = port.revive();
        traffic.sees(200, 200);
    }
    traffic.finish().is_only(&[200, 502, 503]);
    send(proxy.addr(), 8, 400).is_only(&[200]);
    baseline.comes_back(&proxy);
}

// Upstreams that misbehave.

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

// Downstreams that misbehave.

#[test]
fn half_a_request_holds_nothing_for_long() {
    let app = EchoServer::start();
    let sidecar = Sidecar::inbound(app.addr()).with("limits: {headerTimeout: 1s}");
    let proxy = start(&sidecar);
    let baseline = Baseline::of(&proxy);
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let whole = "POST /half HTTP/1.1\r\nhost: test\r\ncontent-length: 50\r\n\r\n0123456789";
    let head = whole.len() - 10;
    let mut waiting = Vec::new();
    for number in 0..1_000 {
        let mut client = RawClient::connect(proxy.addr());
        client.send(&whole[..1 + random.below(whole.len())]);
        match number % 4 {
            0 => client.reset(),
            1 => client.half_close(),
            2 => {
                let mut client = RawClient::connect(proxy.addr());
                client.send(&whole[..1 + random.below(head - 1)]);
                waiting.push(client);
            }
            _ => drop(client),
        }
    }
    let mut good = RawClient::connect(proxy.addr());
    assert_eq!(good.post("/", "served").text(), "served");
    for mut client in waiting {
        assert_eq!(client.response().status(), 408);
    }
    drop(good);
    let late = [("status_class", "4xx"), ("flag", "DT")];
    proxy.metric_becomes(REQUESTS, &late, 250.0);
    baseline.comes_back(&proxy);
    assert!(app.requests().iter().all(|request| request.target() == "/"));
}

/// Sends bytes, says that was all, and returns the statuses that come back.
fn throw(addr: SocketAddr, bytes: &[u8]) -> Vec<u16> {
    let mut client = RawClient::connect(addr);
    // The proxy may have refused, and closed, before all of it was sent.
    if client.try_send(bytes).is_ok() {
        let _ = client.stream().shutdown(std::net::Shutdown::Write);
    }
    let (answers, _) = client.read_to_end();
    let text = String::from_utf8_lossy(&answers).into_owned();
    let heads = text.match_indices("HTTP/1.1 ");
    heads
        .map(|(at, mark)| text[at + mark.len()..][..3].parse().unwrap())
        .collect()
}

fn throw_many(proxy: &ProxyProcess, count: usize, mut make: impl FnMut() -> Vec<u8>) -> Seen {
    let mut kept = RawClient::connect(proxy.addr());
    let mut seen = Seen::default();
    for number in 0..count {
        for status in throw(proxy.addr(), &make()) {
            *seen.entry(status).or_default() += 1;
        }
        if number % 100 == 0 {
            assert_eq!(kept.get("/").status(), 200);
        }
    }
    seen
}

type Seen = BTreeMap<u16, usize>;

#[test]
fn garbage_is_refused_and_harms_nobody() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()));
    let baseline = Baseline::of(&proxy);
    let mut random = Random(0xd1b5_4a32_d192_ed03);
    let seen = throw_many(&proxy, 3_000, || {
        let count = 1 + random.below(400);
        let mut bytes = random.bytes(count);
        if random.below(2) == 0 {
            bytes.extend(b"\r\n\r\n");
        }
        bytes
    });
    assert!(
        seen.keys().all(|status| [400, 501, 505].contains(status)),
        "{seen:?}"
    );
    assert!(seen[&400] > 1_000, "{seen:?}");
    let refused = seen.values().sum::<usize>() as f64;
    proxy.metric_becomes(
        REQUESTS,
        &[("flag", "DPE"), ("status_class", "4xx")],
        refused,
    );
    baseline.comes_back(&proxy);
}

#[test]
fn damaged_requests_are_answered_or_refused() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()));
    let baseline = Baseline::of(&proxy);
    let mut random = Random(0x8cb9_2ba7_2f3d_8dd7);
    let whole = "GET /a HTTP/1.1\r\nhost: test\r\nconnection: keep-alive\r\n\r\n\
                 POST /b HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n\
                 5\r\nhello\r\n0\r\ntrailer: yes\r\n\r\n\
                 PUT /c HTTP/1.1\r\nhost: test\r\ncontent-length: 3\r\nexpect: x\r\n\r\nabc";
    let seen = throw_many(&proxy, 2_000, || {
        let mut bytes = whole.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] = match random.below(3) {
                0 => random.byte(),
                1 => b"\r\n :;,\0\t"[random.below(8)],
                _ => bytes[random.below(bytes.len())],
            };
        }
        bytes
    });
    assert!(seen[&200] > 1_000 && seen[&400] > 100, "{seen:?}");
    let known = [200, 400, 408, 417, 431, 501, 502, 505];
    assert!(seen.keys().all(|status| known.contains(status)), "{seen:?}");
    baseline.comes_back(&proxy);
}

#[test]
fn garbage_where_tls_is_expected_is_refused_and_harms_nobody() {
    let (ca, app) = (TestCa::new(), EchoServer::start());
    let server = ca.identity("server");
    let proxy = start(&Sidecar::inbound(app.addr()).identity(&server));
    let baseline = Baseline::of(&proxy);
    let mut random = Random(0x5851_f42d_4c95_7f2d);
    throw_many(&proxy, 1_000, || {
        let count = 1 + random.below(400);
        [&[22, 3, 1][..], &random.bytes(count)].concat()
    });
    let failures = [("side", "downstream")];
    let counted = proxy.metric("leno_tls_handshake_failures_total", &failures);
    assert!(counted > 900.0, "{counted} of 1,000 were counted");
    baseline.comes_back(&proxy);
}

#[test]
fn client_that_closes_its_half_gets_its_answer_and_leaves_nothing() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()));
    let baseline = Baseline::of(&proxy);
    for number in 0..300 {
        let mut client = RawClient::connect(proxy.addr());
        if number % 3 > 0 {
            client.send("GET /bytes/5000 HTTP/1.1\r\nhost: test\r\n\r\n");
        }
        client.half_close();
        if number % 3 == 1 {
            assert_eq!(client.response().body.len(), 5000);
        }
        client.read_to_end();
    }
    baseline.comes_back(&proxy);
}

#[test]
fn slow_reader_costs_little_and_delays_nobody() {
    const SIZE: usize = 50 << 20;
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()));
    let baseline = Baseline::of(&proxy);
    let before = proxy.pss_kib();
    let mut slow: Vec<_> = (0..4).map(|_| RawClient::connect(proxy.addr())).collect();
    for client in &mut slow {
        client.send(format!("GET /bytes/{SIZE} HTTP/1.1\r\nhost: test\r\n\r\n"));
    }
    until("the proxy serves the slow", || {
        let active = proxy.metric("leno_requests_active", &[]);
        (active - 4.0).abs() < 0.5
    });
    send(proxy.addr(), 4, 400).is_only(&[200]);
    let grown = proxy.pss_kib().saturating_sub(before);
    assert!(grown < 4096, "{grown} KiB for four slow readers");
    for client in &mut slow {
        assert_eq!(client.response().body.len(), SIZE);
    }
    drop(slow);
    baseline.comes_back(&proxy);
}

// Too many, too fast.

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
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(one)).collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    };
    churn(100);
    baseline.comes_back(&proxy);
    let before = proxy.pss_kib();
    churn(400);
    baseline.comes_back(&proxy);
    let grown = proxy.pss_kib().saturating_sub(before);
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
        workers[number] == workers[0] || number % 4 == 0
    });
    proxy.metric_becomes(ACTIVE, &[], clients.len() as f64);
    clients.extend(connect(64 - clients.len()));
    is_shared(&workers_of(&mut clients));
}
