//! What the sidecar of an instance is told of its own: a listener and a cluster for each port that
//! others may call it on, at its own addresses. Called by `translate` for instances that changed.
//! Must never let a port in more widely than another: the mode is the Workload's.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use model::{
    Balance, Cluster, Direction, Discovery, Endpoint, Listener, Protocol, TlsMode, Transport,
};

use super::endpoints::{number, spiffe_id};
use super::service::{listener_protocol, plain};
use super::{Reach, WorkloadParts, bound, routes};
use crate::index::{Index, Replica};
use crate::kinds::Mode;

/// Who is let in, and how.
pub(super) struct Door {
    pub(super) tls: TlsMode,
    pub(super) allow: Option<Vec<String>>,
}

pub(super) fn parts(index: &Index, instance: &Replica<'_>, reach: Reach) -> WorkloadParts {
    let (listeners, clusters) = match instance.sidecar.is_inbound() {
        true => inbound(index, instance),
        // Nothing that is made to it comes this way.
        false => (Vec::new(), Vec::new()),
    };
    WorkloadParts {
        identity: spiffe_id(index, instance.account),
        listeners,
        clusters,
        reach,
    }
}

fn inbound(index: &Index, instance: &Replica<'_>) -> (Vec<Listener>, Vec<Cluster>) {
    let door = door(index, instance);
    let mut listeners = vec![bound::inbound(&door)];
    let mut clusters = Vec::new();
    for (port, protocol) in ports(index, instance) {
        for address in instance.addresses {
            let address = SocketAddr::new(*address, port);
            listeners.push(listener(address, protocol, &door));
            clusters.push(cluster(address, protocol));
        }
    }
    (listeners, clusters)
}

fn door(index: &Index, instance: &Replica<'_>) -> Door {
    match index.mode(instance.workload) {
        Mode::Permissive => Door {
            tls: TlsMode::Permissive,
            allow: None,
        },
        Mode::Strict => {
            let callers = index.callers(instance.account);
            let ids = callers.iter().map(|caller| spiffe_id(index, caller));
            Door {
                tls: TlsMode::Strict,
                allow: Some(ids.collect()),
            }
        }
    }
}

/// The ports that it declares, and those at which a Service finds it: a request that a sidecar
/// sends there is one of many on a connection, which only a listener can take apart.
fn ports(index: &Index, instance: &Replica<'_>) -> BTreeMap<u16, Protocol> {
    let workload = instance.workload;
    let declared = workload.ports.iter().map(|port| (port.port, port.protocol));
    let mut ports: BTreeMap<_, _> = declared.collect();
    for service in index.selecting(&instance.of.namespace, workload) {
        let targets = index
            .service(&service)
            .into_iter()
            .flat_map(|found| &found.ports);
        for number in targets.filter_map(|port| number(workload, &port.target)) {
            ports.entry(number).or_default();
        }
    }
    for address in instance.addresses {
        for port in index.slices_at(*address).flat_map(|slice| &slice.ports) {
            ports.entry(port.port).or_default();
        }
    }
    ports
}

fn name(address: SocketAddr) -> String {
    format!("inbound|{address}")
}

fn listener(address: SocketAddr, protocol: Protocol, door: &Door) -> Listener {
    Listener {
        name: name(address),
        tls: door.tls,
        protocol: listener_protocol(protocol),
        routes: vec![routes::to(&name(address), door.allow.clone())],
        ..plain(address, Direction::Inbound)
    }
}

fn cluster(address: SocketAddr, protocol: Protocol) -> Cluster {
    Cluster {
        name: name(address),
        balance: Balance::default(),
        protocol,
        proxy_protocol: None,
        discovery: Discovery::Static,
        passthrough: false,
        endpoints: vec![Endpoint {
            address,
            transport: Transport::Plaintext,
            identities: Vec::new(),
        }],
    }
}
