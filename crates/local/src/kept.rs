//! A process that is started again when it ends, each time a little later. Used by the supervisor.

use std::process::Child;
use std::time::{Duration, Instant};

use crate::process::{Identity, ended};
use crate::state::Life;

/// The first wait; doubled with every end in a row.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(10);
/// What ran this long has not failed in a row.
const HELD: Duration = Duration::from_secs(60);

/// One process, or the wait for the next.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    child: Option<Child>,
    begun: Option<Instant>,
    /// Ends in a row.
    failures: u32,
    due: Option<Instant>,
}

impl Kept {
    /// `child` was started.
    pub(crate) fn begin(&mut self, child: Child, life: &mut Life, now: Instant) {
        let pid = i32::try_from(child.id()).ok();
        life.process = pid.and_then(Identity::of);
        self.child = Some(child);
        self.begun = Some(now);
        self.due = None;
    }

    /// The process, for waiting until it is ready.
    pub(crate) fn child(&mut self) -> Option<&mut Child> {
        self.child.as_mut()
    }

    /// Sees whether it has ended; how, when it has just done so.
    pub(crate) fn look(&mut self, life: &mut Life, now: Instant) -> Option<String> {
        let end = ended(self.child.as_mut()?)?;
        self.child = None;
        life.process = None;
        life.ended = Some(end.clone());
        self.put_off(now);
        Some(end)
    }

    /// It was started and is of no use: it ends, and the next try is later.
    pub(crate) fn give_up(&mut self, life: &mut Life, now: Instant) {
        if let Some(mut child) = self.child.take() {
            // One that has ended already cannot be killed, and has left its status.
            let _ = child.kill();
            let _ = child.wait();
        }
        life.process = None;
        self.put_off(now);
    }

    /// It could not be started, or has ended: the next try is later.
    pub(crate) fn put_off(&mut self, now: Instant) {
        let held = self
            .begun
            .is_some_and(|begun| now.duration_since(begun) >= HELD);
        self.failures = if held { 0 } else { self.failures };
        let wait = WAIT_MIN
            .saturating_mul(1 << self.failures.min(10))
            .min(WAIT_MAX);
        self.failures += 1;
        self.due = Some(now + wait);
    }

    /// When it is to be started again; none while it runs.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_longer_after_each_end_until_it_has_held() {
        let mut kept = Kept::default();
        let start = Instant::now();
        let mut wait = |now| {
            kept.put_off(now);
            kept.due().unwrap() - now
        };
        let waits: Vec<_> = (0..9).map(|_| wait(start).as_millis()).collect();
        assert_eq!(
            waits,
            [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
        );
        kept.begun = Some(start);
        kept.put_off(start + HELD);
        assert_eq!(kept.due(), Some(start + HELD + WAIT_MIN));
    }

    #[test]
    fn what_is_given_up_is_gone_and_is_due_again() {
        let child = std::process::Command::new("sleep").arg("600").spawn();
        let (mut kept, mut life, now) = (Kept::default(), Life::default(), Instant::now());
        kept.begin(child.unwrap(), &mut life, now);
        let process = life.process.unwrap();
        kept.give_up(&mut life, now);
        assert!(!process.is_alive() && kept.child().is_none());
        assert_eq!((life.process, kept.due()), (None, Some(now + WAIT_MIN)));
    }

    #[test]
    fn an_end_is_told_once() {
        let child = std::process::Command::new("true").spawn().unwrap();
        let (mut kept, mut life, now) = (Kept::default(), Life::default(), Instant::now());
        kept.begin(child, &mut life, now);
        let end = std::iter::repeat_with(|| kept.look(&mut life, now)).find_map(|end| end);
        assert_eq!(end.as_deref(), Some("exit status: 0"));
        assert_eq!((kept.look(&mut life, now), life.process), (None, None));
    }
}
