//! How often one workload may ask for a certificate. Counts proven workloads only, so that nobody
//! can use up another's share, and so that its size is bounded by the mesh's.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::kinds::WorkloadKey;

/// Certificates that a workload may ask for at once: a sidecar that restarts in a loop asks each
/// time.
const BURST: u32 = 10;
/// Then one in this time.
const INTERVAL: Duration = Duration::from_secs(60);

/// Who has asked lately.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// When the workload's share is whole again.
    whole_at: BTreeMap<WorkloadKey, SystemTime>,
}

impl Rate {
    /// Takes one from the workload's share; or says how long to wait.
    pub(super) fn take(&mut self, workload: &WorkloadKey, now: SystemTime) -> Result<(), Duration> {
        let whole_at = self.whole_at.get(workload).copied().unwrap_or(now);
        // A clock that was ahead must not keep anybody waiting until then.
        let whole_at = whole_at.clamp(now, now + INTERVAL * BURST);
        let owed = whole_at.duration_since(now).unwrap_or_default();
        if let Some(wait) = (owed + INTERVAL).checked_sub(INTERVAL * BURST)
            && !wait.is_zero()
        {
            self.whole_at.insert(workload.clone(), whole_at);
            return Err(wait);
        }
        self.whole_at.insert(workload.clone(), whole_at + INTERVAL);
        Ok(())
    }

    /// Forgets those whose share is whole.
    pub(super) fn sweep(&mut self, now: SystemTime) {
        self.whole_at.retain(|_, whole_at| *whole_at > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workload_that_asks_in_a_loop_waits_and_others_do_not() {
        let (mut rate, now) = (Rate::default(), SystemTime::UNIX_EPOCH + INTERVAL);
        let [one, other] = ["one", "other"].map(|name| WorkloadKey::new("default", name));
        for _ in 0..BURST {
            rate.take(&one, now).unwrap();
        }
        assert_eq!(rate.take(&one, now), Err(INTERVAL));
        rate.take(&other, now).unwrap();
        let later = now + INTERVAL / 2;
        assert_eq!(rate.take(&one, later), Err(INTERVAL / 2));
        rate.take(&one, now + INTERVAL).unwrap();
        assert_eq!(rate.take(&one, now + INTERVAL), Err(INTERVAL));
        rate.sweep(now + INTERVAL * (BURST + 1));
        assert!(rate.whole_at.is_empty());
        rate.take(&one, now + INTERVAL * 1_000_000).unwrap();
        assert_eq!(rate.take(&one, now), Err(INTERVAL));
        rate.take(&one, now + INTERVAL).unwrap();
    }
}
