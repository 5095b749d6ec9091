//! What cannot be true of several resources at once. Called by `source` when all are read.
//! Must never choose between two: both places are named, and nothing changes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::kinds::{ClusterIp, Fault, Key, MeshConfig, Object, Resource};

/// Names given twice, and addresses that cannot be given to a Service.
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
    find_addresses(resources, &mut faults);
    faults
}

fn find_addresses(resources: &[Arc<Resource>], faults: &mut Vec<Fault>) {
    let mesh = resources
        .iter()
        .find_map(|resource| match &resource.object {
            Object::MeshConfig(mesh) => Some(mesh.clone()),
            _ => None,
        });
    let mesh = mesh.unwrap_or_default();
    let mut taken: BTreeMap<IpAddr, &Resource> = BTreeMap::new();
    for resource in resources {
        let Object::Service(service) = &resource.object else {
            continue;
        };
        let ClusterIp::Given(addresses) = &service.cluster_ip else {
            continue;
        };
        for address in addresses {
            faults.extend(of_workloads(&mesh, resource, *address));
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
