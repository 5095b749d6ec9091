//! Where a sidecar's CPU time goes: `perf` samples its processes for one window, the stacks are
//! folded and drawn. Called by environments, which know the processes, and by `run`. Whatever keeps
//! perf from it is an error in words; a run goes on without flame graphs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::meter::Meter;
use crate::process::{Child, Placing, Program};

pub(crate) mod flame;
mod stacks;

pub(crate) use stacks::Stacks;

/// Samples a second: not in step with anything that happens a hundred times a second.
const FREQUENCY: &str = "99";

/// Stacks are unwound by their tables, since neither Rust's library nor Envoy keeps frame pointers;
/// so much of each is copied.
const CALL_GRAPH: &str = "dwarf,8192";

/// One sidecar's recording under way. Dropping it ends perf.
#[derive(Debug)]
pub struct Recording {
    name: &'static str,
    perf: Child,
    data: PathBuf,
}

/// Whether there is a perf that may look at processes.
///
/// # Errors
/// What is missing, and what to do.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut command = Command::new("perf");
    command.args(["record", "-o", "/dev/null", "--", "true"]);
    let output = command.stdin(Stdio::null()).output();
    let output = output.context(
        "perf was not found: install it (on Debian the package linux-perf) for flame graphs",
    )?;
    ensure!(
        output.status.success(),
        "perf may not record here (kernel.perf_event_paranoid, or a container without the \
         right): {}",
        last_line(&output.stderr)
    );
    Ok(())
}

/// Begins to record each of the sidecars, for as long as a window.
///
/// # Errors
/// When perf cannot be started.
pub(crate) fn begin(
    sidecars: &[(&'static str, &Meter)],
    length: Duration,
    dir: &Path,
) -> anyhow::Result<Vec<Recording>> {
    let launcher = std::env::current_exe().context("finding our own executable")?;
    let start = |&(name, meter): &(&'static str, &Meter)| {
        let data = dir.join(format!("{name}.data"));
        let processes: Vec<String> = meter.members().iter().map(u32::to_string).collect();
        let seconds = length.as_secs_f64().to_string();
        let args = [
            "record",
            "-q",
            "-F",
            FREQUENCY,
            "--call-graph",
            CALL_GRAPH,
            "-p",
            &processes.join(","),
            "-o",
        ];
        let mut args: Vec<_> = args.map(Into::into).to_vec();
        args.push(data.clone().into());
        args.extend(["--", "sleep", &seconds].map(Into::into));
        let program = Program {
            label: format!("perf of the {name} sidecar"),
            path: PathBuf::from("perf"),
            args,
        };
        let perf = Child::start(&launcher, &Placing::default(), &program)?;
        Ok(Recording { name, perf, data })
    };
    sidecars.iter().map(start).collect()
}

impl Recording {
    /// Waits until the window is over; whose stacks, and what they are.
    ///
    /// # Errors
    /// When perf failed, with its last words.
    pub(crate) fn finish(mut self) -> anyhow::Result<(&'static str, Stacks)> {
        self.perf.succeed()?;
        let mut command = Command::new("perf");
        command.args(["script", "--no-inline", "-F", "comm,ip,sym,dso", "-i"]);
        let output = command.arg(&self.data).stdin(Stdio::null()).output();
        let output = output.context("running perf script")?;
        if !output.status.success() {
            bail!("perf script: {}", last_line(&output.stderr));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok((self.name, Stacks::fold(&text)))
    }
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next_back().unwrap_or("it said nothing").to_owned()
}
