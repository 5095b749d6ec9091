//! Parts of the mesh → resources as they are told. What cannot be encoded is a fault of
//! `translate`: it is reported, and clients keep what they have.

use bytes::Bytes;
use model::{Cluster, Direction, Discovery, Listener, TrustBundle};
use xds::delta::server::Entry;
use xds::flavour::Flavour;
use xds::kind::Kind;
use xds::resource::{self, Resource};
use xds::secret::Certificate;

use super::epochs::Epochs;
use super::table::Told;
use crate::translate::WorkloadParts;

/// A resource of some kind under its name, or why it cannot be told.
pub(super) struct Encoded {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) told: Result<Told, xds::error::Error>,
}

/// The resources that only a workload's sidecar is told.
pub(super) fn own(parts: &WorkloadParts, flavour: Flavour, epochs: &Epochs) -> Vec<Encoded> {
    let WorkloadParts {
        listeners,
        clusters,
        certificates,
        ..
    } = parts;
    match (flavour, bound(listeners)) {
        (Flavour::Leno, _) => {
            let shown = self::certificates(certificates);
            let parts = self::parts(listeners, clusters, (flavour, epochs));
            shown.into_iter().chain(parts).collect()
        }
        (Flavour::Envoy, None) => self::parts(listeners, clusters, (flavour, epochs)),
        (Flavour::Envoy, Some(bound)) => {
            let listeners = with_inbound(bound, listeners, &epochs.downstream);
            let clusters = self::parts(&[], clusters, (flavour, epochs));
            listeners.into_iter().chain(clusters).collect()
        }
    }
}

/// The resources of a part of the mesh.
pub(super) fn parts(
    listeners: &[Listener],
    clusters: &[Cluster],
    (flavour, epochs): (Flavour, &Epochs),
) -> Vec<Encoded> {
    let listeners = listeners.iter().flat_map(|it| listener(it, flavour));
    let clusters = clusters
        .iter()
        .flat_map(|it| cluster(it, (flavour, epochs)));
    listeners.chain(clusters).collect()
}

/// The listener to which connections to a workload are redirected.
fn bound(listeners: &[Listener]) -> Option<&Listener> {
    let is_bound = |it: &&Listener| it.direction == Direction::Inbound && it.original_destination;
    listeners.iter().find(is_bound)
}

/// For Envoy: `bound` has what others would have whose connections are redirected to it.
fn with_inbound(bound: &Listener, listeners: &[Listener], epoch: &str) -> Vec<Encoded> {
    let is_port = |it: &&Listener| it.direction == Direction::Inbound && !it.bind;
    let ports: Vec<_> = listeners.iter().filter(is_port).collect();
    let told = xds::resource::encode_inbound(bound, &ports, epoch);
    let told = told.map(|value| Told {
        entry: Entry::new(Kind::Listener, bound.name.clone(), value),
        eager: None,
    });
    let inbound = Encoded {
        kind: Kind::Listener,
        name: bound.name.clone(),
        told,
    };
    let routes = ports.iter().filter_map(|it| routes(it, Flavour::Envoy));
    let is_own = |it: &&Listener| !is_port(it) && it.name != bound.name;
    let others = listeners.iter().filter(is_own);
    let others = others.flat_map(|it| listener(it, Flavour::Envoy));
    [inbound].into_iter().chain(routes).chain(others).collect()
}

/// The trust bundle. A secret is the same in every flavour.
pub(super) fn bundle(bundle: &TrustBundle) -> Encoded {
    encoded(
        Kind::Secret,
        &bundle.name,
        &Resource::Bundle(bundle.clone()),
        Flavour::Leno,
    )
}

/// What a gateway shows.
fn certificates(certificates: &[Certificate]) -> Vec<Encoded> {
    let one = |certificate: &Certificate| {
        let resource = Resource::Certificate(certificate.clone());
        encoded(Kind::Secret, &certificate.name, &resource, Flavour::Leno)
    };
    certificates.iter().map(one).collect()
}

fn listener(listener: &Listener, flavour: Flavour) -> Vec<Encoded> {
    let told = encoded(
        Kind::Listener,
        &listener.name,
        &Resource::Listener(listener.clone()),
        flavour,
    );
    [told]
        .into_iter()
        .chain(routes(listener, flavour))
        .collect()
}

/// Those of a listener that come apart.
fn routes(listener: &Listener, flavour: Flavour) -> Option<Encoded> {
    let routes = Resource::Routes {
        listener: listener.name.clone(),
        routes: listener.routes.clone(),
    };
    xds::listener::has_routes(listener)
        .then(|| encoded(Kind::Routes, &listener.name, &routes, flavour))
}

fn cluster(cluster: &Cluster, (flavour, epochs): (Flavour, &Epochs)) -> Vec<Encoded> {
    let mut told = match flavour {
        Flavour::Leno => encoded(
            Kind::Cluster,
            &cluster.name,
            &Resource::Cluster(cluster.clone()),
            flavour,
        ),
        Flavour::Envoy => cluster_of_envoy(cluster, epochs),
    };
    if cluster.discovery == Discovery::Static {
        return vec![told];
    }
    // Envoy asks for all endpoints at once.
    if cluster.discovery == Discovery::OnDemand && flavour == Flavour::Leno {
        let eager = Cluster {
            discovery: Discovery::Eager,
            ..cluster.clone()
        };
        let eager = Resource::Cluster(eager);
        let eager = entry(Kind::Cluster, &cluster.name, &eager, flavour);
        told.told = told.told.and_then(|told| {
            let eager = Some(eager?);
            Ok(Told { eager, ..told })
        });
    }
    let endpoints = Resource::Endpoints {
        cluster: cluster.name.clone(),
        endpoints: cluster.endpoints.clone(),
    };
    let endpoints = encoded(Kind::Endpoints, &cluster.name, &endpoints, flavour);
    vec![told, endpoints]
}

fn cluster_of_envoy(cluster: &Cluster, epochs: &Epochs) -> Encoded {
    let (kind, name) = (Kind::Cluster, cluster.name.clone());
    let told = xds::resource::encode_cluster(cluster, &epochs.upstream);
    let told = told.map(|value| Told {
        entry: Entry::new(kind, name.clone(), value),
        eager: None,
    });
    Encoded { kind, name, told }
}

fn encoded(kind: Kind, name: &str, resource: &Resource, flavour: Flavour) -> Encoded {
    let told = entry(kind, name, resource, flavour).map(|entry| Told { entry, eager: None });
    let name = name.to_owned();
    Encoded { kind, name, told }
}

fn entry(
    kind: Kind,
    name: &str,
    resource: &Resource,
    flavour: Flavour,
) -> Result<Entry, xds::error::Error> {
    let value: Bytes = resource::encode_for(flavour, resource)?;
    Ok(Entry::new(kind, name.to_owned(), value))
}
