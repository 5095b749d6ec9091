//! The measured window over the sidecars of a path: counters at both of its ends, and memory at the
//! second. Used by both environments.

use anyhow::Context;

use super::Usage;
use crate::dataplane::Side;
use crate::meter::{Machine, Meter, Reading};

/// Not open, until it is opened.
#[derive(Default)]
pub(super) struct Window {
    opened: Option<(Machine, Vec<Reading>)>,
}

impl Window {
    /// # Errors
    /// When a counter cannot be read: its sidecar is gone.
    pub(super) fn open(&mut self, sidecars: &[(Side, &Meter)]) -> anyhow::Result<()> {
        let machine = Machine::read().unwrap_or_default();
        self.opened = Some((machine, read(sidecars)?));
        Ok(())
    }

    /// What the same sidecars, in the same order, used since.
    ///
    /// # Errors
    /// Likewise, and when it was never opened.
    pub(super) fn close(&mut self, sidecars: &[(Side, &Meter)]) -> anyhow::Result<Usage> {
        let (machine, begins) = self.opened.take().context("the window was never opened")?;
        // All CPU counters before any memory: reading memory takes the kernel milliseconds.
        let ends = read(sidecars)?;
        let end = Machine::read().ok();
        let shares = end.and_then(|end| end.shares_since(machine));
        let (machine_idle, machine_stolen) = shares.unzip();
        let mut usage = Usage {
            machine_idle,
            machine_stolen,
            ..Usage::default()
        };
        for ((side, meter), (begin, end)) in sidecars.iter().zip(begins.into_iter().zip(ends)) {
            let used = meter.usage(begin, end);
            let used = used.context("reading a sidecar's memory")?;
            match side {
                Side::Client => usage.client = Some(used),
                Side::Server => usage.server = Some(used),
            }
        }
        Ok(usage)
    }
}

fn read(sidecars: &[(Side, &Meter)]) -> anyhow::Result<Vec<Reading>> {
    let read = |(side, meter): &(Side, &Meter)| {
        let reading = meter.read();
        reading.with_context(|| format!("reading the {} sidecar's CPU time", side.name()))
    };
    sidecars.iter().map(read).collect()
}
