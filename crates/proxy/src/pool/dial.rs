//! Making one connection to an endpoint: TCP, and mesh TLS where the endpoint wants it.
//! Called by the pool; knows nothing of what becomes of the connection.

use super::{Inner, Open};
use crate::buffer::Inbox;
use crate::error::{Error, Flag, Result};
use crate::snapshot::{Endpoint, Mtls};
use crate::stream::Stream;
use crate::tls::handshake;
use crate::trust::Shown;
use crate::worker::{Proof, Worker};
use identity::tls::Side;
use rt::Tcp;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// A new connection.
pub(crate) struct Dialled {
    pub(crate) stream: Stream,
    /// What the endpoint said before it was asked.
    pub(crate) inbox: Inbox,
    pub(crate) open: Open,
    /// When one of its certificates ends, in ms of the reactor's clock.
    pub(crate) expires_ms: u64,
    /// What the endpoint proved itself by, where the connection is worth more than that.
    pub(crate) shown: Option<Box<Shown>>,
    /// How long the TCP handshake took.
    pub(crate) round_trip: Duration,
}

/// Connects within the connect timeout.
pub(super) async fn run(worker: &Rc<Worker>, endpoint: &Endpoint, inner: Inner) -> Result<Dialled> {
    let limit = worker.view().snapshot.config.limits.connect_timeout;
    worker.reactor.deadline_after(limit);
    let began = worker.reactor.now();
    let tcp = Tcp::connect(&worker.reactor, endpoint.address).await;
    let round_trip = worker.reactor.now().duration_since(began);
    let tcp = tcp.map_err(|error| Error::upstream(Flag::ConnectFailed, error))?;
    let mut stream = Stream::plain(tcp, &worker.buffers);
    let mut inbox = Inbox::new(&worker.buffers);
    let (mut expires_ms, mut shown) = (u64::MAX, None);
    if let Some(mtls) = &endpoint.mtls {
        let proof = shake_hands(worker, endpoint, (mtls, inner), &mut stream, &mut inbox).await?;
        expires_ms = proof.expires_ms(worker.reactor.now_ms());
        if inner == Inner::Tcp {
            shown = Some(Shown::new(proof.chain, mtls.clients.bundle));
        }
    }
    // A server of HTTP/1 speaks only when asked; what it said would be taken for an answer.
    if inner == Inner::Http1 && !inbox.holds_nothing() {
        return Err(Error::new(Flag::HandshakeFailed));
    }
    Ok(Dialled {
        stream,
        inbox,
        open: Open::count(worker),
        expires_ms,
        shown,
        round_trip,
    })
}

async fn shake_hands(
    worker: &Rc<Worker>,
    endpoint: &Endpoint,
    (mtls, inner): (&Mtls, Inner),
    stream: &mut Stream,
    inbox: &mut Inbox,
) -> Result<Proof> {
    let view = worker.view();
    let name = identity::tls::endpoint_name(endpoint.address);
    let config = match inner {
        Inner::Http1 => &mtls.clients.http,
        Inner::H2 => &mtls.clients.h2,
        Inner::Hop => &mtls.clients.hop,
        Inner::Tcp => &mtls.clients.tcp,
    };
    let proven = handshake::connect(stream, inbox, config, name).await;
    let reason = proven.as_ref().err().map(ToString::to_string);
    let proof = worker.prove(&view, proven, Side::Upstream(&mtls.clients.expected));
    proof.map_err(|failure| {
        let (address, label) = (endpoint.address, failure.label());
        let reason = reason.unwrap_or_default();
        crate::log::info(format_args!("handshake with {address}: {label} {reason}"));
        let source = io::Error::other(failure.label());
        Error::upstream(Flag::HandshakeFailed, source)
    })
}
