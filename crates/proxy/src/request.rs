//! The life of a request: everything that happens to it is on this page, in order. Called by
//! `connection` until the connection ends.

use crate::authorize;
use crate::balance::{self, Tried};
use crate::body::Patience;
use crate::connect;
use crate::connection::{Client, Downstream, Link};
use crate::error::{Error, Flag, Result};
use crate::exchange::Exchange;
use crate::filter::{self, BodyMode, Verdict};
use crate::forward::{self, Failed, Plan};
use crate::headers;
use crate::http1;
use crate::http2;
use crate::pool::{self, EndpointState, Upstream, Want};
use crate::record::Record;
use crate::retry;
use crate::snapshot::{Cluster, Endpoint, Listener, Route};
use crate::target;
use crate::telemetry::metrics::Protocol;
use crate::trust::Standing;
use crate::worker::View;
use model::Direction;
use model::Protocol::{Auto, Http1};
use std::io::IoSlice;
use std::rc::Rc;
use std::time::Duration;
use wire::http1::{Body, Framing, Method, Origin, RequestHead};

/// Waits for a request over HTTP/1, serves it and records it exactly once; says whether the
/// connection can carry another.
pub(crate) async fn serve_http1(client: &Client, link: &mut http1::Link) -> bool {
    let view = client.worker.view();
    let idle = Patience {
        idle: view.snapshot.config.limits.idle_timeout,
        until_ms: client.expires_ms,
    };
    idle.start(&client.worker.reactor);
    drop(view);
    if !http1::await_bytes(client, link, idle).await {
        return false;
    }
    // One view of the mesh per request, whatever changes meanwhile.
    let view = client.worker.view();
    if client.standing(&view) == Standing::Lost {
        return false;
    }
    let mut exchange = client.worker.lend_exchange();
    let mut record = Record::begin(client.worker.reactor.now());
    let limits = &view.snapshot.config.limits;
    client.worker.reactor.deadline_after(limits.header_timeout);
    let read = http1::read_request(link, &mut exchange, &view.snapshot.limits).await;
    // A connection does not outlive its certificates, nor what they rest on.
    let lasts = client.worker.reactor.now_ms() < client.expires_ms;
    exchange.request.keep_alive &= lasts && client.is_trusted(&view);
    let mut down = Downstream {
        client,
        link: Link::Http1(link),
    };
    let proxied = proxy(&mut down, &mut exchange, &mut record, &view, read).await;
    drop(view);
    let after = match proxied {
        Ok(true) => After::Stay,
        Ok(false) => After::Linger,
        Err(error) => fail(client, link, &exchange, error, &mut record).await,
    };
    // The request ends here, however long its connection takes to.
    drop(record);
    client.worker.give_back_exchange(exchange);
    if after == After::Linger {
        Box::pin(http1::linger(client, link)).await;
    }
    after == After::Stay
}

/// Serves a request that came over HTTP/2 with the head that `exchange` has, unless that has to be
/// `refused` with a status, and records it exactly once.
pub(crate) async fn serve_http2(
    client: &Client,
    link: &mut http2::Link,
    exchange: &mut Exchange,
    refused: Option<u16>,
) {
    let mut record = Record::begin(client.worker.reactor.now());
    let view = client.worker.view();
    let refuse = |status| Err(Error::with_status(Flag::DownstreamProtocol, status));
    let read = refused.map_or(Ok(()), refuse);
    let mut down = Downstream {
        client,
        link: Link::Http2(link),
    };
    let proxied = proxy(&mut down, exchange, &mut record, &view, read).await;
    let Err(error) = proxied else {
        let all_came = exchange.request.framing == Framing::Length(record.bytes_in);
        drop(record);
        if all_came {
            link.stream.await_end().await;
        }
        return;
    };
    record.flag = error.flag;
    crate::log::debug(format_args!("{}: {error}", client.peer));
    let listener = view.snapshot.listener(client.place, &client.listener);
    if listener.is_none() {
        // It was taken away: the client is to come anew.
        link.stream.retire();
    }
    match error.flag {
        Flag::DownstreamClosed => {}
        // The downstream must not take a part for the whole.
        _ if record.answered => link.stream.reset(wire::h2::Code::InternalError),
        // Another may have what was never sent: an answer would keep the peer from asking there.
        _ if error.is_unsent() && link.stream.is_hop() => {
            record.status = error.status();
            link.stream.reset(wire::h2::Code::ConnectError);
        }
        // Likewise, once, where it does no harm to be seen twice.
        _ if error.is_unanswered()
            && link.stream.is_hop()
            && retry::is_idempotent(exchange.request.method) =>
        {
            record.status = error.status();
            link.stream.reset(wire::h2::Code::InternalError);
        }
        _ => http2::answer(link, exchange, &error, &mut record),
    }
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

/// Answers over HTTP/1 for what went wrong, if something can still be answered.
async fn fail(
    client: &Client,
    link: &mut http1::Link,
    exchange: &Exchange,
    error: Error,
    record: &mut Record,
) -> After {
    record.flag = error.flag;
    if error.flag == Flag::DownstreamClosed {
        return After::Drop;
    }
    crate::log::debug(format_args!("{}: {error}", client.peer));
    if record.answered {
        // The downstream must not take a part for the whole.
        link.stream.tcp.abort_on_close();
        return After::Drop;
    }
    match http1::answer(client, link, exchange, &error, record).await {
        true => After::Stay,
        false => After::Linger,
    }
}

/// The life of a request, once its head was `read`.
async fn proxy(
    down: &mut Downstream<'_>,
    exchange: &mut Exchange,
    record: &mut Record,
    view: &View,
    read: Result<()>,
) -> Result<bool> {
    let client = down.client;
    let Some(listener) = listener(down, view) else {
        // Its listener was taken away: this connection has no place to go, nor will it have.
        exchange.gone = true;
        return Err(read.err().unwrap_or_else(|| Error::new(Flag::NoRoute)));
    };
    if let Err(error) = read {
        if error.flag != Flag::DownstreamClosed || !down.bytes().is_empty() {
            record.assign(
                down,
                &view.snapshot,
                listener.direction,
                None,
                Protocol::Http1,
            );
            record.note_refused(down);
        }
        return Err(error);
    }
    let protocol = protocol(exchange, down.bytes());
    if let Some(status) = refusal(&exchange.request, down.bytes(), listener) {
        record.assign(down, &view.snapshot, listener.direction, None, protocol);
        record.note(down, exchange);
        return Err(Error::with_status(Flag::DownstreamProtocol, status));
    }
    let bytes = down.bytes();
    let (authority, path) = destination(&exchange.request, bytes);
    let route = listener.routes.find(authority, path);
    let cluster = route.and_then(|route| route.pick(|| client.worker.random()));
    record.assign(down, &view.snapshot, listener.direction, cluster, protocol);
    record.note(down, exchange);
    let Some(route) = route else {
        return Err(Error::new(Flag::NoRoute));
    };
    authorize::check(route, client.id.as_ref())?;
    let Some(cluster) = cluster else {
        return Err(redirect(route, exchange, bytes));
    };
    if exchange.request.method == Method::Connect {
        // What goes through the tunnel is not read: it might be for any route.
        let id = client.id.as_ref();
        let mut all = listener.routes.all();
        all.try_for_each(|route| authorize::check(route, id))?;
        let connected = connect::serve(down, exchange, view, cluster, record);
        return Box::pin(connected).await.map(|()| false);
    }
    if protocol == Protocol::Grpc {
        exchange.until_ms = grpc_deadline(exchange, down.bytes(), client.worker.reactor.now_ms());
    }
    filter(down, exchange, &route.filters).await?;
    if !prepare(down, exchange, (listener, route)) {
        return Err(Error::with_status(Flag::DownstreamProtocol, 501));
    }
    record.note_added(exchange);
    limit(exchange, route, down.client.worker.reactor.now_ms());
    match view.snapshot.clusters[cluster].protocol {
        // Said here and not where the application is: on the way there it goes as what it is to be.
        Http1 => as_http1(exchange, protocol),
        Auto if listener.edge.is_some() => as_http1(exchange, protocol),
        _ => {}
    }
    let plan = Plan {
        snapshot: &view.snapshot,
        route,
        cluster,
    };
    attempts(down, exchange, view, &plan, record).await
}

/// The listener that serves a request. Connections that requests share are replaced where a new one
/// would be served by another. What comes in meanwhile is served by that one if its own was taken
/// away: the control plane tells us and those who send to us of a change in no order.
fn listener<'v>(down: &Downstream<'_>, view: &'v View) -> Option<&'v Listener> {
    let (client, snapshot) = (down.client, &view.snapshot);
    let own = snapshot.listener(client.place, &client.listener);
    if own.is_some_and(|own| !own.original_destination) {
        return own;
    }
    let Some(destination) = client.destination else {
        return own;
    };
    let anew = snapshot.redirected(destination, client.direction);
    let is_same = own.map(|own| &own.name) == anew.map(|anew| &anew.name);
    if let (false, Link::Http2(link)) = (is_same, &down.link) {
        link.stream.retire();
    }
    own.or_else(|| anew.filter(|_| client.direction == Direction::Inbound))
}

/// Host and path by which a request is routed; CONNECT has no path.
fn destination<'b>(head: &RequestHead, bytes: &'b [u8]) -> (&'b [u8], &'b [u8]) {
    if head.method == Method::Connect {
        return (head.path.of(bytes), b"/");
    }
    let authority = head.authority.or(head.host);
    let authority = authority.map_or(&b""[..], |span| span.of(bytes));
    (authority, head.path.of(bytes))
}

/// What the metrics call it.
fn protocol(exchange: &Exchange, bytes: &[u8]) -> Protocol {
    match exchange.request.origin {
        Origin::Http2 if exchange.is_grpc(bytes) => Protocol::Grpc,
        Origin::Http2 => Protocol::Http2,
        Origin::Http1 => Protocol::Http1,
    }
}

/// When a gRPC call has to be over (`grpc-timeout`), in ms of the reactor's clock.
fn grpc_deadline(exchange: &Exchange, bytes: &[u8], now_ms: u64) -> u64 {
    let line = exchange.request.find(bytes, "grpc-timeout");
    let limit = line.and_then(|line| headers::grpc_timeout(line.value.of(bytes)));
    limit.map_or(u64::MAX, |limit| after(now_ms, limit))
}

fn after(now_ms: u64, limit: Duration) -> u64 {
    now_ms.saturating_add(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
}

/// That somebody speaks HTTP/2 with us says nothing of what an application speaks: where HTTP/1.1
/// is said, or nothing and they are outside of the mesh, it is that, but for gRPC, which has no
/// other way.
fn as_http1(exchange: &mut Exchange, protocol: Protocol) {
    if protocol != Protocol::Grpc {
        exchange.request.origin = Origin::Http1;
    }
}

/// Gives a request no more time than its route has for one.
fn limit(exchange: &mut Exchange, route: &Route, now_ms: u64) {
    let is_request = exchange.request.protocol.is_none();
    if let Some(timeout) = route.timeout.filter(|_| is_request) {
        exchange.until_ms = exchange.until_ms.min(after(now_ms, timeout));
    }
}

/// What tells a client to ask elsewhere, where a route leads to no cluster.
fn redirect(route: &Route, exchange: &mut Exchange, bytes: &[u8]) -> Error {
    let Some(redirect) = &route.redirect else {
        return Error::new(Flag::NoRoute);
    };
    match target::location(redirect, &route.prefix, exchange, bytes) {
        Some(line) => {
            exchange.response_extra = line;
            Error::redirect(redirect.status)
        }
        None => Error::with_status(Flag::DownstreamProtocol, 400),
    }
}

/// What is well formed but not to be routed, with the status that says so.
fn refusal(head: &RequestHead, bytes: &[u8], listener: &Listener) -> Option<u16> {
    if head.method == Method::Connect {
        return (!listener.connect).then_some(501);
    }
    (!listener.routes.takes(head.path.of(bytes))).then_some(400)
}

/// Runs the filters; only those that declare it wait or see the body.
async fn filter(
    down: &mut Downstream<'_>,
    exchange: &mut Exchange,
    filters: &[filter::Filter],
) -> Result<()> {
    if let BodyMode::Buffer(limit) = filter::body_mode(filters) {
        Box::pin(gather(down, exchange, limit)).await?;
    }
    for filter in filters {
        let reactor = &down.client.worker.reactor;
        match filter.on_request(exchange, down.bytes(), reactor) {
            Verdict::Continue => {}
            Verdict::Wait(answer) => answer.await,
        }
    }
    Ok(())
}

/// Waits until the request's whole body, of at most `limit` bytes with its framing, is there.
async fn gather(down: &mut Downstream<'_>, exchange: &mut Exchange, limit: usize) -> Result<()> {
    if matches!(exchange.request.framing, Framing::Length(length) if length > limit as u64) {
        return Err(Error::new(Flag::TooLarge));
    }
    let go_on = exchange.request.expect_continue;
    if go_on {
        // Nobody else says so while the request is here.
        exchange.drop_request_line(down.bytes(), "expect");
    }
    let reactor = &down.client.worker.reactor;
    let view = down.client.worker.view();
    let idle = view.snapshot.config.limits.stream_idle_timeout;
    match &mut down.link {
        Link::Http1(link) => {
            if go_on {
                let line = [IoSlice::new(b"HTTP/1.1 100 Continue\r\n\r\n")];
                link.stream.write(&line).map_err(Error::downstream)?;
                link.stream.flush().await.map_err(Error::downstream)?;
            }
            gather_http1(link, exchange, limit, || reactor.deadline_after(idle)).await
        }
        Link::Http2(link) => {
            if go_on {
                link.stream.send_status(100, b"", None);
            }
            link.stream
                .gather(limit, || reactor.deadline_after(idle))
                .await
        }
    }
}

/// Reads until the body stands in the buffer, behind the head.
async fn gather_http1(
    link: &mut http1::Link,
    exchange: &Exchange,
    limit: usize,
    start_clock: impl Fn(),
) -> Result<()> {
    let mut body = Body::new(exchange.request.framing);
    let mut seen = exchange.request.len;
    loop {
        let taken = body.advance(&link.inbox.bytes()[seen..]);
        seen += taken.map_err(|_| Error::new(Flag::DownstreamProtocol))?;
        if seen - exchange.request.len > limit {
            return Err(Error::new(Flag::TooLarge));
        }
        if body.is_done() {
            return Ok(());
        }
        start_clock();
        let filled = link.stream.fill(&mut link.inbox).await;
        if filled.map_err(Error::downstream)? == 0 {
            return Err(Error::new(Flag::DownstreamClosed));
        }
    }
}

/// Prepares the head for the upstream; `false` if the request asks for a protocol that it cannot
/// have.
fn prepare(
    down: &Downstream<'_>,
    exchange: &mut Exchange,
    (listener, route): (&Listener, &Route),
) -> bool {
    let worker = &down.client.worker;
    let random = || u128::from(worker.random()) << 64 | u128::from(worker.random());
    let (bytes, peer) = (down.bytes(), down.client.peer.ip());
    let takes = headers::prepare_upgrade(exchange, bytes, listener);
    headers::prepare_request(exchange, bytes, listener, peer, random);
    if let Some(rewrite) = &route.rewrite {
        target::rewrite(rewrite, &route.prefix, exchange, (bytes, listener));
    }
    takes
}

/// Sends the request to an endpoint, and to further ones as long as that is safe.
async fn attempts(
    down: &mut Downstream<'_>,
    exchange: &mut Exchange,
    view: &View,
    plan: &Plan<'_>,
    record: &mut Record,
) -> Result<bool> {
    let worker = &Rc::clone(&down.client.worker);
    let cluster = &view.clusters[plan.cluster];
    let settings = &plan.snapshot.clusters[plan.cluster];
    let choice = (settings.balance, down.client.destination);
    let there = passed_through(settings, down.client);
    let endpoints = there.as_ref().map_or(&*cluster.endpoints, |there| there);
    let pin = headers::binds_connection(exchange, down.bytes());
    if let Some(pinned) = down.pinned().and_then(Option::take) {
        record.sent_to(pinned.address());
        if let Some(up) = pinned.resume(endpoints, worker.reactor.now_ms()) {
            return Box::pin(attempt_pinned(down, up, exchange, plan, record)).await;
        }
    }
    let mut tried = Tried::default();
    let mut want = retry::want(&exchange.request);
    let mut fresh = 0;
    let mut was_sent = false;
    loop {
        let random = || worker.random();
        let turn = cluster.next_turn();
        let place = balance::pick(endpoints, choice, tried, turn, random)
            .ok_or_else(|| Error::new(Flag::NoEndpoint))?;
        let state = Rc::clone(&endpoints[place]);
        let speaks = match pin {
            true => pool::Inner::Http1,
            false => pool::speaks(&state, settings.protocol, &exchange.request),
        };
        record.sent_to(state.endpoint.address);
        let (failed, reused) = match pool::checkout(worker, &state, speaks, want).await {
            Ok(upstream) => {
                exchange.expires_ms = upstream.expires_ms().min(down.client.expires_ms);
                let up = upstream.peer();
                let result = forward::exchange(down, up, exchange, plan, record).await;
                let reused = upstream.is_reused();
                let stay = result.as_ref().is_ok_and(|outcome| outcome.keep_up);
                match pin {
                    false => upstream.finish(worker, stay, None),
                    // Where it cannot stay with its downstream it ends: nobody else may have it.
                    true => match down.pinned() {
                        None => upstream.finish(worker, false, None),
                        place => upstream.finish(worker, stay, place),
                    },
                }
                match result {
                    Ok(outcome) => return Ok(outcome.keep_down),
                    Err(failed) => (failed, reused),
                }
            }
            Err(error) => (Failed::intact(error), false),
        };
        match retry::may(&failed, reused, &exchange.request, tried.count() + fresh) {
            // With nobody left to ask, what went wrong with the last is the answer.
            retry::Again::Elsewhere if (tried.count() as usize) + 1 < endpoints.len() => {
                tried.add(place);
            }
            retry::Again::OnFreshConnection => {
                want = Want::Fresh;
                fresh += 1;
            }
            _ => return Err(failed.error.after_sent(was_sent)),
        }
        was_sent |= failed.error.flag == Flag::UpstreamClosed;
        exchange.response_extra.clear();
        record.retry();
    }
}

/// Where requests to a cluster go that leads on to where their connection was made to: they come
/// one by one from a peer that shares its connection, and are no more read than others are.
fn passed_through(settings: &Cluster, client: &Client) -> Option<[Rc<EndpointState>; 1]> {
    let destination = client.destination.filter(|_| settings.passthrough)?;
    Some([EndpointState::new(&Endpoint::at(destination))])
}

/// The one attempt over the connection that the downstream has for itself.
async fn attempt_pinned(
    down: &mut Downstream<'_>,
    up: Upstream,
    exchange: &mut Exchange,
    plan: &Plan<'_>,
    record: &mut Record,
) -> Result<bool> {
    let result = forward::exchange(down, up.peer(), exchange, plan, record).await;
    let stay = result.as_ref().is_ok_and(|outcome| outcome.keep_up);
    let worker = &down.client.worker;
    up.finish(worker, stay, down.pinned());
    result
        .map(|outcome| outcome.keep_down)
        .map_err(|failed| failed.error)
}
