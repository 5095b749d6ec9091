//! `leno logs`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use local::command::log_files;
use local::logs::{Follow, Line};
use local::name::WorkloadId;

use super::up::Chosen;
use crate::output;

/// How often is looked for more.
const PERIOD: Duration = Duration::from_millis(200);

/// Show what applications write to their standard output and error.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Workloads or instances: NAME, or NAME.NAMESPACE [default: all]
    workloads: Vec<WorkloadId>,
    /// Go on with what is written from now on
    #[arg(short, long)]
    follow: bool,
    /// What sidecars write instead
    #[arg(long)]
    sidecar: bool,
    /// Only so many lines of each, the last ones
    #[arg(long, value_name = "LINES")]
    tail: Option<usize>,
    #[command(flatten)]
    mesh: Chosen,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (base, name) = args.mesh.find()?;
    let files = || log_files((base, &name), &args.workloads, args.sidecar);
    let mut view = View::default();
    view.add(files()?, args.tail);
    loop {
        loop {
            let lines = view.follow.ready();
            if lines.is_empty() {
                break;
            }
            view.print(&lines)?;
        }
        if !args.follow {
            let rest = view.follow.unfinished();
            return view.print(&rest);
        }
        std::thread::sleep(PERIOD);
        // Instances come and go; a mesh that went down has said everything.
        let Ok(files) = files() else { return Ok(()) };
        view.add(files, None);
    }
}

/// What is read, and how it is shown.
#[derive(Default)]
struct View {
    follow: Follow,
    known: BTreeSet<PathBuf>,
    labels: BTreeSet<String>,
}

impl View {
    fn add(&mut self, files: Vec<(String, PathBuf)>, tail: Option<usize>) {
        for (label, path) in files {
            if self.known.insert(path.clone()) {
                self.follow.add(&label, path, tail);
                self.labels.insert(label);
            }
        }
    }

    /// Each line with whose it is, where there are several.
    fn print(&self, lines: &[Line]) -> anyhow::Result<()> {
        let widest = self.labels.iter().map(String::len).max().unwrap_or(0);
        let line = |line: &Line| match self.labels.len() {
            0 | 1 => format!("{}\n", line.text),
            _ => format!("{:widest$}  {}\n", line.label, line.text),
        };
        output::print(&lines.iter().map(line).collect::<String>())
    }
}
