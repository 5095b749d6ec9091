//! One repeat: place the sidecars, load them, read what they used between the two ends of the
//! window. Called by the session for each job. Leaves no process behind, also on error.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::judge;
use super::order::Job;
use super::pace::Pace;
use super::progress::Shown;
use crate::dataplane::DataPlane;
use crate::environment::{Environment, Placed, Usage};
use crate::interrupt::Interrupt;
use crate::loader::{Loader, Outcome};
use crate::perf::{Recording, Stacks};
use crate::results::{Arrivals, CellKey, Link, Repeat, Settings, folder};

/// Longer than any queue of a closed loop before a limited sidecar.
const TIMEOUT: Duration = Duration::from_secs(10);

/// So much longer than perf looks is the load that it looks at: it takes its time to begin.
const PERF_BEGINS_WITHIN: Duration = Duration::from_secs(2);

/// Time between two samples of a sidecar's usage.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// What a repeat needs besides its job.
pub(super) struct Bench<'a> {
    pub(super) settings: &'a Settings,
    pub(super) loader: &'a Loader,
    pub(super) run_id: &'a str,
    pub(super) dir: &'a Path,
    pub(super) interrupt: &'a Interrupt,
    pub(super) shown: &'a Shown,
}

impl Bench<'_> {
    fn keep_on(&self) -> ControlFlow<()> {
        match self.interrupt.is_raised() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Takes one repeat and saves its artefacts, and why earlier tries of it were void; `None` when it
/// was interrupted.
pub(super) fn take(
    bench: &Bench<'_>,
    environment: &mut dyn Environment,
    plane: &dyn DataPlane,
    (job, retaken): (&Job, Vec<String>),
) -> anyhow::Result<Option<Repeat>> {
    let load_average = crate::machine::load_average();
    let mut placed = environment.place(plane, &job.key)?;
    let before = placed.counters();
    let plan = plan(bench, job, placed.as_ref());
    let measured = measure(bench, environment, placed.as_mut(), plan);
    // A sidecar that died explains a failed run better than the run's own error.
    placed.check()?;
    let Some((outcome, usage, pace)) = measured? else {
        return Ok(None);
    };
    let mut repeat = Repeat {
        load_average,
        retaken,
        ..judge::repeat(&job.key, job.index, &outcome, usage)
    };
    // Errors may come faster than answers.
    if job.key.qps.is_none() && repeat.errors == 0 {
        repeat.faults.extend(pace.fault());
    }
    let (dir, slug) = (bench.dir, job.key.slug());
    if let Some((ending, raw)) = &outcome.raw {
        folder::write_whole(&folder::repeat_path(dir, &repeat, ending), raw)?;
    }
    for (moment, pages) in [("before", before), ("after", placed.counters())] {
        for (side, text) in pages {
            let ending = format!("{}-{moment}.stats", side.name());
            folder::write_whole(&folder::repeat_path(dir, &repeat, &ending), text.as_bytes())?;
        }
    }
    for (name, content) in placed.configurations() {
        let path = folder::configurations_dir(dir).join(format!("{slug}.{name}"));
        folder::write_whole(&path, content.as_bytes())?;
    }
    folder::save_repeat(dir, &repeat)?;
    Ok(Some(repeat))
}

/// Runs a cell once more with perf at its sidecars; their stacks, or `None` when it was
/// interrupted.
pub(super) fn profile(
    bench: &Bench<'_>,
    environment: &mut dyn Environment,
    plane: &dyn DataPlane,
    job: &Job,
) -> anyhow::Result<Option<Vec<(&'static str, Stacks)>>> {
    let dir = tempfile::tempdir().context("making a directory for perf")?;
    let mut placed = environment.place(plane, &job.key)?;
    let mut plan = plan(bench, job, placed.as_ref());
    let length = plan.duration;
    plan.duration += PERF_BEGINS_WITHIN;
    let mut begun = None;
    let outcome = environment.generate(bench.loader, plan, &mut |progress| {
        if progress.phase == load::Phase::Measuring && begun.is_none() {
            begun = Some(placed.profile(length, dir.path()));
        }
        bench.shown.tick();
        bench.keep_on()
    });
    placed.check()?;
    let Some(_) = outcome? else {
        return Ok(None);
    };
    let begun = begun.context("the generator never told that its window opened")??;
    let finished = begun.into_iter().map(Recording::finish);
    finished.collect::<anyhow::Result<_>>().map(Some)
}

fn plan(bench: &Bench<'_>, job: &Job, placed: &dyn Placed) -> load::Plan {
    let (settings, key) = (bench.settings, &job.key);
    let url = format!("http://{}{}", placed.target(), path(key));
    let rate = key
        .qps
        .map_or(load::Rate::Max, |qps| load::Rate::PerSecond(f64::from(qps)));
    let arrivals = match settings.arrivals {
        Arrivals::Staggered => load::Arrivals::Staggered,
        Arrivals::Poisson => load::Arrivals::Poisson,
    };
    let mut plan = load::Plan {
        connections: key.connections,
        rate,
        arrivals,
        duration: Duration::from_secs_f64(settings.duration_seconds),
        warm_up: Duration::from_secs_f64(settings.warmup_seconds),
        headers: settings.headers.clone(),
        seed: settings.seed.wrapping_add(u64::from(job.index)),
        labels: super::label(bench.run_id, key, settings.extra_labels.as_deref()),
        ..load::Plan::new(url)
    };
    if key.qps.is_none() {
        plan.timeout = TIMEOUT;
    }
    plan
}

/// What is asked for; on the sample's links the book of the published reports.
fn path(key: &CellKey) -> String {
    const BOOK: &str = "2099a055-1e21-46ef-825e-9e0de93554ea";
    match key.link {
        Link::Echo => format!("/echo?size={}", key.payload_bytes),
        Link::Ratings => format!("/ratings/{BOOK}"),
        Link::GatewayRatings => format!("/bookinfo-ratings/ratings/{BOOK}"),
    }
}

fn measure(
    bench: &Bench<'_>,
    environment: &dyn Environment,
    placed: &mut dyn Placed,
    plan: load::Plan,
) -> anyhow::Result<Option<(Outcome, Usage, Pace)>> {
    let length = plan.duration;
    let mut pace = Pace::default();
    let mut ends = Ends {
        placed,
        opened: None,
        sampled: Ok(()),
        latest: Instant::now(),
        closed: None,
    };
    let outcome = environment.generate(bench.loader, plan, &mut |progress| {
        ends.meet(progress.phase);
        pace.meet(progress, length);
        bench.shown.tick();
        bench.keep_on()
    })?;
    let Some(outcome) = outcome else {
        return Ok(None);
    };
    ends.opened
        .context("the generator never told that its window opened")??;
    ends.sampled?;
    let usage = ends
        .closed
        .context("the generator never told that its window closed")??;
    Ok(Some((outcome, usage, pace)))
}

/// Reads the counters at the first word of each end of the window, and for samples in it.
struct Ends<'a> {
    placed: &'a mut dyn Placed,
    opened: Option<anyhow::Result<()>>,
    sampled: anyhow::Result<()>,
    /// When the window opened, or the latest sample was taken.
    latest: Instant,
    closed: Option<anyhow::Result<Usage>>,
}

impl Ends<'_> {
    fn meet(&mut self, phase: load::Phase) {
        if phase == load::Phase::Measuring && self.opened.is_none() {
            self.opened = Some(self.placed.open_window());
            self.latest = Instant::now();
        }
        let is_open = self.opened.is_some() && phase == load::Phase::Measuring;
        if is_open && self.sampled.is_ok() && self.latest.elapsed() >= SAMPLE_EVERY {
            self.sampled = self.placed.sample();
            self.latest = Instant::now();
        }
        if phase >= load::Phase::Draining && self.closed.is_none() {
            self.closed = Some(self.placed.close_window());
        }
    }
}
