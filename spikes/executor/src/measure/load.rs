//! The client: a closed loop of keep-alive connections from one thread, each sending its next
//! request when the answer to the last is complete.

use super::echo::ANSWER;
use crate::net;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

const REQUEST: &[u8] = b"GET /echo?size=1024 HTTP/1.1\r\nhost: fortioserver:8080\r\n\
    user-agent: spike/0.1\r\naccept: */*\r\nx-request-id: 0f1e2d3c4b5a69788796a5b4c3d2e1f0\r\n\r\n";

/// A running load.
pub struct Load {
    answers: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
}

impl Load {
    /// Opens `connections` to `target` and begins, on core `cpu`.
    pub fn start(target: SocketAddr, connections: usize, cpu: usize) -> Self {
        let (answers, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counted, stopped) = (Arc::clone(&answers), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            super::pin(cpu)?;
            run(target, connections, &counted, &stopped)
        });
        Self {
            answers,
            stop,
            thread,
        }
    }

    /// Complete answers so far.
    pub fn answers(&self) -> u64 {
        self.answers.load(Relaxed)
    }

    /// Ends the load; its connections are closed.
    ///
    /// # Errors
    /// Whatever went wrong on the way: a refused connection, a wrong or missing answer.
    pub fn finish(self) -> io::Result<()> {
        self.stop.store(true, Relaxed);
        self.thread.join().expect("the load does not panic")
    }
}

struct Client {
    stream: OwnedFd,
    received: usize,
}

impl Client {
    fn ask(&self) -> io::Result<()> {
        rustix::net::send(&self.stream, REQUEST, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Whether the answer is complete.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let count = match rustix::net::recv(&self.stream, &mut *buffer, RecvFlags::empty()) {
            Ok((count, _)) => count,
            Err(rustix::io::Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        if count == 0 || self.received == 0 && !buffer.starts_with(b"HTTP/1.1 200") {
            return Err(io::Error::other("the target closed or did not answer 200"));
        }
        self.received += count;
        if self.received > ANSWER.len() {
            return Err(io::Error::other(
                "an answer was longer than the application's",
            ));
        }
        Ok(self.received == ANSWER.len())
    }
}

fn run(
    target: SocketAddr,
    connections: usize,
    answers: &AtomicU64,
    stop: &AtomicBool,
) -> io::Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut clients = Vec::with_capacity(connections);
    for key in 0..connections as u64 {
        let client = Client {
            stream: net::connect(target)?,
            received: 0,
        };
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(
            &epoll,
            &client.stream,
            epoll::EventData::new_u64(key),
            flags,
        )?;
        client.ask()?;
        clients.push(client);
    }
    let mut buffer = [0; 16 * 1024];
    let mut events = Vec::with_capacity(256);
    let limit = rustix::event::Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    while !stop.load(Relaxed) {
        events.clear();
        epoll::wait(
            &epoll,
            rustix::buffer::spare_capacity(&mut events),
            Some(&limit),
        )?;
        if events.is_empty() {
            return Err(io::Error::other("no answer for a second"));
        }
        for event in &events {
            let client = &mut clients[usize::try_from(event.data.u64()).expect("a key of ours")];
            if client.receive(&mut buffer)? {
                client.received = 0;
                answers.fetch_add(1, Relaxed);
                client.ask()?;
            }
        }
    }
    Ok(())
}
