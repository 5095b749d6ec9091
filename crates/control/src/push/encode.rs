//! Parts of the mesh → resources as they are told. What cannot be encoded is a fault of
//! `translate`: it is reported, and clients keep what they have.

use bytes::Bytes;
use model::{Cluster, Discovery, Listener, TrustBundle};
use xds::delta::server::Entry;
use xds::kind::Kind;
use xds::resource::{self, Resource};
use xds::secret::Certificate;

use super::table::Told;

/// A resource of some kind under its name, or why it cannot be told.
pub(super) struct Encoded {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) told: Result<Told, xds::error::Error>,
}

/// The resources of a part of the mesh.
pub(super) fn parts(listeners: &[Listener], clusters: &[Cluster]) -> Vec<Encoded> {
    let listeners = listeners.iter().flat_map(listener);
    let clusters = clusters.iter().flat_map(cluster);
    listeners.chain(clusters).collect()
}

/// The trust bundle.
pub(super) fn bundle(bundle: &TrustBundle) -> Encoded {
    encoded(
        Kind::Secret,
        &bundle.name,
        &Resource::Bundle(bundle.clone()),
    )
}

/// What a gateway shows.
pub(super) fn certificates(certificates: &[Certificate]) -> Vec<Encoded> {
    let one = |certificate: &Certificate| {
        let resource = Resource::Certificate(certificate.clone());
        encoded(Kind::Secret, &certificate.name, &resource)
    };
    certificates.iter().map(one).collect()
}

fn listener(listener: &Listener) -> Vec<Encoded> {
    let told = encoded(
        Kind::Listener,
        &listener.name,
        &Resource::Listener(listener.clone()),
    );
    if !xds::listener::has_routes(listener) {
        return vec![told];
    }
    let routes = Resource::Routes {
        listener: listener.name.clone(),
        routes: listener.routes.clone(),
    };
    vec![told, encoded(Kind::Routes, &listener.name, &routes)]
}

fn cluster(cluster: &Cluster) -> Vec<Encoded> {
    let mut told = encoded(
        Kind::Cluster,
        &cluster.name,
        &Resource::Cluster(cluster.clone()),
    );
    if cluster.discovery == Discovery::Static {
        return vec![told];
    }
    if cluster.discovery == Discovery::OnDemand {
        let eager = Cluster {
            discovery: Discovery::Eager,
            ..cluster.clone()
        };
        let eager = entry(Kind::Cluster, &cluster.name, &Resource::Cluster(eager));
        told.told = told.told.and_then(|told| {
            let eager = Some(eager?);
            Ok(Told { eager, ..told })
        });
    }
    let endpoints = Resource::Endpoints {
        cluster: cluster.name.clone(),
        endpoints: cluster.endpoints.clone(),
    };
    vec![told, encoded(Kind::Endpoints, &cluster.name, &endpoints)]
}

fn encoded(kind: Kind, name: &str, resource: &Resource) -> Encoded {
    let told = entry(kind, name, resource).map(|entry| Told { entry, eager: None });
    let name = name.to_owned();
    Encoded { kind, name, told }
}

fn entry(kind: Kind, name: &str, resource: &Resource) -> Result<Entry, xds::error::Error> {
    let value: Bytes = resource::encode(resource)?;
    Ok(Entry::new(kind, name.to_owned(), value))
}
