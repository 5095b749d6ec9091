//! An exchange between two connections, whatever each speaks: a request's head and body up, its
//! answer down. Called by `request` once per attempt; the bodies are `body`'s.

use crate::body::{Flow, Patience, Side, Sink, Source, pump};
use crate::buffer::Inbox;
use crate::connection::{Downstream, Link};
use crate::error::{Error, Flag, Result};
use crate::exchange::Exchange;
use crate::headers::{self, Form};
use crate::http1;
use crate::http2::{Came, Handle};
use crate::record::Record;
use crate::snapshot::{Route, Snapshot};
use crate::stream::Stream;
use crate::worker::Worker;
use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use wire::http1::{Body, Framing, Version, runs};

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

/// One side of an exchange.
#[derive(Clone, Copy)]
pub(crate) enum Peer<'a> {
    Http1(&'a Stream),
    Http2(&'a Handle),
}

impl Peer<'_> {
    fn is_http2(self) -> bool {
        matches!(self, Self::Http2(_))
    }

    fn is_broken(self) -> bool {
        match self {
            Self::Http1(stream) => stream.tcp.has_failed(),
            Self::Http2(stream) => stream.is_lost(),
        }
    }

    async fn flush(self) -> io::Result<()> {
        match self {
            Self::Http1(stream) => stream.flush().await,
            // Frames are the driver's to write.
            Self::Http2(_) => Ok(()),
        }
    }
}

/// What of a request went out with its head.
struct Sent {
    /// Bytes of its body.
    bytes: usize,
    /// That was all of it.
    whole: bool,
}

/// Sends the request of `down` and brings the answer back.
pub(crate) async fn exchange(
    down: &mut Downstream<'_>,
    up: Peer<'_>,
    exchange: &mut Exchange,
    plan: &Plan<'_>,
    record: &mut Record,
) -> std::result::Result<Outcome, Failed> {
    let intact = |error| Failed {
        error,
        intact: true,
    };
    let worker = Rc::clone(&down.client.worker);
    let patience = Patience {
        idle: plan.snapshot.config.limits.stream_idle_timeout,
        until_ms: exchange.until_ms,
    };
    patience.start(&worker.reactor);
    if exchange.request.protocol.is_some() {
        return Box::pin(upgrade(down, up, exchange, plan, record)).await;
    }
    let mut body = Body::new(exchange.request.framing);
    let sent = send_request(down, up, exchange, &mut body).map_err(intact)?;
    up.flush()
        .await
        .map_err(|error| intact(Error::upstream(Flag::UpstreamClosed, error)))?;
    let head_came = &Cell::new(false);
    if sent.whole {
        record.bytes_in = sent.bytes as u64;
        if let Link::Http1(_) = down.link {
            record.bytes_in = body.payload_bytes();
        }
        let mut answer = Answer {
            worker: &worker,
            up,
            down: down.peer(),
            plan,
            patience,
            whole: true,
            began: false,
            head_came,
        };
        let brought = answer.bring(exchange, record).await;
        let began = answer.began;
        let mut outcome = brought.map_err(|error| Failed {
            error,
            intact: !began,
        })?;
        down.consume(exchange.request.len, sent.bytes);
        outcome.keep_down &= !worker.is_draining();
        return Ok(outcome);
    }
    down.consume(exchange.request.len, sent.bytes);
    exchange.gone = true;
    let mut payload = sent.bytes as u64;
    let (from, back) = down.split(&mut body, &mut payload);
    let flow = Flow {
        from,
        into: request_sink(up, exchange, back),
        side: Side::Request,
        patience,
        trailers: Vec::new(),
    };
    let answer = Answer {
        worker: &worker,
        up,
        down: back,
        plan,
        patience,
        whole: false,
        began: false,
        head_came,
    };
    // Boxed: two directions at once are the exception, and large.
    let outcome = Box::pin(duplex(flow, answer, exchange, record)).await;
    record.bytes_in = match down.link {
        Link::Http1(_) => body.payload_bytes(),
        Link::Http2(_) => payload,
    };
    outcome.map_err(|error| Failed {
        error,
        intact: false,
    })
}

/// Writes the head, and of the body what has arrived.
fn send_request(
    down: &Downstream<'_>,
    up: Peer<'_>,
    exchange: &mut Exchange,
    body: &mut Body,
) -> Result<Sent> {
    let failed = |error| Error::upstream(Flag::UpstreamClosed, error);
    let refuse = |_| Error::new(Flag::DownstreamProtocol);
    match (&down.link, up) {
        (Link::Http1(link), Peer::Http1(up)) => {
            let bytes = link.inbox.bytes();
            let arrived = body.advance(&bytes[exchange.request.len..]).map_err(refuse)?;
            let written = exchange.with_request(bytes, arrived, b"", |slices| up.write(slices));
            written.map_err(failed)?;
            Ok(Sent {
                bytes: arrived,
                whole: body.is_done(),
            })
        }
        (Link::Http1(link), Peer::Http2(up)) => {
            let bytes = link.inbox.bytes();
            up.send_request(exchange, bytes, body.is_done());
            if !matches!(exchange.request.framing, Framing::Length(1..)) {
                // Chunks are taken apart on their way.
                return Ok(Sent {
                    bytes: 0,
                    whole: body.is_done(),
                });
            }
            let arrived = &bytes[exchange.request.len..];
            let arrived = &arrived[..arrived.len().min(up.room())];
            let arrived = body.advance(arrived).map_err(refuse)?;
            if arrived > 0 {
                let payload = &bytes[exchange.request.len..][..arrived];
                up.send(payload, body.is_done());
            }
            Ok(Sent {
                bytes: arrived,
                whole: body.is_done(),
            })
        }
        (Link::Http2(link), Peer::Http1(up)) => {
            let chunked = exchange.request.framing == Framing::Chunked;
            if chunked && !exchange.has_request_line(&link.text, "transfer-encoding") {
                let line = b"transfer-encoding: chunked\r\n";
                exchange.request_extra.extend_from_slice(line);
            }
            link.stream.received(|payload, ended, _| {
                let payload = if chunked { b"" } else { payload };
                let written =
                    exchange.with_request(&link.text, 0, payload, |slices| up.write(slices));
                written.map_err(failed)?;
                Ok(Sent {
                    bytes: payload.len(),
                    whole: ended && !chunked,
                })
            })
        }
        (Link::Http2(link), Peer::Http2(up)) => link.stream.received(|payload, ended, trailers| {
            let none = ended && payload.is_empty() && trailers.is_empty();
            up.send_request(exchange, &link.text, none);
            let sent = payload.len().min(up.room());
            let whole = ended && sent == payload.len() && trailers.is_empty();
            if !none && sent > 0 {
                up.send(&payload[..sent], whole);
            }
            Ok(Sent {
                bytes: sent,
                whole: none || (whole && sent > 0),
            })
        }),
    }
}

/// In which form the rest of a request goes on.
fn request_sink<'a>(up: Peer<'a>, exchange: &Exchange, down: Peer<'_>) -> Sink<'a> {
    match (up, down) {
        (Peer::Http2(up), _) => Sink::Http2(up),
        (Peer::Http1(up), Peer::Http1(_)) => Sink::Verbatim(up),
        (Peer::Http1(up), _) if exchange.request.framing == Framing::Chunked => Sink::Chunks(up),
        (Peer::Http1(up), _) => Sink::Payload(up),
    }
}

/// Sends the rest of the request while the answer may already come back.
async fn duplex(
    flow: Flow<'_>,
    mut answer: Answer<'_>,
    exchange: &mut Exchange,
    record: &mut Record,
) -> Result<Outcome> {
    let mut sending = Some(Box::pin(pump(flow)));
    let mut sent = false;
    let (worker, head_came, patience) = (answer.worker, answer.head_came, answer.patience);
    let limit = answer.head_limit();
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
                        patience.start_with(&worker.reactor, limit);
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

/// Asks for another protocol, and carries its bytes both ways once it is agreed on.
async fn upgrade(
    down: &mut Downstream<'_>,
    up: Peer<'_>,
    exchange: &mut Exchange,
    plan: &Plan<'_>,
    record: &mut Record,
) -> std::result::Result<Outcome, Failed> {
    let lost = |error| Failed {
        error,
        intact: false,
    };
    let worker = Rc::clone(&down.client.worker);
    let patience = Patience {
        idle: plan.snapshot.config.limits.tcp_idle_timeout,
        until_ms: u64::MAX,
    };
    let bytes = down.bytes();
    match up {
        Peer::Http1(up) => {
            headers::ask_for_upgrade(exchange, bytes);
            exchange.with_request(bytes, 0, b"", |slices| up.write(slices))
        }
        Peer::Http2(up) => {
            up.send_request(exchange, bytes, false);
            Ok(())
        }
    }
    .map_err(|error| lost(Error::upstream(Flag::UpstreamClosed, error)))?;
    let written = up.flush().await;
    written.map_err(|error| lost(Error::upstream(Flag::UpstreamClosed, error)))?;
    let mut came = Incoming::new(up, exchange);
    let mut answer = Answer {
        worker: &worker,
        up,
        down: down.peer(),
        plan,
        patience,
        whole: true,
        began: false,
        head_came: &Cell::new(false),
    };
    answer.await_head(&mut came, exchange).await.map_err(lost)?;
    if exchange.response.status != 101 {
        if let Peer::Http2(up) = up {
            up.send(b"", true);
        }
        let mut outcome = answer.pass_on(&mut came, exchange, record).await.map_err(lost)?;
        down.consume(exchange.request.len, 0);
        outcome.keep_down &= !worker.is_draining();
        return Ok(outcome);
    }
    answer.switch(&came, exchange, record).await.map_err(lost)?;
    down.consume(exchange.request.len, 0);
    came.consume(exchange.response.len);
    record.flag = Flag::None;
    tunnel(down, up, &mut came, patience, record).await.map_err(lost)?;
    Ok(Outcome {
        keep_down: false,
        keep_up: false,
    })
}

/// Carries bytes both ways until both sides have ended.
pub(crate) async fn tunnel(
    down: &mut Downstream<'_>,
    up: Peer<'_>,
    came: &mut Incoming,
    patience: Patience,
    record: &mut Record,
) -> Result<()> {
    let until_close = || Body::new(Framing::UntilClose);
    let (mut to_up, mut to_down, mut bytes_in, mut bytes_out) =
        (until_close(), until_close(), 0, 0);
    let is_http2 = (up.is_http2(), down.peer().is_http2());
    {
        let (from, back) = down.split(&mut to_up, &mut bytes_in);
        let there = Flow {
            from,
            into: up.tunnel_sink(),
            side: Side::Request,
            patience,
            trailers: Vec::new(),
        };
        let back = Flow {
            from: came.source(up, &mut to_down, &mut bytes_out),
            into: back.tunnel_sink(),
            side: Side::Answer,
            patience,
            trailers: Vec::new(),
        };
        both(pump(there), pump(back)).await?;
    }
    let counted = |is_http2, frames, body: &Body| match is_http2 {
        true => frames,
        false => body.payload_bytes(),
    };
    record.bytes_in = counted(is_http2.1, bytes_in, &to_up);
    record.bytes_out = counted(is_http2.0, bytes_out, &to_down);
    Ok(())
}

/// Waits for both; the first error ends it.
async fn both(
    one: impl Future<Output = Result<()>>,
    other: impl Future<Output = Result<()>>,
) -> Result<()> {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (false, false);
    poll_fn(|context| {
        if !first && let Poll::Ready(end) = one.as_mut().poll(context) {
            end?;
            first = true;
        }
        if !second && let Poll::Ready(end) = other.as_mut().poll(context) {
            end?;
            second = true;
        }
        match first && second {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    })
    .await
}

impl<'a> Peer<'a> {
    fn tunnel_sink(self) -> Sink<'a> {
        match self {
            Self::Http1(stream) => Sink::Tunnel(stream),
            Self::Http2(stream) => Sink::Http2(stream),
        }
    }
}

/// The bytes of an answer: over HTTP/1 with what of its body came along.
pub(crate) enum Incoming {
    Http1(Inbox),
    /// Only the head.
    Http2(Vec<u8>),
}

impl Incoming {
    fn new(up: Peer<'_>, exchange: &mut Exchange) -> Self {
        match up {
            Peer::Http1(stream) => Self::Http1(Inbox::new(stream.pool())),
            Peer::Http2(_) => Self::Http2(std::mem::take(&mut exchange.answer_text)),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Http1(inbox) => inbox.bytes(),
            Self::Http2(text) => text,
        }
    }

    fn consume(&mut self, count: usize) {
        match self {
            Self::Http1(inbox) => inbox.consume(count),
            Self::Http2(text) => text.clear(),
        }
    }

    fn source<'a>(
        &'a mut self,
        up: Peer<'a>,
        body: &'a mut Body,
        payload: &'a mut u64,
    ) -> Source<'a> {
        match (self, up) {
            (Self::Http1(inbox), Peer::Http1(stream)) => Source::Http1 {
                stream,
                inbox,
                body,
            },
            (_, Peer::Http2(stream)) => Source::Http2 { stream, payload },
            (Self::Http2(_), Peer::Http1(_)) => {
                unreachable!("an answer arrives the way its request went")
            }
        }
    }
}

/// The way back.
struct Answer<'a> {
    worker: &'a Worker,
    up: Peer<'a>,
    down: Peer<'a>,
    plan: &'a Plan<'a>,
    patience: Patience,
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
        let mut came = Incoming::new(self.up, exchange);
        self.await_head(&mut came, exchange).await?;
        // Nobody asked for another protocol: the request carried no Upgrade.
        if exchange.response.status == 101 {
            return Err(broken());
        }
        self.head_came.set(true);
        self.pass_on(&mut came, exchange, record).await
    }

    /// Passes on the answer whose head has come.
    async fn pass_on(
        &self,
        came: &mut Incoming,
        exchange: &mut Exchange,
        record: &mut Record,
    ) -> Result<Outcome> {
        let until_close = exchange.response.framing == Framing::UntilClose;
        let stay = exchange.request.keep_alive && !until_close && !self.worker.is_draining();
        for filter in &self.plan.route.filters {
            filter.on_response(exchange, came.bytes());
        }
        let path = headers::Path {
            from_http2: self.up.is_http2(),
            to_http2: self.down.is_http2(),
            stay,
        };
        let prepared = headers::prepare_response(exchange, came.bytes(), path);
        let mut body = Body::new(exchange.response.framing);
        record.status = exchange.response.status;
        record.answered = true;
        let mut payload = 0;
        let done = self.send_head(came, exchange, prepared.form, &mut body, &mut payload)?;
        self.patience.start(&self.worker.reactor);
        self.down.flush().await.map_err(Error::downstream)?;
        if !done {
            let mut flow = Flow {
                into: match (self.down, prepared.form) {
                    (Peer::Http2(down), _) => Sink::Http2(down),
                    (Peer::Http1(down), Form::Verbatim) => Sink::Verbatim(down),
                    (Peer::Http1(down), Form::Chunks) => Sink::Chunks(down),
                    (Peer::Http1(down), Form::Payload) => Sink::Payload(down),
                },
                from: came.source(self.up, &mut body, &mut payload),
                side: Side::Answer,
                patience: self.patience,
                trailers: Vec::new(),
            };
            let pumped = match flow.now() {
                Ok(true) => Ok(()),
                // Boxed: what is not here yet will take its time.
                Ok(false) => Box::pin(pump(flow)).await,
                Err(error) => Err(error),
            };
            record.bytes_out = payload.max(body.payload_bytes());
            pumped?;
        }
        record.bytes_out = payload.max(body.payload_bytes());
        record.flag = Flag::None;
        let keep_up = match &*came {
            Incoming::Http1(inbox) => {
                exchange.response.keep_alive && !until_close && inbox.holds_nothing()
            }
            Incoming::Http2(_) => true,
        };
        if let Incoming::Http2(text) = came {
            exchange.answer_text = std::mem::take(text);
        }
        Ok(Outcome {
            keep_down: prepared.keep,
            keep_up,
        })
    }

    /// Writes the head, and with it what of the body has arrived; says whether that was all.
    fn send_head(
        &self,
        came: &mut Incoming,
        exchange: &Exchange,
        form: Form,
        body: &mut Body,
        payload: &mut u64,
    ) -> Result<bool> {
        let head = exchange.response.len;
        match (came, self.down, self.up) {
            (Incoming::Http1(inbox), Peer::Http1(down), _) => {
                let arrived = match form {
                    Form::Verbatim => body.advance(&inbox.bytes()[head..]).map_err(|_| broken())?,
                    _ => 0,
                };
                let written =
                    exchange.with_response(inbox.bytes(), arrived, b"", |slices| down.write(slices));
                written.map_err(Error::downstream)?;
                inbox.consume(head + arrived);
                Ok(body.is_done())
            }
            (Incoming::Http1(inbox), Peer::Http2(down), _) => {
                down.send_response(exchange, inbox.bytes(), body.is_done());
                inbox.consume(head);
                Ok(body.is_done())
            }
            (Incoming::Http2(text), Peer::Http2(down), Peer::Http2(up)) => {
                let done = up.received(|bytes, ended, trailers| {
                    ended && bytes.is_empty() && trailers.is_empty()
                });
                down.send_response(exchange, text, done);
                Ok(done)
            }
            (Incoming::Http2(text), Peer::Http1(down), Peer::Http2(up)) => {
                let sent = up.received(|bytes, ended, _| {
                    let (tail, done) = match form {
                        Form::Chunks => (&b""[..], false),
                        _ => (bytes, ended),
                    };
                    let written =
                        exchange.with_response(text, 0, tail, |slices| down.write(slices));
                    written.map(|()| (tail.len(), done))
                });
                let (taken, done) = sent.map_err(Error::downstream)?;
                up.take(taken);
                *payload += taken as u64;
                Ok(done)
            }
            (Incoming::Http2(_), _, Peer::Http1(_)) => {
                unreachable!("an answer arrives the way its request went")
            }
        }
    }

    /// Tells the downstream that the other protocol begins.
    async fn switch(
        &self,
        came: &Incoming,
        exchange: &mut Exchange,
        record: &mut Record,
    ) -> Result<()> {
        headers::prepare_switch(exchange, came.bytes());
        record.status = exchange.response.status;
        record.answered = true;
        match self.down {
            Peer::Http1(down) => exchange
                .with_response(came.bytes(), 0, b"", |slices| down.write(slices))
                .map_err(Error::downstream)?,
            Peer::Http2(down) => down.send_response(exchange, came.bytes(), false),
        }
        self.patience.start(&self.worker.reactor);
        self.down.flush().await.map_err(Error::downstream)
    }

    /// How long the upstream may take for its head once it has the whole request.
    fn head_limit(&self) -> Duration {
        let limits = &self.plan.snapshot.config.limits;
        match limits.request_timeout {
            Duration::ZERO => limits.stream_idle_timeout,
            limit => limit,
        }
    }

    /// Reads heads up to the final one (or the one that switches protocols), passing interim
    /// ones on.
    async fn await_head(&mut self, came: &mut Incoming, exchange: &mut Exchange) -> Result<()> {
        // While the request's body is on its way the pump looks at the clock.
        if self.whole {
            let limit = self.head_limit();
            self.patience.start_with(&self.worker.reactor, limit);
        }
        let mut interim = 0;
        loop {
            self.read_head(came, exchange).await?;
            match exchange.response.status {
                101 => return Ok(()),
                100..200 if interim == INTERIM_MAX => return Err(broken()),
                100..200 => self.pass_interim(came, exchange).await?,
                _ => return Ok(()),
            }
            interim += 1;
        }
    }

    async fn read_head(&mut self, came: &mut Incoming, exchange: &mut Exchange) -> Result<()> {
        match (came, self.up) {
            (Incoming::Http1(inbox), Peer::Http1(up)) => {
                let http = &self.plan.snapshot.limits;
                let read = http1::read_response(up, inbox, exchange, http, self.down).await;
                self.began |= !inbox.is_empty();
                read
            }
            (Incoming::Http2(text), Peer::Http2(up)) => {
                let head = poll_fn(|_| {
                    if self.down.is_broken() {
                        return Poll::Ready(Err(Error::new(Flag::DownstreamClosed)));
                    }
                    up.poll_head(exchange, text)
                        .map_err(|error| Error::upstream(Flag::UpstreamClosed, error))
                });
                let came = head.await?;
                self.began = true;
                debug_assert!(
                    (came == Came::Interim) == matches!(exchange.response.status, 100 | 102..=199),
                    "the status says which head it is"
                );
                Ok(())
            }
            _ => unreachable!("an answer arrives the way its request went"),
        }
    }

    async fn pass_interim(&self, came: &mut Incoming, exchange: &Exchange) -> Result<()> {
        let head = &exchange.response;
        match self.down {
            Peer::Http1(down) if exchange.request.version == Version::Http11 => {
                let parts = runs(&head.lines, came.bytes(), 0, head.len);
                let mut interim: Vec<u8> = parts.collect::<Vec<_>>().concat();
                interim.extend_from_slice(b"\r\n");
                down.write(&[IoSlice::new(&interim)])
                    .map_err(Error::downstream)?;
                down.flush().await.map_err(Error::downstream)?;
            }
            Peer::Http1(_) => {}
            Peer::Http2(down) => down.send_response(exchange, came.bytes(), false),
        }
        came.consume(head.len);
        Ok(())
    }
}

impl Peer<'_> {
    /// Whether waiting for an answer on its behalf is vain.
    pub(crate) fn is_gone(self) -> bool {
        self.is_broken()
    }
}

fn broken() -> Error {
    Error::new(Flag::UpstreamProtocol)
}
