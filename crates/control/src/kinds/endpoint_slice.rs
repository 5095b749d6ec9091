//! EndpointSlice: endpoints of a Service that no selector finds.
//! Called by `kinds`. Must never take an endpoint that is not ready.

use std::net::IpAddr;

use yaml::{Fault, Fields, Node};

use super::metadata::{self, Metadata};
use super::{ServiceKey, ignored};

/// Endpoints of a Service that no selector finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// The Service they belong to.
    pub service: ServiceKey,
    /// The Service's ports, by name.
    pub ports: Vec<SlicePort>,
    /// Those that are ready.
    pub addresses: Vec<IpAddr>,
}

/// Where all endpoints of a slice listen for one port of the Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// The name of the Service's port.
    pub name: Option<String>,
    /// Where they listen.
    pub port: u16,
}

/// The label by which Kubernetes says it.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

pub(super) fn read(fields: &Fields<'_>, metadata: &Metadata) -> Result<EndpointSlice, Fault> {
    let Some(service) = metadata.labels.get(SERVICE_LABEL) else {
        let message = "an EndpointSlice must say which Service it is of";
        let hint = format!("add `labels: {{{SERVICE_LABEL}: NAME}}` to its metadata");
        return Err(Fault::new(metadata.place, message, hint));
    };
    let families = [("IPv4", true), ("IPv6", false)];
    let ipv4 = fields.required("addressType")?.choice(&families)?;
    let mut addresses = Vec::new();
    for node in fields.required("endpoints")?.list()? {
        addresses.extend(endpoint(node, ipv4)?);
    }
    let ports = fields.required("ports")?.list()?;
    Ok(EndpointSlice {
        service: ServiceKey::new(&*metadata.namespace, &**service),
        ports: ports.iter().map(port).collect::<Result<_, _>>()?,
        addresses,
    })
}

/// The first of its addresses, all of which lead to the same place.
fn endpoint(node: &Node, ipv4: bool) -> Result<Option<IpAddr>, Fault> {
    const KEYS: &[&str] = &["addresses", "conditions"];
    let fields = Fields::open_beside(node, "an endpoint", KEYS, ignored::ENDPOINT)?;
    let list = fields.required("addresses")?;
    let Some(first) = list.list()?.first() else {
        return Err(list.fault("an endpoint without addresses", "add one, or remove it"));
    };
    let address = first.ip()?;
    if address.is_ipv4() != ipv4 {
        let message = format!("{address} is not of this slice's `addressType`");
        return Err(first.fault(message, "put it into a slice of its own"));
    }
    check_reachable(first, address)?;
    let ready = fields.map("conditions", |node| {
        let fields = Fields::open_beside(node, "conditions", &["ready"], ignored::CONDITIONS)?;
        fields.map("ready", Node::switch)
    })?;
    Ok(ready.flatten().unwrap_or(true).then_some(address))
}

/// Addresses that mean something else to each who reads them.
pub(super) fn check_reachable(node: &Node, address: IpAddr) -> Result<(), Fault> {
    if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
        let hint = "write the address that others reach it at";
        return Err(node.fault(format!("{address} cannot be connected to by others"), hint));
    }
    Ok(())
}

fn port(node: &Node) -> Result<SlicePort, Fault> {
    const KEYS: &[&str] = &["name", "port", "protocol"];
    let fields = Fields::open_beside(node, "a slice's port", KEYS, ignored::SLICE_PORT)?;
    metadata::check_tcp(&fields)?;
    let name = |node: &Node| match &node.kind {
        // How Kubernetes writes the name of a Service's only port.
        yaml::Kind::Scalar { text, .. } if text.is_empty() => Ok(None),
        _ => metadata::label(node).map(Some),
    };
    Ok(SlicePort {
        name: fields.map("name", name)?.flatten(),
        port: fields.required("port")?.port()?,
    })
}
