//! The small sections: workload, identity, admin and metrics addresses, access log, ports, limits.
//! Called by `config::build`. Must never open what it names.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use model::{AccessLog, IdentityFiles, Limits, LogFormat, Workload};
use yaml::{Fault, Fields, Node, Zero, quote};

use super::names::{self, Addresses};

/// More threads than any machine this is meant for has cores; a slip of the finger otherwise.
pub(super) const WORKERS_MAX: usize = 256;

/// At least a window's worth, or nothing would move; at most what no sidecar is given.
const BUFFER_BYTES: RangeInclusive<usize> = 64 * 1024..=1 << 31;

/// What the kernel takes as the path of a unix socket, less the end of the one that is opened
/// beside it.
const HANDOVER_BYTES_MAX: usize = 107 - ".new".len();

/// Loopback: the admin pages are for those who are on the machine.
pub(super) const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 15000);
/// Every address: Prometheus comes from outside.
pub(super) const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 15010);

pub(super) const WORKLOAD_KEYS: &[&str] = &["name", "namespace", "serviceAccount"];
pub(super) const IDENTITY_KEYS: &[&str] = &["certificate", "key", "trustBundle", "trustDomain"];
pub(super) const ACCESS_LOG_KEYS: &[&str] = &["path", "format"];
pub(super) const LIMITS_KEYS: &[&str] = &[
    "headBytes",
    "headers",
    "connections",
    "headerTimeout",
    "idleTimeout",
    "connectTimeout",
    "requestTimeout",
    "streamIdleTimeout",
    "drainTimeout",
    "handoverTimeout",
    "poolIdleTimeout",
    "poolConnections",
    "streams",
    "streamsPerConnection",
    "connectionRate",
    "bufferBytes",
    "keepaliveInterval",
    "keepaliveTimeout",
    "tcpIdleTimeout",
    "halfCloseTimeout",
];

pub(super) fn workload(node: &Node) -> Result<Workload, Fault> {
    let fields = Fields::open(node, "the workload", WORKLOAD_KEYS)?;
    let or_default = |name: Option<String>| name.unwrap_or_else(|| "default".to_owned());
    Ok(Workload {
        name: names::name(fields.required("name")?)?,
        namespace: or_default(fields.map("namespace", names::name)?),
        service_account: or_default(fields.map("serviceAccount", names::name)?),
    })
}

pub(super) fn identity(node: &Node, origin: &Path) -> Result<IdentityFiles, Fault> {
    let fields = Fields::open(node, "the identity", IDENTITY_KEYS)?;
    let file = |key| fields.required(key).and_then(|node| path(node, origin));
    Ok(IdentityFiles {
        certificate: file("certificate")?,
        key: file("key")?,
        trust_bundle: file("trustBundle")?,
        trust_domain: fields
            .map("trustDomain", trust_domain)?
            .unwrap_or_else(|| "cluster.local".to_owned()),
    })
}

pub(super) fn trust_domain(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    if identity::spiffe::check_trust_domain(word).is_ok() {
        return Ok(word.to_owned());
    }
    let hint = "lower-case letters, digits and - _ . only, without spiffe://";
    Err(node.fault(format!("{} is not a trust domain", quote(word)), hint))
}

pub(super) fn path(node: &Node, origin: &Path) -> Result<PathBuf, Fault> {
    Ok(origin.join(node.text()?))
}

/// Where a successor asks for the sockets.
pub(super) fn handover(node: &Node, origin: &Path) -> Result<PathBuf, Fault> {
    let path = path(node, origin)?;
    let length = path.as_os_str().len();
    if length <= HANDOVER_BYTES_MAX {
        return Ok(path);
    }
    let hint = format!("choose one of at most {HANDOVER_BYTES_MAX}");
    Err(node.fault(format!("the path has {length} bytes"), hint))
}

/// An address that is on by default.
pub(super) fn surface(
    fields: &Fields<'_>,
    key: &str,
    default: SocketAddr,
    taken: &mut Addresses,
) -> Result<Option<SocketAddr>, Fault> {
    match fields.optional(key) {
        None => taken.claim_default(key, default).map(|()| Some(default)),
        Some(node) if node.text()? == "off" => Ok(None),
        Some(node) => taken.claim(node).map(Some),
    }
}

pub(super) fn access_log(node: &Node, origin: &Path) -> Result<AccessLog, Fault> {
    let fields = Fields::open(node, "the access log", ACCESS_LOG_KEYS)?;
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    Ok(AccessLog {
        path: path(fields.required("path")?, origin)?,
        format: fields
            .map("format", |node| node.choice(&formats))?
            .unwrap_or_default(),
    })
}

/// A list of ports, none twice.
pub(super) fn ports(node: &Node) -> Result<Vec<u16>, Fault> {
    let mut ports: Vec<u16> = Vec::new();
    for entry in node.list()? {
        let port = entry.count(1..=usize::from(u16::MAX))?;
        let port = u16::try_from(port).expect("the range above is a port's");
        if ports.contains(&port) {
            return Err(entry.fault(format!("{port} is listed twice"), "remove one of them"));
        }
        ports.push(port);
    }
    Ok(ports)
}

pub(super) fn limits(node: &Node) -> Result<Limits, Fault> {
    let fields = Fields::open(node, "the limits", LIMITS_KEYS)?;
    let count = |key, range, default| {
        Ok(fields
            .map(key, |node| node.count(range))?
            .unwrap_or(default))
    };
    let time = |key, zero, default| {
        Ok(fields
            .map(key, |node| node.duration(zero))?
            .unwrap_or(default))
    };
    Ok(Limits {
        head_bytes: count("headBytes", 1024..=1024 * 1024, Limits::HEAD_BYTES)?,
        headers: count("headers", 16..=10_000, Limits::HEADERS)?,
        connections: count("connections", 1..=1_000_000, Limits::CONNECTIONS)?,
        header_timeout: time("headerTimeout", Zero::Refused, Limits::HEADER_TIMEOUT)?,
        idle_timeout: time("idleTimeout", Zero::Allowed, Limits::IDLE_TIMEOUT)?,
        connect_timeout: time("connectTimeout", Zero::Refused, Limits::CONNECT_TIMEOUT)?,
        request_timeout: time("requestTimeout", Zero::Allowed, Limits::REQUEST_TIMEOUT)?,
        stream_idle_timeout: time(
            "streamIdleTimeout",
            Zero::Allowed,
            Limits::STREAM_IDLE_TIMEOUT,
        )?,
        drain_timeout: time("drainTimeout", Zero::Allowed, Limits::DRAIN_TIMEOUT)?,
        handover_timeout: time("handoverTimeout", Zero::Allowed, Limits::HANDOVER_TIMEOUT)?,
        pool_idle_timeout: time("poolIdleTimeout", Zero::Refused, Limits::POOL_IDLE_TIMEOUT)?,
        pool_connections: count("poolConnections", 0..=100_000, Limits::POOL_CONNECTIONS)?,
        streams: count("streams", 1..=10_000, Limits::STREAMS)?,
        streams_per_connection: count(
            "streamsPerConnection",
            1..=1000,
            Limits::STREAMS_PER_CONNECTION,
        )?,
        connection_rate: count("connectionRate", 0..=1_000_000, Limits::CONNECTION_RATE)?,
        buffer_bytes: count("bufferBytes", BUFFER_BYTES, Limits::BUFFER_BYTES)?,
        keepalive_interval: time(
            "keepaliveInterval",
            Zero::Allowed,
            Limits::KEEPALIVE_INTERVAL,
        )?,
        keepalive_timeout: time("keepaliveTimeout", Zero::Refused, Limits::KEEPALIVE_TIMEOUT)?,
        tcp_idle_timeout: time("tcpIdleTimeout", Zero::Allowed, Limits::TCP_IDLE_TIMEOUT)?,
        half_close_timeout: time(
            "halfCloseTimeout",
            Zero::Allowed,
            Limits::HALF_CLOSE_TIMEOUT,
        )?,
    })
}
