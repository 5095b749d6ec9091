//! What cannot be true of several resources at once. Called by `source` when all are read.
//! Must never choose between two: both places are named, and nothing changes.

/// Workloads that wait for each other.
mod cycle;

/// What Envoy cannot do.
mod envoy;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::kinds::{ClusterIp, Fault, Key, MeshConfig, Mode, Object, Resource, WorkloadKey};

/// Names given twice, addresses that cannot be given to a Service, Workloads that would never
/// start, those that the mesh's own mode would leave open, and what Envoy cannot do.
pub(super) fn find(resources: &[Arc<Resource>]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut names: BTreeMap<&Key, &Resource> = BTreeMap::new();
    for resource in resources {
        if let Some(first) = names.insert(&resource.key, resource) {
            let message = format!("the {} is described twice", resource.key);
            let hint = format!("{} has it already; remove one of them", first.origin);
            faults.push(Fault::new(resource.origin.clone(), message, hint));
        }
    }
    let mesh = mesh(resources);
    find_addresses(resources, &mesh, &mut faults);
    faults.extend(find_instances(resources));
    let open = resources.iter().filter(|resource| is_open(&mesh, resource));
    faults.extend(open.map(|resource| {
        let message = "the mesh is strict, but nothing intercepts what is sent to this Workload";
        let hint = "let its sidecar intercept `inbound` or `both`, or write `mode: permissive`";
        Fault::new(resource.origin.clone(), message, hint)
    }));
    faults.extend(envoy::find(&mesh, resources));
    faults.extend(cycle::find(resources));
    faults
}

/// Instances that two Workloads have: a certificate of one would be one of the other.
pub(super) fn find_instances(resources: &[Arc<Resource>]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut names: BTreeMap<WorkloadKey, &Resource> = BTreeMap::new();
    for resource in resources {
        let Object::WorkloadStatus(status) = &resource.object else {
            continue;
        };
        for instance in &status.instances {
            let key = WorkloadKey::new(&*resource.key.namespace, &*instance.name);
            let first = names.insert(key, resource);
            if let Some(first) = first.filter(|first| first.key != resource.key) {
                let message = format!("the instance {} has two Workloads", instance.name);
                let hint = format!("the {} lists it, {}; remove one", first.key, first.origin);
                faults.push(Fault::new(resource.origin.clone(), message, hint));
            }
        }
    }
    faults
}

/// Whether it is a Workload that leaves its mode to a mesh which is strict, and cannot be.
fn is_open(mesh: &MeshConfig, resource: &Resource) -> bool {
    match &resource.object {
        Object::Workload(workload) => {
            let is_strict = workload.mode.unwrap_or(mesh.mode) == Mode::Strict;
            is_strict && !workload.sidecar.is_inbound()
        }
        _ => false,
    }
}

fn mesh(resources: &[Arc<Resource>]) -> MeshConfig {
    let mut found = resources
        .iter()
        .filter_map(|resource| match &resource.object {
            Object::MeshConfig(mesh) => Some(mesh.clone()),
            _ => None,
        });
    found.next().unwrap_or_default()
}

fn find_addresses(resources: &[Arc<Resource>], mesh: &MeshConfig, faults: &mut Vec<Fault>) {
    let mut taken: BTreeMap<IpAddr, &Resource> = BTreeMap::new();
    for resource in resources {
        let Object::Service(service) = &resource.object else {
            continue;
        };
        let ClusterIp::Given(addresses) = &service.cluster_ip else {
            continue;
        };
        for address in addresses {
            faults.extend(of_workloads(mesh, resource, *address));
            let first = taken.insert(*address, resource);
            if let Some(first) = first.filter(|first| first.key != resource.key) {
                let message = format!("the address {address} is taken");
                let hint = format!("the {} has it, {}; choose another", first.key, first.origin);
                faults.push(Fault::new(resource.origin.clone(), message, hint));
            }
        }
    }
}

fn of_workloads(mesh: &MeshConfig, resource: &Resource, address: IpAddr) -> Option<Fault> {
    let cidr = mesh
        .workload_cidrs
        .iter()
        .find(|cidr| cidr.contains(address))?;
    let message = format!("the address {address} is in {cidr}, which Workloads are given");
    let hint = "choose another, or remove `clusterIP` to be given one";
    Some(Fault::new(resource.origin.clone(), message, hint))
}
