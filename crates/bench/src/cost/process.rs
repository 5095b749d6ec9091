//! The processes of a cost run: started on a given core, read through `/proc`, ended with their
//! owner. Called by `subject`, without a launcher in between: start-up is measured.
//! Nothing here ends a process that it did not start.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::meter;

/// How long a contestant may take to listen or to leave; under callgrind all takes long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A child process, ended when dropped.
pub(crate) struct Process {
    child: Child,
    name: String,
    /// What it says on standard error, to explain an early end.
    log: PathBuf,
}

impl Process {
    /// Starts `command` on `core` (any core if absent); its standard error goes to `log`.
    pub(crate) fn start(
        command: &mut Command,
        core: Option<usize>,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stderr(fs::File::create(log)?);
        // A child inherits the mask of the thread that forks, and its threads inherit the child's.
        let child = on_core(core, || command.spawn())?.with_context(|| format!("start {name}"))?;
        Ok(Self {
            child,
            name,
            log: log.to_owned(),
        })
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().last().unwrap_or("without a word").to_owned()
    }

    /// CPU time of all its threads so far, in nanoseconds.
    ///
    /// # Errors
    /// When the process is gone.
    pub(crate) fn cpu_nanos(&self) -> anyhow::Result<u64> {
        let cpu = meter::cpu_of(self.child.id());
        let cpu = cpu.with_context(|| format!("{} has ended", self.name))?;
        Ok(u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Proportional set size in bytes.
    ///
    /// # Errors
    /// When the process is gone or the kernel has no `smaps_rollup`.
    pub(crate) fn pss_bytes(&self) -> anyhow::Result<u64> {
        meter::pss_of(self.child.id()).with_context(|| format!("read the memory of {}", self.name))
    }

    /// Waits until something listens on `addr`.
    pub(crate) fn wait_listening(&mut self, addr: SocketAddr) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(addr).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended ({status}): {}", self.name, self.last_words());
            }
            if Instant::now() > deadline {
                bail!("{} does not listen on {addr}", self.name);
            }
            thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// Asks it to end as an operator would, and waits until it has.
    ///
    /// # Errors
    /// When it does not end in time.
    pub(crate) fn end(&mut self) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a child's id is not zero");
        kill_process(pid, Signal::TERM)?;
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("{} does not end", self.name);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A contestant holds nothing worth a graceful end, and some take seconds over it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `work` with the calling thread held on `core`, then gives the thread its old cores back.
pub(crate) fn on_core<T>(core: Option<usize>, work: impl FnOnce() -> T) -> anyhow::Result<T> {
    let Some(core) = core else { return Ok(work()) };
    let before = sched_getaffinity(None)?;
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).with_context(|| format!("pin to core {core}"))?;
    let result = work();
    sched_setaffinity(None, &before)?;
    Ok(result)
}

/// A loopback address whose port nobody holds at this moment.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

/// Lets this process and its children hold as many descriptors as the machine permits.
pub(crate) fn raise_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it only the measurements with thousands of connections fail, and say why.
    let _ = setrlimit(Resource::Nofile, limit);
}
