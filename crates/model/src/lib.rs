//! The mesh's nouns as plain data: what a sidecar must do, in its final form.
//! Made by `proxy::config` from a file (later by `xds`), read by the proxy, seen in `/config_dump`.
//! Must never do I/O, and never hold key material (paths to it only).

mod cluster;
mod config;
mod limits;
mod listener;
mod route;

pub use cluster::{Balance, Cluster, Endpoint, Protocol, ProxyProtocol, Transport};
pub use config::{AccessLog, Config, IdentityFiles, LogFormat, Workload};
pub use limits::Limits;
pub use listener::{Direction, Listener, ListenerProtocol, TlsMode};
pub use route::{Filter, HostMatch, Route};
