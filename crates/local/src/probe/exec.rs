//! A probe's command, as the workload's user in its namespaces. Called by `probe`. Must never leave
//! a process of it behind.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::task::spawn_blocking;

use super::Seconds;
use crate::job::Job;
use crate::process::{Identity, Launcher, Outputs, wait_for};

/// Where a probe's words go.
const NOWHERE: &str = "/dev/null";

pub(super) async fn check(launcher: Launcher, job: &Job, within: Duration) -> Result<(), String> {
    let job = job.clone();
    let ran = spawn_blocking(move || run(&launcher, &job, within)).await;
    ran.map_err(|error| error.to_string())?
}

fn run(launcher: &Launcher, job: &Job, within: Duration) -> Result<(), String> {
    let program = job.program.display();
    let nowhere = || Path::new(NOWHERE).to_path_buf();
    let outputs = Outputs {
        stdout: nowhere(),
        stderr: nowhere(),
    };
    let started = launcher.start(job, &outputs);
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
