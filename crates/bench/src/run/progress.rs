//! What somebody who waits sees: a bar with the time left on a terminal, a line per repeat
//! elsewhere. Writes to standard error only; the results go to standard output.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::order::Job;
use crate::figures::number;
use crate::results::{Objective, Repeat, Run, Verdict};
use crate::units;

/// Starting and stopping sidecars, until there is something measured to go by.
const OVERHEAD: Duration = Duration::from_millis(800);

/// The bar.
pub(super) struct Shown {
    bar: ProgressBar,
    on_terminal: bool,
    /// None where nobody knows beforehand.
    jobs: Option<usize>,
    done: usize,
    expected: Duration,
    began: Instant,
    /// The repeat that runs, and since when.
    current: (String, Instant),
}

impl Shown {
    /// Says what is about to happen.
    pub(super) fn begin(run: &Run, dir: &Path, jobs: Option<usize>) -> Self {
        let settings = &run.settings;
        let seconds = settings.duration_seconds + settings.warmup_seconds;
        let expected = Duration::from_secs_f64(seconds) + OVERHEAD;
        let on_terminal = std::io::stderr().is_terminal();
        let (bar, began) = (bar(jobs), Instant::now());
        let current = (String::new(), began);
        let shown = Self {
            bar,
            on_terminal,
            jobs,
            done: 0,
            expected,
            began,
            current,
        };
        let cells = settings.keys().len();
        let what = match jobs.zip(shown.left()) {
            Some((jobs, left)) => format!(
                "{jobs} repeats of {cells} cells, about {}, in random order (seed {})",
                clock(left),
                settings.seed
            ),
            None => format!(
                "searching for the highest rate with {} in {cells} searches that take turns, about \
                 {} for each probe",
                settings.objective.map(|it| it.words()).unwrap_or_default(),
                clock(expected)
            ),
        };
        shown.say(&format!("{what}, into {}", dir.display()));
        if run.environment.limits.memory_bytes.is_none() {
            shown.say(&format!(
                "note: sidecar limits are {}",
                run.environment.limits.how
            ));
        }
        shown
    }

    /// So many repeats are to come from here on: more than was known where some are void.
    pub(super) fn expects(&mut self, jobs: usize) {
        let total = self.done + jobs;
        if self.jobs.is_some_and(|known| known < total) {
            self.say(&format!("void, and taken again: {jobs}"));
            self.jobs = Some(total);
            self.bar.set_length(total as u64);
        }
    }

    /// A repeat begins.
    pub(super) fn begins(&mut self, job: &Job) {
        self.current = (job.key.words(), Instant::now());
        self.tick();
    }

    /// Time passes. Cheap: it is called during measurements.
    pub(super) fn tick(&self) {
        if self.on_terminal {
            let (what, since) = &self.current;
            let left = self.left().map(|left| left.saturating_sub(since.elapsed()));
            let left = left.map(|left| format!("{} left · ", clock(left)));
            self.bar
                .set_message(format!("{}{what}", left.unwrap_or_default()));
        }
    }

    /// A repeat was taken; in a search it is said whether it kept the objective.
    pub(super) fn ends(&mut self, repeat: &Repeat, objective: Option<Objective>) {
        self.done += 1;
        self.bar.inc(1);
        let is_odd = repeat.verdict != Verdict::Valid || !repeat.faults.is_empty();
        if !is_odd && objective.is_none() && self.on_terminal {
            return;
        }
        let of = self.jobs.map(|jobs| format!("/{jobs}"));
        let end = objective.map(|objective| match objective.missed(repeat) {
            None => ": kept".to_owned(),
            Some(why) => format!(": not kept, {why}"),
        });
        let (done, of, end) = (self.done, of.unwrap_or_default(), end.unwrap_or_default());
        self.say(&format!("{done:>4}{of} {}{end}", line(repeat)));
    }

    /// So many cells are run once more.
    pub(super) fn draws(&self, cells: usize) {
        self.say(&format!(
            "flame graphs: {cells} cells run once more, with perf"
        ));
    }

    /// What a reader of the results will be told, too.
    pub(super) fn note(&self, note: &str) {
        self.say(&format!("note: {note}"));
    }

    /// The run stops here.
    pub(super) fn interrupted(&self) {
        self.say("interrupted: keeping what was measured");
    }

    /// When this repeat began: from the pace until then; before the first, from the settings.
    fn left(&self) -> Option<Duration> {
        let left = self.jobs?.saturating_sub(self.done);
        let each = match u32::try_from(self.done) {
            Ok(done @ 1..) => (self.current.1 - self.began) / done,
            _ => self.expected,
        };
        Some(each.saturating_mul(u32::try_from(left).unwrap_or(u32::MAX)))
    }

    fn say(&self, text: &str) {
        match self.on_terminal {
            true => self.bar.println(text),
            false => eprintln!("{text}"),
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn bar(jobs: Option<usize>) -> ProgressBar {
    let (bar, template) = match jobs {
        Some(jobs) => (
            ProgressBar::new(jobs as u64),
            "{bar:30} {pos}/{len} {wide_msg}",
        ),
        None => (
            ProgressBar::no_length(),
            "{spinner} {pos} probes {wide_msg}",
        ),
    };
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.expect("the template is a constant"));
    bar.tick();
    bar
}

fn line(repeat: &Repeat) -> String {
    let key = &repeat.key;
    let mut line = key.words();
    let median = units::micros(repeat.latencies.shown().value_at_quantile(0.5)) / 1e3;
    line.push_str(&format!(
        ": P50 {} ms, {:.0} QPS",
        number::significant(median),
        repeat.achieved_qps
    ));
    if let Some(micros) = repeat.cpu_micros_per_request() {
        line.push_str(&format!(", {micros:.1} µs CPU per request"));
    }
    let remarks = repeat.reasons.iter().chain(&repeat.faults);
    let remarks: Vec<&str> = remarks.map(String::as_str).collect();
    if repeat.verdict != Verdict::Valid || !remarks.is_empty() {
        line.push_str(&format!(
            " [{}: {}]",
            repeat.verdict.name(),
            remarks.join("; ")
        ));
    }
    line
}

/// `1 h 05 min`, `3 min 20 s`, `12 s`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_at_a_glance() {
        for (seconds, text) in [(12, "12 s"), (200, "3 min 20 s"), (3_900, "1 h 05 min")] {
            assert_eq!(clock(Duration::from_secs(seconds)), text);
        }
    }
}
