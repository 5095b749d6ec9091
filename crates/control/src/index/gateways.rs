//! Gateways, their routes and certificates, and the Workloads that carry them out. Read by
//! `translate`, and by the warnings.

use super::Index;
use super::link::Link;
use crate::kinds::{
    Gateway, GatewayListener, GatewayRef, HttpRoute, Key, Kind, Object, RoutesFrom, Secret,
    WorkloadKey,
};

/// A route, and by which of its references it is attached.
pub struct Attached<'a> {
    /// The route's own name.
    pub key: &'a Key,
    /// The route.
    pub route: &'a HttpRoute,
    /// What ties it to the Gateway.
    pub by: &'a GatewayRef,
}

impl Attached<'_> {
    /// Whether the listener of the Gateway in `namespace` lets its clients follow the route.
    #[must_use]
    pub fn is_for(&self, listener: &GatewayListener, namespace: &str) -> bool {
        self.is_named(listener) && self.is_allowed(listener, namespace)
    }

    /// Whether it is a listener that the reference means.
    #[must_use]
    pub fn is_named(&self, listener: &GatewayListener) -> bool {
        let section = self.by.section.as_ref();
        section.is_none_or(|name| *name == listener.name)
            && self.by.port.is_none_or(|port| port == listener.port)
    }

    /// Whether routes of its namespace may be attached.
    #[must_use]
    pub fn is_allowed(&self, listener: &GatewayListener, namespace: &str) -> bool {
        listener.from == RoutesFrom::All || self.key.namespace == namespace
    }
}

impl Index {
    /// The Gateway named `key`.
    #[must_use]
    pub fn gateway(&self, key: &Key) -> Option<&Gateway> {
        match self.object(Kind::Gateway, &key.namespace, &key.name)? {
            Object::Gateway(gateway) => Some(gateway),
            _ => None,
        }
    }

    /// The Secret named `key`.
    #[must_use]
    pub fn secret(&self, key: &Key) -> Option<&Secret> {
        match self.object(Kind::Secret, &key.namespace, &key.name)? {
            Object::Secret(secret) => Some(secret),
            _ => None,
        }
    }

    /// The routes that are attached to a Gateway, by name.
    pub fn attached<'a>(&'a self, gateway: &'a Key) -> impl Iterator<Item = Attached<'a>> {
        let keys = self.linked(&Link::Attached(gateway.clone()));
        keys.flat_map(move |key| {
            let resource = self.resources.get(key).map(|resource| &resource.object);
            let route = match resource {
                Some(Object::HttpRoute(route)) => Some(route),
                _ => None,
            };
            let refs = route.into_iter().flat_map(move |route| {
                let refs = route.gateways.iter().map(move |by| (route, by));
                refs.filter(move |(_, by)| by.gateway == *gateway)
            });
            refs.map(move |(route, by)| Attached { key, route, by })
        })
    }

    /// The Workloads that carry a Gateway out.
    pub fn carriers(&self, gateway: &Key) -> Vec<WorkloadKey> {
        let keys = self.linked(&Link::Carries(gateway.clone()));
        keys.map(Key::workload).collect()
    }

    /// Marks what carries a Gateway out.
    pub(super) fn mark_gateway(&mut self, gateway: &Key) {
        let carriers = self.carriers(gateway);
        let names: Vec<_> = carriers.iter().flat_map(|key| self.names_of(key)).collect();
        self.changes.instances.extend(names);
    }

    /// Marks what carries a Gateway out that shows the certificate in a Secret.
    pub(super) fn mark_secret(&mut self, secret: &Key) {
        let gateways: Vec<_> = self.linked(&Link::Shows(secret.clone())).cloned().collect();
        gateways.iter().for_each(|key| self.mark_gateway(key));
    }
}
