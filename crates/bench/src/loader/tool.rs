//! A load tool that is a process of its own: started where the calling thread is, told of, metered
//! with all that it starts, and gone when its guard is.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use load::{Phase, Plan, Progress};

use super::Tell;
use crate::meter;
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
    let group = meter::group_of(child.pid()).unwrap_or_default();
    let times = group
        .into_iter()
        .filter_map(|pid| meter::ticks_of(pid).ok());
    times.sum()
}
