//! Child processes of a benchmark: started in their cgroups and on their CPUs from the first
//! instruction, watched, and gone when their guard is dropped, with whatever they have started;
//! the child itself also when we are killed.
//! Called by the environment and by `leno bench cost`. Never signals a process it did not start.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use rustix::thread::CpuSet;

/// Lines of a child's standard error that are kept to explain its failure.
const TAIL_LINES: usize = 12;
/// Lines of a child's standard output that are kept until they are asked for; what comes on top,
/// such as an access log, is lost.
const LINES_AHEAD: usize = 64;
/// How long the rest of what a program said is waited for when it has failed.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a child may take until it is ready: generous, machines under test are busy.
pub const READY_WITHIN: Duration = Duration::from_secs(20);

/// Where a child runs.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Placing {
    /// A CPU it may use; repeatable; none means any
    #[arg(long = "cpu")]
    pub cpus: Vec<usize>,
    /// A cgroup directory that it joins; repeatable
    #[arg(long = "join")]
    pub cgroups: Vec<PathBuf>,
    /// The process whose end ends it
    #[arg(long)]
    pub parent: Option<u32>,
}

/// What a child runs.
#[derive(Debug, Clone)]
pub struct Program {
    /// How errors name it, e.g. `server sidecar (envoy)`.
    pub label: String,
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// Turns this process into `program`: joins the cgroups, takes the CPUs, dies with its parent,
/// and executes it. Called by the hidden `leno bench place`. Returns only on failure.
pub fn place(placing: &Placing, program: &[OsString]) -> anyhow::Error {
    if let Err(error) = prepare(placing) {
        return error;
    }
    let Some((path, args)) = program.split_first() else {
        return anyhow!("no program given: add it after --");
    };
    let error = Command::new(path).args(args).exec();
    anyhow!(error).context(format!("executing {}", path.display()))
}

fn prepare(placing: &Placing) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    if placing.parent.is_some() && placing.parent != parent {
        anyhow::bail!("the benchmark that started this is gone");
    }
    for dir in &placing.cgroups {
        let path = dir.join("cgroup.procs");
        std::fs::write(&path, std::process::id().to_string())
            .with_context(|| format!("joining {}", dir.display()))?;
    }
    pin_self(&placing.cpus).with_context(|| format!("taking CPUs {:?}", placing.cpus))
}

/// Pins the calling thread, and what it starts from now on; no CPUs means nothing changes.
pub fn pin_self(cpus: &[usize]) -> std::io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// CPUs that this process may use.
pub fn usable_cpus() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return vec![0];
    };
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

/// What a child said last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// This.
    Line(String),
    /// Nothing yet.
    Nothing,
    /// All that it will: it has closed its output.
    Ended,
}

/// A running child, the leader of its process group. Dropping it ends the group and waits for it.
#[derive(Debug)]
pub struct Child {
    label: String,
    process: std::process::Child,
    /// Invariant: until it is set the process, dead or alive, was not waited for, so that nobody
    /// else can have its id.
    is_reaped: bool,
    stdout: Receiver<String>,
    tail: Arc<Mutex<VecDeque<String>>>,
    /// Hangs up once the program has said all it will.
    all_said: Receiver<()>,
}

impl Child {
    /// Starts `program` through `launcher`, an executable with `bench place` (the `leno` command).
    pub fn start(launcher: &Path, placing: &Placing, program: &Program) -> anyhow::Result<Self> {
        let mut command = Command::new(launcher);
        command
            .args(["bench", "place", "--parent"])
            .arg(std::process::id().to_string());
        for cpu in &placing.cpus {
            command.arg("--cpu").arg(cpu.to_string());
        }
        for dir in &placing.cgroups {
            command.arg("--join").arg(dir);
        }
        command.arg("--").arg(&program.path).args(&program.args);
        // A group of its own: Ctrl-C in the terminal is for us, and we decide what ends.
        command.process_group(0);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = command
            .spawn()
            .with_context(|| format!("starting {}", launcher.display()))?;
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let all_said = keep_tail(process.stderr.take(), Arc::clone(&tail));
        let stdout = lines_of(process.stdout.take());
        Ok(Self {
            label: program.label.clone(),
            process,
            is_reaped: false,
            stdout,
            tail,
            all_said,
        })
    }

    /// Its process id. Placing executes in place, so it is the program's own.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The next line of its standard output.
    ///
    /// # Errors
    /// When it ends or says nothing for [`READY_WITHIN`], with its last words.
    pub fn line(&mut self) -> anyhow::Result<String> {
        match self.stdout.recv_timeout(READY_WITHIN) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => {
                Err(self.failure(&format!("was not ready within {READY_WITHIN:?}")))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    /// Asks `ready` until it says yes.
    ///
    /// # Errors
    /// When the child ends or is not ready within [`READY_WITHIN`], with its last words.
    pub fn until(&mut self, mut ready: impl FnMut() -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        while !ready() {
            self.check()?;
            if Instant::now() > deadline {
                return Err(self.failure(&format!("was not ready within {READY_WITHIN:?}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Fails if it has ended, with its last words.
    pub fn check(&mut self) -> anyhow::Result<()> {
        if self.is_reaped {
            return Err(self.ended());
        }
        let glance = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.id()), glance)? {
            None => Ok(()),
            Some(_) => Err(self.ended()),
        }
    }

    /// Ends it, and what it has started, without warning, and waits until it is gone.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn kill(&mut self) -> std::io::Result<()> {
        self.reap().map(drop)
    }

    fn reap(&mut self) -> std::io::Result<ExitStatus> {
        if !self.is_reaped {
            // An error means that they are gone already, which is what is wanted.
            let _ = kill_process_group(self.id(), Signal::KILL);
        }
        self.is_reaped = true;
        self.process.wait()
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// The next line of its standard output, if there is one within this time.
    pub fn said_within(&self, time: Duration) -> Said {
        match self.stdout.recv_timeout(time) {
            Ok(line) => Said::Line(line),
            Err(RecvTimeoutError::Timeout) => Said::Nothing,
            Err(RecvTimeoutError::Disconnected) => Said::Ended,
        }
    }

    /// Waits until it has ended, and ends what it has started.
    ///
    /// # Errors
    /// When it did not end well, with its last words.
    pub fn succeed(&mut self) -> anyhow::Result<()> {
        if !self.is_reaped {
            let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(self.id()), end)?;
        }
        match self.reap()?.success() {
            true => Ok(()),
            false => Err(self.ended()),
        }
    }

    fn ended(&mut self) -> anyhow::Error {
        let status = self
            .reap()
            .map_or_else(|error| error.to_string(), |status| status.to_string());
        self.failure(&format!("ended: {status}"))
    }

    /// What it did wrong, with its last words.
    pub fn failure(&self, what: &str) -> anyhow::Error {
        // A program that has just ended may have said why in its last moment.
        let _ = self.all_said.recv_timeout(LAST_WORDS);
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let said: Vec<&str> = tail.iter().map(String::as_str).collect();
        match said.is_empty() {
            true => anyhow!("{} {what}; it said nothing", self.label),
            false => anyhow!(
                "{} {what}; its last words:\n  {}",
                self.label,
                said.join("\n  ")
            ),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.reap();
    }
}

/// Keeps the last lines; what is returned is hung up once the program has said all it will.
fn keep_tail(
    stderr: Option<impl Read + Send + 'static>,
    tail: Arc<Mutex<VecDeque<String>>>,
) -> Receiver<()> {
    let (hold, done) = channel();
    let Some(stderr) = stderr else { return done };
    std::thread::spawn(move || {
        let _hold = hold;
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            if tail.len() == TAIL_LINES {
                tail.pop_front();
            }
            tail.push_back(line);
        }
    });
    done
}

fn lines_of(stdout: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = sync_channel(LINES_AHEAD);
    if let Some(stdout) = stdout {
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
            // Reading on, whoever listens, keeps the child from blocking on a full pipe.
            lines.by_ref().for_each(|line| drop(sender.try_send(line)));
        });
    }
    receiver
}

/// Whether a process with this id exists.
pub fn exists(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else {
        return false;
    };
    !matches!(
        rustix::process::test_kill_process(pid),
        Err(rustix::io::Errno::SRCH)
    )
}
