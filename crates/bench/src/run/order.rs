//! In which order repeats are taken: every round holds each cell once, shuffled anew, so that
//! drift of the machine hits all cells alike and an interrupted run is balanced. Pure.

use crate::results::{CellKey, random::SplitMix};

/// One repeat to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) key: CellKey,
    pub(crate) index: u32,
}

/// All repeats in the order that `seed` gives.
pub(super) fn jobs(keys: &[CellKey], repeats: u32, seed: u64) -> Vec<Job> {
    let mut random = SplitMix::new(seed);
    let mut jobs = Vec::with_capacity(keys.len() * repeats as usize);
    for index in 0..repeats {
        let mut round: Vec<Job> = keys
            .iter()
            .map(|key| Job {
                key: key.clone(),
                index,
            })
            .collect();
        // Fisher and Yates.
        for last in (1..round.len()).rev() {
            round.swap(last, random.below(last + 1));
        }
        jobs.extend(round);
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn a_seed_gives_one_order_and_each_round_every_cell() {
        let keys = sample::run().settings.keys();
        let order = jobs(&keys, 3, 7);
        assert_eq!(order, jobs(&keys, 3, 7));
        assert_ne!(order, jobs(&keys, 3, 8));
        for (round, index) in order.chunks(keys.len()).zip(0..) {
            assert!(round.iter().all(|job| job.index == index));
            assert!(
                keys.iter()
                    .all(|key| round.iter().any(|job| job.key == *key))
            );
        }
    }
}
