//! What a process used between two moments: CPU, throttling, memory; and how idle the machine
//! was. Called by the environment at both ends of the measured window. Reads, never changes.

use std::fs;
use std::time::{Duration, Instant};
use std::{io, iter};

use crate::cgroup::{Cgroup, Throttled};
use crate::results::{SidecarUsage, UsageSample};

/// Reads one process and those that it has started: its cgroup, or where it has none those of its
/// process group that live.
#[derive(Debug)]
pub struct Meter {
    pid: u32,
    cgroup: Option<Cgroup>,
}

/// Counters of a process at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    at: Instant,
    cpu: Duration,
    throttled: Option<Throttled>,
}

impl Meter {
    /// Watches `pid`; owns its cgroup, which goes when the meter does.
    pub fn new(pid: u32, cgroup: Option<Cgroup>) -> Self {
        Self { pid, cgroup }
    }

    /// All processes that are read; that of [`Meter::new`] is the first.
    pub fn members(&self) -> Vec<u32> {
        let members = match &self.cgroup {
            Some(cgroup) => cgroup.members(),
            None => group_of(self.pid),
        };
        let others = members.into_iter().flatten();
        let others = others.filter(|&pid| pid != self.pid);
        iter::once(self.pid).chain(others).collect()
    }

    /// Reads the CPU counters now.
    pub fn read(&self) -> io::Result<Reading> {
        let (cpu, throttled) = match &self.cgroup {
            Some(cgroup) => (cgroup.cpu()?, cgroup.throttled().ok()),
            None => (self.cpu_of_members()?, None),
        };
        Ok(Reading {
            at: Instant::now(),
            cpu,
            throttled,
        })
    }

    /// What was used since `begin`, given the counters at the end. Memory is read here: call it
    /// right after the window, and after all CPU counters, because reading it takes time.
    pub fn usage(&self, begin: Reading, end: Reading) -> io::Result<SidecarUsage> {
        let throttled = end.throttled.zip(begin.throttled);
        let throttled = throttled.map(|(end, begin)| end.since(begin));
        Ok(SidecarUsage {
            cpu_seconds: end.cpu.saturating_sub(begin.cpu).as_secs_f64(),
            window_seconds: (end.at - begin.at).as_secs_f64(),
            throttled_seconds: throttled.map(|it| it.time.as_secs_f64()),
            periods: throttled.map(|it| it.periods),
            throttled_periods: throttled.map(|it| it.throttled_periods),
            samples: Vec::new(),
            pss_bytes: self.pss_of_members()?,
            anon_bytes: self.anon_bytes(),
        })
    }

    /// What happened since `before` in a window that began with `begin`. Cheap: it is called while
    /// the window is open.
    pub fn sample(&self, begin: Reading, before: Reading, now: Reading) -> UsageSample {
        let seconds = (now.at - before.at).as_secs_f64();
        let cpu = now.cpu.saturating_sub(before.cpu).as_secs_f64();
        UsageSample {
            at_seconds: (now.at - begin.at).as_secs_f64(),
            cores: if seconds > 0.0 { cpu / seconds } else { 0.0 },
            anon_bytes: self.anon_bytes(),
        }
    }

    /// The process itself must live; those that it has started may end at any time.
    fn cpu_of_members(&self) -> io::Result<Duration> {
        let first = cpu_of(self.pid)?;
        let others = self.members().into_iter().skip(1);
        Ok(others.filter_map(|pid| cpu_of(pid).ok()).sum::<Duration>() + first)
    }

    fn pss_of_members(&self) -> io::Result<u64> {
        let first = pss_of(self.pid)?;
        let others = self.members().into_iter().skip(1);
        Ok(others.filter_map(|pid| pss_of(pid).ok()).sum::<u64>() + first)
    }

    fn anon_bytes(&self) -> Option<u64> {
        let cgroup = self.cgroup.as_ref()?;
        cgroup.anon_bytes().ok()
    }
}

/// The processes of the group that `leader` leads.
pub(crate) fn group_of(leader: u32) -> io::Result<Vec<u32>> {
    let mut members = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process may end between listing and reading.
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // State, parent, group.
        let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let group = after_name.split_whitespace().nth(2);
        if group.and_then(|word| word.parse::<u32>().ok()) == Some(leader) {
            members.push(pid);
        }
    }
    Ok(members)
}

/// CPU time of the living threads of a process, to the nanosecond where the kernel keeps it.
pub fn cpu_of(pid: u32) -> io::Result<Duration> {
    let mut nanos = 0_u64;
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between listing and reading.
        let Ok(text) = fs::read_to_string(entry?.path().join("schedstat")) else {
            continue;
        };
        let ran = text
            .split_whitespace()
            .next()
            .and_then(|word| word.parse::<u64>().ok());
        nanos += ran.unwrap_or(0);
    }
    if nanos > 0 {
        Ok(Duration::from_nanos(nanos))
    } else {
        ticks_of(pid)
    }
}

/// CPU time in the scheduler's ticks, of threads that have ended, too: all that a kernel without
/// schedstats keeps.
pub(crate) fn ticks_of(pid: u32) -> io::Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = after_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|word| word.parse::<u64>().ok()).sum();
    Ok(Duration::from_micros(
        ticks * 1_000_000 / rustix::param::clock_ticks_per_second(),
    ))
}

/// Proportional set size in bytes.
pub fn pss_of(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| io::Error::other("no Pss in smaps_rollup"))
}

/// CPU time of the whole machine since it started, in ticks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machine {
    idle: u64,
    stolen: u64,
    total: u64,
}

impl Machine {
    /// Reads `/proc/stat` now.
    pub fn read() -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string("/proc/stat")?))
    }

    fn parse(text: &str) -> Self {
        // user nice system idle iowait irq softirq steal; guest time is within user.
        let mut ticks = [0_u64; 8];
        let words = text.split_whitespace().skip(1);
        for (tick, word) in ticks.iter_mut().zip(words) {
            *tick = word.parse().unwrap_or(0);
        }
        Self {
            idle: ticks[3] + ticks[4],
            stolen: ticks[7],
            total: ticks.iter().sum(),
        }
    }

    /// Shares of the time since `begin` that were idle and stolen; `None` when no tick passed.
    #[expect(clippy::cast_precision_loss, reason = "ticks are far below 2^52")]
    pub fn shares_since(self, begin: Self) -> Option<(f64, f64)> {
        let total = self
            .total
            .checked_sub(begin.total)
            .filter(|&ticks| ticks > 0)? as f64;
        let share = |end: u64, begin: u64| end.saturating_sub(begin) as f64 / total;
        Some((
            share(self.idle, begin.idle),
            share(self.stolen, begin.stolen),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{ChildStdout, Command, Stdio};

    use super::*;
    use crate::cgroup::{Hierarchy, Limit};

    #[test]
    fn our_own_process_has_cpu_and_memory() {
        let pid = std::process::id();
        assert!(cpu_of(pid).unwrap() > Duration::ZERO);
        assert!(pss_of(pid).unwrap() > 0);
    }

    /// A shell that counts whenever it is told to.
    struct Counter {
        child: std::process::Child,
        said: BufReader<ChildStdout>,
    }

    impl Counter {
        fn start() -> Self {
            let script = "while read go; do i=0; \
                          while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; done";
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).stdin(Stdio::piped());
            let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
            let said = BufReader::new(child.stdout.take().unwrap());
            Self { child, said }
        }

        fn count(&mut self) {
            let stdin = self.child.stdin.as_mut().unwrap();
            stdin.write_all(b"go\n").unwrap();
            self.said.read_line(&mut String::new()).unwrap();
        }
    }

    impl Drop for Counter {
        fn drop(&mut self) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }

    /// What the kernel writes down for a process in other files than those that a meter reads: CPU
    /// in `stat`, memory range by range in `smaps`.
    fn books(pid: u32) -> (Duration, u64) {
        let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
        let parts = smaps.lines().filter_map(|line| line.strip_prefix("Pss:"));
        let kib = parts.map(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap());
        (ticks_of(pid).unwrap(), kib.sum::<u64>() * 1024)
    }

    #[track_caller]
    fn check_agreement(cgroup: Option<Cgroup>) {
        // So that a tick more or less is within the two percent.
        const ENOUGH: Duration = Duration::from_secs(2);
        let mut counter = Counter::start();
        let pid = counter.child.id();
        for dir in cgroup.iter().flat_map(Cgroup::dirs) {
            fs::write(dir.join("cgroup.procs"), pid.to_string()).unwrap();
        }
        counter.count();
        let meter = Meter::new(pid, cgroup);
        let (begin, (cpu_before, _)) = (meter.read().unwrap(), books(pid));
        let cpu = loop {
            counter.count();
            let cpu = books(pid).0 - cpu_before;
            if cpu > ENOUGH {
                break cpu.as_secs_f64();
            }
        };
        let end = meter.read().unwrap();
        let usage = meter.usage(begin, end).unwrap();
        let pss = crate::units::count(books(pid).1);
        assert!(
            (usage.cpu_seconds / cpu - 1.0).abs() < 0.02,
            "{usage:?}, {cpu} s"
        );
        let found = crate::units::count(usage.pss_bytes);
        assert!((found / pss - 1.0).abs() < 0.02, "{usage:?}, {pss} bytes");
        drop(counter);
    }

    #[test]
    fn usage_agrees_with_the_kernel_s_books() {
        check_agreement(None);
        if !rustix::process::geteuid().is_root() {
            return println!("SKIPPED: cgroups need root");
        }
        let limit = Limit {
            cpus: 1.0,
            memory_bytes: 64 << 20,
        };
        let hierarchy = Hierarchy::find().unwrap();
        check_agreement(Some(hierarchy.make("meter", limit).unwrap()));
    }

    #[test]
    fn shares_are_of_the_time_between_two_readings() {
        let begin = Machine::parse("cpu 10 0 10 80 0 0 0 0 0 0\ncpu0 1");
        let end = Machine::parse("cpu 40 0 20 130 0 0 0 10 0 0\ncpu0 1");
        assert_eq!(end.shares_since(begin), Some((0.5, 0.1)));
        assert_eq!(begin.shares_since(begin), None);
    }
}
