//! The listeners that have sockets, to which connections are redirected, and the way of those that
//! no other listener takes: on to where they were made to, unread. Called by `translate`.
//! Must never lead out of the mesh where that is forbidden.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use model::{Balance, Cluster, Direction, Discovery, Listener, ListenerProtocol, Protocol};

use super::service::plain;
use super::workload::Door;
use super::{CommonParts, routes};
use crate::index::Index;

/// Where connections that a workload makes are redirected to.
const OUTBOUND_PORT: u16 = 15001;

/// Where connections that are made to a workload are redirected to.
const INBOUND_PORT: u16 = 15003;

/// The cluster of what is passed on unread.
const PASSTHROUGH: &str = "passthrough";

pub(super) fn parts(index: &Index) -> CommonParts {
    let routes = match index.mesh().egress {
        true => vec![routes::to(PASSTHROUGH, None)],
        false => Vec::new(),
    };
    CommonParts {
        listeners: vec![Listener {
            routes,
            ..bound(Direction::Outbound, OUTBOUND_PORT)
        }],
        clusters: vec![passthrough()],
    }
}

/// The bound `inbound` of a workload: ports that nobody declared.
pub(super) fn inbound(door: &Door) -> Listener {
    Listener {
        tls: door.tls,
        routes: vec![routes::to(PASSTHROUGH, door.allow.clone())],
        ..bound(Direction::Inbound, INBOUND_PORT)
    }
}

fn bound(direction: Direction, port: u16) -> Listener {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    Listener {
        name: direction.label().to_owned(),
        additional_addresses: vec![SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))],
        bind: true,
        original_destination: true,
        protocol: ListenerProtocol::Tcp,
        ..plain(address, direction)
    }
}

fn passthrough() -> Cluster {
    Cluster {
        name: PASSTHROUGH.to_owned(),
        balance: Balance::OriginalDestination,
        protocol: Protocol::Tcp,
        proxy_protocol: None,
        discovery: Discovery::Static,
        passthrough: true,
        endpoints: Vec::new(),
    }
}
