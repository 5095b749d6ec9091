//! Workload: a process of the mesh with its sidecar, as often as it is wanted; WorkloadStatus:
//! which instances of it there are. Called by `kinds`. Must never accept what would take a workload
//! past its sidecar.

/// How it is found out whether it is ready, or still alive.
mod probe;

/// What it may use.
mod quantity;

/// How it is run.
mod run;

/// What its sidecar is to do.
pub(super) mod sidecar;

/// Where it listens where nothing is intercepted.
mod explicit;

/// Which instances of it there are.
pub(super) mod status;

use std::time::Duration;

use model::Protocol;
use yaml::{Fault, Fields, Node, quote};

use super::metadata::{self, Labels, Metadata};
use super::{AccountKey, WorkloadKey};

pub use explicit::{Explicit, Inbound, Outbound};
pub use probe::{Check, Probe};
pub use quantity::Limits;
pub use run::{RestartPolicy, Strategy};
pub use sidecar::{DataPlane, Interception, Sidecar};
pub use status::{Instance, WorkloadStatus};

use run::command;

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
    /// How many instances of it there are to be, [`REPLICAS_MAX`] at most.
    pub replicas: u32,
    /// How its instances are replaced when it changes.
    pub strategy: Strategy,
    /// Variables of its environment; names are unique.
    pub env: Vec<(String, String)>,
    /// Where it is started, seen from the folder of the file; `None` is that folder.
    pub working_dir: Option<String>,
    /// When an instance may be called; `None`: when something listens on each of its ports.
    pub readiness: Option<Probe>,
    /// When an instance is to be started anew though it has not ended; `None`: never.
    pub liveness: Option<Probe>,
    /// What becomes of an instance that has ended.
    pub restart: RestartPolicy,
    /// What must be ready, or completed, before it is started. No name comes twice.
    pub depends_on: Vec<WorkloadKey>,
    /// For an instance that is asked to end, before it is killed.
    pub grace: Duration,
    /// What each of its applications may use.
    pub limits: Limits,
    /// What the sidecar of each is to do.
    pub sidecar: Sidecar,
    /// The Gateway of its namespace that it is. Invariant: then `command` and `ports` are empty.
    pub gateway: Option<String>,
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

/// One of a Workload's ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortRef {
    /// Which need not be declared.
    Number(u16),
    /// The declared one of this name.
    Name(String),
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

/// Most instances of one Workload: more than a machine for which this is made can hold.
pub const REPLICAS_MAX: u32 = 100;

const KEYS: &[&str] = &[
    "serviceAccount",
    "ports",
    "mode",
    "command",
    "user",
    "replicas",
    "strategy",
    "env",
    "workingDir",
    "readinessProbe",
    "livenessProbe",
    "restartPolicy",
    "dependsOn",
    "terminationGracePeriodSeconds",
    "resources",
    "sidecar",
    "gateway",
];

/// The account of what does not name one.
const ACCOUNT: &str = "default";

/// The sidecar's own ports, in the workload's own network namespace: outbound, inbound, admin,
/// metrics, DNS and probes.
pub(super) const SIDECAR_PORTS: &[u16] = &[
    15000, 15001, 15003, 15010, 15053, 15901, 15902, 15903, 15904,
];

/// Longest name of a Workload: with `-` and an ordinal it still is a label of 63 bytes.
const NAME_BYTES_MAX: usize = 59;

impl Default for Workload {
    /// What `spec: {}` says in the namespace `default`.
    fn default() -> Self {
        Self {
            labels: Labels::new(),
            account: AccountKey::new(metadata::NAMESPACE, ACCOUNT),
            ports: Vec::new(),
            mode: None,
            command: Vec::new(),
            user: None,
            replicas: 1,
            strategy: Strategy::default(),
            env: Vec::new(),
            working_dir: None,
            readiness: None,
            liveness: None,
            restart: RestartPolicy::default(),
            depends_on: Vec::new(),
            grace: run::GRACE,
            limits: Limits::default(),
            sidecar: Sidecar::default(),
            gateway: None,
        }
    }
}

impl Workload {
    /// The number of one of its ports; `None` for a name that none of them has.
    #[must_use]
    pub fn number(&self, port: &PortRef) -> Option<u16> {
        match port {
            PortRef::Number(number) => Some(*number),
            PortRef::Name(name) => {
                let mut ports = self.ports.iter();
                let port = ports.find(|port| port.name.as_ref() == Some(name));
                port.map(|port| port.port)
            }
        }
    }
}

pub(super) fn read(spec: &Node, metadata: &Metadata) -> Result<Workload, Fault> {
    check_name(metadata)?;
    let fields = Fields::open(spec, "a Workload's spec", KEYS)?;
    let default = Workload::default();
    let account = fields.map("serviceAccount", metadata::subdomain)?;
    let account = account.unwrap_or_else(|| ACCOUNT.to_owned());
    let ports = fields.map("ports", ports)?.unwrap_or_default();
    let probe = |key| fields.map(key, |node| probe::read(node, &ports));
    let (readiness, liveness) = (probe("readinessProbe")?, probe("livenessProbe")?);
    check_liveness(&fields, liveness.as_ref())?;
    let workload = Workload {
        labels: metadata.labels.clone(),
        account: AccountKey::new(&*metadata.namespace, account),
        readiness,
        liveness,
        ports,
        mode: fields.map("mode", mode)?,
        command: fields.map("command", command)?.unwrap_or_default(),
        user: fields.map("user", run::user)?,
        replicas: fields
            .map("replicas", run::replicas)?
            .unwrap_or(default.replicas),
        strategy: fields.map("strategy", run::strategy)?.unwrap_or_default(),
        env: fields.map("env", run::env)?.unwrap_or_default(),
        working_dir: fields.map("workingDir", run::working_dir)?,
        restart: fields
            .map("restartPolicy", run::restart)?
            .unwrap_or_default(),
        depends_on: fields
            .map("dependsOn", |node| run::depends_on(node, metadata))?
            .unwrap_or_default(),
        grace: fields
            .map("terminationGracePeriodSeconds", run::grace)?
            .unwrap_or(default.grace),
        limits: fields.map("resources", quantity::read)?.unwrap_or_default(),
        sidecar: fields.map("sidecar", sidecar::read)?.unwrap_or_default(),
        gateway: fields.map("gateway", metadata::subdomain)?,
    };
    check_mode(&fields, &workload)?;
    check_gateway(&fields, &workload)?;
    Ok(workload)
}

fn check_name(metadata: &Metadata) -> Result<(), Fault> {
    if metadata.name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "{} is too long for a Workload's name",
        quote(&metadata.name)
    );
    let hint = format!("at most {NAME_BYTES_MAX} letters: its instances add an ordinal to it");
    Err(Fault::new(metadata.place, message, hint))
}

/// One success shows that it lives.
fn check_liveness(fields: &Fields<'_>, probe: Option<&Probe>) -> Result<(), Fault> {
    match (fields.optional("livenessProbe"), probe) {
        (Some(node), Some(probe)) if probe.successes != 1 => Err(node.fault(
            "`successThreshold` of a livenessProbe is 1",
            "remove it; a readinessProbe may have another",
        )),
        _ => Ok(()),
    }
}

/// Whoever is strict needs a sidecar that sees who calls.
fn check_mode(fields: &Fields<'_>, workload: &Workload) -> Result<(), Fault> {
    match fields.optional("mode") {
        Some(node) if workload.mode == Some(Mode::Strict) && !workload.sidecar.is_inbound() => {
            Err(node.fault(
                "strict, but nothing intercepts what is sent to it",
                "let the sidecar intercept `inbound` or `both`, or write `mode: permissive`",
            ))
        }
        _ => Ok(()),
    }
}

/// A gateway is a sidecar and nothing else, on ports of the machine.
fn check_gateway(fields: &Fields<'_>, workload: &Workload) -> Result<(), Fault> {
    let Some(node) = fields.optional("gateway") else {
        return Ok(());
    };
    let message = if !workload.command.is_empty() || !workload.ports.is_empty() {
        "a gateway has neither a command nor ports of its own"
    } else if !workload.sidecar.enabled {
        "a gateway is a sidecar, and this one has none"
    } else if workload.replicas > 1 {
        "a gateway has one instance: its ports are the machine's"
    } else {
        return Ok(());
    };
    let hint = "remove what does not go with `gateway`, or that key";
    Err(node.fault(message, hint))
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

#[cfg(test)]
mod tests;
