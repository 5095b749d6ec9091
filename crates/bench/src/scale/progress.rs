//! How far a run is, on standard error: a line that moves on a terminal, a line a phase elsewhere.
//! Shown by `measure`.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use crate::interrupt::Interrupt;

/// How often somebody who waits looks.
const LOOK: Duration = Duration::from_millis(5);

/// What is shown, and whether to go on.
pub(super) struct Progress {
    bar: ProgressBar,
    is_live: bool,
    interrupt: Interrupt,
}

impl Progress {
    /// Nothing is shown yet.
    ///
    /// # Errors
    /// When signals cannot be heard.
    pub(super) fn begin() -> anyhow::Result<Self> {
        let is_live = std::io::stderr().is_terminal();
        let bar = match is_live {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        Ok(Self {
            bar,
            is_live,
            interrupt: Interrupt::listen()?,
        })
    }

    /// Something is finished.
    pub(super) fn say(&self, text: &str) {
        match self.is_live {
            true => self.bar.println(text),
            false => eprintln!("{text}"),
        }
    }

    /// Something goes on.
    pub(super) fn show(&self, text: impl Into<String>) {
        if self.is_live {
            self.bar.set_message(text.into());
            self.bar.tick();
        }
    }

    /// Waits until `look` says that it is done, showing what it says.
    ///
    /// # Errors
    /// When it takes longer than `limit`, `look` fails, or somebody interrupts.
    pub(super) fn wait(
        &self,
        limit: Duration,
        mut look: impl FnMut() -> anyhow::Result<Look>,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + limit;
        loop {
            match look()? {
                Look::Done => return Ok(()),
                Look::Goes(how) if Instant::now() > end => {
                    anyhow::bail!("{how} after {} s", limit.as_secs())
                }
                Look::Goes(how) => self.show(how),
            }
            self.pause(LOOK)?;
        }
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// When somebody interrupts.
    pub(super) fn pause(&self, time: Duration) -> anyhow::Result<()> {
        anyhow::ensure!(!self.interrupt.is_raised(), "interrupted");
        std::thread::sleep(time);
        Ok(())
    }
}

/// What somebody who waits sees.
pub(super) enum Look {
    Done,
    /// How far it is.
    Goes(String),
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
