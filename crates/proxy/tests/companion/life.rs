//! How it starts and how it ends.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use model::{
    Balance, Cluster, Direction, Discovery, Endpoint, Listener, ListenerProtocol, Protocol, Route,
    TlsMode, Transport,
};
use rustix::process::Signal;
use testkit::EchoServer;

use crate::world::{World, ask, envoy_of, page, signal};

/// An inbound listener in plaintext.
pub(crate) fn listener(name: &str, cluster: &str) -> Listener {
    Listener {
        name: name.to_owned(),
        direction: Direction::Inbound,
        address: "127.0.0.1:0".parse().unwrap(),
        additional_addresses: Vec::new(),
        bind: true,
        original_destination: false,
        names: Vec::new(),
        hosts: Vec::new(),
        port_name: None,
        tls: TlsMode::Disabled,
        edge: None,
        protocol: ListenerProtocol::Http,
        detect_timeout: Listener::DETECT_TIMEOUT,
        upgrades: Vec::new(),
        connect: false,
        proxy_protocol: false,
        request_id: false,
        forwarded_for: false,
        routes: vec![Route::to(cluster)],
    }
}

pub(crate) fn cluster(name: &str, endpoint: SocketAddr) -> Cluster {
    Cluster {
        name: name.to_owned(),
        balance: Balance::RoundRobin,
        protocol: Protocol::Http1,
        proxy_protocol: None,
        discovery: Discovery::Static,
        passthrough: false,
        endpoints: vec![Endpoint {
            address: endpoint,
            transport: Transport::Plaintext,
            identities: Vec::new(),
        }],
    }
}

#[test]
fn envoy_serves_when_the_companion_says_so() {
    let app = EchoServer::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    let proxy = world.start();
    assert_eq!(ask(&proxy), 200);
    assert_eq!(proxy.admin("/ready").status(), 200);
    assert_eq!(page(&proxy, "/envoy/server_info")["state"], "LIVE");
    let chain = &page(&proxy, "/certs")["certificateChain"];
    assert!(chain[0].is_object(), "{chain}");
    let folder = world.folder("web");
    assert_eq!(
        folder.metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    drop(proxy.terminate());
    assert!(!folder.exists(), "its folder is gone with it");
}

#[test]
fn envoy_that_ends_takes_the_companion_along_with_its_words() {
    let app = EchoServer::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    let proxy = world.start();
    signal(envoy_of(&proxy), Signal::KILL);
    let exit = proxy.wait(Instant::now());
    assert!(!exit.status.success());
    let words = "error: Envoy ended (signal: 9 (SIGKILL))";
    assert!(exit.stderr.contains(words), "{}", exit.stderr);
}
