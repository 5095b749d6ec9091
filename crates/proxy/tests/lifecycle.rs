//! What happens to the proxy while it serves: new certificates, new configurations, good and bad,
//! and its end. Whoever is connected must not notice, or be told in good time.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;
use testkit::client::End;
use testkit::config::listeners;
use testkit::proxy::Exit;
use testkit::{
    EchoServer, MeshConnector, ProxyProcess, RawClient, ScriptedUpstream, Sidecar, Step, TestCa,
    TestIdentity, Traffic, until,
};

const ACTIVE: &str = "leno_connections_active";
const UPSTREAM_ACTIVE: &str = "leno_upstream_connections_active";
const RELOADS: &str = "leno_config_reloads_total";
const GET: &str = "GET / HTTP/1.1\r\nhost: test\r\n\r\n";

fn start(sidecar: &Sidecar) -> ProxyProcess {
    start_yaml(&sidecar.yaml())
}

fn start_yaml(yaml: &str) -> ProxyProcess {
    ProxyProcess::start(env!("CARGO_BIN_EXE_leno-proxy"), yaml)
}

fn json(proxy: &ProxyProcess, page: &str) -> Value {
    serde_json::from_str(&proxy.admin(page).text()).unwrap()
}

/// Waits for its end.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "how long it takes is not looked at"
)]
fn ended(proxy: ProxyProcess) -> Exit {
    proxy.wait(std::time::Instant::now())
}

/// The configuration that all workers work with.
/// Whether every worker works with what was read last, which is the `least`th or a later reading: a
/// change that is also signalled may be read twice.
fn is_applied(proxy: &ProxyProcess, least: u64) -> bool {
    let dump = json(proxy, "/config_dump");
    let read = dump["generation"].as_u64().unwrap();
    read >= least && dump["applied"] == read
}

// Certificates.

/// A client's and a server's sidecar, mutual TLS between them.
struct Pair {
    outbound: ProxyProcess,
    inbound: ProxyProcess,
    app: EchoServer,
    ca: TestCa,
    client: TestIdentity,
    server: TestIdentity,
}

impl Pair {
    fn start() -> Self {
        let (ca, app) = (TestCa::new(), EchoServer::start());
        let (client, server) = (ca.identity("client"), ca.identity("server"));
        let inbound = start(&Sidecar::inbound(app.addr()).identity(&server).strict());
        let sidecar = Sidecar::outbound(&[inbound.addr()]).identity(&client);
        let outbound = start(&sidecar.mtls(std::slice::from_ref(&server.id)));
        Self {
            outbound,
            inbound,
            app,
            ca,
            client,
            server,
        }
    }
}

/// The serial number of the certificate in use.
fn serial(proxy: &ProxyProcess) -> String {
    let page = json(proxy, "/certs");
    let serial = page["certificateChain"][0]["serial"].as_str();
    serial
        .unwrap_or_else(|| panic!("no serial in {page}"))
        .to_owned()
}

#[test]
fn new_certificates_under_load_cost_no_request() {
    let pair = Pair::start();
    let traffic = Traffic::start(pair.outbound.addr(), 8);
    let connector = MeshConnector::new(&pair.client.credentials(), &pair.server.id);
    let addr = pair.inbound.addr();
    let mesh = Traffic::with(2, usize::MAX, move || connector.connect(addr).unwrap());
    for _ in 0..3 {
        traffic.goes_on(100);
        mesh.goes_on(20);
        let before = [serial(&pair.inbound), serial(&pair.outbound)];
        // The files are found changed: nobody is told.
        let _renewed = (pair.ca.identity("server"), pair.ca.identity("client"));
        until("both sidecars show new certificates", || {
            let now = [serial(&pair.inbound), serial(&pair.outbound)];
            now.iter().zip(&before).all(|(now, before)| now != before)
        });
        traffic.goes_on(100);
        mesh.goes_on(20);
    }
    traffic.finish().is_only(&[200]);
    mesh.finish().is_only(&[200]);
    assert!(pair.app.request_count() > 600);
}

// Configurations.

#[test]
fn reloads_under_load_cost_no_request() {
    let apps = [
        EchoServer::start(),
        EchoServer::start(),
        EchoServer::start(),
    ];
    let addrs = apps.each_ref().map(EchoServer::addr);
    let proxy = start(&Sidecar::outbound(&addrs[..1]).workers(2));
    let traffic = Traffic::start(proxy.addr(), 8);
    for round in 0..12_usize {
        traffic.goes_on(50);
        let sidecar = Sidecar::outbound(&addrs[round % 3..]).workers(2);
        let sidecar = match round % 2 {
            0 => sidecar.route("filters: [{setResponseHeader: {name: x-round, value: even}}]"),
            _ => sidecar
                .further_cluster("other", &addrs)
                .further_route("{hosts: [o], cluster: other}"),
        };
        proxy.reconfigure(&sidecar.yaml());
        until("all workers have it", || {
            is_applied(&proxy, round as u64 + 2)
        });
    }
    traffic.goes_on(50);
    traffic.finish().is_only(&[200]);
    assert!(apps.iter().all(|app| app.request_count() > 0));
    let answer = RawClient::connect(proxy.addr()).get("/");
    assert_eq!(answer.header("x-round"), None);
    proxy.metric_becomes(ACTIVE, &[], 0.0);
}

#[test]
fn reload_keeps_the_connections_to_endpoints_that_stay() {
    let (stays, goes) = (EchoServer::start(), EchoServer::start());
    let proxy = start(&Sidecar::outbound(&[stays.addr(), goes.addr()]));
    let mut client = RawClient::connect(proxy.addr());
    for _ in 0..4 {
        assert_eq!(client.get("/").status(), 200);
    }
    assert_eq!((stays.connection_count(), goes.connection_count()), (1, 1));
    let next = Sidecar::outbound(&[stays.addr()]).route("prefix: /");
    proxy.reconfigure(&next.yaml());
    until("the worker has it", || is_applied(&proxy, 2));
    for _ in 0..4 {
        assert_eq!(client.get("/").status(), 200);
    }
    assert_eq!((stays.connection_count(), stays.request_count()), (1, 6));
    until("the other's connection is closed", || {
        goes.open_connections() == 0
    });
    proxy.metric_becomes(UPSTREAM_ACTIVE, &[], 1.0);
}

#[test]
fn request_in_flight_ends_as_it_began_when_its_endpoint_is_removed() {
    let slow = ScriptedUpstream::always(vec![
        Step::ReadRequest,
        Step::send("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nold"),
        Step::ReadEnd,
    ]);
    let app = EchoServer::start();
    let proxy = start(&Sidecar::outbound(&[slow.addr()]));
    let mut client = RawClient::connect(proxy.addr());
    client.send(GET);
    until("the request is there", || !slow.received(0).is_empty());
    proxy.reconfigure(&Sidecar::outbound(&[app.addr()]).yaml());
    until("the worker has it", || is_applied(&proxy, 2));
    assert_eq!(
        RawClient::connect(proxy.addr()).post("/", "new").text(),
        "new"
    );
    drop(slow);
    let (bytes, _) = client.read_to_end();
    assert!(String::from_utf8_lossy(&bytes).ends_with("\r\n\r\nold"));
    proxy.metric_becomes(UPSTREAM_ACTIVE, &[], 1.0);
}

#[test]
fn listener_that_is_removed_closes_and_its_connections_are_told() {
    let app = EchoServer::start();
    let both = listeners(
        app.addr(),
        &[("main", "127.0.0.1:0"), ("other", "127.0.0.1:0")],
    );
    let proxy = start_yaml(&both);
    let (addr, removed) = (proxy.addr(), proxy.listener("other"));
    let traffic = Traffic::start(addr, 4);
    let mut old = RawClient::connect(removed);
    assert_eq!(old.get("/").status(), 200);
    proxy.reconfigure(&listeners(app.addr(), &[("main", "127.0.0.1:0")]));
    until("it refuses", || TcpStream::connect(removed).is_err());
    until("all workers have it", || is_applied(&proxy, 2));
    assert_eq!(old.get("/").status(), 404);
    traffic.goes_on(100);
    traffic.finish().is_only(&[200]);
}

#[test]
fn listener_that_is_added_serves() {
    let app = EchoServer::start();
    let proxy = start_yaml(&listeners(app.addr(), &[("main", "127.0.0.1:0")]));
    let free = testkit::dead_address();
    let traffic = Traffic::start(proxy.addr(), 4);
    let both = [("before", &*free.to_string()), ("main", "127.0.0.1:0")];
    proxy.reconfigure(&listeners(app.addr(), &both));
    until("it accepts", || TcpStream::connect(free).is_ok());
    assert_eq!(RawClient::connect(free).post("/", "new").text(), "new");
    traffic.goes_on(100);
    traffic.finish().is_only(&[200]);
}

#[test]
fn broken_configuration_changes_nothing_and_says_where_it_is_broken() {
    let app = EchoServer::start();
    let good = Sidecar::inbound(app.addr()).yaml();
    let proxy = start_yaml(&good);
    let before = json(&proxy, "/config_dump");
    let traffic = Traffic::start(proxy.addr(), 4);
    let line = 1 + good
        .lines()
        .position(|line| line.contains("direction: "))
        .unwrap();
    let broken = [("sideways", 14), ("[inbound}", 22), ("{inbound: 1}", 14)];
    for (value, column) in broken {
        let yaml = good.replace("direction: inbound", &format!("direction: {value}"));
        proxy.reload_is_rejected(|| proxy.write_config(&yaml));
        let (log, place) = (proxy.stderr(), format!("proxy.yaml:{line}:{column}: "));
        assert!(
            log.lines().last().unwrap().contains(&place),
            "{place}\n{log}"
        );
    }
    assert_eq!(json(&proxy, "/config_dump"), before);
    traffic.goes_on(100);
    proxy.reconfigure(&good);
    traffic.goes_on(100);
    traffic.finish().is_only(&[200]);
}

#[test]
fn configuration_that_cannot_be_put_to_use_changes_nothing() {
    let app = EchoServer::start();
    let one = listeners(app.addr(), &[("main", "127.0.0.1:0")]);
    let proxy = start_yaml(&one);
    let taken = app.addr().to_string();
    let two = listeners(app.addr(), &[("main", "127.0.0.1:0"), ("other", &taken)]);
    proxy.reload_is_rejected(|| proxy.write_config(&two));
    assert!(proxy.stderr().contains(&taken), "{}", proxy.stderr());
    assert_eq!(json(&proxy, "/config_dump")["generation"], 1);
    assert_eq!(RawClient::connect(proxy.addr()).get("/").status(), 200);
}

#[test]
fn change_of_the_file_is_noticed() {
    let (old, new) = (EchoServer::start(), EchoServer::start());
    let proxy = start(&Sidecar::inbound(old.addr()));
    let mut client = RawClient::connect(proxy.addr());
    assert_eq!(client.get("/").status(), 200);
    proxy.write_config(&Sidecar::inbound(new.addr()).yaml());
    proxy.metric_becomes(RELOADS, &[("result", "accepted")], 1.0);
    until("requests go to the new endpoint", || {
        assert_eq!(client.get("/").status(), 200);
        new.request_count() > 0
    });
}

#[test]
fn storm_of_hangups_costs_no_request_and_leaves_nothing() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()).workers(2));
    let reloads = || proxy.metric(RELOADS, &[("result", "accepted")]);
    let traffic = Traffic::start(proxy.addr(), 4);
    let storm = |signals: usize| {
        let before = reloads();
        (0..signals).for_each(|_| proxy.signal(Signal::HUP));
        until("at least one reload came of it", || reloads() > before);
        traffic.goes_on(50);
    };
    (0..5).for_each(|_| storm(20));
    let (descriptors, memory) = (proxy.open_fds(), proxy.anon_kib());
    (0..20).for_each(|_| storm(50));
    assert!(
        proxy.open_fds() <= descriptors + 4,
        "{} now, {descriptors} before",
        proxy.open_fds()
    );
    let grown = proxy.anon_kib().saturating_sub(memory);
    assert!(grown < 1024, "{grown} KiB after a thousand signals");
    traffic.finish().is_only(&[200]);
    // The connections to the application outlived every reload.
    assert!(app.connection_count() <= 4, "{}", app.connection_count());
}

// The end.

#[test]
fn drain_lets_requests_end_and_tells_connections_to_go() {
    let slow = EchoServer::start();
    let proxy = start(&Sidecar::inbound(slow.addr()).with("limits: {drainTimeout: 15s}"));
    let addr = proxy.addr();
    let (mut idle, mut late, mut busy) = (
        RawClient::connect(addr),
        RawClient::connect(addr),
        RawClient::connect(addr),
    );
    for client in [&mut idle, &mut late] {
        assert_eq!(client.get("/").status(), 200);
    }
    busy.send("POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 8\r\n\r\nhalf");
    proxy.metric_becomes("leno_requests_active", &[], 1.0);
    let mut watching = RawClient::connect(proxy.admin_addr());
    assert_eq!(watching.get("/ready").status(), 200);
    proxy.signal(Signal::TERM);
    until("it is not ready any more", || {
        proxy.admin("/ready").status() == 503
    });
    until("it accepts no more", || TcpStream::connect(addr).is_err());
    // A request on a connection that was idle is served, and is its last.
    let last = late.get("/");
    assert_eq!(
        (last.status(), last.header("connection")),
        (200, Some("close"))
    );
    assert_eq!(late.read_to_end(), (vec![], End::Closed));
    busy.send("more");
    let answer = busy.response();
    assert_eq!(
        (answer.text().as_str(), answer.header("connection")),
        ("halfmore", Some("close"))
    );
    assert_eq!(busy.read_to_end(), (vec![], End::Closed));
    assert_eq!(idle.read_to_end(), (vec![], End::Closed));
    let exit = ended(proxy);
    assert!(exit.status.success(), "{exit:?}");
    assert!(!exit.stderr.contains("panicked"), "{}", exit.stderr);
}

#[test]
fn drain_under_load_loses_no_request() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()).workers(2));
    let addr = proxy.addr();
    let begun = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let begun = std::sync::Arc::clone(&begun);
            let client = move || {
                let mut client = RawClient::connect(addr);
                loop {
                    begun.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    let answer = client.get("/");
                    assert_eq!(answer.status(), 200);
                    if answer.header("connection") == Some("close") {
                        return client.read_to_end();
                    }
                }
            };
            std::thread::Builder::new().spawn(client).unwrap()
        })
        .collect();
    until("requests flow", || {
        begun.load(std::sync::atomic::Ordering::SeqCst) > 200
    });
    let exit = proxy.terminate();
    for client in clients {
        assert_eq!(client.join().unwrap(), (vec![], End::Closed));
    }
    assert!(exit.status.success(), "{exit:?}");
}

#[test]
fn drain_does_not_wait_for_ever() {
    let upstream = ScriptedUpstream::always(vec![Step::ReadRequest, Step::Stall]);
    let proxy = start(&Sidecar::inbound(upstream.addr()).with("limits: {drainTimeout: 1s}"));
    let mut stuck = RawClient::connect(proxy.addr());
    stuck.send(GET);
    until("the request is there", || !upstream.received(0).is_empty());
    let exit = proxy.terminate();
    assert!(exit.status.success(), "{exit:?}");
    let (bytes, _) = stuck.read_to_end();
    assert!(bytes.is_empty(), "{}", String::from_utf8_lossy(&bytes));
}

#[test]
fn idle_proxy_ends_at_once_and_a_second_signal_does_no_harm() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::inbound(app.addr()));
    assert_eq!(RawClient::connect(proxy.addr()).get("/").status(), 200);
    proxy.signal(Signal::TERM);
    let exit = ended(proxy);
    assert!(exit.status.success(), "{exit:?}");
}
