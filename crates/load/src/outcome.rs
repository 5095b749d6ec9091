//! What a run found, and whether it may be believed. Built once, when every thread has stopped.

use crate::{
    Failure, Plan, Rate,
    ledger::Window,
    tally::{ERROR_STATUS_MIN, Tally, histogram},
};
use hdrhistogram::Histogram;
use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

/// Share of sends that may be late before the generator is blamed.
const LATE_SHARE_MAX: f64 = 0.01;
/// Share of the window that a generating thread may be busy.
const BUSY_MAX: f64 = 0.9;
/// Share of the asked rate that a target must take on.
const ACHIEVED_MIN: f64 = 0.99;

/// The results of one run. Only requests intended inside the measured window are in the
/// histograms and counts, unless a field says otherwise.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was asked for.
    pub plan: Plan,
    /// Length of the measured window: the plan's duration, unless the run was stopped.
    pub window: Duration,
    /// Where the connections went.
    pub address: SocketAddr,
    /// Wall-clock time at which the measured window began.
    pub started: SystemTime,
    /// From the beginning of the window to its end, or to the last answer if that came later.
    pub elapsed: Duration,
    /// Nanoseconds from the intended time to the last byte of the answer. Time-outs are in it
    /// with the time waited; requests that were refused or cut off are not.
    pub latency: Histogram<u64>,
    /// The same from the actual send. In a closed loop the two are equal.
    pub latency_from_send: Histogram<u64>,
    /// Nanoseconds of failures and of answers with status 400 and above, from the intended time.
    pub latency_failed: Histogram<u64>,
    /// `latency` by the second of the window in which the answer came; the last one also holds
    /// what came after the window.
    pub seconds: Vec<Histogram<u64>>,
    /// Requests that came to an end: answered or failed.
    pub requests: u64,
    /// Failures, that is, requests without an answer, by kind.
    pub failures: BTreeMap<Failure, u64>,
    /// Answers by HTTP status. A gRPC answer with status OK, and an echo over TCP, count as 200.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests per second asked for; none in a closed loop.
    pub asked_rate: Option<f64>,
    /// Requests per second that the target took on during the window (closed loop: answered, with a
    /// status below 400).
    pub achieved_rate: f64,
    /// Requests that the schedule held for the window; 0 in a closed loop.
    pub scheduled: u64,
    /// Sends more than 1 ms late although their connection was free.
    pub late_sends: u64,
    /// The longest such delay, late or not.
    pub worst_lateness: Duration,
    /// Requests of the schedule that were never sent, since no connection became free.
    pub unfinished: u64,
    /// Bytes of requests, above TLS; over HTTP/2 of their bodies or messages.
    pub bytes_sent: u64,
    /// Bytes of answers, above TLS; over HTTP/2 of their bodies or messages.
    pub bytes_received: u64,
    /// Connections that were replaced during the window.
    pub reconnects: u64,
    /// What the generator itself used during the window.
    pub generator: Generator,
    /// Whether the figures may be believed, and what they are of.
    pub verdict: Verdict,
}

/// The generator's own use of CPUs during the window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Generator {
    /// CPU time of all generating threads, user and system.
    pub cpu: Duration,
    /// Time that threads were ready but had no CPU.
    pub wait: Duration,
    /// CPU time of the busiest thread, as a share of the window.
    pub busiest: f64,
    /// CPU and waiting time of the most wanting thread, as a share of the window.
    pub wanted: f64,
}

/// Whether a run may be believed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase", tag = "verdict")]
pub enum Verdict {
    /// The target took what was asked, the generator kept its schedule.
    Valid,
    /// The target took less than 99 % of the asked rate: a result.
    Saturated,
    /// The generator was the cause: not a result.
    Void {
        /// What it was short of.
        reason: String,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Valid => f.write_str("valid"),
            Self::Saturated => f.write_str("saturated"),
            Self::Void { reason } => write!(f, "void: {reason}"),
        }
    }
}

impl Outcome {
    /// Requests without an answer.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Failures and answers with status 400 and above.
    pub fn errors(&self) -> u64 {
        let bad = self
            .statuses
            .range(ERROR_STATUS_MIN..)
            .map(|(_, count)| count)
            .sum::<u64>();
        self.failed() + bad
    }

    pub(crate) fn merge(
        plan: &Plan,
        address: SocketAddr,
        (window, started): (Window, SystemTime),
        tallies: &[Tally],
    ) -> Self {
        let length = window.to - window.from;
        let last = tallies
            .iter()
            .map(|tally| tally.last_answer)
            .max()
            .unwrap_or(0);
        let sum = |field: fn(&Tally) -> u64| tallies.iter().map(field).sum::<u64>();
        let mut outcome = Self {
            plan: plan.clone(),
            window: Duration::from_nanos(length),
            address,
            started,
            elapsed: Duration::from_nanos(last.max(window.to) - window.from),
            latency: pooled(tallies, |tally| &tally.latency),
            latency_from_send: pooled(tallies, |tally| &tally.from_send),
            latency_failed: pooled(tallies, |tally| &tally.failed),
            seconds: seconds(tallies),
            requests: 0,
            failures: failures(tallies),
            statuses: statuses(tallies),
            asked_rate: None,
            achieved_rate: 0.0,
            scheduled: sum(|tally| tally.scheduled),
            late_sends: sum(|tally| tally.late_sends),
            worst_lateness: Duration::from_nanos(
                tallies
                    .iter()
                    .map(|tally| tally.worst_lateness)
                    .max()
                    .unwrap_or(0),
            ),
            unfinished: sum(|tally| tally.unfinished),
            bytes_sent: sum(|tally| tally.bytes_sent),
            bytes_received: sum(|tally| tally.bytes_received),
            reconnects: sum(|tally| tally.reconnects),
            generator: Generator::merge(tallies, length),
            verdict: Verdict::Valid,
        };
        outcome.requests = outcome.failed() + outcome.statuses.values().sum::<u64>();
        let (asked, taken) = match plan.rate {
            Rate::PerSecond(rate) => (Some(rate), sum(|tally| tally.sends_in_window)),
            Rate::Max => (None, sum(|tally| tally.answers_in_window)),
        };
        outcome.asked_rate = asked;
        outcome.achieved_rate = taken as f64 / (length as f64 / 1e9);
        outcome.verdict = judge(&Evidence {
            sends: sum(|tally| tally.sends),
            late: outcome.late_sends,
            generator: outcome.generator,
            scheduled: outcome.scheduled,
            taken,
        });
        outcome
    }
}

/// What a verdict is made from.
#[derive(Clone, Copy)]
struct Evidence {
    sends: u64,
    late: u64,
    generator: Generator,
    scheduled: u64,
    /// Requests that the target took on during the window.
    taken: u64,
}

fn judge(evidence: &Evidence) -> Verdict {
    let late = evidence.late as f64 / evidence.sends.max(1) as f64;
    let Generator {
        busiest, wanted, ..
    } = evidence.generator;
    let reason = if late > LATE_SHARE_MAX {
        format!(
            "{:.1} % of sends were over 1 ms late on a free connection",
            late * 100.0
        )
    } else if busiest > BUSY_MAX {
        format!("a generating thread used {:.0} % of a CPU", busiest * 100.0)
    } else if wanted > BUSY_MAX {
        format!(
            "a generating thread wanted {:.0} % of a CPU and had less",
            wanted * 100.0
        )
    } else if (evidence.taken as f64) < ACHIEVED_MIN * evidence.scheduled as f64 {
        return Verdict::Saturated;
    } else {
        return Verdict::Valid;
    };
    Verdict::Void { reason }
}

impl Generator {
    fn merge(tallies: &[Tally], length: u64) -> Self {
        let share = |field: fn(&Tally) -> u64| {
            tallies.iter().map(field).max().unwrap_or(0) as f64 / length as f64
        };
        Self {
            cpu: Duration::from_nanos(tallies.iter().map(|tally| tally.cpu).sum()),
            wait: Duration::from_nanos(tallies.iter().map(|tally| tally.wait).sum()),
            busiest: share(|tally| tally.cpu),
            wanted: share(|tally| tally.cpu + tally.wait),
        }
    }
}

fn pooled(tallies: &[Tally], field: fn(&Tally) -> &Histogram<u64>) -> Histogram<u64> {
    let mut whole = histogram();
    for tally in tallies {
        whole
            .add(field(tally))
            .expect("all histograms have the same bounds");
    }
    whole
}

fn failures(tallies: &[Tally]) -> BTreeMap<Failure, u64> {
    let mut whole = BTreeMap::new();
    for (failure, count) in tallies.iter().flat_map(|tally| &tally.failures) {
        *whole.entry(*failure).or_default() += count;
    }
    whole
}

fn statuses(tallies: &[Tally]) -> BTreeMap<u16, u64> {
    let count = |status: u16| {
        let of = |tally: &Tally| tally.statuses[usize::from(status)];
        (status, tallies.iter().map(of).sum::<u64>())
    };
    (0..1000)
        .map(count)
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn seconds(tallies: &[Tally]) -> Vec<Histogram<u64>> {
    let count = tallies
        .iter()
        .map(|tally| tally.seconds.len())
        .max()
        .unwrap_or(0);
    let pool = |index: usize| {
        // Small: a run may have thousands of seconds.
        let mut second = Histogram::new(3).expect("three digits are allowed");
        for (value, count) in tallies
            .iter()
            .filter_map(|tally| tally.seconds.get(index))
            .flatten()
        {
            second.record_n(*value, *count).expect("it grows as needed");
        }
        second
    };
    (0..count).map(pool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Evidence = Evidence {
        sends: 1000,
        late: 0,
        generator: Generator {
            cpu: Duration::ZERO,
            wait: Duration::ZERO,
            busiest: 0.1,
            wanted: 0.2,
        },
        scheduled: 1000,
        taken: 1000,
    };

    fn check(evidence: Evidence, expected: &str) {
        let verdict = judge(&evidence).to_string();
        assert!(verdict.contains(expected), "{verdict} is not {expected}");
    }

    #[test]
    fn a_verdict_blames_the_generator_before_the_target() {
        let generator = |busiest, wanted| Generator {
            busiest,
            wanted,
            ..FINE.generator
        };
        check(FINE, "valid");
        check(
            Evidence {
                taken: 990,
                late: 10,
                ..FINE
            },
            "valid",
        );
        check(Evidence { taken: 989, ..FINE }, "saturated");
        check(Evidence { late: 11, ..FINE }, "void: 1.1 % of sends");
        check(
            Evidence {
                late: 11,
                taken: 500,
                ..FINE
            },
            "void: 1.1 % of sends",
        );
        check(
            Evidence {
                generator: generator(0.95, 0.96),
                ..FINE
            },
            "used 95 % of a CPU",
        );
        check(
            Evidence {
                generator: generator(0.3, 0.99),
                ..FINE
            },
            "wanted 99 % of a CPU",
        );
    }

    #[test]
    fn a_closed_loop_cannot_saturate() {
        check(
            Evidence {
                scheduled: 0,
                taken: 0,
                ..FINE
            },
            "valid",
        );
    }
}
