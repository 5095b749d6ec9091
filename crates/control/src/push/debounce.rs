//! When a change goes out: at once after a quiet time, otherwise when it has become quiet again, or
//! when it has waited long enough. Pure; asked by `app` with its clock.

use std::time::{Duration, Instant};

/// Without a change for so long, it is quiet. Writers of several files need less from one to the
/// next.
const QUIET: Duration = Duration::from_millis(10);
/// A change goes out after so long, whatever else happens: what people call at once.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// After a push it rests for so many times what the push took: streams have to send what it was
/// about. Without that, changes that come faster than they can be read would hold up all of them.
const REST: u32 = 3;

/// Changes that have not gone out, and the last ones that have.
#[derive(Debug, Default)]
pub struct Debounce {
    /// The first and the last change that wait.
    waiting: Option<(Instant, Instant)>,
    /// When the last change went out.
    pushed_at: Option<Instant>,
    /// Until when it rests.
    rests_until: Option<Instant>,
}

impl Debounce {
    /// Something has changed.
    pub fn on_change(&mut self, now: Instant) {
        let first = self.waiting.map_or(now, |(first, _)| first);
        self.waiting = Some((first, now));
    }

    /// When to push; `None` while nothing waits.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let (first, last) = self.waiting?;
        let due = match self.pushed_at {
            Some(pushed_at) if first < pushed_at + QUIET => (last + QUIET).min(first + WAIT_MAX),
            _ => first,
        };
        Some(self.rests_until.map_or(due, |rested| due.max(rested)))
    }

    /// Everything that waited is going out. The first change of it, for the measure.
    pub fn on_push(&mut self, now: Instant) -> Option<Instant> {
        self.pushed_at = Some(now);
        self.waiting.take().map(|(first, _)| first)
    }

    /// It has gone out, and streams know.
    pub fn on_pushed(&mut self, now: Instant) {
        let began = self.pushed_at.unwrap_or(now);
        self.rests_until = Some(now + now.saturating_duration_since(began) * REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When pushes happen, in milliseconds, if changes happen at `changes`.
    fn pushes(changes: &[u64]) -> Vec<u64> {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut debounce = Debounce::default();
        let mut pushes = Vec::new();
        let mut push = |debounce: &mut Debounce, before: Option<Instant>| {
            let due = debounce
                .due()
                .filter(|due| before.is_none_or(|before| *due < before));
            if let Some(due) = due {
                debounce.on_push(due);
                pushes.push(u64::try_from((due - start).as_millis()).unwrap());
            }
        };
        for change in changes {
            push(&mut debounce, Some(at(*change)));
            debounce.on_change(at(*change));
        }
        push(&mut debounce, None);
        assert_eq!(debounce.due(), None);
        pushes
    }

    #[test]
    fn the_first_change_goes_out_at_once_and_a_burst_as_one_more() {
        assert_eq!(pushes(&[5]), [5]);
        assert_eq!(pushes(&[5, 1000]), [5, 1000]);
        assert_eq!(pushes(&[5, 6, 7, 8]), [5, 18]);
        assert_eq!(pushes(&[5, 14, 40]), [5, 24, 40]);
    }

    #[test]
    fn pushes_that_take_long_leave_most_of_the_time_to_streams() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut debounce = Debounce::default();
        debounce.on_change(at(0));
        assert_eq!(debounce.on_push(at(0)), Some(at(0)));
        debounce.on_change(at(10));
        debounce.on_pushed(at(50));
        debounce.on_change(at(60));
        assert_eq!(debounce.due(), Some(at(200)));
        assert_eq!(debounce.on_push(at(200)), Some(at(10)));
        debounce.on_pushed(at(201));
        debounce.on_change(at(400));
        assert_eq!(debounce.due(), Some(at(400)), "at once when it has rested");
    }

    #[test]
    fn churn_does_not_hold_back_for_ever() {
        let changes: Vec<u64> = (0..60).map(|number| number * 5).collect();
        assert_eq!(pushes(&changes), [0, 105, 210, 305]);
    }
}
