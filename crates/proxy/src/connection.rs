//! The life of a downstream connection: what it speaks, who is at the other end, requests until it
//! ends. Spawned by `worker` for every accepted connection.

use crate::body::Source;
use crate::buffer::Inbox;
use crate::capture;
use crate::edge::Edge;
use crate::forward::Peer;
use crate::http1;
use crate::http2;
use crate::pool::Pinned;
use crate::request;
use crate::stream::Stream;
use crate::tcp::detect::Heard;
use crate::tcp::{self, Opaque, detect};
use crate::telemetry::metrics::{self, Protocol, Slot};
use crate::tls::handshake;
use crate::trust::{Shown, Standing};
use crate::worker::{Accepted, Open, View, Worker};
use identity::SpiffeId;
use identity::credentials::Fingerprint;
use identity::tls::{ALPN_H2, ALPN_HOP, ALPN_PUBLIC_H2, ALPN_TCP, Side};
use model::Direction;
use rt::Tcp;
use rustls::ServerConfig;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use wire::h2::Dialect;
use wire::http1::Body;

/// Requests that a connection may make before others have a turn: those that we answer ourselves,
/// pipelined, never have to wait.
const REQUESTS_MAX: u32 = 64;

/// Who is at the other end of a downstream connection: the same for all of its requests.
pub(crate) struct Client {
    pub(crate) worker: Rc<Worker>,
    pub(crate) peer: SocketAddr,
    /// Where it wanted to go, if it was redirected here or a load balancer says so.
    pub(crate) destination: Option<SocketAddr>,
    /// Proven by mutual TLS; a plaintext peer has none.
    pub(crate) id: Option<SpiffeId>,
    /// When one of the certificates of mesh TLS ends, in ms of the reactor's clock.
    pub(crate) expires_ms: u64,
    /// The authorities that the proof rests on.
    bundle: Option<Fingerprint>,
    /// The proof itself.
    shown: Option<Box<Shown>>,
    pub(crate) listener: Arc<str>,
    pub(crate) place: usize,
    /// The counters of the last request, and what they belong to.
    pub(crate) slot: RefCell<Option<CachedSlot>>,
    pub(crate) direction: Direction,
    _open: Open,
}

/// Counters, and for which view, cluster and protocol they are.
pub(crate) struct CachedSlot {
    pub(crate) generation: u64,
    pub(crate) cluster: Option<usize>,
    pub(crate) protocol: Protocol,
    pub(crate) slot: Arc<Slot>,
}

/// The downstream side of a request.
pub(crate) struct Downstream<'a> {
    pub(crate) client: &'a Client,
    pub(crate) link: Link<'a>,
}

/// What a request came over.
pub(crate) enum Link<'a> {
    Http1(&'a mut http1::Link),
    Http2(&'a mut http2::Link),
}

impl Downstream<'_> {
    /// The request's head, at the beginning.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.link {
            Link::Http1(link) => link.inbox.bytes(),
            Link::Http2(link) => &link.text,
        }
    }

    pub(crate) fn peer(&self) -> Peer<'_> {
        match &self.link {
            Link::Http1(link) => Peer::Http1(&link.stream),
            Link::Http2(link) => Peer::Http2(&link.stream),
        }
    }

    /// Both directions at once: what of the request's body is still to come, and where its answer
    /// goes to.
    pub(crate) fn split<'a>(
        &'a mut self,
        body: &'a mut Body,
        payload: &'a mut u64,
    ) -> (Source<'a>, Peer<'a>) {
        match &mut self.link {
            Link::Http1(link) => {
                let http1::Link { stream, inbox, .. } = &mut **link;
                let stream = &*stream;
                let source = Source::Http1 {
                    stream,
                    inbox,
                    body,
                };
                (source, Peer::Http1(stream))
            }
            Link::Http2(link) => {
                let stream = &link.stream;
                (Source::Http2 { stream, payload }, Peer::Http2(stream))
            }
        }
    }

    /// Where the upstream connection stays that this downstream has for itself; streams share.
    pub(crate) fn pinned(&mut self) -> Option<&mut Option<Box<Pinned>>> {
        match &mut self.link {
            Link::Http1(link) => Some(&mut link.pinned),
            Link::Http2(_) => None,
        }
    }

    /// The head and the first `body` bytes behind it are done with.
    pub(crate) fn consume(&mut self, head: usize, body: usize) {
        match &mut self.link {
            Link::Http1(link) => link.inbox.consume(head + body),
            Link::Http2(link) => link.stream.take(body),
        }
    }
}

impl Client {
    fn open(worker: Rc<Worker>, accepted: Accepted) -> std::io::Result<(Self, http1::Link)> {
        let Accepted {
            fd,
            peer,
            listener,
            place,
            direction,
            open: _open,
        } = accepted;
        let tcp = Tcp::adopt(&worker.reactor, fd)?;
        let stream = Stream::plain(tcp, &worker.buffers);
        let inbox = Inbox::new(&worker.buffers);
        worker.recorder.connections().opened(direction);
        let client = Self {
            worker,
            peer,
            destination: None,
            id: None,
            expires_ms: u64::MAX,
            bundle: None,
            shown: None,
            listener,
            place,
            slot: RefCell::new(None),
            direction,
            _open,
        };
        let link = http1::Link {
            stream,
            inbox,
            pinned: None,
        };
        Ok((client, link))
    }
}

impl Client {
    /// What has become of the proof of the peer's identity, if there is one.
    pub(crate) fn standing(&self, view: &View) -> Standing {
        let shown = self.shown.as_ref();
        shown.map_or(Standing::Same, |shown| {
            shown.standing(view, Side::Downstream)
        })
    }

    /// Whether the proof, which is still good, goes with an authority that is to go.
    pub(crate) fn is_outgoing(&self, view: &View) -> bool {
        self.shown.as_ref().is_some_and(|shown| !shown.lasts(view))
    }

    /// Whether what is trusted now is what the peer has proven itself to. Otherwise it is to come
    /// anew, even if it is still trusted.
    pub(crate) fn is_trusted(&self, view: &View) -> bool {
        let now = view.snapshot.identity.as_ref();
        let now = now.map(|identity| identity.credentials.bundle_fingerprint());
        self.bundle.is_none() || self.bundle == now
    }

    /// Whether the connection may carry another request after the one that is answered now.
    pub(crate) fn may_stay(&self) -> bool {
        !self.worker.is_draining() && self.is_trusted(&self.worker.view())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.worker.recorder.connections().closed(self.direction);
    }
}

/// What a connection turns out to speak.
enum Spoken {
    Http1,
    Http2(Dialect),
    /// Something to be passed on unread.
    Opaque(Box<Opaque>),
    /// Nothing that we would serve.
    Nothing,
}

/// Serves a connection until it ends; `None` if it has ended already.
pub(crate) fn serve(
    worker: Rc<Worker>,
    accepted: Accepted,
) -> Option<impl Future<Output = ()> + 'static> {
    let (mut client, mut link) = Client::open(worker, accepted).ok()?;
    // Boxed is what is rare: the task of an idle connection of HTTP/1 is to stay small.
    Some(async move {
        match find_out(&mut client, &mut link).await {
            Spoken::Nothing => {}
            Spoken::Opaque(opaque) => Box::pin(tcp::serve(&client, link, *opaque)).await,
            Spoken::Http1 => serve_http1(&client, &mut link).await,
            Spoken::Http2(dialect) => {
                let http1::Link { stream, inbox, .. } = link;
                Box::pin(http2::serve::run(client, stream, inbox, dialect)).await;
            }
        }
    })
}

async fn serve_http1(client: &Client, link: &mut http1::Link) {
    let mut served = 0_u32;
    while request::serve_http1(client, link).await {
        served = served.wrapping_add(1);
        if served.is_multiple_of(REQUESTS_MAX) {
            client.worker.reactor.yield_now().await;
        }
    }
}

/// Finds out what the peer speaks, shaking hands if that is mesh TLS.
async fn find_out(client: &mut Client, link: &mut http1::Link) -> Spoken {
    if has_header(client) {
        match Box::pin(tcp::proxy_header::read(client, link)).await {
            Ok(destination) => client.destination = destination,
            Err(error) => {
                let peer = client.peer;
                crate::log::info(format_args!("{peer}: no PROXY header: {error}"));
                return Spoken::Nothing;
            }
        }
    }
    let is_served = capture::hand_over(client, link);
    if !is_served || !capture::is_discovered(client) && !await_discovery(client).await {
        // Nobody is to take this for an answer without content.
        link.stream.tcp.abort_on_close();
        return Spoken::Nothing;
    }
    match detect::hear(client, link).await {
        Heard::Mesh => Box::pin(shake_hands(client, link)).await,
        Heard::Http1 => Spoken::Http1,
        Heard::Http2 => Spoken::Http2(Dialect::Public),
        Heard::Opaque(opaque) => Spoken::Opaque(Box::new(opaque)),
        Heard::Refused(reason) => {
            let counters = client.worker.recorder.connections();
            counters.handshake_failed(metrics::Side::Downstream, reason);
            Spoken::Nothing
        }
        Heard::Nothing => Spoken::Nothing,
    }
}

/// Rare: boxed, for the sake of the tasks of idle connections.
fn await_discovery(client: &Client) -> Pin<Box<dyn Future<Output = bool> + '_>> {
    Box::pin(capture::await_discovery(client))
}

/// Whether the client's connection begins with a PROXY header.
fn has_header(client: &Client) -> bool {
    let view = client.worker.view();
    let listener = view.snapshot.listener(client.place, &client.listener);
    listener.is_some_and(|listener| listener.proxy_protocol)
}

async fn shake_hands(client: &mut Client, link: &mut http1::Link) -> Spoken {
    // Taken now: the connection may have been silent since before a change of certificates.
    let view = client.worker.view();
    let listener = view.snapshot.listener(client.place, &client.listener);
    if let Some(Edge::Tls(terminal)) = listener.and_then(|listener| listener.edge.as_ref()) {
        let config = Arc::clone(&terminal.config);
        return terminate(client, link, &config).await;
    }
    let Some(identity) = &view.snapshot.identity else {
        let peer = client.peer;
        crate::log::debug(format_args!("{peer}: TLS, but there is no identity"));
        return Spoken::Nothing;
    };
    client
        .worker
        .reactor
        .deadline_after(view.snapshot.config.limits.header_timeout);
    let proven = handshake::accept(&mut link.stream, &mut link.inbox, &identity.server).await;
    let reason = proven.as_ref().err().map(ToString::to_string);
    match client.worker.prove(&view, proven, Side::Downstream) {
        Ok(proof) => {
            client.expires_ms = proof.expires_ms(client.worker.reactor.now_ms());
            client.id = Some(proof.id);
            let bundle = identity.credentials.bundle_fingerprint();
            client.bundle = Some(bundle);
            let spoken = match &*proof.alpn {
                ALPN_HOP => Spoken::Http2(Dialect::Hop),
                ALPN_H2 | ALPN_PUBLIC_H2 => Spoken::Http2(Dialect::Public),
                ALPN_TCP => Spoken::Opaque(Box::default()),
                _ => Spoken::Http1,
            };
            client.shown = Some(Shown::new(proof.chain, bundle));
            spoken
        }
        Err(failure) => {
            let (reason, label) = (reason.unwrap_or_default(), failure.label());
            crate::log::info(format_args!(
                "handshake with {}: {label} {reason}",
                client.peer
            ));
            Spoken::Nothing
        }
    }
}

/// Shakes hands with a client outside of the mesh, who proves nothing.
async fn terminate(client: &Client, link: &mut http1::Link, config: &Arc<ServerConfig>) -> Spoken {
    let limit = client.worker.view().snapshot.config.limits.header_timeout;
    client.worker.reactor.deadline_after(limit);
    let accepted = handshake::accept(&mut link.stream, &mut link.inbox, config).await;
    let counters = client.worker.recorder.connections();
    match accepted {
        Ok(accepted) => {
            counters.handshake(metrics::Side::Downstream, accepted.resumed);
            match accepted.alpn.as_deref() {
                Some(ALPN_PUBLIC_H2) => Spoken::Http2(Dialect::Public),
                _ => Spoken::Http1,
            }
        }
        Err(failure) => {
            let reason = failure.classify();
            counters.handshake_failed(metrics::Side::Downstream, reason);
            crate::log::debug(format_args!("handshake with {}: {failure}", client.peer));
            Spoken::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, F>(_: impl FnOnce(A, B) -> Option<F>) -> usize {
        size_of::<F>()
    }

    /// What every idle connection costs, with its stream and its place in the reactor beside it. If
    /// it has become smaller: good, correct the bounds. If larger: box what is rare.
    #[test]
    fn an_idle_connection_stays_small() {
        let size = size_of_future(serve);
        assert!((1400..=1800).contains(&size), "{size}");
        assert!(size_of::<Stream>() <= 64, "{}", size_of::<Stream>());
        assert!(
            size_of::<crate::tls::Tls>() <= 1024,
            "{}",
            size_of::<crate::tls::Tls>()
        );
    }
}
