//! What a load tool found in the measured window, in one form for all of them. What a tool cannot
//! say is absent.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use load::{Plan, Rate, Verdict};

use crate::process::usable_cpus;
use crate::units;

/// Share of its CPUs that a tool may use: ours has the same bound.
const BUSY_MAX: f64 = 0.9;
/// Share of the asked rate that a target must take on: likewise.
const ACHIEVED_MIN: f64 = 0.99;
/// An answer with this status, or a higher one, is an error.
const ERROR_STATUS_MIN: u16 = 400;

/// The results of one run of a load tool.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// When the window began, by the wall clock.
    pub started: SystemTime,
    /// Its length.
    pub window: Duration,
    /// Requests per second asked for; none in a closed loop.
    pub asked_rate: Option<f64>,
    /// Requests per second that the target took on inside the window; in a closed loop, those
    /// that it answered well.
    pub achieved_rate: f64,
    /// Requests of the window that came to an end.
    pub requests: u64,
    /// Answers per HTTP status; key 0 counts requests without one.
    pub statuses: BTreeMap<u16, u64>,
    /// Late sends; absent where the tool knows of no intended times.
    pub late: Option<u64>,
    /// Requests of the schedule that were never sent; likewise.
    pub unfinished: Option<u64>,
    /// Nanoseconds from the intended time; likewise.
    pub intended: Option<Histogram<u64>>,
    /// Nanoseconds from the actual send, as fine as the tool tells them.
    pub sent: Histogram<u64>,
    /// CPU time of the tool in the window.
    pub generator_cpu: Option<Duration>,
    /// Whether the figures may be believed.
    pub verdict: Verdict,
    /// The tool's own words about it, kept with the repeat: the file name's ending, and the bytes.
    pub raw: Option<(&'static str, Vec<u8>)>,
}

impl Outcome {
    /// Requests without an answer, and answers with status 400 and above.
    pub fn errors(&self) -> u64 {
        let is_error = |status: u16| status == 0 || status >= ERROR_STATUS_MIN;
        let statuses = self.statuses.iter();
        let errors = statuses.filter(|(status, _)| is_error(**status));
        errors.map(|(_, count)| count).sum()
    }

    /// # Errors
    /// When it cannot be written as JSON.
    pub(super) fn of_ours(ours: &load::Outcome) -> anyhow::Result<Self> {
        let mut statuses = ours.statuses.clone();
        if ours.failed() > 0 {
            statuses.insert(0, ours.failed());
        }
        let fortio = serde_json::to_vec_pretty(&load::report::fortio(ours))?;
        Ok(Self {
            started: ours.started,
            window: ours.window,
            asked_rate: ours.asked_rate,
            achieved_rate: ours.achieved_rate,
            requests: ours.requests,
            statuses,
            late: Some(ours.late_sends),
            unfinished: Some(ours.unfinished),
            intended: Some(ours.latency.clone()),
            sent: ours.latency_from_send.clone(),
            generator_cpu: Some(ours.generator.cpu),
            verdict: ours.verdict.clone(),
            raw: Some(("fortio.json", fortio)),
        })
    }
}

/// What any other tool says, before there is a verdict.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) started: SystemTime,
    pub(super) window: Duration,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) sent: Histogram<u64>,
    pub(super) cpu: Duration,
}

impl Found {
    /// Counts, rates and the verdict by the rules that ours has.
    pub(super) fn judged(self, tool: &str, plan: &Plan) -> Outcome {
        let requests = self.statuses.values().sum();
        let seconds = self.window.as_secs_f64();
        let mut outcome = Outcome {
            started: self.started,
            window: self.window,
            asked_rate: None,
            achieved_rate: 0.0,
            requests,
            statuses: self.statuses,
            late: None,
            unfinished: None,
            intended: None,
            sent: self.sent,
            generator_cpu: Some(self.cpu),
            verdict: Verdict::Valid,
            raw: None,
        };
        let taken = match plan.rate {
            Rate::PerSecond(rate) => {
                outcome.asked_rate = Some(rate);
                requests
            }
            // In a closed loop the two times are one.
            Rate::Max => {
                outcome.intended = Some(outcome.sent.clone());
                requests - outcome.errors()
            }
        };
        outcome.achieved_rate = units::count(taken) / seconds;
        let cpus = match plan.cpus.len() {
            0 => usable_cpus().len(),
            pinned => pinned,
        };
        let busy = self.cpu.as_secs_f64() / (seconds * units::count(cpus as u64));
        let asked = outcome.asked_rate.unwrap_or(0.0);
        if busy > BUSY_MAX {
            let reason = format!("{tool} used {:.0} % of its CPUs", busy * 100.0);
            outcome.verdict = Verdict::Void { reason };
        } else if outcome.achieved_rate < ACHIEVED_MIN * asked {
            outcome.verdict = Verdict::Saturated;
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::pool;

    fn found(statuses: &[(u16, u64)], cpu_seconds: u64) -> Found {
        Found {
            started: SystemTime::UNIX_EPOCH,
            window: Duration::from_secs(10),
            statuses: statuses.iter().copied().collect(),
            sent: pool::empty(),
            cpu: Duration::from_secs(cpu_seconds),
        }
    }

    fn plan(rate: Rate) -> Plan {
        Plan {
            rate,
            cpus: vec![0, 1],
            ..Plan::new("http://localhost/")
        }
    }

    #[test]
    fn errors_are_counted_and_are_no_throughput() {
        let statuses = [(0, 10), (200, 900), (302, 30), (404, 20), (503, 40)];
        let outcome = found(&statuses, 1).judged("x", &plan(Rate::Max));
        assert_eq!((outcome.requests, outcome.errors()), (1000, 70));
        assert!((outcome.achieved_rate - 93.0).abs() < 1e-9);
        assert_eq!(outcome.verdict, Verdict::Valid);
    }

    #[test]
    fn a_verdict_blames_the_tool_before_the_target() {
        let half = plan(Rate::PerSecond(200.0));
        let outcome = found(&[(200, 1000)], 1).judged("x", &half);
        assert_eq!(outcome.verdict, Verdict::Saturated);
        let outcome = found(&[(200, 1000)], 19).judged("x", &half);
        let void = Verdict::Void {
            reason: "x used 95 % of its CPUs".to_owned(),
        };
        assert_eq!(outcome.verdict, void);
    }

    #[test]
    fn intended_times_are_only_those_of_a_closed_loop() {
        let open = found(&[(200, 1000)], 1).judged("x", &plan(Rate::PerSecond(100.0)));
        assert!(open.intended.is_none() && open.late.is_none() && open.unfinished.is_none());
        let closed = found(&[(200, 1000)], 1).judged("x", &plan(Rate::Max));
        assert!(closed.intended.is_some());
    }
}
