//! A probe's command, as the workload's user in its namespaces. Called by `probe`. Must never leave
//! a process of it behind.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::task::spawn_blocking;

use super::Seconds;
use crate::cgroup;
use crate::explicit::{MARK, Marked, kill_marked};
use crate::job::Job;
use crate::process::{Identity, Launcher, Outputs, wait_for};

/// Where a probe's words go.
const NOWHERE: &str = "/dev/null";
/// Tells one probe from another.
static COUNT: AtomicU64 = AtomicU64::new(0);

pub(super) async fn check(launcher: Launcher, job: &Job, within: Duration) -> Result<(), String> {
    let job = job.clone();
    let ran = spawn_blocking(move || run(&launcher, &job, within)).await;
    ran.map_err(|error| error.to_string())?
}

fn run(launcher: &Launcher, job: &Job, within: Duration) -> Result<(), String> {
    let program = job.program.display();
    let place = Place::make(job);
    let nowhere = || Path::new(NOWHERE).to_path_buf();
    let outputs = Outputs {
        stdout: nowhere(),
        stderr: nowhere(),
    };
    let started = launcher.start(&place.job, &outputs);
    let mut child = started.map_err(|error| format!("{error:#}"))?;
    let ended = wait(&child, within);
    // Before it is waited for: until then nobody else has its number.
    kill_group(&child);
    let status = child
        .wait()
        .map_err(|error| format!("{program}: {error}"))?;
    if !ended {
        Err(format!("{program} did not end within {}", Seconds(within)))
    } else if status.success() {
        Ok(())
    } else {
        Err(format!("{program} ended with {status}"))
    }
}

/// Where a probe's command runs: as its application does, but that what it starts is told from that
/// one's, and ended when this is dropped.
struct Place {
    job: Job,
    groups: Vec<PathBuf>,
    /// Where there are no groups: what is in the environment of its processes.
    mark: Option<PathBuf>,
}

impl Place {
    fn make(job: &Job) -> Self {
        let name = format!("probe-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut job = job.clone();
        let groups = cgroup::within(&job.cgroups, &name);
        let is_above = |group: &&PathBuf| !groups.contains(&group.join(&name));
        let rest = job.cgroups.iter().filter(is_above).cloned();
        job.cgroups = groups.iter().cloned().chain(rest).collect();
        let marks = job.environment.iter().filter(|_| groups.is_empty());
        let mark = marks.rev().find(|(name, _)| name == MARK);
        let mark = mark.map(|(_, folder)| Path::new(folder).join(&name));
        let marked = mark.iter().map(|mark| mark.display().to_string());
        job.environment
            .extend(marked.map(|mark| (MARK.into(), mark)));
        Self { job, groups, mark }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        cgroup::kill(&self.groups);
        // What is left goes with its application.
        let _ = cgroup::remove(&self.groups);
        if let Some(mark) = &self.mark {
            kill_marked(mark, &[Marked::Applications]);
        }
    }
}

fn wait(child: &Child, within: Duration) -> bool {
    let identity = i32::try_from(child.id()).ok().and_then(Identity::of);
    // One that is no more has ended.
    identity.is_none_or(|identity| wait_for(&identity, within))
}

/// It leads a session, and so a group, in which are those that it started.
fn kill_group(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let _ = pid.map(|pid| kill_process_group(pid, Signal::KILL));
}
