//! An exchange between two connections, whatever each speaks: a request's head and body up, its
//! answer down. Called by `request` once per attempt; the bodies are `body`'s.

mod answer;
mod upgrade;

pub(crate) use answer::Incoming;
pub(crate) use upgrade::tunnel;

use crate::body::{Flow, Patience, STEP_MAX, Side, Sink, pump};
use crate::connection::{Downstream, Link};
use crate::error::{Error, Flag, Result};
use crate::exchange::Exchange;
use crate::http2::Handle;
use crate::record::Record;
use crate::snapshot::{Route, Snapshot};
use crate::stream::Stream;
use answer::Answer;
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use wire::http1::{Body, Framing};

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

impl Failed {
    /// Whatever went wrong, the request is still there.
    pub(crate) const fn intact(error: Error) -> Self {
        Self {
            error,
            intact: true,
        }
    }
}

/// What the path has decided about a request.
pub(crate) struct Plan<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) route: &'a Route,
    /// Place of the cluster that answers.
    pub(crate) cluster: usize,
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

    /// Whether it is in vain to wait on its behalf.
    pub(crate) fn is_gone(self) -> bool {
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
    let worker = Rc::clone(&down.client.worker);
    let patience = Patience {
        idle: plan.snapshot.config.limits.stream_idle_timeout,
        until_ms: exchange.until_ms,
    };
    patience.start(&worker.reactor);
    if exchange.request.protocol.is_some() {
        return Box::pin(upgrade::upgrade(down, up, exchange, plan, record)).await;
    }
    let mut body = Body::new(exchange.request.framing);
    let sent = send_request(down, up, exchange, &mut body).map_err(Failed::intact)?;
    up.flush()
        .await
        .map_err(|error| Failed::intact(Error::upstream(Flag::UpstreamClosed, error)))?;
    if sent.whole {
        record.bytes_in = match down.link {
            Link::Http1(_) => body.payload_bytes(),
            Link::Http2(_) => sent.bytes as u64,
        };
        let head_came = &Cell::new(false);
        let mut answer = Answer::begin((down.client, plan, patience), (up, down.peer()), head_came);
        answer.whole = true;
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
    // Boxed: two directions at once are the exception, and large.
    let rest = Rest {
        up,
        body,
        payload: sent.bytes as u64,
        patience,
    };
    let outcome = Box::pin(duplex(down, rest, exchange, plan, record)).await;
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
            let arrived = body
                .advance(&bytes[exchange.request.len..])
                .map_err(refuse)?;
            let written = exchange.with_request(bytes, arrived, b"", |slices| up.write(slices));
            written.map_err(failed)?;
            Ok(Sent {
                bytes: arrived,
                whole: body.is_done(),
            })
        }
        (Link::Http1(link), Peer::Http2(up)) => {
            let bytes = link.inbox.bytes();
            up.send_request(exchange, bytes, body.is_done())?;
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
        (Link::Http2(link), up) => link.stream.received(|payload, ended, trailers| {
            // A request without a body has none, whatever comes on its stream: it may have
            // asked for another protocol in vain.
            let bodiless = exchange.request.framing == Framing::None;
            let arrived = match bodiless {
                true => (&b""[..], true, &b""[..]),
                false => (payload, ended, trailers),
            };
            send_stream(&link.text, arrived, up, exchange)
        }),
    }
}

/// Writes the head of a request that came over HTTP/2, and of its body what has `arrived`, with
/// whether that is all, and the trailers.
fn send_stream(
    text: &[u8],
    (payload, ended, trailers): (&[u8], bool, &[u8]),
    up: Peer<'_>,
    exchange: &mut Exchange,
) -> Result<Sent> {
    match up {
        Peer::Http1(up) => {
            let chunked = exchange.request.framing == Framing::Chunked;
            if chunked && !exchange.has_request_line(text, "transfer-encoding") {
                let line = b"transfer-encoding: chunked\r\n";
                exchange.request_extra.extend_from_slice(line);
            }
            let now = if chunked {
                0
            } else {
                payload.len().min(STEP_MAX)
            };
            let (payload, rest) = payload.split_at(now);
            let written = exchange.with_request(text, 0, payload, |slices| up.write(slices));
            written.map_err(|error| Error::upstream(Flag::UpstreamClosed, error))?;
            let bytes = payload.len();
            // A body with a length has ended with its last byte, though its stream may go on.
            let came = ended || exchange.request.framing == Framing::Length(bytes as u64);
            Ok(Sent {
                bytes,
                whole: came && !chunked && rest.is_empty(),
            })
        }
        Peer::Http2(up) => {
            let none = ended && payload.is_empty() && trailers.is_empty();
            up.send_request(exchange, text, none)?;
            let sent = payload.len().min(up.room());
            let whole = ended && sent == payload.len() && trailers.is_empty();
            if !none && sent > 0 {
                up.send(&payload[..sent], whole);
            }
            Ok(Sent {
                bytes: sent,
                whole: none || (whole && sent > 0),
            })
        }
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

/// What of a request is still to be sent.
struct Rest<'a> {
    up: Peer<'a>,
    body: Body,
    /// Bytes of frames that were sent.
    payload: u64,
    patience: Patience,
}

/// Sends the rest of the request while the answer may already come back.
async fn duplex(
    down: &mut Downstream<'_>,
    mut rest: Rest<'_>,
    exchange: &mut Exchange,
    plan: &Plan<'_>,
    record: &mut Record,
) -> Result<Outcome> {
    let (up, patience, head_came) = (rest.up, rest.patience, &Cell::new(false));
    let (client, worker) = (down.client, Rc::clone(&down.client.worker));
    let is_http1 = matches!(down.link, Link::Http1(_));
    let (from, back) = down.split(&mut rest.body, &mut rest.payload);
    let flow = Flow {
        from,
        into: request_sink(up, exchange, back),
        side: Side::Request,
        patience,
        trailers: Vec::new(),
        length: exchange.request.framing.length(),
    };
    let mut sending = Some(Box::pin(pump(flow)));
    let mut sent = false;
    let mut answer = Answer::begin((client, plan, patience), (up, back), head_came);
    let limit = answer.head_limit();
    let outcome = {
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
        .await
    };
    drop(sending);
    record.bytes_in = match is_http1 {
        true => rest.body.payload_bytes(),
        false => rest.payload,
    };
    let mut outcome = outcome?;
    // A body that is not through when its answer is cannot be told from the next request.
    outcome.keep_down &= sent;
    outcome.keep_up &= sent;
    Ok(outcome)
}
