//! Transport sockets of a cluster: one for each transport that its endpoints have, chosen by their
//! metadata, and one for whoever says nothing. Called by `cluster`.

use std::collections::BTreeSet;

use model::{Balance, Cluster, Discovery, ProxyProtocol, Transport};

use crate::error::Error;
use crate::metadata::{as_single, single};
use crate::place::Place;
use crate::proto::cluster::{Cluster as Message, TransportSocketMatch};
use crate::proto::core::TransportSocket;
use crate::tls::{self, Socket};

/// The key that endpoints and sockets are matched by; its value is a transport's word.
pub(crate) const KEY: &str = "leno";

const MESH: [Transport; 2] = [Transport::Leno, Transport::Mtls];

/// Both fields of a cluster that have sockets.
pub(super) struct Sockets {
    pub(super) matches: Vec<TransportSocketMatch>,
    pub(super) default: Option<TransportSocket>,
}

pub(super) fn encode(cluster: &Cluster) -> Sockets {
    let identities: BTreeSet<_> = cluster
        .endpoints
        .iter()
        .flat_map(|endpoint| endpoint.identities.iter().cloned())
        .collect();
    let socket = |transport: Transport| {
        let socket = Socket {
            transport,
            identities: match transport {
                Transport::Plaintext => BTreeSet::new(),
                Transport::Mtls | Transport::Leno => identities.clone(),
            },
            proxy_protocol: cluster.proxy_protocol,
        };
        tls::encode_upstream(&socket, cluster.protocol)
    };
    let entry = |transport: Transport| TransportSocketMatch {
        name: transport.label().to_owned(),
        r#match: Some(single(KEY, transport.label())),
        transport_socket: Some(socket(transport)),
    };
    let has_mesh = !identities.is_empty();
    let default = default(cluster);
    let is_plain = default == Transport::Plaintext && cluster.proxy_protocol.is_none();
    Sockets {
        // Both, so that an endpoint that changes does not wait for its cluster.
        matches: MESH.into_iter().filter(|_| has_mesh).map(entry).collect(),
        default: (!is_plain).then(|| socket(default)),
    }
}

/// Where Envoy has no endpoints, it has nothing else to go by: there mesh TLS is spoken if all of
/// ours would be spoken to so.
fn default(cluster: &Cluster) -> Transport {
    let to_destination = cluster.balance == Balance::OriginalDestination;
    let mut transports = cluster.endpoints.iter().map(|endpoint| endpoint.transport);
    match transports.next() {
        Some(first) if to_destination && transports.all(|other| other == first) => first,
        _ => Transport::Plaintext,
    }
}

/// The PROXY header that all sockets begin with; an error unless they are ours, and fit the
/// cluster's endpoints as far as they came with it.
pub(super) fn decode(
    message: &Message,
    cluster: &Cluster,
    at: &Place<'_>,
) -> Result<Option<ProxyProtocol>, Error> {
    let mut sockets: Vec<Socket> = Vec::new();
    for (index, entry) in message.transport_socket_matches.iter().enumerate() {
        let at = at.item("transport_socket_matches", index);
        let socket = decode_match(entry, cluster, &at)?;
        if sockets
            .iter()
            .any(|other| other.transport == socket.transport)
        {
            return Err(Error::invalid(
                &at,
                "a transport has one socket; remove one",
            ));
        }
        sockets.push(socket);
    }
    check_endpoints(cluster, &sockets, at)?;
    let default = decode_default(message, cluster, at)?;
    match sockets
        .iter()
        .all(|socket| socket.proxy_protocol == default)
    {
        true => Ok(default),
        false => {
            let reason = "all sockets of a cluster begin with the same PROXY header, or none; \
                          send the others so";
            Err(Error::invalid(&at.field("transport_socket"), reason))
        }
    }
}

fn decode_match(
    entry: &TransportSocketMatch,
    cluster: &Cluster,
    at: &Place<'_>,
) -> Result<Socket, Error> {
    let word = entry.r#match.as_ref().and_then(|it| as_single(it, KEY));
    let socket = entry.transport_socket.clone().unwrap_or_default();
    let socket = tls::decode_upstream(&socket, cluster.protocol, &at.field("transport_socket"))?;
    match word == Some(socket.transport.label()) {
        true => Ok(socket),
        false => {
            let reason = "sockets are chosen by their transport; send leno: with its word";
            Err(Error::invalid(&at.field("match"), reason))
        }
    }
}

/// Without a socket for it, Envoy would speak plaintext to an endpoint of the mesh; and it would
/// refuse those whose names are not here.
fn check_endpoints(cluster: &Cluster, sockets: &[Socket], at: &Place<'_>) -> Result<(), Error> {
    for (index, endpoint) in cluster.endpoints.iter().enumerate() {
        let socket = sockets.iter().find(|it| it.transport == endpoint.transport);
        let holds = match socket {
            None => endpoint.transport == Transport::Plaintext,
            Some(socket) => endpoint
                .identities
                .iter()
                .all(|id| socket.identities.contains(id)),
        };
        if !holds {
            let at = at.item("endpoints", index);
            let reason = "no socket for its transport has all of its names; send one";
            return Err(Error::invalid(&at, reason));
        }
    }
    Ok(())
}

fn decode_default(
    message: &Message,
    cluster: &Cluster,
    at: &Place<'_>,
) -> Result<Option<ProxyProtocol>, Error> {
    let at = at.field("transport_socket");
    let Some(socket) = &message.transport_socket else {
        return Ok(None);
    };
    let socket = tls::decode_upstream(socket, cluster.protocol, &at)?;
    // Endpoints that come apart say themselves what they are spoken to with.
    let is_told =
        cluster.balance == Balance::OriginalDestination && cluster.discovery != Discovery::Static;
    match socket.transport == Transport::Plaintext || is_told {
        true => Ok(socket.proxy_protocol),
        false => {
            let reason = "mesh endpoints say so themselves; send transport_socket_matches";
            Err(Error::invalid(&at, reason))
        }
    }
}
