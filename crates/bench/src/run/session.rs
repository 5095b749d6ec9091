//! A run while it is measured: takes one repeat after the other and keeps each at once. What is
//! taken, and in which order, is the experiment's affair.

use std::path::Path;

use anyhow::{Context, ensure};

use super::measure::{self, Bench};
use super::order::Job;
use super::progress::Shown;
use crate::dataplane::DataPlane;
use crate::environment::Environment;
use crate::interrupt::Interrupt;
use crate::loader::Loader;
use crate::perf::{self, flame};
use crate::results::{CellKey, Repeat, Run, folder};

/// A run and what it takes to measure.
pub(crate) struct Session<'a> {
    pub(super) run: &'a mut Run,
    pub(super) dir: &'a Path,
    pub(super) planes: &'a [Box<dyn DataPlane>],
    pub(super) loader: &'a Loader,
    pub(super) environment: &'a mut dyn Environment,
    pub(super) interrupt: &'a Interrupt,
    pub(super) shown: Shown,
}

impl Session<'_> {
    /// What was measured so far.
    pub(crate) fn run(&self) -> &Run {
        self.run
    }

    /// Takes one repeat and keeps it, in the place of a void one; false when somebody wants the run
    /// to stop.
    ///
    /// # Errors
    /// When a data plane does not come up or dies, or a file cannot be written.
    pub(crate) fn take(&mut self, job: &Job) -> anyhow::Result<bool> {
        self.shown.begins(job);
        let taken = self.try_take(job);
        let taken = taken.with_context(|| format!("measuring {}", job.key.slug()))?;
        let Some(repeat) = taken else {
            self.shown.interrupted();
            return Ok(false);
        };
        self.shown.ends(&repeat, self.run.settings.objective);
        self.run.insert(repeat);
        Ok(true)
    }

    /// The same, and again at once while it is void, as far as that goes: for those who go on by
    /// what it says.
    ///
    /// # Errors
    /// As [`Session::take`].
    pub(crate) fn insist(&mut self, job: &Job) -> anyhow::Result<bool> {
        while self.take(job)? {
            if !self.run.to_retake(&job.key, job.index) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs each cell once more to see where its sidecars' time goes: one flame graph for each
    /// sidecar. What was measured stays as it is, and what keeps a graph from being drawn is said.
    pub(super) fn draw_flames(&mut self, keys: &[CellKey]) {
        if self.interrupt.is_raised() || keys.is_empty() {
            return;
        }
        if let Err(why) = perf::check() {
            return self.note(format!("there are no flame graphs: {why:#}"));
        }
        self.shown.draws(keys.len());
        for key in keys {
            match self.draw(key) {
                Ok(true) => {}
                Ok(false) => return self.shown.interrupted(),
                Err(why) => self.note(format!("no flame graph of {}: {why:#}", key.slug())),
            }
        }
    }

    /// False when it was interrupted.
    fn draw(&mut self, key: &CellKey) -> anyhow::Result<bool> {
        let plane = plane(self.planes, key)?;
        let job = Job {
            key: key.clone(),
            index: self.run.settings.repeats,
        };
        self.shown.begins(&job);
        let bench = bench(
            (self.run, self.dir),
            self.loader,
            self.interrupt,
            &self.shown,
        );
        let Some(stacks) = measure::profile(&bench, self.environment, plane, &job)? else {
            return Ok(false);
        };
        for (side, stacks) in &stacks {
            ensure!(
                stacks.samples() > 0,
                "perf saw nothing of the {side} sidecar"
            );
            let title = format!("{}: {side} sidecar", key.words());
            folder::save_flame(
                self.dir,
                key,
                side,
                &flame::svg(&title, stacks),
                &stacks.folded(),
            )?;
        }
        Ok(true)
    }

    fn note(&mut self, note: String) {
        self.shown.note(&note);
        self.run.environment.notes.push(note);
    }

    fn try_take(&mut self, job: &Job) -> anyhow::Result<Option<Repeat>> {
        let plane = plane(self.planes, &job.key)?;
        let bench = bench(
            (self.run, self.dir),
            self.loader,
            self.interrupt,
            &self.shown,
        );
        let void = self.run.repeat(&job.key, job.index);
        let retaken = void.map_or_else(Vec::new, |void| {
            let reason = void.reasons.join("; ");
            void.retaken.iter().cloned().chain([reason]).collect()
        });
        measure::take(&bench, self.environment, plane, (job, retaken))
    }
}

fn bench<'a>(
    (run, dir): (&'a Run, &'a Path),
    loader: &'a Loader,
    interrupt: &'a Interrupt,
    shown: &'a Shown,
) -> Bench<'a> {
    Bench {
        settings: &run.settings,
        loader,
        run_id: &run.id,
        dir,
        interrupt,
        shown,
    }
}

fn plane<'a>(planes: &'a [Box<dyn DataPlane>], key: &CellKey) -> anyhow::Result<&'a dyn DataPlane> {
    let mut planes = planes.iter().map(AsRef::as_ref);
    let found = planes.find(|plane| plane.name() == key.data_plane);
    found.with_context(|| format!("no data plane {}", key.data_plane))
}
