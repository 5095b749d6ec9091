//! Listening sockets: bound before anything else starts, so that a mistake ends the start. Called
//! by `app` and `reload`.

use crate::worker::Socket;
use anyhow::Context;
use model::Listener;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, sockopt};
use rustix::net::{ipproto, socket_with};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Opens the listeners' sockets, all or none, with the addresses they got.
pub(crate) fn open_all(listeners: &[Listener]) -> anyhow::Result<Vec<(Socket, SocketAddr)>> {
    listeners
        .iter()
        .enumerate()
        .filter(|(_, listener)| listener.bind)
        .map(|(place, listener)| open(place, listener))
        .collect()
}

/// Opens one listener's socket.
pub(crate) fn open(place: usize, listener: &Listener) -> anyhow::Result<(Socket, SocketAddr)> {
    let (name, addr) = (&listener.name, listener.address);
    let (fd, bound) = open_address(addr).with_context(|| {
        format!("listener `{name}`: {addr} cannot be bound; is another process listening there?")
    })?;
    let (name, direction) = (Arc::from(name.as_str()), listener.direction);
    Ok((
        Socket {
            fd,
            name,
            place,
            direction,
        },
        bound,
    ))
}

/// `[::]` is every address of both families; where there is no IPv6, those of IPv4.
fn open_address(addr: SocketAddr) -> anyhow::Result<(OwnedFd, SocketAddr)> {
    let every = addr.is_ipv6() && addr.ip().is_unspecified();
    match open_exactly(addr) {
        Err(error) if every && is_without_ipv6(&error) => {
            let every = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), addr.port());
            Ok(open_exactly(every)?)
        }
        opened => Ok(opened?),
    }
}

fn is_without_ipv6(error: &Errno) -> bool {
    matches!(*error, Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL)
}

fn open_exactly(addr: SocketAddr) -> rustix::io::Result<(OwnedFd, SocketAddr)> {
    let family = if addr.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if addr.ip().is_unspecified() && addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, false)?;
    }
    bind(&fd, &addr)?;
    listen(&fd, BACKLOG)?;
    let bound = SocketAddr::try_from(getsockname(&fd)?)?;
    Ok((fd, bound))
}
