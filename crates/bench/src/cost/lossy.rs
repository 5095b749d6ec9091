//! A pair with a slow and lossy link between its sidecars: what requests wait for.
//! Called by `rounds`. The generator and its sidecar are on one side of the link, the server and
//! its sidecar on the other.

use std::time::Duration;

use anyhow::Context;

use super::cell::{Scene, Shape};
use super::contestant::Contestant;
use super::drive::{Backend, Load};
use super::far::{Far, LINK};
use super::latency::{ROUNDS_MIN, open_loop, taken};
use super::outcome::{Lossy, Outcome, Percentiles};
use super::plan::Plan;
use super::rounds::{Dice, start_all};
use super::subject::Stage;

const SHAPE: Shape = Shape {
    connections: 64,
    streams: 1,
};
/// Lost handshakes are tried again after one second and after two more.
const WARM_UP: Duration = Duration::from_secs(4);
/// Unless others are named: how few connections shared by many compare to one for each.
const CONTESTANTS: [Contestant; 2] = [Contestant::Leno, Contestant::LenoHttp1];

/// Adds one [`Lossy`] per contestant to the outcome, or why there is none.
///
/// # Errors
/// When a request fails.
pub(crate) fn measure(
    plan: &Plan,
    scene: Scene,
    stage: &Stage<'_>,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let far = match Far::build(stage.cores.load, plan.seed) {
        Ok(far) => far,
        Err(error) => {
            outcome.missing.push(format!("netem: {error:#}"));
            return Ok(());
        }
    };
    let backend = far.within(|| Backend::start(scene.protocol, stage.cores.backend))??;
    let stage = Stage {
        backend: backend.address(),
        far: Some(&far),
        ..stage.clone()
    };
    let mut subjects = start_all(plan, scene, &stage, outcome)?;
    subjects.retain(|subject| match subject.contestant {
        // It waits for each connection it makes, which on such a link takes all its time.
        Contestant::Floor => false,
        contestant => plan.named || CONTESTANTS.contains(&contestant),
    });
    let cell = scene.cell(SHAPE, plan.size);
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    let mut late = Vec::new();
    let mut percentiles = vec![Percentiles::default(); subjects.len()];
    let mut dice = Dice::new(plan.seed);
    for round in 1..=plan.rounds.max(ROUNDS_MIN) {
        dice.shuffle(&mut order);
        for &index in &order {
            let subject = &subjects[index];
            let load = Load {
                warm_up: WARM_UP,
                ..open_loop(Some(subject), &cell, &stage, plan.window)
            };
            let driven = taken(&load, Some(subject)).context(LINK)?;
            percentiles[index].push(&driven.latency);
            late.push(driven.verdict);
        }
        eprintln!("{scene} {LINK}: round {round:2}");
    }
    outcome.doubt("netem", scene, &late);
    for (subject, percentiles) in subjects.iter().zip(percentiles) {
        outcome.lossy.push(Lossy {
            contestant: subject.contestant,
            cell,
            link: LINK,
            maker: far.maker(),
            percentiles,
        });
    }
    Ok(())
}
