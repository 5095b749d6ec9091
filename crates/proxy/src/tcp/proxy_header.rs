//! Headers of the PROXY protocol: read at the start of downstream connections, written at that of
//! upstream ones. Called where the configuration asks for them, by `connection` and `tcp`.

use crate::connection::Client;
use crate::error::{Error, Flag, Result};
use crate::http1::{self, Link};
use crate::stream::Stream;
use model::ProxyProtocol;
use rustix::net::getsockname;
use std::io::IoSlice;
use std::net::SocketAddr;
use wire::proxy_protocol;

/// Takes the header off the connection; its source becomes the client's address. Returns where the
/// client wanted to go, if the header says so.
///
/// # Errors
/// `DownstreamProtocol` for anything else than a header, `DownstreamClosed` for one that does not
/// come to its end.
pub(crate) async fn read(client: &mut Client, link: &mut Link) -> Result<Option<SocketAddr>> {
    // Its sender has it ready when it connects.
    let limit = client.worker.view().snapshot.config.limits.header_timeout;
    client.worker.reactor.deadline_after(limit);
    loop {
        match proxy_protocol::parse(link.inbox.bytes()) {
            Ok(Some(header)) => {
                link.inbox.consume(header.len);
                if let Some((source, _)) = header.addresses {
                    client.peer = source;
                }
                return Ok(header.addresses.map(|(_, destination)| destination));
            }
            Ok(None) => {}
            Err(_) => return Err(Error::new(Flag::DownstreamProtocol)),
        }
        if !http1::read_more(link).await {
            return Err(Error::new(Flag::DownstreamClosed));
        }
    }
}

/// Where a connection wanted to go: as its own header says, else where it was accepted.
///
/// # Errors
/// `DownstreamClosed`: the kernel knows no address of a connection that is gone.
pub(super) fn destination(link: &Link, named: Option<SocketAddr>) -> Result<SocketAddr> {
    let accepted = || SocketAddr::try_from(getsockname(link.stream.tcp.as_fd()).ok()?).ok();
    named
        .or_else(accepted)
        .ok_or_else(|| Error::new(Flag::DownstreamClosed))
}

/// Writes a header that says whose connection this is, and where it was to go.
///
/// # Errors
/// `UpstreamClosed`.
pub(super) fn write(
    version: ProxyProtocol,
    (source, destination): (SocketAddr, SocketAddr),
    into: &Stream,
) -> Result<()> {
    let mut header = Vec::new();
    match version {
        ProxyProtocol::V1 => proxy_protocol::write_v1(source, destination, &mut header),
        ProxyProtocol::V2 => proxy_protocol::write_v2(source, destination, &mut header),
    }
    into.write(&[IoSlice::new(&header)])
        .map_err(|error| Error::upstream(Flag::UpstreamClosed, error))
}
