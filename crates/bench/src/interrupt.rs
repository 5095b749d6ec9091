//! Ctrl-C and SIGTERM as a flag: the run stops, keeps what it has and cleans up.
//! A second one ends the program at once; children then die with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// What a shell reports for a program that ended by SIGINT.
const INTERRUPTED_STATUS: i32 = 130;

/// Whether somebody wants us to stop.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    raised: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens from now on.
    ///
    /// # Errors
    /// When a handler cannot be installed.
    pub fn listen() -> anyhow::Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // Order matters: the first signal finds the flag unset here and sets it below.
            let raised = Arc::clone(&interrupt.raised);
            flag::register_conditional_shutdown(signal, INTERRUPTED_STATUS, raised)
                .context("listening for signals")?;
            flag::register(signal, Arc::clone(&interrupt.raised))
                .context("listening for signals")?;
        }
        Ok(interrupt)
    }

    /// Whether a signal came.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }
}
