//! What one hop, or a pair, adds to the latency at a low fixed rate.
//! Called by `rounds`: direct and through each contestant in turn, differences within a round.

use std::time::Duration;

use anyhow::{Context, bail};

use super::cell::{Cell, Scene, Shape};
use super::drive::{Driven, Load, drive};
use super::outcome::{Latency, Outcome, Percentiles};
use super::plan::Plan;
use super::rounds::{Dice, start_all};
use super::subject::{Stage, Subject};

/// One request at a time on each, also where there could be more.
const SHAPE: Shape = Shape {
    connections: 16,
    streams: 1,
};
pub(crate) const RATE: f64 = 1000.0;
const WARM_UP: Duration = Duration::from_millis(500);
/// A window in which the generator was late is taken again this often.
const RETAKES: u32 = 3;
/// Fewer say nothing about a difference.
pub(crate) const ROUNDS_MIN: u32 = 3;

/// Adds one [`Latency`] per contestant to the outcome.
///
/// # Errors
/// When a request fails.
pub(crate) fn measure(
    plan: &Plan,
    scene: Scene,
    stage: &Stage<'_>,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let subjects = start_all(plan, scene, stage, outcome)?;
    let cell = scene.cell(SHAPE, plan.size);
    let mut through: Vec<Percentiles> = vec![Percentiles::default(); subjects.len()];
    let mut direct = Percentiles::default();
    // Index 0 is the way without a proxy.
    let mut order: Vec<usize> = (0..=subjects.len()).collect();
    let mut dice = Dice::new(plan.seed);
    for round in 1..=plan.rounds.max(ROUNDS_MIN) {
        dice.shuffle(&mut order);
        for &index in &order {
            let subject = index.checked_sub(1).map(|index| &subjects[index]);
            let load = open_loop(subject, &cell, stage, plan.window);
            let driven = kept(&load, subject)?;
            let percentiles = match index {
                0 => &mut direct,
                _ => &mut through[index - 1],
            };
            percentiles.push(&driven.latency);
        }
        let p50 = direct.p50_micros.last().copied().unwrap_or(0.0);
        eprintln!("{scene} latency round {round:2}: direct P50 {p50:.0} µs");
    }
    for (subject, through) in subjects.iter().zip(through) {
        outcome.latencies.push(Latency {
            contestant: subject.contestant,
            cell,
            rate: RATE,
            added: through.less(&direct),
            direct: direct.clone(),
        });
    }
    Ok(())
}

/// `cell`'s shape at the low fixed rate, through `subject` or directly.
pub(crate) fn open_loop(
    subject: Option<&Subject>,
    cell: &Cell,
    stage: &Stage<'_>,
    window: Duration,
) -> Load {
    let target = subject.map_or(stage.backend, |subject| subject.entry);
    Load {
        rate: Some(RATE),
        warm_up: WARM_UP,
        core: stage.cores.load,
        ..Load::closed(target, cell, window)
    }
}

/// A window in which the generator kept its schedule.
///
/// # Errors
/// When it never did, or a request failed.
pub(crate) fn kept(load: &Load, subject: Option<&Subject>) -> anyhow::Result<Driven> {
    let driven = taken(load, subject)?;
    if let load::Verdict::Void { .. } = driven.verdict {
        let name = subject.map_or("direct", |subject| subject.contestant.name());
        bail!("{name}: the generator was late in every window: use a quieter machine");
    }
    Ok(driven)
}

/// The same, or the last of several windows where it never did.
///
/// # Errors
/// When a request failed.
pub(crate) fn taken(load: &Load, subject: Option<&Subject>) -> anyhow::Result<Driven> {
    let name = subject.map_or("direct", |subject| subject.contestant.name());
    let mut retakes = 0;
    loop {
        let driven = drive(load, subject).with_context(|| name)?;
        match &driven.verdict {
            load::Verdict::Void { reason } if retakes < RETAKES => {
                eprintln!("{name}: void, taken again: {reason}");
                retakes += 1;
            }
            _ => return Ok(driven),
        }
    }
}
