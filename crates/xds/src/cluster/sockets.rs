//! Transport sockets of a cluster: one for each transport that its endpoints have, chosen by their
//! metadata, and one for whoever says nothing. Called by `cluster`.

use std::collections::BTreeSet;

use model::{Balance, Cluster, Discovery, Protocol, ProxyProtocol, Transport};

use crate::envoy::{self, Alpn};
use crate::error::Error;
use crate::flavour::Flavour;
use crate::metadata::{as_single, single};
use crate::place::Place;
use crate::proto::cluster::{Cluster as Message, TransportSocketMatch};
use crate::proto::core::TransportSocket;
use crate::proto::envoy::Matcher;
use crate::tls::{self, Socket};

/// The key that endpoints and sockets are matched by; its value is a transport's word.
pub(crate) const KEY: &str = "leno";

const MESH: [Transport; 2] = [Transport::Leno, Transport::Mtls];

/// The fields of a cluster that have sockets, or choose one.
pub(super) struct Sockets {
    pub(super) matches: Vec<TransportSocketMatch>,
    pub(super) default: Option<TransportSocket>,
    /// Where more than the endpoint decides.
    pub(super) matcher: Option<Matcher>,
}

pub(super) fn encode(cluster: &Cluster, flavour: Flavour) -> Sockets {
    let identities: BTreeSet<_> = cluster
        .endpoints
        .iter()
        .flat_map(|endpoint| endpoint.identities.iter().cloned())
        .collect();
    let socket = |transport: Transport, protocol: Protocol| {
        let socket = Socket {
            transport,
            identities: match transport {
                Transport::Plaintext => BTreeSet::new(),
                Transport::Mtls | Transport::Leno => identities.clone(),
            },
            proxy_protocol: cluster.proxy_protocol,
        };
        tls::encode_upstream(&socket, protocol, flavour)
    };
    let entry = |name: &str, transport: Transport, protocol| TransportSocketMatch {
        name: name.to_owned(),
        r#match: Some(single(KEY, transport.label())),
        transport_socket: Some(socket(transport, protocol)),
    };
    let protocol = cluster.protocol;
    let has_mesh = !identities.is_empty();
    let default = default(cluster, flavour);
    let is_plain = default == Transport::Plaintext && cluster.proxy_protocol.is_none();
    let default_socket = (!is_plain).then(|| socket(default, protocol));
    if flavour == Flavour::Envoy && protocol == Protocol::Auto && has_mesh {
        let of = |alpn: Alpn| entry(alpn.word(), Transport::Mtls, alpn.protocol());
        let to_destination = cluster.balance == Balance::OriginalDestination;
        let word = (!to_destination).then(|| Transport::Mtls.label());
        let is_chosen = !to_destination || default == Transport::Mtls;
        return Sockets {
            matches: Alpn::ALL.map(of).to_vec(),
            default: default_socket,
            matcher: is_chosen.then(|| envoy::socket_matcher(word)),
        };
    }
    // Both, so that an endpoint that changes does not wait for its cluster.
    let mesh = MESH.into_iter();
    let mesh = mesh.filter(|it| has_mesh && flavour.transport(*it) == *it);
    Sockets {
        matches: mesh.map(|it| entry(it.label(), it, protocol)).collect(),
        default: default_socket,
        matcher: None,
    }
}

/// Where Envoy has no endpoints, it has nothing else to go by: there mesh TLS is spoken if all of
/// ours would be spoken to so.
fn default(cluster: &Cluster, flavour: Flavour) -> Transport {
    let to_destination = cluster.balance == Balance::OriginalDestination;
    let mut transports = cluster
        .endpoints
        .iter()
        .map(|endpoint| flavour.transport(endpoint.transport));
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
