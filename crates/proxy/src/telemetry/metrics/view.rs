//! What the registry holds at one moment, for whoever writes it down. Made by `Registry::view`.
//! Must never hold the registry's lock.

use std::sync::Arc;

use model::Workload;

use super::connections::{self, ConnectionCounters};
use super::dns::DnsCounters;
use super::families::{FAMILIES, Family, Samples};
use super::labels::Labels;
use super::slot::{self, Slot};
use crate::control::Status;

pub(super) struct Parts {
    pub(super) workload: Workload,
    pub(super) series: Vec<(Arc<Labels>, Vec<Arc<Slot>>)>,
    pub(super) workers: Vec<Arc<ConnectionCounters>>,
    pub(super) overflowed: u64,
    /// Accepted, rejected.
    pub(super) reloads: (u64, u64),
    pub(super) access_log_dropped: u64,
    pub(super) dns: Arc<DnsCounters>,
    pub(super) control: Option<Arc<Status>>,
}

pub(super) struct View {
    pub(super) parts: Parts,
    pub(super) connections: connections::Totals,
}

impl View {
    pub(super) fn new(mut parts: Parts) -> Self {
        parts
            .series
            .sort_by(|(a, _), (b, _)| a.pairs().cmp(&b.pairs()));
        let mut connections = connections::Totals::default();
        for worker in &parts.workers {
            connections.add(worker);
        }
        Self { parts, connections }
    }

    /// How many steps [`Self::visit`] takes for `family`.
    pub(super) fn steps(&self, family: &Family) -> usize {
        match family.samples {
            Samples::OfProxy(_) => 1,
            Samples::OfSeries(_) => self.parts.series.len(),
        }
    }

    /// Hands the samples of one step to `out`.
    pub(super) fn visit(&self, family: &Family, step: usize, out: &mut Out<'_>) {
        match family.samples {
            Samples::OfProxy(write) => write(self, out),
            Samples::OfSeries(write) => {
                let (labels, slots) = &self.parts.series[step];
                let mut totals = slot::Totals::default();
                for slot in slots {
                    totals.add(slot);
                }
                write(&labels.pairs(), &totals, out);
            }
        }
    }

    pub(super) fn visit_all(&self, out: &mut dyn FnMut(&'static Family, Sample<'_>)) {
        for family in FAMILIES {
            for step in 0..self.steps(family) {
                self.visit(family, step, &mut |sample| out(family, sample));
            }
        }
    }
}

/// Takes samples one by one.
pub(super) type Out<'a> = dyn FnMut(Sample<'_>) + 'a;

pub(super) type Pair<'a> = (&'a str, &'a str);

/// One line of the page.
pub(super) struct Sample<'a> {
    /// `_bucket`, `_sum` and `_count` of histograms, empty else.
    pub(super) suffix: &'static str,
    pub(super) labels: &'a [Pair<'a>],
    /// Those of one series that differ between its samples.
    pub(super) more: &'a [Pair<'a>],
    pub(super) value: Value,
}

#[derive(Clone, Copy)]
pub(super) enum Value {
    Count(u64),
    /// Shown in seconds.
    Micros(u64),
}
