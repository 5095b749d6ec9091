//! fortio: closed and open loop. The warm-up is a run of its own, since fortio records all that it
//! sends; the window is that of the second, which it says when it begins and ends.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use load::{Phase, Plan, Rate};

use super::Tell;
use super::outcome::Outcome;
use super::tool::{self, Stop, TOLD_EVERY, Teller};
use crate::dataplane::find;
use crate::process::{Child, Said};
use crate::results::{Arrivals, Settings};

mod result;

/// Width of fortio's first buckets, in seconds. A hundred thousand times that is where its last one
/// begins: a tail beyond five seconds is not told apart.
const RESOLUTION: f64 = 0.000_05;

pub(super) const NOTES: [&str; 2] = [
    "Latencies are fortio's, from the actual send, read from its buckets: 50 µs wide below 0.5 ms, \
     and a tenth to a quarter of the value above; within one, values are spread evenly.",
    "fortio opens its connections anew between warm-up and window, and makes one request on each \
     before the window begins.",
];

/// The program.
#[derive(Debug, Clone)]
pub struct Fortio {
    program: PathBuf,
    launcher: PathBuf,
    version: String,
}

/// # Errors
/// When it cannot make such a load.
pub(super) fn check(settings: &Settings) -> anyhow::Result<()> {
    ensure!(
        settings.arrivals == Arrivals::Staggered,
        "fortio has no poisson arrivals: leave --arrivals out, or use --load leno"
    );
    ensure!(
        settings.objective.is_none(),
        "an objective is kept from the intended send time, which fortio does not know: use --load \
         leno"
    );
    Ok(())
}

impl Fortio {
    /// # Errors
    /// When it is not there, with what to do.
    pub(super) fn find(given: Option<&Path>, launcher: &Path) -> anyhow::Result<Self> {
        let program = match given {
            Some(_) => find::installed(given, "fortio")?,
            None => find::tool("fortio"),
        };
        let program = program.context(
            "fortio was not found: install it (go install fortio.org/fortio@v1.63.7), give its \
             path with --fortio, or use --load leno",
        )?;
        Ok(Self {
            version: find::said_by(&program, "version")?,
            launcher: launcher.to_path_buf(),
            program,
        })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn run(&self, plan: &Plan, tell: &mut Tell<'_>) -> Result<Outcome, Stop> {
        let mut teller = Teller::new(plan, tell);
        teller.say(Phase::Connecting)?;
        let work = tempfile::tempdir().context("making a directory for fortio's results")?;
        let file = work.path().join("result.json");
        if !plan.warm_up.is_zero() {
            let child = self.start(plan, plan.warm_up.as_secs_f64(), &file)?;
            follow(child, &mut teller, |_, _| Phase::WarmUp)?;
        }
        let child = self.start(plan, plan.duration.as_secs_f64(), &file)?;
        let (mut phase, mut begin, mut end) = (Phase::Connecting, None, None);
        follow(child, &mut teller, |child, line| {
            if line.starts_with("Starting at") {
                begin = Some(tool::cpu_of(child));
                phase = Phase::Measuring;
            } else if line.starts_with("Ended after") {
                end = Some(tool::cpu_of(child));
                phase = Phase::Draining;
            }
            phase
        })?;
        teller.say(Phase::Done)?;
        let cpu = end.zip(begin).map(|(end, begin)| end.saturating_sub(begin));
        let cpu = cpu.context("fortio never said that it began and ended")?;
        let bytes = std::fs::read(&file).context("reading fortio's result")?;
        let found = result::read(&bytes, plan, cpu).context("reading fortio's result")?;
        let mut outcome = found.judged("fortio", plan);
        outcome.raw = Some(("fortio.json", bytes));
        Ok(outcome)
    }

    fn start(&self, plan: &Plan, seconds: f64, file: &Path) -> anyhow::Result<Child> {
        // It says on standard error what it does, and there is where we listen.
        let mut shell = ["-c", "exec \"$0\" \"$@\" 2>&1"]
            .map(str::to_owned)
            .to_vec();
        shell.push(self.program.display().to_string());
        shell.extend(args(plan, seconds, file));
        tool::start(
            &self.launcher,
            plan,
            "fortio",
            (PathBuf::from("/bin/sh"), shell),
        )
    }
}

/// Until it has ended; `hear` makes a phase of each line that it says.
fn follow(
    mut child: Child,
    teller: &mut Teller<'_, '_>,
    mut hear: impl FnMut(&Child, &str) -> Phase,
) -> Result<(), Stop> {
    let (mut phase, mut latest) = (hear(&child, ""), String::new());
    loop {
        match child.said_within(TOLD_EVERY) {
            Said::Line(line) => {
                phase = hear(&child, &line);
                latest = line;
            }
            Said::Nothing => {}
            Said::Ended => break,
        }
        teller.say(phase)?;
    }
    let ended = child.succeed();
    Ok(ended.with_context(|| format!("fortio said at last: {latest}"))?)
}

fn args(plan: &Plan, seconds: f64, file: &Path) -> Vec<String> {
    let rate = match plan.rate {
        // Its word for as many as the target takes.
        Rate::Max => 0.0,
        Rate::PerSecond(rate) => rate,
    };
    let mut args: Vec<String> = ["load", "-loglevel", "warning", "-allow-initial-errors"]
        .map(str::to_owned)
        .to_vec();
    let pairs = [
        ("-c", plan.connections.to_string()),
        ("-qps", rate.to_string()),
        ("-t", format!("{seconds}s")),
        ("-timeout", format!("{}s", plan.timeout.as_secs_f64())),
        ("-r", RESOLUTION.to_string()),
        ("-labels", plan.labels.clone()),
        ("-json", file.display().to_string()),
    ];
    args.extend(
        pairs
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value]),
    );
    if plan.rate != Rate::Max {
        // As ours: connections take turns, and a window ends on time whatever was missed.
        args.extend(["-uniform", "-nocatchup"].map(str::to_owned));
    }
    for (name, value) in &plan.headers {
        args.extend(["-H".to_owned(), format!("{name}:{value}")]);
    }
    args.push(plan.url.clone());
    args
}
