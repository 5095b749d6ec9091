//! The floor: a relay that only moves bytes, on raw edge-triggered epoll in one thread.
//! `leno bench relay` runs it as a process of its own; `leno bench cost` sets every ratio against
//! it.
//! It never parses, pools or times anything: one read and one write per message is the whole point.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt;

/// The token of the listening socket; sessions count from zero.
const LISTENER: u64 = u64::MAX;
const BACKLOG: i32 = 4096;
const EVENTS_PER_WAIT: usize = 256;
const BUFFER_BYTES: usize = 64 * 1024;

/// Relays every connection accepted on `listen` to one connection of its own to `to`, for ever.
///
/// Calls `ready` once with the bound address. All sockets get `TCP_NODELAY` and the congestion
/// control named by `congestion`, where the kernel has it.
///
/// # Errors
/// When the address cannot be bound or epoll itself fails; a failing session only ends itself.
pub fn relay(
    listen: SocketAddr,
    to: SocketAddr,
    congestion: &str,
    ready: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let listener = TcpListener::bind(listen)?;
    // The standard library's backlog is too short for thousands of connections at once.
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    let mut relay = Relay::build(listener, to, congestion)?;
    ready(relay.listener.local_addr()?);
    relay.run()
}

struct Relay {
    listener: TcpListener,
    to: SocketAddr,
    congestion: String,
    epoll: OwnedFd,
    sessions: Vec<Option<Session>>,
    free: Vec<usize>,
    buffer: Vec<u8>,
}

/// Two connections joined; index 0 is downstream, 1 is upstream.
struct Session {
    sockets: [OwnedFd; 2],
    /// What side `i` has not yet taken; empty except when a peer's window is full.
    unsent: [Vec<u8>; 2],
}

/// What became of a session after an event.
#[derive(PartialEq)]
enum Fate {
    Lives,
    Ends,
}

impl Relay {
    fn build(listener: TcpListener, to: SocketAddr, congestion: &str) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            &listener,
            EventData::new_u64(LISTENER),
            EventFlags::IN,
        )?;
        Ok(Self {
            listener,
            to,
            congestion: congestion.to_owned(),
            epoll,
            sessions: Vec::new(),
            free: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_PER_WAIT);
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in events.drain(..) {
                match event.data.u64() {
                    LISTENER => self.accept_all(),
                    token => self.handle(token, event.flags),
                }
            }
        }
    }

    fn accept_all(&mut self) {
        // A session that cannot be opened drops its downstream, which is all a relay can say.
        while let Ok((downstream, _)) = self.listener.accept() {
            let _ = self.open(downstream);
        }
    }

    fn open(&mut self, downstream: TcpStream) -> io::Result<()> {
        // Blocking: on loopback the backlog answers at once, and this is not the measured path.
        let upstream = TcpStream::connect(self.to)?;
        for socket in [&downstream, &upstream] {
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            // Not every kernel has every algorithm; the benchmark states what was in force.
            let _ = sockopt::set_tcp_congestion(socket, &self.congestion);
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.sessions.push(None);
            self.sessions.len() - 1
        });
        let sockets = [OwnedFd::from(downstream), OwnedFd::from(upstream)];
        for (side, socket) in sockets.iter().enumerate() {
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            let token = (index * 2 + side) as u64;
            epoll::add(&self.epoll, socket, EventData::new_u64(token), flags)?;
        }
        self.sessions[index] = Some(Session {
            sockets,
            unsent: [Vec::new(), Vec::new()],
        });
        Ok(())
    }

    fn handle(&mut self, token: u64, flags: EventFlags) {
        let (index, side) = (token as usize / 2, token as usize % 2);
        let Some(session) = self.sessions[index].as_mut() else {
            return;
        };
        if session.advance(side, flags, &mut self.buffer) == Fate::Ends {
            // Dropping closes both sockets, which also takes them out of epoll.
            self.sessions[index] = None;
            self.free.push(index);
        }
    }
}

impl Session {
    fn advance(&mut self, side: usize, flags: EventFlags, buffer: &mut [u8]) -> Fate {
        let other = 1 - side;
        if flags.contains(EventFlags::OUT) && !self.unsent[side].is_empty() {
            // The other side was not read while this one was full; its edge is long past.
            if self.flush(side) == Fate::Ends || self.pump(other, true, buffer) == Fate::Ends {
                return Fate::Ends;
            }
        }
        if flags.contains(EventFlags::IN) {
            let to_the_end = flags.contains(EventFlags::RDHUP);
            return self.pump(side, to_the_end, buffer);
        }
        if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            Fate::Ends
        } else {
            Fate::Lives
        }
    }

    /// Moves what `from` has to the other side. A short read means drained, unless `to_the_end`.
    fn pump(&mut self, from: usize, to_the_end: bool, buffer: &mut [u8]) -> Fate {
        let to = 1 - from;
        while self.unsent[to].is_empty() {
            let count = match rustix::io::read(self.sockets[from].as_fd(), &mut *buffer) {
                Ok(0) => return Fate::Ends,
                Ok(count) => count,
                Err(Errno::AGAIN) => return Fate::Lives,
                Err(_) => return Fate::Ends,
            };
            match rustix::io::write(self.sockets[to].as_fd(), &buffer[..count]) {
                Ok(sent) if sent == count => {}
                Ok(sent) => self.unsent[to].extend_from_slice(&buffer[sent..count]),
                Err(Errno::AGAIN) => self.unsent[to].extend_from_slice(&buffer[..count]),
                Err(_) => return Fate::Ends,
            }
            if count < buffer.len() && !to_the_end {
                return Fate::Lives;
            }
        }
        Fate::Lives
    }

    fn flush(&mut self, side: usize) -> Fate {
        match rustix::io::write(self.sockets[side].as_fd(), &self.unsent[side]) {
            Ok(sent) => {
                self.unsent[side].drain(..sent);
                Fate::Lives
            }
            Err(Errno::AGAIN) => Fate::Lives,
            Err(_) => Fate::Ends,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::sync::mpsc;
    use std::thread;

    /// A connection through a relay, and the listener behind it.
    fn joined() -> (TcpStream, TcpListener) {
        let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = upstream.local_addr().unwrap();
        let (ready, address) = mpsc::channel();
        thread::spawn(move || {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            relay(any, to, "cubic", |bound| ready.send(bound).unwrap())
        });
        (
            TcpStream::connect(address.recv().unwrap()).unwrap(),
            upstream,
        )
    }

    #[test]
    fn bytes_pass_both_ways() {
        let (mut downstream, listener) = joined();
        downstream.write_all(b"request").unwrap();
        let (mut upstream, _) = listener.accept().unwrap();
        let mut received = [0; 7];
        upstream.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"request");
        upstream.write_all(b"answer!").unwrap();
        downstream.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"answer!");
    }

    #[test]
    fn more_than_a_socket_takes_arrives_whole() {
        let (mut downstream, listener) = joined();
        let (mut upstream, _) = listener.accept().unwrap();
        let sent: Vec<u8> = (0..8_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let expected = sent.clone();
        let writer = thread::spawn(move || upstream.write_all(&sent).map(|()| upstream));
        let mut received = vec![0; expected.len()];
        downstream.read_exact(&mut received).unwrap();
        assert!(received == expected);
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn an_end_on_one_side_ends_the_other() {
        let (downstream, listener) = joined();
        let (mut upstream, _) = listener.accept().unwrap();
        downstream.shutdown(Shutdown::Both).unwrap();
        assert_eq!(upstream.read(&mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn what_came_with_the_end_is_passed_on() {
        let (mut downstream, listener) = joined();
        let (mut upstream, _) = listener.accept().unwrap();
        upstream.write_all(b"last words").unwrap();
        drop(upstream);
        let mut received = Vec::new();
        downstream.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"last words");
    }
}
