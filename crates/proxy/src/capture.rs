//! Where a redirected connection was made to, and which listener serves it therefore. Called by
//! `connection` before anything else is decided; must never read a byte of the connection.

use crate::connection::Client;
use crate::http1::Link;
use rt::Tcp;
use rustix::net::{getsockname, sockopt};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// How long a connection waits for the control plane to say where its destination is. Longer than a
/// round trip to it takes under load, and short enough for a client to be told in time.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Hands the connection to the listener that has the address it was made to. `false` if it cannot
/// be served: it was not redirected, or was meant for the sidecar itself and would come back.
pub(crate) fn hand_over(client: &mut Client, link: &Link) -> bool {
    let view = client.worker.view();
    let Some(listener) = view.snapshot.listener(client.place, &client.listener) else {
        return false;
    };
    if !listener.original_destination {
        return true;
    }
    let named = client.destination;
    let Some(destination) = named.or_else(|| original_destination(&link.stream.tcp)) else {
        crate::log::debug(format_args!("{}: not redirected here", client.peer));
        return false;
    };
    client.destination = Some(destination);
    if let Some((place, listener)) = view.snapshot.captured(destination, listener.direction) {
        (client.place, client.listener) = (place, Arc::clone(&listener.name));
    }
    true
}

/// Whether it is known where the connection may go to.
pub(crate) fn is_discovered(client: &Client) -> bool {
    let view = client.worker.view();
    let listener = view.snapshot.listener(client.place, &client.listener);
    listener.is_none_or(|listener| !listener.awaits)
}

/// Waits until it is known where the connection may go to, asking for it. `false` if nobody says
/// so in time.
pub(crate) async fn await_discovery(client: &Client) -> bool {
    let worker = &client.worker;
    worker.want(&client.listener);
    worker.reactor.deadline_after(DISCOVERY_TIMEOUT);
    let known = poll_fn(|_| match is_discovered(client) {
        true => Poll::Ready(true),
        false if worker.reactor.is_expired() => Poll::Ready(false),
        false => {
            worker.await_snapshot();
            Poll::Pending
        }
    });
    let known = known.await;
    worker.reactor.clear_deadline();
    if !known {
        let (peer, listener) = (client.peer, &client.listener);
        crate::log::warn(format_args!(
            "{peer}: the control plane has not said where {listener} is"
        ));
    }
    known
}

/// An address as its family writes it: sockets of both families show IPv4 inside IPv6.
pub(crate) fn canonical(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), addr.port()),
        IpAddr::V6(_) => addr,
    }
}

/// What the kernel remembers of a redirected connection; `None` if it was made to us.
fn original_destination(tcp: &Tcp) -> Option<SocketAddr> {
    let fd = tcp.as_fd();
    let accepted = canonical(SocketAddr::try_from(getsockname(fd).ok()?).ok()?);
    let original = match accepted {
        SocketAddr::V4(_) => sockopt::ip_original_dst(fd).map(SocketAddr::V4),
        SocketAddr::V6(_) => sockopt::ipv6_original_dst(fd).map(SocketAddr::V6),
    };
    original.ok().filter(|original| *original != accepted)
}
