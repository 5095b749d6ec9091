//! The clockwork of a generating thread with streams: wakes each lane when its next request is
//! due, ends what takes too long, and keeps the ledger's time. Precise where tokio's timers are
//! not: the runtime only carries it.

use crate::{
    Error,
    clock::{self, MILLISECOND},
    ledger::Ledger,
    poller::Timer,
    spin::{Pause, Spin},
};
use std::{
    cell::{Cell, RefCell},
    cmp::Reverse,
    collections::BinaryHeap,
    future::poll_fn,
    pin::pin,
    task::{Context, Poll, Waker},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    task::yield_now,
};

/// What the lanes of one thread wait on.
pub(crate) struct Pace {
    timer: RefCell<AsyncFd<Timer>>,
    /// The next send of each lane of an open loop that is free.
    due: RefCell<BinaryHeap<Reverse<(u64, usize)>>>,
    seats: RefCell<Vec<Seat>>,
    /// Lanes that have ended.
    ended: Cell<usize>,
    /// What the clockwork sleeps for has changed.
    nudged: Cell<bool>,
    sleeper: RefCell<Option<Waker>>,
    timeout: u64,
}

/// A lane's place: how to wake it, and why.
#[derive(Default)]
struct Seat {
    waker: Option<Waker>,
    /// When the request in flight has taken too long; 0 = none is in flight.
    deadline: u64,
    expired: bool,
}

impl Seat {
    fn remember(&mut self, ctx: &Context<'_>) {
        match &self.waker {
            Some(waker) if waker.will_wake(ctx.waker()) => {}
            _ => self.waker = Some(ctx.waker().clone()),
        }
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

impl Pace {
    /// For lanes numbered from 0; must be called on the runtime. `timeout` is in nanoseconds.
    #[expect(
        deprecated,
        reason = "sound here: a timer keeps its one descriptor as long as it lives; the \
                  replacement is the same behind an `unsafe`, which this workspace forbids"
    )]
    pub(crate) fn new(lanes: usize, timeout: u64) -> Result<Self, Error> {
        let timer = AsyncFd::with_interest(Timer::new()?, Interest::READABLE);
        let timer = timer.map_err(|source| Error::System {
            doing: "watch a timer",
            source,
        })?;
        Ok(Self {
            timer: RefCell::new(timer),
            due: RefCell::new(BinaryHeap::with_capacity(lanes)),
            seats: RefCell::new((0..lanes).map(|_| Seat::default()).collect()),
            ended: Cell::new(0),
            nudged: Cell::new(false),
            sleeper: RefCell::new(None),
            timeout,
        })
    }

    /// Waits until `instant`, or until the lane should look again what it does next.
    pub(crate) async fn until(&self, lane: usize, instant: u64) {
        let mut asked = false;
        poll_fn(|ctx| {
            if asked {
                return Poll::Ready(());
            }
            asked = true;
            self.seats.borrow_mut()[lane].remember(ctx);
            let mut due = self.due.borrow_mut();
            due.push(Reverse((instant, lane)));
            if due.peek() == Some(&Reverse((instant, lane))) {
                self.nudge();
            }
            Poll::Pending
        })
        .await;
    }

    /// Lets a request that was sent at `sent` go on until the timeout; none if that came first.
    pub(crate) async fn within<T>(
        &self,
        lane: usize,
        sent: u64,
        request: impl Future<Output = T>,
    ) -> Option<T> {
        let mut request = pin!(request);
        self.seats.borrow_mut()[lane].deadline = sent + self.timeout;
        let outcome = poll_fn(|ctx| {
            if let Poll::Ready(outcome) = request.as_mut().poll(ctx) {
                return Poll::Ready(Some(outcome));
            }
            let seat = &mut self.seats.borrow_mut()[lane];
            if seat.expired {
                return Poll::Ready(None);
            }
            seat.remember(ctx);
            Poll::Pending
        })
        .await;
        let seat = &mut self.seats.borrow_mut()[lane];
        (seat.deadline, seat.expired) = (0, false);
        outcome
    }

    /// A lane has nothing more to send.
    pub(crate) fn end(&self) {
        self.ended.set(self.ended.get() + 1);
        self.nudge();
    }

    /// Keeps time until `lanes` lanes have ended and the window is over.
    pub(crate) async fn drive(&self, ledger: &RefCell<Ledger>, lanes: usize) -> Result<(), Error> {
        let every = (self.timeout / 20).clamp(MILLISECOND, 50 * MILLISECOND);
        let mut spin = Spin::default();
        let mut next_sweep = 0;
        loop {
            let now = clock::now();
            let over = self.tick(ledger, now);
            if over && self.ended.get() == lanes {
                return Ok(());
            }
            if now >= next_sweep {
                next_sweep = now + every;
                self.sweep(now, over);
            }
            let send = self.wake_due(now);
            match spin.pause(now, send) {
                // Polls the descriptors before it comes back.
                Pause::Poll => yield_now().await,
                Pause::Until(wake) => {
                    let edge = ledger.borrow().edge(now);
                    self.sleep(wake.min(edge).min(next_sweep)).await?;
                }
            }
        }
    }

    /// Whether the window is over.
    fn tick(&self, ledger: &RefCell<Ledger>, now: u64) -> bool {
        let mut ledger = ledger.borrow_mut();
        ledger.tick(now);
        now >= ledger.window.to
    }

    /// Wakes the lanes whose time has come; gives the time of the next one.
    fn wake_due(&self, now: u64) -> u64 {
        let mut due = self.due.borrow_mut();
        let seats = self.seats.borrow();
        while let Some(&Reverse((instant, lane))) = due.peek() {
            if instant > now {
                return instant;
            }
            due.pop();
            seats[lane].wake();
        }
        u64::MAX
    }

    /// Ends what has taken too long; once the window is over, all that wait look again, since a
    /// stop moves its end.
    fn sweep(&self, now: u64, over: bool) {
        for seat in self.seats.borrow_mut().iter_mut() {
            if seat.deadline != 0 && now > seat.deadline {
                seat.expired = true;
                seat.wake();
            }
        }
        if over {
            let seats = self.seats.borrow();
            for Reverse((_, lane)) in self.due.borrow_mut().drain() {
                seats[lane].wake();
            }
        }
    }

    fn nudge(&self) {
        self.nudged.set(true);
        if let Some(sleeper) = self.sleeper.borrow().as_ref() {
            sleeper.wake_by_ref();
        }
    }

    async fn sleep(&self, until: u64) -> Result<(), Error> {
        self.timer.borrow_mut().get_mut().arm(until)?;
        poll_fn(|ctx| {
            if self.nudged.take() {
                return Poll::Ready(Ok(()));
            }
            *self.sleeper.borrow_mut() = Some(ctx.waker().clone());
            let mut timer = self.timer.borrow_mut();
            match timer.poll_read_ready_mut(ctx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(mut ready)) => {
                    ready.clear_ready();
                    ready.get_inner_mut().has_fired();
                    Poll::Ready(Ok(()))
                }
                Poll::Ready(Err(source)) => Poll::Ready(Err(Error::System {
                    doing: "wait for a timer",
                    source,
                })),
            }
        })
        .await
    }
}
