//! Who answers for a Service, and where: the Workloads that it selects, and the endpoints of its
//! slices, which may be Workloads too. Called for each of its ports, and for who may call it.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use identity::SpiffeId;
use model::{Endpoint, Host, Protocol, Transport};

use crate::index::{Index, Replica};
use crate::kinds::{AccountKey, DataPlane, Service, ServiceKey, ServicePort, TargetPort, Workload};

/// Somebody who answers on one port of a Service.
pub(super) struct Target<'a> {
    /// Where; one of each family where it has several. Never empty.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: u16,
    /// `None`: it is not in the mesh.
    pub(super) instance: Option<Replica<'a>>,
}

/// All who answer on `port`: Workloads by name, each with its instances, then others in the order
/// of their slices. Instances that are not ready are left out.
pub(super) fn targets<'a>(
    index: &'a Index,
    key: &ServiceKey,
    service: &Service,
    port: &ServicePort,
) -> Vec<Target<'a>> {
    let mut targets = Vec::new();
    let mut seen = BTreeSet::new();
    for workload in index.selected(&key.namespace, service) {
        for instance in index.instances_of(&workload) {
            let number = number(instance.workload, &port.target);
            if let Some((addresses, number)) = number.and_then(|number| place(&instance, number)) {
                targets.extend(unseen(&mut seen, addresses, number, Some(instance)));
            }
        }
    }
    for slice in index.slices(key) {
        let number = slice.ports.iter().find(|known| known.name == port.name);
        let Some(number) = number.map(|known| known.port) else {
            continue;
        };
        for address in &slice.addresses {
            let instance = index.at(*address);
            let addresses = match &instance {
                Some(instance) => instance.addresses.to_vec(),
                None => vec![*address],
            };
            targets.extend(unseen(&mut seen, addresses, number, instance));
        }
    }
    targets
}

/// Where others reach a port of an instance: where it listens itself, or where its sidecar does for
/// it, and then nowhere else.
fn place(instance: &Replica<'_>, port: u16) -> Option<(Vec<IpAddr>, u16)> {
    match instance.explicit {
        Some(explicit) if instance.sidecar.is_inbound() => {
            let address = explicit.inbound(port)?;
            Some((vec![address.ip()], address.port()))
        }
        _ => Some((instance.addresses.to_vec(), port)),
    }
}

/// Nobody is listed twice: a Workload may be selected and have slices of both families.
fn unseen<'a>(
    seen: &mut BTreeSet<SocketAddr>,
    mut addresses: Vec<IpAddr>,
    port: u16,
    instance: Option<Replica<'a>>,
) -> Option<Target<'a>> {
    let is_ready = instance.as_ref().is_none_or(|instance| instance.ready);
    addresses.retain(|address| seen.insert(SocketAddr::new(*address, port)));
    (is_ready && !addresses.is_empty()).then_some(Target {
        addresses,
        port,
        instance,
    })
}

/// Where a Workload listens for a port of a Service.
pub(super) fn number(workload: &Workload, target: &TargetPort) -> Option<u16> {
    match target {
        TargetPort::Number(number) => Some(*number),
        TargetPort::Name(name) => {
            let mut ports = workload.ports.iter();
            let port = ports.find(|port| port.name.as_ref() == Some(name));
            port.map(|port| port.port)
        }
    }
}

impl Target<'_> {
    /// It at each of its addresses, or at the first only: a share of its own for each would give
    /// Workloads of two families twice as much as others.
    pub(super) fn endpoints(&self, index: &Index, every_address: bool) -> Vec<Endpoint> {
        let count = if every_address {
            self.addresses.len()
        } else {
            1
        };
        // Without a sidecar that sees what arrives there is nobody to speak mesh TLS with.
        let instance = self.instance.as_ref();
        let instance = instance.filter(|instance| instance.sidecar.is_inbound());
        let identity = instance.map(|instance| spiffe_id(index, instance.account));
        let endpoint = |address: &IpAddr| Endpoint {
            address: SocketAddr::new(*address, self.port),
            transport: instance.map_or(Transport::Plaintext, transport),
            identities: identity.iter().cloned().collect(),
        };
        self.addresses.iter().take(count).map(endpoint).collect()
    }
}

/// How the sidecar of an instance is spoken to: the hop `leno/1` is Leno's alone.
const fn transport(instance: &Replica<'_>) -> Transport {
    match instance.data_plane {
        DataPlane::Leno => Transport::Leno,
        DataPlane::Envoy => Transport::Mtls,
    }
}

/// The names of those instances among `targets` by themselves, as clients of a headless Service ask
/// for one of them.
pub(super) fn hosts(key: &ServiceKey, targets: &[Target<'_>]) -> Vec<Host> {
    let host = |target: &Target<'_>| {
        let instance = target.instance.as_ref()?;
        Some(Host {
            name: format!("{}.{}", instance.key.name, key.host()),
            addresses: target.addresses.clone(),
        })
    };
    targets.iter().filter_map(host).collect()
}

/// What is spoken on a port of a Service: what it says, or else what all of its Workloads say,
/// whether they live now or not: a restart must not make it another listener.
pub(super) fn protocol(
    index: &Index,
    key: &ServiceKey,
    service: &Service,
    port: &ServicePort,
) -> Protocol {
    if let Some(protocol) = port.protocol {
        return protocol;
    }
    let selected = index.selected(&key.namespace, service).into_iter();
    let selected = selected.filter_map(|workload| {
        let workload = index.workload(&workload)?;
        Some(declared(workload, number(workload, &port.target)?))
    });
    let sliced = index.slices(key).flat_map(|slice| {
        let number = slice.ports.iter().find(|known| known.name == port.name);
        let addresses = number.map(|known| (known.port, &slice.addresses));
        let addresses = addresses.into_iter();
        addresses.flat_map(|(number, all)| all.iter().map(move |one| (*one, number)))
    });
    let sliced = sliced.map(|(address, number)| declared(index.at(address)?.workload, number));
    let mut protocols = selected.chain(sliced);
    let first = protocols.next().flatten();
    match first {
        Some(protocol) if protocols.all(|other| other == first) => protocol,
        _ => Protocol::Auto,
    }
}

fn declared(workload: &Workload, number: u16) -> Option<Protocol> {
    let mut ports = workload.ports.iter();
    let port = ports.find(|port| port.port == number);
    port.map(|port| port.protocol)
}

/// The id that the certificates of an account's workloads hold.
pub(super) fn spiffe_id(index: &Index, account: &AccountKey) -> String {
    let trust_domain = &index.mesh().trust_domain;
    let id = SpiffeId::of_service_account(trust_domain, &account.namespace, &account.name);
    id.expect("names of resources may stand in ids")
        .as_str()
        .to_owned()
}
