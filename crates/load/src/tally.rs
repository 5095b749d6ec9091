//! What one generating thread counts while it runs. Plain numbers, no locks; merged at the end.
//! Only requests intended inside the measured window get here.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Longest time a histogram tells apart, in nanoseconds: one hour.
const LONGEST: u64 = 3_600 * crate::clock::SECOND;

/// An answer with this status, or a higher one, is an error.
pub(crate) const ERROR_STATUS_MIN: u16 = 400;

/// A histogram of nanoseconds with three significant digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("constant bounds are valid")
}

/// Why a request had no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Failure {
    /// No connection: refused, unreachable, or too slow.
    Connect,
    /// The TLS handshake or a record failed.
    Tls,
    /// No whole answer within the plan's timeout.
    Timeout,
    /// The peer closed or reset the connection before the whole answer.
    Closed,
    /// The answer breaks the protocol.
    Malformed,
    /// The peer reset the stream.
    Reset,
    /// gRPC answered with another status than OK.
    GrpcStatus,
    /// What came back is not what was sent.
    WrongEcho,
}

/// One thread's counts.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) latency: Histogram<u64>,
    pub(crate) from_send: Histogram<u64>,
    pub(crate) failed: Histogram<u64>,
    pub(crate) statuses: Box<[u64; 1000]>,
    pub(crate) failures: BTreeMap<Failure, u64>,
    /// Sends on the schedule whose intended time lay in the window.
    pub(crate) sends: u64,
    /// Sends during the window, whenever they were intended.
    pub(crate) sends_in_window: u64,
    /// Answers during the window that are no errors, whenever they were asked for.
    pub(crate) answers_in_window: u64,
    pub(crate) late_sends: u64,
    pub(crate) worst_lateness: u64,
    pub(crate) scheduled: u64,
    pub(crate) unfinished: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) reconnects: u64,
    pub(crate) cpu: u64,
    pub(crate) wait: u64,
    pub(crate) last_answer: u64,
    /// Latencies of the current second of the window.
    second: Histogram<u64>,
    /// Those of the seconds before it, as values and counts.
    pub(crate) seconds: Vec<Vec<(u64, u64)>>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            latency: histogram(),
            from_send: histogram(),
            failed: histogram(),
            statuses: Box::new([0; 1000]),
            failures: BTreeMap::new(),
            sends: 0,
            sends_in_window: 0,
            answers_in_window: 0,
            late_sends: 0,
            worst_lateness: 0,
            scheduled: 0,
            unfinished: 0,
            bytes_sent: 0,
            bytes_received: 0,
            reconnects: 0,
            cpu: 0,
            wait: 0,
            last_answer: 0,
            second: histogram(),
            seconds: Vec::new(),
        }
    }

    /// Puts the current second away. Takes some tens of microseconds.
    pub(crate) fn end_second(&mut self) {
        let recorded = self.second.iter_recorded();
        let values = recorded.map(|value| (value.value_iterated_to(), value.count_at_value()));
        self.seconds.push(values.collect());
        self.second.reset();
    }

    #[inline]
    pub(crate) fn answered(&mut self, status: u16, latency: u64, from_send: u64) {
        self.record(latency, from_send);
        self.statuses[usize::from(status).min(999)] += 1;
        if status >= ERROR_STATUS_MIN {
            self.failed.saturating_record(latency);
        }
    }

    /// A time-out is a lower bound of a latency and belongs in the tail; a request that was
    /// refused or cut off has none.
    pub(crate) fn failed(&mut self, failure: Failure, latency: u64, from_send: u64) {
        *self.failures.entry(failure).or_default() += 1;
        self.failed.saturating_record(latency);
        if failure == Failure::Timeout {
            self.record(latency, from_send);
        }
    }

    #[inline]
    fn record(&mut self, latency: u64, from_send: u64) {
        self.latency.saturating_record(latency);
        self.from_send.saturating_record(from_send);
        self.second.saturating_record(latency);
    }
}
