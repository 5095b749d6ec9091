//! `leno bench capacity`: the highest rate that keeps a latency objective, for each data plane and
//! mode, by search. Each probe is a cell that is saved like any other, so that an interrupted
//! search goes on. Searches take turns, so that drift of the machine hits all alike.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use crate::options;
use crate::results::{Cell, CellKey, Experiment, Objective, Run, Settings, pool};
use crate::run::{self, Job, Session};
use crate::units;

pub mod args;
pub(crate) mod content;
mod search;
pub(crate) mod table;

pub use args::Args;
use search::{Bounds, Step};

/// No rate above it is tried: far beyond what a sidecar takes on one CPU.
const RATE_MAX: u32 = 500_000;

/// Runs it: searches on where it stopped, then writes and prints what there is.
///
/// # Errors
/// When the options make no sense, a data plane does not come up, or a file cannot be written.
/// What was measured until then is kept, and `--resume` goes on with it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let common = &args.common;
    if let Some(dir) = &common.resume {
        return run::resume(dir, &common.programs);
    }
    let defaults = Settings {
        objective: Some(args.objective()),
        ..options::defaults(Experiment::Capacity, common.quick)
    };
    let task = common.task(defaults)?;
    let [Some(_)] = task.settings.qps[..] else {
        bail!("a search begins with one rate: give --qps a single number");
    };
    run::begin(task)
}

/// Takes probes until every search is done.
pub(crate) fn drive(session: &mut Session<'_>) -> anyhow::Result<()> {
    let subjects = session.run().settings.keys();
    loop {
        let mut is_done = true;
        for subject in &subjects {
            let Step::Probe(rate) = Search::of(session.run(), subject)?.next() else {
                continue;
            };
            is_done = false;
            let key = CellKey {
                qps: Some(rate),
                ..subject.clone()
            };
            let is_free = |index: &u32| session.run().repeat(&key, *index).is_none();
            let index = (0..).find(is_free).context("too many repeats")?;
            if !session.insist(&Job { key, index })? {
                return Ok(());
            }
        }
        if is_done {
            return Ok(());
        }
    }
}

/// How many searches are not done.
pub(crate) fn missing(run: &Run) -> usize {
    found(run).iter().filter(|it| !it.is_done).count()
}

/// What a search came to.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) subject: CellKey,
    /// The highest rate that is kept; none where not even the least that was tried is.
    pub(crate) cell: Option<&'a Cell>,
    /// The lowest rate that is not kept, and why; none where everything is.
    pub(crate) limit: Option<(u32, String)>,
    /// Otherwise it was interrupted.
    pub(crate) is_done: bool,
}

/// What each search came to, in the order of tables.
pub(crate) fn found(run: &Run) -> Vec<Found<'_>> {
    let subjects = run.settings.keys().into_iter();
    let each = subjects.filter_map(|subject| Some(Search::of(run, &subject).ok()?.found()));
    each.collect()
}

/// One search: what was tried so far.
struct Search<'a> {
    run: &'a Run,
    subject: CellKey,
    objective: Objective,
    bounds: Bounds,
    tried: BTreeMap<u32, Vec<bool>>,
}

impl<'a> Search<'a> {
    fn of(run: &'a Run, subject: &CellKey) -> anyhow::Result<Self> {
        let settings = &run.settings;
        let objective = settings.objective.context("the run has no objective")?;
        let mut tried = BTreeMap::new();
        for cell in run.cells.iter().filter(|cell| is_of(subject, &cell.key)) {
            let kept = |repeat| objective.missed(repeat).is_none();
            let repeats = cell.repeats.iter().map(kept).collect();
            tried.insert(cell.key.qps.unwrap_or_default(), repeats);
        }
        Ok(Self {
            run,
            subject: subject.clone(),
            objective,
            bounds: Bounds {
                first: subject.qps.unwrap_or(1),
                least: least_rate(&objective, settings.duration_seconds),
                most: RATE_MAX,
                tolerance: objective.tolerance,
                repeats: settings.repeats as usize,
            },
            tried,
        })
    }

    fn next(&self) -> Step {
        search::next(&self.bounds, &self.tried)
    }

    fn cell(&self, rate: u32) -> Option<&'a Cell> {
        let key = CellKey {
            qps: Some(rate),
            ..self.subject.clone()
        };
        cell(self.run, &key)
    }

    fn found(self) -> Found<'a> {
        let step = self.next();
        let high = search::given_up(&self.bounds, &self.tried);
        let why = |rate| {
            let repeats = self.cell(rate)?.repeats.iter();
            let mut reasons = repeats.filter_map(|repeat| self.objective.missed(repeat));
            Some((rate, reasons.next()?))
        };
        Found {
            cell: match step {
                Step::Done(Some(rate)) => self.cell(rate),
                Step::Done(None) | Step::Probe(_) => None,
            },
            limit: high.and_then(why),
            is_done: matches!(step, Step::Done(_)),
            subject: self.subject,
        }
    }
}

/// Whether a cell belongs to a search: all but its rate is the same.
fn is_of(subject: &CellKey, key: &CellKey) -> bool {
    let alike = CellKey {
        qps: key.qps,
        ..subject.clone()
    };
    alike == *key
}

fn cell<'a>(run: &'a Run, key: &CellKey) -> Option<&'a Cell> {
    run.cells.iter().find(|cell| cell.key == *key)
}

/// Below it a window does not hold enough requests for the percentile.
fn least_rate(objective: &Objective, seconds: f64) -> u32 {
    let beyond = units::count(pool::SAMPLES_BEYOND_MIN) / (1.0 - objective.quantile);
    // A little more, since a window may hold a request or two less than the rate says.
    let rate = (beyond / seconds * 1.02).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and far below the bound of the type for any window of a second"
    )]
    let rate = rate.min(f64::from(RATE_MAX)) as u32;
    rate.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn a_search_goes_on_from_what_is_saved() {
        let run = sample::search(&[(1000, 1.0), (2000, 0.5)], 1);
        let subject = &run.settings.keys()[0];
        let step = Search::of(&run, subject).unwrap().next();
        assert_eq!(step, Step::Probe(1410));
        assert_eq!(missing(&run), 1);
        let found = &found(&run)[0];
        let limit = Some((2000, "1000/s were taken on".to_owned()));
        assert!(found.cell.is_none() && found.limit == limit, "{found:?}");
    }

    #[test]
    fn what_is_found_is_the_cell_below_the_first_that_is_not_kept() {
        let run = sample::search(&[(2000, 0.5), (1000, 1.0), (1950, 1.0)], 1);
        assert_eq!(missing(&run), 0);
        let found = &found(&run)[0];
        assert_eq!(found.cell.unwrap().key.qps, Some(1950));
        let order: Vec<_> = run.cells.iter().map(|cell| cell.key.qps).collect();
        assert_eq!(order, [Some(1000), Some(1950), Some(2000)]);
    }

    #[test]
    fn a_window_must_hold_enough_for_the_percentile() {
        let objective = sample::search(&[], 1).settings.objective.unwrap();
        assert_eq!(least_rate(&objective, 10.0), 204);
    }
}
