//! A load tool that is a process of its own: started where the calling thread is, told of, metered
//! with all that it starts, and gone when its guard is.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use load::{Phase, Plan, Progress};

use super::Tell;
use crate::process::{Child, Placing, Program};

/// How often somebody who waits is told that it goes on.
pub(super) const TOLD_EVERY: Duration = Duration::from_millis(100);

/// Why there is no outcome.
#[derive(Debug)]
pub(super) enum Stop {
    /// Nobody wants it any more.
    Unwanted,
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// Starts a tool on the plan's CPUs.
pub(super) fn start(
    launcher: &Path,
    plan: &Plan,
    label: &str,
    (path, args): (PathBuf, Vec<String>),
) -> anyhow::Result<Child> {
    let placing = Placing {
        cpus: plan.cpus.clone(),
        ..Placing::default()
    };
    let program = Program {
        label: label.to_owned(),
        path,
        args: args.into_iter().map(Into::into).collect(),
    };
    Child::start(launcher, &placing, &program)
}

/// Tells the caller where the run is.
pub(super) struct Teller<'a, 'b> {
    tell: &'a mut Tell<'b>,
    total: Duration,
    began: Instant,
}

impl<'a, 'b> Teller<'a, 'b> {
    pub(super) fn new(plan: &Plan, tell: &'a mut Tell<'b>) -> Self {
        Self {
            tell,
            total: plan.warm_up + plan.duration,
            began: Instant::now(),
        }
    }

    /// # Errors
    /// When nobody listens any more.
    pub(super) fn say(&mut self, phase: Phase) -> Result<(), Stop> {
        let progress = Progress {
            phase,
            elapsed: self.began.elapsed(),
            total: self.total,
            // Tools say how much they did when they end.
            answers: 0,
            failures: 0,
        };
        match (self.tell)(&progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stop::Unwanted),
        }
    }
}

/// CPU time of a child and of what it started, as far as that is still there.
pub(super) fn cpu_of(child: &Child) -> Duration {
    let group = child.pid();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let times = processes.filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        of_group(&stat, group)
    });
    let ticks: u64 = times.sum();
    Duration::from_micros(ticks * 1_000_000 / rustix::param::clock_ticks_per_second())
}

/// Ticks of user and system time in a process's `stat`, if it is of this group; proc(5).
fn of_group(stat: &str, group: u32) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    if number(2)? != u64::from(group) {
        return None;
    }
    Some(number(11)? + number(12)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_with_its_group_whatever_its_name() {
        let stat = "7 (a) b) S 1 42 42 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 5 0 0";
        assert_eq!(of_group(stat, 42), Some(42));
        assert_eq!(of_group(stat, 1), None);
        assert_eq!(of_group("", 42), None);
    }
}
