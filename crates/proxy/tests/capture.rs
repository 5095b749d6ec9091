//! Connections that were redirected to the sidecar go where they were made to. A PROXY header says
//! here what the kernel says of a redirected connection; the real thing is tested by `local`.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};

use testkit::{EchoServer, ProxyProcess, RawClient, ScriptedUpstream, Step, TestCa};

const HTTP_SERVICE: &str = "10.78.0.1:80";
const TCP_SERVICE: &str = "10.78.0.2:80";

/// A listener that takes what was redirected, and others without sockets, with their clusters.
#[track_caller]
fn start(virtual_listeners: &str, clusters: &str) -> ProxyProcess {
    start_with("", virtual_listeners, clusters)
}

#[track_caller]
fn start_with(more: &str, virtual_listeners: &str, clusters: &str) -> ProxyProcess {
    let yaml = format!(
        "workload: {{name: caller}}\nadmin: 127.0.0.1:0\nmetrics: 127.0.0.1:0\n{more}listeners:\n\
         - {{name: outbound, direction: outbound, address: \"127.0.0.1:0\", originalDestination: \
         true, proxyProtocol: true, routes: [{{cluster: passthrough}}]}}\n{virtual_listeners}\
         clusters:\n- {{name: passthrough, passthrough: true}}\n{clusters}"
    );
    ProxyProcess::start(env!("CARGO_BIN_EXE_leno-proxy"), &yaml)
}

fn listener(name: &str, addresses: &[&str], rest: &str) -> String {
    let (first, more) = addresses.split_first().unwrap();
    format!(
        "- {{name: {name}, direction: outbound, bind: false, address: \"{first}\", \
         additionalAddresses: {more:?}, {rest}}}\n"
    )
}

fn cluster(name: &str, endpoints: &[SocketAddr], rest: &str) -> String {
    let endpoints: Vec<_> = endpoints
        .iter()
        .map(|addr| format!("{{address: \"{addr}\"}}"))
        .collect();
    let endpoints = endpoints.join(", ");
    format!("- {{name: {name}, endpoints: [{endpoints}]{rest}}}\n")
}

/// A connection that was made to `destination`.
#[track_caller]
fn connect(proxy: &ProxyProcess, destination: &impl ToString) -> RawClient {
    connect_by("outbound", proxy, destination)
}

/// The same, redirected to another listener.
#[track_caller]
fn connect_by(listener: &str, proxy: &ProxyProcess, destination: &impl ToString) -> RawClient {
    let destination: SocketAddr = destination.to_string().parse().unwrap();
    let (family, source) = match destination {
        SocketAddr::V4(_) => ("TCP4", "192.0.2.7"),
        SocketAddr::V6(_) => ("TCP6", "2001:db8::7"),
    };
    let mut client = RawClient::connect(proxy.listener(listener));
    let (ip, port) = (destination.ip(), destination.port());
    client.send(format!("PROXY {family} {source} {ip} 40000 {port}\r\n"));
    client
}

fn greeter() -> ScriptedUpstream {
    ScriptedUpstream::always(vec![Step::send("hello"), Step::ReadEnd])
}

#[test]
fn two_services_on_one_port_are_told_apart_by_their_addresses() {
    let (http, tcp) = (EchoServer::start(), greeter());
    let listeners = listener("web", &[HTTP_SERVICE], "routes: [{cluster: web}]")
        + &listener(
            "mail",
            &[TCP_SERVICE],
            "protocol: tcp, routes: [{cluster: mail}]",
        );
    let clusters = cluster("web", &[http.addr()], "") + &cluster("mail", &[tcp.addr()], "");
    let proxy = start(&listeners, &clusters);
    assert_eq!(connect(&proxy, &HTTP_SERVICE).get("/").status(), 200);
    connect(&proxy, &TCP_SERVICE).expect("hello");
    assert_eq!((http.connection_count(), tcp.connection_count()), (1, 1));
    // The name in the request does not matter: the address was chosen by whoever connected.
    let mut client = connect(&proxy, &HTTP_SERVICE);
    let answer = client.ask("GET / HTTP/1.1\r\nhost: mail:80\r\n\r\n");
    assert_eq!((answer.status(), http.request_count()), (200, 2));
}

#[test]
fn both_families_of_a_service_lead_to_it() {
    let app = EchoServer::start();
    let addresses = [HTTP_SERVICE, "[fd78::1]:80"];
    let listeners = listener("web", &addresses, "routes: [{cluster: web}]");
    let proxy = start(&listeners, &cluster("web", &[app.addr()], ""));
    for destination in addresses {
        assert_eq!(connect(&proxy, &destination).get("/").status(), 200);
    }
}

#[test]
fn what_is_not_of_the_mesh_passes_through_to_where_it_was_meant_for() {
    let (app, other) = (EchoServer::start(), EchoServer::start());
    let listeners = listener("web", &[HTTP_SERVICE], "routes: [{cluster: web}]");
    let proxy = start(&listeners, &cluster("web", &[app.addr()], ""));
    assert_eq!(connect(&proxy, &other.addr()).get("/").status(), 200);
    assert_eq!((app.request_count(), other.request_count()), (0, 1));
    let labels = [("destination_workload", "passthrough"), ("protocol", "tcp")];
    proxy.metric_becomes("leno_requests_total", &labels, 1.0);
}

#[test]
fn whoever_was_not_redirected_is_turned_away() {
    let yaml = "workload: {name: caller}\nadmin: 127.0.0.1:0\nmetrics: 127.0.0.1:0\nlisteners:\n\
                - {name: outbound, direction: outbound, address: \"127.0.0.1:0\", \
                originalDestination: true, routes: [{cluster: passthrough}]}\n\
                clusters: [{name: passthrough, passthrough: true}]\n";
    let proxy = ProxyProcess::start(env!("CARGO_BIN_EXE_leno-proxy"), yaml);
    let mut client = TcpStream::connect(proxy.listener("outbound")).unwrap();
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn each_endpoint_of_a_headless_service_is_reached_by_its_own_address() {
    let replicas = [
        EchoServer::start(),
        EchoServer::start(),
        EchoServer::start(),
    ];
    let addrs = replicas.each_ref().map(EchoServer::addr);
    let names = addrs.map(|addr| addr.to_string());
    let names = names.each_ref().map(String::as_str);
    let listeners = listener("db", &names, "routes: [{cluster: db}]");
    let cluster = cluster("db", &addrs, ", balance: originalDestination");
    let proxy = start(&listeners, &cluster);
    for (count, place) in (1..).zip([2, 0, 2, 2]) {
        let answer = connect(&proxy, &addrs[place]).get("/");
        assert_eq!((count, answer.status()), (count, 200));
    }
    assert_eq!(
        replicas.each_ref().map(EchoServer::request_count),
        [1, 0, 3]
    );
}

#[test]
fn endpoint_that_left_is_not_replaced_by_another() {
    let (stays, left) = (EchoServer::start(), EchoServer::start());
    let addrs = [stays.addr().to_string(), left.addr().to_string()];
    let addrs = addrs.each_ref().map(String::as_str);
    let listeners = listener("db", &addrs, "routes: [{cluster: db}]");
    let cluster = cluster("db", &[stays.addr()], ", balance: originalDestination");
    let proxy = start(&listeners, &cluster);
    assert_eq!(connect(&proxy, &left.addr()).get("/").status(), 503);
    assert_eq!((stays.request_count(), left.request_count()), (0, 0));
}

#[test]
fn requests_are_shared_by_weight() {
    let apps = [
        EchoServer::start(),
        EchoServer::start(),
        EchoServer::start(),
    ];
    let split = "{cluster: a, weight: 3}, {cluster: b, weight: 1}, {cluster: c, weight: 0}";
    let routes = format!("routes: [{{split: [{split}]}}]");
    let clusters = ["a", "b", "c"]
        .iter()
        .zip(&apps)
        .map(|(name, app)| cluster(name, &[app.addr()], ""));
    let proxy = start(
        &listener("web", &[HTTP_SERVICE], &routes),
        &clusters.collect::<String>(),
    );
    let mut client = connect(&proxy, &HTTP_SERVICE);
    for _ in 0..800 {
        assert_eq!(client.get("/").status(), 200);
    }
    let counts = apps.each_ref().map(EchoServer::request_count);
    // Six standard deviations of a binomial with these odds are 74.
    assert!((526..=674).contains(&counts[0]), "{counts:?}");
    assert_eq!((counts[0] + counts[1], counts[2]), (800, 0));
}

#[test]
fn connections_stay_with_their_service_when_others_come_and_go() {
    let app = EchoServer::start();
    let web = listener("web", &[HTTP_SERVICE], "routes: [{cluster: web}]");
    let other = listener("a", &[TCP_SERVICE], "routes: [{cluster: web}]");
    let clusters = cluster("web", &[app.addr()], "");
    let proxy = start(&web, &clusters);
    let mut client = connect(&proxy, &HTTP_SERVICE);
    assert_eq!(client.get("/").status(), 200);
    let yaml = std::fs::read_to_string(proxy.config()).unwrap();
    proxy.reconfigure(&yaml.replace(&web, &(other + &web)));
    assert_eq!(client.get("/").status(), 200);
    proxy.reconfigure(&yaml.replace(&web, ""));
    assert_eq!(client.get("/").status(), 404);
}

#[test]
fn what_comes_in_after_its_listener_was_taken_away_goes_where_it_was_made_to() {
    let app = EchoServer::start();
    let address = app.addr();
    let inbound = "- {name: inbound, direction: inbound, address: \"127.0.0.1:0\", \
                   originalDestination: true, proxyProtocol: true, routes: [{cluster: \
                   passthrough}]}\n";
    let web = format!(
        "- {{name: web, direction: inbound, bind: false, address: \"{address}\", routes: \
         [{{cluster: web}}]}}\n"
    );
    let clusters = cluster("web", &[address], "");
    let proxy = start(&(inbound.to_owned() + &web), &clusters);
    let mut client = connect_by("inbound", &proxy, &address);
    assert_eq!(client.get("/").status(), 200);
    let yaml = std::fs::read_to_string(proxy.config()).unwrap();
    proxy.reconfigure(&yaml.replace(&web, ""));
    // Those who send learn of it in their own time.
    assert_eq!(client.get("/").status(), 200);
    assert_eq!(client.get("/").status(), 200);
    assert_eq!(app.request_count(), 3);
}

#[test]
fn workload_that_calls_itself_is_not_asked_for_a_certificate() {
    let ca = TestCa::new();
    let id = ca.identity("caller");
    let app = EchoServer::start();
    let addr = app.addr();
    let mesh = format!(
        "- {{name: own, direction: inbound, bind: false, address: \"{addr}\", routes: \
         [{{cluster: passthrough}}]}}\n"
    );
    let listeners = listener("web", &[HTTP_SERVICE], "routes: [{cluster: web}]") + &mesh;
    let peer = id.id.to_string();
    let clusters = format!(
        "- {{name: web, endpoints: [{{address: \"{addr}\", transport: leno, identities: \
         [\"{peer}\"]}}]}}\n"
    );
    let files = format!(
        "identity: {{certificate: {:?}, key: {:?}, trustBundle: {:?}}}\n",
        id.paths.certificate, id.paths.key, id.paths.trust_bundle
    );
    let proxy = start_with(&files, &listeners, &clusters);
    assert_eq!(connect(&proxy, &HTTP_SERVICE).get("/").status(), 200);
}
