//! The generating thread for protocols with streams: HTTP/2 and gRPC. Each stream of each
//! connection is a lane, a task of its own that is free or has one request in flight, and each
//! connection has a keeper. Frames are the `h2` crate's, so that they share no mistake with what
//! is measured; everything that is counted is counted by the same ledger as in `worker`.

mod exchange;
mod lane;
mod line;
mod pace;
pub(crate) mod request;

use crate::{
    Error,
    ledger::{Ledger, Live, Window},
    schedule::Schedule,
    setup::Setup,
    tally::Tally,
    worker::CONNECTS,
};
use lane::Lane;
use line::{Dialled, Line, Refusal};
use pace::Pace;
use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};
use tokio::{
    runtime::{Builder, LocalOptions, LocalRuntime},
    task::{JoinHandle, spawn_local},
};

/// How long connections get to say goodbye after the last answer.
const GOODBYE: Duration = Duration::from_millis(200);

/// What the lanes and keepers of one thread share.
pub(crate) struct Thread {
    setup: Arc<Setup>,
    ledger: RefCell<Ledger>,
    pace: Pace,
}

/// One generating thread, its connections made.
pub(crate) struct Worker {
    runtime: LocalRuntime,
    thread: Rc<Thread>,
    lines: Vec<Rc<Line>>,
    keepers: Vec<JoinHandle<()>>,
    lanes: Vec<Lane>,
}

impl Worker {
    /// Makes every connection, before the run; `schedules` are by connection and stream.
    pub(crate) fn establish(
        setup: &Arc<Setup>,
        live: Arc<Live>,
        schedules: Vec<Vec<Option<Schedule>>>,
    ) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .map_err(|source| Error::System {
                doing: "start a runtime",
                source,
            })?;
        let (thread, dialled) = runtime.block_on(async {
            let thread = Rc::new(Thread {
                pace: Pace::new(schedules.iter().map(Vec::len).sum(), setup.timeout)?,
                ledger: RefCell::new(Ledger::new(Arc::clone(setup), live)),
                setup: Arc::clone(setup),
            });
            dial_all(setup, schedules.len())
                .await
                .map(|dialled| (thread, dialled))
        })?;
        let mut worker = Self {
            runtime,
            thread,
            lines: Vec::new(),
            keepers: Vec::new(),
            lanes: Vec::new(),
        };
        for (dialled, schedules) in dialled.into_iter().zip(schedules) {
            worker.add(dialled, schedules);
        }
        Ok(worker)
    }

    fn add(&mut self, dialled: Dialled, schedules: Vec<Option<Schedule>>) {
        let (line, connection) = Line::new(dialled);
        let line = Rc::new(line);
        let keeper = line::keep(Rc::clone(&self.thread), Rc::clone(&line), connection);
        self.keepers.push(self.runtime.spawn_local(keeper));
        for schedule in schedules {
            let (thread, line) = (Rc::clone(&self.thread), Rc::clone(&line));
            let number = self.lanes.len();
            self.lanes.push(Lane::new(number, thread, line, schedule));
        }
        self.lines.push(line);
    }

    /// The whole run, warm-up to last answer.
    pub(crate) fn run(self, window: Window) -> Result<Tally, Error> {
        let Self {
            runtime,
            thread,
            lines,
            keepers,
            lanes,
        } = self;
        thread.ledger.borrow_mut().begin(window);
        runtime.block_on(async {
            let lanes: Vec<_> = lanes
                .into_iter()
                .map(|lane| spawn_local(lane.run()))
                .collect();
            thread.pace.drive(&thread.ledger, lanes.len()).await?;
            let mut schedules = Vec::with_capacity(lanes.len());
            for lane in lanes {
                schedules.push(lane.await.expect("a lane panicked"));
            }
            let schedules = schedules.iter().map(Option::as_ref);
            let tally = thread.ledger.borrow_mut().close(schedules);
            say_goodbye(&lines, keepers).await;
            Ok(tally)
        })
    }
}

/// Dials `count` connections, a bounded number at a time.
async fn dial_all(setup: &Arc<Setup>, count: usize) -> Result<Vec<Dialled>, Error> {
    let mut dialled = Vec::with_capacity(count);
    while dialled.len() < count {
        let batch = CONNECTS.min(count - dialled.len());
        let dial = |_| {
            let setup = Arc::clone(setup);
            spawn_local(async move { line::dial(&setup).await })
        };
        let batch: Vec<_> = (0..batch).map(dial).collect();
        for dial in batch {
            let done = dial.await.expect("dialling panicked");
            dialled.push(done.map_err(|Refusal { reason, .. }| Error::Connect {
                address: setup.address,
                reason,
            })?);
        }
    }
    Ok(dialled)
}

/// Lets the connections close in the protocol's way, if they do so soon.
async fn say_goodbye(lines: &[Rc<Line>], keepers: Vec<JoinHandle<()>>) {
    for line in lines {
        line.close();
    }
    let all = async {
        for keeper in keepers {
            // One that panicked has said so on standard error.
            let _ = keeper.await;
        }
    };
    // What takes longer is cut off with the runtime.
    let _ = tokio::time::timeout(GOODBYE, all).await;
}
