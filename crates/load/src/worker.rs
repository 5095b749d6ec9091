//! One generating thread: sends each request when its schedule says, times the answers, and
//! keeps every connection in use. Allocates nothing per request and never waits for anything
//! but its poller. What goes wrong on a connection is in `repair`.

mod repair;

use crate::{
    Error,
    clock::{self, MICROSECOND, MILLISECOND, SECOND},
    connection::{Connection, News, Request, State},
    poller::{Poller, Ready},
    response::Answer,
    tally::Tally,
    tls::Client,
};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// A send this much after its time on a free connection is late.
const LATE: u64 = MILLISECOND;
/// After the window, requests whose time has passed are still sent for this long.
const BACKLOG_GRACE: u64 = SECOND;
/// Connects in progress at a time while a run is being set up: fewer than any listen backlog.
const CONNECTS: usize = 64;
/// Before a send after a pause of `SPIN_AFTER`, the last `SPIN` is polled through: at most a
/// quarter of a CPU, five percent at 1000 sends a second.
const SPIN: u64 = 50 * MICROSECOND;
const SPIN_AFTER: u64 = 4 * SPIN;
const BUFFER_BYTES: usize = 64 * 1024;

/// What all threads share and none changes.
pub(crate) struct Setup {
    pub(crate) address: SocketAddr,
    pub(crate) request: Vec<u8>,
    /// The method is HEAD.
    pub(crate) to_head: bool,
    pub(crate) tls: Option<Client>,
    pub(crate) congestion: Option<String>,
    pub(crate) timeout: u64,
    pub(crate) stall_before_send: Duration,
    /// An earlier end of the window, if the run is stopped; else `u64::MAX`.
    pub(crate) end: AtomicU64,
}

/// Counts that another thread may look at while the run goes on.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Live {
    pub(crate) answers: AtomicU64,
    pub(crate) failures: AtomicU64,
}

/// The run's instants on the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(crate) start: u64,
    /// The warm-up ends and the measured window begins.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Window {
    #[inline]
    fn contains(&self, instant: u64) -> bool {
        self.from <= instant && instant < self.to
    }
}

pub(crate) struct Worker {
    setup: Arc<Setup>,
    live: Arc<Live>,
    poller: Poller,
    connections: Vec<Connection>,
    /// The next send of each free connection of an open loop.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    window: Window,
    tally: Tally,
    buffer: Vec<u8>,
    next_sweep: u64,
    next_second: u64,
    /// The send before which the thread polls: the pause before it was long enough.
    spin_before: u64,
    answers: u64,
    failures: u64,
    marks: Marks,
}

/// The thread's clocks at the edges of the window.
#[derive(Default)]
struct Marks {
    from: Option<(u64, u64)>,
    to: Option<(u64, u64)>,
}

impl Worker {
    pub(crate) fn new(
        setup: Arc<Setup>,
        live: Arc<Live>,
        connections: Vec<Connection>,
    ) -> Result<Self, Error> {
        Ok(Self {
            setup,
            live,
            poller: Poller::new()?,
            due: BinaryHeap::with_capacity(connections.len()),
            connections,
            window: Window::default(),
            tally: Tally::new(),
            buffer: vec![0; BUFFER_BYTES],
            next_sweep: 0,
            next_second: u64::MAX,
            spin_before: 0,
            answers: 0,
            failures: 0,
            marks: Marks::default(),
        })
    }

    /// Makes every connection, before the run.
    pub(crate) fn establish(&mut self) -> Result<(), Error> {
        let deadline = clock::now() + self.setup.timeout;
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
                match connection.advance(&self.setup, ready, &mut self.buffer) {
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
        self.window = window;
        self.next_second = window.from + SECOND;
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
        self.close();
        Ok(self.tally)
    }

    /// One turn of the loop; true when the run is over.
    fn turn(&mut self) -> Result<bool, Error> {
        let now = clock::now();
        self.window.to = self.window.to.min(self.setup.end.load(Relaxed));
        self.mark(now);
        self.send_due(now);
        if now >= self.next_sweep {
            self.sweep(now);
        }
        if now >= self.window.to && self.is_finished(now) {
            return Ok(true);
        }
        self.pause(now)?;
        for index in 0..self.poller.len() {
            if let Some(ready) = self.poller.event(index) {
                self.on_event(ready);
            }
        }
        self.live.answers.store(self.answers, Relaxed);
        self.live.failures.store(self.failures, Relaxed);
        Ok(false)
    }

    #[inline]
    fn on_event(&mut self, ready: Ready) {
        let index = ready.token as usize;
        let connection = &mut self.connections[index];
        let news = connection.advance(&self.setup, ready, &mut self.buffer);
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
        let Request {
            intended,
            sent,
            measured,
            received,
        } = connection.request;
        connection.state = State::Free;
        connection.since = now;
        self.answers += 1;
        self.tally.answers_in_window += u64::from(self.window.contains(now));
        if measured {
            self.tally
                .answered(answer.status, now - intended, now - sent);
            self.tally.bytes_received += received;
            self.tally.last_answer = now;
        }
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
        let Some(schedule) = &mut connection.schedule else {
            if now != 0 && now < self.window.to {
                self.send(index, None);
            }
            return;
        };
        let intended = self.window.start + schedule.peek();
        if intended > now {
            if intended < self.window.to {
                self.due.push(Reverse((intended, index)));
            }
        } else if intended < self.window.to && now < self.window.to + BACKLOG_GRACE {
            schedule.advance();
            self.send(index, Some(intended));
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
            let planned = schedule.map(|schedule| self.window.start + schedule.peek());
            if planned == Some(intended) {
                self.plan_next(index, now);
            }
        }
    }

    #[inline]
    fn send(&mut self, index: usize, intended: Option<u64>) {
        if intended.is_some() && !self.setup.stall_before_send.is_zero() {
            std::thread::sleep(self.setup.stall_before_send);
        }
        let sent = clock::now();
        let intended = intended.unwrap_or(sent);
        let measured = self.window.contains(intended);
        self.tally.sends_in_window += u64::from(self.window.contains(sent));
        let connection = &mut self.connections[index];
        if measured {
            self.tally.sends += 1;
            self.tally.bytes_sent += self.setup.request.len() as u64;
            let lateness = sent - intended.max(connection.since).min(sent);
            self.tally.late_sends += u64::from(lateness > LATE);
            self.tally.worst_lateness = self.tally.worst_lateness.max(lateness);
        }
        let request = Request {
            intended,
            sent,
            measured,
            received: 0,
        };
        if let Err(broken) = connection.send(&self.setup, request) {
            self.on_broken(index, &broken, clock::now());
        }
    }

    /// Waits for an event or the next send. A sleeping CPU takes some tens of microseconds to
    /// wake, which is no delay of the target: before a send after a long pause, it polls.
    #[inline]
    fn pause(&mut self, now: u64) -> Result<(), Error> {
        let send = self
            .due
            .peek()
            .map_or(u64::MAX, |&Reverse((instant, _))| instant);
        let pause = send.saturating_sub(now);
        if pause <= SPIN && send == self.spin_before {
            return self.poller.poll();
        }
        let spins = pause >= SPIN_AFTER;
        if spins {
            self.spin_before = send;
        }
        let wake = if spins { send - SPIN } else { send };
        self.poller.wait(wake.min(self.deadline(now)))
    }

    /// When something other than a send is to be done.
    #[inline]
    fn deadline(&self, now: u64) -> u64 {
        let Window { from, to, .. } = self.window;
        let edge = if now < from {
            from
        } else if now < to {
            to
        } else {
            u64::MAX
        };
        edge.min(self.next_sweep)
    }

    fn mark(&mut self, now: u64) {
        if now >= self.window.from && self.marks.from.is_none() {
            self.marks.from = Some((clock::thread_cpu(), clock::thread_wait()));
        }
        while now >= self.next_second && self.next_second < self.window.to {
            self.tally.end_second();
            self.next_second += SECOND;
        }
        if now >= self.window.to && self.marks.to.is_none() {
            self.marks.to = Some((clock::thread_cpu(), clock::thread_wait()));
        }
    }

    fn is_finished(&self, now: u64) -> bool {
        let backlog_open = now < self.window.to + BACKLOG_GRACE;
        let last = self.window.to - self.window.start;
        let backlog = |connection: &Connection| {
            connection
                .schedule
                .as_ref()
                .is_some_and(|schedule| schedule.peek() < last)
        };
        !self.connections.iter().any(|connection| {
            connection.state == State::Busy || (backlog_open && backlog(connection))
        })
    }

    fn unsent(&self, connection: &Connection) -> u64 {
        let Window { start, from, to } = self.window;
        let count =
            |schedule: &crate::schedule::Schedule| schedule.count_between(from - start, to - start);
        connection.schedule.as_ref().map_or(0, count)
    }

    fn close(&mut self) {
        let unsent: u64 = self
            .connections
            .iter()
            .map(|connection| self.unsent(connection))
            .sum();
        self.tally.end_second();
        self.tally.unfinished += unsent;
        self.tally.scheduled = match self.connections.first() {
            Some(Connection {
                schedule: Some(_), ..
            }) => self.tally.sends + unsent,
            _ => 0,
        };
        for connection in &mut self.connections {
            connection.drop_socket();
        }
        let (from, to) = (
            self.marks.from.unwrap_or_default(),
            self.marks.to.unwrap_or_default(),
        );
        self.tally.cpu = to.0.saturating_sub(from.0);
        self.tally.wait = to.1.saturating_sub(from.1);
    }

    fn unreachable(&self, reason: &str) -> Error {
        Error::Connect {
            address: self.setup.address,
            reason: reason.to_owned(),
        }
    }
}
