//! One generating thread's account of a run: when the next request of a schedule falls due, what
//! counts as late, which requests belong to the window. Kept by both engines, `worker` and
//! `http2`, so that a figure means the same whatever the protocol. Does no I/O but read clocks.

use crate::{
    clock::{self, MILLISECOND, SECOND},
    schedule::Schedule,
    setup::Setup,
    tally::{ERROR_STATUS_MIN, Failure, Tally},
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// A send this much after its time on a free connection is late.
const LATE: u64 = MILLISECOND;
/// After the window, requests whose time has passed are still sent for this long.
const BACKLOG_GRACE: u64 = SECOND;

/// Counts that another thread may look at while the run goes on.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Live {
    pub(crate) answers: AtomicU64,
    pub(crate) failures: AtomicU64,
}

/// The run's instants on the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(crate) start: u64,
    /// The warm-up ends and the measured window begins.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Window {
    #[inline]
    pub(crate) fn contains(&self, instant: u64) -> bool {
        self.from <= instant && instant < self.to
    }
}

/// The request in flight, or the last one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Request {
    pub(crate) intended: u64,
    pub(crate) sent: u64,
    /// Intended inside the measured window.
    pub(crate) measured: bool,
    pub(crate) received: u64,
}

/// What a free connection or stream does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Sends now; when that was intended, in an open loop.
    Now(Option<u64>),
    /// Sends at this instant.
    At(u64),
    /// Has nothing more to send.
    Never,
}

pub(crate) struct Ledger {
    pub(crate) setup: Arc<Setup>,
    pub(crate) window: Window,
    pub(crate) tally: Tally,
    live: Arc<Live>,
    next_second: u64,
    answers: u64,
    failures: u64,
    marks: Marks,
}

/// The thread's clocks at the edges of the window.
#[derive(Default)]
struct Marks {
    from: Option<(u64, u64)>,
    to: Option<(u64, u64)>,
}

impl Ledger {
    pub(crate) fn new(setup: Arc<Setup>, live: Arc<Live>) -> Self {
        Self {
            setup,
            window: Window::default(),
            tally: Tally::new(),
            live,
            next_second: u64::MAX,
            answers: 0,
            failures: 0,
            marks: Marks::default(),
        }
    }

    pub(crate) fn begin(&mut self, window: Window) {
        self.window = window;
        self.next_second = window.from + SECOND;
    }

    /// Once per turn of an engine's loop: notices a stop and the edges of window and seconds.
    #[inline]
    pub(crate) fn tick(&mut self, now: u64) {
        self.window.to = self.window.to.min(self.setup.end.load(Relaxed));
        if now >= self.window.from && self.marks.from.is_none() {
            self.marks.from = Some((clock::thread_cpu(), clock::thread_wait()));
        }
        while now >= self.next_second && self.next_second < self.window.to {
            self.tally.end_second();
            self.next_second += SECOND;
        }
        if now >= self.window.to && self.marks.to.is_none() {
            self.marks.to = Some((clock::thread_cpu(), clock::thread_wait()));
        }
        self.live.answers.store(self.answers, Relaxed);
        self.live.failures.store(self.failures, Relaxed);
    }

    /// The next edge of the window, at which `tick` should be called.
    #[inline]
    pub(crate) fn edge(&self, now: u64) -> u64 {
        let Window { from, to, .. } = self.window;
        if now < from {
            from
        } else if now < to {
            to
        } else {
            u64::MAX
        }
    }

    /// What something free does next; without a schedule the loop is closed.
    #[inline]
    pub(crate) fn turn(&self, schedule: Option<&Schedule>, now: u64) -> Turn {
        let Some(schedule) = schedule else {
            return if now < self.window.to {
                Turn::Now(None)
            } else {
                Turn::Never
            };
        };
        let intended = self.window.start + schedule.peek();
        if intended >= self.window.to {
            Turn::Never
        } else if intended > now {
            Turn::At(intended)
        } else if self.is_open(now) {
            Turn::Now(Some(intended))
        } else {
            Turn::Never
        }
    }

    /// Whether requests of the window may still be sent.
    #[inline]
    pub(crate) fn is_open(&self, now: u64) -> bool {
        now < self.window.to + BACKLOG_GRACE
    }

    /// Whether this schedule still has a request for the window.
    pub(crate) fn has_backlog(&self, schedule: Option<&Schedule>) -> bool {
        let last = self.window.to - self.window.start;
        schedule.is_some_and(|schedule| schedule.peek() < last)
    }

    /// A request is sent now; `free_since` is when it first could have been.
    #[inline]
    pub(crate) fn sent(&mut self, intended: Option<u64>, free_since: u64) -> Request {
        let stall = self.setup.stall_before_send;
        if intended.is_some() && !stall.is_zero() {
            std::thread::sleep(stall);
        }
        let sent = clock::now();
        let intended = intended.unwrap_or(sent);
        let measured = self.window.contains(intended);
        self.tally.sends_in_window += u64::from(self.window.contains(sent));
        if measured {
            self.tally.sends += 1;
            self.tally.bytes_sent += self.setup.request.len() as u64;
            let lateness = sent - intended.max(free_since).min(sent);
            self.tally.late_sends += u64::from(lateness > LATE);
            self.tally.worst_lateness = self.tally.worst_lateness.max(lateness);
        }
        Request {
            intended,
            sent,
            measured,
            received: 0,
        }
    }

    #[inline]
    pub(crate) fn answered(&mut self, request: &Request, status: u16, now: u64) {
        self.answers += 1;
        let is_good = status < ERROR_STATUS_MIN;
        self.tally.answers_in_window += u64::from(is_good && self.window.contains(now));
        if request.measured {
            self.tally
                .answered(status, now - request.intended, now - request.sent);
            self.tally.bytes_received += request.received;
            self.tally.last_answer = now;
        }
    }

    pub(crate) fn failed(&mut self, failure: Failure, request: &Request, now: u64) {
        self.failures += 1;
        if request.measured {
            self.tally
                .failed(failure, now - request.intended, now - request.sent);
        }
    }

    /// A connect has failed, and with it the request that waited for the connection, if one did.
    pub(crate) fn unreachable(
        &mut self,
        failure: Failure,
        schedule: Option<&mut Schedule>,
        now: u64,
    ) {
        let intended = match schedule {
            None => now,
            Some(schedule) => {
                let intended = self.window.start + schedule.peek();
                if intended > now || intended >= self.window.to {
                    return;
                }
                schedule.advance();
                intended
            }
        };
        let measured = self.window.contains(intended);
        self.tally.sends += u64::from(measured);
        let request = Request {
            intended,
            sent: now,
            measured,
            received: 0,
        };
        self.failed(failure, &request, now);
    }

    /// A connection is being replaced.
    pub(crate) fn reconnected(&mut self, now: u64) {
        self.tally.reconnects += u64::from(self.window.contains(now));
    }

    /// Closes the account; what the schedules still hold was never sent.
    pub(crate) fn close<'a>(
        &mut self,
        schedules: impl Iterator<Item = Option<&'a Schedule>>,
    ) -> Tally {
        let Window { start, from, to } = self.window;
        let (mut unsent, mut open_loop) = (0, false);
        for schedule in schedules.flatten() {
            unsent += schedule.count_between(from - start, to - start);
            open_loop = true;
        }
        let mut tally = std::mem::replace(&mut self.tally, Tally::new());
        tally.end_second();
        tally.unfinished += unsent;
        tally.scheduled = if open_loop { tally.sends + unsent } else { 0 };
        let (from, to) = (
            self.marks.from.unwrap_or_default(),
            self.marks.to.unwrap_or_default(),
        );
        tally.cpu = to.0.saturating_sub(from.0);
        tally.wait = to.1.saturating_sub(from.1);
        tally
    }
}
