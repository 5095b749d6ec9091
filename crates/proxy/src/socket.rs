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

/// What a listener's connections are accepted from.
pub(crate) struct Opened {
    pub(crate) place: usize,
    /// One per address, as far as this machine has such addresses.
    pub(crate) sockets: Vec<Socket>,
    /// Where the first one is bound.
    pub(crate) bound: SocketAddr,
}

/// Opens the sockets of all listeners that have some, all or none.
pub(crate) fn open_all<'a>(
    listeners: impl Iterator<Item = (usize, &'a Listener)>,
) -> anyhow::Result<Vec<Opened>> {
    let binding = listeners.filter(|(_, listener)| listener.bind);
    binding
        .map(|(place, listener)| open(place, listener))
        .collect()
}

fn open(place: usize, listener: &Listener) -> anyhow::Result<Opened> {
    let name = Arc::<str>::from(listener.name.as_str());
    let mut bound = None;
    let mut sockets = Vec::new();
    for addr in listener.addresses() {
        // A socket of both families would be in the way of the one for IPv4.
        let every = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), addr.port());
        let both = listener.addresses().all(|other| other != every);
        let (fd, local) = match open_address(addr, both) {
            Err(error) if bound.is_some() && is_without_ipv6(&error) => continue,
            opened => opened.with_context(|| {
                format!(
                    "listener `{name}`: {addr} cannot be bound; is another process listening there?"
                )
            })?,
        };
        bound.get_or_insert(local);
        let (name, direction) = (Arc::clone(&name), listener.direction);
        sockets.push(Socket {
            fd,
            name,
            place,
            direction,
        });
    }
    let bound = bound.context("a listener has an address")?;
    Ok(Opened {
        place,
        sockets,
        bound,
    })
}

/// `[::]` is every address of `both` families; where there is no IPv6, those of IPv4.
fn open_address(addr: SocketAddr, both: bool) -> rustix::io::Result<(OwnedFd, SocketAddr)> {
    let every = addr.is_ipv6() && addr.ip().is_unspecified() && both;
    match open_exactly(addr, both) {
        Err(error) if every && is_without_ipv6(&error) => {
            let every = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), addr.port());
            open_exactly(every, both)
        }
        opened => opened,
    }
}

fn is_without_ipv6(error: &Errno) -> bool {
    matches!(*error, Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL)
}

fn open_exactly(addr: SocketAddr, both: bool) -> rustix::io::Result<(OwnedFd, SocketAddr)> {
    let family = if addr.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if addr.ip().is_unspecified() && addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, !both)?;
    }
    bind(&fd, &addr)?;
    listen(&fd, BACKLOG)?;
    let bound = SocketAddr::try_from(getsockname(&fd)?)?;
    Ok((fd, bound))
}
