//! The fake world for tests of the proxy: scripted peers, echo servers, raw clients, a test
//! authority and the proxy itself as a process. Called from tests only. Blocking threads and
//! sockets, port 0, every wait bounded; it panics where the world is not as a test needs it.

/// Waits that end: polling what can be observed, never sleeping for a guess.
pub mod wait;

/// HTTP/1.1 messages, read by their framing.
pub mod http;

/// Clients that say exactly what they are told to, plain or inside mesh TLS.
pub mod client;

/// A client outside of the mesh.
pub mod browser;

/// Accepting connections on a thread each, until dropped.
mod server;

/// An upstream that follows a script.
pub mod script;

/// An upstream that answers with what it was sent.
pub mod echo;

/// HTTP/2 peers: a client, a server, and frames by hand.
pub mod h2;

/// An authority and identities in a temporary directory.
pub mod ca;

/// Configuration files for sidecars.
pub mod config;

/// `leno-proxy` as a process.
pub mod proxy;

/// Two sidecars with the hop between them.
pub mod pair;

/// What a control plane tells of.
pub mod parts;

/// A control plane that tells sidecars what a test wants.
pub mod control;

/// Prometheus text, as far as tests need it.
pub mod metrics;

/// Requests without end.
pub mod traffic;

/// Addresses where nobody answers.
pub mod dead;

/// How many descriptors a process may have.
pub mod descriptors;

/// Addresses for a mesh on this machine.
pub mod subnet;

pub use browser::Browser;
pub use ca::{TestCa, TestIdentity};
pub use client::{Client, MeshConnector, RawClient, TlsClient};
pub use config::Sidecar;
pub use control::ControlPlane;
pub use dead::{DeadPort, Probes};
pub use echo::EchoServer;
pub use h2::{Frames, H2Client, H2Server, RawH2Server};
pub use http::Message;
pub use pair::Pair;
pub use proxy::ProxyProcess;
pub use script::{ScriptedUpstream, Step};
pub use subnet::Subnet;
pub use traffic::Traffic;
pub use wait::{DEADLINE, eventually, until};

/// An address on which nobody listens, nor will while the test runs: the port stays taken.
///
/// # Panics
/// If no port can be bound.
#[must_use]
pub fn dead_address() -> std::net::SocketAddr {
    // Never closed: a port given back may be another test's a moment later.
    std::mem::ManuallyDrop::new(DeadPort::hold()).addr()
}
