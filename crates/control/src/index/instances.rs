//! The instances of Workloads: those that their statuses list, or one that has the Workload's own
//! name and lives nowhere yet, where there is no status. Read by `translate` and by whoever asks
//! who somebody is. Names of Workloads and of instances are of one kind: both are `WorkloadKey`s.

use std::net::IpAddr;

use super::Index;
use super::link::Link;
use crate::kinds::{
    AccountKey, DataPlane, Explicit, Instance, Key, Kind, Object, ServiceKey, Sidecar, Workload,
    WorkloadKey, WorkloadStatus,
};

/// An instance, with what its Workload says of it.
#[derive(Clone, Debug)]
pub struct Replica<'a> {
    /// Its own name.
    pub key: WorkloadKey,
    /// The name of its Workload.
    pub of: WorkloadKey,
    /// Its Workload.
    pub workload: &'a Workload,
    /// Where it lives; empty while it does not.
    pub addresses: &'a [IpAddr],
    /// Whether it is to be called.
    pub ready: bool,
    /// What its certificate says.
    pub account: &'a AccountKey,
    /// What its sidecar does.
    pub sidecar: Sidecar,
    /// What its sidecar is, if it has one.
    pub data_plane: DataPlane,
    /// Where its sidecar listens, if nothing is intercepted.
    pub explicit: Option<&'a Explicit>,
}

impl Index {
    /// Every instance.
    pub fn instances(&self) -> impl Iterator<Item = Replica<'_>> {
        self.workloads()
            .flat_map(|(key, _)| self.instances_of(&key))
    }

    /// The instances of a Workload, in the order of its status.
    #[must_use]
    pub fn instances_of(&self, key: &WorkloadKey) -> Vec<Replica<'_>> {
        match (self.workload(key), self.status(key)) {
            (Some(workload), Some(status)) => {
                let instances = status.instances.iter();
                let of = |instance| self.replica(key, workload, instance);
                instances.map(of).collect()
            }
            (Some(_), None) => self.implied(key).into_iter().collect(),
            (None, _) => Vec::new(),
        }
    }

    /// The instance named `key`; of several Workloads' the first by name, which the source has
    /// refused before.
    #[must_use]
    pub fn instance(&self, key: &WorkloadKey) -> Option<Replica<'_>> {
        let listed = self.listing(key).find_map(|of| {
            let workload = self.workload(&of)?;
            let mut instances = self.status(&of)?.instances.iter();
            let instance = instances.find(|instance| instance.name == key.name)?;
            Some(self.replica(&of, workload, instance))
        });
        listed.or_else(|| self.implied(key))
    }

    /// Whether some status says that there is an instance of this name, though its Workload may be
    /// gone: it has not ended yet.
    #[must_use]
    pub fn is_listed(&self, key: &WorkloadKey) -> bool {
        self.listing(key).next().is_some()
    }

    /// The instance that lives at `address`; the first by name if several say so.
    #[must_use]
    pub fn at(&self, address: IpAddr) -> Option<Replica<'_>> {
        self.linked(&Link::At(address)).find_map(|key| {
            let instances = self.instances_of(&key.workload()).into_iter();
            let mut there = instances.filter(|instance| instance.addresses.contains(&address));
            there.next()
        })
    }

    /// The instances whose sidecars listen for a Service at addresses of their own, which may be
    /// one too many.
    #[must_use]
    pub fn dialling(&self, service: &ServiceKey) -> Vec<WorkloadKey> {
        let keys = self.linked(&Link::Dials(service.clone()));
        keys.flat_map(|key| self.names_of(&key.workload()))
            .collect()
    }

    /// The names of all instances that a change of the Workload `key`, or of its status, concerns.
    pub(super) fn names_of(&self, key: &WorkloadKey) -> Vec<WorkloadKey> {
        let listed = self
            .status(key)
            .into_iter()
            .flat_map(|status| &status.instances);
        let listed = listed.map(|instance| WorkloadKey::new(&*key.namespace, &*instance.name));
        // Its own, too, which it has as long as no instance is listed.
        listed.chain([key.clone()]).collect()
    }

    /// What a status says about the Workload named `key`.
    pub(super) fn status(&self, key: &WorkloadKey) -> Option<&WorkloadStatus> {
        match self.object(Kind::WorkloadStatus, &key.namespace, &key.name)? {
            Object::WorkloadStatus(status) => Some(status),
            _ => None,
        }
    }

    /// The Workloads whose statuses list an instance named `key`.
    fn listing(&self, key: &WorkloadKey) -> impl Iterator<Item = WorkloadKey> + use<'_> {
        let link = Link::Lists(key.clone());
        self.linked(&link).map(Key::workload)
    }

    /// The only instance of a Workload without a status, unless another has taken its name.
    fn implied(&self, key: &WorkloadKey) -> Option<Replica<'_>> {
        let workload = self.workload(key)?;
        let is_free = self.status(key).is_none() && !self.is_taken(key);
        is_free.then(|| Replica {
            key: key.clone(),
            of: key.clone(),
            workload,
            addresses: &[],
            ready: true,
            account: &workload.account,
            sidecar: workload.sidecar,
            data_plane: self.data_plane(workload.sidecar),
            explicit: None,
        })
    }

    fn is_taken(&self, key: &WorkloadKey) -> bool {
        self.listing(key).any(|of| self.workload(&of).is_some())
    }

    fn replica<'a>(
        &self,
        of: &WorkloadKey,
        workload: &'a Workload,
        instance: &'a Instance,
    ) -> Replica<'a> {
        let sidecar = instance.sidecar.unwrap_or(workload.sidecar);
        Replica {
            key: WorkloadKey::new(&*of.namespace, &*instance.name),
            of: of.clone(),
            workload,
            addresses: &instance.addresses,
            ready: instance.ready,
            account: instance.account.as_ref().unwrap_or(&workload.account),
            sidecar,
            data_plane: self.data_plane(sidecar),
            explicit: instance.explicit.as_ref(),
        }
    }

    /// What a sidecar is, which is the mesh's to say where it says nothing.
    fn data_plane(&self, sidecar: Sidecar) -> DataPlane {
        sidecar.data_plane.unwrap_or_else(|| self.mesh().data_plane)
    }
}
