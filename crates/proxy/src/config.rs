//! The configuration file: YAML text → `model::Config`, or one fault with its place and a hint.
//! Called at start and on every reload. Must never open the files it names, nor accept a key that
//! it does not know. The schema is documented in `docs/configuration.md`.

mod clusters;
mod control;
mod dns;
mod envoy;
mod listeners;
mod names;
mod routes;
mod sections;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Cluster, Config, Listener, Trust, Workload};
use yaml::{Fields, Node};

pub use yaml::Fault;

/// Larger files are refused before they are read into memory: the largest sensible one, with
/// thousands of endpoints, is below 1 MiB.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// What a process is called that does nothing but answer for names.
const RESOLVER: &str = "resolver";

const KEYS: &[&str] = &[
    "workload",
    "workers",
    "identity",
    "control",
    "envoy",
    "dns",
    "handover",
    "admin",
    "metrics",
    "accessLog",
    "opaquePorts",
    "limits",
    "listeners",
    "clusters",
];

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("cannot read {}: {source}; check the path given to --config", path.display())]
    Read {
        /// As given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file was read and says something that cannot be done.
    #[error(
        "{}:{}:{}: {}; {}",
        path.display(), fault.line, fault.column, fault.message, fault.hint
    )]
    Invalid {
        /// As given.
        path: PathBuf,
        /// Where and what.
        fault: Fault,
    },
}

/// Reads and checks the file at `path`; relative paths in it start from its folder.
///
/// # Errors
/// When it cannot be read, or at the first thing in it that is wrong.
pub fn load(path: &Path) -> Result<Config, Error> {
    let text = read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    let origin = path.parent().unwrap_or_else(|| Path::new(""));
    parse(&text, origin).map_err(|fault| Error::Invalid {
        path: path.to_owned(),
        fault,
    })
}

/// Checks `text`; relative paths in it start from `origin`.
///
/// # Errors
/// The first thing that is wrong, with its line and column (both from 1).
pub fn parse(text: &str, origin: &Path) -> Result<Config, Fault> {
    build(&Node::read(text)?, origin)
}

fn read(path: &Path) -> std::io::Result<String> {
    let size = std::fs::metadata(path)?.len();
    if size > FILE_BYTES_MAX {
        return Err(std::io::Error::other(format!(
            "larger than {FILE_BYTES_MAX} bytes"
        )));
    }
    std::fs::read_to_string(path)
}

/// Clusters and identity come first, so that a listener's routes are checked against them where
/// they are read, and a fault points at the very word.
fn build(root: &Node, origin: &Path) -> Result<Config, Fault> {
    let fields = Fields::open(root, "the configuration", KEYS)?;
    let identity = fields.map("identity", |node| sections::identity(node, origin))?;
    let control = fields.map("control", |node| control::control(node, origin))?;
    let envoy = envoy::read(&fields, control.as_ref(), origin)?;
    let mut taken = names::Addresses::bound();
    let (listeners, clusters) = match &control {
        None if is_resolver(&fields) => (Vec::new(), Vec::new()),
        None => mesh(&fields, identity.is_some(), &mut taken)?,
        Some(plane) => told(&fields, &plane.tls)?,
    };
    Ok(Config {
        workload: workload(&fields)?,
        workers: fields
            .map("workers", |node| node.count(0..=sections::WORKERS_MAX))?
            .unwrap_or_else(|| usize::from(is_resolver(&fields))),
        admin: surface(&fields, "admin", sections::ADMIN, &mut taken)?,
        metrics: surface(&fields, "metrics", sections::METRICS, &mut taken)?,
        access_log: fields.map("accessLog", |node| sections::access_log(node, origin))?,
        opaque_ports: fields
            .map("opaquePorts", sections::ports)?
            .unwrap_or_else(|| Config::OPAQUE_PORTS.to_vec()),
        limits: fields.map("limits", sections::limits)?.unwrap_or_default(),
        identity,
        control,
        envoy,
        dns: fields.map("dns", |node| dns::read(node, &mut taken))?,
        handover: fields.map("handover", |node| sections::handover(node, origin))?,
        listeners: listeners.into_iter().map(Arc::new).collect(),
        clusters: clusters.into_iter().map(Arc::new).collect(),
    })
}

/// Whether names are all that it is about: such a process stands beside no workload.
fn is_resolver(fields: &Fields<'_>) -> bool {
    let has = |key| fields.optional(key).is_some();
    has("dns")
        && !["control", "identity", "listeners", "clusters"]
            .into_iter()
            .any(has)
}

fn workload(fields: &Fields<'_>) -> Result<Workload, Fault> {
    match fields.optional("workload") {
        None if is_resolver(fields) => Ok(Workload {
            name: RESOLVER.to_owned(),
            namespace: "default".to_owned(),
            service_account: "default".to_owned(),
        }),
        _ => sections::workload(fields.required("workload")?),
    }
}

/// On by default beside a workload. A resolver shares its addresses with all else on the machine.
fn surface(
    fields: &Fields<'_>,
    key: &str,
    default: SocketAddr,
    taken: &mut names::Addresses,
) -> Result<Option<SocketAddr>, Fault> {
    match fields.optional(key) {
        None if is_resolver(fields) => Ok(None),
        _ => sections::surface(fields, key, default, taken),
    }
}

/// What the file says itself.
fn mesh(
    fields: &Fields<'_>,
    identity: bool,
    taken: &mut names::Addresses,
) -> Result<(Vec<Listener>, Vec<Cluster>), Fault> {
    let clusters = clusters::read(fields.required("clusters")?, identity)?;
    let known = listeners::Known {
        clusters: &clusters,
        identity,
    };
    let listeners = listeners::read(fields.required("listeners")?, &known, taken)?;
    Ok((listeners, clusters))
}

/// Two sources of one truth would leave it open which one holds.
fn told(fields: &Fields<'_>, tls: &Trust) -> Result<(Vec<Listener>, Vec<Cluster>), Fault> {
    let twice: &[_] = match tls {
        Trust::Mesh(_) => &["identity", "listeners", "clusters"],
        // Others sign no certificates of the mesh.
        Trust::Files(_) | Trust::Plaintext => &["listeners", "clusters"],
    };
    let mut twice = twice.iter().map(|key| (key, fields.optional(key)));
    match twice.find_map(|(key, node)| Some((key, node?))) {
        None => Ok((Vec::new(), Vec::new())),
        Some((key, node)) => Err(node.fault(
            format!("`{key}` comes from the control plane"),
            format!("remove `{key}` or `control`"),
        )),
    }
}

#[cfg(test)]
mod tests;
