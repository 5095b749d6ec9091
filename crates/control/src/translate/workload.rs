//! What the sidecar of a Workload is told of its own: a listener and a cluster for each port that
//! others may call it on. Called by `translate` for Workloads that changed.
//! Must never let a port in more widely than another: the mode is the Workload's.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use model::{
    Balance, Cluster, Direction, Discovery, Endpoint, Listener, Protocol, TlsMode, Transport,
};

use super::endpoints::{number, spiffe_id};
use super::service::{listener_protocol, plain};
use super::{Reach, WorkloadKey, WorkloadParts, bound, routes};
use crate::index::Index;
use crate::kinds::{Mode, Workload};

/// Who is let in, and how.
pub(super) struct Door {
    pub(super) tls: TlsMode,
    pub(super) allow: Option<Vec<String>>,
}

pub(super) fn parts(
    index: &Index,
    key: &WorkloadKey,
    workload: &Workload,
    reach: Reach,
) -> WorkloadParts {
    let door = door(index, workload);
    let mut listeners = vec![bound::inbound(&door)];
    let mut clusters = Vec::new();
    let addresses = index.addresses(key);
    for (port, protocol) in ports(index, key, workload) {
        for address in addresses {
            let address = SocketAddr::new(*address, port);
            listeners.push(listener(address, protocol, &door));
            clusters.push(cluster(address, protocol));
        }
    }
    WorkloadParts {
        identity: spiffe_id(index, &workload.account),
        listeners,
        clusters,
        reach,
    }
}

fn door(index: &Index, workload: &Workload) -> Door {
    match index.mode(workload) {
        Mode::Permissive => Door {
            tls: TlsMode::Permissive,
            allow: None,
        },
        Mode::Strict => {
            let callers = index.callers(&workload.account);
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
fn ports(index: &Index, key: &WorkloadKey, workload: &Workload) -> BTreeMap<u16, Protocol> {
    let declared = workload.ports.iter().map(|port| (port.port, port.protocol));
    let mut ports: BTreeMap<_, _> = declared.collect();
    for service in index.selecting(&key.namespace, workload) {
        let targets = index
            .service(&service)
            .into_iter()
            .flat_map(|found| &found.ports);
        for number in targets.filter_map(|port| number(workload, &port.target)) {
            ports.entry(number).or_default();
        }
    }
    for address in index.addresses(key) {
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
