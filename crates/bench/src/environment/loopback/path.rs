//! The sidecars of one repeat, and what they used in the window.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::sidecar::Sidecar;
use crate::dataplane::Side;
use crate::environment::window::Window;
use crate::environment::{Part, Placed, Usage};
use crate::meter::Meter;
use crate::perf::{self, Recording};

/// A path through zero, one or two sidecars of this machine.
pub(super) struct LoopbackPath {
    target: SocketAddr,
    sidecars: Vec<Sidecar>,
    window: Window,
}

impl LoopbackPath {
    pub(super) fn new(target: SocketAddr, sidecars: Vec<Sidecar>) -> Self {
        Self {
            target,
            sidecars,
            window: Window::default(),
        }
    }
}

fn metered(sidecars: &[Sidecar]) -> Vec<(Part, &Meter)> {
    let metered = sidecars.iter();
    metered
        .map(|one| (Part::Sidecar(one.side), &one.meter))
        .collect()
}

impl Placed for LoopbackPath {
    fn target(&self) -> SocketAddr {
        self.target
    }

    fn open_window(&mut self) -> anyhow::Result<()> {
        self.window.open(&metered(&self.sidecars))
    }

    fn sample(&mut self) -> anyhow::Result<()> {
        self.window.sample(&metered(&self.sidecars))
    }

    fn close_window(&mut self) -> anyhow::Result<Usage> {
        self.window.close(&metered(&self.sidecars))
    }

    fn profile(&self, length: Duration, dir: &Path) -> anyhow::Result<Vec<Recording>> {
        let sidecars = self.sidecars.iter();
        let metered: Vec<_> = sidecars.map(|one| (one.side.name(), &one.meter)).collect();
        perf::begin(&metered, length, dir)
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
