//! Who may call what: which Services a sidecar is told of. Called by `translate`.
//! Must never be what keeps a caller out, only what spares it: the called sidecar decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Access, Mesh, Reach, ServiceKey, WorkloadKey, endpoints};
use crate::index::Index;
use crate::kinds::{AccountKey, Mode, Service, Workload};

/// A Service may be called by everybody who one of its endpoints would let in.
pub(super) fn access(index: &Index, key: &ServiceKey, service: &Service) -> Access {
    let mut callers = BTreeSet::new();
    let mut accounts = BTreeSet::new();
    for port in &service.ports {
        for target in endpoints::targets(index, key, service, port) {
            let workload = match target.workload {
                Some((_, workload)) if index.mode(workload) == Mode::Strict => workload,
                _ => return Access::Open,
            };
            if accounts.insert(&workload.account) {
                callers.extend(index.callers(&workload.account));
            }
        }
    }
    match accounts.is_empty() {
        true => Access::Open,
        false => Access::Closed(callers),
    }
}

/// The Workloads that are to be looked at again when the access to some Service changed: all, as
/// long as some know only a part.
pub(super) fn concerned(mesh: &Mesh) -> BTreeSet<WorkloadKey> {
    let is_partial = mesh.access.values().any(|access| *access != Access::Open);
    let concerned = mesh.workloads.iter().filter(|(_, parts)| is_partial || parts.reach != Reach::All);
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

    /// What a Workload may call: itself, too, by the name of its own Service.
    pub(super) fn of(&self, index: &Index, key: &WorkloadKey, workload: &Workload) -> Reach {
        if self.is_all_open {
            return Reach::All;
        }
        let own = index.selecting(&key.namespace, workload);
        let closed = self.closed.get(&workload.account).into_iter().flatten();
        let closed = closed.copied().chain(own.iter().filter(|key| self.is_closed(key)));
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
