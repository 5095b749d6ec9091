//! The mesh's nouns as plain data: what a sidecar must do, in its final form.
//! Made by `proxy::config` from a file (later by `xds`), read by the proxy, seen in `/config_dump`.
//! Must never do I/O, and never hold key material (paths to it only).

mod cidr;
mod cluster;
mod config;
mod limits;
mod listener;
mod route;

pub use cidr::{Cidr, CidrError};
pub use cluster::{Balance, Cluster, Discovery, Endpoint, Protocol, ProxyProtocol, Transport};
pub use config::{
    AccessLog, Config, ControlAddress, ControlPlane, Dns, Envoy, ForeignTls, Forward,
    IdentityFiles, LogFormat, Membership, TokenSource, Trust, TrustBundle, Workload, XdsNode,
    XdsVariant,
};
pub use limits::Limits;
pub use listener::{Direction, Edge, Host, Listener, ListenerProtocol, Shown, TlsMode};
pub use route::{Backend, Filter, HostMatch, PathChange, Redirect, Rewrite, Route, Scheme};
