//! A socket that accepts connections, and what is expected on them.
//! Read by the proxy's listeners and connections. Must never say how bytes are read.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Serialize;

use crate::{HostMatch, Route};

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
    /// Further names, each for some of its addresses: instances of a headless service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Host>,
    /// What the port is called, for those who look up where it is (SRV, RFC 2782).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_name: Option<String>,
    /// Whether mesh TLS is expected. Invariant: `Disabled` on outbound listeners.
    pub tls: TlsMode,
    /// Its clients are outside of the mesh; `None`: they are not. Invariant: only on outbound
    /// listeners for HTTP with a socket, to which nothing is redirected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<Edge>,
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

/// A name with addresses of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    /// Lower case, without a dot at the end.
    pub name: String,
    /// Which the name is answered with; never empty.
    pub addresses: Vec<IpAddr>,
}

/// What a gateway's listener is to clients outside of the mesh. What they say of where a request
/// came from is not believed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Edge {
    /// They speak plaintext.
    Plaintext,
    /// They speak TLS 1.2 or 1.3 and prove nothing. Never empty, and no host twice.
    Tls(Vec<Shown>),
}

/// A certificate that is shown to some clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// To those that ask for one of these server names, the most specific first; never empty.
    /// Invariant: `Any`, which is for those that ask for none as well, stands alone.
    pub hosts: Vec<HostMatch>,
    /// Under which name it comes from the control plane, with its key. While it is not there, such
    /// clients are turned away.
    pub certificate: String,
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
