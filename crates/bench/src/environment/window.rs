//! The measured window over the sidecars of a path and what else is watched: counters at both of
//! its ends, and memory at the second. Used by both environments.

use anyhow::Context;

use super::{Part, Usage};
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
    /// Of each part.
    samples: Vec<Vec<UsageSample>>,
}

impl Window {
    /// # Errors
    /// When a counter cannot be read: its process is gone.
    pub(super) fn open(&mut self, parts: &[(Part, &Meter)]) -> anyhow::Result<()> {
        let machine = Machine::read().unwrap_or_default();
        let begins = read(parts)?;
        self.opened = Some(Opened {
            machine,
            latest: begins.clone(),
            begins,
            samples: vec![Vec::new(); parts.len()],
        });
        Ok(())
    }

    /// Takes a sample of each of the same parts, in the same order; nothing while it is closed.
    ///
    /// # Errors
    /// As [`Window::open`].
    pub(super) fn sample(&mut self, parts: &[(Part, &Meter)]) -> anyhow::Result<()> {
        let Some(opened) = &mut self.opened else {
            return Ok(());
        };
        let now = read(parts)?;
        for (place, (_, meter)) in parts.iter().enumerate() {
            let (begin, before) = (opened.begins[place], opened.latest[place]);
            opened.samples[place].push(meter.sample(begin, before, now[place]));
        }
        opened.latest = now;
        Ok(())
    }

    /// What the same parts, in the same order, used since it was opened.
    ///
    /// # Errors
    /// Likewise, and when it was never opened.
    pub(super) fn close(&mut self, parts: &[(Part, &Meter)]) -> anyhow::Result<Usage> {
        let opened = self.opened.take().context("the window was never opened")?;
        // All CPU counters before any memory: reading memory takes the kernel milliseconds.
        let ends = read(parts)?;
        let end = Machine::read().ok();
        let shares = end.and_then(|end| end.shares_since(opened.machine));
        let (machine_idle, machine_stolen) = shares.unzip();
        let mut usage = Usage {
            machine_idle,
            machine_stolen,
            ..Usage::default()
        };
        let windows = opened.begins.into_iter().zip(ends).zip(opened.samples);
        for ((part, meter), ((begin, end), samples)) in parts.iter().zip(windows) {
            let used = meter.usage(begin, end);
            let used =
                used.with_context(|| format!("reading the memory of the {}", part.name()))?;
            *usage.of(*part) = Some(SidecarUsage { samples, ..used });
        }
        Ok(usage)
    }
}

fn read(parts: &[(Part, &Meter)]) -> anyhow::Result<Vec<Reading>> {
    let read = |(part, meter): &(Part, &Meter)| {
        let reading = meter.read();
        reading.with_context(|| format!("reading the CPU time of the {}", part.name()))
    };
    parts.iter().map(read).collect()
}
