//! A process whose end can be waited for without standing still, whether it is our child or that of
//! a supervisor before us. Used by the supervisor. Invariant: a child of ours that ended is buried.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use anyhow::Context;
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, WaitIdStatus, waitid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::process::{self, Identity};

/// How long what was killed may take to be gone.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// One process. All copies of it are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    identity: Identity,
    end: watch::Receiver<Option<End>>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Whether it did what it was to do; none: nobody can know, it was not our child.
    pub(crate) succeeded: Option<bool>,
    /// In words.
    pub(crate) text: String,
}

impl Process {
    /// A child that was just started.
    ///
    /// # Errors
    /// When the kernel gives no handle on it; it is ended then.
    pub(crate) fn of(child: &mut Child) -> anyhow::Result<Self> {
        let watch = || {
            let pid = i32::try_from(child.id())?;
            // It cannot be buried by anybody else: the number is its own.
            Self::watch(Identity::of(pid).context("a child has gone astray")?)
        };
        let watched = watch();
        if watched.is_err() {
            // Nobody would know of it.
            let _ = child.kill();
            let _ = child.wait();
        }
        watched
    }

    /// One that somebody else started; none when it has ended.
    pub(crate) fn adopt(identity: Identity) -> Option<Self> {
        identity.is_alive().then(|| Self::watch(identity).ok())?
    }

    fn watch(identity: Identity) -> anyhow::Result<Self> {
        let handle = process::handle(identity.pid).context("open a handle on a process")?;
        #[expect(
            deprecated,
            reason = "sound for a descriptor that it owns and nobody else closes"
        )]
        let handle = AsyncFd::with_interest(handle, Interest::READABLE);
        let handle = handle.context("wait for a process")?;
        let (sender, end) = watch::channel(None);
        spawn_local(async move {
            let waited = handle.readable().await.map(drop);
            let end = waited.map_or_else(|error| lost(&error), |()| bury(handle.get_ref()));
            let _ = sender.send(Some(end));
        });
        Ok(Self { identity, end })
    }

    /// What it is known by.
    pub(crate) const fn identity(&self) -> Identity {
        self.identity
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&self) -> End {
        let mut end = self.end.clone();
        let ended = end.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|end| end.clone());
        ended.unwrap_or_else(|| lost(&"the supervisor ends"))
    }

    /// How it ended; none while it runs.
    pub(crate) fn end(&self) -> Option<End> {
        self.end.borrow().clone()
    }

    /// Asks it and its group to end, and kills it when it takes longer than `grace`.
    pub(crate) async fn finish(&self, grace: Duration) {
        if self.end().is_some() {
            return;
        }
        process::terminate_group(&self.identity);
        if timeout(grace, self.ended()).await.is_err() {
            self.kill().await;
        }
    }

    /// Ends it at once, with its group.
    pub(crate) async fn kill(&self) {
        if self.end().is_none() {
            process::kill_group(&self.identity);
            // One that cannot be killed is not waited for.
            let _ = timeout(KILLED_WITHIN, self.ended()).await;
        }
    }
}

fn lost(error: &impl ToString) -> End {
    End {
        succeeded: None,
        text: format!("lost: {}", error.to_string()),
    }
}

fn bury(handle: &OwnedFd) -> End {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    match waitid(WaitId::PidFd(handle.as_fd()), options) {
        Ok(Some(status)) => told(&status),
        Ok(None) => lost(&"it ended and did not"),
        Err(Errno::CHILD) => End {
            succeeded: None,
            text: "ended under another supervisor than the one that started it".into(),
        },
        Err(error) => lost(&error),
    }
}

fn told(status: &WaitIdStatus) -> End {
    let code = status.exit_status().map(|code| (code & 0xff) << 8);
    let raw = code.or_else(|| status.terminating_signal());
    // As `wait` has it.
    let status = ExitStatus::from_raw(raw.unwrap_or_default());
    End {
        succeeded: Some(status.success()),
        text: status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use tokio::task::LocalSet;

    fn start(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0);
        command.spawn().unwrap()
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, work)
    }

    #[test]
    fn an_end_is_told_to_everybody_and_buried() {
        run(async {
            for (script, expected, succeeded) in [
                ("exit 0", "exit status: 0", true),
                ("exit 3", "exit status: 3", false),
                ("kill -9 $$", "signal: 9 (SIGKILL)", false),
            ] {
                let process = Process::of(&mut start(script)).unwrap();
                let other = process.clone();
                let end = process.ended().await;
                assert_eq!(end.text, expected);
                assert_eq!(end.succeeded, Some(succeeded));
                assert_eq!(other.ended().await, end);
                assert_eq!(Identity::of(process.identity().pid), None, "no zombie");
            }
        });
    }

    #[test]
    fn what_does_not_listen_is_killed() {
        run(async {
            let process =
                Process::of(&mut start("trap '' TERM; while :; do sleep 1; done")).unwrap();
            process.finish(Duration::from_millis(50)).await;
            let end = process.end().unwrap();
            assert!(end.text.starts_with("signal: "), "{}", end.text);
        });
    }

    #[test]
    fn what_has_ended_is_not_adopted() {
        run(async {
            let process = Process::of(&mut start("exit 0")).unwrap();
            process.ended().await;
            assert!(Process::adopt(process.identity()).is_none());
        });
    }
}
