//! What a change touches: the Services and instances whose translation may be another one now.
//! Called by the index before a resource goes and after one has come; read by `translate`.
//! Must never leave one out; one too many only costs time.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::Index;
use super::link::Link;
use crate::kinds::{Key, Object, Resource, ServiceKey, Workload, WorkloadKey, WorkloadStatus};

/// Services and instances of Workloads whose translation may be another one now, those that are
/// gone too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Whether it may be all of them.
    pub everything: bool,
    /// Some Services.
    pub services: BTreeSet<ServiceKey>,
    /// Some instances of Workloads.
    pub instances: BTreeSet<WorkloadKey>,
}

impl Changes {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.everything && self.services.is_empty() && self.instances.is_empty()
    }
}

impl Index {
    /// Marks what `resource`, which is in the index, has a part in.
    pub(super) fn mark(&mut self, resource: &Resource) {
        match &resource.object {
            Object::Namespace | Object::ServiceAccount => {}
            Object::MeshConfig(_) => self.changes.everything = true,
            Object::Service(_) => self.mark_service(resource.key.service()),
            Object::EndpointSlice(slice) => {
                self.mark_addresses(&slice.addresses);
                self.mark_service(slice.service.clone());
            }
            Object::Workload(_) | Object::WorkloadStatus(_) => {
                self.mark_workload(&resource.key.workload());
            }
            Object::AccessPolicy(policy) => {
                let link = Link::RunsAs(policy.account.clone());
                let keys: Vec<_> = self.linked(&link).map(Key::workload).collect();
                keys.iter().for_each(|key| self.mark_workload(key));
            }
            Object::HttpRoute(route) => {
                let parents = route.parents.iter().map(|parent| parent.service.clone());
                self.changes.services.extend(parents);
                let gateways = route.gateways.iter();
                gateways.for_each(|by| self.mark_gateway(&by.gateway));
            }
            Object::Gateway(_) => self.mark_gateway(&resource.key),
            Object::Secret(_) => self.mark_secret(&resource.key),
        }
    }

    /// Besides its clients, its workloads are told: of the ports at which it finds them.
    fn mark_service(&mut self, key: ServiceKey) {
        if let Some(service) = self.service(&key) {
            let selected = self.selected(&key.namespace, service);
            let names: Vec<_> = selected.iter().flat_map(|key| self.names_of(key)).collect();
            self.changes.instances.extend(names);
        }
        let addresses: Vec<_> = self
            .slices(&key)
            .flat_map(|slice| slice.addresses.iter().copied())
            .collect();
        self.mark_addresses(&addresses);
        self.mark_clients(key);
    }

    /// Clients of a Service are told of its endpoints; those who come by a route of another
    /// Service as well.
    fn mark_clients(&mut self, key: ServiceKey) {
        let link = Link::LeadsTo(key.clone());
        let routes = self.objects(&link).filter_map(|object| match object {
            Object::HttpRoute(route) => Some(route),
            _ => None,
        });
        let parents = routes.flat_map(|route| &route.parents);
        let parents: Vec<_> = parents.map(|parent| parent.service.clone()).collect();
        self.changes.services.extend(parents);
        self.changes.services.insert(key);
    }

    /// The Services that have it as an endpoint are told where it is and who it is.
    fn mark_workload(&mut self, key: &WorkloadKey) {
        let selecting = |workload: &Workload| self.selecting(&key.namespace, workload);
        let mut services = self.workload(key).map(selecting).unwrap_or_default();
        let status = self.status(key).into_iter();
        for address in status.flat_map(WorkloadStatus::addresses) {
            let slices = self.slices_at(address);
            services.extend(slices.map(|slice| slice.service.clone()));
        }
        services.into_iter().for_each(|key| self.mark_clients(key));
        let names = self.names_of(key);
        self.changes.instances.extend(names);
    }

    fn mark_addresses(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            let keys = self.linked(&Link::At(*address)).map(Key::workload);
            let names: Vec<_> = keys.flat_map(|key| self.names_of(&key)).collect();
            self.changes.instances.extend(names);
        }
    }
}
