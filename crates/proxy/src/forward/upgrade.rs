//! Another protocol than HTTP between two connections: the upgrade of HTTP/1.1 and the bytes that
//! follow it. Called by `forward` for requests that ask for one, and by `connect` for its tunnels.

use super::answer::{Answer, Incoming};
use super::{Failed, Outcome, Peer, Plan};
use crate::body::{Flow, Patience, Side, Sink, pump};
use crate::connection::Downstream;
use crate::error::{Error, Flag, Result};
use crate::exchange::Exchange;
use crate::headers;
use crate::record::Record;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use wire::http1::{Body, Framing};

/// Asks for another protocol, and carries its bytes both ways once it is agreed on.
pub(super) async fn upgrade(
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
        until_ms: exchange.expires_ms,
    };
    let bytes = down.bytes();
    match up {
        Peer::Http1(up) => {
            headers::ask_for_upgrade(exchange, bytes);
            exchange.with_request(bytes, 0, b"", |slices| up.write(slices))
        }
        Peer::Http2(up) => {
            up.send_request(exchange, bytes, false).map_err(lost)?;
            Ok(())
        }
    }
    .map_err(|error| lost(Error::upstream(Flag::UpstreamClosed, error)))?;
    let written = up.flush().await;
    written.map_err(|error| lost(Error::upstream(Flag::UpstreamClosed, error)))?;
    let mut came = Incoming::new(up, exchange);
    let head_came = &Cell::new(false);
    let mut answer = Answer::begin((down.client, plan, patience), (up, down.peer()), head_came);
    answer.whole = true;
    answer.await_head(&mut came, exchange).await.map_err(lost)?;
    if exchange.response.status != 101 {
        if let Peer::Http2(up) = up {
            up.send(b"", true);
        }
        let mut outcome = answer
            .pass_on(&mut came, exchange, record)
            .await
            .map_err(lost)?;
        down.consume(exchange.request.len, 0);
        outcome.keep_down &= !worker.is_draining();
        return Ok(outcome);
    }
    answer.switch(&came, exchange, record).await.map_err(lost)?;
    down.consume(exchange.request.len, 0);
    came.consume(exchange.response.len);
    record.flag = Flag::None;
    tunnel(down, up, &mut came, patience, record)
        .await
        .map_err(lost)?;
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
            length: None,
        };
        let back = Flow {
            from: came.source(up, &mut to_down, &mut bytes_out),
            into: back.tunnel_sink(),
            side: Side::Answer,
            patience,
            trailers: Vec::new(),
            length: None,
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
