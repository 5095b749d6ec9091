//! What a worker does when a connection fails, closes, or answers too late: count the request,
//! replace the connection, hold back from a target that refuses. Called by `worker` only.

use super::Worker;
use crate::{
    clock::MILLISECOND,
    connection::{Broken, State},
    tally::Failure,
};

/// After a refused connect, doubling up to the maximum.
pub(crate) const BACKOFF: u64 = 10 * MILLISECOND;
pub(crate) const BACKOFF_MAX: u64 = 500 * MILLISECOND;

impl Worker {
    pub(super) fn on_broken(&mut self, index: usize, broken: &Broken, now: u64) {
        match self.connections[index].state {
            State::Busy => {
                let request = self.connections[index].request;
                self.ledger.failed(broken.failure, &request, now);
                self.reconnect(index, now);
            }
            State::Free => self.reconnect(index, now),
            State::Connecting | State::Handshaking | State::Down => {
                self.on_unreachable(index, broken.failure, now);
            }
        }
    }

    /// A failed connect fails the request that waited for it, and the next try waits.
    fn on_unreachable(&mut self, index: usize, failure: Failure, now: u64) {
        let connection = &mut self.connections[index];
        connection.backoff = (connection.backoff * 2).clamp(BACKOFF, BACKOFF_MAX);
        connection.rest(now + connection.backoff);
        let schedule = connection.schedule.as_mut();
        self.ledger.unreachable(failure, schedule, now);
    }

    pub(super) fn reconnect(&mut self, index: usize, now: u64) {
        self.ledger.reconnected(now);
        if let Err(broken) = self.open(index, now) {
            self.on_unreachable(index, broken.failure, now);
        }
    }

    pub(super) fn open(&mut self, index: usize, now: u64) -> Result<(), Broken> {
        let socket = self.connections[index].open(&self.ledger.setup, now)?;
        let watched = self.poller.add(socket, index as u64);
        watched.map_err(|errno| Broken {
            failure: Failure::Connect,
            source: errno.into(),
        })
    }

    /// Looks for what has taken too long, and for rests that are over.
    pub(super) fn sweep(&mut self, now: u64) {
        self.next_sweep =
            now + (self.ledger.setup.timeout / 20).clamp(MILLISECOND, 50 * MILLISECOND);
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            let expired = |since| now.saturating_sub(since) > self.ledger.setup.timeout;
            match connection.state {
                State::Busy if expired(connection.request.sent) => {
                    let request = connection.request;
                    self.ledger.failed(Failure::Timeout, &request, now);
                    self.reconnect(index, now);
                }
                State::Connecting | State::Handshaking if expired(connection.since) => {
                    self.on_unreachable(index, Failure::Connect, now);
                }
                State::Down if now >= connection.since && now < self.ledger.window.to => {
                    self.reconnect(index, now);
                }
                _ => {}
            }
        }
    }
}
