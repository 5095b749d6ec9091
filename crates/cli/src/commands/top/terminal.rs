//! The terminal while `leno top` has it: keys come one by one, what is shown is on a page of its
//! own. Called by `live`. Must give it back as it was, whatever ends the program but SIGKILL.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};

/// The other page of the terminal, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// From the top left; then, after each line, what is left of what was there; then all below.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// Whether there is one to read keys from and to show something on.
pub(super) fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Ours while it lives.
pub(super) struct Terminal {
    before: Termios,
    ended: Arc<AtomicBool>,
    resized: Arc<AtomicBool>,
}

/// What the user did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Nothing, in the time given.
    Quiet,
    /// Pressed a key.
    Key(char),
    /// Made the window larger or smaller.
    Resized,
    /// Wants it to end, or went away.
    End,
}

impl Terminal {
    pub(super) fn take() -> anyhow::Result<Self> {
        let (ended, resized) = (Arc::default(), Arc::default());
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&ended))?;
        }
        signal_hook::flag::register(SIGWINCH, Arc::clone(&resized))?;
        let before = tcgetattr(io::stdin())?;
        let mut keys = before.clone();
        keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        keys.special_codes[SpecialCodeIndex::VMIN] = 0;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &keys)?;
        let terminal = Self {
            before,
            ended,
            resized,
        };
        terminal.write(ENTER)?;
        Ok(terminal)
    }

    /// Shows these lines and nothing else.
    pub(super) fn show(&self, lines: &[String]) -> io::Result<()> {
        let mut text = HOME.to_owned();
        for (at, line) in lines.iter().enumerate() {
            text += if at == 0 { "" } else { "\r\n" };
            text += line;
            text += CLEAR_LINE;
        }
        self.write(&(text + CLEAR_BELOW))
    }

    /// The next thing that happens within that time.
    pub(super) fn wait(&self, within: Duration) -> io::Result<Event> {
        let stdin = io::stdin();
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        let timeout = Timespec::try_from(within).ok();
        let found = match poll(&mut ready, timeout.as_ref()) {
            Err(Errno::INTR) => 0,
            other => other?,
        };
        if self.ended.load(Ordering::Relaxed) {
            return Ok(Event::End);
        }
        if self.resized.swap(false, Ordering::Relaxed) {
            return Ok(Event::Resized);
        }
        if found == 0 {
            return Ok(Event::Quiet);
        }
        let mut key = [0];
        match stdin.lock().read(&mut key)? {
            0 => Ok(Event::End),
            _ => Ok(Event::Key(char::from(key[0]))),
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = self.write(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
