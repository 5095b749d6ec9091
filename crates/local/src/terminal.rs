//! A terminal of its own for a command that somebody runs at theirs. One who has another's terminal
//! can type there (`TIOCSTI`), and read what is typed later: an application would be root with the
//! next `leno exec`. Called by `command`. Must never leave the caller's terminal other than it was.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{Gid, Uid, fchown};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize};
use rustix::termios::{tcsetattr, tcsetwinsize};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;

use crate::job::Job;
use crate::process::{self, Identity, Launcher};

/// What leads to the terminal of whoever calls us, if there is one.
const CALLERS: &str = "/dev/tty";
/// For the last words of a command that has ended, while what it has started goes on.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Carried at once.
const CHUNK_BYTES: usize = 16 * 1024;
/// What shells add to the number of the signal that ended something.
const SIGNALLED: i32 = 128;

/// Whether we have a terminal that a command could take hold of.
pub(crate) fn is_there() -> bool {
    File::open(CALLERS).is_ok()
}

/// Runs `job` until it ends, in a session of its own; gives the status that is ours too.
///
/// # Errors
/// Why it could not become its program.
pub(crate) fn run(launcher: &Launcher, job: Job) -> anyhow::Result<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _within = runtime.enter();
    let mut signals = Signals::new()?;
    let terminal = Terminal::open(job.user)?;
    let (child, lines) = start(launcher, job, terminal.as_ref())?;
    let pid = i32::try_from(child.id())?;
    let status = runtime.block_on(signals.forward(pid, child, &lines));
    if let Some(terminal) = terminal {
        terminal.finish(&lines);
    }
    // A thread may wait for the caller to type.
    runtime.shutdown_background();
    let status = status?;
    let signalled = status.signal().map(|number| SIGNALLED + number);
    Ok(status.code().or(signalled).unwrap_or(1))
}

/// What goes between the two terminals.
struct Lines {
    /// The other end of the command's.
    ours: Option<File>,
    /// Tells when everything was carried that it said.
    said: Receiver<()>,
}

fn start(
    launcher: &Launcher,
    job: Job,
    terminal: Option<&Terminal>,
) -> anyhow::Result<(Child, Lines)> {
    let pick = |own: BorrowedFd<'_>, is_terminal: bool| match terminal {
        Some(terminal) if is_terminal => terminal.theirs.try_clone(),
        _ => own.try_clone_to_owned(),
    };
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let mut passed = vec![pick(stdin.as_fd(), stdin.is_terminal())?];
    if let Some(terminal) = terminal {
        passed.push(terminal.theirs.try_clone()?);
    }
    let outputs = (
        Stdio::from(pick(stdout.as_fd(), stdout.is_terminal())?),
        Stdio::from(pick(stderr.as_fd(), stderr.is_terminal())?),
    );
    let attached = Job {
        is_attached: true,
        ..job
    };
    let child = launcher.start_at(&attached, outputs, &passed)?;
    let (sender, said) = channel();
    let ours = terminal.map(|terminal| terminal.ours.try_clone());
    let ours = ours.transpose()?.map(File::from);
    if let Some(from) = &ours {
        let (from, to) = (from.try_clone()?, from.try_clone()?);
        if terminal.is_some_and(|terminal| terminal.before.is_some()) {
            thread::spawn(move || carry(io::stdin(), to));
        }
        thread::spawn(move || {
            match io::stdout().is_terminal() {
                true => carry(from, io::stdout()),
                false => carry(from, io::stderr()),
            }
            // Whoever waits for it may have given up.
            let _ = sender.send(());
        });
    }
    Ok((child, Lines { ours, said }))
}

/// Until either end is over.
fn carry(mut from: impl Read, mut to: impl Write) {
    let mut chunk = [0; CHUNK_BYTES];
    loop {
        let carried = match from.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => to.write_all(&chunk[..count]).and_then(|()| to.flush()),
            Err(error) => Err(error),
        };
        match carried {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
            _ => {}
        }
    }
}

/// The command's, with what the caller's was like.
struct Terminal {
    ours: OwnedFd,
    theirs: OwnedFd,
    /// None: what is typed is not for us, as we are in the background or read something else.
    before: Option<Termios>,
}

impl Terminal {
    /// None where the caller's is not among our first three files.
    fn open(user: u32) -> anyhow::Result<Option<Self>> {
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let is_any = stdin.is_terminal() || stdout.is_terminal() || stderr.is_terminal();
        if !is_any {
            return Ok(None);
        }
        let make = || {
            let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
            let ours = openpt(flags)?;
            grantpt(&ours)?;
            unlockpt(&ours)?;
            let theirs = ioctl_tiocgptpeer(&ours, flags)?;
            // Without root it is.
            let _ = fchown(&theirs, Some(Uid::from_raw(user)), None::<Gid>);
            Ok::<_, io::Error>((ours, theirs))
        };
        let (ours, theirs) = make().context("make a terminal for the command")?;
        let own = rustix::process::getpgrp();
        let is_read = stdin.is_terminal() && tcgetpgrp(&stdin).is_ok_and(|group| group == own);
        let before = is_read.then(|| tcgetattr(&stdin)).transpose()?;
        if let Some(before) = &before {
            // It is as the caller is used to; and the caller's passes on every key as it is.
            tcsetattr(&theirs, OptionalActions::Now, before)?;
            let mut raw = before.clone();
            raw.make_raw();
            tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        }
        resize(ours.as_fd());
        Ok(Some(Self {
            ours,
            theirs,
            before,
        }))
    }

    /// Waits for what the command said last.
    fn finish(self, lines: &Lines) {
        drop(self);
        let _ = lines.said.recv_timeout(LAST_WORDS);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// As large as the caller's.
fn resize(ours: BorrowedFd<'_>) {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let all = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    if let Some(size) = all.iter().find_map(|one| tcgetwinsize(one).ok()) {
        let _ = tcsetwinsize(ours, size);
    }
}

/// What the caller's terminal, and whoever ends us, has to say.
struct Signals {
    ends: [Signal; 3],
    resized: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let [interrupt, terminate, hang_up] = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ]
        .map(signal);
        Ok(Self {
            ends: [interrupt?, terminate?, hang_up?],
            resized: signal(SignalKind::window_change())?,
        })
    }

    /// Until the command has ended, which is asked to when we are.
    async fn forward(
        &mut self,
        pid: i32,
        mut child: Child,
        lines: &Lines,
    ) -> io::Result<ExitStatus> {
        let mut ended = spawn_blocking(move || child.wait());
        let [interrupt, terminate, hang_up] = &mut self.ends;
        loop {
            tokio::select! {
                status = &mut ended => return status.map_err(io::Error::other)?,
                _ = interrupt.recv() => end(pid),
                _ = terminate.recv() => end(pid),
                _ = hang_up.recv() => end(pid),
                _ = self.resized.recv() => {
                    if let Some(ours) = &lines.ours {
                        resize(ours.as_fd());
                    }
                }
            }
        }
    }
}

fn end(pid: i32) {
    if let Some(identity) = Identity::of(pid) {
        process::terminate_group(&identity);
    }
}
