//! The endpoints of a cluster as `envoy.config.endpoint.v3.ClusterLoadAssignment`. Who may answer
//! stands at each of them. Those that are unhealthy or leave are left out: then they are none.

use std::collections::HashSet;
use std::net::SocketAddr;

use model::{Endpoint, Transport};

use crate::cluster::KEY;
use crate::error::Error;
use crate::fields::Notes;
use crate::flavour::Flavour;
use crate::place::Place;
use crate::proto::endpoint::{
    ClusterLoadAssignment, Endpoint as Message, LbEndpoint, LocalityLbEndpoints,
};
use crate::{address, check, metadata};

const ROOT: Place<'_> = Place::root("endpoints");

const IDENTITIES: &str = "identities";

/// `envoy.config.core.v3.HealthStatus`, as far as it says that an endpoint may be asked.
const UNKNOWN: i32 = 0;
const HEALTHY: i32 = 1;
const UNHEALTHY: i32 = 2;
const DRAINING: i32 = 3;
const TIMEOUT: i32 = 4;
const DEGRADED: i32 = 5;

const TRANSPORTS: [Transport; 3] = [Transport::Plaintext, Transport::Mtls, Transport::Leno];

/// The message that says so.
///
/// # Errors
/// Endpoints that break their own invariants.
pub fn encode(
    cluster: &str,
    endpoints: &[Endpoint],
    flavour: Flavour,
) -> Result<ClusterLoadAssignment, Error> {
    check::name(cluster, &ROOT.field("cluster_name"))?;
    check_all(endpoints, &ROOT)?;
    let lb_endpoints: Vec<_> = endpoints
        .iter()
        .map(|endpoint| encode_one(endpoint, flavour))
        .collect::<Result<_, _>>()?;
    let group = LocalityLbEndpoints { lb_endpoints };
    Ok(ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        endpoints: if endpoints.is_empty() {
            Vec::new()
        } else {
            vec![group]
        },
        policy: None,
    })
}

fn encode_one(endpoint: &Endpoint, flavour: Flavour) -> Result<LbEndpoint, Error> {
    let metadata = match flavour {
        Flavour::Leno => metadata::Builder::default().list(IDENTITIES, &endpoint.identities),
        // Which names may answer is known to the cluster's socket.
        Flavour::Envoy => metadata::Builder::default(),
    };
    let metadata = match flavour.transport(endpoint.transport) {
        Transport::Plaintext => metadata,
        mesh @ (Transport::Mtls | Transport::Leno) => metadata.socket_match(KEY, mesh.label()),
    };
    Ok(LbEndpoint {
        endpoint: Some(Message {
            address: Some(address::encode(endpoint.address, &ROOT.field("address"))?),
        }),
        health_status: UNKNOWN,
        metadata: metadata.build(),
        load_balancing_weight: None,
    })
}

/// Checks the invariants of `model::Endpoint`, of all together. `at` is what has them.
pub(crate) fn check_all(endpoints: &[Endpoint], at: &Place<'_>) -> Result<(), Error> {
    let mut taken: HashSet<SocketAddr> = HashSet::with_capacity(endpoints.len());
    for (index, endpoint) in endpoints.iter().enumerate() {
        let at = at.item("endpoints", index);
        check::endpoint(endpoint.address, &at)?;
        check::spiffe_ids(&endpoint.identities, &at.field("identities"))?;
        let is_plain = endpoint.transport == Transport::Plaintext;
        if is_plain != endpoint.identities.is_empty() {
            let reason = "mesh endpoints say who may answer there, and others cannot; \
                          send identities with mtls and leno, and with nothing else";
            return Err(Error::invalid(&at.field("identities"), reason));
        }
        if !taken.insert(endpoint.address) {
            return Err(Error::invalid(
                &at,
                "its address is listed twice; remove one",
            ));
        }
    }
    Ok(())
}

/// The cluster's name and its endpoints.
pub(crate) fn decode(
    message: &ClusterLoadAssignment,
    notes: &mut Notes,
) -> Result<(String, Vec<Endpoint>), Error> {
    check::name(&message.cluster_name, &ROOT.field("cluster_name"))?;
    let endpoints = decode_all(message, &ROOT, notes)?;
    Ok((message.cluster_name.clone(), endpoints))
}

/// Of an assignment that may be part of a cluster.
pub(crate) fn decode_all(
    message: &ClusterLoadAssignment,
    at: &Place<'_>,
    notes: &mut Notes,
) -> Result<Vec<Endpoint>, Error> {
    let mut endpoints = Vec::new();
    for (index, group) in message.endpoints.iter().enumerate() {
        let at = at.item("endpoints", index);
        for (index, entry) in group.lb_endpoints.iter().enumerate() {
            let at = at.item("lb_endpoints", index);
            if is_asked(entry, &at)? {
                endpoints.push(decode_one(entry, &at, notes)?);
            }
        }
    }
    note_weights(message, at, notes);
    check_all(&endpoints, at).map(|()| endpoints)
}

/// Weights that are all the same change nothing; others are not heeded yet.
fn note_weights(message: &ClusterLoadAssignment, at: &Place<'_>, notes: &mut Notes) {
    let entries = || {
        message
            .endpoints
            .iter()
            .flat_map(|group| &group.lb_endpoints)
    };
    let weight = |entry: &LbEndpoint| entry.load_balancing_weight.map_or(1, |it| it.value);
    let first = entries().next().map(weight);
    if entries().any(|entry| Some(weight(entry)) != first) {
        let at = at.field("endpoints");
        let at = at.field("lb_endpoints");
        notes.add(&at.field("load_balancing_weight"));
    }
}

fn is_asked(entry: &LbEndpoint, at: &Place<'_>) -> Result<bool, Error> {
    match entry.health_status {
        UNKNOWN | HEALTHY | DEGRADED => Ok(true),
        UNHEALTHY | DRAINING | TIMEOUT => Ok(false),
        _ => Err(Error::unsupported(&at.field("health_status"))),
    }
}

fn decode_one(entry: &LbEndpoint, at: &Place<'_>, notes: &mut Notes) -> Result<Endpoint, Error> {
    let metadata = metadata::Reader::open(entry.metadata.as_ref(), &[IDENTITIES], at, notes)?;
    let endpoint_at = at.field("endpoint");
    let address = entry.endpoint.as_ref().and_then(|it| it.address.as_ref());
    let word = metadata.socket_match(KEY);
    let transport = match (word, metadata.has_socket_match()) {
        (None, false) => Some(Transport::Plaintext),
        (word, _) => TRANSPORTS.into_iter().find(|it| Some(it.label()) == word),
    };
    let transport = transport.ok_or_else(|| {
        let at = at.field("metadata");
        let reason = "not a transport; send leno: plaintext, mtls or leno";
        Error::invalid(&at.field("envoy.transport_socket_match"), reason)
    })?;
    Ok(Endpoint {
        address: address::decode(address, &endpoint_at.field("address"))?,
        transport,
        identities: metadata.list(IDENTITIES, at)?,
    })
}
