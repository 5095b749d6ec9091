//! Serving accepted HTTP/2 connections: each request runs in a task of its own, lent from those
//! that have served one before. Called by `connection`; the requests go to `request`.

use super::mux::WINDOW;
use super::{Handle, Link, Mux, extended};
use crate::buffer::Inbox;
use crate::connection::Client;
use crate::exchange::Exchange;
use crate::request;
use crate::stream::Stream;
use crate::worker::Worker;
use rt::TaskId;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use wire::h2::{Config, Dialect, Limits, Role};

/// Tasks that wait for the next request; each keeps a few KiB.
const RUNNERS_KEPT: usize = 64;

const BAD_REQUEST: u16 = 400;
const HEAD_TOO_LARGE: u16 = 431;

/// A request that has come in.
pub(crate) struct Arrival {
    pub(super) client: Rc<Client>,
    pub(super) stream: Handle,
    pub(super) text: Vec<u8>,
    pub(super) exchange: Box<Exchange>,
    /// Its head is over the limits and was not kept.
    pub(super) too_large: bool,
}

/// Where a task waits for its next request.
pub(crate) struct Desk {
    arrival: RefCell<Option<Arrival>>,
    task: Cell<TaskId>,
}

/// Serves a connection until it ends.
pub(crate) async fn run(client: Client, stream: Stream, inbox: Inbox, dialect: Dialect) {
    let worker = Rc::clone(&client.worker);
    let config = config(&worker, Role::Server, dialect);
    let mux = Mux::new(&worker, stream, &config, client.expires_ms);
    mux.drive(inbox, Some(Rc::new(client))).await;
}

/// How the codec of a connection is to behave.
pub(crate) fn config(worker: &Worker, role: Role, dialect: Dialect) -> Config {
    let view = worker.view();
    let limits = &view.snapshot.config.limits;
    Config {
        role,
        dialect,
        limits: Limits {
            streams: u32::try_from(limits.streams).unwrap_or(u32::MAX),
            head_bytes: limits.head_bytes,
            headers: limits.headers,
            stream_window: WINDOW,
            ..Limits::default()
        },
        worker: (dialect == Dialect::Hop).then(|| worker.place()),
    }
}

/// Begins to serve a request.
pub(super) fn start(worker: &Rc<Worker>, arrival: Arrival) {
    match worker.lend_desk() {
        Some(desk) => {
            *desk.arrival.borrow_mut() = Some(arrival);
            worker.reactor.wake(desk.task.get());
        }
        None => {
            let desk = Desk {
                arrival: RefCell::new(Some(arrival)),
                task: Cell::new(TaskId::NONE),
            };
            worker.reactor.spawn(work(Rc::clone(worker), Rc::new(desk)));
        }
    }
}

/// Serves one request after the other.
async fn work(worker: Rc<Worker>, desk: Rc<Desk>) {
    desk.task.set(worker.reactor.current());
    loop {
        let next = poll_fn(|_| match desk.arrival.borrow_mut().take() {
            Some(arrival) => Poll::Ready(arrival),
            None => Poll::Pending,
        });
        serve(next.await).await;
        worker.reactor.clear_deadline();
        if !worker.keep_desk(&desk, RUNNERS_KEPT) {
            return;
        }
    }
}

async fn serve(arrival: Arrival) {
    let Arrival {
        client,
        stream,
        text,
        mut exchange,
        too_large,
    } = arrival;
    stream.own();
    if stream.is_lost() {
        // Given up before its turn came.
        exchange.text = text;
        return client.worker.give_back_exchange(exchange);
    }
    let mut link = Link { stream, text };
    let view = client.worker.view();
    let random = || client.worker.random();
    let refused = match too_large {
        true => Some(HEAD_TOO_LARGE),
        false => {
            let limits = &view.snapshot.limits;
            let rewritten = extended::rewrite(&mut link, &mut exchange, limits, random);
            (!rewritten).then_some(BAD_REQUEST)
        }
    };
    drop(view);
    request::serve_http2(&client, &mut link, &mut exchange, refused).await;
    exchange.text = link.text;
    client.worker.give_back_exchange(exchange);
}
