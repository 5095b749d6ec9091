//! The latency that a rate must keep, and whether a repeat kept it. Pure.

use serde::{Deserialize, Serialize};

use super::{Repeat, Verdict, pool};
use crate::units;

/// Share of requests that may fail, or never be sent, at a rate that is kept.
const LOST_MAX: f64 = 0.001;

/// Share of the asked rate that must be taken on.
const ACHIEVED_MIN: f64 = 0.99;

/// What is looked for: the highest rate at which a percentile of latency stays below a bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// Which percentile, 0 to 1.
    pub quantile: f64,
    /// Its bound in milliseconds, from the intended send time.
    pub millis: f64,
    /// The search ends when the next rate that is not kept is above by less than this share.
    pub tolerance: f64,
}

impl Objective {
    /// `P99`.
    pub fn percentile(&self) -> String {
        // 0.999 × 100 is not quite 99.9.
        format!("P{}", (self.quantile * 1e6).round() / 1e4)
    }

    /// `P99 ≤ 5 ms`.
    pub fn words(&self) -> String {
        format!("{} ≤ {} ms", self.percentile(), self.millis)
    }

    /// Why a repeat did not keep it; `None` when it did. A machine without idle time that kept it
    /// all the same has shown that it can.
    pub fn missed(&self, repeat: &Repeat) -> Option<String> {
        let asked = repeat.asked_qps.unwrap_or(repeat.achieved_qps);
        let lost = units::count(repeat.errors + repeat.unfinished.unwrap_or(0));
        let share = lost / units::count(repeat.requests.max(1));
        let latency = pool::percentile(&repeat.latencies.intended, self.quantile);
        let latency = latency.map(|nanos| units::micros(nanos) / 1e3);
        let why = match latency {
            _ if repeat.verdict == Verdict::Void => "the generator could not make it".to_owned(),
            _ if share > LOST_MAX => format!("{:.2} % failed or were never sent", share * 100.0),
            _ if repeat.achieved_qps < asked * ACHIEVED_MIN => {
                format!("{:.0}/s were taken on", repeat.achieved_qps)
            }
            None => format!("too few requests for a {}", self.percentile()),
            Some(millis) if millis > self.millis => format!("{} {millis:.2} ms", self.percentile()),
            Some(_) => return None,
        };
        Some(match repeat.verdict {
            Verdict::MachineBound => format!("{why}, machine-bound"),
            _ => why,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    const OBJECTIVE: Objective = Objective {
        quantile: 0.99,
        millis: 5.0,
        tolerance: 0.05,
    };

    fn check(change: impl FnOnce(&mut Repeat), expected: Option<&str>) {
        // Its P99 is 4.95 ms.
        let mut repeat = sample::repeat("leno", 0);
        change(&mut repeat);
        assert_eq!(OBJECTIVE.missed(&repeat).as_deref(), expected);
    }

    #[test]
    fn what_is_slow_failing_or_not_taken_on_is_not_kept() {
        check(|_| {}, None);
        check(|it| it.verdict = Verdict::MachineBound, None);
        check(|it| it.errors = 5, None);
        check(|it| it.errors = 6, Some("0.12 % failed or were never sent"));
        check(
            |it| it.unfinished = Some(6),
            Some("0.12 % failed or were never sent"),
        );
        check(|it| it.achieved_qps = 980.0, Some("980/s were taken on"));
        check(
            |it| it.latencies.intended.record_n(9_000_000, 100).unwrap(),
            Some("P99 9.00 ms"),
        );
        check(
            |it| it.latencies.intended.reset(),
            Some("too few requests for a P99"),
        );
        let void = Some("the generator could not make it");
        check(|it| it.verdict = Verdict::Void, void);
    }

    #[test]
    fn a_machine_without_idle_time_is_named_where_it_was_not_kept() {
        let bound = |it: &mut Repeat| {
            it.verdict = Verdict::MachineBound;
            it.achieved_qps = 500.0;
        };
        check(bound, Some("500/s were taken on, machine-bound"));
    }

    #[test]
    fn it_reads_as_it_is_said() {
        assert_eq!(OBJECTIVE.words(), "P99 ≤ 5 ms");
        let rare = Objective {
            quantile: 0.999,
            ..OBJECTIVE
        };
        assert_eq!(rare.percentile(), "P99.9");
    }
}
