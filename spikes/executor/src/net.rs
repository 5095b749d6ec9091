//! Sockets set up alike for all contestants: cubic (other congestion controls pace with timers,
//! which blurs CPU time), no Nagle, a bound address printed for whoever started the program.

use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;

/// Prefers cubic; where the kernel lacks it, all contestants alike keep its default.
pub fn prefer_cubic(fd: impl AsFd) {
    let _ = sockopt::set_tcp_congestion(fd, "cubic");
}

fn tcp_socket(addr: SocketAddr, flags: SocketFlags) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let fd = net::socket_with(
        family,
        SocketType::STREAM,
        flags | SocketFlags::CLOEXEC,
        None,
    )?;
    prefer_cubic(&fd);
    Ok(fd)
}

/// A non-blocking listening socket and the address it got.
///
/// # Errors
/// When the address cannot be bound.
pub fn listen(addr: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let fd = tcp_socket(addr, SocketFlags::NONBLOCK)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    net::bind(&fd, &addr)?;
    net::listen(&fd, 1024)?;
    let bound = SocketAddr::try_from(net::getsockname(&fd)?).map_err(io::Error::from)?;
    Ok((fd, bound))
}

/// Connects (waiting for it), then makes the socket non-blocking.
///
/// # Errors
/// The connect error.
pub fn connect(addr: SocketAddr) -> io::Result<OwnedFd> {
    let fd = tcp_socket(addr, SocketFlags::empty())?;
    sockopt::set_tcp_nodelay(&fd, true)?;
    net::connect(&fd, &addr)?;
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok(fd)
}

/// Accepts one waiting connection, non-blocking; `None` when there is none.
///
/// # Errors
/// As `accept4`.
pub fn accept(listener: impl AsFd) -> io::Result<Option<OwnedFd>> {
    match net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok(fd) => {
            sockopt::set_tcp_nodelay(&fd, true)?;
            Ok(Some(fd))
        }
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
