//! Names as processes answer them: a sidecar that asks a resolver, which asks a name server of the
//! world. What is asked and answered in detail is tested beside the name server.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

use std::net::{IpAddr, SocketAddr, UdpSocket};

use testkit::ProxyProcess;
use testkit::wait::DEADLINE;
use wire::dns::{Answer, Code, Kind};

const LOOKUPS: &str = "leno_dns_cache_lookups_total";

/// A sidecar with one name, which asks `forward` for others.
fn sidecar(name: &str, address: &str, forward: &str) -> ProxyProcess {
    start(&format!(
        "\
workload: {{name: web}}
admin: 127.0.0.1:0
metrics: 127.0.0.1:0
dns: {{listen: 127.0.0.1:0{forward}}}
listeners:
- name: main
  direction: outbound
  address: 127.0.0.1:0
  originalDestination: true
  routes: [{{cluster: none}}]
- name: named
  direction: outbound
  bind: false
  address: {address}:80
  names: [{name}]
  routes: [{{cluster: none}}]
clusters: [{{name: none, endpoints: []}}]
"
    ))
}

fn start(yaml: &str) -> ProxyProcess {
    ProxyProcess::start(env!("CARGO_BIN_EXE_leno-proxy"), yaml)
}

/// Code and addresses that a name server says.
fn ask(server: SocketAddr, name: &str) -> (u16, Vec<IpAddr>) {
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, Kind::A.0 as u8, 0, 1]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket.connect(server).unwrap();
    socket.send(&message).unwrap();
    let mut out = [0; 512];
    let length = socket.recv(&mut out).expect("an answer");
    let answer = Answer::parse(&out[..length]).unwrap();
    let addresses = answer
        .records()
        .filter(|(_, record)| record.kind == Kind::A);
    let octets = addresses.map(|(_, record)| <[u8; 4]>::try_from(record.data).unwrap());
    (answer.code, octets.map(IpAddr::from).collect())
}

fn found(address: &str) -> (u16, Vec<IpAddr>) {
    (Code::NoError as u16, vec![address.parse().unwrap()])
}

#[test]
fn names_of_the_world_come_through_a_resolver_and_outlive_it() {
    let world = sidecar("www.example.org", "192.0.2.7", "");
    let forward = |server: &ProxyProcess| format!(", forward: '{}'", server.names_addr());
    let resolver = start(&format!(
        "dns: {{listen: 127.0.0.1:0{}}}\n",
        forward(&world)
    ));
    let web = sidecar(
        "web.default.svc.cluster.local",
        "10.78.0.1",
        &forward(&resolver),
    );
    assert_eq!(ask(web.names_addr(), "web"), found("10.78.0.1"));
    assert_eq!(ask(web.names_addr(), "www.example.org"), found("192.0.2.7"));
    let unknown = ask(web.names_addr(), "no.default.svc.cluster.local");
    assert_eq!(unknown, (Code::NoName as u16, vec![]));
    resolver.terminate();
    drop(world);
    assert_eq!(ask(web.names_addr(), "WWW.example.org"), found("192.0.2.7"));
    assert_eq!(web.metric(LOOKUPS, &[("result", "miss")]), 1.0);
    let known = web.metric(LOOKUPS, &[("result", "hit")]);
    let old = web.metric(LOOKUPS, &[("result", "stale")]);
    assert_eq!(known + old, 1.0);
    // Which nobody has asked for, and nobody answers.
    let failure = (Code::ServerFailure as u16, vec![]);
    assert_eq!(ask(web.names_addr(), "mail.example.org"), failure);
    assert_eq!(ask(web.names_addr(), "web"), found("10.78.0.1"));
}

#[test]
fn a_file_of_names_alone_is_enough() {
    let resolver = start("dns: {listen: 127.0.0.1:0, forward: system}\n");
    let unknown = ask(resolver.names_addr(), "no.default.svc.cluster.local");
    assert_eq!(unknown, (Code::NoName as u16, vec![]));
    assert!(resolver.terminate().status.success());
}
