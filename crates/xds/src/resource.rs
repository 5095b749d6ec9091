//! Resources: parts of the model as the bytes that travel, and back. The one door: nothing is
//! decoded here before its fields were checked, so that nothing is lost on the way without a word.

use bytes::Bytes;
use model::{Cluster, Endpoint, Listener, Route, Transport, TrustBundle};
use prost::Message;

use crate::envoy;
use crate::error::{Decoded, Error};
use crate::fields;
use crate::flavour::Flavour;
use crate::kind::Kind;
use crate::listener::RouteSource;
use crate::place::Place;
use crate::secret::Certificate;
use crate::{cluster, endpoint, listener, route, secret};

/// Largest resource that is read: ten thousand endpoints with an identity each, twice over.
pub const RESOURCE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A part of the model that travels by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    /// Whom to trust.
    Bundle(TrustBundle),
    /// What clients outside of the mesh are shown.
    Certificate(Certificate),
    /// A cluster. Endpoints that are discovered do not arrive with it, but decide how it looks:
    /// they must be there when it is encoded.
    Cluster(Cluster),
    /// The endpoints of a cluster.
    Endpoints {
        /// Name of the cluster.
        cluster: String,
        /// Replaces all that were known.
        endpoints: Vec<Endpoint>,
    },
    /// A listener. Its routes do not arrive with it, unless it is a `Tcp` listener, but decide how
    /// it looks: they must be there when it is encoded.
    Listener(Listener),
    /// A listener of somebody else's, whose routes are not a resource of its name.
    Foreign {
        /// Without routes.
        listener: Listener,
        /// Where they are.
        routes: RouteSource,
    },
    /// The routes of a listener.
    Routes {
        /// Name of the listener, if it is ours.
        listener: String,
        /// Replaces all that were known.
        routes: Vec<Route>,
    },
}

impl Resource {
    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Bundle(_) | Self::Certificate(_) => Kind::Secret,
            Self::Cluster(_) => Kind::Cluster,
            Self::Endpoints { .. } => Kind::Endpoints,
            Self::Listener(_) | Self::Foreign { .. } => Kind::Listener,
            Self::Routes { .. } => Kind::Routes,
        }
    }

    /// Unique among those of its kind.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Bundle(bundle) => &bundle.name,
            Self::Certificate(certificate) => &certificate.name,
            Self::Cluster(cluster) => &cluster.name,
            Self::Endpoints { cluster, .. } => cluster,
            Self::Listener(listener) | Self::Foreign { listener, .. } => &listener.name,
            Self::Routes { listener, .. } => listener,
        }
    }
}

/// The bytes of a resource for our own sidecar: the same for the same resource, whoever makes them.
///
/// # Errors
/// When the resource breaks its own invariants.
pub fn encode(resource: &Resource) -> Result<Bytes, Error> {
    encode_for(Flavour::Leno, resource)
}

/// The bytes of a resource for whoever it is. [`decode`] reads Leno's alone.
///
/// # Errors
/// When the resource breaks its own invariants.
pub fn encode_for(flavour: Flavour, resource: &Resource) -> Result<Bytes, Error> {
    let bytes = match resource {
        Resource::Bundle(bundle) => secret::encode(bundle)?.encode_to_vec(),
        Resource::Certificate(certificate) => {
            secret::encode_certificate(certificate)?.encode_to_vec()
        }
        Resource::Cluster(cluster) => cluster::encode(cluster, flavour)?.encode_to_vec(),
        Resource::Endpoints { cluster, endpoints } => {
            endpoint::encode(cluster, endpoints, flavour)?.encode_to_vec()
        }
        Resource::Listener(listener) => listener::encode(listener, flavour)?.encode_to_vec(),
        Resource::Foreign { listener, routes } => {
            listener::encode_from(listener, routes, flavour)?.encode_to_vec()
        }
        Resource::Routes { listener, routes } => {
            route::encode(listener, routes, flavour)?.encode_to_vec()
        }
    };
    Ok(bytes.into())
}

/// The bytes of the one listener that an Envoy has for all connections to its workload: `bound` has
/// the socket, and `ports` what becomes of connections to each. With another `epoch` Envoy has its
/// callers prove themselves again, who have come with requests.
///
/// # Errors
/// As [`encode`].
pub fn encode_inbound(bound: &Listener, ports: &[&Listener], epoch: &str) -> Result<Bytes, Error> {
    let mut message = listener::encode_inbound(bound, ports)?;
    for chain in &mut message.filter_chains {
        envoy::renew(chain, epoch);
    }
    Ok(message.encode_to_vec().into())
}

/// The bytes of a cluster as an Envoy has it. With another `epoch` Envoy makes its connections to
/// the mesh anew: those that carry nothing end, the others once they have their answers.
///
/// # Errors
/// As [`encode`].
pub fn encode_cluster(cluster: &Cluster, epoch: &str) -> Result<Bytes, Error> {
    let mut message = cluster::encode(cluster, Flavour::Envoy)?;
    if cluster
        .endpoints
        .iter()
        .any(|it| it.transport != Transport::Plaintext)
    {
        envoy::renew_cluster(&mut message, epoch);
    }
    Ok(message.encode_to_vec().into())
}

/// What the bytes of a resource of this kind say, in the form of [`canonical`].
///
/// # Errors
/// When they are malformed, or say anything that must be understood and is not.
pub fn decode(kind: Kind, bytes: &[u8]) -> Result<Decoded<Resource>, Error> {
    if bytes.len() > RESOURCE_BYTES_MAX {
        return Err(Error::TooLarge(bytes.len()));
    }
    let at = Place::root(kind.label());
    let mut notes = fields::check(kind, bytes, &at)?;
    let malformed = |_| Error::Malformed(at.to_string());
    let value = match kind {
        Kind::Secret => {
            let message = Message::decode(bytes).map_err(malformed)?;
            match secret::decode(message)? {
                secret::Decoded::Bundle(bundle) => Resource::Bundle(bundle),
                secret::Decoded::Certificate(certificate) => Resource::Certificate(certificate),
            }
        }
        Kind::Cluster => {
            let message = Message::decode(bytes).map_err(malformed)?;
            Resource::Cluster(cluster::decode(&message, &mut notes)?)
        }
        Kind::Endpoints => {
            let message = Message::decode(bytes).map_err(malformed)?;
            let (cluster, endpoints) = endpoint::decode(&message, &mut notes)?;
            Resource::Endpoints { cluster, endpoints }
        }
        Kind::Listener => {
            let message = Message::decode(bytes).map_err(malformed)?;
            match listener::decode(&message, &mut notes)? {
                (listener, RouteSource::Own) => Resource::Listener(listener),
                (listener, routes) => Resource::Foreign { listener, routes },
            }
        }
        Kind::Routes => {
            let message = Message::decode(bytes).map_err(malformed)?;
            let (listener, routes) = route::decode(message)?;
            Resource::Routes { listener, routes }
        }
    };
    Ok(Decoded {
        value,
        ignored: notes.into_ignored(),
    })
}

/// The form that a resource arrives in, saying the same: without what travels apart, without what
/// has no meaning, routes in one order.
#[must_use]
pub fn canonical(resource: &Resource) -> Resource {
    match resource {
        Resource::Cluster(cluster) => Resource::Cluster(cluster::canonical(cluster)),
        Resource::Listener(listener) => Resource::Listener(listener::canonical(listener)),
        Resource::Foreign { listener, routes } => Resource::Foreign {
            listener: listener::canonical(listener),
            routes: routes.clone(),
        },
        Resource::Routes { listener, routes } => Resource::Routes {
            listener: listener.clone(),
            routes: route::canonical(routes),
        },
        Resource::Bundle(_) | Resource::Certificate(_) | Resource::Endpoints { .. } => {
            resource.clone()
        }
    }
}
