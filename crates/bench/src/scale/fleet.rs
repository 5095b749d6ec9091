//! All simulated sidecars: a few threads with many each. Started and ordered about by `measure`;
//! gone when it is dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::facts::Facts;
use super::ledger::Ledger;
use super::mesh::{self, Shape};
use super::plane::Address;
use super::sidecar::{Order, Sidecar, World};
use crate::process::usable_cpus;

/// Threads that sidecars are spread over: what is measured has one, and is not to wait for them.
const THREADS_MAX: usize = 4;
/// Certificates that are asked for at once.
const ENROLLING_MAX: usize = 32;

/// The simulated sidecars.
pub(super) struct Fleet {
    pub(super) ledger: Arc<Ledger>,
    orders: Vec<mpsc::UnboundedSender<Order>>,
    go: watch::Sender<bool>,
    threads: Vec<Thread>,
}

struct Thread {
    /// Dropped to end it.
    end: Option<oneshot::Sender<()>>,
    handle: Option<JoinHandle<()>>,
}

impl Fleet {
    /// Has the sidecars of `shape` begin, each with a token; they enrol and wait for
    /// [`Self::connect`].
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn start(
        shape: &Shape,
        plane: Address,
        tokens: Vec<String>,
    ) -> anyhow::Result<Self> {
        let ledger = Arc::new(Ledger::default());
        let world = Arc::new(World {
            plane: plane.xds,
            root: plane.root,
            ledger: Arc::clone(&ledger),
            facts: Facts::default(),
            enrolling: Semaphore::new(ENROLLING_MAX),
        });
        let (go, going) = watch::channel(false);
        let count = usable_cpus().len().clamp(1, THREADS_MAX);
        let mut crews: Vec<Vec<Sidecar>> = (0..count).map(|_| Vec::new()).collect();
        let mut senders = Vec::new();
        for (number, token) in tokens.into_iter().enumerate() {
            let instance = shape.instance(number);
            let (sender, orders) = mpsc::unbounded_channel();
            senders.push(sender);
            crews[number % count].push(Sidecar {
                number,
                name: mesh::instance_name(shape, instance),
                account: mesh::workload_name(shape.workload_of(instance)),
                token,
                orders,
                world: Arc::clone(&world),
                go: going.clone(),
            });
        }
        let threads = crews.into_iter().map(|crew| Thread::start(crew, &world));
        Ok(Self {
            ledger,
            orders: senders,
            go,
            threads: threads.collect::<anyhow::Result<_>>()?,
        })
    }

    /// Has all of them connect, at once.
    pub(super) fn connect(&self) {
        self.go.send_replace(true);
    }

    /// Has connections come to the sidecar of that number that lead to `services`.
    pub(super) fn use_services(&self, sidecar: usize, services: Vec<usize>) {
        // One that is gone is missed elsewhere.
        let _ = self.orders[sidecar].send(Order::Use(services));
    }

    /// How many have all that they want.
    pub(super) fn served(&self) -> usize {
        self.ledger.served.load(Ordering::Acquire)
    }
}

impl Thread {
    fn start(crew: Vec<Sidecar>, world: &Arc<World>) -> anyhow::Result<Self> {
        let (end, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let ledger = Arc::clone(&world.ledger);
        let handle = std::thread::Builder::new()
            .name("sidecars".to_owned())
            .spawn(move || runtime.block_on(run(crew, &ledger, ended)))?;
        Ok(Self {
            end: Some(end),
            handle: Some(handle),
        })
    }
}

async fn run(crew: Vec<Sidecar>, ledger: &Ledger, ended: oneshot::Receiver<()>) {
    let mut tasks: JoinSet<anyhow::Result<()>> = crew.into_iter().map(Sidecar::run).collect();
    let watch = async {
        while let Some(done) = tasks.join_next().await {
            match done {
                Ok(Ok(())) => {}
                Ok(Err(why)) => ledger.note_end(&why),
                Err(panic) => ledger.note_end(&panic.into()),
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = watch => {}
        // Dropped, which is how it ends.
        _ = ended => {}
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.threads
            .iter_mut()
            .for_each(|thread| drop(thread.end.take()));
        for thread in &mut self.threads {
            // A thread that has panicked has said so already.
            let _ = thread.handle.take().map(JoinHandle::join);
        }
    }
}
