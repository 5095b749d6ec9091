//! A request's hold on its stream: heads, bodies, windows, the end. All waiting is the running
//! task's; dropping a handle ends its stream. Used by `forward`, `body` and `request`.

use super::mux::{Life, Mux, OUTPUT_MAX, SPARE_HEADS};
use crate::error::{Error, Flag, Result};
use crate::exchange::Exchange;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use wire::h2::{Code, Dialect, Key};

/// What the announced size of a head counts per field (RFC 9113 §6.5.2).
const FIELD_OVERHEAD: usize = 32;
/// Pseudo-headers of a request: method, path, authority, scheme.
const PSEUDO_FIELDS: usize = 4;

/// How long the end of a complete body is waited for.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// Which head arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Interim,
    Final,
}

pub(crate) struct Handle {
    mux: Rc<Mux>,
    key: Key,
}

impl Handle {
    /// Begins a stream towards an upstream; `None` when the connection takes no further one.
    pub(crate) fn open(mux: &Rc<Mux>) -> Option<Self> {
        if mux.life() != Life::Open {
            return None;
        }
        let mut core = mux.core();
        let key = core.wire.open()?;
        core.begin(key, mux.worker.reactor.current());
        mux.carried.set(mux.carried.get() + 1);
        drop(core);
        Some(Self {
            mux: Rc::clone(mux),
            key,
        })
    }

    /// A stream that the downstream began; whoever serves it says so with [`Handle::own`].
    pub(super) fn adopt(mux: &Rc<Mux>, key: Key) -> Self {
        Self {
            mux: Rc::clone(mux),
            key,
        }
    }

    /// Makes the running task the one that news of the stream wakes.
    pub(crate) fn own(&self) {
        self.mux.core().slot(self.key).task = self.mux.worker.reactor.current();
    }

    pub(crate) fn reactor(&self) -> &Rc<rt::Reactor> {
        &self.mux.worker.reactor
    }

    /// When a certificate of the connection ends, in ms of the reactor's clock.
    pub(crate) fn expires_ms(&self) -> u64 {
        self.mux.expires_ms
    }

    /// Whether the connection has carried another request before this one.
    pub(crate) fn is_reused(&self) -> bool {
        self.mux.carried.get() > 1
    }

    /// Sends a request's head.
    ///
    /// # Errors
    /// 431 if the peer says that it takes no head of that size: it would end the connection, which
    /// others use as well.
    pub(crate) fn send_request(&self, exchange: &Exchange, bytes: &[u8], end: bool) -> Result<()> {
        let (head, extra) = (&exchange.request, &exchange.request_extra);
        let mut core = self.mux.core();
        let counted = match self.mux.dialect {
            // As HTTP/1 does, so that what one sidecar takes fits through the next.
            Dialect::Hop => 0,
            Dialect::Public => FIELD_OVERHEAD * (head.lines.len() + PSEUDO_FIELDS),
        };
        let size = head.len + extra.len() + counted;
        if size > core.wire.peer_head_bytes() {
            return Err(Error::with_status(Flag::TooLarge, 431));
        }
        core.wire.send_request(self.key, head, bytes, extra, end);
        drop(core);
        self.mux.wake_driver();
        Ok(())
    }

    /// Sends a response's head, interim or final.
    pub(crate) fn send_response(&self, exchange: &Exchange, bytes: &[u8], end: bool) {
        let (head, extra) = (&exchange.response, &exchange.response_extra);
        let mut core = self.mux.core();
        core.wire.send_response(self.key, head, bytes, extra, end);
        drop(core);
        self.mux.wake_driver();
    }

    /// Sends an answer of our own with all of its small body; `None`: an interim one.
    pub(crate) fn send_status(&self, status: u16, lines: &[u8], body: Option<&[u8]>) {
        let mut core = self.mux.core();
        core.wire
            .send_status(self.key, status, lines, body == Some(b""));
        let body = body.unwrap_or(b"");
        if !body.is_empty() && core.wire.send_data(self.key, body, true) < body.len() {
            // A window too small for a line of text: the status has to do.
            core.wire.reset(self.key, Code::NoError);
        }
        drop(core);
        self.mux.wake_driver();
    }

    /// Waits for a response's next head and puts it into `exchange` and `text`.
    pub(crate) fn poll_head(
        &self,
        exchange: &mut Exchange,
        text: &mut Vec<u8>,
    ) -> Poll<io::Result<Came>> {
        let mut core = self.mux.core();
        let slot = core.slot(self.key);
        if let Some(mut storage) = slot.heads.pop_front() {
            std::mem::swap(text, &mut storage.0);
            std::mem::swap(&mut exchange.response, &mut storage.1);
            if core.spare.len() < SPARE_HEADS {
                core.spare.push(storage);
            }
            let interim = matches!(exchange.response.status, 100 | 102..=199);
            return Poll::Ready(Ok(if interim { Came::Interim } else { Came::Final }));
        }
        match slot.lost {
            Some(kind) => Poll::Ready(Err(kind.into())),
            None => self.pending(),
        }
    }

    /// How much of a body may be sent now.
    pub(crate) fn room(&self) -> usize {
        let mut core = self.mux.core();
        let lost = core.slot(self.key).lost.is_some();
        let output = OUTPUT_MAX.saturating_sub(core.wire.output_len());
        match lost {
            true => 0,
            false => core.wire.sendable(self.key).min(output),
        }
    }

    /// Waits until some of a body may be sent.
    pub(crate) fn poll_room(&self) -> Poll<io::Result<()>> {
        let mut core = self.mux.core();
        if let Some(kind) = core.slot(self.key).lost {
            return Poll::Ready(Err(kind.into()));
        }
        if core.wire.output_len() < OUTPUT_MAX && core.wire.sendable(self.key) > 0 {
            return Poll::Ready(Ok(()));
        }
        if !std::mem::replace(&mut core.slot(self.key).is_blocked, true) {
            core.blocked.push_back(self.key);
        }
        drop(core);
        self.pending()
    }

    /// Sends a part of a body, of which the caller knows that there is room for it.
    pub(crate) fn send(&self, payload: &[u8], end: bool) -> usize {
        let sent = self.mux.core().wire.send_data(self.key, payload, end);
        self.mux.wake_driver();
        sent
    }

    pub(crate) fn send_trailers(&self, lines: &[u8]) {
        self.mux.core().wire.send_trailers(self.key, lines);
        self.mux.wake_driver();
    }

    /// Shows what has arrived of the body, whether that was the end, and the trailers.
    pub(crate) fn received<T>(&self, show: impl FnOnce(&[u8], bool, &[u8]) -> T) -> T {
        let mut core = self.mux.core();
        let slot = core.slot(self.key);
        show(slot.body(), slot.ended, &slot.trailers)
    }

    /// Takes `count` bytes off what has arrived.
    pub(crate) fn take(&self, count: usize) {
        if count == 0 {
            return;
        }
        let mut core = self.mux.core();
        core.take(self.key, count, &self.mux.worker);
        let wake = core.wire.output_len() > 0;
        drop(core);
        if wake {
            self.mux.wake_driver();
        }
    }

    /// Waits for more of the body, or its end; `seen` bytes of it have been looked at.
    pub(crate) fn poll_received(&self, seen: usize) -> Poll<io::Result<()>> {
        let mut core = self.mux.core();
        let slot = core.slot(self.key);
        if slot.body().len() > seen || slot.ended {
            return Poll::Ready(Ok(()));
        }
        match slot.lost {
            Some(kind) => Poll::Ready(Err(kind.into())),
            None => self.pending(),
        }
    }

    /// Waits until the whole body, of at most `limit` bytes, is there.
    ///
    /// # Errors
    /// `TooLarge`, or the downstream's.
    pub(crate) async fn gather(&self, limit: usize, start_clock: impl Fn()) -> Result<()> {
        loop {
            let (seen, ended) = self.received(|bytes, ended, _| (bytes.len(), ended));
            if seen > limit {
                return Err(Error::new(Flag::TooLarge));
            }
            if ended {
                return Ok(());
            }
            self.widen(seen);
            start_clock();
            poll_fn(|_| self.poll_received(seen))
                .await
                .map_err(Error::downstream)?;
        }
    }

    /// Lets the peer send on although nothing was taken of the `seen` bytes that are there.
    fn widen(&self, seen: usize) {
        let mut core = self.mux.core();
        let more = core.widen(self.key, seen);
        drop(core);
        if more {
            self.mux.wake_driver();
        }
    }

    /// Waits a moment for the end of a body of which every byte has come: some clients say it in a
    /// frame of its own, and take a reset before it for a failure.
    pub(crate) async fn await_end(&self) {
        self.reactor().deadline_after(END_PATIENCE);
        // Whatever comes instead is the codec's to judge.
        let _ = poll_fn(|_| self.poll_received(0)).await;
    }

    /// Whether the peer gave the stream up, or the connection broke.
    pub(crate) fn is_lost(&self) -> bool {
        self.mux.core().slot(self.key).lost.is_some()
    }

    /// Whether the peer is a sidecar.
    pub(crate) fn is_hop(&self) -> bool {
        self.mux.dialect == Dialect::Hop
    }

    /// Lets no further stream begin on its connection.
    pub(crate) fn retire(&self) {
        self.mux.retire();
    }

    /// Gives the stream up.
    pub(crate) fn reset(&self, code: Code) {
        self.mux.core().wire.reset(self.key, code);
        self.mux.wake_driver();
    }

    fn pending<T>(&self) -> Poll<io::Result<T>> {
        if self.mux.worker.reactor.is_expired() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.mux.release(self.key);
    }
}
