//! The whole of what one sidecar is told. Read by the proxy's snapshot and its admin pages.
//! Must never refer to a thing by anything but its name: `Route::cluster` names a `Cluster`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::{Cluster, Limits, Listener};

/// Everything one sidecar needs to know.
///
/// Invariant: names of listeners and of clusters are unique, and each route's cluster exists.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// Whom the sidecar stands beside.
    pub workload: Workload,
    /// Worker threads; 0 means as many as the cgroup's CPU quota allows.
    pub workers: usize,
    /// Files of the certificate; without them there is no mutual TLS.
    pub identity: Option<IdentityFiles>,
    /// Who tells the sidecar the rest. Invariant: then `listeners` and `clusters` are what it said
    /// last, and `identity` is `None` if it is the mesh's own.
    pub control: Option<ControlPlane>,
    /// A stock Envoy that serves in the sidecar's place. Invariant: then there is a `control`, no
    /// `handover` and no `access_log`, and `listeners` and `clusters` are empty.
    pub envoy: Option<Envoy>,
    /// How names are answered; `None` is off.
    pub dns: Option<Dns>,
    /// Unix socket at which a successor asks for the listening sockets; `None`: nobody may.
    pub handover: Option<PathBuf>,
    /// Where the admin pages are served; `None` is off.
    pub admin: Option<SocketAddr>,
    /// Where Prometheus scrapes; `None` is off.
    pub metrics: Option<SocketAddr>,
    /// Where requests are logged; `None` is off.
    pub access_log: Option<AccessLog>,
    /// Ports on which a server may speak first, or which never carry HTTP: listeners and endpoints
    /// there are not waited for.
    pub opaque_ports: Vec<u16>,
    /// Sizes and times a peer may not exceed.
    pub limits: Limits,
    /// Sockets that accept connections. Shared: there may be thousands, and a change is of a few.
    pub listeners: Vec<Arc<Listener>>,
    /// Groups of endpoints that requests are sent to; likewise.
    pub clusters: Vec<Arc<Cluster>>,
}

impl Config {
    /// Mail, databases and caches: the greeting comes from the server (SMTP, `MySQL`), or a client
    /// that waits for a pooled answer must not be read as silence (the others).
    pub const OPAQUE_PORTS: [u16; 8] = [25, 587, 3306, 4444, 5432, 6379, 9300, 11211];
}

/// An Envoy that is started, told who it is, and ended with the sidecar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Envoy {
    /// What is run; a script must turn into it (`exec`).
    pub program: PathBuf,
    /// Directory of its sockets (0700), made at the start and removed at the end.
    pub folder: PathBuf,
    /// How it is told its resources.
    pub xds: XdsVariant,
    /// Whether its requests are logged.
    pub access_log: bool,
    /// Whether it keeps all of its statistics, or those that `leno` shows.
    pub stats: bool,
}

/// A variant of xDS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum XdsVariant {
    /// What has changed.
    #[default]
    Delta,
    /// Of each kind, everything.
    StateOfTheWorld,
}

/// Where names are answered, and who is asked about those that are not of the mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dns {
    /// Addresses for UDP and TCP; never empty. Unspecified ones stand for loopback.
    pub listen: Vec<SocketAddr>,
    /// Who is asked.
    pub forward: Forward,
}

/// Who is asked about names that are not of the mesh.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Forward {
    /// They are refused.
    #[default]
    Nobody,
    /// These, the first that answers; never empty.
    Servers(Vec<SocketAddr>),
    /// The name servers that the machine itself asks (`/etc/resolv.conf`).
    System,
}

/// Names of the workload, as they appear in labels of metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Name of the deployment or process.
    pub name: String,
    /// Namespace it lives in.
    pub namespace: String,
    /// Service account it runs under.
    pub service_account: String,
}

/// Where the certificate, its key and the trust bundle are read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityFiles {
    /// PEM chain, leaf first.
    pub certificate: PathBuf,
    /// PKCS#8 PEM of the leaf's private key.
    pub key: PathBuf,
    /// PEM of the authorities that peers' certificates must come from.
    pub trust_bundle: PathBuf,
    /// The part of a SPIFFE id between `spiffe://` and the first slash.
    pub trust_domain: String,
}

/// How a sidecar reaches its control plane, and what they say to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlane {
    /// Any of them will do; never empty.
    pub addresses: Vec<ControlAddress>,
    /// Which of the two variants of xDS is spoken.
    pub xds: XdsVariant,
    /// What the sidecar calls itself there; `None`: by its workload's name and service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<XdsNode>,
    /// How both prove who they are.
    pub tls: Trust,
    /// Directory in which the last configuration and certificates are kept, so that the sidecar can
    /// start without the control plane; `None` keeps nothing.
    pub state: Option<PathBuf>,
}

/// Where a control plane listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ControlAddress {
    /// TCP.
    Ip(SocketAddr),
    /// A unix socket of this path.
    Unix(PathBuf),
}

impl ControlAddress {
    /// Whether what is said there stays on this machine.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        match self {
            Self::Ip(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for ControlAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// `envoy.config.core.v3.Node`, as far as control planes go by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct XdsNode {
    /// Unique among those who ask.
    pub id: String,
    /// The group it belongs to; may be empty.
    pub cluster: String,
}

/// How a sidecar and its control plane prove to each other who they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Trust {
    /// By certificates of the mesh: it is the mesh's own control plane, which signs ours.
    Mesh(Membership),
    /// By certificates of somebody else's authority; ours of the mesh is another matter.
    Files(ForeignTls),
    /// Not at all. Invariant: all addresses are local.
    Plaintext,
}

/// How a sidecar becomes a member of the mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Membership {
    /// The SPIFFE id that the control plane must prove.
    pub identity: String,
    /// PEM of the authorities that it is trusted by at first.
    pub trust_bundle: PathBuf,
    /// The part of a SPIFFE id between `spiffe://` and the first slash.
    pub trust_domain: String,
    /// Where the one-time token is read from that proves the workload at first.
    pub token: Option<TokenSource>,
    /// That there is a newer authority is acted on within this time, by chance: all sidecars learn
    /// of it at once.
    #[serde(serialize_with = "crate::limits::duration")]
    pub renewal_spread: Duration,
}

impl Membership {
    /// 60 s: ten thousand sidecars ask for fewer than two hundred certificates in a second.
    pub const RENEWAL_SPREAD: Duration = Duration::from_secs(60);
}

/// TLS as the web has it, with a control plane that is not of the mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignTls {
    /// The DNS name or the address that its certificate must have.
    pub name: String,
    /// PEM of the authorities that its certificate must come from.
    pub trust_bundle: PathBuf,
    /// What the sidecar shows, PEM: the chain, leaf first, and the leaf's key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// Where a bootstrap token is read from. It is read once, and to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TokenSource {
    /// Standard input: a descriptor that is inherited, so that no file and no environment has it.
    StandardInput,
    /// A file of this path.
    At(PathBuf),
}

/// The authorities whose certificates are accepted, and the certificates that are not any more.
/// Nothing in it is secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TrustBundle {
    /// Unique among the bundles.
    pub name: String,
    /// PEM of one or more authorities.
    pub authorities: String,
    /// PEM of lists of revoked certificates; may be empty.
    pub revocations: String,
}

/// Where requests are logged, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLog {
    /// File or device that lines are appended to.
    pub path: PathBuf,
    /// Shape of a line.
    pub format: LogFormat,
}

/// Shape of an access log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LogFormat {
    /// Columns for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
