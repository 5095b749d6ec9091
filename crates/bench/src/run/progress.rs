//! What somebody who waits sees: a bar with the time left on a terminal, a line per repeat
//! elsewhere. Writes to standard error only; the results go to standard output.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::order::Job;
use crate::figures::number;
use crate::results::{Repeat, Run, Verdict};
use crate::units;

/// Starting and stopping sidecars, until there is something measured to go by.
const OVERHEAD: Duration = Duration::from_millis(800);

/// The bar.
pub(super) struct Shown {
    bar: ProgressBar,
    on_terminal: bool,
    jobs: usize,
    done: usize,
    expected: Duration,
    began: Instant,
    /// The repeat that runs, and since when.
    current: (String, Instant),
}

impl Shown {
    /// Says what is about to happen.
    pub(super) fn begin(run: &Run, dir: &Path, jobs: usize) -> Self {
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
        shown.say(&format!(
            "{jobs} repeats of {} cells, about {}, in random order (seed {}), into {}",
            settings.keys().len(),
            clock(shown.left()),
            settings.seed,
            dir.display()
        ));
        if run.environment.limits.memory_bytes.is_none() {
            shown.say(&format!(
                "note: sidecar limits are {}",
                run.environment.limits.how
            ));
        }
        shown
    }

    /// A repeat begins.
    pub(super) fn begins(&mut self, job: &Job) {
        let (series, connections) = (job.key.series(), job.key.connections);
        self.current = (
            format!("{series}, {connections} connections"),
            Instant::now(),
        );
        self.tick();
    }

    /// Time passes. Cheap: it is called during measurements.
    pub(super) fn tick(&self) {
        if self.on_terminal {
            let (what, since) = &self.current;
            let left = clock(self.left().saturating_sub(since.elapsed()));
            self.bar.set_message(format!("{left} left · {what}"));
        }
    }

    /// A repeat was taken.
    pub(super) fn ends(&mut self, repeat: &Repeat) {
        self.done += 1;
        self.bar.inc(1);
        let worth_a_line = repeat.verdict != Verdict::Valid || !repeat.faults.is_empty();
        if worth_a_line || !self.on_terminal {
            self.say(&format!("{:>4}/{} {}", self.done, self.jobs, line(repeat)));
        }
    }

    /// The run stops here.
    pub(super) fn interrupted(&self) {
        self.say("interrupted: keeping what was measured");
    }

    /// When this repeat began: from the pace until then; before the first, from the settings.
    fn left(&self) -> Duration {
        let each = match u32::try_from(self.done) {
            Ok(done @ 1..) => (self.current.1 - self.began) / done,
            _ => self.expected,
        };
        each.saturating_mul(u32::try_from(self.jobs - self.done).unwrap_or(u32::MAX))
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

fn bar(jobs: usize) -> ProgressBar {
    let bar = ProgressBar::new(jobs as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}");
    bar.set_style(style.expect("the template is a constant"));
    bar.tick();
    bar
}

fn line(repeat: &Repeat) -> String {
    let key = &repeat.key;
    let mut line = format!("{}, {} connections", key.series(), key.connections);
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
