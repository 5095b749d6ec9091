//! One program under test: started, loaded, looked at through `/proc`, ended.

use super::load::Load;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A program and its arguments under a name.
#[derive(Clone)]
pub struct Contestant {
    /// As shown in the table.
    pub name: String,
    program: PathBuf,
    args: Vec<String>,
}

/// What one window showed.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// CPU time of the process per answered request, in µs.
    pub micros: f64,
    /// Times the process went to sleep, per answered request.
    pub sleeps: f64,
    /// Answered requests per second.
    pub rate: f64,
    /// Proportional set size at the window's end, in KiB.
    pub pss_kib: u64,
}

/// How each window is loaded.
#[derive(Clone, Copy)]
pub struct Window {
    /// The application.
    pub echo: SocketAddr,
    /// Closed-loop connections.
    pub connections: usize,
    /// Length of the window; a quarter of it is spent warming up before.
    pub length: Duration,
    /// The load's core.
    pub cpu: usize,
    /// Let the programs write to stderr.
    pub log: bool,
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Not killed: profilers write their output when asked to end.
        if let Some(pid) = Pid::from_raw(self.0.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

impl Contestant {
    /// Reads `name=program arg arg`; programs lie beside this one.
    ///
    /// # Errors
    /// When there is no name or no program.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, command) = text
            .split_once('=')
            .context("a contestant is name=program args")?;
        let mut words = command.split_whitespace().map(String::from);
        let program = words.next().context("a contestant needs a program")?;
        let program = std::env::current_exe()?.with_file_name(program);
        Ok(Self {
            name: name.to_owned(),
            program,
            args: words.collect(),
        })
    }

    /// Starts the program on the calling thread's core, loads it for one window and ends it.
    ///
    /// # Errors
    /// When the program does not start or does not answer.
    pub fn sample(&self, window: Window) -> Result<Sample> {
        let mut command = Command::new(&self.program);
        // After the contestant's own, so that `valgrind` or `strace` can be the program.
        command.args(&self.args);
        command.args(["--listen", "127.0.0.1:0", "--to", &window.echo.to_string()]);
        let stderr = if window.log {
            Stdio::inherit()
        } else {
            Stdio::null()
        };
        command.stdout(Stdio::piped()).stderr(stderr);
        let mut child = command
            .spawn()
            .with_context(|| format!("starting {}", self.name))?;
        let stdout = child.stdout.take().expect("asked for above");
        let running = Running(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let target = line
            .trim()
            .parse()
            .with_context(|| format!("{} said {line:?}", self.name))?;

        let load = Load::start(target, window.connections, window.cpu);
        thread::sleep(window.length / 4);
        let pid = running.0.id();
        let (slept, began) = (sleeps(pid)?, Instant::now());
        let (cpu, answers) = (cpu_nanos(pid)?, load.answers());
        thread::sleep(window.length);
        let (took, cpu) = (began.elapsed(), cpu_nanos(pid)? - cpu);
        let answers = load.answers() - answers;
        let (slept, pss_kib) = (sleeps(pid)? - slept, pss_kib(pid)?);
        load.finish()
            .with_context(|| format!("loading {}", self.name))?;
        if answers == 0 {
            bail!("{} answered nothing", self.name);
        }
        let micros = cpu as f64 / 1000.0 / answers as f64;
        let sleeps = slept as f64 / answers as f64;
        Ok(Sample {
            sleeps,
            micros,
            rate: answers as f64 / took.as_secs_f64(),
            pss_kib,
        })
    }
}

/// Time on a core of all threads, in ns.
fn cpu_nanos(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let first = text
            .split_whitespace()
            .next()
            .context("schedstat is empty")?;
        sum += first.parse::<u64>()?;
    }
    Ok(sum)
}

/// Voluntary context switches of the first (in all contestants the only busy) thread.
fn sleeps(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    Ok(line
        .context("status has no context switches")?
        .trim()
        .parse()?)
}

fn pss_kib(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("smaps_rollup has no Pss")?.parse()?)
}
