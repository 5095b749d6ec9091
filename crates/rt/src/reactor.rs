//! The loop of one thread: wait for edges, run the tasks they concern, look after deadlines.
//! Owned by a worker; everything else of this crate hangs on it.

use crate::source::Source;
use crate::timer::Timers;
use rustix::event::epoll;
use rustix::fd::{BorrowedFd, OwnedFd};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Edges taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// No deadline.
const NEVER: u64 = u64::MAX;
/// How fine deadlines are, in ms: the tasks are looked through at most this often.
const TICK_MS: u64 = 50;

/// Times that tasks which others woke are run before the kernel is asked again: work that passes
/// from task to task (request, connection) costs no system call per step, and the kernel is never
/// forgotten for long.
const ROUNDS_MAX: u32 = 4;

/// A task's number in its reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(u32);

impl TaskId {
    /// No task: waking it does nothing.
    pub const NONE: Self = Self(u32::MAX);
}

type BoxFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    /// Taken out while the task runs.
    future: Option<BoxFuture>,
    /// When the task is to be woken with [`Reactor::is_expired`], in ms of the reactor's clock.
    deadline: u64,
    expired: bool,
    queued: bool,
}

/// The executor of one thread. See the crate's documentation.
pub struct Reactor {
    epoll: OwnedFd,
    started: Instant,
    now: Cell<Instant>,
    now_ms: Cell<u64>,
    sources: RefCell<Slab<Weak<Source>>>,
    tasks: RefCell<Slab<Task>>,
    ready: RefCell<VecDeque<TaskId>>,
    timers: RefCell<Timers>,
    current: Cell<TaskId>,
    current_deadline: Cell<u64>,
    current_expired: Cell<bool>,
    /// Invariant: no task's deadline lies more than a tick before this. While tasks run it only
    /// comes nearer: a task that is woken again and again must not put it off.
    next_sweep: Cell<u64>,
    panics: Cell<u64>,
    stopping: Cell<bool>,
}

impl Reactor {
    /// A reactor for the calling thread.
    ///
    /// # Errors
    /// When the kernel gives no epoll instance (descriptors exhausted).
    pub fn new() -> io::Result<Rc<Self>> {
        let started = Instant::now();
        Ok(Rc::new(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            started,
            now: Cell::new(started),
            now_ms: Cell::new(0),
            sources: RefCell::default(),
            tasks: RefCell::default(),
            ready: RefCell::default(),
            timers: RefCell::default(),
            current: Cell::new(TaskId::NONE),
            current_deadline: Cell::new(NEVER),
            current_expired: Cell::new(false),
            next_sweep: Cell::new(NEVER),
            panics: Cell::new(0),
            stopping: Cell::new(false),
        }))
    }

    /// Starts a task; it runs in the next turn of the loop.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> TaskId {
        let mut tasks = self.tasks.borrow_mut();
        let key = tasks.insert(Task {
            future: Some(Box::pin(future)),
            deadline: NEVER,
            expired: false,
            queued: true,
        });
        let id = TaskId(u32::try_from(key).expect("tasks are bounded by descriptors"));
        self.ready.borrow_mut().push_back(id);
        id
    }

    /// Makes a task run in the next turn; one that has ended is passed over.
    pub fn wake(&self, id: TaskId) {
        if let Some(task) = self.tasks.borrow_mut().get_mut(id.0 as usize)
            && !task.queued
        {
            task.queued = true;
            self.ready.borrow_mut().push_back(id);
        }
    }

    /// The running task; meaningful inside a task only.
    #[must_use]
    pub fn current(&self) -> TaskId {
        self.current.get()
    }

    /// When the last turn of the loop began: when what it found had arrived, at the latest.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now.get()
    }

    /// Milliseconds since the reactor was made, as of the last turn of the loop.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    /// Gives the running task this long: after that, its pending operations fail with
    /// `TimedOut`; zero is no limit. Coarse (tens of milliseconds late); costs two stores.
    pub fn deadline_after(&self, limit: Duration) {
        let limit = match limit {
            Duration::ZERO => NEVER,
            limit => u64::try_from(limit.as_millis()).unwrap_or(NEVER),
        };
        self.current_deadline
            .set(self.now_ms.get().saturating_add(limit));
        self.current_expired.set(false);
    }

    /// Takes the running task's deadline away.
    pub fn clear_deadline(&self) {
        self.current_deadline.set(NEVER);
        self.current_expired.set(false);
    }

    /// Whether the running task's deadline has passed.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.current_expired.get()
    }

    /// Tasks that panicked; each was dropped, the others live on.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.panics.get()
    }

    /// Tasks alive.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// Ends [`Reactor::run`] after the current turn.
    pub fn stop(&self) {
        self.stopping.set(true);
    }

    /// Wakes the running task once after `limit`, whatever it waits for.
    pub fn wake_after(&self, limit: Duration) {
        let due = self.now_ms() + u64::try_from(limit.as_millis()).unwrap_or(NEVER / 2);
        self.timers.borrow_mut().insert(due, self.current());
    }

    /// Makes every task run in the next turn: when something that all look at has changed.
    pub fn wake_all(&self) {
        let mut ready = self.ready.borrow_mut();
        for (key, task) in self.tasks.borrow_mut().iter_mut() {
            if !std::mem::replace(&mut task.queued, true) {
                ready.push_back(TaskId(u32::try_from(key).expect("tasks are bounded")));
            }
        }
    }

    /// Waits for `limit`; finer than a deadline, dearer: not for every request.
    pub async fn sleep(&self, limit: Duration) {
        let due = self.now_ms() + u64::try_from(limit.as_millis()).unwrap_or(NEVER / 2);
        self.timers.borrow_mut().insert(due, self.current());
        std::future::poll_fn(|_| {
            if self.now_ms() >= due {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Lets the other ready tasks run first.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        std::future::poll_fn(|_| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            self.wake(self.current());
            Poll::Pending
        })
        .await;
    }

    /// Runs until [`Reactor::stop`] or until no task is left.
    ///
    /// # Errors
    /// Only when `epoll_wait` itself fails, which no peer can cause.
    pub fn run(&self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !self.stopping.get() && !self.tasks.borrow().is_empty() {
            self.wait(&mut events)?;
            self.tick();
            for _ in 0..ROUNDS_MAX {
                self.turn();
                if self.ready.borrow().is_empty() || self.stopping.get() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        events.clear();
        let timeout = self.timeout();
        let spare = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let now = Instant::now();
        self.now.set(now);
        let elapsed = now.duration_since(self.started);
        self.now_ms
            .set(u64::try_from(elapsed.as_millis()).unwrap_or(NEVER));
        let sources = self.sources.borrow();
        for event in events.iter() {
            let key = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            // A source may have been closed by an earlier event of the same batch.
            if let Some(source) = sources.get(key).and_then(Weak::upgrade) {
                let task = source.edge(event.flags);
                if task != TaskId::NONE {
                    self.wake(task);
                }
            }
        }
        Ok(())
    }

    fn timeout(&self) -> Option<rustix::event::Timespec> {
        if !self.ready.borrow().is_empty() {
            return Some(rustix::event::Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            });
        }
        let due = self
            .next_sweep
            .get()
            .min(self.timers.borrow().next_due().unwrap_or(NEVER));
        if due == NEVER {
            return None;
        }
        let left = Duration::from_millis(due.saturating_sub(self.now_ms.get()));
        rustix::event::Timespec::try_from(left).ok()
    }

    /// Wakes what is due.
    fn tick(&self) {
        let now = self.now_ms.get();
        while let Some(task) = self.timers.borrow_mut().pop(now) {
            self.wake(task);
        }
        if self.next_sweep.get() <= now {
            self.sweep(now);
        }
    }

    fn sweep(&self, now: u64) {
        let mut next = NEVER;
        let mut ready = self.ready.borrow_mut();
        for (key, task) in self.tasks.borrow_mut().iter_mut() {
            if task.deadline > now {
                next = next.min(task.deadline);
                continue;
            }
            task.deadline = NEVER;
            task.expired = true;
            if !std::mem::replace(&mut task.queued, true) {
                ready.push_back(TaskId(u32::try_from(key).expect("tasks are bounded")));
            }
        }
        self.next_sweep.set(next.max(now + TICK_MS));
        if next == NEVER {
            self.next_sweep.set(NEVER);
        }
    }

    /// Runs the tasks that are ready now; those they make ready wait for the next turn.
    fn turn(&self) {
        let ready = self.ready.borrow().len();
        for _ in 0..ready {
            let next = self.ready.borrow_mut().pop_front();
            if let Some(id) = next {
                self.run_task(id);
            }
        }
    }

    fn run_task(&self, id: TaskId) {
        let Some(mut future) = self.enter(id) else {
            return;
        };
        let mut context = Context::from_waker(Waker::noop());
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        if matches!(polled, Ok(Poll::Pending)) {
            self.leave(id, future);
            return;
        }
        if polled.is_err() {
            self.panics.set(self.panics.get() + 1);
        }
        // The future goes first: its drop may still speak to the reactor.
        drop(future);
        self.current.set(TaskId::NONE);
        self.tasks.borrow_mut().remove(id.0 as usize);
    }

    fn enter(&self, id: TaskId) -> Option<BoxFuture> {
        let mut tasks = self.tasks.borrow_mut();
        let task = tasks.get_mut(id.0 as usize)?;
        task.queued = false;
        self.current.set(id);
        self.current_deadline.set(task.deadline);
        self.current_expired.set(task.expired);
        task.future.take()
    }

    fn leave(&self, id: TaskId, future: BoxFuture) {
        let deadline = self.current_deadline.get();
        let mut tasks = self.tasks.borrow_mut();
        let task = tasks
            .get_mut(id.0 as usize)
            .expect("a running task stays in its place");
        task.future = Some(future);
        task.deadline = deadline;
        task.expired = self.current_expired.get();
        self.current.set(TaskId::NONE);
        let due = deadline.max(self.now_ms.get() + TICK_MS);
        self.next_sweep.set(self.next_sweep.get().min(due));
    }

    pub(crate) fn reserve_source(&self) -> io::Result<u32> {
        let key = self.sources.borrow_mut().insert(Weak::new());
        u32::try_from(key).map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    pub(crate) fn fill_source(&self, key: u32, source: &Rc<Source>) {
        self.sources.borrow_mut()[key as usize] = Rc::downgrade(source);
    }

    pub(crate) fn release_source(&self, key: u32) {
        self.sources.borrow_mut().remove(key as usize);
    }

    pub(crate) fn watch(
        &self,
        fd: BorrowedFd<'_>,
        key: u32,
        flags: epoll::EventFlags,
    ) -> io::Result<()> {
        let data = epoll::EventData::new_u64(u64::from(key));
        Ok(epoll::add(&self.epoll, fd, data, flags)?)
    }

    /// For what others have as well: closing the last descriptor here would not end it.
    pub(crate) fn unwatch(&self, fd: BorrowedFd<'_>) {
        // Only what is not watched could be refused.
        let _ = epoll::delete(&self.epoll, fd);
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        debug_assert!(
            self.current.get() == TaskId::NONE,
            "dropped by one of its own tasks"
        );
    }
}

#[cfg(test)]
mod tests;
