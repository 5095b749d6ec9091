//! One run from plan to outcome: prepares, starts the threads together, tells the caller which
//! phase it is, merges what they found. The caller's thread generates nothing.

use crate::{
    Error, Outcome, Plan, Rate, clock,
    connection::Connection,
    http2,
    ledger::{Live, Window},
    schedule::Schedule,
    setup::Setup,
    tally::Tally,
    worker::Worker,
};
use rustix::thread::{ClockId, CpuSet, clock_nanosleep_absolute, sched_setaffinity};
use std::{
    sync::{
        Arc,
        atomic::Ordering::Relaxed,
        mpsc::{self, Receiver, SyncSender},
    },
    thread::{Builder, JoinHandle},
    time::{Duration, SystemTime},
};

/// Between the last connection made and the first request: time for every thread to be waiting.
const LEAD: u64 = 5 * clock::MILLISECOND;
const PROGRESS_EVERY: u64 = 200 * clock::MILLISECOND;

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Connections are being made.
    Connecting,
    /// Load flows, nothing is recorded.
    WarmUp,
    /// The measured window.
    Measuring,
    /// The window is over; the last answers are waited for.
    Draining,
    /// Every thread has stopped.
    Done,
}

/// What the caller of [`run`] is told: at once when a phase begins, and several times a second.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Where the run is. `Measuring` and `Draining` are first told as the window begins and ends.
    pub phase: Phase,
    /// Since the first request, warm-up included.
    pub elapsed: Duration,
    /// Warm-up and measured window together.
    pub total: Duration,
    /// Answers so far, warm-up included.
    pub answers: u64,
    /// Failures so far, warm-up included.
    pub failures: u64,
}

/// Runs the plan. `progress` is called on this thread.
///
/// # Errors
/// Where no run could begin: a plan that makes no sense, a target without address, a connection
/// that could not be made. Failures of single requests are counted in the outcome.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&Progress)) -> Result<Outcome, Error> {
    plan.check()?;
    crate::limit::raise_descriptors();
    let setup = Arc::new(Setup::build(plan)?);
    let teller = Teller {
        progress,
        plan,
        setup: &setup,
        crew: Crew::start(plan, &setup)?,
    };
    let (window, started, tallies) = teller.tell()?;
    Ok(Outcome::merge(
        plan,
        setup.address,
        (window, started),
        &tallies,
    ))
}

/// The generating threads.
struct Crew {
    members: Vec<Member>,
    ready: Receiver<Result<(), Error>>,
}

struct Member {
    live: Arc<Live>,
    go: SyncSender<Window>,
    thread: JoinHandle<Result<Tally, Error>>,
}

impl Crew {
    fn start(plan: &Plan, setup: &Arc<Setup>) -> Result<Self, Error> {
        let threads = plan.threads.min(plan.connections as usize);
        let (report, ready) = mpsc::sync_channel(threads);
        let mut members = Vec::with_capacity(threads);
        for number in 0..threads {
            members.push(Member::start(
                plan,
                setup,
                (number, threads),
                report.clone(),
            )?);
        }
        Ok(Self { members, ready })
    }

    /// Waits until every thread has its connections.
    fn wait(&self) -> Result<(), Error> {
        for _ in &self.members {
            self.ready
                .recv()
                .expect("every thread reports before it ends")?;
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        let mut members = self.members.iter();
        members.all(|member| member.thread.is_finished())
    }

    fn count(&self) -> (u64, u64) {
        self.members
            .iter()
            .fold((0, 0), |(answers, failures), Member { live, .. }| {
                (
                    answers + live.answers.load(Relaxed),
                    failures + live.failures.load(Relaxed),
                )
            })
    }

    fn join(self) -> Result<Vec<Tally>, Error> {
        let join = |member: Member| member.thread.join().expect("a generating thread panicked");
        self.members.into_iter().map(join).collect()
    }
}

impl Member {
    fn start(
        plan: &Plan,
        setup: &Arc<Setup>,
        (number, threads): (usize, usize),
        ready: SyncSender<Result<(), Error>>,
    ) -> Result<Self, Error> {
        let live = Arc::new(Live::default());
        let (go, gone) = mpsc::sync_channel(1);
        let (setup, counts) = (Arc::clone(setup), Arc::clone(&live));
        let schedules = schedules(plan, number, threads);
        let cpu = plan.cpus.get(number % plan.cpus.len().max(1)).copied();
        let work = move || {
            let prepared = pin(cpu).and_then(|()| Engine::establish(setup, counts, schedules));
            let engine = match prepared {
                Ok(engine) => engine,
                Err(error) => {
                    // Nobody listens if another thread has failed before.
                    let _ = ready.send(Err(error));
                    return Ok(Tally::new());
                }
            };
            let _ = ready.send(Ok(()));
            // No window comes if another thread could not connect.
            gone.recv()
                .map_or_else(|_| Ok(Tally::new()), |window| engine.run(window))
        };
        let builder = Builder::new().name(format!("load-{number}"));
        let thread = builder.spawn(work).map_err(|source| Error::System {
            doing: "start a thread",
            source,
        })?;
        Ok(Self { live, go, thread })
    }
}

/// What makes the requests of one thread.
enum Engine {
    /// One request at a time on each connection.
    Connections(Box<Worker>),
    Streams(http2::Worker),
}

impl Engine {
    /// Makes every connection of the thread.
    fn establish(
        setup: Arc<Setup>,
        live: Arc<Live>,
        schedules: Vec<Vec<Option<Schedule>>>,
    ) -> Result<Self, Error> {
        if setup.protocol.has_streams() {
            return http2::Worker::establish(&setup, live, schedules).map(Self::Streams);
        }
        let protocol = setup.protocol;
        let connections = schedules.into_iter().flatten();
        let connections = connections.map(|schedule| Connection::new(protocol, schedule));
        let mut worker = Worker::new(setup, live, connections.collect())?;
        worker.establish()?;
        Ok(Self::Connections(Box::new(worker)))
    }

    fn run(self, window: Window) -> Result<Tally, Error> {
        match self {
            Self::Connections(worker) => worker.run(window),
            Self::Streams(worker) => worker.run(window),
        }
    }
}

/// The schedules of thread `number`, by connection and stream: of every `threads`-th connection,
/// so that phases interleave.
fn schedules(plan: &Plan, number: usize, threads: usize) -> Vec<Vec<Option<Schedule>>> {
    let total = plan.connections * plan.streams;
    let schedule = |connection: u32, stream: u32| match plan.rate {
        Rate::PerSecond(rate) => {
            // Neighbours in time are on different connections.
            let place = (connection + plan.connections * stream, total);
            Some(Schedule::new(plan.arrivals, rate, place, plan.seed))
        }
        Rate::Max => None,
    };
    let streams = |connection| {
        let streams = 0..plan.streams;
        streams.map(|stream| schedule(connection, stream)).collect()
    };
    let mine = (0..plan.connections).skip(number).step_by(threads);
    mine.map(streams).collect()
}

/// Pins the calling thread; none leaves it where it is.
pub(crate) fn pin(cpu: Option<usize>) -> Result<(), Error> {
    let Some(cpu) = cpu else { return Ok(()) };
    if cpu >= CpuSet::MAX_CPU {
        return Err(Error::Plan(format!("there is no CPU {cpu}")));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
        .map_err(|errno| Error::Plan(format!("cannot run on CPU {cpu}: {errno}; see nproc")))
}

/// Leads the caller through the phases.
struct Teller<'a> {
    progress: &'a mut dyn FnMut(&Progress),
    plan: &'a Plan,
    setup: &'a Setup,
    crew: Crew,
}

impl Teller<'_> {
    fn tell(mut self) -> Result<(Window, SystemTime, Vec<Tally>), Error> {
        self.say(Phase::Connecting, 0);
        self.crew.wait()?;
        let start = clock::now() + LEAD;
        let from = start + clock::duration(self.plan.warm_up);
        let to = from + clock::duration(self.plan.duration);
        for member in &self.crew.members {
            // A thread that has gone is found when it is joined.
            let _ = member.go.send(Window { start, from, to });
        }
        if start < from {
            sleep_until(start);
            self.pass(Phase::WarmUp, start, from);
        }
        sleep_until(from.min(self.end()));
        let started = SystemTime::now();
        self.pass(Phase::Measuring, start, to);
        let to = to.min(self.end());
        self.say(Phase::Draining, to.saturating_sub(start));
        while !self.crew.is_finished() {
            sleep_until(clock::now() + clock::MILLISECOND);
        }
        self.say(Phase::Done, clock::now() - start);
        let tallies = self.crew.join()?;
        if to <= from {
            return Err(Error::Stopped);
        }
        Ok((Window { start, from, to }, started, tallies))
    }

    /// Tells of a phase at once and now and then, until `end` or until the run is stopped.
    fn pass(&mut self, phase: Phase, start: u64, end: u64) {
        let mut now = clock::now();
        while now < end.min(self.end()) {
            self.say(phase, now.saturating_sub(start));
            sleep_until((clock::now() + PROGRESS_EVERY).min(end));
            now = clock::now();
            if self.is_stopped() {
                self.setup.end.fetch_min(now, Relaxed);
            }
        }
    }

    fn is_stopped(&self) -> bool {
        let stop = self.plan.stop.as_ref();
        stop.is_some_and(|stop| stop.load(Relaxed))
    }

    /// Where a stop has put the end of the window; `u64::MAX` without one.
    fn end(&self) -> u64 {
        self.setup.end.load(Relaxed)
    }

    fn say(&mut self, phase: Phase, elapsed: u64) {
        let (answers, failures) = self.crew.count();
        (self.progress)(&Progress {
            phase,
            elapsed: Duration::from_nanos(elapsed),
            total: self.plan.warm_up + self.plan.duration,
            answers,
            failures,
        });
    }
}

fn sleep_until(instant: u64) {
    // An early return by a signal makes one more turn of the caller's loop, or a phase told a
    // moment early; both are harmless.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &clock::timespec(instant));
}
