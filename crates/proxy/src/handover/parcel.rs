//! Bytes and sockets over a unix connection (`SCM_RIGHTS`), one system call at a time, whether the
//! caller waits for it or not. Used by both sides of a handover. What comes is bounded, and is
//! closed when it is not asked for.

use super::message::{Line, Lines, SOCKETS_MAX};
use anyhow::Context;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Sockets that the kernel takes with one message (`SCM_MAX_FD`).
pub(super) const BATCH_MAX: usize = 253;
const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(BATCH_MAX));
/// Read at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// What has come and was not looked at yet.
#[derive(Default)]
pub(super) struct Inbox {
    lines: Lines,
    fds: VecDeque<OwnedFd>,
}

impl Inbox {
    /// Reads once; false at the end.
    pub(super) fn fill(&mut self, connection: BorrowedFd<'_>) -> io::Result<bool> {
        let mut bytes = [0; CHUNK_BYTES];
        let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(connection, &mut parts, &mut control, flags)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) || self.fds.len() > SOCKETS_MAX {
            return Err(io::Error::other("it gives more sockets than it may"));
        }
        let pushed = self.lines.push(&bytes[..received.bytes]);
        pushed.map_err(io::Error::other)?;
        Ok(received.bytes > 0)
    }

    /// What was said, if all of it has come.
    pub(super) fn line(&mut self) -> anyhow::Result<Option<Line>> {
        Ok(self.lines.next_line()?)
    }

    /// That many sockets, if they have come.
    pub(super) fn take_fds(&mut self, count: usize) -> Option<Vec<OwnedFd>> {
        (self.fds.len() >= count).then(|| self.fds.drain(..count).collect())
    }
}

/// What is to be written: first the line, then the sockets in batches.
pub(super) struct Outbox<'f> {
    bytes: Vec<u8>,
    sent: usize,
    fds: &'f [OwnedFd],
}

impl<'f> Outbox<'f> {
    pub(super) fn new(line: &Line, fds: &'f [OwnedFd]) -> anyhow::Result<Self> {
        let bytes = line.encode().context("what is to be said cannot be")?;
        Ok(Self {
            bytes,
            sent: 0,
            fds,
        })
    }

    /// Writes once; true when there is nothing left.
    pub(super) fn flush(&mut self, connection: BorrowedFd<'_>) -> io::Result<bool> {
        if self.sent < self.bytes.len() {
            let rest = &self.bytes[self.sent..];
            self.sent += rustix::net::send(connection, rest, SendFlags::NOSIGNAL)?;
        } else if !self.fds.is_empty() {
            let (batch, rest) = self.fds.split_at(self.fds.len().min(BATCH_MAX));
            send_batch(connection, batch)?;
            self.fds = rest;
        }
        Ok(self.sent == self.bytes.len() && self.fds.is_empty())
    }
}

/// With an empty line: sockets travel with bytes only.
fn send_batch(connection: BorrowedFd<'_>, batch: &[OwnedFd]) -> io::Result<()> {
    use std::os::fd::AsFd;
    let fds: Vec<_> = batch.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    debug_assert!(fds.len() <= BATCH_MAX, "the space is made for it");
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("a batch has more sockets than it may"));
    }
    let line = [IoSlice::new(b"\n")];
    sendmsg(connection, &line, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
