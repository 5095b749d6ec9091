//! Parts of a mesh, as small as can be encoded.

use std::sync::Arc;

use identity::ca::Serial;
use model::{
    Balance, Cluster, Direction, Discovery, Endpoint, Listener, ListenerProtocol, Protocol, Route,
    TlsMode, Transport,
};

use crate::authority::Roots;
use crate::kinds::DataPlane;
use crate::translate::{CommonParts, Reach, ServiceParts, WorkloadParts};

/// Nothing in it is read.
pub(super) const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

/// Roots of these numbers, and how many there are.
pub(super) fn roots(preferred: u8, oldest: u8, count: usize) -> Roots {
    let [preferred, oldest] = [preferred, oldest].map(|number| Serial([number; 16]));
    Roots {
        preferred,
        oldest,
        count,
    }
}

fn identity(name: &str) -> String {
    format!("spiffe://cluster.local/ns/default/sa/{name}")
}

/// One whose endpoints are learnt, and are `count`.
pub(super) fn cluster(name: &str, count: u16) -> Cluster {
    let endpoint = |number: u16| Endpoint {
        address: ([10, 0, 0, 1], number).into(),
        transport: Transport::Leno,
        identities: vec![identity("server")],
    };
    Cluster {
        name: name.to_owned(),
        balance: Balance::RoundRobin,
        protocol: Protocol::Auto,
        proxy_protocol: None,
        discovery: Discovery::OnDemand,
        passthrough: false,
        endpoints: (1..=count).map(endpoint).collect(),
    }
}

fn passthrough() -> Cluster {
    Cluster {
        balance: Balance::OriginalDestination,
        protocol: Protocol::Tcp,
        discovery: Discovery::Static,
        passthrough: true,
        ..cluster("passthrough", 0)
    }
}

pub(super) fn listener(name: &str, to: &str) -> Listener {
    Listener {
        name: name.to_owned(),
        direction: Direction::Outbound,
        address: ([10, 0, 0, 2], 80).into(),
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
        routes: vec![Route::to(to)],
    }
}

pub(super) fn common() -> Arc<CommonParts> {
    Arc::new(CommonParts {
        listeners: vec![listener("outbound", "passthrough")],
        clusters: vec![passthrough()],
    })
}

pub(super) fn service(name: &str, endpoints: u16) -> Arc<ServiceParts> {
    let name = format!("outbound|{name}");
    Arc::new(ServiceParts {
        listeners: vec![listener(&name, &name)],
        clusters: vec![cluster(&name, endpoints)],
    })
}

pub(super) fn workload(name: &str, reach: &Reach) -> Arc<WorkloadParts> {
    let inbound = format!("inbound|{name}");
    let own = Cluster {
        discovery: Discovery::Static,
        endpoints: vec![Endpoint {
            address: ([127, 0, 0, 1], 8080).into(),
            transport: Transport::Plaintext,
            identities: Vec::new(),
        }],
        ..cluster(&inbound, 0)
    };
    Arc::new(WorkloadParts {
        identity: identity(name),
        data_plane: DataPlane::Leno,
        listeners: vec![listener("inbound", &inbound)],
        clusters: vec![own],
        certificates: Vec::new(),
        reach: reach.clone(),
        is_explicit: false,
    })
}
