//! What the kernel alone charges: a raw edge-triggered relay, one upstream connection per
//! downstream, one read and one write per message. Options: `--listen ADDR`, `--to ADDR`.

use anyhow::{Context, Result};
use executor_spike::{net, options::Options};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::net::SocketAddr;

const LISTENER: u64 = u64::MAX;

struct Relay {
    epoll: OwnedFd,
    upstream: SocketAddr,
    /// Pairs: the peer of key `k` is `k ^ 1`. A spike never reuses a place.
    ends: Vec<Option<OwnedFd>>,
    buffer: Box<[u8]>,
}

impl Relay {
    fn open(&mut self, downstream: OwnedFd) -> Result<()> {
        for fd in [downstream, net::connect(self.upstream)?] {
            let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
            let data = epoll::EventData::new_u64(self.ends.len() as u64);
            epoll::add(&self.epoll, &fd, data, flags)?;
            self.ends.push(Some(fd));
        }
        Ok(())
    }

    /// Passes on what is there; whether the pair lives on.
    fn pass(&mut self, key: usize) -> bool {
        let (Some(from), Some(to)) = (&self.ends[key], &self.ends[key ^ 1]) else {
            return true;
        };
        loop {
            let count = match rustix::net::recv(from, &mut *self.buffer, RecvFlags::empty()) {
                Ok((0, _)) => return false,
                Ok((count, _)) => count,
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            };
            let sent = rustix::net::send(to, &self.buffer[..count], SendFlags::NOSIGNAL);
            if sent != Ok(count) {
                return false;
            }
            if count < self.buffer.len() {
                return true;
            }
        }
    }

    fn handle(&mut self, key: u64, listener: &OwnedFd) -> Result<()> {
        if key == LISTENER {
            while let Some(fd) = net::accept(listener)? {
                self.open(fd)?;
            }
            return Ok(());
        }
        let key = usize::try_from(key)?;
        if !self.pass(key) {
            (self.ends[key], self.ends[key ^ 1]) = (None, None);
        }
        Ok(())
    }

    fn run(&mut self, listener: &OwnedFd) -> Result<()> {
        let mut events = Vec::with_capacity(256);
        loop {
            events.clear();
            epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                None,
            )?;
            for event in &events {
                self.handle(event.data.u64(), listener)?;
            }
        }
    }
}

fn main() -> Result<()> {
    let options = Options::parse(&["--listen", "--to"])?;
    let upstream = options.find("--to")?.context("--to is needed")?;
    let (listener, bound) = net::listen(options.find("--listen")?.context("--listen is needed")?)?;
    println!("{bound}");
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let data = epoll::EventData::new_u64(LISTENER);
    epoll::add(&epoll, &listener, data, epoll::EventFlags::IN)?;
    let buffer = vec![0; 16 * 1024].into_boxed_slice();
    Relay {
        epoll,
        upstream,
        ends: Vec::new(),
        buffer,
    }
    .run(&listener)
}
