//! Where the sidecar of an instance listens where nothing is intercepted: its callers and its own
//! application are told of these addresses. Called by the WorkloadStatus's reader. Must never hold
//! an address that is not the instance's own.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use yaml::{Fault, Fields, Node, quote};

use crate::kinds::ServiceKey;
use crate::kinds::metadata;

/// The addresses at which a sidecar listens for one instance. Invariant: no address twice, no port
/// of the instance or of a Service twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explicit {
    /// Where the instance is called.
    pub inbound: Vec<Inbound>,
    /// Where it calls.
    pub outbound: Vec<Outbound>,
}

/// A port of the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// Where its application listens, at the same IP address.
    pub port: u16,
    /// Where its sidecar does.
    pub address: SocketAddr,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    /// Which Service; there may be none of this name.
    pub service: ServiceKey,
    /// The Service's port.
    pub port: u16,
    /// Where the instance's sidecar takes connections for it.
    pub address: SocketAddr,
}

impl Explicit {
    /// Where a port of the instance is called.
    #[must_use]
    pub fn inbound(&self, port: u16) -> Option<SocketAddr> {
        let mut all = self.inbound.iter();
        all.find(|one| one.port == port).map(|one| one.address)
    }

    /// Every address.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let inbound = self.inbound.iter().map(|one| one.address);
        inbound.chain(self.outbound.iter().map(|one| one.address))
    }
}

/// Whether an instance may have `address` for itself: loopback is reached by all that are meant.
pub(super) fn check_own(node: &Node, address: IpAddr) -> Result<(), Fault> {
    if address.is_unspecified() || address.is_multicast() {
        let hint = "write the address that is the instance's alone";
        return Err(node.fault(format!("{address} cannot be an instance's own"), hint));
    }
    Ok(())
}

/// That of an instance with `own` addresses in `namespace`.
pub(super) fn read(node: &Node, own: &[IpAddr], namespace: &str) -> Result<Explicit, Fault> {
    let fields = Fields::open(node, "explicit", &["inbound", "outbound"])?;
    let mut seen = Seen {
        own,
        addresses: BTreeSet::new(),
    };
    let inbound = fields.map("inbound", |node| inbound(node, &mut seen))?;
    let outbound = fields.map("outbound", |node| outbound(node, namespace, &mut seen))?;
    Ok(Explicit {
        inbound: inbound.unwrap_or_default(),
        outbound: outbound.unwrap_or_default(),
    })
}

/// Addresses that were read.
struct Seen<'a> {
    own: &'a [IpAddr],
    addresses: BTreeSet<SocketAddr>,
}

impl Seen<'_> {
    fn address(&mut self, node: &Node) -> Result<SocketAddr, Fault> {
        let address = node.address()?;
        if !self.own.contains(&address.ip()) {
            let message = format!("{} is not an address of this instance", address.ip());
            return Err(node.fault(message, "take one of its `addresses`"));
        }
        if address.port() == 0 {
            let hint = "write the port that the socket has";
            return Err(node.fault(format!("nobody listens at {address}"), hint));
        }
        match self.addresses.insert(address) {
            true => Ok(address),
            false => Err(twice(node, &address)),
        }
    }
}

fn twice(node: &Node, what: &dyn std::fmt::Display) -> Fault {
    node.fault(format!("{what} is listed twice"), "remove one of them")
}

fn inbound(list: &Node, seen: &mut Seen<'_>) -> Result<Vec<Inbound>, Fault> {
    let mut all: Vec<Inbound> = Vec::new();
    for node in list.list()? {
        let fields = Fields::open(node, "an inbound address", &["port", "address"])?;
        let port = fields.required("port")?.port()?;
        if all.iter().any(|other| other.port == port) {
            return Err(twice(node, &format_args!("port {port}")));
        }
        let address = seen.address(fields.required("address")?)?;
        all.push(Inbound { port, address });
    }
    Ok(all)
}

fn outbound(list: &Node, namespace: &str, seen: &mut Seen<'_>) -> Result<Vec<Outbound>, Fault> {
    const KEYS: &[&str] = &["service", "port", "address"];
    let mut all: Vec<Outbound> = Vec::new();
    for node in list.list()? {
        let fields = Fields::open(node, "an outbound address", KEYS)?;
        let service = service(fields.required("service")?, namespace)?;
        let port = fields.required("port")?.port()?;
        let is_it = |other: &Outbound| other.service == service && other.port == port;
        if all.iter().any(is_it) {
            return Err(twice(node, &format_args!("port {port} of {service}")));
        }
        let address = seen.address(fields.required("address")?)?;
        all.push(Outbound {
            service,
            port,
            address,
        });
    }
    Ok(all)
}

fn service(node: &Node, namespace: &str) -> Result<ServiceKey, Fault> {
    let word = node.text()?;
    let (name, namespace) = word.split_once('.').unwrap_or((word, namespace));
    if metadata::is_label(name) && metadata::is_label(namespace) {
        return Ok(ServiceKey::new(namespace, name));
    }
    let hint = "write NAME, or NAME.NAMESPACE for one of another namespace";
    Err(node.fault(format!("{} is not a Service's name", quote(word)), hint))
}
