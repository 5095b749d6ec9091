//! The successor's side: asks whoever serves for its sockets, and tells it when it may go. Called
//! at the start, before there is another thread, and once more when all is ready; waits for each
//! answer, but not for ever.

use super::message::{Line, VERSION};
use super::parcel::{Inbox, Outbox};
use super::{ANSWER_TIMEOUT, Handed};
use crate::log;
use anyhow::{Context, bail};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// The process that serves until this one is ready.
pub(crate) struct Predecessor {
    connection: OwnedFd,
    inbox: Inbox,
    pid: i32,
}

/// Takes over from whoever serves at `path`; `None` if nobody does.
///
/// # Errors
/// When somebody is there who is not of this user, or does not give its sockets.
pub(crate) fn take(path: &Path) -> anyhow::Result<Option<(Predecessor, Vec<Handed>)>> {
    let Some(connection) = reach(path)? else {
        return Ok(None);
    };
    let peer = rustix::net::sockopt::socket_peercred(&connection)?;
    anyhow::ensure!(
        peer.uid == rustix::process::geteuid(),
        "it is served by user {}, not by this one; choose a `handover` that nobody else may write",
        peer.uid.as_raw()
    );
    let mut predecessor = Predecessor {
        connection,
        inbox: Inbox::default(),
        pid: peer.pid.as_raw_nonzero().get(),
    };
    // Why it is not listened to, if it is not, may have come already.
    let said = predecessor.say(&Line::Take { version: VERSION });
    let sockets = match predecessor.hear()? {
        Some(Line::Give { sockets }) => sockets,
        Some(Line::Refuse { why }) => bail!("process {} refuses: {why}", predecessor.pid),
        Some(other) => bail!("process {} says {other:?}", predecessor.pid),
        None => {
            // It was about to end.
            let (pid, why) = (predecessor.pid, because(said));
            log::info(format_args!("process {pid} gives nothing{why}"));
            return Ok(None);
        }
    };
    let fds = predecessor.receive(sockets.len())?;
    let handed = sockets.into_iter().zip(fds);
    let handed = handed.map(|(description, fd)| Handed { description, fd });
    log::info(format_args!("taking over from process {}", predecessor.pid));
    Ok(Some((predecessor, handed.collect())))
}

/// A connection to whoever listens at `path`.
fn reach(path: &Path) -> anyhow::Result<Option<OwnedFd>> {
    let addr = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let connection = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    for which in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&connection, which, Some(ANSWER_TIMEOUT))?;
    }
    match connect(&connection, &addr) {
        Ok(()) => Ok(Some(connection)),
        // What an earlier process left behind, or nothing.
        Err(Errno::NOENT | Errno::CONNREFUSED) => Ok(None),
        Err(Errno::AGAIN) => bail!("whoever serves there does not answer"),
        Err(error) => Err(error).context("nobody can be asked"),
    }
}

impl Predecessor {
    /// Has it go, now that this process can begin. Until this returns, nothing is to be accepted.
    ///
    /// # Errors
    /// When it serves on and this process is to end.
    pub(crate) fn relieve(mut self) -> anyhow::Result<()> {
        // Why it is not listened to, if it is not, may have come already.
        let said = self.say(&Line::Ready);
        match self.hear() {
            Ok(Some(Line::Go)) => Ok(()),
            Ok(Some(Line::Refuse { why })) => bail!("process {} goes on: {why}", self.pid),
            Ok(Some(other)) => bail!("process {} says {other:?}", self.pid),
            Err(error) => Err(error),
            // Nobody else serves any more.
            Ok(None) => {
                let (pid, why) = (self.pid, because(said));
                log::warn(format_args!("process {pid} has ended by itself{why}"));
                Ok(())
            }
        }
    }

    fn say(&self, line: &Line) -> anyhow::Result<()> {
        let mut outbox = Outbox::new(line, &[])?;
        while !self.unless_interrupted(|| outbox.flush(self.connection.as_fd()))? {}
        Ok(())
    }

    /// What is said next; `None` at the end.
    fn hear(&mut self) -> anyhow::Result<Option<Line>> {
        loop {
            if let Some(line) = self.inbox.line()? {
                return Ok(Some(line));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    fn receive(&mut self, count: usize) -> anyhow::Result<Vec<OwnedFd>> {
        loop {
            if let Some(fds) = self.inbox.take_fds(count) {
                return Ok(fds);
            }
            anyhow::ensure!(self.fill()?, "it ended before it had given its sockets");
        }
    }

    fn fill(&mut self) -> anyhow::Result<bool> {
        let mut inbox = std::mem::take(&mut self.inbox);
        let filled = self.unless_interrupted(|| inbox.fill(self.connection.as_fd()));
        self.inbox = inbox;
        match filled {
            // It is gone, and did not hear everything.
            Err(error) if is_reset(&error) => Ok(false),
            filled => filled,
        }
    }

    fn unless_interrupted(
        &self,
        mut call: impl FnMut() -> io::Result<bool>,
    ) -> anyhow::Result<bool> {
        loop {
            match call() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    bail!("process {} does not answer", self.pid)
                }
                called => return Ok(called?),
            }
        }
    }
}

fn is_reset(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref().map(io::Error::kind);
    kind == Some(io::ErrorKind::ConnectionReset)
}

/// The end of a sentence.
fn because(said: anyhow::Result<()>) -> String {
    let why = said.err().map(|error| format!(": {error}"));
    why.unwrap_or_default()
}
