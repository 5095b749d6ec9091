//! A slow and lossy link in user space, for kernels without netem: packets that come in wait here.
//! Called by `far`, once for each end. Only packets' numbers pass through this process, never
//! their bytes; a packet that is lost is lost for TCP as it is on a wire.

mod queue;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::process::on_core;
use super::rounds::Dice;
use queue::{Queue, Verdict};

/// Mean delay of a packet.
const DELAY: Duration = Duration::from_millis(10);
/// The delay is evenly spread up to this far on both sides of the mean, as netem does it.
const SPREAD: Duration = Duration::from_millis(2);
/// Of a hundred packets.
const LOST: u64 = 1;
/// How long it may take to see that the link shall end.
const PATIENCE: Duration = Duration::from_millis(20);

/// One direction of the link; dropped, it lets go of its packets.
pub(crate) struct Link {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    /// Holds up everything that comes in through `device` of the network that the calling thread
    /// is in, with a thread on `core`.
    ///
    /// # Errors
    /// When the kernel hands no packets out.
    pub(crate) fn lay(device: &str, core: Option<usize>, seed: u64) -> anyhow::Result<Self> {
        let queue = Queue::open(device)?;
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            // Without its core it still holds packets up.
            let _ = on_core(core, || Bench::new(queue, seed).run(&until));
        });
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where packets sit until it is time.
struct Bench {
    queue: Queue,
    dice: Dice,
    /// The next one to go is on top.
    waiting: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Bench {
    fn new(queue: Queue, seed: u64) -> Self {
        Self {
            queue,
            dice: Dice::new(seed),
            waiting: BinaryHeap::new(),
        }
    }

    fn run(&mut self, stop: &AtomicBool) {
        let mut arrived = Vec::new();
        while !stop.load(Relaxed) {
            let next = self.waiting.peek().map(|Reverse((due, _))| *due);
            let wait = next.map_or(PATIENCE, |due| {
                due.saturating_duration_since(Instant::now())
            });
            // A queue that fails ends the link: the run sees requests that time out.
            if self
                .queue
                .receive(wait.min(PATIENCE), &mut arrived)
                .is_err()
            {
                return;
            }
            let now = Instant::now();
            for packet in arrived.drain(..) {
                match fate(&mut self.dice) {
                    None => self.queue.judge(packet, Verdict::Lost),
                    Some(delay) => self.waiting.push(Reverse((now + delay, packet))),
                }
            }
            self.release(now);
        }
    }

    fn release(&mut self, now: Instant) {
        while let Some(Reverse((due, packet))) = self.waiting.peek().copied() {
            if due > now {
                return;
            }
            self.waiting.pop();
            self.queue.judge(packet, Verdict::Passes);
        }
    }
}

/// How long a packet waits; none if it is lost.
fn fate(dice: &mut Dice) -> Option<Duration> {
    if dice.below(100) < LOST {
        return None;
    }
    let range = u64::try_from((2 * SPREAD).as_micros()).expect("a few milliseconds");
    Some(DELAY - SPREAD + Duration::from_micros(dice.below(range)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_packet_in_a_hundred_is_lost_and_the_others_wait_within_the_spread() {
        let mut dice = Dice::new(7);
        let fates: Vec<Option<Duration>> = (0..100_000).map(|_| fate(&mut dice)).collect();
        let lost = fates.iter().filter(|fate| fate.is_none()).count();
        assert!((800..1200).contains(&lost), "{lost}");
        let within = |delay: &Duration| (DELAY - SPREAD..DELAY + SPREAD).contains(delay);
        assert!(fates.iter().flatten().all(within));
    }
}
