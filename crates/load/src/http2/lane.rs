//! One stream's worth of load on a connection: free, or with one request in flight, as a whole
//! connection is with HTTP/1. Spawned by `http2` on its thread's runtime.

use super::{
    Thread,
    exchange::{Answer, Broken, Call, ask},
    line::{Line, Share, State},
};
use crate::{GrpcMode, Protocol, clock, ledger::Turn, schedule::Schedule, tally::Failure};
use std::{future::poll_fn, rc::Rc};
use tokio::sync::watch;

pub(crate) struct Lane {
    number: usize,
    thread: Rc<Thread>,
    line: Rc<Line>,
    state: watch::Receiver<State>,
    share: Option<Share>,
    /// The call of a stream that stays open.
    call: Option<Call>,
    /// None in a closed loop.
    schedule: Option<Schedule>,
    /// When the lane last became free.
    since: u64,
}

/// What came of looking for a connection.
enum Attached {
    Ready,
    /// Some time has passed.
    LookAgain,
    /// A connect has failed.
    Refused(Failure),
    /// There will be no more connection.
    Over,
}

impl Lane {
    pub(crate) fn new(
        number: usize,
        thread: Rc<Thread>,
        line: Rc<Line>,
        schedule: Option<Schedule>,
    ) -> Self {
        let mut state = line.watch();
        state.mark_changed();
        Self {
            number,
            thread,
            line,
            state,
            share: None,
            call: None,
            schedule,
            since: 0,
        }
    }

    /// Sends what is due until nothing more will be; gives back what the schedule still held.
    pub(crate) async fn run(mut self) -> Option<Schedule> {
        self.begin().await;
        loop {
            let now = clock::now();
            let turn = self
                .thread
                .ledger
                .borrow()
                .turn(self.schedule.as_ref(), now);
            match turn {
                Turn::Never => break,
                Turn::At(instant) => self.thread.pace.until(self.number, instant).await,
                Turn::Now(intended) => match self.attach().await {
                    Attached::Ready => self.request(intended).await,
                    Attached::LookAgain => {}
                    Attached::Refused(failure) => self.fail_unsent(failure),
                    Attached::Over => break,
                },
            }
        }
        if let Some(call) = self.call.take() {
            let Self { thread, number, .. } = &self;
            thread
                .pace
                .within(*number, clock::now(), call.hang_up())
                .await;
        }
        self.thread.pace.end();
        self.schedule
    }

    /// Waits for the start of the run, with the call open that will carry it.
    async fn begin(&mut self) {
        let start = self.thread.ledger.borrow().window.start;
        self.since = start;
        if matches!(self.attach().await, Attached::Ready) {
            // What fails here fails again with the first request, and is counted there.
            let _ = self.open_call();
        }
        while clock::now() < start {
            self.thread.pace.until(self.number, start).await;
        }
    }

    /// Takes a share of the connection that is up and can carry another stream.
    async fn attach(&mut self) -> Attached {
        if self.state.has_changed().unwrap_or(false) {
            match &*self.state.borrow_and_update() {
                State::Up(share) => {
                    self.since = self.since.max(share.since);
                    self.share = Some(share.clone());
                    self.call = None;
                }
                State::Over => return Attached::Over,
                State::Refused(_) => self.share = None,
            }
        }
        if self.call.is_some() {
            return Attached::Ready;
        }
        if let Some(share) = &mut self.share {
            let ready = poll_fn(|ctx| share.sender.poll_ready(ctx));
            let waited = self.thread.pace.within(self.number, clock::now(), ready);
            match waited.await {
                Some(Ok(())) => return Attached::Ready,
                // The peer allows fewer streams than are asked for.
                None => return Attached::Refused(Failure::Timeout),
                // Nothing was sent on it: no request has failed.
                Some(Err(_)) => self.leave(),
            }
        }
        if self.state.changed().await.is_err() {
            return Attached::Over;
        }
        let attached = match &*self.state.borrow() {
            State::Refused(failure) => Attached::Refused(*failure),
            State::Over => Attached::Over,
            State::Up(_) => Attached::LookAgain,
        };
        if matches!(attached, Attached::LookAgain) {
            self.state.mark_changed();
        }
        attached
    }

    /// Has nothing more to do with the connection it had.
    fn leave(&mut self) {
        self.call = None;
        if let Some(share) = self.share.take() {
            self.line.retire(share.generation);
        }
    }

    async fn request(&mut self, intended: Option<u64>) {
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
        }
        let thread = Rc::clone(&self.thread);
        let mut request = thread.ledger.borrow_mut().sent(intended, self.since);
        let exchange = thread
            .pace
            .within(self.number, request.sent, self.exchange());
        let outcome = exchange.await;
        let now = clock::now();
        self.since = now;
        let mut ledger = thread.ledger.borrow_mut();
        match outcome {
            Some(Ok(Answer { status, received })) => {
                request.received = received;
                ledger.answered(&request, status, now);
                return;
            }
            Some(Err(Broken { failure, line_lost })) => {
                ledger.failed(failure, &request, now);
                if line_lost {
                    self.leave();
                }
            }
            // Letting go of it has reset the stream; the connection serves the others.
            None => ledger.failed(Failure::Timeout, &request, now),
        }
        // What it still may bring belongs to no request.
        self.call = None;
    }

    async fn exchange(&mut self) -> Result<Answer, Broken> {
        self.open_call()?;
        let setup = &self.thread.setup;
        if let Some(call) = &mut self.call {
            return call.ask(setup).await;
        }
        let share = self.share.as_mut().expect("attached before it asks");
        ask(&mut share.sender, setup).await
    }

    /// Opens the call of a stream, if the protocol has such and it is not open.
    fn open_call(&mut self) -> Result<(), Broken> {
        let setup = &self.thread.setup;
        if setup.protocol != Protocol::Grpc(GrpcMode::Stream) || self.call.is_some() {
            return Ok(());
        }
        let share = self.share.as_mut().expect("attached before it asks");
        self.call = Some(Call::open(&mut share.sender, setup)?);
        Ok(())
    }

    fn fail_unsent(&mut self, failure: Failure) {
        let mut ledger = self.thread.ledger.borrow_mut();
        ledger.unreachable(failure, self.schedule.as_mut(), clock::now());
    }
}
