//! The driver of a connection: the only one that reads and writes its socket, in one task. Reads
//! what is there, hands it to the streams, writes what they left; looks at the clock.

use super::mux::{Core, Life, Mux, OUTPUT_MAX, STALE_MS};
use super::serve::{self, Arrival};
use crate::buffer::Inbox;
use crate::connection::Client;
use crate::trust::Standing;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use wire::h2::{Code, Dialect, Event, Key};

/// Times a buffer is filled before others have a turn.
const FILLS_MAX: u32 = 16;
/// Frames that wait although nobody reads them, past which we stop reading as well.
const CHOKED_BYTES: usize = 4 * OUTPUT_MAX;
/// How long before its certificates end a connection takes no further streams: time for those that
/// run, and for the peer to make another. Never more than a tenth of the connection's lifetime.
const RETIRE_BEFORE: Duration = Duration::from_secs(60);
/// How long a retiring connection waits for streams that were on their way when the peer was told.
const LAST_CALL: Duration = Duration::from_secs(1);
/// How long without streams a connection keeps its storage for the next ones.
const REST_AFTER: Duration = Duration::from_secs(2);
/// Heads of one stream that may wait to be taken: interim ones come one at a time.
const HEADS_MAX: usize = 4;
/// How long the peer's end is waited for, so that our last frames are not lost to a reset.
const LINGER: Duration = Duration::from_secs(1);
/// What our pings carry.
const PING: [u8; 8] = *b"leno-png";

/// What the driver knows beside the shared state.
struct Drive {
    inbox: Inbox,
    /// On connections that we accepted.
    client: Option<Rc<Client>>,
    read_ms: u64,
    pinged_ms: Option<u64>,
    idle_ms: u64,
    /// What an idle connection does not need was given back.
    rested: bool,
    retire_ms: u64,
    last_call: LastCall,
}

/// How far the goodbye of a connection that we accepted has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastCall {
    None,
    /// The peer was told to begin nothing more; what it began before is still taken, until then.
    Until(u64),
    Done,
}

impl Mux {
    /// Serves the connection until it ends; `client` is there if we accepted it.
    pub(crate) async fn drive(self: Rc<Self>, inbox: Inbox, client: Option<Rc<Client>>) {
        let now = self.worker.reactor.now_ms();
        let before = (self.expires_ms.saturating_sub(now) / 10).min(millis(RETIRE_BEFORE));
        let mut drive = Drive {
            inbox,
            client,
            read_ms: now,
            pinged_ms: None,
            idle_ms: now,
            rested: false,
            retire_ms: self.expires_ms.saturating_sub(before),
            last_call: LastCall::None,
        };
        self.driver.set(self.worker.reactor.current());
        // Whatever ends the driver, those who wait for it learn of it.
        let end = End(&self);
        let ended = poll_fn(|_| self.poll_drive(&mut drive)).await;
        // A connection that was lost is just that, whatever the clock had to do with it.
        let kind = match ended.as_ref().err().map(io::Error::kind) {
            Some(io::ErrorKind::InvalidData) => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::ConnectionReset,
        };
        self.core().lose_all(kind, &self.worker);
        drop(end);
        // What says why, if the peer still listens.
        let _ = self.flush();
        self.stream.finish();
        if drive.client.is_some() {
            self.linger(&mut drive).await;
        }
    }

    /// Reads until the peer has ended its side as well: closing over unread bytes would be a reset.
    async fn linger(&self, drive: &mut Drive) {
        self.worker.reactor.deadline_after(LINGER);
        let mut left = CHOKED_BYTES;
        while left > 0 {
            let waiting = drive.inbox.bytes().len();
            drive.inbox.consume(waiting);
            left = left.saturating_sub(waiting);
            let filled = poll_fn(|_| {
                // What is still to be sent goes on its way meanwhile.
                let _ = self.stream.poll_flush()?;
                self.stream.poll_fill(&mut drive.inbox)
            });
            if !matches!(filled.await, Ok(1..)) {
                return;
            }
        }
    }

    /// Ready when the connection has ended.
    fn poll_drive(self: &Rc<Self>, drive: &mut Drive) -> Poll<io::Result<()>> {
        // The deadline is a clock here, not a limit of what is read or written.
        self.worker.reactor.clear_deadline();
        // Before anything is read: what is refused comes after the word that nothing more is to
        // begin, or the peer would try the same connection again.
        self.leave_if_asked(drive);
        for fill in 0.. {
            self.take_in(drive)?;
            self.flush()?;
            if fill == FILLS_MAX {
                self.wake_driver();
                break;
            }
            if self.core().wire.output_len() > CHOKED_BYTES {
                break;
            }
            match self.stream.poll_fill(&mut drive.inbox)? {
                Poll::Ready(0) => return Poll::Ready(Ok(())),
                Poll::Ready(_) => {
                    // Whatever it says, it lives.
                    (drive.read_ms, drive.pinged_ms) = (self.worker.reactor.now_ms(), None);
                }
                Poll::Pending => break,
            }
        }
        self.look_at_the_clock(drive)
    }

    /// Tells the peer to begin nothing more where it is to come anew, or not at all.
    fn leave_if_asked(&self, drive: &Drive) {
        let has_to_go = |client: &Rc<Client>| {
            self.worker.is_draining() || !client.is_trusted(&self.worker.view())
        };
        if drive.client.as_ref().is_some_and(has_to_go) {
            self.retire();
        }
    }

    /// Handles every whole frame that has arrived.
    fn take_in(self: &Rc<Self>, drive: &mut Drive) -> io::Result<()> {
        if drive.inbox.is_empty() {
            return Ok(());
        }
        let mut at = 0;
        let mut core = self.core();
        let violated = loop {
            match core.wire.receive(&drive.inbox.bytes()[at..]) {
                Ok(received) if received.consumed == 0 => break None,
                Ok(received) => {
                    at += received.consumed;
                    if let Event::Pong { payload: PING } = received.event {
                        drive.last_call = drive.last_call.answered();
                    }
                    self.on_event(&mut core, received.event, drive.client.as_ref());
                }
                Err(violation) => break Some(violation),
            }
        };
        drop(core);
        drive.inbox.consume(at);
        match violated {
            None => Ok(()),
            Some(violation) => {
                crate::log::debug(format_args!("http/2: {}", violation.reason));
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    fn on_event(self: &Rc<Self>, core: &mut Core, event: Event<'_>, client: Option<&Rc<Client>>) {
        let reactor = &self.worker.reactor;
        match event {
            Event::Request { stream, end } => self.begin(core, stream, Ok(end), client),
            Event::TooLarge { stream } if client.is_some() => {
                self.begin(core, stream, Err(()), client);
            }
            Event::TooLarge { stream } => self.lose(core, stream, io::ErrorKind::InvalidData),
            Event::Interim { stream } => self.deliver_head(core, stream, false),
            Event::Response { stream, end } => self.deliver_head(core, stream, end),
            Event::Data { stream, bytes, end } => {
                if !core.keep(stream, bytes, &self.worker) {
                    return self.give_up(core, stream);
                }
                if let Some(slot) = core.live(stream) {
                    slot.ended |= end;
                    reactor.wake(slot.task);
                }
            }
            Event::Trailers { stream } => {
                let mut lines = Vec::new();
                core.wire.take_trailers(&mut lines);
                if let Some(slot) = core.live(stream) {
                    (slot.trailers, slot.ended) = (lines, true);
                    reactor.wake(slot.task);
                }
            }
            Event::Reset {
                stream,
                code,
                unprocessed,
            } => {
                let kind = self.reason(unprocessed, code);
                self.lose(core, stream, kind);
            }
            Event::Window {
                stream: Some(stream),
            } => {
                if let Some(slot) = core.live(stream) {
                    reactor.wake(slot.task);
                }
            }
            Event::Window { stream: None } => self.unblock(core),
            Event::GoAway { code } => {
                if self.life() == Life::Open {
                    self.set_life(Life::Retiring);
                }
                // With a reproach it may be one of these that caused it: not to be tried again.
                let kind = match code {
                    Code::NoError => io::ErrorKind::ConnectionRefused,
                    _ => io::ErrorKind::ConnectionReset,
                };
                while let Some(stream) = core.wire.next_reset() {
                    self.lose(core, stream, kind);
                }
                self.tell_watchers();
            }
            Event::Settings => {
                // They may have opened every window.
                self.unblock(core);
                self.tell_watchers();
            }
            Event::Pong { .. } | Event::Nothing => {}
        }
    }

    /// A request arrived; `Err` if its head is too large to be looked at.
    fn begin(
        self: &Rc<Self>,
        core: &mut Core,
        stream: Key,
        end: Result<bool, ()>,
        client: Option<&Rc<Client>>,
    ) {
        let Some(client) = client else {
            return core.wire.reset(stream, Code::ProtocolError);
        };
        let hoards = self.worker.is_overloaded() && core.is_hoarding();
        // What was begun before the peer knows that it is to come anew is served, for as long as
        // the proof is good.
        if hoards || client.standing(&self.worker.view()) == Standing::Lost {
            core.wire.reset(stream, Code::RefusedStream);
            return core.wire.release(stream);
        }
        let mut exchange = self.worker.lend_exchange();
        let mut text = std::mem::take(&mut exchange.text);
        if end.is_ok() {
            core.wire.take_request(&mut text, &mut exchange.request);
        }
        core.begin(stream, rt::TaskId::NONE);
        core.slot(stream).ended = end == Ok(true);
        core.hold_head(stream, text.len(), &self.worker);
        self.carried.set(self.carried.get() + 1);
        let arrival = Arrival {
            client: Rc::clone(client),
            stream: super::Handle::adopt(self, stream),
            text,
            exchange,
            too_large: end.is_err(),
        };
        serve::start(&self.worker, arrival);
    }

    /// Why a peer gave a stream up.
    fn reason(&self, unprocessed: bool, code: Code) -> io::ErrorKind {
        match (code, self.dialect) {
            _ if unprocessed => io::ErrorKind::ConnectionRefused,
            // A sidecar says what became of the application behind it.
            (Code::ConnectError, Dialect::Hop) => io::ErrorKind::NotConnected,
            (Code::InternalError, Dialect::Hop) => io::ErrorKind::ConnectionAborted,
            (Code::ProtocolError, _) => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::ConnectionReset,
        }
    }

    fn deliver_head(&self, core: &mut Core, stream: Key, end: bool) {
        let mut storage = core.spare.pop().unwrap_or_default();
        core.wire.take_response(&mut storage.0, &mut storage.1);
        let Some(slot) = core.live(stream) else {
            return;
        };
        if slot.heads.len() == HEADS_MAX {
            core.wire.reset(stream, Code::EnhanceYourCalm);
            return self.lose(core, stream, io::ErrorKind::InvalidData);
        }
        slot.heads.push_back(storage);
        slot.ended |= end;
        self.worker.reactor.wake(slot.task);
    }

    fn lose(&self, core: &mut Core, stream: Key, kind: io::ErrorKind) {
        if let Some(slot) = core.live(stream) {
            slot.lost.get_or_insert(kind);
            self.worker.reactor.wake(slot.task);
        }
    }

    /// Ends a stream for which too much is held.
    fn give_up(&self, core: &mut Core, stream: Key) {
        core.wire.reset(stream, Code::EnhanceYourCalm);
        core.drop_body(stream, &self.worker);
        self.lose(core, stream, io::ErrorKind::OutOfMemory);
    }

    /// Wakes the streams that wait for room in what all of them share, in their order.
    fn unblock(&self, core: &mut Core) {
        for key in std::mem::take(&mut core.blocked) {
            if let Some(slot) = core.live(key) {
                slot.is_blocked = false;
                self.worker.reactor.wake(slot.task);
            }
        }
    }

    /// Writes what waits, as far as the kernel takes it.
    fn flush(&self) -> io::Result<()> {
        loop {
            if self.stream.poll_flush()?.is_pending() {
                return Ok(());
            }
            let mut core = self.core();
            if core.wire.output_len() == 0 {
                return Ok(());
            }
            let output = core.wire.output();
            self.stream.write(&[IoSlice::new(output)])?;
            output.clear();
            self.unblock(&mut core);
        }
    }

    /// Whether the kernel has everything that streams left.
    fn has_written(&self) -> bool {
        self.core().wire.output_len() == 0 && self.stream.has_sent()
    }

    /// Does what is due, and sets the time for the next look.
    fn look_at_the_clock(&self, drive: &mut Drive) -> Poll<io::Result<()>> {
        let reactor = &self.worker.reactor;
        let now = reactor.now_ms();
        let view = self.worker.view();
        let limits = &view.snapshot.config.limits;
        let streams = self.streams();
        if streams > 0 {
            (drive.idle_ms, drive.rested) = (now, false);
        } else if !drive.rested && now >= due(drive.idle_ms, REST_AFTER) {
            drive.rested = true;
            self.core().rest();
        }
        let idle = match drive.client {
            Some(_) => limits.idle_timeout,
            None => limits.pool_idle_timeout,
        };
        let idle_due = due(drive.idle_ms, idle);
        let retire_due = match drive.client {
            Some(_) => drive.retire_ms,
            None => {
                // The next request makes another one, and uses this one until that stands.
                if now >= drive.retire_ms {
                    self.grow_old();
                }
                drive.retire_ms.midpoint(self.expires_ms)
            }
        };
        if self.life() == Life::Open && now >= idle_due.min(retire_due) {
            self.retire();
        }
        if self.life() == Life::Retiring && self.say_goodbye(drive, streams, now) {
            return Poll::Ready(Ok(()));
        }
        if now >= self.expires_ms {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let ping_due = match drive.pinged_ms {
            Some(pinged) if now >= due(pinged, limits.keepalive_timeout) => {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            Some(pinged) => due(pinged, limits.keepalive_timeout),
            None if now >= due(drive.read_ms, limits.keepalive_interval) => {
                drive.pinged_ms = Some(now);
                self.core().wire.ping(PING);
                self.flush()?;
                due(now, limits.keepalive_timeout)
            }
            None => due(drive.read_ms, limits.keepalive_interval),
        };
        let next = match (self.life(), drive.last_call) {
            (Life::Open, _) if now < drive.retire_ms => idle_due.min(drive.retire_ms),
            (Life::Open, _) => idle_due.min(retire_due),
            (_, LastCall::Until(until)) => until,
            _ => u64::MAX,
        };
        let rest_due = match drive.rested || streams > 0 {
            true => u64::MAX,
            false => due(drive.idle_ms, REST_AFTER),
        };
        let next = next.min(ping_due).min(rest_due).min(self.expires_ms);
        let next = next.min(self.shed(now));
        if next < u64::MAX {
            reactor.deadline_after(Duration::from_millis(next.saturating_sub(now).max(1)));
        }
        Poll::Pending
    }

    /// Gives slow streams up where they keep the connection shut for all; when to look again.
    fn shed(&self, now: u64) -> u64 {
        let mut core = self.core();
        if !core.is_shut() {
            return u64::MAX;
        }
        let next = match self.worker.is_overloaded() {
            false => {
                core.reopen();
                u64::MAX
            }
            true => {
                for stream in core.stale(now) {
                    self.give_up(&mut core, stream);
                }
                now + STALE_MS
            }
        };
        if core.wire.output_len() > 0 {
            self.wake_driver();
        }
        next
    }

    /// Whether a retiring connection may end now.
    fn say_goodbye(&self, drive: &mut Drive, streams: usize, now: u64) -> bool {
        if drive.client.is_none() {
            return streams == 0 && self.has_written();
        }
        match drive.last_call {
            LastCall::None => {
                self.core().wire.ping(PING);
                drive.last_call = LastCall::Until(due(now, LAST_CALL));
                self.wake_driver();
            }
            LastCall::Until(until) if now >= until => drive.last_call = LastCall::Done,
            LastCall::Until(_) => {}
            LastCall::Done => return streams == 0 && self.has_written(),
        }
        if drive.last_call == LastCall::Done {
            // From here on the peer knows which streams we have taken.
            self.core().wire.go_away(Code::NoError);
            self.wake_driver();
        }
        false
    }
}

impl LastCall {
    fn answered(self) -> Self {
        match self {
            Self::Until(_) => Self::Until(0),
            other => other,
        }
    }
}

/// Tells everybody that a connection has ended, even if its driver panicked.
struct End<'a>(&'a Mux);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.set_life(Life::Ended);
        // A panic in the middle of something leaves the state lent: its streams wait no longer
        // than their limits.
        if let Ok(mut core) = self.0.try_core() {
            core.lose_all(io::ErrorKind::ConnectionReset, &self.0.worker);
        }
        self.0.tell_watchers();
    }
}

fn millis(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
}

/// When `limit` after `from` is over; zero is never.
fn due(from: u64, limit: Duration) -> u64 {
    match limit {
        Duration::ZERO => u64::MAX,
        limit => from.saturating_add(millis(limit)),
    }
}
