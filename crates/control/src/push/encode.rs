//! Parts of the mesh → resources as they are told. What cannot be encoded is a fault of
//! `translate`: it is reported, and clients keep what they have.

use bytes::Bytes;
use model::{Cluster, Discovery, Listener, TrustBundle};
use xds::delta::server::Entry;
use xds::flavour::Flavour;
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
pub(super) fn parts(
    listeners: &[Listener],
    clusters: &[Cluster],
    flavour: Flavour,
) -> Vec<Encoded> {
    let listeners = listeners.iter().flat_map(|it| listener(it, flavour));
    let clusters = clusters.iter().flat_map(|it| cluster(it, flavour));
    listeners.chain(clusters).collect()
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
pub(super) fn certificates(certificates: &[Certificate]) -> Vec<Encoded> {
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
    if !xds::listener::has_routes(listener) {
        return vec![told];
    }
    let routes = Resource::Routes {
        listener: listener.name.clone(),
        routes: listener.routes.clone(),
    };
    let routes = encoded(Kind::Routes, &listener.name, &routes, flavour);
    vec![told, routes]
}

fn cluster(cluster: &Cluster, flavour: Flavour) -> Vec<Encoded> {
    let mut told = encoded(
        Kind::Cluster,
        &cluster.name,
        &Resource::Cluster(cluster.clone()),
        flavour,
    );
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
