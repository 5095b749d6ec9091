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
use super::{Mesh, Reach, WorkloadParts, bound, explicit, gateway, routes};
use crate::index::{Index, Replica};
use crate::kinds::{Mode, Workload};

/// Who is let in, and how.
pub(super) struct Door {
    pub(super) tls: TlsMode,
    pub(super) allow: Option<Vec<String>>,
}

pub(super) fn parts(
    index: &Index,
    mesh: &Mesh,
    instance: &Replica<'_>,
    reach: Reach,
) -> WorkloadParts {
    let (mut listeners, clusters) = match (instance.sidecar.is_inbound(), instance.explicit) {
        (true, None) => inbound(index, instance),
        (true, Some(explicit)) => explicit::inbound(index, instance, explicit),
        // Nothing that is made to it comes this way.
        (false, _) => (Vec::new(), Vec::new()),
    };
    if let Some(explicit) = instance.explicit {
        listeners.extend(explicit::outbound(index, mesh, &reach, explicit));
    }
    let (ways_in, certificates) = gateway::parts(index, instance);
    listeners.extend(ways_in);
    WorkloadParts {
        identity: spiffe_id(index, instance.account),
        data_plane: instance.data_plane,
        listeners,
        clusters,
        certificates,
        reach,
        is_explicit: instance.explicit.is_some(),
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

pub(super) fn door(index: &Index, instance: &Replica<'_>) -> Door {
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
pub(super) fn ports(index: &Index, instance: &Replica<'_>) -> BTreeMap<u16, Protocol> {
    let mut ports = selected_ports(index, &instance.of.namespace, instance.workload);
    for address in instance.addresses {
        for port in index.slices_at(*address).flat_map(|slice| &slice.ports) {
            ports.entry(port.port).or_default();
        }
    }
    ports
}

/// Likewise, whoever of it lives and wherever.
pub(super) fn selected_ports(
    index: &Index,
    namespace: &str,
    workload: &Workload,
) -> BTreeMap<u16, Protocol> {
    let declared = workload.ports.iter().map(|port| (port.port, port.protocol));
    let mut ports: BTreeMap<_, _> = declared.collect();
    for service in index.selecting(namespace, workload) {
        let targets = index
            .service(&service)
            .into_iter()
            .flat_map(|found| &found.ports);
        for number in targets.filter_map(|port| number(workload, &port.target)) {
            ports.entry(number).or_default();
        }
    }
    ports
}

fn name(address: SocketAddr) -> String {
    format!("inbound|{address}")
}

/// For what is made to `address`.
pub(super) fn listener(address: SocketAddr, protocol: Protocol, door: &Door) -> Listener {
    Listener {
        name: name(address),
        tls: door.tls,
        protocol: listener_protocol(protocol),
        routes: vec![routes::to(&name(address), door.allow.clone())],
        ..plain(address, Direction::Inbound)
    }
}

/// The workload itself at `address`.
pub(super) fn cluster(address: SocketAddr, protocol: Protocol) -> Cluster {
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
