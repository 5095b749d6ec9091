//! The index → what sidecars are told: model values for each Service and each instance of a
//! Workload. Called on every change; pure. Unchanged parts keep their `Arc` from the mesh before,
//! so that whoever pushes compares pointers. Must never tell a sidecar what no resource says.

/// What the clients of a Service are told.
mod service;

/// Who answers for a Service.
mod endpoints;

/// Which requests to a Service go where.
mod routes;

/// What the sidecar of an instance is told of its own.
mod workload;

/// What the sidecar of a gateway is told besides.
mod gateway;

/// What it is told where nothing is intercepted.
mod explicit;

/// The listeners that have sockets, and the way past everything else.
mod bound;

/// Who may call what.
mod reach;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{Cluster, Listener};
use xds::secret::Certificate;

use crate::addresses::Book;
use crate::index::{Changes, Index};

use crate::kinds::{AccountKey, DataPlane};
pub use crate::kinds::{ServiceKey, WorkloadKey};
pub(crate) use gateway::common_hosts;
pub(crate) use reach::access;

/// Everything that some sidecar may be told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mesh {
    /// What clients of each Service are told.
    pub services: BTreeMap<ServiceKey, Arc<ServiceParts>>,
    /// What the sidecar of each instance of a Workload is told about its own, by the instance's
    /// name. Instances without a sidecar are not here.
    pub workloads: BTreeMap<WorkloadKey, Arc<WorkloadParts>>,
    /// What every sidecar is told.
    pub common: Arc<CommonParts>,
    /// Who may call each Service: what `WorkloadParts::reach` is made from. Empty in meshes that
    /// are put together by hand (`..Mesh::default()`).
    pub access: Arc<BTreeMap<ServiceKey, Access>>,
}

/// Who may call a Service: what decides whether a sidecar is told of it at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Everybody: some Workload of it is permissive, or some endpoint not in the mesh; or it has
    /// neither.
    #[default]
    Open,
    /// Only these: every Workload of it is strict, and none of them lets in anybody else.
    Closed(BTreeSet<AccountKey>),
}

/// What a Service is to its clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceParts {
    /// One per port, named `outbound|PORT|HOST`; none while a headless Service has no endpoints.
    pub listeners: Vec<Listener>,
    /// One per port with its endpoints, and those that its routes lead to in other Services.
    pub clusters: Vec<Cluster>,
}

/// What an instance of a Workload is to its own sidecar.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadParts {
    /// The SPIFFE id that its sidecar must prove.
    pub identity: String,
    /// What its sidecar is: the data plane that its resources are told to.
    pub data_plane: DataPlane,
    /// The bound `inbound`, and `inbound|ADDRESS:PORT` for each port and address; none if inbound
    /// connections are not intercepted.
    pub listeners: Vec<Listener>,
    /// The workload itself, one per port and address.
    pub clusters: Vec<Cluster>,
    /// What a gateway shows to clients outside of the mesh: keys for this sidecar alone.
    pub certificates: Vec<Certificate>,
    /// The Services that it may call.
    pub reach: Reach,
    /// Whether all of its listeners are in `listeners`: nothing is intercepted, so that those of
    /// Services, and of everybody, are not for it.
    pub is_explicit: bool,
}

/// Which Services a Workload may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Every one.
    All,
    /// These; shared among the workloads that may call the same.
    Only(Arc<BTreeSet<ServiceKey>>),
}

/// What every sidecar is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommonParts {
    /// The bound `outbound`.
    pub listeners: Vec<Listener>,
    /// `passthrough`.
    pub clusters: Vec<Cluster>,
}

/// What sidecars are told, given everything in `index` and the addresses in `book`.
///
/// `changes` is what changed since `previous` was made; without `previous`, all is made anew. The
/// outcome is the same either way.
#[must_use]
pub fn translate(index: &Index, book: &Book, previous: Option<&Mesh>, changes: &Changes) -> Mesh {
    let everything = Changes {
        everything: true,
        ..Changes::default()
    };
    let changes = previous.map_or(&everything, |_| changes);
    let mut mesh = previous.cloned().unwrap_or_default();
    let common = bound::parts(index);
    if *mesh.common != common {
        mesh.common = Arc::new(common);
    }
    let keys = touched(changes, &changes.services, &mesh.services, index.services());
    let mut is_access_changed = false;
    let mut dialling = BTreeSet::new();
    for key in keys {
        dialling.extend(index.dialling(&key));
        let parts = index
            .service(&key)
            .map(|found| service::parts(index, book, &key, found));
        keep(&mut mesh.services, &key, parts);
        let access = index
            .service(&key)
            .map(|found| reach::access(index, &key, found));
        if mesh.access.get(&key) != access.as_ref() {
            is_access_changed = true;
            replace(Arc::make_mut(&mut mesh.access), key, access);
        }
    }
    let mut keys = touched(
        changes,
        &changes.instances,
        &mesh.workloads,
        index.instances().map(|instance| (instance.key, ())),
    );
    keys.extend(dialling);
    if is_access_changed {
        keys.extend(reach::concerned(&mesh));
    }
    if keys.is_empty() {
        return mesh;
    }
    let access = Arc::clone(&mesh.access);
    let reaches = reach::Reaches::new(&access);
    let mut last = None;
    for key in keys {
        let instance = index.instance(&key);
        let instance = instance.filter(|found| found.sidecar.enabled);
        let parts = instance.map(|found| {
            let before = mesh.workloads.get(&key).map(|parts| &parts.reach);
            let reach = shared(reaches.of(index, &found), [before, last.as_ref()]);
            last = Some(reach.clone());
            workload::parts(index, &mesh, &found, reach)
        });
        keep(&mut mesh.workloads, &key, parts);
    }
    mesh
}

/// The ports on which a Workload is called: those that it declares, and those at which a Service
/// finds it. None if there is no such Workload.
#[must_use]
pub fn called_ports(index: &Index, key: &WorkloadKey) -> BTreeSet<u16> {
    let workload = index.workload(key);
    let ports = workload.map(|found| workload::selected_ports(index, &key.namespace, found));
    ports.unwrap_or_default().into_keys().collect()
}

/// One of `known` that says the same, if there is one: instances of a Workload share it, and
/// streams see that nothing has changed.
fn shared(reach: Reach, known: [Option<&Reach>; 2]) -> Reach {
    let mut known = known.into_iter().flatten();
    let same = known.find(|known| **known == reach);
    same.cloned().unwrap_or(reach)
}

/// The keys that are to be translated: those of `some`, or all there were and are.
fn touched<K: Clone + Ord, V, T>(
    changes: &Changes,
    some: &BTreeSet<K>,
    before: &BTreeMap<K, V>,
    now: impl Iterator<Item = (K, T)>,
) -> BTreeSet<K> {
    match changes.everything {
        false => some.clone(),
        true => before
            .keys()
            .cloned()
            .chain(now.map(|(key, _)| key))
            .collect(),
    }
}

/// Puts `parts` in place of what is there, unless that is the same.
fn keep<K: Clone + Ord, V: PartialEq>(held: &mut BTreeMap<K, Arc<V>>, key: &K, parts: Option<V>) {
    match parts {
        Some(parts) if held.get(key).is_some_and(|held| **held == parts) => {}
        Some(parts) => drop(held.insert(key.clone(), Arc::new(parts))),
        None => drop(held.remove(key)),
    }
}

/// Puts `value` in place of what is there.
fn replace<K: Ord, V>(held: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(held.insert(key, value)),
        None => drop(held.remove(&key)),
    }
}
