//! Signals as something to wait for: asked to end, or a child has ended. Used by the supervisor.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};

/// What was heard of since.
pub(crate) struct Signals {
    /// Has a byte for each signal.
    pipe: UnixStream,
    asked_to_end: Arc<AtomicBool>,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        let (pipe, sender) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let asked_to_end = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            // First the flag, so that who is woken sees it.
            flag::register(signal, Arc::clone(&asked_to_end))?;
            pipe::register(signal, sender.try_clone()?)?;
        }
        pipe::register(SIGCHLD, sender)?;
        Ok(Self { pipe, asked_to_end })
    }

    /// Whether SIGTERM, SIGINT or SIGHUP came.
    pub(crate) fn is_asked_to_end(&self) -> bool {
        self.asked_to_end.load(Ordering::Relaxed)
    }

    /// Waits for a signal, at most for `limit`.
    pub(crate) fn wait(&self, limit: Duration) {
        let timeout = Timespec::try_from(limit).unwrap_or_default();
        let mut polled = [PollFd::new(&self.pipe, PollFlags::IN)];
        // Interrupted by the signal that it waits for, it has what it wants.
        let _ = poll(&mut polled, Some(&timeout));
        let mut bytes = [0; 64];
        while (&self.pipe).read(&mut bytes).is_ok_and(|length| length > 0) {}
    }
}
