//! What is odd about resources as a whole: each is right by itself, but names something that is
//! not there, or does nothing. Called after every change, for the log and the admin pages.
//! Must never be a reason to refuse a change: what is missing may come later.

/// What is odd about gateways.
mod gateways;

use std::cell::LazyCell;
use std::collections::BTreeSet;

use super::Index;
use super::link::Link;
use crate::kinds::{
    AccessPolicy, AccountKey, BackendRef, ClusterIp, Fault, HttpRoute, Kind, Mode, Object, Origin,
    ParentRef, Resource, Service, ServiceKey, TargetPort, Workload, Written,
};

impl Index {
    /// All that is odd, in the order of the resources.
    #[must_use]
    pub fn warnings(&self) -> Vec<Fault> {
        let mut found = Warnings {
            index: self,
            accounts: LazyCell::new(|| self.accounts()),
            faults: Vec::new(),
        };
        for resource in self.resources() {
            found.check(resource);
        }
        found.faults
    }

    /// Accounts that are declared, or that some Workload runs under.
    fn accounts(&self) -> BTreeSet<AccountKey> {
        let declared = self
            .of_kind(Kind::ServiceAccount)
            .map(|resource| AccountKey::new(&*resource.key.namespace, &*resource.key.name));
        let used = self
            .workloads()
            .map(|(_, workload)| workload.account.clone());
        declared.chain(used).collect()
    }
}

struct Warnings<'a, F> {
    index: &'a Index,
    /// Only policies ask for them.
    accounts: LazyCell<BTreeSet<AccountKey>, F>,
    faults: Vec<Fault>,
}

impl<F: FnOnce() -> BTreeSet<AccountKey>> Warnings<'_, F> {
    fn check(&mut self, resource: &Resource) {
        match &resource.object {
            Object::Service(service) => self.check_service(resource, service),
            Object::HttpRoute(route) => self.check_route(resource, route),
            Object::Gateway(gateway) => self.check_gateway(resource, gateway),
            Object::AccessPolicy(policy) => self.check_policy(resource, policy),
            Object::Workload(workload) => self.check_workload(resource, workload),
            Object::EndpointSlice(slice) if self.index.service(&slice.service).is_none() => {
                let message = format!("there is no Service {} for this slice", slice.service);
                self.warn(resource, None, message, "add it, or remove the slice");
            }
            Object::WorkloadStatus(status) => {
                if self.index.workload(&resource.key.workload()).is_none() {
                    let message = format!("there is no Workload for the {}", resource.key);
                    self.warn(resource, None, message, "add it, or remove the status");
                }
                for address in status.addresses() {
                    let count = self.index.linked(&Link::At(address)).count();
                    if count > 1 {
                        let message = format!("{count} Workloads say that they live at {address}");
                        self.warn(
                            resource,
                            None,
                            message,
                            "remove the status that is outdated",
                        );
                    }
                }
            }
            _ => {}
        }
    }

    fn warn(
        &mut self,
        resource: &Resource,
        place: Option<Written>,
        message: impl Into<String>,
        hint: &str,
    ) {
        let origin = Origin {
            file: resource.origin.file.clone(),
            place: place.map(|Written(place)| place).or(resource.origin.place),
        };
        self.faults.push(Fault::new(origin, message, hint));
    }

    fn check_service(&mut self, resource: &Resource, service: &Service) {
        for port in &service.ports {
            let at = Some(port.place);
            match &port.target {
                TargetPort::Name(name) if self.is_unknown_port(resource, service, name) => {
                    let message = format!("no Workload that it selects has a port `{name}`");
                    self.warn(resource, at, message, "name one so, or write the number");
                }
                TargetPort::Number(number)
                    if service.cluster_ip == ClusterIp::Headless && *number != port.port =>
                {
                    let message = format!("a headless Service is called on {number}, its target");
                    self.warn(
                        resource,
                        at,
                        message,
                        "make `port` the same as `targetPort`",
                    );
                }
                TargetPort::Name(_) | TargetPort::Number(_) => {}
            }
        }
    }

    /// Whether Workloads are selected, none of which has a port called `name`.
    fn is_unknown_port(&self, resource: &Resource, service: &Service, name: &str) -> bool {
        let has = |key| {
            let ports = self.index.workload(key).map(|workload| &workload.ports);
            let mut ports = ports.into_iter().flatten();
            ports.any(|port| port.name.as_deref() == Some(name))
        };
        let selected = self.index.selected(&resource.key.namespace, service);
        !selected.is_empty() && !selected.iter().any(has)
    }

    fn check_workload(&mut self, resource: &Resource, workload: &Workload) {
        self.check_carrier(resource, workload);
        for key in &workload.depends_on {
            if self.index.workload(key).is_none() {
                let message = format!("there is no Workload {key} to wait for");
                let hint = "add it, or remove it from `dependsOn`: until then this does not start";
                self.warn(resource, None, message, hint);
            }
        }
    }

    fn check_route(&mut self, resource: &Resource, route: &HttpRoute) {
        self.check_attached(resource, route);
        for ParentRef {
            service,
            port,
            place,
        } in &route.parents
        {
            self.check_port(resource, service, *port, *place);
        }
        for BackendRef {
            service,
            port,
            place,
            ..
        } in route.rules.iter().flat_map(|r| &r.backends)
        {
            self.check_port(resource, service, Some(*port), *place);
        }
    }

    fn check_port(
        &mut self,
        resource: &Resource,
        key: &ServiceKey,
        port: Option<u16>,
        place: Written,
    ) {
        let Some(service) = self.index.service(key) else {
            let message = format!("there is no Service {key}");
            let hint = "add it; until then requests that are sent there are answered 503";
            self.warn(resource, Some(place), message, hint);
            return;
        };
        if let Some(port) = port
            && service.ports.iter().all(|known| known.port != port)
        {
            let known: Vec<_> = service
                .ports
                .iter()
                .map(|port| port.port.to_string())
                .collect();
            let message = format!("the Service {key} has no port {port}");
            let hint = format!("it has {}", known.join(", "));
            self.warn(resource, Some(place), message, &hint);
        }
    }

    fn check_policy(&mut self, resource: &Resource, policy: &AccessPolicy) {
        let protected = (&policy.account, policy.place);
        let callers = policy.callers.iter().map(|(key, place)| (key, *place));
        for (account, place) in [protected].into_iter().chain(callers) {
            if !self.accounts.contains(account) {
                let message = format!("there is no service account {account}");
                self.warn(
                    resource,
                    Some(place),
                    message,
                    "add a ServiceAccount of that name",
                );
            }
        }
        let link = Link::RunsAs(policy.account.clone());
        let workloads = self.index.linked(&link);
        let modes: Vec<_> = workloads
            .filter_map(|key| self.index.workload(&key.workload()))
            .map(|workload| self.index.mode(workload))
            .collect();
        if !modes.is_empty() && modes.iter().all(|mode| *mode == Mode::Permissive) {
            let message = format!("every Workload of {} lets in everybody", policy.account);
            let hint = "set `mode: strict` on them or on the mesh; until then this does nothing";
            self.warn(resource, Some(policy.place), message, hint);
        }
    }
}
