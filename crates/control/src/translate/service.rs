//! What the clients of a Service are told: for each port a listener at its virtual addresses, its
//! routes, and the clusters that they lead to. Called by `translate` for Services that changed.
//! Must never depend on who the client is: all are told the same.

use std::net::{IpAddr, SocketAddr};

use model::{
    Balance, Cluster, Direction, Discovery, Listener, ListenerProtocol, Protocol, TlsMode,
};

use super::endpoints::{self, Target};
use super::{ServiceKey, ServiceParts, routes};
use crate::addresses::Book;
use crate::index::Index;
use crate::kinds::{ClusterIp, Service, ServicePort};

pub(super) fn parts(
    index: &Index,
    book: &Book,
    key: &ServiceKey,
    service: &Service,
) -> ServiceParts {
    let mut parts = ServiceParts::default();
    for port in &service.ports {
        let targets = endpoints::targets(index, key, service, port);
        parts
            .clusters
            .push(cluster(index, key, service, port, &targets));
        let (addresses, hosts) = match service.cluster_ip {
            ClusterIp::Headless => (of_endpoints(&targets), endpoints::hosts(key, &targets)),
            _ => (at_port(book.of(key), port.port), Vec::new()),
        };
        let listener = listener(index, key, service, port, addresses);
        let listener = listener.map(|listener| Listener { hosts, ..listener });
        parts.listeners.extend(listener);
    }
    let led_to = routes::backends(index, key, service);
    let others: Vec<_> = led_to
        .iter()
        .map(|(key, port)| backend(index, key, *port))
        .collect();
    let is_own = |other: &Cluster| parts.clusters.iter().any(|own| own.name == other.name);
    let others: Vec<_> = others.into_iter().filter(|other| !is_own(other)).collect();
    parts.clusters.extend(others);
    parts
}

/// How listeners and clusters of a port are called.
pub(super) fn name(key: &ServiceKey, port: u16) -> String {
    format!("outbound|{port}|{}", key.host())
}

/// The cluster of a port of another Service that a route leads to; nobody answers if there is none.
fn backend(index: &Index, key: &ServiceKey, port: u16) -> Cluster {
    let found = index.service(key).and_then(|service| {
        let port = service.ports.iter().find(|known| known.port == port)?;
        Some((service, port))
    });
    match found {
        Some((service, port)) => {
            let targets = endpoints::targets(index, key, service, port);
            cluster(index, key, service, port, &targets)
        }
        None => Cluster {
            name: name(key, port),
            balance: Balance::default(),
            protocol: Protocol::Auto,
            proxy_protocol: None,
            discovery: Discovery::OnDemand,
            passthrough: false,
            endpoints: Vec::new(),
        },
    }
}

fn cluster(
    index: &Index,
    key: &ServiceKey,
    service: &Service,
    port: &ServicePort,
    targets: &[Target<'_>],
) -> Cluster {
    let is_headless = service.cluster_ip == ClusterIp::Headless;
    let endpoints = targets
        .iter()
        .flat_map(|target| target.endpoints(index, is_headless));
    Cluster {
        name: name(key, port.port),
        balance: match is_headless {
            true => Balance::OriginalDestination,
            false => Balance::default(),
        },
        protocol: endpoints::protocol(index, key, service, port),
        proxy_protocol: None,
        discovery: Discovery::OnDemand,
        passthrough: false,
        endpoints: endpoints.collect(),
    }
}

/// `None` while there is no address to be called at.
fn listener(
    index: &Index,
    key: &ServiceKey,
    service: &Service,
    port: &ServicePort,
    addresses: Vec<SocketAddr>,
) -> Option<Listener> {
    let mut addresses = addresses.into_iter();
    let address = addresses.next()?;
    let routes = routes::of(index, key, port.port);
    let protocol = match routes {
        // Whoever writes an HTTPRoute says that it is HTTP.
        Some(_) => ListenerProtocol::Http,
        None => listener_protocol(endpoints::protocol(index, key, service, port)),
    };
    Some(Listener {
        name: name(key, port.port),
        names: vec![key.host()],
        port_name: port.name.clone(),
        additional_addresses: addresses.collect(),
        protocol,
        routes: routes.unwrap_or_else(|| vec![routes::to(&name(key, port.port), None)]),
        ..plain(address, Direction::Outbound)
    })
}

/// What a listener must understand, for its destination to be spoken to.
pub(super) const fn listener_protocol(protocol: Protocol) -> ListenerProtocol {
    match protocol {
        Protocol::Auto => ListenerProtocol::Auto,
        Protocol::Http1 | Protocol::Http2 => ListenerProtocol::Http,
        Protocol::Tcp => ListenerProtocol::Tcp,
    }
}

/// A listener without a socket, a name or a route.
pub(super) fn plain(address: SocketAddr, direction: Direction) -> Listener {
    Listener {
        name: String::new(),
        direction,
        address,
        additional_addresses: Vec::new(),
        bind: false,
        original_destination: false,
        names: Vec::new(),
        hosts: Vec::new(),
        port_name: None,
        tls: TlsMode::Disabled,
        edge: None,
        protocol: ListenerProtocol::Auto,
        detect_timeout: Listener::DETECT_TIMEOUT,
        upgrades: vec!["websocket".to_owned()],
        connect: false,
        proxy_protocol: false,
        request_id: false,
        forwarded_for: false,
        routes: Vec::new(),
    }
}

fn at_port(addresses: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    let addresses = addresses.iter();
    addresses
        .map(|address| SocketAddr::new(*address, port))
        .collect()
}

/// A headless Service is called at its endpoints, on the port on which they listen.
fn of_endpoints(targets: &[Target<'_>]) -> Vec<SocketAddr> {
    let targets = targets.iter();
    targets
        .flat_map(|target| at_port(&target.addresses, target.port))
        .collect()
}
