//! Upgrades without loss: a proxy that starts takes over the listening sockets of the one that
//! serves, which drains once the other is ready. Called by `app`. Only sockets travel: never a key,
//! and nothing of anybody's connections.
//!
//! Both hold the same sockets, so that no connection that waits to be accepted is ever lost. The
//! old one accepts until it is told; the new one begins when it is: in between they wait.

mod door;
mod giving;
pub mod message;
mod parcel;
mod taking;

pub(crate) use door::Door;
pub(crate) use giving::{Request, serve};
use message::Description;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
pub(crate) use taking::{Predecessor, take};

/// For one answer of the other process, which has nothing to wait for but the disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// From the sockets to `Ready`: a sidecar that knows its configuration needs a fraction of a
/// second, one that has to be told may have to try its control plane more than once.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// A socket on its way to another process.
pub(crate) struct Handed {
    pub(crate) description: Description,
    pub(crate) fd: OwnedFd,
}

impl Handed {
    /// A copy of a socket that was asked for as `asked`.
    pub(crate) fn copy(
        fd: impl AsFd,
        role: message::Role,
        (name, asked): (&str, SocketAddr),
    ) -> std::io::Result<Self> {
        let name = name.to_owned();
        let description = Description { role, name, asked };
        let fd = fd.as_fd().try_clone_to_owned()?;
        Ok(Self { description, fd })
    }
}
