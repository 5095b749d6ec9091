//! Memory of one sidecar: with 200 connections under load, and what a further idle one takes.
//! Called by `rounds`, with fresh processes: what load has left behind must not hide the growth.

use std::time::Duration;

use anyhow::Context;

use super::contestant::{Contestant, Topology};
use super::drive::{Load, drive, mesh_tls};
use super::outcome::{Memory, Outcome};
use super::rounds::Cores;
use super::subject::{Stage, Subject};

/// Connections of the figure under load, and those that the idle ones are counted on top of.
const BASE: usize = 200;
const FURTHER_PLAIN: usize = 3000;
const FURTHER_MTLS: usize = 1000;
/// Connections are idle for most of a window: each asks once, then keeps still.
const WINDOW: Duration = Duration::from_secs(2);

/// Adds one [`Memory`] per contestant to the outcome; one that cannot hold so many is reported.
///
/// # Errors
/// When a contestant that ran before does not start again.
pub(crate) fn measure(
    topology: Topology,
    contestants: &[Contestant],
    stage: &Stage<'_>,
    cores: &Cores,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let stage = Stage {
        connections_max: 4000,
        ..stage.clone()
    };
    for &contestant in contestants {
        // The relay knows no TLS: with it on the outside there is nothing to measure.
        if (contestant, topology) == (Contestant::Floor, Topology::Mtls) {
            continue;
        }
        match one(contestant, topology, &stage, cores) {
            Ok(memory) => {
                eprintln!(
                    "{:5} {:7} memory: {:.1} MiB at {BASE} connections, {:.2} KiB per idle one",
                    topology.name(),
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

fn one(
    contestant: Contestant,
    topology: Topology,
    stage: &Stage<'_>,
    cores: &Cores,
) -> anyhow::Result<Memory> {
    let further = match topology {
        Topology::Plain => FURTHER_PLAIN,
        Topology::Mtls => FURTHER_MTLS,
    };
    let subject = Subject::start(contestant, topology, stage)?;
    let base = idle(&subject, BASE, stage, cores)?;
    let many = idle(&subject, BASE + further, stage, cores)?;
    // Alone: a twin would share the program's pages and make the Pss smaller than it is.
    drop(subject);
    let fresh = Subject::start(contestant, topology, stage)?;
    let load = Load {
        target: fresh.entry,
        tls: None,
        connections: BASE,
        size: 1024,
        rate: None,
        warm_up: Duration::ZERO,
        window: WINDOW,
        core: cores.load,
    };
    let loaded_bytes = drive(&load, Some(&fresh))
        .context("200 connections")?
        .pss_bytes;
    Ok(Memory {
        contestant,
        topology,
        connections: BASE,
        loaded_bytes,
        further_connections: further,
        per_idle_bytes: (many as f64 - base as f64) / further as f64,
    })
}

/// Pss of the sidecar that holds `connections` from the mesh (mTLS) or from applications, each
/// idle after one request.
fn idle(
    subject: &Subject,
    connections: usize,
    stage: &Stage<'_>,
    cores: &Cores,
) -> anyhow::Result<u64> {
    let tls = match subject.topology {
        Topology::Plain => None,
        Topology::Mtls => Some(mesh_tls(stage.folder)),
    };
    let load = Load {
        target: subject.mesh_entry(),
        tls,
        connections,
        size: 1024,
        rate: Some(connections as f64 / WINDOW.as_secs_f64()),
        warm_up: Duration::ZERO,
        window: WINDOW,
        core: cores.load,
    };
    let driven = drive(&load, Some(subject)).with_context(|| format!("{connections} idle"))?;
    Ok(driven.pss_bytes)
}
