//! The life of a request: everything that happens to it is on this page, in order. Called by
//! `connection` until the connection ends.

use crate::authorize;
use crate::balance::{self, Tried};
use crate::connection::Downstream;
use crate::error::{Error, Flag, Result};
use crate::exchange::Exchange;
use crate::filter::{self, BodyMode, Verdict};
use crate::forward::{self, Failed, Plan};
use crate::headers;
use crate::http1;
use crate::pool::{self, Want};
use crate::record::Record;
use crate::retry;
use crate::snapshot::Listener;
use crate::worker::View;
use std::io::IoSlice;
use std::rc::Rc;
use wire::http1::{Body, Framing, Method, RequestHead};

/// Waits for a request, serves it and records it exactly once; says whether the connection can
/// carry another.
pub(crate) async fn serve(down: &mut Downstream) -> bool {
    let view = down.worker.view();
    down.worker
        .reactor
        .deadline_after(view.snapshot.config.limits.idle_timeout);
    drop(view);
    if !http1::await_bytes(down).await {
        return false;
    }
    let mut exchange = down.worker.lend_exchange();
    let mut record = Record::begin(down.worker.reactor.now());
    let after = match proxy(down, &mut exchange, &mut record).await {
        Ok(true) => After::Stay,
        Ok(false) => After::Linger,
        Err(error) => fail(down, &exchange, error, &mut record).await,
    };
    // The request ends here, however long its connection takes to.
    drop(record);
    down.worker.give_back_exchange(exchange);
    if after == After::Linger {
        Box::pin(http1::linger(down)).await;
    }
    after == After::Stay
}

/// What becomes of the connection after a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Stay,
    /// It ends once the downstream has its answer.
    Linger,
    /// It ends at once.
    Drop,
}

/// Answers for what went wrong, if something can still be answered.
async fn fail(
    down: &mut Downstream,
    exchange: &Exchange,
    error: Error,
    record: &mut Record,
) -> After {
    record.flag = error.flag;
    if error.flag == Flag::DownstreamClosed {
        return After::Drop;
    }
    crate::log::debug(format_args!("{}: {error}", down.peer));
    if record.answered {
        // The downstream must not take a part for the whole.
        down.stream.tcp.abort_on_close();
        return After::Drop;
    }
    match http1::answer(down, exchange, &error, record).await {
        true => After::Stay,
        false => After::Linger,
    }
}

/// The life of a request.
async fn proxy(
    down: &mut Downstream,
    exchange: &mut Exchange,
    record: &mut Record,
) -> Result<bool> {
    // One view of the mesh per request, whatever changes meanwhile.
    let view = down.worker.view();
    let limits = &view.snapshot.config.limits;
    down.worker.reactor.deadline_after(limits.header_timeout);
    let read = http1::read_request(down, exchange, &view.snapshot.limits).await;
    let Some(listener) = view.snapshot.listener(down.place, &down.listener) else {
        // Its listener was taken away: this connection has no place to go, nor will it have.
        exchange.gone = true;
        return Err(read.err().unwrap_or_else(|| Error::new(Flag::NoRoute)));
    };
    if let Err(error) = read {
        if error.flag != Flag::DownstreamClosed || !down.inbox.is_empty() {
            record.assign(down, &view.snapshot, listener.direction, None);
            record.note_refused(down);
        }
        return Err(error);
    }
    if let Some(status) = refusal(&exchange.request, down.inbox.bytes(), listener) {
        record.assign(down, &view.snapshot, listener.direction, None);
        record.note(down, exchange);
        return Err(Error::with_status(Flag::DownstreamProtocol, status));
    }
    let bytes = down.inbox.bytes();
    let authority = exchange.request.authority.or(exchange.request.host);
    let authority = authority.map_or(&b""[..], |span| span.of(bytes));
    let route = listener
        .routes
        .find(authority, exchange.request.path.of(bytes));
    let cluster = route.map(|route| route.cluster);
    record.assign(down, &view.snapshot, listener.direction, cluster);
    record.note(down, exchange);
    let route = route.ok_or_else(|| Error::new(Flag::NoRoute))?;
    authorize::check(route, down.id.as_ref())?;
    filter(down, exchange, &route.filters).await?;
    prepare(down, exchange, listener);
    record.note_added(exchange);
    let plan = Plan {
        snapshot: &view.snapshot,
        route,
    };
    attempts(down, exchange, &view, &plan, record).await
}

/// What is well formed but not to be routed, with the status that says so.
fn refusal(head: &RequestHead, bytes: &[u8], listener: &Listener) -> Option<u16> {
    if head.method == Method::Connect {
        return Some(501);
    }
    (!listener.routes.takes(head.path.of(bytes))).then_some(400)
}

/// Runs the filters; only those that declare it wait or see the body.
async fn filter(
    down: &mut Downstream,
    exchange: &mut Exchange,
    filters: &[filter::Filter],
) -> Result<()> {
    if let BodyMode::Buffer(limit) = filter::body_mode(filters) {
        Box::pin(gather(down, exchange, limit)).await?;
    }
    for filter in filters {
        let reactor = &down.worker.reactor;
        match filter.on_request(exchange, down.inbox.bytes(), reactor) {
            Verdict::Continue => {}
            Verdict::Wait(answer) => answer.await,
        }
    }
    Ok(())
}

/// Reads until the request's whole body, of at most `limit` bytes with its framing, is in its
/// buffer, behind the head.
async fn gather(down: &mut Downstream, exchange: &mut Exchange, limit: usize) -> Result<()> {
    if matches!(exchange.request.framing, Framing::Length(length) if length > limit as u64) {
        return Err(Error::new(Flag::TooLarge));
    }
    if exchange.request.expect_continue {
        // Nobody else says so while the request is here.
        exchange.drop_request_line(down.inbox.bytes(), "expect");
        let go_on = [IoSlice::new(b"HTTP/1.1 100 Continue\r\n\r\n")];
        down.stream.write(&go_on).map_err(Error::downstream)?;
        down.stream.flush().await.map_err(Error::downstream)?;
    }
    let idle = down
        .worker
        .view()
        .snapshot
        .config
        .limits
        .stream_idle_timeout;
    let mut body = Body::new(exchange.request.framing);
    let mut seen = exchange.request.len;
    loop {
        let taken = body.advance(&down.inbox.bytes()[seen..]);
        seen += taken.map_err(|_| Error::new(Flag::DownstreamProtocol))?;
        if seen - exchange.request.len > limit {
            return Err(Error::new(Flag::TooLarge));
        }
        if body.is_done() {
            return Ok(());
        }
        down.worker.reactor.deadline_after(idle);
        if down
            .stream
            .fill(&mut down.inbox)
            .await
            .map_err(Error::downstream)?
            == 0
        {
            return Err(Error::new(Flag::DownstreamClosed));
        }
    }
}

fn prepare(down: &Downstream, exchange: &mut Exchange, listener: &Listener) {
    let random = || u128::from(down.worker.random()) << 64 | u128::from(down.worker.random());
    let (bytes, peer) = (down.inbox.bytes(), down.peer.ip());
    headers::prepare_request(exchange, bytes, listener, peer, random);
}

/// Sends the request to an endpoint, and to further ones as long as that is safe.
async fn attempts(
    down: &mut Downstream,
    exchange: &mut Exchange,
    view: &View,
    plan: &Plan<'_>,
    record: &mut Record,
) -> Result<bool> {
    let cluster = &view.clusters[plan.route.cluster];
    let balance = plan.snapshot.clusters[plan.route.cluster].balance;
    let mut tried = Tried::default();
    let mut want = retry::want(&exchange.request);
    loop {
        let random = || down.worker.random();
        let turn = cluster.next_turn();
        let place = balance::pick(&cluster.endpoints, balance, tried, turn, random)
            .ok_or_else(|| Error::new(Flag::NoEndpoint))?;
        let state = Rc::clone(&cluster.endpoints[place]);
        let attempt = match pool::checkout(&down.worker, &state, want).await {
            Ok(upstream) => {
                let reused = upstream.reused;
                record.sent_to(state.endpoint.address);
                let result =
                    forward::exchange(down, &upstream.stream, exchange, plan, record).await;
                match result {
                    Ok(outcome) => {
                        upstream.checkin(&down.worker, outcome.keep_up);
                        return Ok(outcome.keep_down);
                    }
                    Err(failed) => {
                        upstream.checkin(&down.worker, false);
                        (failed, reused)
                    }
                }
            }
            Err(error) => (
                Failed {
                    error,
                    intact: true,
                },
                false,
            ),
        };
        let (failed, reused) = attempt;
        let again = retry::may(&failed, reused, &exchange.request, tried.count());
        match again {
            // With nobody left to ask, what went wrong with the last is the answer.
            retry::Again::Elsewhere if (tried.count() as usize) + 1 < cluster.endpoints.len() => {
                tried.add(place);
            }
            retry::Again::OnFreshConnection => want = Want::Fresh,
            _ => return Err(failed.error),
        }
        exchange.response_extra.clear();
        record.retry();
    }
}
