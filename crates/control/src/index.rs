//! Every resource by its name, and by what others refer to it with. Fed by the source, read by
//! `translate`, which it tells what a change touches. Synchronous and pure.

/// What ties resources together.
mod link;

/// The instances of Workloads.
mod instances;

/// The ways into the mesh.
mod gateways;

/// What a change touches.
mod changes;

/// What is odd about resources as a whole.
mod warnings;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use crate::kinds::{
    AccessPolicy, AccountKey, EndpointSlice, HttpRoute, Key, Kind, MeshConfig, Mode, Object,
    Resource, Service, ServiceKey, Workload, WorkloadKey,
};
use link::Link;

pub use changes::Changes;
pub use gateways::Attached;
pub use instances::Replica;

/// Every resource there is.
#[derive(Clone, Debug, Default)]
pub struct Index {
    resources: BTreeMap<Key, Arc<Resource>>,
    /// Where those lie in memory: nearly all are the same the next time.
    held: HashSet<usize>,
    /// Invariant: exactly the `link::links` of `resources`.
    linked: BTreeMap<Link, BTreeSet<Key>>,
    changes: Changes,
}

impl Index {
    /// Keeps exactly `resources`, in which no name comes twice: applies those that are new or
    /// differ, deletes all others.
    pub fn replace(&mut self, resources: &[Arc<Resource>]) {
        for resource in resources {
            self.apply(Arc::clone(resource));
        }
        if self.resources.len() == resources.len() {
            return;
        }
        let keys: BTreeSet<&Key> = resources.iter().map(|resource| &resource.key).collect();
        let gone = self.resources.keys().filter(|key| !keys.contains(key));
        for key in gone.cloned().collect::<Vec<_>>() {
            self.delete(&key);
        }
    }

    /// Keeps `resource` in place of the one of its name.
    pub fn apply(&mut self, resource: Arc<Resource>) {
        if self.holds(&resource) {
            return;
        }
        match self.resources.get_mut(&resource.key) {
            Some(held) if held.object == resource.object => {
                // Only its place in the file may differ, which later warnings should tell.
                self.held.remove(&place(held));
                self.held.insert(place(&resource));
                *held = resource;
                return;
            }
            Some(_) => self.delete(&resource.key.clone()),
            None => {}
        }
        for link in link::links(&resource) {
            self.linked
                .entry(link)
                .or_default()
                .insert(resource.key.clone());
        }
        self.held.insert(place(&resource));
        self.resources
            .insert(resource.key.clone(), Arc::clone(&resource));
        self.mark(&resource);
    }

    /// Forgets the resource named `key`.
    pub fn delete(&mut self, key: &Key) {
        let Some(resource) = self.resources.get(key).map(Arc::clone) else {
            return;
        };
        // What it touches is told by its links, so this comes before they go.
        self.mark(&resource);
        self.held.remove(&place(&resource));
        self.resources.remove(key);
        for link in link::links(&resource) {
            let Some(keys) = self.linked.get_mut(&link) else {
                continue;
            };
            keys.remove(key);
            if keys.is_empty() {
                self.linked.remove(&link);
            }
        }
    }

    /// What changed since it was taken last.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Every resource, by kind, namespace and name.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// Whether it is this very resource that is in the index.
    #[must_use]
    pub fn holds(&self, resource: &Arc<Resource>) -> bool {
        self.held.contains(&place(resource))
    }

    /// What holds for the mesh as a whole; the defaults where nobody said anything.
    #[must_use]
    pub fn mesh(&self) -> &MeshConfig {
        static DEFAULT: LazyLock<MeshConfig> = LazyLock::new(MeshConfig::default);
        match self
            .of_kind(Kind::MeshConfig)
            .next()
            .map(|resource| &resource.object)
        {
            Some(Object::MeshConfig(config)) => config,
            _ => &DEFAULT,
        }
    }

    /// Every Service.
    pub fn services(&self) -> impl Iterator<Item = (ServiceKey, &Service)> {
        self.of_kind(Kind::Service)
            .filter_map(|resource| match &resource.object {
                Object::Service(service) => Some((resource.key.service(), service)),
                _ => None,
            })
    }

    /// Every Workload.
    pub fn workloads(&self) -> impl Iterator<Item = (WorkloadKey, &Workload)> {
        self.of_kind(Kind::Workload)
            .filter_map(|resource| match &resource.object {
                Object::Workload(workload) => Some((resource.key.workload(), &**workload)),
                _ => None,
            })
    }

    /// The Service named `key`.
    #[must_use]
    pub fn service(&self, key: &ServiceKey) -> Option<&Service> {
        match self.object(Kind::Service, &key.namespace, &key.name)? {
            Object::Service(service) => Some(service),
            _ => None,
        }
    }

    /// The Workload named `key`.
    #[must_use]
    pub fn workload(&self, key: &WorkloadKey) -> Option<&Workload> {
        match self.object(Kind::Workload, &key.namespace, &key.name)? {
            Object::Workload(workload) => Some(workload),
            _ => None,
        }
    }

    /// The mode of a Workload, which is the mesh's where it says none.
    #[must_use]
    pub fn mode(&self, workload: &Workload) -> Mode {
        workload.mode.unwrap_or_else(|| self.mesh().mode)
    }

    /// The Workloads that a Service selects.
    pub fn selected(&self, namespace: &str, service: &Service) -> Vec<WorkloadKey> {
        let Some((name, value)) = service.selector.iter().next() else {
            return Vec::new();
        };
        let link = Link::Labelled(namespace.into(), name.clone(), value.clone());
        let keys = self.linked(&link).map(Key::workload);
        keys.filter(|key| {
            self.workload(key)
                .is_some_and(|found| selects(service, found))
        })
        .collect()
    }

    /// The Services that select a Workload.
    pub fn selecting(&self, namespace: &str, workload: &Workload) -> Vec<ServiceKey> {
        let links = workload
            .labels
            .iter()
            .map(|(name, value)| Link::Selects(namespace.into(), name.clone(), value.clone()));
        let keys = links.flat_map(|link| self.linked(&link).map(Key::service).collect::<Vec<_>>());
        keys.filter(|key| {
            self.service(key)
                .is_some_and(|found| selects(found, workload))
        })
        .collect()
    }

    /// The slices of a Service.
    pub fn slices<'a>(
        &'a self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = &'a EndpointSlice> + use<'a> {
        let link = Link::EndpointsOf(service.clone());
        self.objects(&link).filter_map(|object| match object {
            Object::EndpointSlice(slice) => Some(slice),
            _ => None,
        })
    }

    /// The slices that have an endpoint at `address`.
    pub fn slices_at(&self, address: IpAddr) -> impl Iterator<Item = &EndpointSlice> {
        self.objects(&Link::EndpointAt(address))
            .filter_map(|object| match object {
                Object::EndpointSlice(slice) => Some(slice),
                _ => None,
            })
    }

    /// The routes that the clients of a Service follow, by name.
    pub fn routes<'a>(
        &'a self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = &'a HttpRoute> + use<'a> {
        self.objects(&Link::RoutesOf(service.clone()))
            .filter_map(|object| match object {
                Object::HttpRoute(route) => Some(route),
                _ => None,
            })
    }

    /// The policies that say who may call an account's workloads.
    pub fn policies<'a>(
        &'a self,
        account: &AccountKey,
    ) -> impl Iterator<Item = &'a AccessPolicy> + use<'a> {
        self.objects(&Link::Protects(account.clone()))
            .filter_map(|object| match object {
                Object::AccessPolicy(policy) => Some(policy),
                _ => None,
            })
    }

    /// The resources of [`Self::policies`].
    pub fn policy_resources<'a>(
        &'a self,
        account: &AccountKey,
    ) -> impl Iterator<Item = &'a Arc<Resource>> + use<'a> {
        let keys = self.linked(&Link::Protects(account.clone()));
        keys.filter_map(|key| self.resources.get(key))
    }

    /// Who may call the strict workloads of an account.
    #[must_use]
    pub fn callers(&self, account: &AccountKey) -> BTreeSet<AccountKey> {
        let policies = self.policies(account);
        let callers = policies.flat_map(|policy| policy.callers.iter().map(|(key, _)| key));
        callers.cloned().collect()
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Arc<Resource>> {
        let first = Key {
            kind,
            namespace: String::new(),
            name: String::new(),
        };
        let found = self.resources.range(first..);
        found.map_while(move |(key, resource)| (key.kind == kind).then_some(resource))
    }

    fn object(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Object> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let resource = self.resources.get(&Key {
            kind,
            namespace,
            name,
        })?;
        Some(&resource.object)
    }

    fn linked<'a>(&'a self, link: &Link) -> impl Iterator<Item = &'a Key> + use<'a> {
        self.linked.get(link).into_iter().flatten()
    }

    fn objects<'a>(&'a self, link: &Link) -> impl Iterator<Item = &'a Object> + use<'a> {
        let keys = self.linked(link);
        keys.filter_map(|key| self.resources.get(key).map(|resource| &resource.object))
    }
}

/// No other resource is there as long as it lives.
fn place(resource: &Arc<Resource>) -> usize {
    Arc::as_ptr(resource).addr()
}

fn selects(service: &Service, workload: &Workload) -> bool {
    let has = |(name, value): (&String, &String)| workload.labels.get(name) == Some(value);
    !service.selector.is_empty() && service.selector.iter().all(has)
}

#[cfg(test)]
mod tests;
