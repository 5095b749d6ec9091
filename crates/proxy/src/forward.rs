//! Bytes from one side to the other: a request's head and body up, its answer down, and THE pump
//! that both directions use. Called by `request` once per attempt.

use crate::buffer::Inbox;
use crate::connection::Downstream;
use crate::error::{Error, Flag, Result};
use crate::exchange::Exchange;
use crate::headers;
use crate::http1;
use crate::record::Record;
use crate::snapshot::{Route, Snapshot};
use crate::stream::Stream;
use crate::worker::Worker;
use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use wire::http1::{Body, BodyError, Framing, Version, runs};

/// Times that a body may fill a buffer before other connections have a turn: a fast sender and a
/// fast receiver would otherwise have the worker to themselves.
const TURNS_MAX: u32 = 16;

/// Interim answers before the final one: more than any server sends.
const INTERIM_MAX: u32 = 64;

/// What is left of two connections after an exchange.
pub(crate) struct Outcome {
    pub(crate) keep_down: bool,
    pub(crate) keep_up: bool,
}

/// Why an attempt failed, and whether the same request may be sent again.
pub(crate) struct Failed {
    pub(crate) error: Error,
    /// The request is still whole in its buffer, and not a byte of an answer came.
    pub(crate) intact: bool,
}

/// What the path has decided about a request.
pub(crate) struct Plan<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) route: &'a Route,
}

/// One message's body on its way.
struct Flow<'a> {
    from: &'a Stream,
    inbox: &'a mut Inbox,
    body: &'a mut Body,
    into: &'a Stream,
    /// Take the payload out of its chunks.
    unchunk: bool,
    /// How long nothing may move.
    idle: Duration,
}

/// Sends the request in `down`'s inbox and brings the answer back.
pub(crate) async fn exchange(
    down: &mut Downstream,
    up: &Stream,
    exchange: &mut Exchange,
    plan: &Plan<'_>,
    record: &mut Record,
) -> std::result::Result<Outcome, Failed> {
    let mut body = Body::new(exchange.request.framing);
    let head = exchange.request.len;
    let intact = |error| Failed {
        error,
        intact: true,
    };
    let idle = plan.snapshot.config.limits.stream_idle_timeout;
    down.worker.reactor.deadline_after(idle);
    let sent = send_request(down, up, exchange, &mut body).map_err(intact)?;
    up.flush()
        .await
        .map_err(|error| intact(Error::upstream(Flag::UpstreamClosed, error)))?;
    let worker = std::rc::Rc::clone(&down.worker);
    let (whole, began, head_came) = (body.is_done(), false, &Cell::new(false));
    let mut answer = Answer {
        worker: &worker,
        up,
        down: &down.stream,
        plan,
        whole,
        began,
        head_came,
    };
    if whole {
        record.bytes_in = body.payload_bytes();
        let mut outcome = match answer.bring(exchange, record).await {
            Ok(outcome) => outcome,
            Err(error) => {
                return Err(Failed {
                    error,
                    intact: !answer.began,
                });
            }
        };
        down.inbox.consume(head + sent);
        outcome.keep_down &= !worker.is_draining();
        return Ok(outcome);
    }
    down.inbox.consume(head + sent);
    exchange.gone = true;
    let flow = Flow {
        from: &down.stream,
        inbox: &mut down.inbox,
        body: &mut body,
        into: up,
        unchunk: false,
        idle,
    };
    // Boxed: two directions at once are the exception, and large.
    let outcome = Box::pin(duplex(flow, answer, exchange, record)).await;
    record.bytes_in = body.payload_bytes();
    outcome.map_err(|error| Failed {
        error,
        intact: false,
    })
}

/// Writes the head, and of the body what has arrived; returns how much of the latter.
fn send_request(
    down: &Downstream,
    up: &Stream,
    exchange: &Exchange,
    body: &mut Body,
) -> Result<usize> {
    let bytes = down.inbox.bytes();
    let arrived = body
        .advance(&bytes[exchange.request.len..])
        .map_err(refuse_body)?;
    let written = exchange.with_request(bytes, arrived, |slices| up.write(slices));
    written.map_err(|error| Error::upstream(Flag::UpstreamClosed, error))?;
    Ok(arrived)
}

fn refuse_body(_: BodyError) -> Error {
    Error::new(Flag::DownstreamProtocol)
}

/// Sends the rest of the request while the answer may already come back.
async fn duplex(
    flow: Flow<'_>,
    mut answer: Answer<'_>,
    exchange: &mut Exchange,
    record: &mut Record,
) -> Result<Outcome> {
    let mut sending = Some(Box::pin(pump(flow, Side::Request)));
    let mut sent = false;
    let (worker, head_came, patience) = (answer.worker, answer.head_came, answer.patience());
    let mut outcome = {
        let mut answering = pin!(answer.bring(exchange, record));
        poll_fn(|context| {
            if let Some(task) = &mut sending
                && let Poll::Ready(end) = task.as_mut().poll(context)
            {
                sending = None;
                match end {
                    Ok(()) if head_came.get() => sent = true,
                    Ok(()) => {
                        sent = true;
                        worker.reactor.deadline_after(patience);
                    }
                    // The upstream may refuse a body and still answer why.
                    Err(error) if error.flag == Flag::UpstreamClosed => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            answering.as_mut().poll(context)
        })
        .await?
    };
    // A body that is not through when its answer is cannot be told from the next request.
    outcome.keep_down &= sent;
    outcome.keep_up &= sent;
    Ok(outcome)
}

/// The way back.
struct Answer<'a> {
    worker: &'a Worker,
    up: &'a Stream,
    down: &'a Stream,
    plan: &'a Plan<'a>,
    /// All of the request has been sent.
    whole: bool,
    /// A byte of an answer has come.
    began: bool,
    /// The final answer's head has come.
    head_came: &'a Cell<bool>,
}

impl Answer<'_> {
    /// Reads the answer and passes it on.
    async fn bring(&mut self, exchange: &mut Exchange, record: &mut Record) -> Result<Outcome> {
        let mut inbox = Inbox::new(self.up.pool());
        self.await_head(&mut inbox, exchange).await?;
        self.head_came.set(true);
        let mut body = Body::new(exchange.response.framing);
        let until_close = exchange.response.framing == Framing::UntilClose;
        let stay = exchange.request.keep_alive && !until_close && !self.worker.is_draining();
        for filter in &self.plan.route.filters {
            filter.on_response(exchange, inbox.bytes());
        }
        let unchunk = headers::prepare_response(exchange, inbox.bytes(), stay);
        let head = exchange.response.len;
        let arrived = match unchunk {
            true => 0,
            false => body.advance(&inbox.bytes()[head..]).map_err(|_| broken())?,
        };
        record.status = exchange.response.status;
        record.answered = true;
        let written =
            exchange.with_response(inbox.bytes(), arrived, |slices| self.down.write(slices));
        written.map_err(Error::downstream)?;
        inbox.consume(head + arrived);
        let idle = self.plan.snapshot.config.limits.stream_idle_timeout;
        self.worker.reactor.deadline_after(idle);
        self.down.flush().await.map_err(Error::downstream)?;
        if !body.is_done() {
            let (from, into) = (self.up, self.down);
            let flow = Flow {
                from,
                inbox: &mut inbox,
                body: &mut body,
                into,
                unchunk,
                idle,
            };
            let pumped = pump(flow, Side::Answer).await;
            record.bytes_out = body.payload_bytes();
            pumped?;
        }
        record.bytes_out = body.payload_bytes();
        record.flag = Flag::None;
        let keep_up = exchange.response.keep_alive && !until_close && inbox.holds_nothing();
        Ok(Outcome {
            keep_down: stay && !unchunk,
            keep_up,
        })
    }

    /// How long the upstream may take for its head once it has the whole request.
    fn patience(&self) -> Duration {
        let limits = &self.plan.snapshot.config.limits;
        match limits.request_timeout {
            Duration::ZERO => limits.stream_idle_timeout,
            limit => limit,
        }
    }

    /// Reads heads up to the final one, passing interim ones on.
    async fn await_head(&mut self, inbox: &mut Inbox, exchange: &mut Exchange) -> Result<()> {
        // While the request's body is on its way the pump looks at the clock.
        if self.whole {
            self.worker.reactor.deadline_after(self.patience());
        }
        let mut interim = 0;
        loop {
            let http = &self.plan.snapshot.limits;
            let read = http1::read_response(self.up, inbox, exchange, http, self.down).await;
            self.began |= !inbox.is_empty();
            read?;
            match exchange.response.status {
                // Nobody asked for another protocol: the request carried no Upgrade.
                101 => return Err(broken()),
                100..200 if interim == INTERIM_MAX => return Err(broken()),
                100..200 => self.pass_interim(inbox, exchange).await?,
                _ => return Ok(()),
            }
            interim += 1;
        }
    }

    async fn pass_interim(&self, inbox: &mut Inbox, exchange: &Exchange) -> Result<()> {
        let head = &exchange.response;
        if exchange.request.version == Version::Http11 {
            let parts = runs(&head.lines, inbox.bytes(), 0, head.len);
            let mut interim: Vec<u8> = parts.collect::<Vec<_>>().concat();
            interim.extend_from_slice(b"\r\n");
            self.down
                .write(&[IoSlice::new(&interim)])
                .map_err(Error::downstream)?;
            self.down.flush().await.map_err(Error::downstream)?;
        }
        inbox.consume(head.len);
        Ok(())
    }
}

fn broken() -> Error {
    Error::new(Flag::UpstreamProtocol)
}

/// Which way a body flows: whose fault it is when it stops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
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
        match (self, error) {
            (Self::Request, BodyError::Truncated) => Error::new(Flag::DownstreamClosed),
            (Self::Request, _) => Error::new(Flag::DownstreamProtocol),
            (Self::Answer, BodyError::Truncated) => Error::new(Flag::UpstreamClosed),
            (Self::Answer, _) => broken(),
        }
    }
}

/// The one pump: moves a body until it is complete. Backpressure is the order of its lines: nothing
/// is read before what was read has been taken.
async fn pump(flow: Flow<'_>, side: Side) -> Result<()> {
    let Flow {
        from,
        inbox,
        body,
        into,
        unchunk,
        idle,
    } = flow;
    let reactor = from.tcp.reactor();
    let mut turns = 0;
    loop {
        while !inbox.is_empty() && !body.is_done() {
            let taken = pass(inbox, body, into, unchunk, side)?;
            inbox.consume(taken);
            reactor.deadline_after(idle);
            into.flush()
                .await
                .map_err(|error| side.write_failed(error))?;
        }
        if body.is_done() {
            return Ok(());
        }
        turns += 1;
        if turns % TURNS_MAX == 0 {
            reactor.yield_now().await;
        }
        reactor.deadline_after(idle);
        let filled = poll_fn(|_| match into.tcp.has_failed() {
            // Nobody is there to take what would be waited for, perhaps for ever.
            true => Poll::Ready(Err(side.write_failed(io::ErrorKind::BrokenPipe.into()))),
            false => from
                .poll_fill(inbox)
                .map_err(|error| side.read_failed(error)),
        });
        if filled.await? == 0 {
            return body.end_of_input().map_err(|error| side.malformed(&error));
        }
    }
}

/// Writes what of the body has arrived; returns how many bytes that were.
fn pass(inbox: &Inbox, body: &mut Body, into: &Stream, unchunk: bool, side: Side) -> Result<usize> {
    let bytes = inbox.bytes();
    let (taken, payload) = if unchunk {
        let decoded = body.decode(bytes).map_err(|error| side.malformed(&error))?;
        (decoded.consumed, &bytes[decoded.payload])
    } else {
        let taken = body
            .advance(bytes)
            .map_err(|error| side.malformed(&error))?;
        (taken, &bytes[..taken])
    };
    if !payload.is_empty() {
        into.write(&[IoSlice::new(payload)])
            .map_err(|error| side.write_failed(error))?;
    }
    Ok(taken)
}
