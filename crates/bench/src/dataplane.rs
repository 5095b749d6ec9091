//! The seam to the data planes: what configuration, command line, readiness, counters and version
//! a sidecar has. Implemented once per data plane; called by the environment, which starts what
//! is described here. Describes only: it starts no sidecar itself.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::Context;
use aws_lc_rs::digest;
use identity::certificate::hex;

use crate::results::{DataPlaneVersion, EnvironmentKind, Telemetry};

pub mod certificates;
pub mod command;
pub mod envoy;
pub mod find;
pub mod haproxy;
pub mod leno;
pub mod nginx;
pub mod none;
pub mod pipy;
pub mod programs;

pub(crate) mod place;

pub use certificates::Certificates;

/// One data plane under measurement.
pub trait DataPlane {
    /// The word used in options, labels and tables.
    fn name(&self) -> &str;

    /// Version and binary, as the program itself says it.
    ///
    /// # Errors
    /// When the program cannot be run.
    fn version(&self) -> anyhow::Result<DataPlaneVersion>;

    /// Writes the configuration of one sidecar into `hop.dir` and says how to start it.
    /// Called again for another attempt when the sidecar does not come up.
    ///
    /// # Errors
    /// When a file cannot be written, or this data plane has no sidecars.
    fn launch(&self, hop: &Hop<'_>) -> anyhow::Result<Launch>;

    /// What a reader must know about how it was configured there, one sentence each.
    fn notes(&self, environment: EnvironmentKind) -> Vec<String>;

    /// What it does for each [`Telemetry`] on loopback, in one sentence; none where it can only be
    /// measured as it is.
    fn telemetry(&self) -> Option<&'static str> {
        None
    }

    /// How workloads of a local mesh have it; none where they cannot.
    fn in_mesh(&self) -> Option<InMesh>;
}

/// What workloads of a local mesh have beside them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InMesh {
    /// Nothing.
    Without,
    /// Our sidecar, which is this program.
    Leno(PathBuf),
    /// An Envoy, which our control plane configures.
    Envoy {
        /// Its companion: our sidecar's program.
        companion: PathBuf,
        /// Its own.
        program: PathBuf,
    },
}

/// Which of the sidecars of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Beside the client: outbound.
    Client,
    /// Beside the server: inbound.
    Server,
    /// Beside nobody: the way in from outside the mesh.
    Gateway,
}

impl Side {
    /// The word used in file names and labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Gateway => "gateway",
        }
    }
}

/// One sidecar's place in the path.
#[derive(Debug)]
pub struct Hop<'a> {
    /// Which of the two.
    pub side: Side,
    /// Whether the leg between the two sidecars is mutual TLS: mode `both`. Otherwise this
    /// sidecar is alone and both its legs are plaintext.
    pub mutual_tls: bool,
    /// What it tells about requests. Only those that [`DataPlane::telemetry`] speaks of are asked
    /// for.
    pub telemetry: Telemetry,
    /// Where it sends to: the other sidecar or the server.
    pub upstream: SocketAddr,
    /// Connections that the generator will make.
    pub connections: u32,
    /// Both sides' certificates.
    pub certificates: &'a Certificates,
    /// Its own directory, for configuration files and logs.
    pub dir: &'a Path,
}

impl Hop<'_> {
    /// Where requests are logged, where they are.
    pub fn access_log(&self) -> PathBuf {
        self.dir.join("access.log")
    }
}

/// How to start a sidecar and how to know it.
#[derive(Debug)]
pub struct Launch {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The configuration file, kept with the results.
    pub config: PathBuf,
    /// How it says that it serves.
    pub readiness: Readiness,
    /// The admin page with its counters.
    pub counters: Cow<'static, str>,
}

/// How a sidecar says that it serves, and where.
#[derive(Debug, Clone)]
pub enum Readiness {
    /// One JSON line on standard output: `listeners.<name>` is where it serves, `admin` where its
    /// counters are.
    Announced {
        /// The listener to send to.
        listener: &'static str,
    },
    /// Addresses chosen beforehand; `GET /ready` on the admin address answers 200 once it serves.
    Polled {
        /// Where it serves.
        listener: SocketAddr,
        /// Where its admin pages are.
        admin: SocketAddr,
    },
    /// Addresses chosen beforehand; it serves once it takes connections and, where it has
    /// counters, answers 200 with them.
    Listening {
        /// Where it serves.
        listener: SocketAddr,
        /// Where its counters are, if it has any.
        admin: Option<SocketAddr>,
    },
}

/// A TCP port of the loopback interface that was free a moment ago.
///
/// # Errors
/// When none can be bound.
pub fn free_port() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("finding a free port")?;
    Ok(listener.local_addr()?)
}

/// File name, size and the first bytes of the digest of a program, for the environment's
/// description: a run that goes on must have the same.
pub fn binary_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match digest_of(path) {
        Ok((bytes, digest)) => {
            let size = crate::units::mebibytes(bytes);
            format!("{name}, {size:.1} MiB, SHA-256 {digest}…")
        }
        Err(error) => format!("{name}, which cannot be read: {error}"),
    }
}

/// Bytes of the digest that are shown.
const DIGEST_SHOWN: usize = 6;

/// How many bytes a file has, and the begin of their SHA-256.
fn digest_of(path: &Path) -> io::Result<(u64, String)> {
    let mut file = BufReader::new(File::open(path)?);
    let mut context = digest::Context::new(&digest::SHA256);
    let mut bytes = 0;
    loop {
        let chunk = file.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        context.update(chunk);
        let length = chunk.len();
        bytes += length as u64;
        file.consume(length);
    }
    let digest = context.finish();
    Ok((bytes, hex(&digest.as_ref()[..DIGEST_SHOWN])))
}

#[cfg(test)]
mod tests;
