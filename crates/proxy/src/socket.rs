//! Listening sockets: found among those that this process was given, or bound, before anything is
//! served, so that a mistake ends the start. Called by `app` and `reload`.

use crate::handover::Handed;
use crate::handover::message::Role;
use crate::log;
use crate::worker::Socket;
use anyhow::Context;
use model::Listener;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, sockopt};
use rustix::net::{ipproto, socket_with};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
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
    /// For a successor, with the addresses that were asked for.
    pub(crate) copies: Vec<(SocketAddr, OwnedFd)>,
}

/// Takes what whoever started this process opened for it: systemd's protocol (`LISTEN_FDS`). To be
/// called before anything else is opened.
pub(crate) fn inherit() -> Vec<TcpListener> {
    let mut passed = listenfd::ListenFd::from_env();
    let mut taken = Vec::new();
    for number in 0..passed.len() {
        match passed.take_tcp_listener(number) {
            Ok(listener) => taken.extend(listener),
            Err(error) => log::warn(format_args!("a socket that was passed is left: {error}")),
        }
    }
    taken
}

/// Sockets that others have opened, until a listener is to have their address.
pub(crate) struct Sockets {
    found: Vec<Found>,
    /// What is not for listeners.
    others: Vec<Handed>,
    /// Whether there may be a successor.
    keeps_copies: bool,
}

/// A bound, listening socket.
struct Found {
    fd: OwnedFd,
    addr: SocketAddr,
    /// Whether it takes connections of both families.
    both: bool,
    origin: Origin,
    is_used: bool,
}

enum Origin {
    /// Nobody here could open it again: it is kept until the end.
    Starter,
    /// The listener that it was, with the address that it was to have. Kept until this process
    /// serves.
    Predecessor(String, SocketAddr),
    /// This process.
    Own,
}

/// What a listener is to have.
#[derive(Clone, Copy)]
struct Asked<'n> {
    name: &'n str,
    addr: SocketAddr,
    /// Whether `[::]` is to take connections of both families.
    both: bool,
}

impl Sockets {
    /// Those that were `inherited` from whoever started this process, and those that a predecessor
    /// `handed` over.
    pub(crate) fn new(
        inherited: Vec<TcpListener>,
        handed: Vec<Handed>,
        keeps_copies: bool,
    ) -> Self {
        let is_for_listener = |one: &Handed| {
            let role = one.description.role;
            matches!(role, Role::Listener | Role::Inherited)
        };
        let (ours, others) = handed.into_iter().partition(is_for_listener);
        let mut sockets = Self {
            found: Vec::new(),
            others,
            keeps_copies,
        };
        for Handed { description, fd } in ours {
            sockets.add(
                fd,
                match description.role {
                    Role::Inherited => Origin::Starter,
                    _ => Origin::Predecessor(description.name, description.asked),
                },
            );
        }
        for listener in inherited {
            sockets.add(listener.into(), Origin::Starter);
        }
        sockets
    }

    fn add(&mut self, fd: OwnedFd, origin: Origin) {
        match Found::check(fd, origin) {
            // The same one, by two ways.
            Ok(found) if self.found.iter().any(|other| other.addr == found.addr) => {}
            Ok(found) => self.found.push(found),
            Err(error) => log::warn(format_args!("a socket that was passed is left: {error:#}")),
        }
    }

    /// Opens the sockets of all listeners that have some, all or none.
    pub(crate) fn open_all<'a>(
        &mut self,
        listeners: impl Iterator<Item = (usize, &'a Arc<Listener>)>,
    ) -> anyhow::Result<Vec<Opened>> {
        let binding = listeners.filter(|(_, listener)| listener.bind);
        binding
            .map(|(place, listener)| self.open(place, listener))
            .collect()
    }

    fn open(&mut self, place: usize, listener: &Listener) -> anyhow::Result<Opened> {
        let mut all: Vec<Found> = Vec::new();
        let mut copies = Vec::new();
        for addr in listener.addresses() {
            // A socket of both families would be in the way of the one for IPv4.
            let every = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), addr.port());
            let both = listener.addresses().all(|other| other != every);
            let asked = Asked {
                name: &listener.name,
                addr,
                both,
            };
            if all.iter().any(|found| found.serves(&asked)) {
                continue;
            }
            let found = match self.find(&asked)? {
                found if !found.is_empty() => found,
                _ => match open_address(addr, both) {
                    Err(error) if !all.is_empty() && is_without_ipv6(&error) => continue,
                    opened => vec![opened.with_context(|| cannot_bind(&asked))?],
                },
            };
            if self.keeps_copies {
                copies.extend(copy(addr, &found)?);
            }
            all.extend(found);
        }
        let bound = all.first().context("a listener has an address")?.addr;
        let name = Arc::<str>::from(listener.name.as_str());
        let sockets = all.into_iter().map(|found| Socket {
            is_kept: matches!(found.origin, Origin::Starter),
            fd: found.fd,
            name: Arc::clone(&name),
            place,
            direction: listener.direction,
        });
        Ok(Opened {
            place,
            sockets: sockets.collect(),
            bound,
            copies,
        })
    }

    /// Copies of those that somebody else opened for this; the originals stay until all is well.
    fn find(&mut self, asked: &Asked<'_>) -> std::io::Result<Vec<Found>> {
        let fitting = self.found.iter_mut().filter(|found| found.serves(asked));
        let take = |found: &mut Found| {
            found.is_used = true;
            found.try_clone()
        };
        fitting.map(take).collect()
    }

    /// Takes what was handed over for something else than a listener.
    pub(crate) fn take(&mut self, role: Role, asked: SocketAddr) -> Option<OwnedFd> {
        let fits = |one: &Handed| {
            let is_there = || local_addr(&one.fd).is_ok_and(|addr| addr == asked);
            one.description.role == role && (one.description.asked == asked || is_there())
        };
        let place = self.others.iter().position(fits)?;
        Some(self.others.swap_remove(place).fd)
    }

    /// All that is opened at the start is: what a predecessor gave beside is closed.
    pub(crate) fn settle(&mut self) {
        let is_starters = |found: &Found| matches!(found.origin, Origin::Starter);
        self.found.retain(is_starters);
        self.others.clear();
        for Found { addr, .. } in self.found.iter().filter(|found| !found.is_used) {
            log::debug(format_args!("no listener has {addr}, which was passed"));
        }
    }

    /// Keeps nothing any more.
    pub(crate) fn clear(&mut self) {
        self.found.clear();
        self.others.clear();
    }

    /// What a successor is to have beside the listeners' own.
    pub(crate) fn offer(&self) -> std::io::Result<Vec<Handed>> {
        let offer = |found: &Found| Handed::copy(&found.fd, Role::Inherited, ("", found.addr));
        self.found.iter().map(offer).collect()
    }
}

fn cannot_bind(asked: &Asked<'_>) -> String {
    let Asked { name, addr, .. } = asked;
    format!("listener `{name}`: {addr} cannot be bound; is another process listening there?")
}

/// Copies of what is not kept anyway.
fn copy(asked: SocketAddr, all: &[Found]) -> std::io::Result<Vec<(SocketAddr, OwnedFd)>> {
    let is_kept = |found: &&Found| matches!(found.origin, Origin::Starter);
    let copies = all.iter().filter(|found| !is_kept(found));
    copies
        .map(|found| Ok((asked, found.fd.try_clone()?)))
        .collect()
}

impl Found {
    /// That it is a listening TCP socket.
    fn check(fd: OwnedFd, origin: Origin) -> anyhow::Result<Self> {
        let is_stream = sockopt::socket_type(&fd)? == SocketType::STREAM;
        let is_listening = is_stream && sockopt::socket_acceptconn(&fd)?;
        anyhow::ensure!(
            is_listening,
            "it is none that connections are accepted from"
        );
        let addr = local_addr(&fd)?;
        let is_every = addr.is_ipv6() && addr.ip().is_unspecified();
        let both = is_every && !sockopt::ipv6_v6only(&fd)?;
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self {
            fd,
            addr,
            both,
            origin,
            is_used: false,
        })
    }

    fn try_clone(&self) -> std::io::Result<Self> {
        let origin = match &self.origin {
            Origin::Starter => Origin::Starter,
            Origin::Predecessor(..) | Origin::Own => Origin::Own,
        };
        Ok(Self {
            fd: self.fd.try_clone()?,
            origin,
            ..*self
        })
    }

    /// Whether it accepts what is asked for.
    fn serves(&self, asked: &Asked<'_>) -> bool {
        match &self.origin {
            Origin::Predecessor(name, addr) if name == asked.name && *addr == asked.addr => true,
            _ => asked.addr.port() != 0 && self.covers(asked),
        }
    }

    /// Each of `[::]` and `0.0.0.0` stands for the other where it takes its place.
    fn covers(&self, asked: &Asked<'_>) -> bool {
        let port = asked.addr.port();
        let v4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        let v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
        let canonical = |addr: SocketAddr| SocketAddr::new(addr.ip().to_canonical(), addr.port());
        let is_same = self.addr == asked.addr || canonical(self.addr) == canonical(asked.addr);
        let takes_v4_too = self.both && self.addr == v6 && asked.addr == v4;
        let takes_v4_only = asked.both && asked.addr == v6 && self.addr == v4;
        is_same || takes_v4_too || takes_v4_only
    }
}

fn local_addr(fd: &OwnedFd) -> rustix::io::Result<SocketAddr> {
    SocketAddr::try_from(getsockname(fd)?)
}

/// `[::]` is every address of `both` families; where there is no IPv6, those of IPv4.
fn open_address(addr: SocketAddr, both: bool) -> rustix::io::Result<Found> {
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

fn open_exactly(addr: SocketAddr, both: bool) -> rustix::io::Result<Found> {
    let family = if addr.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    let is_every = addr.ip().is_unspecified() && addr.is_ipv6();
    if is_every {
        sockopt::set_ipv6_v6only(&fd, !both)?;
    }
    bind(&fd, &addr)?;
    listen(&fd, BACKLOG)?;
    let addr = local_addr(&fd)?;
    Ok(Found {
        fd,
        addr,
        both: is_every && both,
        origin: Origin::Own,
        is_used: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a socket at `addr`, of both families or not, does for what is asked for.
    fn fits((addr, both): (&str, bool), asked: (&str, bool)) -> bool {
        let found = Found {
            fd: TcpListener::bind("127.0.0.1:0").unwrap().into(),
            addr: addr.parse().unwrap(),
            both,
            origin: Origin::Starter,
            is_used: false,
        };
        let (addr, both) = (asked.0.parse().unwrap(), asked.1);
        let name = "main";
        found.serves(&Asked { name, addr, both })
    }

    #[test]
    fn socket_of_both_families_does_for_each() {
        for asked in [("[::]:80", true), ("[::]:80", false), ("0.0.0.0:80", true)] {
            assert!(fits(("[::]:80", true), asked), "{asked:?}");
        }
        assert!(fits(("[::]:80", false), ("[::]:80", true)));
        assert!(!fits(("[::]:80", false), ("0.0.0.0:80", true)));
        // Where there is no IPv6, nobody could have opened the other.
        assert!(fits(("0.0.0.0:80", false), ("[::]:80", true)));
        assert!(!fits(("0.0.0.0:80", false), ("[::]:80", false)));
    }

    #[test]
    fn socket_of_another_address_or_port_does_not() {
        let one = ("127.0.0.1:80", false);
        assert!(fits(one, ("127.0.0.1:80", true)));
        assert!(fits(one, ("[::ffff:127.0.0.1]:80", true)));
        for asked in ["127.0.0.1:81", "127.0.0.2:80", "0.0.0.0:80", "[::]:80"] {
            assert!(!fits(one, (asked, true)), "{asked}");
        }
        assert!(!fits(("127.0.0.1:0", false), ("127.0.0.1:0", true)));
    }

    #[test]
    fn what_accepts_nothing_is_left() {
        let connected = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap()
        };
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for fd in [OwnedFd::from(connected()), datagrams.into()] {
            assert!(Found::check(fd, Origin::Starter).is_err());
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(Found::check(listener.into(), Origin::Starter).is_ok());
    }
}
