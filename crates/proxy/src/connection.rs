//! The life of a downstream connection: what it speaks, who is at the other end, requests until it
//! ends. Spawned by `worker` for every accepted connection.

use crate::buffer::Inbox;
use crate::http1;
use crate::request;
use crate::stream::Stream;
use crate::telemetry::metrics::Slot;
use crate::tls::handshake;
use crate::worker::{Accepted, Open, Worker};
use identity::SpiffeId;
use model::{Direction, TlsMode};
use rt::Tcp;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use wire::sniff::{Sniffed, sniff};

/// Requests that a connection may make before others have a turn: those that we answer ourselves,
/// pipelined, never have to wait.
const REQUESTS_MAX: u32 = 64;

/// One downstream connection.
pub(crate) struct Downstream {
    pub(crate) worker: Rc<Worker>,
    pub(crate) stream: Stream,
    pub(crate) inbox: Inbox,
    pub(crate) peer: SocketAddr,
    /// Proven by mutual TLS; a plaintext peer has none.
    pub(crate) id: Option<SpiffeId>,
    pub(crate) listener: Arc<str>,
    pub(crate) place: usize,
    /// The counters of the last request, and for which view and cluster they are.
    pub(crate) slot: Option<(u64, Option<usize>, Arc<Slot>)>,
    direction: Direction,
    _open: Open,
}

impl Downstream {
    fn open(worker: Rc<Worker>, accepted: Accepted) -> std::io::Result<Self> {
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
        Ok(Self {
            worker,
            stream,
            inbox,
            peer,
            id: None,
            listener,
            place,
            slot: None,
            direction,
            _open,
        })
    }
}

impl Drop for Downstream {
    fn drop(&mut self) {
        self.worker.recorder.connections().closed(self.direction);
    }
}

/// Serves a connection until it ends.
pub(crate) async fn serve(worker: Rc<Worker>, accepted: Accepted) {
    let Ok(mut down) = Downstream::open(worker, accepted) else {
        return;
    };
    let view = down.worker.view();
    let listener = view.snapshot.listener(down.place, &down.listener);
    let tls = listener.map_or(TlsMode::Disabled, |listener| listener.tls);
    drop(view);
    if tls != TlsMode::Disabled && !secure(&mut down, tls).await {
        return;
    }
    let mut served = 0_u32;
    while request::serve(&mut down).await {
        served = served.wrapping_add(1);
        if served.is_multiple_of(REQUESTS_MAX) {
            down.worker.reactor.yield_now().await;
        }
    }
}

/// Finds out whether the peer speaks mesh TLS and shakes hands if so; `false` ends the connection.
async fn secure(down: &mut Downstream, mode: TlsMode) -> bool {
    loop {
        match sniff(down.inbox.bytes()) {
            Sniffed::NeedMore => {}
            Sniffed::Tls => return Box::pin(shake_hands(down)).await,
            _ if mode == TlsMode::Strict => {
                let reason = identity::HandshakeFailure::NotTls;
                let side = crate::telemetry::metrics::Side::Downstream;
                down.worker
                    .recorder
                    .connections()
                    .handshake_failed(side, reason);
                return false;
            }
            _ => return true,
        }
        let more = if down.inbox.is_empty() {
            let limit = down.worker.view().snapshot.config.limits.idle_timeout;
            down.worker.reactor.deadline_after(limit);
            let began = http1::await_bytes(down).await;
            // One clock for all of the first bytes, however they trickle in.
            let limit = down.worker.view().snapshot.config.limits.header_timeout;
            down.worker.reactor.deadline_after(limit);
            began
        } else {
            http1::read_more(down).await
        };
        if !more {
            return false;
        }
    }
}

async fn shake_hands(down: &mut Downstream) -> bool {
    // Taken now: the connection may have been silent since before a change of certificates.
    let view = down.worker.view();
    let Some(identity) = &view.snapshot.identity else {
        crate::log::debug(format_args!("{}: TLS, but there is no identity", down.peer));
        return false;
    };
    down.worker
        .reactor
        .deadline_after(view.snapshot.config.limits.header_timeout);
    let proven = handshake::accept(&mut down.stream, &mut down.inbox, &identity.server).await;
    let reason = proven.as_ref().err().map(ToString::to_string);
    match down
        .worker
        .prove(&view, proven, identity::tls::Side::Downstream)
    {
        Ok(id) => {
            down.id = Some(id);
            true
        }
        Err(failure) => {
            let (reason, label) = (reason.unwrap_or_default(), failure.label());
            crate::log::info(format_args!(
                "handshake with {}: {label} {reason}",
                down.peer
            ));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, F>(_: impl FnOnce(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// What every idle connection costs, with its stream and its place in the reactor beside it. If
    /// it has become smaller: good, correct the bounds. If larger: box what is rare.
    #[test]
    fn an_idle_connection_stays_small() {
        let size = size_of_future(serve);
        assert!((1200..=1500).contains(&size), "{size}");
        assert!(size_of::<Stream>() <= 64, "{}", size_of::<Stream>());
        assert!(
            size_of::<crate::tls::Tls>() <= 1024,
            "{}",
            size_of::<crate::tls::Tls>()
        );
    }
}
