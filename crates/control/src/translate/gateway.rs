//! What the sidecar of a gateway is told besides what every sidecar is: a listener with sockets of
//! the machine for each port, the routes that are attached to it, and the certificates that it
//! shows. Called by `translate::workload` for gateways that changed. Must never hand a key to
//! anybody but them.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use model::{Direction, Edge, HostMatch, Listener, ListenerProtocol, Route, Shown};
use xds::secret::Certificate;

use super::routes::{self, Taken};
use super::service::plain;
use crate::index::{Index, Replica};
use crate::kinds::{Gateway, GatewayListener, Key, Kind};

/// None if the instance is no gateway, or there is no such Gateway.
pub(super) fn parts(index: &Index, instance: &Replica<'_>) -> (Vec<Listener>, Vec<Certificate>) {
    let name = instance.workload.gateway.as_ref();
    let key = name.map(|name| Key {
        kind: Kind::Gateway,
        namespace: instance.of.namespace.clone(),
        name: name.clone(),
    });
    let found = key.and_then(|key| index.gateway(&key).map(|gateway| (key, gateway)));
    let Some((key, gateway)) = found else {
        return (Vec::new(), Vec::new());
    };
    let ports = gateway.by_port().into_iter();
    let listeners = ports.filter_map(|(port, (addresses, listeners))| {
        listener(index, &key, (port, &addresses), &listeners)
    });
    (listeners.collect(), certificates(index, gateway))
}

fn listener(
    index: &Index,
    gateway: &Key,
    (port, addresses): (u16, &[SocketAddr]),
    listeners: &[&GatewayListener],
) -> Option<Listener> {
    let (address, others) = addresses.split_first()?;
    Some(Listener {
        name: format!("gateway|{port}"),
        additional_addresses: others.to_vec(),
        bind: true,
        edge: Some(edge(listeners)),
        protocol: ListenerProtocol::Http,
        request_id: true,
        forwarded_for: true,
        routes: attached(index, gateway, listeners),
        ..plain(*address, Direction::Outbound)
    })
}

/// All of one port have one scheme.
fn edge(listeners: &[&GatewayListener]) -> Edge {
    let shown = listeners.iter().filter_map(|listener| {
        let certificate = listener.certificate.as_ref()?;
        Some(Shown {
            hosts: vec![listener.host.clone()],
            certificate: name(&certificate.secret),
        })
    });
    let shown: Vec<_> = shown.collect();
    match shown.is_empty() {
        true => Edge::Plaintext,
        false => Edge::Tls(shown),
    }
}

/// How sidecars call the certificate in a Secret.
fn name(secret: &Key) -> String {
    format!("tls|{}/{}", secret.namespace, secret.name)
}

/// Routes by name; of two for the same host and path the first is it.
fn attached(index: &Index, gateway: &Key, listeners: &[&GatewayListener]) -> Vec<Route> {
    let mut taken = Taken::new();
    let mut all = Vec::new();
    for attached in index.attached(gateway) {
        for listener in listeners {
            if !attached.is_for(listener, &gateway.namespace) {
                continue;
            }
            let hosts = common_hosts(&listener.host, &attached.route.hosts);
            let came = (listener.scheme(), listener.port);
            let routes = routes::rules(attached.route, &hosts, came, &mut taken);
            all.extend(routes);
        }
    }
    all
}

/// Those hosts that a listener for `own` and a route for `others`, which takes all if there are
/// none, have in common.
pub(crate) fn common_hosts(own: &HostMatch, others: &[HostMatch]) -> Vec<HostMatch> {
    if others.is_empty() {
        return vec![own.clone()];
    }
    let common = others.iter().filter_map(|other| match () {
        () if contains(own, other) => Some(other.clone()),
        () if contains(other, own) => Some(own.clone()),
        () => None,
    });
    let mut hosts: Vec<HostMatch> = Vec::new();
    for host in common {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

/// Whether all that `inner` fits, `outer` fits.
fn contains(outer: &HostMatch, inner: &HostMatch) -> bool {
    match (outer, inner) {
        (HostMatch::Any, _) => true,
        (HostMatch::Suffix(suffix), HostMatch::Suffix(name)) => name.ends_with(suffix.as_str()),
        (HostMatch::Suffix(suffix), HostMatch::Exact(name)) => {
            name.len() > suffix.len() && name.ends_with(suffix.as_str())
        }
        (HostMatch::Exact(one), HostMatch::Exact(other)) => one == other,
        (_, HostMatch::Any) | (HostMatch::Exact(_), HostMatch::Suffix(_)) => false,
    }
}

/// Those that can be shown, each once. The others are odd, and the index says so.
fn certificates(index: &Index, gateway: &Gateway) -> Vec<Certificate> {
    let refs = gateway.listeners.iter();
    let secrets = refs.filter_map(|listener| Some(&listener.certificate.as_ref()?.secret));
    let secrets: BTreeSet<_> = secrets.collect();
    let found = secrets.into_iter().filter_map(|secret| {
        let pair = index.secret(secret)?.pair.as_ref().ok()?;
        Some(Certificate {
            name: name(secret),
            chain: pair.chain.clone(),
            key: pair.key.clone(),
        })
    });
    found.collect()
}
