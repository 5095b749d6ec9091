//! One connection of the TCP echo: what comes goes back as it came. Called by `worker` on events;
//! reads no further while the peer does not take its own bytes back.

use super::connection::Next;
use rustix::{
    fd::OwnedFd,
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};

pub(crate) struct Echo {
    fd: OwnedFd,
    drained: bool,
    /// The peer will send nothing more: read on until the end is seen.
    closing: bool,
    /// What the kernel has not taken back yet, from `sent` on.
    pending: Vec<u8>,
    sent: usize,
}

impl Echo {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            drained: false,
            closing: false,
            pending: Vec::new(),
            sent: 0,
        }
    }

    /// The kernel has news.
    pub(crate) fn awake(&mut self, closing: bool) {
        self.drained = false;
        self.closing |= closing;
    }

    /// Goes on as far as it can; `buffer` is any thread's scratch.
    pub(crate) fn resume(&mut self, buffer: &mut [u8]) -> Next {
        loop {
            match self.flush() {
                Ok(true) => {}
                Ok(false) => return Next::Event,
                Err(_) => return Next::Close,
            }
            if self.drained {
                return Next::Event;
            }
            let taken = match recv(&self.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Next::Close,
                Ok((taken, _)) => taken,
                Err(Errno::AGAIN) => return Next::Event,
                Err(Errno::INTR) => continue,
                Err(_) => return Next::Close,
            };
            self.drained = taken < buffer.len() && !self.closing;
            let sent = match send(&self.fd, &buffer[..taken], SendFlags::NOSIGNAL) {
                Ok(sent) => sent,
                Err(Errno::AGAIN | Errno::INTR) => 0,
                Err(_) => return Next::Close,
            };
            self.pending.extend_from_slice(&buffer[sent..taken]);
        }
    }

    /// Whether nothing is pending any more.
    fn flush(&mut self) -> Result<bool, Errno> {
        while self.sent < self.pending.len() {
            match send(&self.fd, &self.pending[self.sent..], SendFlags::NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.pending.clear();
        self.sent = 0;
        Ok(true)
    }
}
