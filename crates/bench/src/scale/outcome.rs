//! What a run found, for each mesh that was measured. Filled by `measure`, written as JSON and CSV,
//! read by `tables` and `figures`. Plain data and arithmetic.

use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::mesh::Shape;
use super::plane::{Cpu, Memory};
use crate::results::{Environment, pool};
use crate::units::{count, mebibytes};

/// Everything that a run found.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Layout version of this value as JSON.
    pub schema: u32,
    /// When and on what.
    pub environment: Environment,
    /// In the order of measuring.
    pub rows: Vec<Row>,
}

/// One mesh.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// How large it is.
    pub shape: Shape,
    /// The control plane alone.
    pub start: Start,
    /// Certificates for all.
    pub enrolment: Enrolment,
    /// All connect at once, and get everything.
    pub connect: Connect,
    /// Nothing happens.
    pub rest: Rest,
    /// Endpoints change.
    pub churn: Churn,
    /// Services are used for the first time; where endpoints come on demand.
    pub first_use: Option<Delays>,
    /// The control plane is killed and started again.
    pub storm: Storm,
    /// What it held at the end of each phase.
    pub memory: Vec<(String, Memory)>,
    /// A real sidecar in the same mesh, or why there was none.
    pub real: Result<Real, String>,
    /// Whether all who count agree.
    pub accounts: Accounts,
}

/// The control plane before anybody connects.
#[derive(Debug, Clone, Serialize)]
pub struct Start {
    /// Until it says that it is ready.
    pub seconds: f64,
    /// CPU time for that.
    pub cpu_seconds: f64,
}

/// Certificates for all sidecars.
#[derive(Debug, Clone, Serialize)]
pub struct Enrolment {
    /// That were signed.
    pub certificates: u64,
    /// For the tokens, one after the other.
    pub token_seconds: f64,
    /// CPU time for the tokens.
    pub token_cpu_seconds: f64,
    /// For the certificates.
    pub seconds: f64,
    /// CPU time for the certificates, with a connection each.
    pub cpu_seconds: f64,
}

/// All sidecars connect at once.
#[derive(Debug, Clone, Serialize)]
pub struct Connect {
    /// Until the last one has everything.
    pub seconds: f64,
    /// CPU time of the control plane until then.
    pub cpu_seconds: f64,
    /// Bytes that were sent to them, TLS and all.
    pub bytes: u64,
    /// Resources in them.
    pub resources: u64,
}

/// A window in which nothing changes.
#[derive(Debug, Clone, Serialize)]
pub struct Rest {
    /// Its length.
    pub seconds: f64,
    /// CPU time in it.
    pub cpu_seconds: f64,
}

/// Endpoints that change, one after the other.
#[derive(Debug, Clone, Serialize)]
pub struct Churn {
    /// That were made.
    pub changes: u64,
    /// Of them, those that some interested sidecar did not get.
    pub undelivered: u64,
    /// For making them.
    pub seconds: f64,
    /// Changes per second that were asked for.
    pub rate: f64,
    /// CPU time of the control plane from the first to the last acknowledgement.
    pub cpu_seconds: f64,
    /// Bytes that were sent to sidecars, TLS and all.
    pub bytes: u64,
    /// Publications: several changes in a row are one.
    pub pushes: u64,
    /// From a change until the last interested sidecar has acknowledged it.
    pub last: Delays,
    /// From a change until an interested sidecar has acknowledged it.
    pub each: Delays,
}

/// The control plane comes back after it was killed.
#[derive(Debug, Clone, Serialize)]
pub struct Storm {
    /// From its end until it was ready again.
    pub away_seconds: f64,
    /// From then until the last sidecar was served.
    pub seconds: f64,
    /// CPU time of the new one until then.
    pub cpu_seconds: f64,
    /// Bytes that were sent to sidecars.
    pub bytes: u64,
    /// Resources in them: what they have is not sent again.
    pub resources: u64,
    /// Certificates that it signed, though all have one.
    pub reissued: u64,
    /// Connections that it turned away, as too many at once.
    pub turned_away: u64,
}

/// A real sidecar.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Real {
    /// Resident.
    pub rss: u64,
    /// Anonymous.
    pub anon: u64,
    /// Proportional: pages that are shared count in part.
    pub pss: Option<u64>,
}

/// Who counts what, at the end.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Accounts {
    /// CPU time of the process that ended last.
    pub cpu: Cpu,
    /// Its CPU time by its own metric.
    pub cpu_told: f64,
    /// Its memory.
    pub memory: Memory,
    /// Whether the kernel's figures and its own are the same but for what moves while one reads.
    pub agree: bool,
}

/// How long something took, many times.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Delays {
    /// How many times.
    pub count: u64,
    /// Milliseconds; none with fewer than 20 samples beyond.
    pub p50: Option<f64>,
    /// See `p50`.
    pub p90: Option<f64>,
    /// See `p50`.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

impl Delays {
    /// Of all that were taken.
    pub(super) fn of(all: &[Duration]) -> Self {
        let mut histogram = Histogram::<u64>::new(3).expect("three digits are allowed");
        for one in all {
            let micros = u64::try_from(one.as_micros()).unwrap_or(u64::MAX);
            histogram
                .record(micros)
                .expect("it grows with what it is given");
        }
        let at = |quantile| {
            let found = pool::percentile(&histogram, quantile);
            found.map(|micros| count(micros) / 1e3)
        };
        let longest = all.iter().max();
        Self {
            count: histogram.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: longest.map(|longest| longest.as_secs_f64() * 1e3),
        }
    }
}

impl Rest {
    /// Of one core.
    pub(super) fn share(&self) -> f64 {
        self.cpu_seconds / self.seconds
    }
}

impl Churn {
    fn per_change(&self, value: f64) -> f64 {
        value / count(self.changes.max(1))
    }

    /// CPU time of one change, in milliseconds.
    pub(super) fn cpu_millis(&self) -> f64 {
        self.per_change(self.cpu_seconds * 1e3)
    }

    /// Bytes of one change.
    pub(super) fn bytes_each(&self) -> f64 {
        self.per_change(count(self.bytes))
    }
}

impl Row {
    /// The most that was resident at the end of a phase.
    pub(super) fn rss(&self) -> u64 {
        self.memory
            .iter()
            .map(|(_, memory)| memory.rss)
            .max()
            .unwrap_or(0)
    }

    /// The most that was resident at any time, of the first process and of the second.
    pub(super) fn peak(&self) -> u64 {
        self.memory
            .iter()
            .map(|(_, memory)| memory.peak)
            .max()
            .unwrap_or(0)
    }
}

impl Accounts {
    /// What the kernel and the process itself say at one moment.
    pub(super) fn of(cpu: Cpu, cpu_told: f64, cpu_cgroup: Option<f64>, memory: Memory) -> Self {
        let is_near = |a: f64, b: f64, slack: f64| (a - b).abs() <= 0.05 * a.max(b) + slack;
        let near_bytes = |a: u64, b: u64| is_near(mebibytes(a), mebibytes(b), 1.0);
        let agree = near_bytes(memory.rss, memory.told)
            && memory
                .cgroup_anon
                .is_none_or(|anon| near_bytes(anon, memory.anon))
            && is_near(cpu.ticks, cpu_told, 0.1)
            && cpu_cgroup.is_none_or(|cgroup| is_near(cgroup, cpu.ticks, 0.1));
        let cpu = Cpu {
            cgroup: cpu_cgroup,
            ..cpu
        };
        Self {
            cpu,
            cpu_told,
            memory,
            agree,
        }
    }
}

/// The rows as CSV.
pub(super) fn csv(outcome: &Outcome) -> String {
    let mut text = String::new();
    let names = columns(None).into_iter().map(|(name, _)| name);
    let _ = writeln!(text, "{}", names.collect::<Vec<_>>().join(","));
    for row in &outcome.rows {
        let values = columns(Some(row)).into_iter().map(|(_, value)| value);
        let _ = writeln!(text, "{}", values.collect::<Vec<_>>().join(","));
    }
    text
}

type Columns = Vec<(&'static str, String)>;

/// Names and values; without a row the values are empty.
fn columns(row: Option<&Row>) -> Columns {
    let mut columns = mesh_columns(row);
    columns.extend(figure_columns(row));
    columns
}

fn mesh_columns(row: Option<&Row>) -> Columns {
    let of = |value: &dyn Fn(&Row) -> usize| row.map(|row| value(row).to_string());
    let mode = row.map(|row| row.shape.mode.name().to_owned());
    vec![
        ("Mode", mode.unwrap_or_default()),
        (
            "Sidecars",
            of(&|row| row.shape.sidecars).unwrap_or_default(),
        ),
        (
            "Services",
            of(&|row| row.shape.services).unwrap_or_default(),
        ),
        (
            "Endpoints",
            of(&|row| row.shape.endpoints).unwrap_or_default(),
        ),
        (
            "Interest",
            of(&|row| row.shape.interest).unwrap_or_default(),
        ),
    ]
}

fn figure_columns(row: Option<&Row>) -> Columns {
    let maybe = |value: &dyn Fn(&Row) -> Option<f64>| {
        let value = row.and_then(value);
        value.map(|value| format!("{value:.4}")).unwrap_or_default()
    };
    let of = |value: &dyn Fn(&Row) -> f64| maybe(&|row| Some(value(row)));
    vec![
        ("RssMi", of(&|row| mebibytes(row.rss()))),
        ("PeakRssMi", of(&|row| mebibytes(row.peak()))),
        ("StartSeconds", of(&|row| row.start.seconds)),
        ("StartCpuSeconds", of(&|row| row.start.cpu_seconds)),
        ("Certificates", of(&|row| count(row.enrolment.certificates))),
        (
            "CertificatesCpuSeconds",
            of(&|row| row.enrolment.cpu_seconds),
        ),
        ("ConnectSeconds", of(&|row| row.connect.seconds)),
        ("ConnectCpuSeconds", of(&|row| row.connect.cpu_seconds)),
        ("ConnectBytes", of(&|row| count(row.connect.bytes))),
        ("RestCores", of(&|row| row.rest.share())),
        ("Changes", of(&|row| count(row.churn.changes))),
        ("Undelivered", of(&|row| count(row.churn.undelivered))),
        ("LastAckP50Ms", maybe(&|row| row.churn.last.p50)),
        ("LastAckP99Ms", maybe(&|row| row.churn.last.p99)),
        ("LastAckMaxMs", maybe(&|row| row.churn.last.max)),
        ("AckP50Ms", maybe(&|row| row.churn.each.p50)),
        ("AckP99Ms", maybe(&|row| row.churn.each.p99)),
        ("ChangeCpuMs", of(&|row| row.churn.cpu_millis())),
        ("ChangeBytes", of(&|row| row.churn.bytes_each())),
        ("FirstUseP50Ms", maybe(&|row| row.first_use.as_ref()?.p50)),
        ("FirstUseP99Ms", maybe(&|row| row.first_use.as_ref()?.p99)),
        ("StormSeconds", of(&|row| row.storm.seconds)),
        ("StormCpuSeconds", of(&|row| row.storm.cpu_seconds)),
        ("Reissued", of(&|row| count(row.storm.reissued))),
        (
            "RealSidecarPssMi",
            maybe(&|row| Some(mebibytes(row.real.as_ref().ok()?.pss?))),
        ),
        (
            "AccountsAgree",
            of(&|row| f64::from(u8::from(row.accounts.agree))),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_samples_beyond_it_and_the_longest_does_not() {
        let some: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        let delays = Delays::of(&some);
        assert!(delays.p50.is_some_and(|p50| (50.0..51.0).contains(&p50)));
        assert_eq!((delays.p99, delays.max), (None, Some(100.0)));
        assert_eq!(Delays::of(&[]).max, None);
    }

    #[test]
    fn accounts_that_differ_are_said_to() {
        let memory = |rss: u64, told: u64| Memory {
            rss: rss << 20,
            told: told << 20,
            ..Memory::default()
        };
        let cpu = Cpu {
            ticks: 2.0,
            cgroup: None,
        };
        let agree = |cgroup, memory| Accounts::of(cpu, 2.05, cgroup, memory).agree;
        assert!(agree(Some(1.98), memory(100, 101)));
        assert!(!agree(Some(4.0), memory(100, 101)));
        assert!(!agree(None, memory(100, 120)));
    }
}
