//! One thread of the echo server: accepts (thread 0), serves its connections, keeps their waits.
//! Counts each answer's delay, from the request fully read to the answer fully written.

use super::{
    Shared,
    connection::{Connection, Next, Scratch},
};
use crate::{
    Error,
    poller::{Poller, Ready},
    schedule::Random,
    tally::histogram,
};
use hdrhistogram::Histogram;
use rustix::{
    fd::OwnedFd,
    io::Errno,
    net::{SocketFlags, accept_with, sockopt},
};
use slab::Slab;
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, atomic::Ordering::Relaxed},
};

const LISTENER: u64 = u64::MAX - 1;
const WAKE: u64 = u64::MAX - 2;
const BUFFER_BYTES: usize = 64 * 1024;

/// What a thread counted.
pub(crate) struct Counts {
    pub(crate) connections: u64,
    pub(crate) delays: Histogram<u64>,
}

pub(crate) struct Worker {
    number: usize,
    shared: Arc<Shared>,
    listener: Option<OwnedFd>,
    poller: Poller,
    /// Each with the number of its current wait, so that an outdated one is recognised.
    connections: Slab<(Connection, u64)>,
    waits: BinaryHeap<Reverse<(u64, usize, u64)>>,
    wait_number: u64,
    next_inbox: usize,
    scratch: Scratch,
    counts: Counts,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        shared: Arc<Shared>,
        listener: Option<OwnedFd>,
    ) -> Result<Self, Error> {
        let poller = Poller::new()?;
        let watch = Error::system("watch a descriptor");
        poller
            .add_level(&shared.inboxes[number].wake, WAKE)
            .map_err(watch)?;
        if let Some(listener) = &listener {
            poller
                .add_level(listener, LISTENER)
                .map_err(Error::system("watch a listener"))?;
        }
        Ok(Self {
            number,
            shared,
            listener,
            poller,
            connections: Slab::new(),
            waits: BinaryHeap::new(),
            wait_number: 0,
            next_inbox: 0,
            scratch: Scratch {
                input: vec![0; BUFFER_BYTES],
                payload: Vec::new(),
                random: Random::new(1, number as u64),
            },
            counts: Counts {
                connections: 0,
                delays: histogram(),
            },
        })
    }

    /// Serves until the server is stopped.
    pub(crate) fn run(mut self) -> Result<Counts, Error> {
        while !self.shared.stop.load(Relaxed) {
            let deadline = self.waits.peek().map_or(u64::MAX, |&Reverse((at, ..))| at);
            self.poller.wait(deadline)?;
            for index in 0..self.poller.len() {
                let Some(ready) = self.poller.event(index) else {
                    continue;
                };
                self.on_event(ready);
            }
            self.end_waits();
        }
        Ok(self.counts)
    }

    fn on_event(&mut self, ready: Ready) {
        match ready.token {
            LISTENER => self.accept(),
            WAKE => self.collect(),
            token => {
                let index = token as usize;
                if let Some((connection, _)) = self.connections.get_mut(index) {
                    connection.awake(ready.closing);
                    self.drive(index);
                }
            }
        }
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else {
            return;
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Out of descriptors or a peer already gone: what is left waits for the next turn.
        while let Ok(fd) = accept_with(listener, flags) {
            self.counts.connections += 1;
            let inbox = &self.shared.inboxes[self.next_inbox % self.shared.inboxes.len()];
            self.next_inbox += 1;
            inbox.accepted.lock().expect("no holder panics").push(fd);
            inbox.wake();
        }
    }

    /// Takes over the connections that were accepted for this thread.
    fn collect(&mut self) {
        let inbox = &self.shared.inboxes[self.number];
        // Only clears the eventfd.
        let _ = rustix::io::read(&inbox.wake, &mut [0u8; 8]);
        let accepted = std::mem::take(&mut *inbox.accepted.lock().expect("no holder panics"));
        for fd in accepted {
            // A connection that cannot be prepared is closed, as if it had not been accepted.
            let _ = self.admit(fd);
        }
    }

    fn admit(&mut self, fd: OwnedFd) -> Result<(), Errno> {
        sockopt::set_tcp_nodelay(&fd, true)?;
        if let Some(name) = &self.shared.congestion {
            sockopt::set_tcp_congestion(&fd, name)?;
        }
        let entry = self.connections.vacant_entry();
        self.poller.add(&fd, entry.key() as u64)?;
        entry.insert((Connection::new(fd), 0));
        Ok(())
    }

    /// Lets a connection go on until it waits for something.
    fn drive(&mut self, index: usize) {
        while let Some((connection, wait)) = self.connections.get_mut(index) {
            match connection.resume(&mut self.scratch) {
                Next::Event => return,
                Next::At(instant) => {
                    self.wait_number += 1;
                    *wait = self.wait_number;
                    self.waits.push(Reverse((instant, index, self.wait_number)));
                    return;
                }
                Next::Answered(delay) => {
                    let over = connection.is_over();
                    self.counts.delays.saturating_record(delay);
                    self.on_answered();
                    if over {
                        self.connections.remove(index);
                    }
                }
                Next::Close => {
                    self.connections.remove(index);
                }
            }
        }
    }

    fn on_answered(&self) {
        let answers = self.shared.answers.fetch_add(1, Relaxed) + 1;
        let Some(stall) = self.shared.stall else {
            return;
        };
        if answers == stall.before_answer && !self.shared.stalled.swap(true, Relaxed) {
            std::thread::sleep(stall.length);
        }
    }

    fn end_waits(&mut self) {
        if self.waits.is_empty() {
            return;
        }
        let now = crate::clock::now();
        while let Some(&Reverse((instant, index, number))) = self.waits.peek() {
            if instant > now {
                return;
            }
            self.waits.pop();
            let waiting = self.connections.get_mut(index);
            if let Some((connection, _)) = waiting.filter(|(_, wait)| *wait == number) {
                connection.due();
                self.drive(index);
            }
        }
    }
}
