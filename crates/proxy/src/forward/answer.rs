//! The way back of an exchange: an answer's head, interim heads before it, its body. Called by
//! `forward` and `upgrade`; the body is `body`'s.

use super::{Outcome, Peer, Plan};
use crate::body::{Flow, Patience, STEP_MAX, Side, Sink, Source, pump};
use crate::buffer::Inbox;
use crate::connection::Client;
use crate::error::{Error, Flag, Result};
use crate::exchange::Exchange;
use crate::headers::{self, Form};
use crate::http1;
use crate::http2::Came;
use crate::record::Record;
use std::cell::Cell;
use std::future::poll_fn;
use std::io::IoSlice;
use std::task::Poll;
use std::time::Duration;
use wire::http1::{Body, Framing, Version, runs};

/// Interim answers before the final one: more than any server sends.
const INTERIM_MAX: u32 = 64;

/// The bytes of an answer: over HTTP/1 with what of its body came along.
pub(crate) enum Incoming {
    Http1(Inbox),
    /// Only the head.
    Http2(Vec<u8>),
}

impl Incoming {
    pub(super) fn new(up: Peer<'_>, exchange: &mut Exchange) -> Self {
        match up {
            Peer::Http1(stream) => Self::Http1(Inbox::new(stream.pool())),
            Peer::Http2(_) => Self::Http2(std::mem::take(&mut exchange.answer_text)),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Http1(inbox) => inbox.bytes(),
            Self::Http2(text) => text,
        }
    }

    pub(super) fn consume(&mut self, count: usize) {
        match self {
            Self::Http1(inbox) => inbox.consume(count),
            Self::Http2(text) => text.clear(),
        }
    }

    pub(super) fn source<'a>(
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
pub(super) struct Answer<'a> {
    client: &'a Client,
    up: Peer<'a>,
    down: Peer<'a>,
    plan: &'a Plan<'a>,
    patience: Patience,
    /// All of the request has been sent.
    pub(super) whole: bool,
    /// A byte of an answer has come.
    pub(super) began: bool,
    /// The final answer's head has come.
    head_came: &'a Cell<bool>,
}

impl<'a> Answer<'a> {
    /// Of a request that went from the second of the peers to the first.
    pub(super) fn begin(
        (client, plan, patience): (&'a Client, &'a Plan<'a>, Patience),
        (up, down): (Peer<'a>, Peer<'a>),
        head_came: &'a Cell<bool>,
    ) -> Self {
        Self {
            client,
            up,
            down,
            plan,
            patience,
            whole: false,
            began: false,
            head_came,
        }
    }

    /// Reads the answer and passes it on.
    pub(super) async fn bring(
        &mut self,
        exchange: &mut Exchange,
        record: &mut Record,
    ) -> Result<Outcome> {
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
    pub(super) async fn pass_on(
        &self,
        came: &mut Incoming,
        exchange: &mut Exchange,
        record: &mut Record,
    ) -> Result<Outcome> {
        let until_close = exchange.response.framing == Framing::UntilClose;
        let stay = exchange.request.keep_alive && !until_close && self.client.may_stay();
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
        self.patience.start(&self.client.worker.reactor);
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
                length: exchange.response.framing.length(),
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
                let written = exchange
                    .with_response(inbox.bytes(), arrived, b"", |slices| down.write(slices));
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
                        _ => {
                            let now = bytes.len().min(STEP_MAX);
                            (&bytes[..now], ended && now == bytes.len())
                        }
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
    pub(super) async fn switch(
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
        self.patience.start(&self.client.worker.reactor);
        self.down.flush().await.map_err(Error::downstream)
    }

    /// How long the upstream may take for its head once it has the whole request.
    pub(super) fn head_limit(&self) -> Duration {
        let limits = &self.plan.snapshot.config.limits;
        // How long it may be in all, is for whoever knows the route.
        let request_timeout = self.plan.route.timeout.unwrap_or(limits.request_timeout);
        match request_timeout {
            Duration::ZERO => limits.stream_idle_timeout,
            limit => limit,
        }
    }

    /// Reads heads up to the final one (or the one that switches protocols), passing interim
    /// ones on.
    pub(super) async fn await_head(
        &mut self,
        came: &mut Incoming,
        exchange: &mut Exchange,
    ) -> Result<()> {
        // While the request's body is on its way the pump looks at the clock.
        if self.whole {
            let limit = self.head_limit();
            self.patience.start_with(&self.client.worker.reactor, limit);
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
                    if self.down.is_gone() {
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

fn broken() -> Error {
    Error::new(Flag::UpstreamProtocol)
}
