//! The interleaved rounds: every contestant is up, each has one window per round, in random order.
//! Called by `cost`; what else is measured (latency, memory, …) has files of its own.

use std::time::Duration;

use anyhow::{Context, bail};

use super::cell::{Cell, Protocol, Scene, Topology};
use super::contestant::{Contestant, Part};
use super::cores::Cores;
use super::drive::{Backend, Load, drive};
use super::outcome::{CellSetting, Outcome, Row, Window};
use super::plan::Plan;
use super::subject::{Stage, Subject};
use super::{h2load, instructions, latency, lossy, memory, mixed, module, netns};
use crate::dataplane::Certificates;

/// Starts of which the median counts; the first may read the program from disk.
const STARTS: usize = 5;
const WARM_UP: Duration = Duration::from_millis(300);

/// Measures everything that the plan asks for into `outcome`, which on failure has what was found
/// before.
///
/// # Errors
/// When nothing can be started, or a contestant fails while it is measured.
pub(crate) fn run(plan: &Plan, outcome: &mut Outcome) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    Certificates::make(folder.path())?;
    for &scene in &plan.scenes {
        let cores = Cores::choose(scene.placement);
        let backend = Backend::start(scene.protocol, cores.backend)?;
        let shapes = plan.shapes(scene.protocol);
        let connections = shapes.iter().map(|shape| shape.connections).max();
        let stage = Stage {
            backend: backend.address(),
            folder: folder.path(),
            given: &plan.given,
            cores,
            connections_max: 1024.max(connections.unwrap_or(0) * 2),
            congestion: netns::congestion(),
            wrapper: Vec::new(),
            far: None,
        };
        for shape in shapes {
            let cell = scene.cell(shape, plan.size);
            measure_cell(plan, cell, &stage, outcome)?;
        }
        measure_extras(plan, scene, &stage, outcome);
    }
    if outcome.rows.is_empty() {
        bail!(
            "no contestant could be started: {}",
            outcome.missing.join("; ")
        );
    }
    Ok(())
}

/// Fresh processes for each cell: pools that grew in one would be at hand in the next.
fn measure_cell(
    plan: &Plan,
    cell: Cell,
    stage: &Stage<'_>,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let subjects = start_all(plan, cell.scene, stage, outcome)?;
    if subjects.is_empty() {
        return Ok(());
    }
    outcome.cells.push(CellSetting {
        cell,
        cores: stage.cores,
    });
    let first = outcome.rows.len();
    for subject in &subjects {
        outcome.rows.push(row(subject, cell, stage)?);
    }
    if plan.rounds > 0 {
        let rows = &mut outcome.rows[first..];
        measure_rounds(plan, &subjects, cell, stage.cores.load, rows)?;
    }
    if plan.extras.h2load && cell.scene.protocol == Protocol::Http2 {
        h2load::measure(&subjects, cell, stage, outcome)?;
    }
    Ok(())
}

/// What is measured once per scene, whatever the shape of its cells. What fails is noted: it
/// takes nothing away from the rounds.
fn measure_extras(plan: &Plan, scene: Scene, stage: &Stage<'_>, outcome: &mut Outcome) {
    let extras = plan.extras;
    let is_pair = scene.topology == Topology::Mtls;
    let is_http = matches!(scene.protocol, Protocol::Http1 | Protocol::Http2);
    let measurements: [(&str, bool, Measurement); 5] = [
        ("latency", extras.latency, latency::measure),
        ("mixed", extras.mixed && is_pair && is_http, mixed::measure),
        ("netem", extras.netem && is_pair, lossy::measure),
        (
            "memory",
            extras.memory && scene.protocol == Protocol::Http1,
            memory::measure,
        ),
        ("instructions", extras.instructions, instructions::measure),
    ];
    for (name, is_wanted, measure) in measurements {
        if !is_wanted {
            continue;
        }
        if let Err(error) = measure(plan, scene, stage, outcome) {
            outcome.missing.push(format!("{name}, {scene}: {error:#}"));
        }
    }
}

/// Something that is measured besides the rounds.
type Measurement = fn(&Plan, Scene, &Stage<'_>, &mut Outcome) -> anyhow::Result<()>;

/// Who could be started in `scene`.
pub(crate) fn present(outcome: &Outcome, scene: Scene) -> Vec<Contestant> {
    let mut present = Vec::new();
    for row in outcome.rows.iter().filter(|row| row.cell.scene == scene) {
        if !present.contains(&row.contestant) {
            present.push(row.contestant);
        }
    }
    present
}

/// Everybody who takes part in `scene`; who cannot is noted in the outcome.
///
/// # Errors
/// When one that was asked for by name does not start.
pub(crate) fn start_all(
    plan: &Plan,
    scene: Scene,
    stage: &Stage<'_>,
    outcome: &mut Outcome,
) -> anyhow::Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    for &contestant in &plan.contestants {
        match able(plan, contestant, scene) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) => {
                outcome.miss(contestant, &error.context(scene));
                continue;
            }
        }
        let context = || format!("{}, {scene}", contestant.name());
        match Subject::start(contestant, scene, stage) {
            Ok(subject) => subjects.push(subject),
            Err(error) if plan.named => return Err(error).with_context(context),
            Err(error) => outcome.miss(contestant, &error.context(scene)),
        }
    }
    Ok(subjects)
}

/// Whether `contestant` is to be started in `scene`.
///
/// # Errors
/// When it cannot do what the scene asks for, which is no fault even of one that was named.
fn able(plan: &Plan, contestant: Contestant, scene: Scene) -> anyhow::Result<bool> {
    match contestant.part(scene) {
        Part::Cannot(reason) => bail!(reason),
        Part::Stands => Ok(false),
        Part::Plays => {
            let program = contestant.program();
            if let Ok(path) = program.find(&plan.given) {
                module::needed(program, scene.protocol, &path)?;
            }
            Ok(true)
        }
    }
}

fn row(subject: &Subject, cell: Cell, stage: &Stage<'_>) -> anyhow::Result<Row> {
    let mut row = Row::new(subject.contestant, cell);
    row.idle_pss_bytes = subject.pss_bytes()?;
    row.start_up_millis.push(millis(subject));
    for _ in 1..STARTS {
        row.start_up_millis.push(millis(&subject.again(stage)?));
    }
    Ok(row)
}

fn millis(subject: &Subject) -> f64 {
    subject.start_up.as_secs_f64() * 1e3
}

fn measure_rounds(
    plan: &Plan,
    subjects: &[Subject],
    cell: Cell,
    core: Option<usize>,
    rows: &mut [Row],
) -> anyhow::Result<()> {
    for subject in subjects {
        // Pools fill and lazy memory is touched before anything counts.
        window(subject, cell, core, Duration::from_millis(500))?;
    }
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    let mut dice = Dice::new(plan.seed);
    for round in 1..=plan.rounds {
        dice.shuffle(&mut order);
        for &index in &order {
            let (taken, pss_bytes) = window(&subjects[index], cell, core, plan.window)?;
            eprintln!(
                "{} {} {:10} round {round:2}/{}: {:6.2} µs per request, {:6.0} requests/s",
                cell.scene,
                cell.shape,
                subjects[index].contestant.name(),
                plan.rounds,
                taken.cpu_micros,
                taken.rate
            );
            rows[index].windows.push(taken);
            rows[index].loaded_pss_bytes = rows[index].loaded_pss_bytes.max(pss_bytes);
        }
    }
    Ok(())
}

fn window(
    subject: &Subject,
    cell: Cell,
    core: Option<usize>,
    length: Duration,
) -> anyhow::Result<(Window, u64)> {
    let load = Load {
        warm_up: WARM_UP,
        core,
        ..Load::closed(subject.entry, &cell, length)
    };
    let driven = drive(&load, Some(subject)).with_context(|| subject.contestant.name())?;
    let requests = driven.rate * driven.seconds;
    let cpu_seconds = driven.cpu_nanos as f64 / 1e9;
    let window = Window {
        requests: requests as u64,
        cpu_micros: cpu_seconds * 1e6 / requests,
        bytes_per_cpu_second: requests * cell.size_bytes as f64 / cpu_seconds,
        rate: driven.rate,
        busy: cpu_seconds / driven.seconds,
        generator_cpu_micros: driven.generator_cpu.as_secs_f64() * 1e6 / requests,
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
            let other = self.below(index as u64 + 1);
            items.swap(index, other as usize);
        }
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
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
    use super::super::outcome::Setting;
    use super::super::plan::tests::plan;
    use super::*;

    #[test]
    fn where_nobody_takes_part_the_error_says_why() {
        let plan = plan("--only nginx --protocol http2 --topology plain").unwrap();
        let mut outcome = Outcome::new(Setting::default());
        let error = run(&plan, &mut outcome).unwrap_err().to_string();
        let reason = "nginx: http2 plain: speaks no HTTP/2 to a server";
        assert!(error.contains(reason), "{error}");
    }

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
