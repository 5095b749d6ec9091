//! One generating thread: sends each request when its schedule says, times the answers, and
//! keeps every connection in use. Allocates nothing per request and never waits for anything
//! but its poller. What goes wrong on a connection is in `repair`.

pub(crate) mod repair;

use crate::{
    Error, clock,
    connection::{Connection, News, State},
    ledger::{Ledger, Live, Turn, Window},
    poller::{Poller, Ready},
    response::Answer,
    setup::Setup,
    spin::{Pause, Spin},
    tally::Tally,
};
use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

/// Connects in progress at a time while a run is being set up: fewer than any listen backlog.
pub(crate) const CONNECTS: usize = 64;
const BUFFER_BYTES: usize = 64 * 1024;

pub(crate) struct Worker {
    ledger: Ledger,
    poller: Poller,
    connections: Vec<Connection>,
    /// The next send of each free connection of an open loop.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    buffer: Vec<u8>,
    next_sweep: u64,
    spin: Spin,
}

impl Worker {
    pub(crate) fn new(
        setup: Arc<Setup>,
        live: Arc<Live>,
        connections: Vec<Connection>,
    ) -> Result<Self, Error> {
        Ok(Self {
            ledger: Ledger::new(setup, live),
            poller: Poller::new()?,
            due: BinaryHeap::with_capacity(connections.len()),
            connections,
            buffer: vec![0; BUFFER_BYTES],
            next_sweep: 0,
            spin: Spin::default(),
        })
    }

    /// Makes every connection, before the run.
    pub(crate) fn establish(&mut self) -> Result<(), Error> {
        let deadline = clock::now() + self.ledger.setup.timeout;
        let (mut opened, mut established) = (0, 0);
        while established < self.connections.len() {
            while opened < self.connections.len() && opened - established < CONNECTS {
                let done = self.open(opened, clock::now());
                done.map_err(|broken| self.unreachable(&broken.source.to_string()))?;
                opened += 1;
            }
            self.poller.wait(deadline)?;
            if clock::now() >= deadline {
                return Err(self.unreachable("no answer within the timeout"));
            }
            for index in 0..self.poller.len() {
                let Some(ready) = self.poller.event(index) else {
                    continue;
                };
                let connection = &mut self.connections[ready.token as usize];
                match connection.advance(&self.ledger.setup, ready, &mut self.buffer) {
                    Ok(News::Established) => established += 1,
                    Ok(_) => {}
                    Err(broken) => return Err(self.unreachable(&broken.source.to_string())),
                }
            }
        }
        Ok(())
    }

    /// The whole run, warm-up to last answer.
    pub(crate) fn run(mut self, window: Window) -> Result<Tally, Error> {
        self.ledger.begin(window);
        for index in 0..self.connections.len() {
            self.connections[index].since = window.start;
            self.plan_next(index, 0);
        }
        if self
            .connections
            .first()
            .is_some_and(|first| first.schedule.is_none())
        {
            while clock::now() < window.start {
                self.poller.wait(window.start)?;
            }
            for index in 0..self.connections.len() {
                self.plan_next(index, clock::now().max(window.start));
            }
        }
        while !self.turn()? {}
        for connection in &mut self.connections {
            connection.drop_socket();
        }
        let connections = self.connections.iter();
        Ok(self
            .ledger
            .close(connections.map(|connection| connection.schedule.as_ref())))
    }

    /// One turn of the loop; true when the run is over.
    fn turn(&mut self) -> Result<bool, Error> {
        let now = clock::now();
        self.ledger.tick(now);
        self.send_due(now);
        if now >= self.next_sweep {
            self.sweep(now);
        }
        if now >= self.ledger.window.to && self.is_finished(now) {
            return Ok(true);
        }
        self.pause(now)?;
        for index in 0..self.poller.len() {
            if let Some(ready) = self.poller.event(index) {
                self.on_event(ready);
            }
        }
        Ok(false)
    }

    #[inline]
    fn on_event(&mut self, ready: Ready) {
        let index = ready.token as usize;
        let connection = &mut self.connections[index];
        let news = connection.advance(&self.ledger.setup, ready, &mut self.buffer);
        match news {
            Ok(News::Nothing) => {}
            Ok(News::Answered(answer)) => self.on_answer(index, answer),
            Ok(News::Established) => {
                let now = clock::now();
                self.connections[index].since = now;
                self.plan_next(index, now);
            }
            Err(broken) => self.on_broken(index, &broken, clock::now()),
        }
    }

    #[inline]
    fn on_answer(&mut self, index: usize, answer: Answer) {
        let now = clock::now();
        let connection = &mut self.connections[index];
        connection.state = State::Free;
        connection.since = now;
        self.ledger
            .answered(&connection.request, answer.status, now);
        if answer.close {
            self.reconnect(index, now);
        } else {
            self.plan_next(index, now);
        }
    }

    /// A free connection gets its next request: now if its time has come, else on the heap.
    #[inline]
    fn plan_next(&mut self, index: usize, now: u64) {
        let connection = &mut self.connections[index];
        if connection.state != State::Free {
            return;
        }
        if now == 0 && connection.schedule.is_none() {
            return;
        }
        match self.ledger.turn(connection.schedule.as_ref(), now) {
            Turn::Now(intended) => {
                if let Some(schedule) = &mut connection.schedule {
                    schedule.advance();
                }
                self.send(index, intended);
            }
            Turn::At(instant) => self.due.push(Reverse((instant, index))),
            Turn::Never => {}
        }
    }

    fn send_due(&mut self, now: u64) {
        while let Some(&Reverse((intended, index))) = self.due.peek() {
            if intended > now {
                break;
            }
            self.due.pop();
            // The connection may have broken, or may have been used, since it was put here.
            let schedule = self.connections[index].schedule.as_ref();
            let planned = schedule.map(|schedule| self.ledger.window.start + schedule.peek());
            if planned == Some(intended) {
                self.plan_next(index, now);
            }
        }
    }

    #[inline]
    fn send(&mut self, index: usize, intended: Option<u64>) {
        let connection = &mut self.connections[index];
        let request = self.ledger.sent(intended, connection.since);
        if let Err(broken) = connection.send(&self.ledger.setup, request) {
            self.on_broken(index, &broken, clock::now());
        }
    }

    /// Waits for an event or the next send.
    #[inline]
    fn pause(&mut self, now: u64) -> Result<(), Error> {
        let send = self
            .due
            .peek()
            .map_or(u64::MAX, |&Reverse((instant, _))| instant);
        match self.spin.pause(now, send) {
            Pause::Poll => self.poller.poll(),
            Pause::Until(wake) => {
                let edge = self.ledger.edge(now);
                self.poller.wait(wake.min(edge).min(self.next_sweep))
            }
        }
    }

    fn is_finished(&self, now: u64) -> bool {
        let open = self.ledger.is_open(now);
        let backlog =
            |connection: &Connection| self.ledger.has_backlog(connection.schedule.as_ref());
        !self
            .connections
            .iter()
            .any(|connection| connection.state == State::Busy || (open && backlog(connection)))
    }

    fn unreachable(&self, reason: &str) -> Error {
        Error::Connect {
            address: self.ledger.setup.address,
            reason: reason.to_owned(),
        }
    }
}
