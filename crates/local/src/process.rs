//! Starting jobs, knowing them again, ending them. Called by the supervisor and by whoever cleans
//! up after it. Invariant: a signal goes to a process of which both number and start are ours, and
//! numbers that were given to somebody else since are left alone.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::job::{Job, sockets};
use crate::logs;

/// How long a process may take to become its program: it only enters namespaces.
const BECOMES_WITHIN: Duration = Duration::from_secs(10);

/// How long what was killed may take to be gone.
const KILLED_WITHIN: Duration = Duration::from_secs(2);

/// A process, told from all that had its number before or will after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its number.
    pub pid: i32,
    /// When it began, in ticks since the machine did (`/proc/PID/stat`).
    pub start: u64,
}

impl Identity {
    /// The process that has this number now.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields = fields(&stat)?;
        Some(Self {
            pid,
            start: fields.1,
        })
    }

    /// This process.
    ///
    /// # Errors
    /// Without `/proc`.
    pub fn own() -> anyhow::Result<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Self::of(pid).context("read /proc/self/stat: mount /proc")
    }

    /// Whether it runs; a zombie does not.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        fields(&stat).is_some_and(|(state, start)| start == self.start && !"ZX".contains(state))
    }

    /// A handle on it, which stays with it.
    fn open(&self) -> Option<OwnedFd> {
        let handle = handle(self.pid).ok()?;
        // The number may have changed hands before the handle was made.
        self.is_alive().then_some(handle)
    }
}

/// State and start of a line of `/proc/PID/stat`.
fn fields(stat: &str) -> Option<(char, u64)> {
    // The name before it may contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let state = words.next()?.chars().next()?;
    let start = words.nth(18)?.parse().ok()?;
    Some((state, start))
}

/// Asks all of `processes` and their groups to end, waits for `grace`, and kills those that remain.
pub(crate) fn end(processes: &[Identity], grace: Duration) {
    let alive: Vec<_> = processes
        .iter()
        .filter_map(|process| Some((process.pid, process.open()?)))
        .collect();
    for (pid, handle) in &alive {
        let _ = pidfd_send_signal(handle, Signal::TERM);
        // Each leads a group of its own, in which are those that it started.
        let _ = Pid::from_raw(*pid).map(|pid| kill_process_group(pid, Signal::TERM));
    }
    let left = wait(alive.into_iter().map(|(_, handle)| handle).collect(), grace);
    for handle in &left {
        let _ = pidfd_send_signal(handle, Signal::KILL);
    }
    wait(left, KILLED_WITHIN);
}

/// A handle on whatever has this number now, which stays with it.
pub(crate) fn handle(pid: i32) -> rustix::io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH)?;
    pidfd_open(pid, PidfdFlags::empty())
}

/// Asks one process to end, and the group that it leads.
pub(crate) fn terminate_group(process: &Identity) {
    signal_group(process, Signal::TERM);
}

/// Kills one process, and the group that it leads.
pub(crate) fn kill_group(process: &Identity) {
    signal_group(process, Signal::KILL);
}

fn signal_group(process: &Identity, signal: Signal) {
    let Some(handle) = process.open() else { return };
    // Each leads a group of its own, in which are those that it started.
    let _ = Pid::from_raw(process.pid).map(|pid| kill_process_group(pid, signal));
    let _ = pidfd_send_signal(handle, signal);
}

/// Waits until `process` has ended; whether it has.
#[must_use]
pub(crate) fn wait_for(process: &Identity, limit: Duration) -> bool {
    let handle = process.open();
    wait(handle.into_iter().collect(), limit).is_empty()
}

/// Asks one process to end, and nobody else.
pub(crate) fn terminate(process: &Identity) {
    let _ = process
        .open()
        .map(|handle| pidfd_send_signal(handle, Signal::TERM));
}

/// Kills those that `find` finds; whether there were any. It is asked again when there is a handle
/// on each: a number that was somebody else's by then is not found once more.
pub(crate) fn kill(find: impl Fn() -> Vec<i32>) -> bool {
    let found = find().into_iter();
    let handles: Vec<_> = found
        .filter_map(|pid| Some((pid, handle(pid).ok()?)))
        .collect();
    let still = if handles.is_empty() {
        Vec::new()
    } else {
        find()
    };
    let meant = handles.into_iter().filter(|(pid, _)| still.contains(pid));
    let handles: Vec<_> = meant.map(|(_, handle)| handle).collect();
    for handle in &handles {
        let _ = pidfd_send_signal(handle, Signal::KILL);
    }
    let were_any = !handles.is_empty();
    wait(handles, KILLED_WITHIN);
    were_any
}

/// Waits until all have ended or the limit is over; gives those that have not.
fn wait(mut handles: Vec<OwnedFd>, limit: Duration) -> Vec<OwnedFd> {
    let deadline = Instant::now() + limit;
    while !handles.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut polled: Vec<_> = handles
            .iter()
            .map(|handle| PollFd::new(handle, PollFlags::IN))
            .collect();
        let timeout = Timespec::try_from(left).unwrap_or_default();
        if matches!(poll(&mut polled, Some(&timeout)), Ok(0)) || left.is_zero() {
            break;
        }
        let mut ended = polled
            .iter()
            .map(|one| one.revents().contains(PollFlags::IN))
            .collect::<Vec<_>>()
            .into_iter();
        handles.retain(|_| !ended.next().unwrap_or_default());
    }
    handles
}

/// The program that becomes jobs (`run`) and supervisors (`supervise`): `leno workload`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Launcher {
    /// The executable.
    pub program: PathBuf,
    /// What comes before the word that says which.
    pub args: Vec<String>,
}

/// The files that a program's words go to.
#[derive(Clone, Debug)]
pub(crate) struct Outputs {
    /// Of its standard output.
    pub(crate) stdout: PathBuf,
    /// Of its standard error.
    pub(crate) stderr: PathBuf,
}

impl Launcher {
    /// Starts a job; it is its program when this returns.
    ///
    /// # Errors
    /// Why it could not become its program.
    pub(crate) fn start(&self, job: &Job, outputs: &Outputs) -> anyhow::Result<Child> {
        self.start_with(job, outputs, &[])
    }

    /// Likewise, and passes it listening sockets, as if they were among the job's own.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_with(
        &self,
        job: &Job,
        outputs: &Outputs,
        passed: &[OwnedFd],
    ) -> anyhow::Result<Child> {
        let stdout = logs::open(&outputs.stdout)?.into();
        let stderr = logs::open(&outputs.stderr)?.into();
        self.start_at(job, (stdout, stderr), passed)
    }

    /// Likewise, with its standard output and error.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_at(
        &self,
        job: &Job,
        (stdout, stderr): (Stdio, Stdio),
        passed: &[OwnedFd],
    ) -> anyhow::Result<Child> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .arg("run")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        match hand_over(&ours, job, passed) {
            Ok(said) if said.is_empty() => Ok(child),
            failed => {
                let _ = child.kill();
                child.wait()?;
                bail!("{}", failed?)
            }
        }
    }
}

/// Gives the job and waits until the other side has become it, or says why not.
fn hand_over(mut socket: &UnixStream, job: &Job, passed: &[OwnedFd]) -> anyhow::Result<String> {
    socket.set_read_timeout(Some(BECOMES_WITHIN))?;
    sockets::pass(socket, passed).context("pass sockets")?;
    // Who does not read to the end says why.
    let _ = socket.write_all(serde_json::to_string(job)?.as_bytes());
    let _ = socket.shutdown(Shutdown::Write);
    let mut said = String::new();
    let read = socket.read_to_string(&mut said);
    read.with_context(|| format!("{} does not start", job.program.display()))?;
    Ok(said)
}

/// Processes whose network namespace is one of `namespaces`, ourselves excepted.
#[must_use]
pub(crate) fn members(namespaces: &[PathBuf]) -> Vec<i32> {
    let wanted: Vec<_> = namespaces.iter().filter_map(|path| key(path)).collect();
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_inside = |pid: &i32| {
        let namespace = key(Path::new(&format!("/proc/{pid}/ns/net")));
        namespace.is_some_and(|namespace| wanted.contains(&namespace))
    };
    pids.filter(|pid| *pid != own).filter(is_inside).collect()
}

/// What tells one namespace from all others.
fn key(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> (Child, Identity) {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new("sleep");
        let child = command.arg("600").process_group(0).spawn().unwrap();
        let identity = Identity::of(child.id().try_into().unwrap()).unwrap();
        (child, identity)
    }

    #[test]
    fn a_name_with_brackets_does_not_hide_the_start() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        assert_eq!(fields(stat), Some(('S', 4711)));
    }

    #[test]
    fn ends_what_runs_and_leaves_alone_what_only_has_the_number() {
        let (mut child, identity) = sleeper();
        let other = Identity {
            start: identity.start - 1,
            ..identity
        };
        end(&[other], Duration::from_secs(5));
        assert!(identity.is_alive() && !other.is_alive());
        end(&[identity], Duration::from_secs(5));
        assert!(!identity.is_alive());
        child.wait().unwrap();
    }

    #[test]
    fn a_number_that_changes_hands_before_there_is_a_handle_is_left_alone() {
        let (mut child, identity) = sleeper();
        let is_first = std::cell::Cell::new(true);
        let once = || {
            is_first
                .take()
                .then_some(identity.pid)
                .into_iter()
                .collect()
        };
        assert!(!kill(once));
        assert!(identity.is_alive());
        assert!(kill(|| vec![identity.pid]));
        assert!(!identity.is_alive());
        child.wait().unwrap();
        assert!(!kill(|| vec![identity.pid]));
    }

    #[test]
    fn what_does_not_listen_is_killed() {
        let mut command = Command::new("sh");
        let script = "trap '' TERM; echo ready; exec sleep 600";
        command.args(["-c", script]).stdout(Stdio::piped());
        use std::os::unix::process::CommandExt;
        let mut child = command.process_group(0).spawn().unwrap();
        child
            .stdout
            .take()
            .unwrap()
            .read_exact(&mut [0; 6])
            .unwrap();
        let identity = Identity::of(child.id().try_into().unwrap()).unwrap();
        end(&[identity], Duration::from_millis(50));
        assert!(!identity.is_alive());
        child.wait().unwrap();
    }
}
