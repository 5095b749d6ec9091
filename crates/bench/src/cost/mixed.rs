//! Small requests alone, and beside one that carries a huge body through the same pair.
//! Called by `rounds`: what a body that fills every buffer on its way does to the others' tail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use rustix::process::setpriority_process;

use super::cell::{Scene, Shape};
use super::drive::{Backend, Driven, Load, drive};
use super::latency::{ROUNDS_MIN, open_loop, taken};
use super::outcome::{Mixed, Outcome, Percentiles};
use super::plan::Plan;
use super::rounds::{Dice, start_all};
use super::subject::{Stage, Subject};

const SMALL: Shape = Shape {
    connections: 16,
    streams: 1,
};
const SMALL_BYTES: usize = 1024;
const HUGE: Shape = Shape {
    connections: 1,
    streams: 1,
};
/// So many that a server busy with the huge body delays nothing else.
const SERVER_THREADS: usize = 64;
const HUGE_BYTES: usize = 100 << 20;
/// Longer than all windows with their retakes; the flag ends it before.
const HUGE_WINDOW: Duration = Duration::from_secs(3600);
/// The generator of the small requests must not wait for a CPU, which is not the proxies' doing:
/// what shares its core is nice, the server less so than what reads the huge body.
const SERVER_NICE: i32 = 10;
const HUGE_NICE: i32 = 19;
/// The huge body must have filled what there is to fill before the small ones count.
const HEAD_START: Duration = Duration::from_millis(200);

/// Adds one [`Mixed`] per contestant to the outcome.
///
/// # Errors
/// When a request fails.
pub(crate) fn measure(
    plan: &Plan,
    scene: Scene,
    stage: &Stage<'_>,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let backend = yielding(SERVER_NICE, || {
        Backend::with_threads(scene.protocol, stage.cores.backend, SERVER_THREADS)
    })?;
    let stage = &Stage {
        backend: backend.address(),
        ..stage.clone()
    };
    let subjects = start_all(plan, scene, stage, outcome)?;
    let cell = scene.cell(SMALL, SMALL_BYTES);
    let mut late = Vec::new();
    let mut found: Vec<(Percentiles, Percentiles)> = vec![Default::default(); subjects.len()];
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    let mut dice = Dice::new(plan.seed);
    for round in 1..=plan.rounds.max(ROUNDS_MIN) {
        dice.shuffle(&mut order);
        for &index in &order {
            let subject = &subjects[index];
            let small = open_loop(Some(subject), &cell, stage, plan.window);
            let alone = taken(&small, Some(subject))?;
            let beside = beside_huge(subject, &small)?;
            found[index].0.push(&alone.latency);
            found[index].1.push(&beside.latency);
            late.extend([alone.verdict, beside.verdict]);
        }
        eprintln!("{scene} mixed: round {round:2}");
    }
    outcome.doubt("mixed", scene, &late);
    for (subject, (alone, beside)) in subjects.iter().zip(found) {
        outcome.mixed.push(Mixed {
            contestant: subject.contestant,
            cell,
            huge_bytes: HUGE_BYTES,
            alone,
            beside,
        });
    }
    Ok(())
}

/// The small requests while the huge body passes, again and again.
fn beside_huge(subject: &Subject, small: &Load) -> anyhow::Result<Driven> {
    let stop = Arc::new(AtomicBool::new(false));
    let cell = subject.scene.cell(HUGE, HUGE_BYTES);
    let huge = Load {
        core: small.core,
        stop: Some(Arc::clone(&stop)),
        ..Load::closed(subject.entry, &cell, HUGE_WINDOW)
    };
    let (driven, passed) = thread::scope(|scope| {
        let passing = scope.spawn(|| yielding(HUGE_NICE, || drive(&huge, None)));
        thread::sleep(HEAD_START);
        let driven = taken(small, Some(subject));
        stop.store(true, Relaxed);
        (driven, passing.join())
    });
    passed
        .expect("a load of ours does not panic")
        .context("the huge body")?;
    driven
}

/// Does `work` with the priority `nice`, which the threads that it starts inherit.
fn yielding<T: Send>(
    nice: i32,
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let prioritised = || {
        setpriority_process(None, nice)?;
        work()
    };
    // On a thread of its own: without root a priority can only be lowered.
    let result = thread::scope(|scope| scope.spawn(prioritised).join());
    result.expect("a load of ours does not panic")
}
