//! Who answers for a Service, and where: the Workloads that it selects, and the endpoints of its
//! slices, which may be Workloads too. Called for each of its ports, and for who may call it.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use identity::SpiffeId;
use model::{Endpoint, Protocol, Transport};

use crate::index::Index;
use crate::kinds::{
    AccountKey, Service, ServiceKey, ServicePort, TargetPort, Workload, WorkloadKey,
};

/// Somebody who answers on one port of a Service.
pub(super) struct Target<'a> {
    /// Where; one of each family where it has several. Never empty.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: u16,
    /// `None`: it is not in the mesh.
    pub(super) workload: Option<(WorkloadKey, &'a Workload)>,
}

/// All who answer on `port`: Workloads by name, then others in the order of their slices.
pub(super) fn targets<'a>(
    index: &'a Index,
    key: &ServiceKey,
    service: &Service,
    port: &ServicePort,
) -> Vec<Target<'a>> {
    let mut targets = Vec::new();
    let mut seen = BTreeSet::new();
    for workload in index.selected(&key.namespace, service) {
        let found = index.workload(&workload);
        let number = found.and_then(|found| number(found, &port.target));
        if let (Some(found), Some(number)) = (found, number) {
            let addresses = index.addresses(&workload).to_vec();
            let workload = Some((workload, found));
            targets.extend(unseen(&mut seen, addresses, number, workload));
        }
    }
    for slice in index.slices(key) {
        let number = slice.ports.iter().find(|known| known.name == port.name);
        let Some(number) = number.map(|known| known.port) else {
            continue;
        };
        for address in &slice.addresses {
            let workload = index.at(*address);
            let addresses = match &workload {
                Some((key, _)) => index.addresses(key).to_vec(),
                None => vec![*address],
            };
            targets.extend(unseen(&mut seen, addresses, number, workload));
        }
    }
    targets
}

/// Nobody is listed twice: a Workload may be selected and have slices of both families.
fn unseen<'a>(
    seen: &mut BTreeSet<SocketAddr>,
    mut addresses: Vec<IpAddr>,
    port: u16,
    workload: Option<(WorkloadKey, &'a Workload)>,
) -> Option<Target<'a>> {
    addresses.retain(|address| seen.insert(SocketAddr::new(*address, port)));
    (!addresses.is_empty()).then_some(Target {
        addresses,
        port,
        workload,
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
        let account = self
            .workload
            .as_ref()
            .map(|(_, workload)| &workload.account);
        let endpoint = |address: &IpAddr| Endpoint {
            address: SocketAddr::new(*address, self.port),
            transport: match account {
                Some(_) => Transport::Leno,
                None => Transport::Plaintext,
            },
            identities: account
                .map(|account| spiffe_id(index, account))
                .into_iter()
                .collect(),
        };
        self.addresses.iter().take(count).map(endpoint).collect()
    }
}

/// What is spoken on a port of a Service: what it says, or else what all of its Workloads say.
pub(super) fn protocol(port: &ServicePort, targets: &[Target<'_>]) -> Protocol {
    if let Some(protocol) = port.protocol {
        return protocol;
    }
    let of = |target: &Target<'_>| {
        let (_, workload) = target.workload.as_ref()?;
        let mut ports = workload.ports.iter();
        let port = ports.find(|port| port.port == target.port);
        port.map(|port| port.protocol)
    };
    let mut protocols = targets.iter().map(of);
    let first = protocols.next().flatten();
    match first {
        Some(protocol) if protocols.all(|other| other == first) => protocol,
        _ => Protocol::Auto,
    }
}

/// The id that the certificates of an account's workloads hold.
pub(super) fn spiffe_id(index: &Index, account: &AccountKey) -> String {
    let trust_domain = &index.mesh().trust_domain;
    let id = SpiffeId::of_service_account(trust_domain, &account.namespace, &account.name);
    id.expect("names of resources may stand in ids")
        .as_str()
        .to_owned()
}
