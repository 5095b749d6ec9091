//! A socket that accepts connections, and what is expected on them.
//! Read by the proxy's listeners and connections. Must never say how bytes are read.

use std::net::SocketAddr;

use serde::Serialize;

use crate::Route;

/// A listening socket with its routes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Unique among the listeners.
    pub name: String,
    /// Which side of the workload it serves.
    pub direction: Direction,
    /// Address to bind; port 0 takes any free one.
    pub address: SocketAddr,
    /// Whether mesh TLS is expected. Invariant: `Disabled` on outbound listeners.
    pub tls: TlsMode,
    /// Adds `x-request-id` to requests that have none.
    pub request_id: bool,
    /// Appends the peer's address to `x-forwarded-for`.
    pub forwarded_for: bool,
    /// Tried in order of specificity: exact host, longest suffix, any; then longest prefix.
    pub routes: Vec<Route>,
}

/// Seen from the workload: calls it receives, or calls it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// From the mesh to the workload.
    Inbound,
    /// From the workload to the mesh.
    Outbound,
}

impl Direction {
    /// Both, in the order of [`Self::index`].
    pub const ALL: [Self; 2] = [Self::Inbound, Self::Outbound];

    /// The word used in configuration, metrics and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Inbound => "inbound",
            Self::Outbound => "outbound",
        }
    }

    /// Place in [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Whether connections to a listener come with mesh TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TlsMode {
    /// Plaintext and mesh TLS on one port, told apart by the first bytes.
    #[default]
    Permissive,
    /// Mesh TLS only.
    Strict,
    /// Plaintext only.
    Disabled,
}
