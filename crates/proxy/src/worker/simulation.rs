//! A worker without threads and listeners for the simulations of the pump and the pool: they run
//! its reactor themselves, and turn it a bounded number of times. For tests only.

use super::{Mailbox, Message, Plan, Reactor, Registry, Seat, Snapshot, Worker};
use crate::config;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::task::Poll;

/// What chance decides, the same for the same seed.
pub(crate) struct Dice(Cell<u64>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Rc<Self> {
        let dice = Self(Cell::new(
            (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        ));
        dice.below(2);
        Rc::new(dice)
    }

    /// A number from 0 to `bound - 1`.
    pub(crate) fn below(&self, bound: usize) -> usize {
        (crate::random::next(&self.0) >> 20) as usize % bound
    }

    pub(crate) fn one_in(&self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub(crate) fn pick<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Lets the others run for some turns, often none.
    pub(crate) async fn pause(&self, reactor: &Reactor) {
        for _ in 0..self.pick(&[0, 0, 0, 1, 2, 7]) {
            reactor.yield_now().await;
        }
    }
}

/// A view of the mesh from a configuration's text.
pub(crate) fn snapshot(text: &str, previous: Option<&Snapshot>) -> Arc<Snapshot> {
    let config = config::parse(text, Path::new("")).unwrap();
    Arc::new(Snapshot::build(Arc::new(config), None, previous).unwrap())
}

/// A worker on a reactor of its own that sees `snapshot`.
pub(crate) fn worker(snapshot: &Arc<Snapshot>, registry: &Arc<Registry>) -> Rc<Worker> {
    let (sender, mailbox) = Mailbox::<Message>::detached().unwrap();
    let seat = Seat {
        sender,
        connections: AtomicU32::new(0),
        generation: AtomicU64::new(0),
    };
    let plan = Plan {
        wants: tokio::sync::mpsc::unbounded_channel().0,
        id: 0,
        mailbox,
        seats: Arc::new(vec![seat]),
        snapshot: Arc::clone(snapshot),
        registry: Arc::clone(registry),
        access_log: None,
    };
    let (worker, _) = Worker::new(plan, &Reactor::new().unwrap()).unwrap();
    let cleaned = Rc::clone(&worker);
    let janitor = worker.reactor.spawn(async move {
        let mut janitor = pin!(super::look_after_idle(Rc::clone(&cleaned)));
        poll_fn(|context| match cleaned.is_ending() {
            true => Poll::Ready(()),
            false => janitor.as_mut().poll(context),
        })
        .await;
    });
    worker.janitor.set(Some(janitor));
    worker
}

/// As a reload does.
pub(crate) fn apply(worker: &Worker, snapshot: &Arc<Snapshot>) {
    worker.apply(Arc::clone(snapshot));
}

/// Ends what looks for [`Worker::is_ending`], and waits until no task is left but the running one
/// and the one that counts turns.
pub(crate) async fn end(worker: &Worker) {
    worker.ending.set(true);
    worker.reactor.wake_all();
    while worker.reactor.tasks() > 2 {
        worker.reactor.yield_now().await;
    }
}

/// Runs `main` and everything it started, at most so many turns of the reactor; says whether main
/// came to its end. Nobody waits for the kernel: what does not go on in so many turns never will.
pub(crate) fn run(
    reactor: &Rc<Reactor>,
    turns_max: u32,
    main: impl Future<Output = ()> + 'static,
) -> bool {
    let done = Rc::new(Cell::new(false));
    let (watched, watching) = (Rc::clone(&done), Rc::clone(reactor));
    reactor.spawn(async move {
        for _ in 0..turns_max {
            if watched.get() {
                break;
            }
            watching.yield_now().await;
        }
        watching.stop();
    });
    let ended = Rc::clone(&done);
    reactor.spawn(async move {
        main.await;
        ended.set(true);
    });
    reactor.run().unwrap();
    assert_eq!(reactor.panics(), 0, "a task panicked; its message is above");
    done.get()
}
