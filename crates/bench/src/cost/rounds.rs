//! The interleaved rounds: every contestant is up, each has one window per round, in random order.
//! Called by `cost`; what else is measured (latency, memory, instructions) has files of its own.

use std::time::Duration;

use anyhow::{Context, bail};

use super::contestant::{Contestant, Topology};
use super::drive::{Backend, Load, drive};
use super::outcome::{Outcome, Row, Setting, Window};
use super::subject::{Stage, Subject};
use super::{Plan, instructions, latency, memory, netns, pki};

/// Starts of which the median counts; the first may read the program from disk.
const STARTS: usize = 5;
const WARM_UP: Duration = Duration::from_millis(300);

/// Where the generator and the backend run, and where the proxies do.
pub(crate) struct Cores {
    pub(crate) load: Option<usize>,
    pub(crate) proxies: Option<usize>,
}

impl Cores {
    /// The first two cores that this process may use, or no pinning with one.
    fn choose() -> Self {
        match crate::process::usable_cpus()[..] {
            [proxies, load, ..] => Self {
                load: Some(load),
                proxies: Some(proxies),
            },
            _ => Self {
                load: None,
                proxies: None,
            },
        }
    }
}

/// Measures everything that the plan asks for.
///
/// # Errors
/// When nothing can be started, or a contestant fails while it is measured.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Outcome> {
    let folder = tempfile::tempdir()?;
    pki::write(folder.path()).context("make certificates")?;
    let cores = Cores::choose();
    let backend = Backend::start(cores.load)?;
    let stage = Stage {
        backend: backend.address(),
        folder: folder.path(),
        given: &plan.given,
        core: cores.proxies,
        connections_max: 1024.max(plan.connections * 2),
        congestion: netns::congestion(),
        wrapper: Vec::new(),
    };
    let mut outcome = Outcome::new(Setting::of(plan, &cores));
    for &topology in &plan.topologies {
        let subjects = start_all(plan, topology, &stage, &mut outcome)?;
        if plan.rounds > 0 {
            measure(plan, &subjects, &cores, &mut outcome)?;
        }
        if plan.latency {
            latency::measure(plan, &subjects, &stage, &cores, &mut outcome)?;
        }
        let present: Vec<Contestant> = subjects.iter().map(|s| s.contestant).collect();
        drop(subjects);
        if plan.memory {
            memory::measure(topology, &present, &stage, &cores, &mut outcome)?;
        }
        if plan.instructions {
            instructions::measure(plan, topology, &present, &stage, &mut outcome)?;
        }
    }
    Ok(outcome)
}

fn start_all(
    plan: &Plan,
    topology: Topology,
    stage: &Stage<'_>,
    outcome: &mut Outcome,
) -> anyhow::Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    for &contestant in &plan.contestants {
        match Subject::start(contestant, topology, stage) {
            Ok(subject) => subjects.push(subject),
            Err(error) if plan.named => return Err(error),
            Err(error) => outcome.miss(contestant, &error),
        }
    }
    if subjects.is_empty() {
        bail!(
            "no contestant could be started: {}",
            outcome.missing.join("; ")
        );
    }
    for subject in &subjects {
        let mut row = Row::new(subject.contestant, subject.topology);
        row.idle_pss_bytes = subject.pss_bytes()?;
        row.start_up_millis.push(millis(subject));
        for _ in 1..STARTS {
            row.start_up_millis.push(millis(&subject.again(stage)?));
        }
        outcome.rows.push(row);
    }
    Ok(subjects)
}

fn millis(subject: &Subject) -> f64 {
    subject.start_up.as_secs_f64() * 1e3
}

fn measure(
    plan: &Plan,
    subjects: &[Subject],
    cores: &Cores,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    for subject in subjects {
        // Pools fill and lazy memory is touched before anything counts.
        window(plan, subject, cores, Duration::from_millis(500))?;
    }
    let first = outcome.rows.len() - subjects.len();
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    let mut dice = Dice::new(plan.seed);
    for round in 1..=plan.rounds {
        dice.shuffle(&mut order);
        for &index in &order {
            let subject = &subjects[index];
            let (taken, pss_bytes) = window(plan, subject, cores, plan.window)?;
            eprintln!(
                "{:5} {:7} round {round:2}/{}: {:6.2} µs per request, {:6.0} requests/s",
                subject.topology.name(),
                subject.contestant.name(),
                plan.rounds,
                taken.cpu_micros,
                taken.rate
            );
            let row = &mut outcome.rows[first + index];
            row.windows.push(taken);
            row.loaded_pss_bytes = row.loaded_pss_bytes.max(pss_bytes);
        }
    }
    Ok(())
}

fn window(
    plan: &Plan,
    subject: &Subject,
    cores: &Cores,
    length: Duration,
) -> anyhow::Result<(Window, u64)> {
    let load = Load {
        target: subject.entry,
        tls: None,
        connections: plan.connections,
        size: plan.size,
        rate: None,
        warm_up: WARM_UP,
        window: length,
        core: cores.load,
    };
    let driven = drive(&load, Some(subject)).with_context(|| subject.contestant.name())?;
    let requests = driven.rate * driven.seconds;
    let window = Window {
        requests: requests as u64,
        cpu_micros: driven.cpu_nanos as f64 / 1e3 / requests,
        rate: driven.rate,
        busy: driven.cpu_nanos as f64 / 1e9 / driven.seconds,
        others: driven.others,
    };
    Ok((window, driven.pss_bytes))
}

/// Random order (xorshift), the same for the same seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // A state of zero would stay zero; neighbouring seeds must not begin alike.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn shuffle(&mut self, items: &mut [usize]) {
        for index in (1..items.len()).rev() {
            let other = self.next() % (index as u64 + 1);
            items.swap(index, other as usize);
        }
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_holds_everybody_and_depends_on_the_seed() {
        let shuffled = |seed| {
            let mut order: Vec<usize> = (0..8).collect();
            Dice::new(seed).shuffle(&mut order);
            order
        };
        let mut sorted = shuffled(1);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..8).collect::<Vec<_>>());
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
    }
}
