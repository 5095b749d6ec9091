//! Messages from other threads to a reactor: a locked queue and an eventfd. For what is rare
//! (accepted connections, a new snapshot, drain), never for requests.

use crate::reactor::Reactor;
use crate::source::{READ, Source};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

struct Shared<T> {
    queue: Mutex<VecDeque<T>>,
    bell: OwnedFd,
}

/// The sending end; any thread.
pub struct Sender<T>(Arc<Shared<T>>);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Sender<T> {
    /// Leaves a message; never waits for the receiver.
    pub fn send(&self, message: T) {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(message);
        if queue.len() == 1 {
            // Only a full counter could fail, and a full counter is already a ringing bell.
            let _ = rustix::io::write(&self.0.bell, &1_u64.to_ne_bytes());
        }
    }
}

/// The receiving end, on its reactor.
pub struct Mailbox<T> {
    shared: Arc<Shared<T>>,
    source: Rc<Source>,
}

impl<T> Mailbox<T> {
    /// A mailbox on `reactor` and its first sender.
    ///
    /// # Errors
    /// When descriptors are exhausted.
    pub fn new(reactor: &Rc<Reactor>) -> io::Result<(Sender<T>, Self)> {
        let (sender, pending) = Self::detached()?;
        let mailbox = pending.attach(reactor)?;
        Ok((sender, mailbox))
    }

    /// A mailbox to be attached on its own thread later.
    ///
    /// # Errors
    /// When descriptors are exhausted.
    pub fn detached() -> io::Result<(Sender<T>, Detached<T>)> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            bell,
        });
        Ok((Sender(Arc::clone(&shared)), Detached(shared)))
    }

    /// The next message, in the order sent. Has no deadline.
    pub async fn receive(&self) -> T {
        poll_fn(|_| {
            loop {
                let mut queue = self
                    .shared
                    .queue
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                if let Some(message) = queue.pop_front() {
                    return Poll::Ready(message);
                }
                drop(queue);
                let mut count = [0; 8];
                let rung = self
                    .source
                    .poll(READ, |fd| rustix::io::read(fd, &mut count));
                if rung.is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }
}

/// A mailbox that has no reactor yet; may move to another thread.
pub struct Detached<T>(Arc<Shared<T>>);

impl<T> Detached<T> {
    /// Puts the mailbox on the calling thread's reactor.
    ///
    /// # Errors
    /// When descriptors are exhausted.
    pub fn attach(self, reactor: &Rc<Reactor>) -> io::Result<Mailbox<T>> {
        let bell = self.0.bell.try_clone()?;
        Ok(Mailbox {
            source: Source::register(reactor, bell)?,
            shared: self.0,
        })
    }
}
