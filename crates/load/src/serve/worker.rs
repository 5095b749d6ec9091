//! One thread of the echo server: accepts (thread 0), serves its connections, keeps their waits.
//! Counts each answer's delay, from the request fully read to the answer fully written.

use super::{
    Listeners, Service, Shared,
    connection::{Connection, Next, Scratch},
    http2::{Companion, Handed},
    payload::Payload,
    tcp::Echo,
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

const HTTP_LISTENER: u64 = u64::MAX - 1;
const WAKE: u64 = u64::MAX - 2;
const TCP_LISTENER: u64 = u64::MAX - 3;
const BUFFER_BYTES: usize = 64 * 1024;

/// What a thread counted.
pub(crate) struct Counts {
    pub(crate) connections: u64,
    pub(crate) delays: Histogram<u64>,
}

/// A connection by what it carries.
enum Peer {
    Http(Connection),
    Tcp(Echo),
}

impl Peer {
    fn awake(&mut self, closing: bool) {
        match self {
            Self::Http(connection) => connection.awake(closing),
            Self::Tcp(echo) => echo.awake(closing),
        }
    }

    fn resume(&mut self, scratch: &mut Scratch) -> Next {
        match self {
            Self::Http(connection) => connection.resume(scratch),
            Self::Tcp(echo) => echo.resume(&mut scratch.input),
        }
    }

    /// The wait is over.
    fn due(&mut self) {
        if let Self::Http(connection) = self {
            connection.due();
        }
    }

    /// The answer just written was the last one.
    fn is_over(&self) -> bool {
        matches!(self, Self::Http(connection) if connection.is_over())
    }
}

pub(crate) struct Worker {
    number: usize,
    shared: Arc<Shared>,
    listeners: Listeners,
    poller: Poller,
    /// Each with the number of its current wait, so that an outdated one is recognised.
    connections: Slab<(Peer, u64)>,
    /// Serves this thread's connections of HTTP/2, once there are any.
    companion: Option<Companion>,
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
        listeners: Listeners,
    ) -> Result<Self, Error> {
        let poller = Poller::new()?;
        let watch = Error::system("watch a descriptor");
        poller
            .add_level(&shared.inboxes[number].wake, WAKE)
            .map_err(watch)?;
        let tokens = [
            (&listeners.http, HTTP_LISTENER),
            (&listeners.tcp, TCP_LISTENER),
        ];
        for (listener, token) in tokens {
            if let Some(listener) = listener {
                poller
                    .add_level(listener, token)
                    .map_err(Error::system("watch a listener"))?;
            }
        }
        Ok(Self {
            number,
            shared,
            listeners,
            poller,
            connections: Slab::new(),
            companion: None,
            waits: BinaryHeap::new(),
            wait_number: 0,
            next_inbox: 0,
            scratch: Scratch {
                input: vec![0; BUFFER_BYTES],
                payload: Payload::default(),
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
        // Nobody shall connect to a server that is only waiting for its last streams.
        self.listeners = Listeners::default();
        if let Some(companion) = self.companion.take() {
            self.counts
                .delays
                .add(companion.join()?)
                .expect("all histograms have the same bounds");
        }
        Ok(self.counts)
    }

    fn on_event(&mut self, ready: Ready) {
        match ready.token {
            HTTP_LISTENER => self.accept(Service::Http),
            TCP_LISTENER => self.accept(Service::TcpEcho),
            WAKE => self.collect(),
            token => {
                let index = token as usize;
                if let Some((peer, _)) = self.connections.get_mut(index) {
                    peer.awake(ready.closing);
                    self.drive(index);
                }
            }
        }
    }

    fn accept(&mut self, service: Service) {
        let listener = match service {
            Service::Http => &self.listeners.http,
            Service::TcpEcho => &self.listeners.tcp,
        };
        let Some(listener) = listener else {
            return;
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        // Out of descriptors or a peer already gone: what is left waits for the next turn.
        while let Ok(fd) = accept_with(listener, flags) {
            self.counts.connections += 1;
            let inbox = &self.shared.inboxes[self.next_inbox % self.shared.inboxes.len()];
            self.next_inbox += 1;
            let mut accepted = inbox.accepted.lock().expect("no holder panics");
            accepted.push((service, fd));
            drop(accepted);
            inbox.wake();
        }
    }

    /// Takes over the connections that were accepted for this thread.
    fn collect(&mut self) {
        let inbox = &self.shared.inboxes[self.number];
        // Only clears the eventfd.
        let _ = rustix::io::read(&inbox.wake, &mut [0u8; 8]);
        let accepted = std::mem::take(&mut *inbox.accepted.lock().expect("no holder panics"));
        for (service, fd) in accepted {
            // A connection that cannot be prepared is closed, as if it had not been accepted.
            let _ = self.admit(service, fd);
        }
    }

    fn admit(&mut self, service: Service, fd: OwnedFd) -> Result<(), Errno> {
        sockopt::set_tcp_nodelay(&fd, true)?;
        if let Some(name) = &self.shared.congestion {
            sockopt::set_tcp_congestion(&fd, name)?;
        }
        let entry = self.connections.vacant_entry();
        self.poller.add(&fd, entry.key() as u64)?;
        let peer = match service {
            Service::Http => Peer::Http(Connection::new(fd)),
            Service::TcpEcho => Peer::Tcp(Echo::new(fd)),
        };
        entry.insert((peer, 0));
        Ok(())
    }

    /// Lets a connection go on until it waits for something.
    fn drive(&mut self, index: usize) {
        while let Some((peer, wait)) = self.connections.get_mut(index) {
            match peer.resume(&mut self.scratch) {
                Next::Event => return,
                Next::At(instant) => {
                    self.wait_number += 1;
                    *wait = self.wait_number;
                    self.waits.push(Reverse((instant, index, self.wait_number)));
                    return;
                }
                Next::Answered(delay) => {
                    let over = peer.is_over();
                    self.counts.delays.saturating_record(delay);
                    self.shared.on_answered();
                    if over {
                        self.connections.remove(index);
                    }
                }
                Next::Http2(read) => {
                    let (peer, _) = self.connections.remove(index);
                    // Without a companion the connection closes: the thread's limit is reached.
                    let _ = self.hand_over(peer, read);
                }
                Next::Close => {
                    self.connections.remove(index);
                }
            }
        }
    }

    /// Gives a connection of HTTP/2 to the companion.
    fn hand_over(&mut self, peer: Peer, read: Vec<u8>) -> Result<(), Error> {
        let Peer::Http(connection) = peer else {
            return Ok(());
        };
        let fd = connection.into_fd();
        self.poller
            .remove(&fd)
            .map_err(Error::system("stop watching a descriptor"))?;
        let companion = match self.companion.take() {
            Some(companion) => companion,
            None => Companion::start(self.number, Arc::clone(&self.shared))?,
        };
        let companion = self.companion.insert(companion);
        companion.take(Handed { fd, read });
        Ok(())
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
            if let Some((peer, _)) = waiting.filter(|(_, wait)| *wait == number) {
                peer.due();
                self.drive(index);
            }
        }
    }
}
