//! Addresses where nobody answers, held so that nobody else gets them meanwhile.
//! Used by tests in the place of an endpoint that is down.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, sockopt};

use crate::EchoServer;

/// A port of 127.0.0.1 that is taken and refuses connections.
pub struct DeadPort {
    addr: SocketAddr,
    /// Bound, not listening.
    socket: OwnedFd,
}

impl DeadPort {
    /// Takes a free port.
    ///
    /// # Panics
    /// If none can be bound.
    #[must_use]
    pub fn hold() -> Self {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
            .expect("a socket can be made");
        // So that an upstream can listen here while it is held.
        sockopt::set_socket_reuseaddr(&socket, true).expect("an address can be shared");
        bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free");
        let bound = getsockname(&socket).expect("a bound socket has an address");
        let addr = SocketAddr::try_from(bound).expect("it is an internet address");
        Self { addr, socket }
    }

    /// Where nobody listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Somebody listens from now on, until the server is dropped.
    ///
    /// # Panics
    /// If the address cannot be bound a second time.
    #[must_use]
    pub fn revive(&self) -> EchoServer {
        EchoServer::start_on(&self.addr.to_string())
    }

    /// Lets connects wait for ever instead of refusing them: a full queue that nobody empties.
    ///
    /// # Panics
    /// If the queue cannot be filled.
    #[must_use]
    pub fn silent(self) -> SilentPort {
        listen(&self.socket, 0).expect("a bound socket can listen");
        let fill = || TcpStream::connect_timeout(&self.addr, Duration::from_millis(200)).ok();
        let queue = std::iter::from_fn(fill).take(64).collect();
        SilentPort {
            listener: TcpListener::from(self.socket),
            queue,
        }
    }
}

/// A port where a connect is neither taken nor refused.
pub struct SilentPort {
    listener: TcpListener,
    queue: Vec<TcpStream>,
}

impl SilentPort {
    /// Where nobody answers.
    ///
    /// # Panics
    /// Never: it is bound.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.listener
            .local_addr()
            .expect("a bound socket has an address")
    }

    /// Connections that wait in its queue.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }
}

/// How often an endpoint that is down may have been probed: real time paces that, however slow the
/// machine is.
#[derive(Debug)]
pub struct Probes {
    begun: Instant,
}

impl Probes {
    /// It goes down now, or later.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            begun: Instant::now(),
        }
    }

    /// At most so many of one endpoint until now: after 1 s, then 2, 4 and so on.
    #[must_use]
    pub fn most(&self) -> f64 {
        (self.begun.elapsed().as_secs_f64() + 1.0).log2().floor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RawClient;

    #[test]
    fn refuses_until_it_is_revived() {
        let dead = DeadPort::hold();
        let addr = dead.addr();
        assert!(TcpStream::connect(addr).is_err());
        for _ in 0..2 {
            let server = dead.revive();
            assert_eq!(server.addr(), addr);
            assert_eq!(RawClient::connect(addr).get("/").status(), 200);
            drop(server);
            assert!(TcpStream::connect(addr).is_err());
        }
    }

    #[test]
    fn silent_port_neither_takes_nor_refuses() {
        let silent = DeadPort::hold().silent();
        assert!((1..64).contains(&silent.queued()));
        let error = TcpStream::connect_timeout(&silent.addr(), Duration::from_millis(100));
        assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    }
}
