//! Service: a group of workloads under one name and one stable address.
//! Called by `kinds`. Must never accept what would send traffic another way in a cluster.

use std::net::IpAddr;

use model::Protocol;
use yaml::{Fault, Fields, Node, quote};

use super::metadata::{self, Labels};
use super::{Written, ignored};

/// A group of workloads under one name and one stable address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Where its clients find it.
    pub cluster_ip: ClusterIp,
    /// Labels that its workloads have; empty selects none.
    pub selector: Labels,
    /// What it answers on; never empty.
    pub ports: Vec<ServicePort>,
}

/// Where the clients of a Service find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterIp {
    /// At an address that it is given, and keeps.
    Allocated,
    /// At the addresses of its endpoints.
    Headless,
    /// At these, one per family at most; other families are allocated.
    Given(Vec<IpAddr>),
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Unique in the Service; `None` only if it is the only one.
    pub name: Option<String>,
    /// Where clients connect to.
    pub port: u16,
    /// Where the workloads listen.
    pub target: TargetPort,
    /// What is spoken; `None` leaves it to the workloads' ports.
    pub protocol: Option<Protocol>,
    /// Where it was written.
    pub place: Written,
}

/// Where workloads listen for a port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPort {
    /// On this port.
    Number(u16),
    /// On the port that each workload calls so.
    Name(String),
}

const KEYS: &[&str] = &[
    "clusterIP",
    "clusterIPs",
    "externalIPs",
    "externalName",
    "internalTrafficPolicy",
    "ports",
    "selector",
    "sessionAffinity",
    "type",
];

/// What is written in `appProtocol`: Kubernetes' words, and what is written there for want of a
/// standard. Whatever is wrapped in TLS or is not HTTP is passed on unread.
const APP_PROTOCOLS: &[(&str, Protocol)] = &[
    ("auto", Protocol::Auto),
    ("http", Protocol::Http1),
    ("http1", Protocol::Http1),
    ("ws", Protocol::Http1),
    ("kubernetes.io/ws", Protocol::Http1),
    ("grpc", Protocol::Http2),
    ("h2c", Protocol::Http2),
    ("http2", Protocol::Http2),
    ("kubernetes.io/h2c", Protocol::Http2),
    ("https", Protocol::Tcp),
    ("kubernetes.io/wss", Protocol::Tcp),
    ("mongo", Protocol::Tcp),
    ("mysql", Protocol::Tcp),
    ("postgresql", Protocol::Tcp),
    ("redis", Protocol::Tcp),
    ("tcp", Protocol::Tcp),
    ("tls", Protocol::Tcp),
    ("wss", Protocol::Tcp),
];

pub(super) fn read(spec: &Node) -> Result<Service, Fault> {
    let fields = Fields::open_beside(spec, "a Service's spec", KEYS, ignored::SERVICE)?;
    check_type(&fields)?;
    check_same_way(&fields)?;
    Ok(Service {
        cluster_ip: cluster_ip(&fields)?,
        selector: fields
            .map("selector", metadata::labels)?
            .unwrap_or_default(),
        ports: ports(fields.required("ports")?)?,
    })
}

/// All types are reached alike from inside; names of things outside are another matter.
fn check_type(fields: &Fields<'_>) -> Result<(), Fault> {
    if let Some(node) = fields.optional("externalName") {
        let hint = "give the addresses in an EndpointSlice instead";
        return Err(node.fault("names of things outside the mesh are not looked up", hint));
    }
    let types = [("ClusterIP", ()), ("NodePort", ()), ("LoadBalancer", ())];
    fields.map("type", |node| node.choice(&types)).map(drop)
}

/// Keys that would make traffic go another way in a cluster than it does here.
fn check_same_way(fields: &Fields<'_>) -> Result<(), Fault> {
    let only = |key: &str, word: &str, why: &str| match fields.optional(key) {
        Some(node) if node.text()? != word => {
            let message = format!("`{key}: {}` is not supported", node.text()?);
            Err(node.fault(message, why))
        }
        _ => Ok(()),
    };
    let why = "remove it; requests are spread over all endpoints";
    only("sessionAffinity", "None", why)?;
    only("internalTrafficPolicy", "Cluster", why)?;
    match fields.optional("externalIPs") {
        Some(node) if !node.list()?.is_empty() => {
            let hint = "remove them; `clusterIP` gives it a fixed address";
            Err(node.fault("`externalIPs` are not supported", hint))
        }
        _ => Ok(()),
    }
}

fn cluster_ip(fields: &Fields<'_>) -> Result<ClusterIp, Fault> {
    let first = fields.map("clusterIP", one_cluster_ip)?;
    let Some(list) = fields.optional("clusterIPs") else {
        return Ok(first.unwrap_or(ClusterIp::Allocated));
    };
    let mut given: Vec<IpAddr> = Vec::new();
    for node in list.list()? {
        match one_cluster_ip(node)? {
            ClusterIp::Given(address)
                if given.iter().all(|a| a.is_ipv4() != address[0].is_ipv4()) =>
            {
                given.extend(address);
            }
            ClusterIp::Given(_) => {
                let hint = "keep one IPv4 and one IPv6 address";
                return Err(node.fault("a second address of one family", hint));
            }
            other => return Ok(other),
        }
    }
    match first {
        Some(ClusterIp::Given(first)) if given.first() != first.first() => {
            let hint = "make the first of them the `clusterIP`, or remove one of the two keys";
            Err(list.fault(
                "`clusterIPs` begins with another address than `clusterIP`",
                hint,
            ))
        }
        Some(ClusterIp::Headless) => Ok(ClusterIp::Headless),
        _ if given.is_empty() => Ok(ClusterIp::Allocated),
        _ => Ok(ClusterIp::Given(given)),
    }
}

fn one_cluster_ip(node: &Node) -> Result<ClusterIp, Fault> {
    if matches!(&node.kind, yaml::Kind::Scalar { text, .. } if text.is_empty()) {
        return Ok(ClusterIp::Allocated);
    }
    if node.text()? == "None" {
        return Ok(ClusterIp::Headless);
    }
    let address = node.ip()?;
    if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
        let hint = "choose one from `serviceCIDRs`, or remove the key to be given one";
        return Err(node.fault(format!("{address} cannot be a Service's address"), hint));
    }
    Ok(ClusterIp::Given(vec![address]))
}

fn ports(node: &Node) -> Result<Vec<ServicePort>, Fault> {
    let nodes = node.list()?;
    if nodes.is_empty() {
        let hint = "add one: `- {name: http, port: 80, targetPort: 8080}`";
        return Err(node.fault("a Service without ports answers nothing", hint));
    }
    let mut ports: Vec<ServicePort> = Vec::new();
    for node in nodes {
        let port = port(node, nodes.len() > 1)?;
        let same = |other: &&ServicePort| {
            other.port == port.port || (port.name.is_some() && other.name == port.name)
        };
        if let Some(first) = ports.iter().find(same) {
            let message = format!("the port {} or its name is taken", port.port);
            let hint = format!("line {} has it already; choose another", first.place.0.line);
            return Err(node.fault(message, hint));
        }
        ports.push(port);
    }
    Ok(ports)
}

fn port(node: &Node, needs_name: bool) -> Result<ServicePort, Fault> {
    const KEYS: &[&str] = &["name", "port", "targetPort", "protocol", "appProtocol"];
    let fields = Fields::open_beside(node, "a Service's port", KEYS, ignored::SERVICE_PORT)?;
    metadata::check_tcp(&fields)?;
    let name = match needs_name {
        true => Some(metadata::label(fields.required("name")?)?),
        false => fields.map("name", metadata::label)?,
    };
    let port = fields.required("port")?.port()?;
    Ok(ServicePort {
        name,
        port,
        target: fields
            .map("targetPort", target)?
            .unwrap_or(TargetPort::Number(port)),
        protocol: fields.map("appProtocol", |node| node.choice(APP_PROTOCOLS))?,
        place: Written(node.place),
    })
}

fn target(node: &Node) -> Result<TargetPort, Fault> {
    let word = node.text()?;
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return node.port().map(TargetPort::Number);
    }
    match metadata::label(node) {
        Ok(name) => Ok(TargetPort::Name(name)),
        Err(_) => {
            let message = format!("{} is neither a port nor its name", quote(word));
            Err(node.fault(
                message,
                "write the number, or the name of the Workloads' port",
            ))
        }
    }
}
