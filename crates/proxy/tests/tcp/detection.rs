//! Who speaks first, and what: HTTP is read, the rest is passed on, silence is waited for briefly.

use testkit::client::End;
use testkit::{EchoServer, MeshConnector, RawClient, ScriptedUpstream, Sidecar, Step, TestCa};

use super::{ANSWER, Pair, ask, start};

const GREETING: &str = "220 mail.example.org\r\n";

/// An upstream that speaks first.
fn greeting() -> ScriptedUpstream {
    ScriptedUpstream::always(vec![
        Step::send(GREETING),
        Step::ReadUntil(b"QUIT\r\n".to_vec()),
        Step::send(ANSWER),
    ])
}

/// Says nothing until it is greeted.
#[track_caller]
fn is_greeted(addr: std::net::SocketAddr) {
    let mut client = RawClient::connect(addr);
    client.expect(GREETING);
    client.send("QUIT\r\n");
    assert_eq!(client.read_to_end(), (ANSWER.to_vec(), End::Closed));
}

#[test]
fn server_that_speaks_first_is_heard_wherever_that_is_said_or_not() {
    let app = greeting();
    let ports = format!("opaquePorts: [{}]", app.addr().port());
    for sidecar in [
        Sidecar::outbound(&[app.addr()]),
        Sidecar::outbound(&[app.addr()]).with(&ports),
        Sidecar::outbound(&[app.addr()]).cluster("protocol: tcp"),
        Sidecar::outbound(&[app.addr()]).listener("protocol: tcp"),
    ] {
        is_greeted(start(&sidecar).addr());
    }
    let ca = TestCa::new();
    let permissive = Sidecar::inbound(app.addr()).identity(&ca.identity("server"));
    for sidecar in [permissive.clone(), permissive.with(&ports)] {
        is_greeted(start(&sidecar).addr());
    }
    is_greeted(Pair::new(&app, |sidecar, _| sidecar).client.addr());
}

#[test]
fn destination_that_spoke_first_is_dialled_at_once_from_then_on() {
    let app = greeting();
    let sidecar = Sidecar::outbound(&[app.addr()]).listener("detectTimeout: 50ms");
    let proxy = start(&sidecar);
    is_greeted(proxy.addr());
    // Read as a request it would never get there.
    let mut client = RawClient::connect(proxy.addr());
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\nQUIT\r\n");
    client.expect(format!("{GREETING}answer"));
    // A change of the configuration forgets it.
    proxy.reconfigure(&sidecar.with("opaquePorts: [1]").yaml());
    testkit::until("the worker has it", || {
        let dump: serde_json::Value =
            serde_json::from_str(&proxy.admin("/config_dump").text()).unwrap();
        dump["applied"] == 2
    });
    let mut client = RawClient::connect(proxy.addr());
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.response().status(), 502);
}

#[test]
fn client_that_thinks_before_its_request_is_served_as_http() {
    let app = EchoServer::start();
    let proxy = start(&Sidecar::outbound(&[app.addr()]).listener("detectTimeout: 1ms"));
    let mut client = RawClient::connect(proxy.addr());
    testkit::until("its destination was asked", || app.connection_count() == 1);
    assert_eq!(client.post("/", "hello").text(), "hello");
    assert_eq!(app.connection_count(), 2);
    let http = [("protocol", "http1")];
    proxy.metric_becomes("leno_requests_total", &http, 1.0);
    proxy.metric_becomes("leno_requests_total", &[], 1.0);
}

#[test]
fn http_server_that_grows_impatient_is_not_taken_for_another() {
    let app = ScriptedUpstream::start(vec![
        vec![Step::send("HTTP/1.1 408 Request Timeout\r\n\r\n")],
        vec![Step::ReadRequest, Step::answer("ok"), Step::ReadEnd],
    ]);
    let proxy = start(&Sidecar::outbound(&[app.addr()]).listener("detectTimeout: 1ms"));
    let mut client = RawClient::connect(proxy.addr());
    app.finished(0);
    assert_eq!(client.get("/").text(), "ok");
}

#[test]
fn few_letters_that_are_no_method_are_passed_on() {
    let app = ScriptedUpstream::always(vec![
        Step::ReadUntil(b"ping".to_vec()),
        Step::send("pong"),
        Step::ReadEnd,
    ]);
    let proxy = start(&Sidecar::outbound(&[app.addr()]));
    let mut client = RawClient::connect(proxy.addr());
    client.send("ping");
    client.expect("pong");
}

#[test]
fn rules_about_requests_are_not_to_be_passed_by() {
    let app = super::answering();
    for sidecar in [
        Sidecar::outbound(&[app.addr()]).listener("protocol: http"),
        Sidecar::outbound(&[app.addr()]).cluster("protocol: http1"),
        Sidecar::outbound(&[app.addr()]).route("filters: [{removeRequestHeader: {name: x}}]"),
        Sidecar::outbound(&[app.addr()]).further_route("{prefix: /a, cluster: main, allow: []}"),
    ] {
        let proxy = start(&sidecar);
        let mut client = RawClient::connect(proxy.addr());
        assert_eq!(client.ask("GET\t/a HTTP/1.1\r\n\r\n").status(), 400);
    }
    assert_eq!(app.connection_count(), 0);
}

#[test]
fn mesh_protocol_for_unread_connections_is_no_way_past_rules_about_requests() {
    let app = super::answering();
    let pair = Pair::new(&app, |sidecar, _| {
        sidecar.further_route("{prefix: /a, cluster: main, allow: []}")
    });
    let mut client = RawClient::connect(pair.client.addr());
    client.send(super::QUESTION);
    assert_eq!(client.read_to_end(), (vec![], End::Reset));
    let refused = [("flag", "DPE"), ("protocol", "tcp")];
    pair.server
        .metric_becomes("leno_requests_total", &refused, 1.0);
    assert_eq!(app.connection_count(), 0);
}

#[test]
fn permissive_port_serves_mesh_plaintext_and_the_applications_own_tls() {
    let (ca, plain) = (TestCa::new(), super::answering());
    let (caller, called) = (ca.identity("client"), ca.identity("server"));
    let tickets = identity::tls::Tickets::new();
    let config = identity::tls::server_config(&called.credentials(), &[b"app"], &tickets);
    let secure = EchoServer::start_tls(config.unwrap());
    let sidecar = Sidecar::inbound(plain.addr())
        .identity(&called)
        .further_route("{hosts: [\"*.i127-0-0-1i.v4\"], cluster: secure}")
        .further_cluster("secure", &[secure.addr()]);
    let proxy = start(&sidecar);
    drop(ask(&proxy));
    // What the application's clients offer is not the mesh's; they ask for a server by its name.
    let mesh = MeshConnector::with_alpn(&caller.credentials(), &called.id, &[b"app"]);
    let mut config = mesh.config().clone();
    config.enable_sni = true;
    let connector = MeshConnector::from_config(config);
    let mut client = connector.connect(proxy.addr()).unwrap();
    assert_eq!(client.alpn(), Some(&b"app"[..]));
    assert_eq!(client.post("/", "secret").text(), "secret");
    assert_eq!(secure.request_count(), 1);
    let handshakes = proxy.metric("leno_tls_handshakes_total", &[]);
    assert!(handshakes < 0.5, "{handshakes}");
}
