//! Gateway: on which ports of the machine requests come in from outside of the mesh, for which
//! hosts, and with which certificates. Called by `kinds`. Must never take a listener that could not
//! be served beside another of the same port.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use model::{HostMatch, Scheme};
use yaml::{Fault, Fields, Node, quote};

use super::metadata::{self, Metadata};
use super::workload::SIDECAR_PORTS;
use super::{Key, Kind, Object, Resource, WorkloadKey, Written, host};

/// A way into the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Addresses of the machine; empty: all that it has.
    pub addresses: Vec<IpAddr>,
    /// Never empty. Invariant: those of one port have one scheme and different hosts.
    pub listeners: Vec<GatewayListener>,
}

/// A port for some hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayListener {
    /// Unique in the Gateway.
    pub name: String,
    /// Of the machine.
    pub port: u16,
    /// Only requests for these; `Any` takes all.
    pub host: HostMatch,
    /// Where TLS ends here: the Secret with the certificate. `None`: requests come in plaintext.
    pub certificate: Option<CertificateRef>,
    /// Whose routes may be attached.
    pub from: RoutesFrom,
    /// Where it was written.
    pub place: Written,
}

/// A Secret with a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRef {
    /// In the Gateway's own namespace.
    pub secret: Key,
    /// Where it was written.
    pub place: Written,
}

/// Whose routes may be attached to a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoutesFrom {
    /// Those of the Gateway's own namespace.
    #[default]
    Same,
    /// Everybody's.
    All,
}

impl GatewayListener {
    /// What clients write before the host.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        match self.certificate {
            Some(_) => Scheme::Https,
            None => Scheme::Http,
        }
    }
}

impl Gateway {
    /// By port, the addresses to listen at and the listeners.
    #[must_use]
    pub fn by_port(&self) -> BTreeMap<u16, (Vec<SocketAddr>, Vec<&GatewayListener>)> {
        let mut ports: BTreeMap<_, (Vec<_>, Vec<_>)> = BTreeMap::new();
        for listener in &self.listeners {
            let (addresses, listeners) = ports.entry(listener.port).or_default();
            *addresses = self.at_port(listener.port);
            listeners.push(listener);
        }
        ports
    }

    /// One socket of both families stands for all addresses.
    fn at_port(&self, port: u16) -> Vec<SocketAddr> {
        let every = [IpAddr::from(Ipv6Addr::UNSPECIFIED)];
        let addresses = match self.addresses.as_slice() {
            [] => &every,
            given => given,
        };
        let addresses = addresses.iter();
        addresses.map(|ip| SocketAddr::new(*ip, port)).collect()
    }
}

/// The sockets of the machine that the sidecar of `workload` needs, each once and in order: all
/// addresses of the gateway that it is. None if it is no gateway, or there is no such Gateway.
#[must_use]
pub fn gateway_addresses(resources: &[Arc<Resource>], workload: &WorkloadKey) -> Vec<SocketAddr> {
    let find = |kind, name: &str| {
        let is_it =
            |key: &Key| key.kind == kind && key.namespace == workload.namespace && key.name == name;
        let found = resources.iter().find(|resource| is_it(&resource.key))?;
        Some(&found.object)
    };
    let Some(Object::Workload(found)) = find(Kind::Workload, &workload.name) else {
        return Vec::new();
    };
    let name = found.gateway.as_deref();
    let Some(Object::Gateway(gateway)) = name.and_then(|name| find(Kind::Gateway, name)) else {
        return Vec::new();
    };
    let ports = gateway.by_port().into_values();
    ports.flat_map(|(addresses, _)| addresses).collect()
}

/// Who carries a Gateway out.
const CLASS: &str = "leno";

pub(super) fn read(spec: &Node, metadata: &Metadata) -> Result<Gateway, Fault> {
    const KEYS: &[&str] = &["gatewayClassName", "addresses", "listeners"];
    let fields = Fields::open(spec, "a Gateway's spec", KEYS)?;
    let class = fields.required("gatewayClassName")?;
    if class.text()? != CLASS {
        let message = format!("{} is not ours to carry out", class.describe());
        return Err(class.fault(message, format!("write `gatewayClassName: {CLASS}`")));
    }
    Ok(Gateway {
        addresses: fields.map("addresses", addresses)?.unwrap_or_default(),
        listeners: listeners(fields.required("listeners")?, metadata)?,
    })
}

fn addresses(node: &Node) -> Result<Vec<IpAddr>, Fault> {
    let mut addresses = Vec::new();
    for node in node.list()? {
        let fields = Fields::open(node, "an address", &["type", "value"])?;
        let kind = fields.map("type", |node| node.choice(&[("IPAddress", ())]))?;
        debug_assert!(kind.is_none_or(|()| true), "there is one type");
        let value = fields.required("value")?;
        let address = value.ip()?;
        let hint =
            "write an address of this machine, each once; remove `addresses` for all of them";
        if address.is_multicast() || address.is_unspecified() || addresses.contains(&address) {
            return Err(value.fault(format!("{address} cannot be listened at"), hint));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

fn listeners(node: &Node, metadata: &Metadata) -> Result<Vec<GatewayListener>, Fault> {
    let mut listeners: Vec<GatewayListener> = Vec::new();
    for node in node.list()? {
        let listener = listener(node, metadata)?;
        check_beside(node, &listener, &listeners)?;
        listeners.push(listener);
    }
    if listeners.is_empty() {
        let hint = "add one: `- {name: http, port: 80, protocol: HTTP}`";
        return Err(node.fault("a Gateway without listeners lets nobody in", hint));
    }
    Ok(listeners)
}

/// Listeners of one port are told apart by the host that is asked for.
fn check_beside(
    node: &Node,
    listener: &GatewayListener,
    earlier: &[GatewayListener],
) -> Result<(), Fault> {
    if earlier.iter().any(|other| other.name == listener.name) {
        let message = format!("the name {} is taken", quote(&listener.name));
        return Err(node.fault(message, "an earlier listener has it; choose another"));
    }
    let port = listener.port;
    for other in earlier.iter().filter(|other| other.port == port) {
        let at = other.place.0.line;
        if other.scheme() != listener.scheme() {
            let message = format!("the port {port} has two protocols");
            let hint = format!("line {at} has it with another; choose another port");
            return Err(node.fault(message, hint));
        }
        if other.host == listener.host {
            let message = format!("the port {port} has this hostname already");
            let hint = format!("line {at} has it; choose another port or hostname");
            return Err(node.fault(message, hint));
        }
    }
    Ok(())
}

fn listener(node: &Node, metadata: &Metadata) -> Result<GatewayListener, Fault> {
    const KEYS: &[&str] = &[
        "name",
        "port",
        "protocol",
        "hostname",
        "tls",
        "allowedRoutes",
    ];
    let fields = Fields::open(node, "a Gateway's listener", KEYS)?;
    let protocol = fields.required("protocol")?;
    let scheme = match protocol.text()? {
        "HTTP" => Scheme::Http,
        "HTTPS" => Scheme::Https,
        word => {
            let hint = "write HTTP or HTTPS; what is not HTTP does not come in through a gateway";
            return Err(protocol.fault(format!("{} is not let in", quote(word)), hint));
        }
    };
    let tls = fields.optional("tls");
    let certificate = match (scheme, tls) {
        (Scheme::Http, None) => None,
        (Scheme::Http, Some(node)) => {
            let hint = "write `protocol: HTTPS`, or remove `tls`";
            return Err(node.fault("`tls` on a listener for HTTP", hint));
        }
        (Scheme::Https, None) => {
            let hint = "add `tls: {certificateRefs: [{name: …}]}`";
            return Err(node.fault("a listener for HTTPS needs a certificate", hint));
        }
        (Scheme::Https, Some(node)) => Some(certificate(node, metadata)?),
    };
    Ok(GatewayListener {
        name: metadata::subdomain(fields.required("name")?)?,
        port: port(fields.required("port")?)?,
        host: fields
            .map("hostname", host::read)?
            .unwrap_or(HostMatch::Any),
        certificate,
        from: fields.map("allowedRoutes", allowed)?.unwrap_or_default(),
        place: Written(node.place),
    })
}

fn port(node: &Node) -> Result<u16, Fault> {
    let port = node.port()?;
    if SIDECAR_PORTS.contains(&port) {
        let message = format!("{port} is a port of the sidecar itself");
        return Err(node.fault(message, "choose another"));
    }
    Ok(port)
}

fn certificate(node: &Node, metadata: &Metadata) -> Result<CertificateRef, Fault> {
    let fields = Fields::open(node, "a listener's tls", &["mode", "certificateRefs"])?;
    fields.map("mode", |node| match node.text()? {
        "Terminate" => Ok(()),
        word => {
            let hint = "write `mode: Terminate`; requests are routed by what is inside of TLS";
            Err(node.fault(format!("{} is not supported", quote(word)), hint))
        }
    })?;
    let refs = fields.required("certificateRefs")?;
    let [node] = refs.list()? else {
        let hint = "name one Secret; other hosts have listeners of their own";
        return Err(refs.fault("a listener shows one certificate", hint));
    };
    const KEYS: &[&str] = &["group", "kind", "name", "namespace"];
    let fields = Fields::open(node, "a certificateRef", KEYS)?;
    fields.map("group", core_group)?;
    fields.map("kind", |node| node.choice(&[("Secret", ())]))?;
    if let Some(node) = fields.optional("namespace")
        && node.text()? != metadata.namespace
    {
        let hint = "put the Secret into the Gateway's namespace; ReferenceGrant is not known here";
        return Err(node.fault("a Secret in another namespace", hint));
    }
    Ok(CertificateRef {
        secret: Key {
            kind: Kind::Secret,
            namespace: metadata.namespace.clone(),
            name: metadata::subdomain(fields.required("name")?)?,
        },
        place: Written(node.place),
    })
}

/// The group that Secrets and Services are in has no name.
pub(super) fn core_group(node: &Node) -> Result<(), Fault> {
    match &node.kind {
        yaml::Kind::Scalar { text, .. } if text.is_empty() || text == "core" => Ok(()),
        _ => {
            let message = format!("the group {} has no such kind", node.describe());
            Err(node.fault(message, "write `group: \"\"`, or remove it"))
        }
    }
}

fn allowed(node: &Node) -> Result<RoutesFrom, Fault> {
    let fields = Fields::open(node, "allowedRoutes", &["namespaces", "kinds"])?;
    if let Some(kinds) = fields.optional("kinds") {
        for node in kinds.list()? {
            let fields = Fields::open(node, "a kind of routes", &["group", "kind"])?;
            let kind = fields.required("kind")?;
            kind.choice(&[("HTTPRoute", ())])?;
        }
    }
    let from = fields.map("namespaces", |node| {
        let fields = Fields::open(node, "namespaces of routes", &["from"])?;
        let words = [("Same", RoutesFrom::Same), ("All", RoutesFrom::All)];
        fields.map("from", |node| node.choice(&words))
    })?;
    Ok(from.flatten().unwrap_or_default())
}

#[cfg(test)]
mod tests;
