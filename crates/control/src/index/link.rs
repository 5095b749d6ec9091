//! What ties resources together: what others know a resource by, besides its name.
//! Called by the index. Must never depend on any other resource.

use std::net::IpAddr;

use crate::kinds::{AccountKey, Key, Kind, Object, Resource, ServiceKey, WorkloadKey};

/// One thing by which a resource is looked up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Link {
    /// Workloads of a namespace with a label.
    Labelled(String, String, String),
    /// Services of a namespace whose selector begins with a label.
    Selects(String, String, String),
    /// Workloads that run under an account, and statuses of which an instance does.
    RunsAs(AccountKey),
    /// Policies for an account.
    Protects(AccountKey),
    /// Statuses that list an instance.
    Lists(WorkloadKey),
    /// Statuses of which an instance has an address of its own for a Service.
    Dials(ServiceKey),
    /// Statuses with an address.
    At(IpAddr),
    /// Slices with an address.
    EndpointAt(IpAddr),
    /// Slices of a Service.
    EndpointsOf(ServiceKey),
    /// Routes that the clients of a Service follow.
    RoutesOf(ServiceKey),
    /// Routes that lead to a Service.
    LeadsTo(ServiceKey),
    /// Routes that the clients of a Gateway follow.
    Attached(Key),
    /// Workloads that carry a Gateway out.
    Carries(Key),
    /// Gateways that show the certificate in a Secret.
    Shows(Key),
}

/// All by which `resource` is looked up; one may come twice.
pub(super) fn links(resource: &Resource) -> Vec<Link> {
    let namespace = &resource.key.namespace;
    match &resource.object {
        Object::Namespace | Object::ServiceAccount | Object::MeshConfig(_) => Vec::new(),
        Object::Service(service) => {
            let first = service.selector.iter().next();
            let link = |(name, value): (&String, &String)| {
                Link::Selects(namespace.clone(), name.clone(), value.clone())
            };
            first.map(link).into_iter().collect()
        }
        Object::Workload(workload) => {
            let labels = workload.labels.iter();
            let labelled = labels.map(|(name, value)| {
                Link::Labelled(namespace.clone(), name.clone(), value.clone())
            });
            let carries = workload.gateway.as_ref().map(|name| {
                Link::Carries(Key {
                    kind: Kind::Gateway,
                    namespace: namespace.clone(),
                    name: name.clone(),
                })
            });
            labelled
                .chain([Link::RunsAs(workload.account.clone())])
                .chain(carries)
                .collect()
        }
        Object::WorkloadStatus(status) => {
            let names = status.instances.iter();
            let names = names.map(|instance| WorkloadKey::new(&**namespace, &*instance.name));
            let lists = names.map(Link::Lists);
            let accounts = status.instances.iter().flat_map(|one| one.account.clone());
            let runs = accounts.map(Link::RunsAs);
            let at = status.addresses().map(Link::At);
            let explicit = status.instances.iter().flat_map(|one| &one.explicit);
            let dialled = explicit.flat_map(|explicit| &explicit.outbound);
            let dials = dialled.map(|one| Link::Dials(one.service.clone()));
            lists.chain(runs).chain(at).chain(dials).collect()
        }
        Object::EndpointSlice(slice) => {
            let addresses = slice.addresses.iter().copied().map(Link::EndpointAt);
            addresses
                .chain([Link::EndpointsOf(slice.service.clone())])
                .collect()
        }
        Object::AccessPolicy(policy) => vec![Link::Protects(policy.account.clone())],
        Object::Secret(_) => Vec::new(),
        Object::Gateway(gateway) => {
            let certificates = gateway.listeners.iter().map(|it| it.certificate.as_ref());
            let secrets = certificates.flatten().map(|it| it.secret.clone());
            secrets.map(Link::Shows).collect()
        }
        Object::HttpRoute(route) => {
            let gateways = route.gateways.iter().map(|by| by.gateway.clone());
            let attached = gateways.map(Link::Attached);
            let parents = route.parents.iter();
            let parents = parents.map(|parent| Link::RoutesOf(parent.service.clone()));
            let backends = route.rules.iter().flat_map(|rule| &rule.backends);
            let leads_to = backends.map(|backend| Link::LeadsTo(backend.service.clone()));
            parents.chain(leads_to).chain(attached).collect()
        }
    }
}
