//! Workload: a process of the mesh with its sidecar; WorkloadStatus: where it lives now.
//! Called by `kinds`. Must never accept what would take a workload past its sidecar.

use std::net::IpAddr;

use model::Protocol;
use yaml::{Fault, Fields, Node, quote};

use super::AccountKey;
use super::endpoint_slice::check_reachable;
use super::metadata::{self, Labels, Metadata};

/// A process of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// What Services select it by.
    pub labels: Labels,
    /// What its certificate says.
    pub account: AccountKey,
    /// What it listens on.
    pub ports: Vec<WorkloadPort>,
    /// Who may call it; `None` leaves it to the mesh.
    pub mode: Option<Mode>,
    /// What `leno up` starts, with its arguments; empty starts nothing.
    pub command: Vec<String>,
    /// Whom `leno up` starts it as, by name or number; `None` chooses one.
    pub user: Option<String>,
}

/// A port that a Workload listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadPort {
    /// Unique in the Workload.
    pub name: Option<String>,
    /// Unique in the Workload.
    pub port: u16,
    /// What is spoken there.
    pub protocol: Protocol,
}

/// Who may call a Workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Everybody, from outside of the mesh in plaintext too.
    #[default]
    Permissive,
    /// Callers that an access policy names, with mesh TLS.
    Strict,
}

/// Where a Workload lives now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadStatus {
    /// None while it has not started.
    pub addresses: Vec<IpAddr>,
}

const KEYS: &[&str] = &["serviceAccount", "ports", "mode", "command", "user"];

/// The account of what does not name one.
const ACCOUNT: &str = "default";

/// The sidecar's own ports, in the workload's own network namespace: outbound, inbound, admin,
/// metrics, DNS and probes.
const SIDECAR_PORTS: &[u16] = &[
    15000, 15001, 15003, 15010, 15053, 15901, 15902, 15903, 15904,
];

/// Users that bypass the sidecar, or could.
const USERS_REFUSED: &[&str] = &["0", "root", "1500"];

pub(super) fn read(spec: &Node, metadata: &Metadata) -> Result<Workload, Fault> {
    let fields = Fields::open(spec, "a Workload's spec", KEYS)?;
    let account = fields.map("serviceAccount", metadata::subdomain)?;
    let account = account.unwrap_or_else(|| ACCOUNT.to_owned());
    Ok(Workload {
        labels: metadata.labels.clone(),
        account: AccountKey::new(&*metadata.namespace, account),
        ports: fields.map("ports", ports)?.unwrap_or_default(),
        mode: fields.map("mode", mode)?,
        command: fields.map("command", command)?.unwrap_or_default(),
        user: fields.map("user", user)?,
    })
}

pub(super) fn read_status(node: &Node) -> Result<WorkloadStatus, Fault> {
    let fields = Fields::open(node, "a WorkloadStatus's status", &["addresses"])?;
    let mut addresses = Vec::new();
    for node in fields.required("addresses")?.list()? {
        let address = node.ip()?;
        check_reachable(node, address)?;
        if addresses.contains(&address) {
            return Err(node.fault(format!("{address} is listed twice"), "remove one of them"));
        }
        addresses.push(address);
    }
    Ok(WorkloadStatus { addresses })
}

pub(super) fn mode(node: &Node) -> Result<Mode, Fault> {
    node.choice(&[("permissive", Mode::Permissive), ("strict", Mode::Strict)])
}

fn ports(node: &Node) -> Result<Vec<WorkloadPort>, Fault> {
    let mut ports: Vec<WorkloadPort> = Vec::new();
    for node in node.list()? {
        let port = port(node)?;
        let same = |other: &WorkloadPort| {
            other.port == port.port || (port.name.is_some() && other.name == port.name)
        };
        if ports.iter().any(same) {
            let message = format!("the port {} or its name is taken", port.port);
            return Err(node.fault(message, "an earlier entry has it; choose another"));
        }
        ports.push(port);
    }
    Ok(ports)
}

fn port(node: &Node) -> Result<WorkloadPort, Fault> {
    const KEYS: &[&str] = &["name", "port", "protocol"];
    let words = [
        ("auto", Protocol::Auto),
        ("http", Protocol::Http1),
        ("http2", Protocol::Http2),
        ("grpc", Protocol::Http2),
        ("tcp", Protocol::Tcp),
    ];
    let fields = Fields::open(node, "a Workload's port", KEYS)?;
    let number = fields.required("port")?;
    let port = number.port()?;
    if SIDECAR_PORTS.contains(&port) {
        let message = format!("{port} is a port of the sidecar itself");
        return Err(number.fault(message, "let the workload listen on another"));
    }
    Ok(WorkloadPort {
        name: fields.map("name", metadata::label)?,
        port,
        protocol: fields
            .map("protocol", |node| node.choice(&words))?
            .unwrap_or_default(),
    })
}

fn command(node: &Node) -> Result<Vec<String>, Fault> {
    let word = |node: &Node| match &node.kind {
        yaml::Kind::Scalar { text, .. } => Ok(text.clone()),
        _ => Err(node.fault(
            "a command is a list of words",
            "write [PROGRAM, ARGUMENT, …]",
        )),
    };
    let words: Vec<String> = node.list()?.iter().map(word).collect::<Result<_, _>>()?;
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err(node.fault(
            "a command without a program",
            "write [PROGRAM, ARGUMENT, …]",
        )),
    }
}

fn user(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if !word.bytes().all(plain) {
        let hint = "write a user's name or number";
        return Err(node.fault(format!("{} is not a user", quote(word)), hint));
    }
    if USERS_REFUSED.contains(&word) {
        let message = format!("the user {} could go past the sidecar", quote(word));
        return Err(node.fault(message, "choose one of its own, or remove the key"));
    }
    Ok(word.to_owned())
}
