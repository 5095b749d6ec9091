//! What a Workload on Envoy would need and Envoy cannot do. Called with all resources. Must name
//! everything that Envoy would refuse: it would stay as it was, and nobody would notice here.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kinds::{DataPlane, Fault, Gateway, Key, Kind, MeshConfig, Object, Resource, Workload};

/// Certificates that a gateway on Envoy is to show, and cannot.
pub(super) fn find(mesh: &MeshConfig, resources: &[Arc<Resource>]) -> Vec<Fault> {
    let by_key: BTreeMap<&Key, &Resource> = resources.iter().map(|it| (&it.key, &**it)).collect();
    let mut faults = Vec::new();
    for resource in resources {
        let Object::Workload(workload) = &resource.object else {
            continue;
        };
        let data_plane = workload.sidecar.data_plane.unwrap_or(mesh.data_plane);
        let key = gateway(resource, workload).filter(|_| data_plane == DataPlane::Envoy);
        let found = key.and_then(|key| by_key.get(&key).copied());
        if let Some((found, Object::Gateway(gateway))) = found.map(|it| (it, &it.object)) {
            faults.extend(certificates(found, gateway, &by_key));
        }
    }
    faults
}

/// The Gateway that it is.
fn gateway(resource: &Resource, workload: &Workload) -> Option<Key> {
    Some(Key {
        kind: Kind::Gateway,
        namespace: resource.key.namespace.clone(),
        name: workload.gateway.clone()?,
    })
}

fn certificates(
    resource: &Resource,
    gateway: &Gateway,
    by_key: &BTreeMap<&Key, &Resource>,
) -> Vec<Fault> {
    let refs = gateway
        .listeners
        .iter()
        .filter_map(|it| it.certificate.as_ref());
    let unfit = refs.filter(
        |it| match by_key.get(&it.secret).map(|found| &found.object) {
            Some(Object::Secret(secret)) => secret.pair.as_ref().is_ok_and(|pair| pair.is_ed25519),
            _ => false,
        },
    );
    let fault = |it: &crate::kinds::CertificateRef| {
        let mut origin = resource.origin.clone();
        origin.place = Some(it.place.0);
        let message = format!(
            "the {} has a key of Ed25519, which Envoy cannot show",
            it.secret
        );
        let hint = "give it one of ECDSA or RSA, or the gateway `sidecar: {dataPlane: leno}`";
        Fault::new(origin, message, hint)
    };
    unfit.map(fault).collect()
}
