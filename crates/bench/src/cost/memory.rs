//! Memory of one sidecar: with 200 connections under load, and what a further idle one takes.
//! Called by `rounds`, with fresh processes: what load has left behind must not hide the growth.

use std::time::Duration;

use anyhow::Context;

use super::cell::{Scene, Shape, Topology};
use super::contestant::Contestant;
use super::drive::{Load, drive, mesh_tls};
use super::outcome::{Memory, Outcome};
use super::plan::Plan;
use super::rounds::present;
use super::subject::{Stage, Subject};

/// Connections of the figure under load, and those that the idle ones are counted on top of.
const BASE: usize = 200;
const FURTHER_PLAIN: usize = 3000;
const FURTHER_MTLS: usize = 1000;
/// Connections are idle for most of a window: each asks once, then keeps still.
const SIZE: usize = 1024;
const WINDOW: Duration = Duration::from_secs(2);

/// Adds one [`Memory`] per contestant to the outcome; one that cannot hold so many is reported.
///
/// # Errors
/// When a contestant that ran before does not start again.
pub(crate) fn measure(
    _plan: &Plan,
    scene: Scene,
    stage: &Stage<'_>,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let stage = Stage {
        connections_max: 4000,
        ..stage.clone()
    };
    for contestant in present(outcome, scene) {
        // The relay knows no TLS: with it on the outside there is nothing to measure.
        if (contestant, scene.topology) == (Contestant::Floor, Topology::Mtls) {
            continue;
        }
        match one(contestant, scene, &stage) {
            Ok(memory) => {
                eprintln!(
                    "{scene} {:10} memory: {:.1} MiB at {BASE} connections, {:.2} KiB per idle one",
                    contestant.name(),
                    memory.loaded_bytes as f64 / f64::from(1 << 20),
                    memory.per_idle_bytes / 1024.0
                );
                outcome.memories.push(memory);
            }
            Err(error) => outcome.miss(contestant, &error.context("memory")),
        }
    }
    Ok(())
}

fn one(contestant: Contestant, scene: Scene, stage: &Stage<'_>) -> anyhow::Result<Memory> {
    let further = match scene.topology {
        Topology::Plain => FURTHER_PLAIN,
        Topology::Mtls => FURTHER_MTLS,
    };
    let subject = Subject::start(contestant, scene, stage)?;
    let base = idle(&subject, BASE, stage)?;
    let many = idle(&subject, BASE + further, stage)?;
    // Alone: a twin would share the program's pages and make the Pss smaller than it is.
    drop(subject);
    let fresh = Subject::start(contestant, scene, stage)?;
    let cell = scene.cell(connections(BASE), SIZE);
    let load = Load {
        core: stage.cores.load,
        ..Load::closed(fresh.entry, &cell, WINDOW)
    };
    let loaded_bytes = drive(&load, Some(&fresh))
        .context("200 connections")?
        .pss_bytes;
    Ok(Memory {
        contestant,
        scene,
        connections: BASE,
        loaded_bytes,
        further_connections: further,
        per_idle_bytes: (many as f64 - base as f64) / further as f64,
    })
}

/// Pss of the sidecar that holds `count` connections from the mesh (mTLS) or from applications,
/// each idle after one request.
fn idle(subject: &Subject, count: usize, stage: &Stage<'_>) -> anyhow::Result<u64> {
    let tls = match subject.scene.topology {
        Topology::Plain => None,
        Topology::Mtls => Some(mesh_tls(stage.folder)),
    };
    let cell = subject.scene.cell(connections(count), SIZE);
    let load = Load {
        tls,
        rate: Some(count as f64 / WINDOW.as_secs_f64()),
        core: stage.cores.load,
        ..Load::closed(subject.mesh_entry(), &cell, WINDOW)
    };
    let driven = drive(&load, Some(subject)).with_context(|| format!("{count} idle"))?;
    Ok(driven.pss_bytes)
}

fn connections(count: usize) -> Shape {
    Shape {
        connections: count,
        streams: 1,
    }
}
