//! Bodies on their way: where one comes from, where it goes, and THE pump between the two, for
//! every protocol and both directions. Called by `forward`; must never look into what it carries.

use crate::buffer::Inbox;
use crate::error::{Error, Flag, Result};
use crate::http2::Handle;
use crate::stream::Stream;
use rt::Reactor;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use wire::http1::{Body, BodyError, Decoded, chunk_header};

/// Times that a body may fill a buffer before other connections have a turn: a fast sender and a
/// fast receiver would otherwise have the worker to themselves.
const TURNS_MAX: u32 = 16;

/// Bytes that are moved in one step, and so may wait for a socket.
pub(crate) const STEP_MAX: usize = 64 * 1024;

/// Where a body comes from.
pub(crate) enum Source<'a> {
    Http1 {
        stream: &'a Stream,
        inbox: &'a mut Inbox,
        body: &'a mut Body,
    },
    Http2 {
        stream: &'a Handle,
        /// Bytes that were passed on.
        payload: &'a mut u64,
    },
}

/// Where a body goes to, and in which form.
#[derive(Clone, Copy)]
pub(crate) enum Sink<'a> {
    /// Framing and all, as it came over HTTP/1.
    Verbatim(&'a Stream),
    /// Without any framing: what is around it says how long it is.
    Payload(&'a Stream),
    /// In chunks of HTTP/1.
    Chunks(&'a Stream),
    /// Without framing, and its end is the end of what we send.
    Tunnel(&'a Stream),
    /// In frames.
    Http2(&'a Handle),
}

/// How long a body may stand still, and until when it has to be through.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) idle: Duration,
    /// In ms of the reactor's clock.
    pub(crate) until_ms: u64,
}

impl Patience {
    /// Starts the clock of the running task anew.
    pub(crate) fn start(self, reactor: &Reactor) {
        self.start_with(reactor, self.idle);
    }

    /// As [`Patience::start`], with another limit (zero: none) than that of a body.
    pub(crate) fn start_with(self, reactor: &Reactor, limit: Duration) {
        if self.until_ms == u64::MAX {
            return reactor.deadline_after(limit);
        }
        let left = Duration::from_millis(self.until_ms.saturating_sub(reactor.now_ms()).max(1));
        reactor.deadline_after(match limit {
            Duration::ZERO => left,
            limit => limit.min(left),
        });
    }
}

impl Patience {
    /// Whether the time for the whole is over.
    fn is_over(self, reactor: &Reactor) -> bool {
        self.until_ms != u64::MAX && reactor.now_ms() >= self.until_ms
    }
}

/// One message's body on its way.
pub(crate) struct Flow<'a> {
    pub(crate) from: Source<'a>,
    pub(crate) into: Sink<'a>,
    pub(crate) side: Side,
    pub(crate) patience: Patience,
    /// What of the trailers of HTTP/1 has arrived.
    pub(crate) trailers: Vec<u8>,
    /// Of a body that goes on without framing: how long it is, where that is known. It has ended
    /// with its last byte, whatever its stream still says.
    pub(crate) length: Option<u64>,
}

/// Which way a body flows: whose fault it is when it stops.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Answer,
}

impl Side {
    fn read_failed(self, error: io::Error) -> Error {
        match self {
            Self::Request => Error::downstream(error),
            _ if error.kind() == io::ErrorKind::TimedOut => Error::new(Flag::StreamIdle),
            Self::Answer => Error::upstream(Flag::UpstreamClosed, error),
        }
    }

    fn write_failed(self, error: io::Error) -> Error {
        match self {
            _ if error.kind() == io::ErrorKind::TimedOut => Error::new(Flag::StreamIdle),
            Self::Request => Error::upstream(Flag::UpstreamClosed, error),
            Self::Answer => Error::downstream(error),
        }
    }

    fn malformed(self, error: &BodyError) -> Error {
        Error::new(match (self, error) {
            (Self::Request, BodyError::Truncated) => Flag::DownstreamClosed,
            (Self::Request, _) => Flag::DownstreamProtocol,
            (Self::Answer, BodyError::Truncated) => Flag::UpstreamClosed,
            (Self::Answer, _) => Flag::UpstreamProtocol,
        })
    }
}

impl Source<'_> {
    fn reactor(&self) -> &Rc<Reactor> {
        match self {
            Self::Http1 { stream, .. } => stream.tcp.reactor(),
            Self::Http2 { stream, .. } => stream.reactor(),
        }
    }

    /// Whether something of the body waits to be moved.
    fn has_some(&self) -> bool {
        match self {
            Self::Http1 { inbox, body, .. } => !inbox.is_empty() && !body.is_done(),
            Self::Http2 { stream, .. } => stream.received(|bytes, _, _| !bytes.is_empty()),
        }
    }

    fn poll_more(&mut self) -> Poll<io::Result<bool>> {
        match self {
            Self::Http1 { stream, inbox, .. } => stream.poll_fill(inbox).map_ok(|count| count > 0),
            Self::Http2 { stream, .. } => stream.poll_received(0).map_ok(|()| {
                // Nothing but the end can have come.
                stream.received(|bytes, _, _| !bytes.is_empty())
            }),
        }
    }
}

impl Sink<'_> {
    fn is_broken(&self) -> bool {
        match self {
            Self::Http2(stream) => stream.is_lost(),
            Self::Verbatim(stream)
            | Self::Payload(stream)
            | Self::Chunks(stream)
            | Self::Tunnel(stream) => stream.tcp.has_failed(),
        }
    }

    /// How much it takes now: what is under way to a socket must not grow to a whole window.
    fn room(&self) -> usize {
        match self {
            Self::Http2(stream) => stream.room(),
            _ => STEP_MAX,
        }
    }

    /// Waits until it takes something.
    async fn ready(&self) -> io::Result<()> {
        match self {
            Self::Http2(stream) => poll_fn(|_| stream.poll_room()).await,
            Self::Verbatim(stream)
            | Self::Payload(stream)
            | Self::Chunks(stream)
            | Self::Tunnel(stream) => stream.flush().await,
        }
    }

    /// Waits until nothing of ours is left; frames are the driver's to write.
    async fn ready_to_end(&self) -> io::Result<()> {
        match self {
            Self::Http2(_) => Ok(()),
            Self::Tunnel(stream) => {
                stream.flush().await?;
                // An error means that nobody is there to be told.
                let _ = stream.tcp.shutdown_write();
                Ok(())
            }
            other => other.ready().await,
        }
    }

    /// Takes a part of a body, and at its end the trailers.
    fn put(&self, payload: &[u8], end: bool, trailers: &[u8]) -> io::Result<()> {
        match self {
            Self::Http2(stream) if end && !trailers.is_empty() => {
                if !payload.is_empty() {
                    stream.send(payload, false);
                }
                stream.send_trailers(trailers);
            }
            Self::Http2(stream) => {
                if end || !payload.is_empty() {
                    stream.send(payload, end);
                }
            }
            Self::Chunks(stream) => put_chunk(stream, payload, end, trailers)?,
            Self::Verbatim(stream) | Self::Payload(stream) | Self::Tunnel(stream) => {
                if !payload.is_empty() {
                    stream.write(&[IoSlice::new(payload)])?;
                }
            }
        }
        if let (Self::Tunnel(stream), true) = (self, end) {
            stream.announce_end();
        }
        Ok(())
    }
}

fn put_chunk(stream: &Stream, payload: &[u8], end: bool, trailers: &[u8]) -> io::Result<()> {
    let mut size = [0; 18];
    let (mut parts, mut used) = ([&b""[..]; 6], 0);
    let mut push = |part| {
        parts[used] = part;
        used += 1;
    };
    if !payload.is_empty() {
        push(chunk_header(payload.len(), &mut size));
        push(payload);
        push(b"\r\n");
    }
    if end {
        push(b"0\r\n");
        push(trailers);
        push(b"\r\n");
    }
    let slices = parts.map(IoSlice::new);
    match used {
        0 => Ok(()),
        used => stream.write(&slices[..used]),
    }
}

impl Flow<'_> {
    /// Moves what has arrived into frames, if that is all of the body; says whether it was. Spares
    /// small bodies the pump.
    pub(crate) fn now(&mut self) -> Result<bool> {
        let Sink::Http2(_) = self.into else {
            return Ok(false);
        };
        while self.from.has_some() {
            match step(self)? {
                Step::Last => return Ok(true),
                Step::Some => {}
                Step::Nothing => break,
            }
        }
        Ok(false)
    }
}

/// The one pump: moves a body until it is complete. Backpressure is the order of its lines: nothing
/// is read before what was read has been taken.
pub(crate) async fn pump(mut flow: Flow<'_>) -> Result<()> {
    let (side, into, patience) = (flow.side, flow.into, flow.patience);
    let reactor = Rc::clone(flow.from.reactor());
    let mut turns = 0;
    loop {
        while flow.from.has_some() {
            if patience.is_over(&reactor) {
                return Err(side.write_failed(io::ErrorKind::TimedOut.into()));
            }
            patience.start(&reactor);
            let ready = match (step(&mut flow)?, into) {
                (Step::Last, _) => {
                    let ended = into.ready_to_end().await;
                    return ended.map_err(|error| side.write_failed(error));
                }
                // Its window may be full, and yet there is room for the end.
                (Step::Some, Sink::Http2(_)) => Ok(()),
                _ => into.ready().await,
            };
            ready.map_err(|error| side.write_failed(error))?;
        }
        turns += 1;
        if turns % TURNS_MAX == 0 {
            reactor.yield_now().await;
        }
        patience.start(&reactor);
        let more = poll_fn(|_| match into.is_broken() {
            // Nobody is there to take what would be waited for, perhaps for ever.
            true => Poll::Ready(Err(side.write_failed(io::ErrorKind::BrokenPipe.into()))),
            false => flow
                .from
                .poll_more()
                .map_err(|error| side.read_failed(error)),
        });
        if !more.await? {
            end(&mut flow)?;
            return into
                .ready_to_end()
                .await
                .map_err(|error| side.write_failed(error));
        }
    }
}

/// What was moved in one step.
enum Step {
    Nothing,
    Some,
    /// The last of the body.
    Last,
}

impl Step {
    fn of(taken: usize, ended: bool) -> Self {
        match (taken, ended) {
            (_, true) => Self::Last,
            (0, _) => Self::Nothing,
            _ => Self::Some,
        }
    }
}

/// Moves some of what has arrived.
fn step(flow: &mut Flow<'_>) -> Result<Step> {
    let (side, into, trailers) = (flow.side, flow.into, &mut flow.trailers);
    let failed = |error| side.write_failed(error);
    match &mut flow.from {
        Source::Http1 { inbox, body, .. } => {
            let bytes = inbox.bytes();
            let bytes = &bytes[..bytes.len().min(into.room())];
            let malformed = |error| side.malformed(&error);
            let taken = if let Sink::Verbatim(_) = into {
                let taken = body.advance(bytes).map_err(malformed)?;
                into.put(&bytes[..taken], false, b"").map_err(failed)?;
                taken
            } else {
                let in_trailers = body.is_in_trailers();
                let decoded = match bytes {
                    // The end of a body needs no room.
                    [] => only_framing(body, inbox.bytes()),
                    bytes => body.decode(bytes),
                };
                let decoded = decoded.map_err(malformed)?;
                let bytes = inbox.bytes();
                if in_trailers {
                    trailers.extend_from_slice(&bytes[..decoded.consumed]);
                }
                // Without the blank line.
                let lines = &trailers[..trailers.len().saturating_sub(2)];
                into.put(&bytes[decoded.payload], body.is_done(), lines)
                    .map_err(failed)?;
                decoded.consumed
            };
            inbox.consume(taken);
            Ok(Step::of(taken, body.is_done()))
        }
        Source::Http2 { stream, payload } => {
            let room = into.room();
            let (taken, ended) = stream
                .received(|bytes, ended, trailers| {
                    let taken = bytes.len().min(room);
                    let ended = ended && taken == bytes.len();
                    into.put(&bytes[..taken], ended, trailers)?;
                    Ok((taken, ended))
                })
                .map_err(failed)?;
            stream.take(taken);
            **payload += taken as u64;
            let complete = matches!(into, Sink::Payload(_)) && flow.length == Some(**payload);
            Ok(Step::of(taken, ended || complete))
        }
    }
}

fn only_framing(body: &mut Body, bytes: &[u8]) -> std::result::Result<Decoded, BodyError> {
    let consumed = body.decode_framing(bytes)?;
    Ok(Decoded {
        consumed,
        payload: consumed..consumed,
    })
}

/// The source has ended without a further byte.
fn end(flow: &mut Flow<'_>) -> Result<()> {
    let (side, into) = (flow.side, flow.into);
    let ended = match &mut flow.from {
        Source::Http1 { body, .. } => {
            body.end_of_input()
                .map_err(|error| side.malformed(&error))?;
            into.put(b"", true, b"")
        }
        Source::Http2 { stream, .. } => {
            stream.received(|_, _, trailers| into.put(b"", true, trailers))
        }
    };
    ended.map_err(|error| side.write_failed(error))
}

#[cfg(test)]
mod simulation;
