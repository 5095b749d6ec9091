//! Whether a closed loop had found its pace when its window opened: an application that is still
//! being compiled, or caches that still fill, show as more answers in the second half of the window
//! than in the first. Fed with the generator's progress, asked when a repeat is put together. Pure.

use std::time::Duration;

use load::{Phase, Progress};

use crate::units;

/// Smaller rises are a machine's moods, in parts of one.
const WORTH_A_FAULT: f64 = 0.2;

/// So many standard deviations of the two counts a rise must be beyond.
const SURELY: f64 = 3.0;

/// Answers at both ends and at the middle of a window.
#[derive(Debug, Default)]
pub(super) struct Pace {
    opened: Option<At>,
    middle: Option<At>,
    closed: Option<At>,
}

#[derive(Debug, Clone, Copy)]
struct At {
    elapsed: Duration,
    answers: u64,
}

impl Pace {
    /// Takes what the generator says of a window of this length.
    pub(super) fn meet(&mut self, progress: &Progress, length: Duration) {
        let now = At {
            elapsed: progress.elapsed,
            answers: progress.answers,
        };
        match (progress.phase, self.opened) {
            (Phase::Measuring, None) => self.opened = Some(now),
            (Phase::Measuring, Some(opened)) if now.elapsed >= opened.elapsed + length / 2 => {
                self.middle.get_or_insert(now);
            }
            (Phase::Draining, _) => {
                self.closed.get_or_insert(now);
            }
            _ => {}
        }
    }

    /// What is wrong with it, with what to do.
    pub(super) fn fault(&self) -> Option<String> {
        let (opened, middle, closed) = (self.opened?, self.middle?, self.closed?);
        let (first, second) = (opened.until(middle), middle.until(closed));
        let [(before, before_seconds), (after, after_seconds)] = [first, second];
        if before <= 0.0 || before_seconds <= 0.0 || after_seconds <= 0.0 {
            return None;
        }
        let expected = before * after_seconds / before_seconds;
        let rise = after / expected - 1.0;
        let is_sure = after - expected > SURELY * (after + expected).sqrt();
        (rise > WORTH_A_FAULT && is_sure).then(|| {
            format!(
                "still warming up: {:.0} % more answers in the second half of the window than in \
                 the first; use a longer --warmup",
                rise * 100.0
            )
        })
    }
}

impl At {
    /// Answers and seconds.
    fn until(self, later: Self) -> (f64, f64) {
        let answers = later.answers.saturating_sub(self.answers);
        let seconds = later.elapsed.saturating_sub(self.elapsed);
        (units::count(answers), seconds.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a window of 10 s after 5 s of warm-up, told twice a second.
    fn pace(answers: impl Fn(u64) -> u64) -> Pace {
        let mut pace = Pace::default();
        let [warm_up, length] = [10, 20];
        for half_second in 0..=warm_up + length {
            let phase = match half_second {
                at if at < warm_up => Phase::WarmUp,
                at if at < warm_up + length => Phase::Measuring,
                _ => Phase::Draining,
            };
            let progress = Progress {
                phase,
                elapsed: Duration::from_millis(half_second * 500),
                total: Duration::from_secs(15),
                answers: answers(half_second),
                failures: 0,
            };
            pace.meet(&progress, Duration::from_secs(10));
        }
        pace
    }

    #[test]
    fn a_rate_that_still_rises_is_a_fault_and_a_steady_one_is_not() {
        assert_eq!(pace(|at| at * 100).fault(), None);
        // As many as there were seconds, in each second.
        let rising = pace(|at| at * at * 10).fault().unwrap();
        assert!(
            rising.starts_with("still warming up: 67 % more answers"),
            "{rising}"
        );
    }

    #[test]
    fn a_handful_of_answers_proves_nothing_and_neither_does_a_tool_that_tells_none() {
        assert_eq!(pace(|at| at * at / 60).fault(), None);
        assert_eq!(pace(|_| 0).fault(), None);
    }
}
