//! The sidecars of one repeat, and what they used between the two ends of the window.

use std::net::SocketAddr;

use anyhow::Context;

use super::sidecar::Sidecar;
use crate::dataplane::Side;
use crate::environment::{Placed, Usage};
use crate::meter::{Machine, Reading};

/// A path through zero, one or two sidecars of this machine.
pub(super) struct LoopbackPath {
    target: SocketAddr,
    sidecars: Vec<Sidecar>,
    opened: Option<(Machine, Vec<Reading>)>,
}

impl LoopbackPath {
    pub(super) fn new(target: SocketAddr, sidecars: Vec<Sidecar>) -> Self {
        Self {
            target,
            sidecars,
            opened: None,
        }
    }

    fn readings(&self) -> anyhow::Result<Vec<Reading>> {
        let read = |sidecar: &Sidecar| {
            let side = sidecar.side.name();
            sidecar
                .meter
                .read()
                .with_context(|| format!("reading the {side} sidecar's CPU time"))
        };
        self.sidecars.iter().map(read).collect()
    }
}

impl Placed for LoopbackPath {
    fn target(&self) -> SocketAddr {
        self.target
    }

    fn open_window(&mut self) -> anyhow::Result<()> {
        let machine = Machine::read().unwrap_or_default();
        self.opened = Some((machine, self.readings()?));
        Ok(())
    }

    fn close_window(&mut self) -> anyhow::Result<Usage> {
        let (machine, begins) = self.opened.take().context("the window was never opened")?;
        // All CPU counters before any memory: reading memory takes the kernel milliseconds.
        let ends = self.readings()?;
        let shares = Machine::read()
            .ok()
            .and_then(|end| end.shares_since(machine));
        let (machine_idle, machine_stolen) = shares.unzip();
        let mut usage = Usage {
            machine_idle,
            machine_stolen,
            ..Usage::default()
        };
        for (sidecar, (begin, end)) in self.sidecars.iter().zip(begins.into_iter().zip(ends)) {
            let used = sidecar
                .meter
                .usage(begin, end)
                .context("reading a sidecar's memory")?;
            match sidecar.side {
                Side::Client => usage.client = Some(used),
                Side::Server => usage.server = Some(used),
            }
        }
        Ok(usage)
    }

    fn counters(&self) -> Vec<(Side, String)> {
        self.sidecars
            .iter()
            .map(|sidecar| (sidecar.side, sidecar.counters()))
            .collect()
    }

    fn configurations(&self) -> Vec<(String, String)> {
        self.sidecars.iter().map(Sidecar::configuration).collect()
    }

    fn check(&mut self) -> anyhow::Result<()> {
        self.sidecars
            .iter_mut()
            .try_for_each(|sidecar| sidecar.child.check())
    }
}
