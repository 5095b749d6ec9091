//! A well-behaved sidecar, which is told of one change after the other whatever others do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::sidecar::{Sidecar, connect, enrol, member};
use crate::world::{STATUS, World};

/// Of the one resource that changes.
const ENDPOINTS: &str = "outbound|80|hello.default.svc.cluster.local";

/// A sidecar at work.
pub(super) struct Witness {
    served: Arc<AtomicU64>,
    closing: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Witness {
    /// Enrols, connects, and makes the first change.
    pub(super) async fn start(world: &Arc<World>) -> Self {
        let credentials = enrol(world, "curl").await;
        let channel = connect(world, member(&credentials)).await;
        let mut sidecar = Sidecar::new("curl");
        sidecar.connect(&channel).await.unwrap();
        let (closing, closed) = watch::channel(false);
        let served = Arc::new(AtomicU64::new(0));
        let (world, count) = (Arc::clone(world), Arc::clone(&served));
        let task = tokio::spawn(async move {
            while !*closed.borrow() {
                change(&world, &mut sidecar, count.load(Ordering::Relaxed)).await;
                count.fetch_add(1, Ordering::Relaxed);
            }
            // And who comes anew is served as well.
            let hello = enrol(&world, "hello").await;
            let channel = connect(&world, member(&hello)).await;
            Sidecar::new("hello").connect(&channel).await.unwrap();
        });
        Self {
            served,
            closing,
            task,
        }
    }

    /// Changes that it was told of so far.
    pub(super) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// Waits until it is told of one more.
    pub(super) async fn wait(&self) {
        let before = self.served();
        while self.served() == before {
            assert!(!self.task.is_finished(), "it was cut off");
            tokio::task::yield_now().await;
        }
    }

    /// Ends it; another one is served before.
    pub(super) async fn end(self) {
        self.closing.send_replace(true);
        self.task.await.unwrap();
    }
}

/// Moves the workload `hello`, and waits until that is known.
async fn change(world: &World, sidecar: &mut Sidecar, number: u64) {
    let address = format!("10.77.1.{}", number % 250 + 1);
    sidecar.told.clear();
    world.write("status.yaml", &STATUS.replace("10.77.0.2", &address));
    while !sidecar.told.iter().any(|name| name == ENDPOINTS) {
        sidecar.step().await.unwrap();
    }
}
