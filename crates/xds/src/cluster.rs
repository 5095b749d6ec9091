//! A cluster as `envoy.config.cluster.v3.Cluster`. Its endpoints come with it, or as a
//! `ClusterLoadAssignment` of its name; whoever goes on to a connection's original destination has
//! none for Envoy. What endpoints are spoken to with is `tls`'s affair, chosen by their transport.

mod protocol;
mod sockets;

use model::{Balance, Cluster, Discovery, Endpoint, Protocol};

use crate::error::Error;
use crate::fields::Notes;
use crate::flavour::Flavour;
use crate::place::Place;
use crate::proto::cluster::{Cluster as Message, EdsClusterConfig};
use crate::{check, endpoint, envoy, metadata, tls};

pub(crate) use sockets::KEY;

const ROOT: Place<'_> = Place::root("cluster");

const STATIC: i32 = 0;
const STRICT_DNS: i32 = 1;
const LOGICAL_DNS: i32 = 2;
const EDS: i32 = 3;
const ORIGINAL_DST: i32 = 4;

const ROUND_ROBIN: i32 = 0;
const LEAST_REQUEST: i32 = 1;
const CLUSTER_PROVIDED: i32 = 6;

const DISCOVERY: &str = "discovery";
const EAGER: &str = "eager";
const ON_DEMAND: &str = "onDemand";
const PROTOCOL: &str = "protocol";
const TCP: &str = "tcp";

/// What is left of a cluster after a journey: endpoints that are discovered travel apart.
#[must_use]
pub fn canonical(cluster: &Cluster) -> Cluster {
    Cluster {
        endpoints: match cluster.discovery {
            Discovery::Static => cluster.endpoints.clone(),
            Discovery::Eager | Discovery::OnDemand => Vec::new(),
        },
        ..cluster.clone()
    }
}

/// The message that says so. All endpoints must be known, even if they are sent apart: Envoy has
/// the names that may answer here.
///
/// # Errors
/// A cluster, or endpoints, that break their own invariants.
pub fn encode(cluster: &Cluster, flavour: Flavour) -> Result<Message, Error> {
    check_cluster(cluster)?;
    endpoint::check_all(&cluster.endpoints, &ROOT)?;
    let to_destination = cluster.balance == Balance::OriginalDestination;
    let discovered = cluster.discovery != Discovery::Static;
    let is_eds = discovered && !to_destination;
    let sockets = sockets::encode(cluster, flavour);
    let message = Message {
        name: cluster.name.clone(),
        r#type: Some(match (to_destination, discovered) {
            (true, _) => ORIGINAL_DST,
            (false, true) => EDS,
            (false, false) => STATIC,
        }),
        eds_cluster_config: is_eds.then(|| EdsClusterConfig {
            eds_config: Some(tls::ads()),
            service_name: String::new(),
        }),
        lb_policy: match cluster.balance {
            Balance::RoundRobin => ROUND_ROBIN,
            Balance::LeastRequest => LEAST_REQUEST,
            Balance::OriginalDestination => CLUSTER_PROVIDED,
        },
        load_assignment: match discovered || to_destination {
            true => None,
            false => Some(endpoint::encode(
                &cluster.name,
                &cluster.endpoints,
                flavour,
            )?),
        },
        metadata: encode_metadata(cluster).build(),
        transport_socket: sockets.default,
        typed_extension_protocol_options: protocol::encode(cluster.protocol, flavour),
        transport_socket_matches: sockets.matches,
        transport_socket_matcher: sockets.matcher,
        ..Message::default()
    };
    Ok(match flavour {
        Flavour::Leno => message,
        Flavour::Envoy => envoy::cluster(message),
    })
}

fn encode_metadata(cluster: &Cluster) -> metadata::Builder {
    let metadata = metadata::Builder::default();
    let to_destination = cluster.balance == Balance::OriginalDestination;
    let metadata = match cluster.discovery {
        Discovery::OnDemand => metadata.text(DISCOVERY, ON_DEMAND),
        Discovery::Eager if to_destination => metadata.text(DISCOVERY, EAGER),
        Discovery::Eager | Discovery::Static => metadata,
    };
    match cluster.protocol {
        Protocol::Tcp => metadata.text(PROTOCOL, TCP),
        Protocol::Auto | Protocol::Http1 | Protocol::Http2 => metadata,
    }
}

/// Checks the invariants of `model::Cluster`, but for its endpoints'.
fn check_cluster(cluster: &Cluster) -> Result<(), Error> {
    check::name(&cluster.name, &ROOT.field("name"))?;
    let refuse = |field: &str, reason: &str| Err(Error::invalid(&ROOT.field(field), reason));
    let is_http = matches!(cluster.protocol, Protocol::Http1 | Protocol::Http2);
    if cluster.proxy_protocol.is_some() && is_http {
        let reason = "a PROXY header is sent on opaque connections only; remove it";
        return refuse("transport_socket", reason);
    }
    let to_destination = cluster.balance == Balance::OriginalDestination;
    let discovered = cluster.discovery != Discovery::Static;
    if cluster.passthrough {
        let holds = to_destination && !discovered && cluster.endpoints.is_empty();
        return match holds && cluster.protocol == Protocol::Tcp {
            true => Ok(()),
            false => refuse(
                "type",
                "connections that go on to where they were made to are tcp, and have no endpoints",
            ),
        };
    }
    match to_destination && !discovered {
        true => refuse(
            "lb_policy",
            "endpoints that are chosen by original destination are discovered; send them apart",
        ),
        false => Ok(()),
    }
}

/// The cluster, in the form of [`canonical`].
pub(crate) fn decode(message: &Message, notes: &mut Notes) -> Result<Cluster, Error> {
    let known = [DISCOVERY, PROTOCOL];
    let metadata = metadata::Reader::open(message.metadata.as_ref(), &known, &ROOT, notes)?;
    let is_tcp = match metadata.text(PROTOCOL, &ROOT)? {
        None => false,
        Some(TCP) => true,
        Some(_) => return Err(Error::unsupported(&ROOT.field("metadata").field(PROTOCOL))),
    };
    let kind = match message.r#type.unwrap_or(STATIC) {
        // Addresses need not be looked up, and names are refused where they stand.
        STRICT_DNS | LOGICAL_DNS => STATIC,
        kind => kind,
    };
    let discovery = decode_discovery(kind, metadata.text(DISCOVERY, &ROOT)?)?;
    let passthrough = kind == ORIGINAL_DST && discovery == Discovery::Static;
    let protocol = match is_tcp || passthrough {
        true => protocol::decode_none(message, &ROOT)?,
        false => protocol::decode(message, &ROOT)?,
    };
    let mut cluster = Cluster {
        name: message.name.clone(),
        balance: decode_balance(kind, message.lb_policy)?,
        protocol,
        proxy_protocol: None,
        discovery,
        passthrough,
        endpoints: decode_endpoints(message, kind, notes)?,
    };
    cluster.proxy_protocol = sockets::decode(message, &cluster, &ROOT)?;
    check_cluster(&cluster).map(|()| cluster)
}

fn decode_discovery(kind: i32, told: Option<&str>) -> Result<Discovery, Error> {
    match (kind, told) {
        (STATIC | ORIGINAL_DST, None) => Ok(Discovery::Static),
        (EDS, None | Some(EAGER)) | (ORIGINAL_DST, Some(EAGER)) => Ok(Discovery::Eager),
        (EDS | ORIGINAL_DST, Some(ON_DEMAND)) => Ok(Discovery::OnDemand),
        (STATIC | EDS | ORIGINAL_DST, Some(_)) => {
            Err(Error::unsupported(&ROOT.field("metadata").field(DISCOVERY)))
        }
        _ => {
            let reason = "endpoints are given or discovered, never looked up by name; \
                          send STATIC, EDS or ORIGINAL_DST";
            Err(Error::invalid(&ROOT.field("type"), reason))
        }
    }
}

fn decode_balance(kind: i32, policy: i32) -> Result<Balance, Error> {
    match (kind == ORIGINAL_DST, policy) {
        (false, ROUND_ROBIN) => Ok(Balance::RoundRobin),
        (false, LEAST_REQUEST) => Ok(Balance::LeastRequest),
        (true, CLUSTER_PROVIDED) => Ok(Balance::OriginalDestination),
        _ => {
            let reason = "not supported; send ROUND_ROBIN or LEAST_REQUEST, \
                          or CLUSTER_PROVIDED with ORIGINAL_DST";
            Err(Error::invalid(&ROOT.field("lb_policy"), reason))
        }
    }
}

fn decode_endpoints(
    message: &Message,
    kind: i32,
    notes: &mut Notes,
) -> Result<Vec<Endpoint>, Error> {
    let eds = ROOT.field("eds_cluster_config");
    match (&message.eds_cluster_config, kind) {
        (None, STATIC | ORIGINAL_DST) => {}
        (Some(config), EDS) => {
            tls::check_ads(config.eds_config.as_ref(), &eds.field("eds_config"))?;
            if !config.service_name.is_empty() && config.service_name != message.name {
                let reason = "endpoints come by the cluster's own name; remove it";
                return Err(Error::invalid(&eds.field("service_name"), reason));
            }
        }
        _ => {
            return Err(Error::invalid(
                &eds,
                "goes with the type EDS, and with no other",
            ));
        }
    }
    let at = ROOT.field("load_assignment");
    match (&message.load_assignment, kind) {
        (None, _) => Ok(Vec::new()),
        (Some(assignment), STATIC) => endpoint::decode_all(assignment, &at, notes),
        (Some(_), _) => Err(Error::invalid(
            &at,
            "goes with the type STATIC, and with no other",
        )),
    }
}
