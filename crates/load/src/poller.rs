//! Edge-triggered epoll with one precise timer, shared by the generator and the echo server.
//! The timer is a timerfd: epoll's own timeout, like tokio's, is too coarse for a schedule in
//! microseconds.

use crate::{Error, clock};
use rustix::{
    event::epoll::{self, CreateFlags, Event, EventData, EventFlags},
    fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    io::Errno,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};

const TIMER: u64 = u64::MAX;
const EVENTS: usize = 256;

/// What one thread waits on.
pub(crate) struct Poller {
    epoll: OwnedFd,
    timer: Timer,
    events: Vec<Event>,
}

/// Something happened to the descriptor with this token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) token: u64,
    pub(crate) writable: bool,
    pub(crate) readable: bool,
    /// The peer will send nothing more.
    pub(crate) closing: bool,
}

impl Poller {
    pub(crate) fn new() -> Result<Self, Error> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(Error::system("make an epoll"))?;
        let timer = Timer::new()?;
        let interest = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), interest)
            .map_err(Error::system("watch a timer"))?;
        Ok(Self {
            epoll,
            timer,
            events: Vec::with_capacity(EVENTS),
        })
    }

    /// Watches a descriptor for reading and writing until it is closed.
    pub(crate) fn add(&self, fd: impl AsFd, token: u64) -> Result<(), Errno> {
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, fd, EventData::new_u64(token), interest)
    }

    /// Watches a listener or an eventfd, level-triggered.
    pub(crate) fn add_level(&self, fd: impl AsFd, token: u64) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, EventData::new_u64(token), EventFlags::IN)
    }

    /// Stops watching a descriptor that somebody else goes on with.
    pub(crate) fn remove(&self, fd: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, fd)
    }

    /// Waits for events, at most until `deadline` on the monotonic clock (none = `u64::MAX`).
    #[inline]
    pub(crate) fn wait(&mut self, deadline: u64) -> Result<(), Error> {
        self.timer.arm(deadline)?;
        self.take_events(None)
    }

    /// Takes the events that are there.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<(), Error> {
        self.take_events(Some(&clock::timespec(0)))
    }

    #[inline]
    fn take_events(&mut self, timeout: Option<&Timespec>) -> Result<(), Error> {
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, spare, timeout) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::system("wait for events")(errno)),
        }
    }

    /// The number of events of the last wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// An event of the last wait; none if it was the timer.
    #[inline]
    pub(crate) fn event(&mut self, index: usize) -> Option<Ready> {
        let Event { flags, data, .. } = self.events[index];
        let token = data.u64();
        if token == TIMER {
            self.timer.has_fired();
            return None;
        }
        let gone = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        Some(Ready {
            token,
            writable: flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP),
            readable: flags.intersects(EventFlags::IN | gone),
            closing: flags.intersects(gone),
        })
    }
}

/// A timer of the kernel's. Watched edge-triggered: what it counts is never read.
pub(crate) struct Timer {
    fd: OwnedFd,
    armed: u64,
}

impl Timer {
    pub(crate) fn new() -> Result<Self, Error> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(Error::system("make a timer"))?;
        Ok(Self {
            fd,
            armed: u64::MAX,
        })
    }

    /// Its event has come.
    #[inline]
    pub(crate) fn has_fired(&mut self) {
        self.armed = u64::MAX;
    }

    /// Fires at `deadline` on the monotonic clock, or a little earlier; never at `u64::MAX`.
    ///
    /// # Errors
    /// What the kernel refuses.
    #[inline]
    pub(crate) fn arm(&mut self, deadline: u64) -> Result<(), Error> {
        // A timer that is armed too early costs one idle turn; re-arming it costs a system call.
        if deadline == self.armed || (deadline > self.armed && self.armed > clock::now()) {
            return Ok(());
        }
        let value = if deadline == u64::MAX {
            0
        } else {
            deadline.max(1)
        };
        let new = Itimerspec {
            it_interval: clock::timespec(0),
            it_value: clock::timespec(value),
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &new)
            .map_err(Error::system("set a timer"))?;
        self.armed = deadline;
        Ok(())
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
