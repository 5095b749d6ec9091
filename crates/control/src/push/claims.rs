//! Addresses that several listeners would have: headless Services that lead to the same endpoint.
//! Envoy refuses a listener whose address another has, so the first by name has it. Our sidecar
//! chooses for itself. Called by `push` for what Envoys are told.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use model::{Balance, Listener};

use crate::translate::{Mesh, ServiceParts};

/// Names of listeners by the addresses that they may have.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Claims<'a>(BTreeMap<SocketAddr, &'a str>);

impl<'a> Claims<'a> {
    pub(super) fn of(mesh: &'a Mesh) -> Self {
        let services = mesh.services.values();
        let headless = services.filter(|parts| is_headless(parts));
        let mut claims = BTreeMap::new();
        for listener in headless.flat_map(|parts| &parts.listeners) {
            for address in listener.addresses() {
                claims.entry(address).or_insert(listener.name.as_str());
            }
        }
        Self(claims)
    }

    /// The listeners of a Service with the addresses that are theirs; none that has none left.
    pub(super) fn listeners<'b>(&self, parts: &'b ServiceParts) -> Cow<'b, [Listener]> {
        let is_own = |listener: &Listener, address: &SocketAddr| {
            self.0.get(address) == Some(&listener.name.as_str())
        };
        let is_whole = |listener: &Listener| listener.addresses().all(|it| is_own(listener, &it));
        if !is_headless(parts) || parts.listeners.iter().all(is_whole) {
            return Cow::Borrowed(&parts.listeners);
        }
        let kept = parts.listeners.iter().filter_map(|listener| {
            let mut own = listener.addresses().filter(|it| is_own(listener, it));
            Some(Listener {
                address: own.next()?,
                additional_addresses: own.collect(),
                ..listener.clone()
            })
        });
        Cow::Owned(kept.collect())
    }
}

/// Its listeners are at its endpoints.
pub(super) fn is_headless(parts: &ServiceParts) -> bool {
    let mut clusters = parts.clusters.iter();
    clusters.any(|cluster| cluster.balance == Balance::OriginalDestination)
}
