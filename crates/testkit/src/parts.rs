//! Listeners and clusters as small as they can be. Tests say what else they are about.

use std::net::SocketAddr;

use model::{
    Balance, Cluster, Direction, Discovery, Endpoint, Listener, ListenerProtocol, Protocol, Route,
    TlsMode, Transport,
};

/// An outbound listener for HTTP in plaintext, without a socket, that leads all to `cluster`.
///
/// # Panics
/// If `address` is none.
#[must_use]
pub fn listener(name: &str, address: &str, cluster: &str) -> Listener {
    Listener {
        name: name.to_owned(),
        direction: Direction::Outbound,
        address: address.parse().expect("an address"),
        additional_addresses: Vec::new(),
        bind: false,
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

/// A cluster of endpoints in plaintext, which are told by themselves.
#[must_use]
pub fn cluster(name: &str, endpoints: &[SocketAddr]) -> Cluster {
    let endpoint = |address: &SocketAddr| Endpoint {
        address: *address,
        transport: Transport::Plaintext,
        identities: Vec::new(),
    };
    Cluster {
        name: name.to_owned(),
        balance: Balance::RoundRobin,
        protocol: Protocol::Auto,
        proxy_protocol: None,
        discovery: Discovery::Eager,
        passthrough: false,
        endpoints: endpoints.iter().map(endpoint).collect(),
    }
}
