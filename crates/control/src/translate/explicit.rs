//! What the sidecar of an instance is told where nothing is intercepted: listeners with sockets at
//! the addresses that its status lists, inbound for its own ports and outbound for Services.
//! Called by `translate::workload`. Must never lead anywhere that interception would not.

use std::net::SocketAddr;

use model::{Cluster, Direction, Listener};

use super::service::{name, plain};
use super::workload::{cluster, door, listener, ports};
use super::{Mesh, Reach};
use crate::index::{Index, Replica};
use crate::kinds::{ClusterIp, Explicit, Outbound, ServiceKey};

/// Its own ports: the listener is elsewhere than the application, at the same IP address.
pub(super) fn inbound(
    index: &Index,
    instance: &Replica<'_>,
    explicit: &Explicit,
) -> (Vec<Listener>, Vec<Cluster>) {
    let (door, ports) = (door(index, instance), ports(index, instance));
    let one = |one: &crate::kinds::Inbound| {
        let protocol = ports.get(&one.port).copied().unwrap_or_default();
        let application = SocketAddr::new(one.address.ip(), one.port);
        let listener = Listener {
            address: one.address,
            bind: true,
            ..listener(application, protocol, &door)
        };
        (listener, cluster(application, protocol))
    };
    explicit.inbound.iter().map(one).unzip()
}

/// The Services that it calls: what their clients are told, but at an address of its own.
pub(super) fn outbound(
    index: &Index,
    mesh: &Mesh,
    reach: &Reach,
    explicit: &Explicit,
) -> Vec<Listener> {
    let one = |one: &Outbound| {
        let found = find(index, mesh, one).filter(|_| reaches(reach, &one.service));
        Listener {
            address: one.address,
            additional_addresses: Vec::new(),
            bind: true,
            names: Vec::new(),
            ..found.cloned().unwrap_or_else(|| nowhere(one))
        }
    };
    explicit.outbound.iter().map(one).collect()
}

/// What clients of the Service are told of the port. Of one without an address of its own there is
/// nothing to tell: it is called at its endpoints.
fn find<'a>(index: &Index, mesh: &'a Mesh, one: &Outbound) -> Option<&'a Listener> {
    let service = index.service(&one.service)?;
    if service.cluster_ip == ClusterIp::Headless {
        return None;
    }
    let name = name(&one.service, one.port);
    let mut listeners = mesh.services.get(&one.service)?.listeners.iter();
    listeners.find(|listener| listener.name == name)
}

/// For what is not there, or must not be called: the socket is, and who connects is to be told.
fn nowhere(one: &Outbound) -> Listener {
    Listener {
        name: name(&one.service, one.port),
        ..plain(one.address, Direction::Outbound)
    }
}

fn reaches(reach: &Reach, service: &ServiceKey) -> bool {
    match reach {
        Reach::All => true,
        Reach::Only(keys) => keys.contains(service),
    }
}
