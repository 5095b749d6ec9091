//! The load tools: `leno load`, and those that others know. Found when a run is set up; run by the
//! environment, on a thread that is already in the client's place. What a tool cannot say is left
//! out of its outcome, never made up.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::bail;
use load::{Plan, Progress};

use crate::results::{LoadTool, Settings};

mod fortio;
mod jmeter;
mod outcome;
mod tool;

use fortio::Fortio;
use jmeter::Jmeter;
pub use outcome::Outcome;

/// Told of each phase as it begins, and several times a second.
pub type Tell<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + 'a;

/// What makes the load, as options that every experiment has.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Options {
    /// leno: with intended send times; fortio; jmeter: a closed loop, through Maven [default: leno]
    #[arg(long = "load", value_name = "TOOL", value_parser = parse)]
    pub tool: Option<LoadTool>,
    /// fortio, for --load fortio [default: in $PATH, or in .venv]
    #[arg(long, value_name = "PATH")]
    pub fortio: Option<PathBuf>,
}

fn parse(text: &str) -> Result<LoadTool, String> {
    let tools = [LoadTool::Leno, LoadTool::Fortio, LoadTool::Jmeter];
    let found = tools.into_iter().find(|tool| tool.name() == text);
    found.ok_or_else(|| "use leno, fortio or jmeter".to_owned())
}

/// A load tool that is there.
#[derive(Debug, Clone)]
pub enum Loader {
    /// In this process.
    Leno,
    /// The program.
    Fortio(Fortio),
    /// A plan of ours, run through Maven.
    Jmeter(Jmeter),
}

impl Loader {
    /// Finds it. `launcher` is the `leno` command, which places processes.
    ///
    /// # Errors
    /// When it is not there, with what to do.
    pub fn find(tool: LoadTool, options: &Options, launcher: &Path) -> anyhow::Result<Self> {
        Ok(match tool {
            LoadTool::Leno => Self::Leno,
            LoadTool::Fortio => Self::Fortio(Fortio::find(options.fortio.as_deref(), launcher)?),
            LoadTool::Jmeter => Self::Jmeter(Jmeter::prepare(launcher)?),
        })
    }

    /// Finds the one that a run is to have.
    ///
    /// # Errors
    /// As [`Loader::find`]; and when it cannot make such a load.
    pub(crate) fn of_run(
        settings: &Settings,
        options: &Options,
        launcher: &Path,
    ) -> anyhow::Result<Self> {
        match settings.load {
            LoadTool::Leno => {}
            LoadTool::Fortio => fortio::check(settings)?,
            LoadTool::Jmeter => jmeter::check(settings)?,
        }
        Self::find(settings.load, options, launcher)
    }

    /// Name and version.
    pub fn version(&self) -> String {
        match self {
            Self::Leno => format!("leno load {}", env!("CARGO_PKG_VERSION")),
            Self::Fortio(fortio) => format!("fortio {}", fortio.version()),
            Self::Jmeter(jmeter) => jmeter.version().to_owned(),
        }
    }

    /// What a reader must know about its figures, one sentence each.
    pub fn notes(&self) -> Vec<String> {
        let notes: &[&str] = match self {
            Self::Leno => &[],
            Self::Fortio(_) => &fortio::NOTES,
            Self::Jmeter(_) => &jmeter::NOTES,
        };
        notes.iter().map(|&note| note.to_owned()).collect()
    }

    /// Runs the plan where the calling thread is: in its network namespace, on the plan's CPUs.
    /// `None` when `tell` broke. Leaves no process behind.
    ///
    /// # Errors
    /// When the plan cannot be run at all.
    pub fn run(&self, plan: &Plan, tell: &mut Tell<'_>) -> anyhow::Result<Option<Outcome>> {
        let run = match self {
            Self::Leno => {
                let outcome = load::run(plan, &mut |progress| {
                    // Whoever does not listen any more ends the program.
                    let _ = tell(progress);
                })?;
                return Ok(Some(Outcome::of_ours(&outcome)?));
            }
            Self::Fortio(fortio) => fortio.run(plan, tell),
            Self::Jmeter(jmeter) => jmeter.run(plan, tell),
        };
        match run {
            Ok(outcome) => Ok(Some(outcome)),
            Err(tool::Stop::Unwanted) => Ok(None),
            Err(tool::Stop::Failed(error)) => Err(error),
        }
    }

    /// Whether its processes must be gone before the program ends: ours is a thread.
    pub(crate) fn has_processes(&self) -> bool {
        !matches!(self, Self::Leno)
    }
}

/// The tool that a run goes on with.
///
/// # Errors
/// When another is asked for than it was begun with.
pub(crate) fn same(begun_with: LoadTool, asked: Option<LoadTool>) -> anyhow::Result<()> {
    match asked {
        Some(asked) if asked != begun_with => bail!(
            "the run was begun with --load {}: leave --load out",
            begun_with.name()
        ),
        _ => Ok(()),
    }
}
