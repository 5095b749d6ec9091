//! Why a run or a server could not start. Failures of single requests are counted in the
//! outcome, never returned from here.

use std::{io, net::SocketAddr, path::PathBuf};

/// A plan or an environment with which no run can begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL is not one that can be loaded.
    #[error("{url}: {reason}; write http://host[:port]/path or https://host[:port]/path")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Not an address that TCP can be loaded at.
    #[error("{0}: there is no host and port; write HOST:PORT")]
    Address(String),
    /// A number or a header that makes no sense.
    #[error("{0}")]
    Plan(String),
    /// The name has no address.
    #[error("cannot find an address for {host}: {source}; check the name or give an address")]
    Resolve {
        /// Host and port.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// A connection could not be made before the run.
    #[error("cannot connect to {address}: {reason}; is the server listening there?")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// What went wrong.
        reason: String,
    },
    /// A certificate, key or CA file that cannot be used.
    #[error("{path}: {reason}")]
    Certificate {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A TLS setting that rustls refuses.
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    /// The plan's `stop` was set before anything had been measured.
    #[error("stopped before the measured window began: there is no result")]
    Stopped,
    /// The server's address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another address or port")]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file that cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something the kernel refused.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::System {
            doing,
            source: errno.into(),
        }
    }
}
