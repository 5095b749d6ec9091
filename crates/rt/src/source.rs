//! A registered descriptor and what the kernel last said of it. Made by [`crate::Tcp`],
//! [`crate::Listener`] and [`crate::Mailbox`]; edges arrive from [`crate::Reactor`].

use crate::reactor::{Reactor, TaskId};
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::Poll;

/// What a source may be ready for.
pub(crate) const READ: u8 = 1;
pub(crate) const WRITE: u8 = 2;
/// The peer will send nothing more: a read never has to wait again.
pub(crate) const READ_CLOSED: u8 = 4;
/// The connection failed or both directions are closed.
pub(crate) const FAILED: u8 = 8;

pub(crate) struct Source {
    fd: OwnedFd,
    key: u32,
    /// Bits above; a bit is set by an edge and cleared by an operation that would block.
    ready: Cell<u8>,
    /// The task that waits. A stale number costs one poll without cause.
    task: Cell<TaskId>,
    pub(crate) reactor: Rc<Reactor>,
}

impl Source {
    /// Registers `fd` (non-blocking) for edges in both directions.
    pub(crate) fn register(reactor: &Rc<Reactor>, fd: OwnedFd) -> io::Result<Rc<Self>> {
        let key = reactor.reserve_source()?;
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let source = Rc::new(Self {
            fd,
            key,
            ready: Cell::new(0),
            task: Cell::new(TaskId::NONE),
            reactor: Rc::clone(reactor),
        });
        // Filled before the kernel can speak of it; on failure the drop empties the place.
        reactor.fill_source(key, &source);
        reactor.watch(source.fd.as_fd(), key, flags)?;
        Ok(source)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn is_ready(&self, what: u8) -> bool {
        self.ready.get() & what != 0
    }

    /// An operation found the kernel's queue empty (or full): wait for the next edge.
    pub(crate) fn clear(&self, what: u8) {
        self.ready.set(self.ready.get() & !what);
    }

    /// Records an edge; returns the task to run.
    pub(crate) fn edge(&self, flags: epoll::EventFlags) -> TaskId {
        let mut bits = self.ready.get();
        if flags.intersects(epoll::EventFlags::IN) {
            bits |= READ;
        }
        if flags.intersects(epoll::EventFlags::OUT) {
            bits |= WRITE;
        }
        if flags.intersects(epoll::EventFlags::RDHUP) {
            bits |= READ | READ_CLOSED;
        }
        if flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            bits |= READ | WRITE | READ_CLOSED | FAILED;
        }
        self.ready.set(bits);
        self.task.get()
    }

    /// Makes the running task the one that this source wakes.
    pub(crate) fn own(&self) {
        self.task.set(self.reactor.current());
    }

    /// Makes `task` the one that this source wakes.
    pub(crate) fn own_by(&self, task: TaskId) {
        self.task.set(task);
    }

    /// Runs `operation` if `what` may be ready; on `WouldBlock` registers the running task.
    pub(crate) fn poll<T>(
        &self,
        what: u8,
        mut operation: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<T>,
    ) -> Poll<io::Result<T>> {
        while self.is_ready(what) {
            match operation(self.fd.as_fd()) {
                Err(rustix::io::Errno::AGAIN) => self.clear(what),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
                Ok(value) => return Poll::Ready(Ok(value)),
            }
        }
        self.pending()
    }

    /// Waits for the next edge, unless the task's deadline has passed.
    pub(crate) fn pending<T>(&self) -> Poll<io::Result<T>> {
        self.own();
        if self.reactor.is_expired() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // Closing the descriptor also takes it out of the epoll set, unless it was duplicated (the
        // bell of a mailbox): then an edge may still come for a key that another source has by
        // now, which costs that one a vain attempt.
        self.reactor.release_source(self.key);
    }
}
