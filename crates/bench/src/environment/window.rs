//! The measured window over the sidecars of a path: counters at both of its ends, and memory at the
//! second. Used by both environments.

use anyhow::Context;

use super::Usage;
use crate::dataplane::Side;
use crate::meter::{Machine, Meter, Reading};
use crate::results::{SidecarUsage, UsageSample};

/// Not open, until it is opened.
#[derive(Default)]
pub(super) struct Window {
    opened: Option<Opened>,
}

struct Opened {
    machine: Machine,
    begins: Vec<Reading>,
    latest: Vec<Reading>,
    /// Of each sidecar.
    samples: Vec<Vec<UsageSample>>,
}

impl Window {
    /// # Errors
    /// When a counter cannot be read: its sidecar is gone.
    pub(super) fn open(&mut self, sidecars: &[(Side, &Meter)]) -> anyhow::Result<()> {
        let machine = Machine::read().unwrap_or_default();
        let begins = read(sidecars)?;
        self.opened = Some(Opened {
            machine,
            latest: begins.clone(),
            begins,
            samples: vec![Vec::new(); sidecars.len()],
        });
        Ok(())
    }

    /// Takes a sample of each of the same sidecars, in the same order; nothing while it is closed.
    ///
    /// # Errors
    /// As [`Window::open`].
    pub(super) fn sample(&mut self, sidecars: &[(Side, &Meter)]) -> anyhow::Result<()> {
        let Some(opened) = &mut self.opened else {
            return Ok(());
        };
        let now = read(sidecars)?;
        for (place, (_, meter)) in sidecars.iter().enumerate() {
            let (begin, before) = (opened.begins[place], opened.latest[place]);
            opened.samples[place].push(meter.sample(begin, before, now[place]));
        }
        opened.latest = now;
        Ok(())
    }

    /// What the same sidecars, in the same order, used since it was opened.
    ///
    /// # Errors
    /// Likewise, and when it was never opened.
    pub(super) fn close(&mut self, sidecars: &[(Side, &Meter)]) -> anyhow::Result<Usage> {
        let opened = self.opened.take().context("the window was never opened")?;
        // All CPU counters before any memory: reading memory takes the kernel milliseconds.
        let ends = read(sidecars)?;
        let end = Machine::read().ok();
        let shares = end.and_then(|end| end.shares_since(opened.machine));
        let (machine_idle, machine_stolen) = shares.unzip();
        let mut usage = Usage {
            machine_idle,
            machine_stolen,
            ..Usage::default()
        };
        let windows = opened.begins.into_iter().zip(ends).zip(opened.samples);
        for ((side, meter), ((begin, end), samples)) in sidecars.iter().zip(windows) {
            let used = meter.usage(begin, end);
            let used = used.context("reading a sidecar's memory")?;
            *usage.of(*side) = Some(SidecarUsage { samples, ..used });
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
