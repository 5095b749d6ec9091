//! What one hop, or a pair, adds to the median latency at a low fixed rate.
//! Called by `rounds`: direct and through each contestant in turn, differences within a round.

use std::time::Duration;

use anyhow::{Context, bail};

use super::Plan;
use super::drive::{Load, drive};
use super::outcome::{Latency, Outcome};
use super::rounds::{Cores, Dice};
use super::subject::{Stage, Subject};

const CONNECTIONS: usize = 16;
const RATE: f64 = 1000.0;
const WARM_UP: Duration = Duration::from_millis(500);
/// A window in which the generator was late is taken again this often.
const RETAKES: u32 = 3;

/// Adds one [`Latency`] per subject to the outcome.
///
/// # Errors
/// When a request fails.
pub(crate) fn measure(
    plan: &Plan,
    subjects: &[Subject],
    stage: &Stage<'_>,
    cores: &Cores,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let mut added: Vec<Vec<f64>> = vec![Vec::new(); subjects.len()];
    let mut direct = Vec::new();
    // Index 0 is the way without a proxy.
    let mut order: Vec<usize> = (0..=subjects.len()).collect();
    let mut dice = Dice::new(plan.seed);
    for round in 1..=plan.rounds.max(3) {
        dice.shuffle(&mut order);
        let mut medians = vec![0.0; order.len()];
        for &index in &order {
            let subject = index.checked_sub(1).map(|index| &subjects[index]);
            medians[index] = median_micros(plan, subject, stage, cores)?;
        }
        direct.push(medians[0]);
        for (index, added) in added.iter_mut().enumerate() {
            added.push(medians[index + 1] - medians[0]);
        }
        let topology = subjects[0].topology.name();
        eprintln!(
            "{topology:5} latency round {round:2}: direct P50 {:.0} µs",
            medians[0]
        );
    }
    for (subject, added_micros) in subjects.iter().zip(added) {
        outcome.latencies.push(Latency {
            contestant: subject.contestant,
            topology: subject.topology,
            connections: CONNECTIONS,
            rate: RATE,
            direct_micros: direct.clone(),
            added_micros,
        });
    }
    Ok(())
}

fn median_micros(
    plan: &Plan,
    subject: Option<&Subject>,
    stage: &Stage<'_>,
    cores: &Cores,
) -> anyhow::Result<f64> {
    let load = Load {
        target: subject.map_or(stage.backend, |subject| subject.entry),
        tls: None,
        connections: CONNECTIONS,
        size: plan.size,
        rate: Some(RATE),
        warm_up: WARM_UP,
        window: plan.window,
        core: cores.load,
    };
    let name = subject.map_or("direct", |subject| subject.contestant.name());
    for _ in 0..=RETAKES {
        let driven = drive(&load, subject).with_context(|| name)?;
        match driven.verdict {
            load::Verdict::Void { reason } => eprintln!("{name}: void, taken again: {reason}"),
            _ => return Ok(driven.latency.value_at_quantile(0.5) as f64 / 1e3),
        }
    }
    bail!("{name}: the generator was late in every window: use a quieter machine")
}
