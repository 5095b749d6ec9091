//! Whether an application answers, asked from within its own network: past its sidecar, so that no
//! rule of the mesh is in the way, at the addresses that the sidecar hands its connections to.
//! Called by the supervisor, as often as the Workload says. Must never wait longer than it is told.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream as StdStream};
use std::path::PathBuf;
use std::time::Duration;

use intercept::netns;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::job::Job;
use crate::process::Launcher;

/// A command as the workload's user.
mod exec;

/// One request and its answer's status.
mod http;

/// Which ports somebody listens on, without a connection.
mod listening;

/// How often in a row an answer must come before it counts.
mod tally;

pub use tally::Tally;

/// What is asked.
#[derive(Clone, Debug)]
pub enum Target {
    /// A GET of `path`; an answer with a status of 200 to 399 is a good one.
    Http {
        /// The port.
        port: u16,
        /// The path, with its query.
        path: String,
    },
    /// A connection.
    Tcp {
        /// The port.
        port: u16,
    },
    /// A command that ends with 0, in the place that the job says.
    Exec(Box<Job>),
    /// A program listening on each of these ports. No connection is made.
    Listening(Vec<u16>),
}

/// Asks one application.
#[derive(Clone, Debug)]
pub struct Prober {
    /// Its network namespace, as a path; none: ours.
    netns: Option<PathBuf>,
    /// Where it is connected to: the first that does not refuse.
    addresses: Vec<IpAddr>,
    /// Becomes the commands.
    launcher: Launcher,
}

impl Prober {
    /// For the application in the namespace at `netns`, which has `addresses` in it.
    #[must_use]
    pub fn new(netns: PathBuf, addresses: Vec<IpAddr>, launcher: Launcher) -> Self {
        Self {
            netns: Some(netns),
            addresses,
            launcher,
        }
    }

    /// For an application that shares our own network with others, and has `addresses` to itself.
    #[must_use]
    pub const fn here(addresses: Vec<IpAddr>, launcher: Launcher) -> Self {
        Self {
            netns: None,
            addresses,
            launcher,
        }
    }

    /// Asks once.
    ///
    /// # Errors
    /// Why the answer is not a good one, for people.
    pub async fn check(&self, target: &Target, within: Duration) -> Result<(), String> {
        if let Target::Exec(job) = target {
            // It has a process to end, and so sees to the time itself.
            return exec::check(self.launcher.clone(), job, within).await;
        }
        let checked = timeout(within, self.ask(target)).await;
        checked.unwrap_or_else(|_| Err(format!("no answer within {}", Seconds(within))))
    }

    async fn ask(&self, target: &Target) -> Result<(), String> {
        match target {
            Target::Http { port, path } => {
                let (stream, addr) = self.connect(*port).await?;
                http::check(stream, addr, path).await
            }
            Target::Tcp { port } => self.connect(*port).await.map(drop),
            Target::Listening(ports) => self.look(ports.clone()).await,
            Target::Exec(_) => Ok(()),
        }
    }

    /// A program may listen on only one of the addresses.
    async fn connect(&self, port: u16) -> Result<(TcpStream, SocketAddr), String> {
        let mut refused = None;
        for ip in &self.addresses {
            let addr = SocketAddr::new(*ip, port);
            match self.connect_to(addr).await {
                Ok(stream) => return Ok((stream, addr)),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let refused = refused.unwrap_or_else(|| io::Error::other("it has no address"));
        Err(match refused.kind() {
            io::ErrorKind::ConnectionRefused => format!("connection refused on port {port}"),
            _ => format!("connect to port {port}: {refused}"),
        })
    }

    /// A socket stays in the namespace that it was made in.
    async fn connect_to(&self, addr: SocketAddr) -> io::Result<TcpStream> {
        let socket = self.inside(move || make_socket(addr)).await??;
        TcpSocket::from_std_stream(socket).connect(addr).await
    }

    async fn look(&self, ports: Vec<u16>) -> Result<(), String> {
        let own = match self.netns {
            Some(_) => Vec::new(),
            None => self.addresses.clone(),
        };
        let looked = self.inside(move || listening::check(&ports, &own)).await;
        looked.map_err(|error| format!("look for listening sockets: {error}"))?
    }

    /// Does something short in the namespace.
    async fn inside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let netns = self.netns.clone();
        let work = move || match &netns {
            Some(netns) => netns::inside(netns, work),
            None => Ok(work()),
        };
        spawn_blocking(work).await.map_err(io::Error::other)?
    }
}

fn make_socket(addr: SocketAddr) -> io::Result<StdStream> {
    let family = if addr.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?.into())
}

/// A duration as people write it: `1 s`, `250 ms`.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.subsec_millis() {
            0 => write!(f, "{} s", self.0.as_secs()),
            _ => write!(f, "{} ms", self.0.as_millis()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_people_write_them() {
        let text = |millis| Seconds(Duration::from_millis(millis)).to_string();
        assert_eq!(
            [text(1000), text(250), text(1500)],
            ["1 s", "250 ms", "1500 ms"]
        );
    }
}
