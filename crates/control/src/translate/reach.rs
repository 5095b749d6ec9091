//! Who may call what: which Services a sidecar is told of. Called by `translate`.
//! Must never be what keeps a caller out, only what spares it: the called sidecar decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Access, Mesh, Reach, ServiceKey, WorkloadKey};
use crate::index::{Index, Replica};
use crate::kinds::{AccountKey, Mode, Service};

/// A Service may be called by everybody who one of its Workloads would let in, whether that lives
/// now or not: a restart should not make it known to all for a moment.
pub(crate) fn access(index: &Index, key: &ServiceKey, service: &Service) -> Access {
    let selected = index.selected(&key.namespace, service).into_iter();
    let addresses = index.slices(key).flat_map(|slice| &slice.addresses);
    let others = addresses.map(|address| index.at(*address).map(|found| found.of));
    let mut accounts = BTreeSet::new();
    for workload in selected.map(Some).chain(others) {
        let found = workload.and_then(|key| Some((index.workload(&key)?, key)));
        match found {
            Some((workload, key)) if index.mode(workload) == Mode::Strict => {
                accounts.insert(&workload.account);
                // One that was started under another account lets in its callers as yet.
                accounts.extend(index.instances_of(&key).iter().map(|one| one.account));
            }
            _ => return Access::Open,
        }
    }
    if accounts.is_empty() {
        return Access::Open;
    }
    let callers = accounts
        .into_iter()
        .flat_map(|account| index.callers(account));
    Access::Closed(callers.collect())
}

/// The instances that are to be looked at again when the access to some Service changed: all, as
/// long as some know only a part.
pub(super) fn concerned(mesh: &Mesh) -> BTreeSet<WorkloadKey> {
    let is_partial = mesh.access.values().any(|access| *access != Access::Open);
    let concerned = mesh
        .workloads
        .iter()
        .filter(|(_, parts)| is_partial || parts.reach != Reach::All);
    concerned.map(|(key, _)| key.clone()).collect()
}

/// What each account may call.
pub(super) struct Reaches<'a> {
    access: &'a BTreeMap<ServiceKey, Access>,
    /// Services that everybody may call, made when the first asks.
    open: Arc<BTreeSet<ServiceKey>>,
    is_all_open: bool,
    /// Those that only some may call, by caller.
    closed: BTreeMap<&'a AccountKey, Vec<&'a ServiceKey>>,
}

impl<'a> Reaches<'a> {
    pub(super) fn new(access: &'a BTreeMap<ServiceKey, Access>) -> Self {
        let mut reaches = Self {
            access,
            open: Arc::default(),
            is_all_open: access.values().all(|access| *access == Access::Open),
            closed: BTreeMap::new(),
        };
        if reaches.is_all_open {
            return reaches;
        }
        let mut open = BTreeSet::new();
        for (key, access) in access {
            match access {
                Access::Open => drop(open.insert(key.clone())),
                Access::Closed(callers) => {
                    for caller in callers {
                        reaches.closed.entry(caller).or_default().push(key);
                    }
                }
            }
        }
        reaches.open = Arc::new(open);
        reaches
    }

    /// What an instance may call: itself, too, by the name of its own Service.
    pub(super) fn of(&self, index: &Index, instance: &Replica<'_>) -> Reach {
        if self.is_all_open {
            return Reach::All;
        }
        let workload = instance.workload;
        let own = index.selecting(&instance.of.namespace, workload);
        let closed = self.closed.get(instance.account).into_iter().flatten();
        let closed = closed
            .copied()
            .chain(own.iter().filter(|key| self.is_closed(key)));
        let closed: BTreeSet<_> = closed.cloned().collect();
        match closed.is_empty() {
            true => Reach::Only(Arc::clone(&self.open)),
            false => Reach::Only(Arc::new(closed.union(&self.open).cloned().collect())),
        }
    }

    fn is_closed(&self, service: &ServiceKey) -> bool {
        matches!(self.access.get(service), Some(Access::Closed(_)))
    }
}
