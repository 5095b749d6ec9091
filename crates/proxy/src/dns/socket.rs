//! The name server's sockets, one for UDP and one for TCP at each address. Called once, at the
//! start.
//!
//! Never bound to all addresses: a datagram's answer would leave from the address that routing
//! prefers, not from the one that a redirected query was taken to, and its client would not know
//! it; and everybody in the network could ask.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use anyhow::Context;

use crate::handover::message::Role;
use crate::log;

/// What a free port of UDP is looked for that is free for TCP as well.
const ATTEMPTS_MAX: usize = 16;

/// One address.
pub(crate) struct Pair {
    /// As it was asked for.
    pub(crate) asked: SocketAddr,
    pub(crate) addr: SocketAddr,
    pub(crate) udp: UdpSocket,
    pub(crate) tcp: TcpListener,
}

/// Opens what `addr` stands for. Port 0 takes one that is free for all of them.
pub(super) fn open(addr: SocketAddr) -> anyhow::Result<Vec<Pair>> {
    let (ip, also) = addresses(addr.ip());
    open_all(ip, also, addr.port()).with_context(|| {
        format!("names cannot be answered at {addr}; does another name server listen there?")
    })
}

fn addresses(ip: IpAddr) -> (IpAddr, Option<IpAddr>) {
    let (v4, v6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => (v4, None),
        IpAddr::V6(ip) if ip.is_unspecified() => (v4, Some(v6)),
        ip => (ip, None),
    }
}

/// The same from sockets that somebody else has opened, if there are such for `addr`.
pub(super) fn adopt(
    addr: SocketAddr,
    mut give: impl FnMut(Role, SocketAddr) -> Option<OwnedFd>,
) -> io::Result<Vec<Pair>> {
    let (ip, also) = addresses(addr.ip());
    let mut pairs = Vec::new();
    let mut port = addr.port();
    for ip in std::iter::once(ip).chain(also) {
        let asked = SocketAddr::new(ip, port);
        let (udp, tcp) = (give(Role::DnsUdp, asked), give(Role::DnsTcp, asked));
        let (Some(udp), Some(tcp)) = (udp, tcp) else {
            break;
        };
        let pair = Pair::of(asked, udp.into(), tcp.into())?;
        port = pair.addr.port();
        pairs.push(pair);
    }
    Ok(pairs)
}

/// `also` may be missing: not every namespace has IPv6.
pub(super) fn open_all(ip: IpAddr, also: Option<IpAddr>, port: u16) -> io::Result<Vec<Pair>> {
    let mut result = open_once(ip, also, port);
    for _ in 1..ATTEMPTS_MAX {
        match &result {
            Err(error) if port == 0 && error.kind() == ErrorKind::AddrInUse => {
                result = open_once(ip, also, port);
            }
            _ => break,
        }
    }
    result
}

fn open_once(ip: IpAddr, also: Option<IpAddr>, port: u16) -> io::Result<Vec<Pair>> {
    let mut pairs = vec![open_pair(SocketAddr::new(ip, port))?];
    let port = pairs[0].addr.port();
    if let Some(also) = also {
        match open_pair(SocketAddr::new(also, port)) {
            Ok(pair) => pairs.push(pair),
            Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(error),
            Err(error) => {
                log::info(format_args!(
                    "names are answered at {ip} only: {also}: {error}"
                ));
            }
        }
    }
    Ok(pairs)
}

fn open_pair(addr: SocketAddr) -> io::Result<Pair> {
    let udp = UdpSocket::bind(addr)?;
    let tcp = TcpListener::bind(udp.local_addr()?)?;
    Pair::of(addr, udp, tcp)
}

impl Pair {
    /// The same sockets once more.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            udp: self.udp.try_clone()?,
            tcp: self.tcp.try_clone()?,
            ..*self
        })
    }

    fn of(asked: SocketAddr, udp: UdpSocket, tcp: TcpListener) -> io::Result<Self> {
        let addr = udp.local_addr()?;
        udp.set_nonblocking(true)?;
        tcp.set_nonblocking(true)?;
        Ok(Self {
            asked,
            addr,
            udp,
            tcp,
        })
    }
}
