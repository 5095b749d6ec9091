//! A socket that accepts connections, and what is expected on them.
//! Read by the proxy's listeners and connections. Must never say how bytes are read.

use std::net::SocketAddr;
use std::time::Duration;

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
    /// Further addresses, of the same service in another family for example.
    pub additional_addresses: Vec<SocketAddr>,
    /// Whether it has a socket of its own. Without, it serves connections that were redirected to
    /// a listener with `original_destination` and were made to one of its addresses.
    pub bind: bool,
    /// Its connections were redirected to it: each is handed to the listener without `bind` that
    /// has the address it was made to, and served here if there is none.
    pub original_destination: bool,
    /// Names for which its addresses are the answer (lower case, without a dot at the end).
    pub names: Vec<String>,
    /// Whether mesh TLS is expected. Invariant: `Disabled` on outbound listeners.
    pub tls: TlsMode,
    /// What is spoken on its connections, under mesh TLS if there is any.
    pub protocol: ListenerProtocol,
    /// How long a silent peer is waited for before the destination is dialled, which may be the
    /// one that speaks first. Only with `ListenerProtocol::Auto`.
    #[serde(serialize_with = "crate::limits::duration")]
    pub detect_timeout: Duration,
    /// HTTP upgrades that are passed on; others are ignored, as RFC 9110, section 7.8 has it.
    /// Invariant: lower-case tokens, or `*` alone, which stands for all.
    pub upgrades: Vec<String>,
    /// Whether CONNECT (RFC 9110, section 9.3.6) is taken.
    pub connect: bool,
    /// Every connection must begin with a PROXY header; its source becomes the peer's address.
    pub proxy_protocol: bool,
    /// Adds `x-request-id` to requests that have none.
    pub request_id: bool,
    /// Appends the peer's address to `x-forwarded-for`.
    pub forwarded_for: bool,
    /// Tried in order of specificity: exact host, longest suffix, any; then longest prefix.
    pub routes: Vec<Route>,
}

impl Listener {
    /// All of its addresses.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + Clone + '_ {
        std::iter::once(self.address).chain(self.additional_addresses.iter().copied())
    }

    /// 50 ms: clients that speak first do so within a round trip of the accept, so that they are
    /// rarely mistaken for silent ones; half of what a person would notice for those that wait.
    pub const DETECT_TIMEOUT: Duration = Duration::from_millis(50);
}

/// What is spoken on a listener's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ListenerProtocol {
    /// The first bytes decide, or the destination if it speaks first.
    #[default]
    Auto,
    /// HTTP; anything else is refused.
    Http,
    /// Anything: connections are passed on unread.
    Tcp,
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
