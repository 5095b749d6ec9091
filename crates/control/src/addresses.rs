//! The virtual addresses of Services: given once, kept in a file, the same after a restart and on
//! every machine that begins anew. Settled after each change of the index, read by `translate`.
//! Must never give one address to two Services.

/// The book on the disk.
mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::index::{Changes, Index};
use crate::kinds::{Cidr, ClusterIp, ServiceKey};

pub use file::Error;

/// Which Service has which addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    /// What was allocated, to Services that are gone too: they may come back, and their clients
    /// remember the address. Invariant: no address twice, none that a Service asks for.
    allocated: BTreeMap<ServiceKey, Vec<IpAddr>>,
    /// What the Services have, asked for or allocated, IPv4 first; headless ones have none.
    current: BTreeMap<ServiceKey, Vec<IpAddr>>,
    /// What `current` was made from.
    asked: BTreeMap<ServiceKey, ClusterIp>,
    cidrs: Vec<Cidr>,
}

/// What settling a book came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Whether the book on the disk is out of date.
    pub is_changed: bool,
    /// Services that are left without an address in a family, since its range is full.
    pub without: BTreeSet<ServiceKey>,
}

impl Book {
    /// The addresses of a Service, IPv4 first; none if it is headless or unknown.
    #[must_use]
    pub fn of(&self, service: &ServiceKey) -> &[IpAddr] {
        self.current.get(service).map_or(&[], Vec::as_slice)
    }

    /// Gives every Service in `index` its addresses, and adds those whose addresses are others now
    /// to `changes`, which are what the index says changed since the last time.
    pub fn settle(&mut self, index: &Index, changes: &mut Changes) -> Settled {
        if !self.is_concerned(index, changes) {
            return Settled::default();
        }
        let before = (self.allocated.clone(), std::mem::take(&mut self.current));
        self.cidrs.clone_from(&index.mesh().service_cidrs);
        let asked = index
            .services()
            .map(|(key, service)| (key, service.cluster_ip.clone()));
        self.asked = asked.collect();
        let without = self.allocate();
        let (allocated, current) = before;
        let keys = current.keys().chain(self.current.keys());
        let differ = keys.filter(|key| current.get(*key) != self.current.get(*key));
        changes.services.extend(differ.cloned());
        Settled {
            is_changed: allocated != self.allocated,
            without,
        }
    }

    /// Whether any Service asks for something else than the last time.
    fn is_concerned(&self, index: &Index, changes: &Changes) -> bool {
        let differs = |key: &ServiceKey| {
            index.service(key).map(|service| &service.cluster_ip) != self.asked.get(key)
        };
        changes.everything
            || self.cidrs != index.mesh().service_cidrs
            || changes.services.iter().any(differs)
    }

    /// Makes `current` from what is asked for and what was allocated before. Gives the Services
    /// that are left without.
    fn allocate(&mut self) -> BTreeSet<ServiceKey> {
        let mut without = BTreeSet::new();
        let mut taken = self.forget_taken();
        for (key, asked) in &self.asked {
            let mut addresses = match asked {
                ClusterIp::Headless => continue,
                ClusterIp::Given(addresses) => addresses.clone(),
                ClusterIp::Allocated => Vec::new(),
            };
            for cidr in &self.cidrs {
                if addresses
                    .iter()
                    .any(|address| address.is_ipv6() == cidr.is_ipv6())
                {
                    continue;
                }
                let held = self.allocated.get(key).into_iter().flatten();
                let held = held.copied().find(|address| cidr.contains(*address));
                let is_new = held.is_none();
                let Some(address) = held.or_else(|| free(cidr, key, &taken)) else {
                    without.insert(key.clone());
                    continue;
                };
                addresses.push(address);
                if is_new {
                    taken.insert(address);
                    self.allocated.entry(key.clone()).or_default().push(address);
                }
            }
            addresses.sort_unstable();
            self.current.insert(key.clone(), addresses);
        }
        without
    }

    /// Forgets what cannot be kept: addresses that a Service asks for, or outside of the ranges;
    /// and those of Services that are gone, where a range is nearly full. Gives all that are taken.
    fn forget_taken(&mut self) -> BTreeSet<IpAddr> {
        let given = self.asked.values().flat_map(|asked| match asked {
            ClusterIp::Given(addresses) => addresses.as_slice(),
            ClusterIp::Allocated | ClusterIp::Headless => &[],
        });
        let mut taken: BTreeSet<IpAddr> = given.copied().collect();
        let smallest = self.cidrs.iter().map(|cidr| usable(cidr).end).min();
        let all = self.allocated.keys().chain(self.asked.keys()).count() as u64;
        let is_tight = smallest.is_some_and(|smallest| all >= smallest);
        let (asked, cidrs) = (&self.asked, &self.cidrs);
        self.allocated.retain(|key, addresses| {
            addresses.retain(|address| {
                let inside = cidrs.iter().any(|cidr| cidr.contains(*address));
                inside && !taken.contains(address)
            });
            !addresses.is_empty() && (!is_tight || asked.contains_key(key))
        });
        taken.extend(self.allocated.values().flatten());
        taken
    }
}

/// The first address that is not `taken`, from the place on that the Service's name leads to.
fn free(cidr: &Cidr, key: &ServiceKey, taken: &BTreeSet<IpAddr>) -> Option<IpAddr> {
    let usable = usable(cidr);
    let count = usable.end - usable.start;
    let first = hash(key) % count;
    // After as many tries as there are taken ones, one more is free or none is.
    let tries = count.min(taken.len() as u64 + 1);
    let index = |step| usable.start + (first + step) % count;
    let addresses = (0..tries).filter_map(|step| cidr.nth(index(step).into()));
    addresses
        .into_iter()
        .find(|address| !taken.contains(address))
}

/// All but the first and the last, which mean the network and everybody in it.
fn usable(cidr: &Cidr) -> std::ops::Range<u64> {
    match cidr.count() {
        count @ 0..=2 => 0..count,
        count => 1..count - 1,
    }
}

/// FNV-1a, its bits stirred. Must stay as it is: addresses are found by it again.
fn hash(key: &ServiceKey) -> u64 {
    let bytes = key.namespace.bytes().chain([b'/']).chain(key.name.bytes());
    let fold = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, fold);
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
}

#[cfg(test)]
mod tests;
