//! Waiting until the connected sidecars use everything up to a generation. Asked by the operator's
//! socket; woken by the sidecars' streams. Never waits for who is gone, or has said no.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::proxies::{Proxies, Proxy};
use crate::kinds::WorkloadKey;

/// How far a sidecar is from using everything up to some generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distance {
    /// It does, or is not connected any more.
    There,
    /// It may yet.
    Behind,
    /// It has refused something, and is told no more until that changes.
    Refusing,
}

impl Proxies {
    /// Waits until every sidecar that is connected now uses everything up to `generation`, or for
    /// `limit`; which of them do not, in order and each once.
    pub async fn settle(&self, generation: u64, limit: Duration) -> Vec<WorkloadKey> {
        let mut waiting = self.all();
        let mut refusing = Vec::new();
        // When time is up, those that wait are what is asked for.
        let _ = timeout(limit, self.wait(generation, &mut waiting, &mut refusing)).await;
        waiting.retain(|proxy| proxy.distance(generation) != Distance::There);
        refusing.retain(|proxy| proxy.distance(generation) != Distance::There);
        let behind = waiting.iter().chain(&refusing);
        let mut behind: Vec<_> = behind.map(|proxy| proxy.workload.clone()).collect();
        behind.sort();
        behind.dedup();
        behind
    }

    /// Until `waiting` is empty. Only its end is looked at, so that each sidecar's news cost little
    /// however many there are.
    async fn wait(
        &self,
        generation: u64,
        waiting: &mut Vec<Arc<Proxy>>,
        refusing: &mut Vec<Arc<Proxy>>,
    ) {
        loop {
            // Before the look, so that what comes after it is not missed.
            let moved = self.moved.notified();
            while let Some(last) = waiting.pop() {
                match last.distance(generation) {
                    Distance::There => {}
                    Distance::Refusing => refusing.push(last),
                    Distance::Behind => {
                        waiting.push(last);
                        break;
                    }
                }
            }
            if waiting.is_empty() {
                return;
            }
            moved.await;
        }
    }
}

impl Proxy {
    fn distance(&self, generation: u64) -> Distance {
        let state = self.state();
        match () {
            () if self.is_gone() || state.used >= generation => Distance::There,
            () if state.generation >= generation && state.is_settled => Distance::Refusing,
            () => Distance::Behind,
        }
    }
}
