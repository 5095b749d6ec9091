//! Control groups, version 2 or 1: one per sidecar, with its limits and its counters.
//! Called by the loopback environment. Only makes and removes directories of its own name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::process;

/// Directories that we make are called `leno-bench-<our pid>-<name>`.
const PREFIX: &str = "leno-bench-";
/// The quota's period; the kernel's own default.
const PERIOD_MICROS: u64 = 100_000;

/// What a group may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// CPUs' worth of time per period.
    pub cpus: f64,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

/// How a group was held back by its quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Time that its threads waited, summed over CPUs.
    pub time: Duration,
    /// Periods in which it wanted to run.
    pub periods: u64,
    /// Those that ended with the quota spent and work left.
    pub throttled_periods: u64,
}

impl Throttled {
    /// From an earlier moment to this one.
    pub fn since(self, begin: Self) -> Self {
        Self {
            time: self.time.saturating_sub(begin.time),
            periods: self.periods.saturating_sub(begin.periods),
            throttled_periods: self
                .throttled_periods
                .saturating_sub(begin.throttled_periods),
        }
    }
}

/// Where groups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hierarchy {
    /// One unified directory with cpu and memory.
    V2(PathBuf),
    /// One directory per controller.
    V1 {
        /// Holds the quota.
        cpu: PathBuf,
        /// Holds the usage.
        cpuacct: PathBuf,
        /// Holds the memory limit.
        memory: PathBuf,
    },
}

/// A group. Dropping it removes it if it is ours; its processes must be gone by then.
#[derive(Debug)]
pub struct Cgroup {
    hierarchy: Hierarchy,
    is_ours: bool,
}

impl Hierarchy {
    /// Finds where this process may make groups with limits, or says why it may not.
    pub fn find() -> Result<Self, String> {
        let mounts = read(Path::new("/proc/self/mountinfo"))?;
        let own = read(Path::new("/proc/self/cgroup"))?;
        let candidates = [unified(&mounts, &own), split(&mounts, &own)];
        let mut why = "no cgroup file system with cpu and memory is mounted".to_owned();
        for candidate in candidates.into_iter().flatten() {
            candidate.sweep();
            match candidate.probe() {
                Ok(()) => return Ok(candidate),
                Err(error) => why = format!("cgroups may not be written here: {error}"),
            }
        }
        Err(why)
    }

    /// Makes a group and sets its limits.
    pub fn make(&self, name: &str, limit: Limit) -> io::Result<Cgroup> {
        let leaf = format!("{PREFIX}{}-{name}", std::process::id());
        // Made first, so that a failure half way removes what exists.
        let cgroup = Cgroup {
            hierarchy: self.below(&leaf),
            is_ours: true,
        };
        for dir in cgroup.dirs() {
            match fs::create_dir(dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        cgroup.limit(limit)?;
        Ok(cgroup)
    }

    /// Makes a group and lets a process join it: both may be forbidden.
    fn probe(&self) -> io::Result<()> {
        let group = self.make(
            "probe",
            Limit {
                cpus: 1.0,
                memory_bytes: 64 << 20,
            },
        )?;
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        // Without this program on the machine the first sidecar will tell.
        let Ok(mut child) = command.spawn() else {
            return Ok(());
        };
        let pid = child.id().to_string();
        let mut dirs = group.dirs().into_iter();
        let joined = dirs.try_for_each(|dir| fs::write(dir.join("cgroup.procs"), &pid));
        child.kill()?;
        child.wait()?;
        joined
    }

    /// `cgroup v1` or `cgroup v2`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::V2(_) => "cgroup v2",
            Self::V1 { .. } => "cgroup v1",
        }
    }

    fn below(&self, leaf: &str) -> Self {
        match self {
            Self::V2(dir) => Self::V2(dir.join(leaf)),
            Self::V1 {
                cpu,
                cpuacct,
                memory,
            } => Self::V1 {
                cpu: cpu.join(leaf),
                cpuacct: cpuacct.join(leaf),
                memory: memory.join(leaf),
            },
        }
    }

    fn dirs(&self) -> Vec<&Path> {
        match self {
            Self::V2(dir) => vec![dir],
            Self::V1 {
                cpu,
                cpuacct,
                memory,
            } => {
                let mut dirs: Vec<&Path> = vec![cpu, cpuacct, memory];
                // cpu and cpuacct are often one hierarchy.
                dirs.dedup();
                dirs
            }
        }
    }

    /// Removes groups left behind by benchmarks that were killed.
    fn sweep(&self) {
        for dir in self.dirs() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let owner = name
                    .strip_prefix(PREFIX)
                    .and_then(|rest| rest.split('-').next());
                let owner = owner.and_then(|pid| pid.parse::<i32>().ok());
                if owner.is_some_and(|pid| !process::exists(pid)) {
                    // Refused by the kernel as long as it has processes.
                    let _ = fs::remove_dir(entry.path());
                }
            }
        }
    }
}

impl Cgroup {
    /// The group that somebody else made of these directories, one in each hierarchy, to be read
    /// only. None when no version has all that is read.
    pub fn of_others(dirs: &[PathBuf]) -> Option<Self> {
        let with = |file: &str| dirs.iter().find(|dir| dir.join(file).exists()).cloned();
        let split = || {
            Some(Hierarchy::V1 {
                cpu: with("cpu.cfs_quota_us")?,
                cpuacct: with("cpuacct.usage")?,
                memory: with("memory.limit_in_bytes")?,
            })
        };
        // Beside version 1 there may be an empty tree of version 2: `memory.max` tells.
        let hierarchy = with("memory.max").map(Hierarchy::V2).or_else(split)?;
        Some(Self {
            hierarchy,
            is_ours: false,
        })
    }

    /// The directories whose `cgroup.procs` a process joins.
    pub fn dirs(&self) -> Vec<&Path> {
        self.hierarchy.dirs()
    }

    /// Its processes.
    pub fn members(&self) -> io::Result<Vec<u32>> {
        let dirs = self.dirs();
        let dir = dirs.first().ok_or_else(|| io::Error::other("no group"))?;
        let text = fs::read_to_string(dir.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// CPU time of all processes it ever had.
    pub fn cpu(&self) -> io::Result<Duration> {
        match &self.hierarchy {
            Hierarchy::V2(dir) => field(&dir.join("cpu.stat"), "usage_usec").map(micros),
            Hierarchy::V1 { cpuacct, .. } => {
                let text = fs::read_to_string(cpuacct.join("cpuacct.usage"))?;
                text.trim()
                    .parse()
                    .map(Duration::from_nanos)
                    .map_err(io::Error::other)
            }
        }
    }

    /// How it was held back by its quota until now.
    pub fn throttled(&self) -> io::Result<Throttled> {
        let (dir, key, unit): (_, _, fn(u64) -> Duration) = match &self.hierarchy {
            Hierarchy::V2(dir) => (dir, "throttled_usec", micros),
            Hierarchy::V1 { cpu, .. } => (cpu, "throttled_time", Duration::from_nanos),
        };
        let file = dir.join("cpu.stat");
        Ok(Throttled {
            time: field(&file, key).map(unit)?,
            periods: field(&file, "nr_periods")?,
            throttled_periods: field(&file, "nr_throttled")?,
        })
    }

    /// Bytes of anonymous memory.
    pub fn anon_bytes(&self) -> io::Result<u64> {
        match &self.hierarchy {
            Hierarchy::V2(dir) => field(&dir.join("memory.stat"), "anon"),
            Hierarchy::V1 { memory, .. } => field(&memory.join("memory.stat"), "rss"),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a few CPUs' worth of microseconds"
    )]
    fn limit(&self, limit: Limit) -> io::Result<()> {
        let quota = (limit.cpus * PERIOD_MICROS as f64) as u64;
        let bytes = limit.memory_bytes.to_string();
        match &self.hierarchy {
            Hierarchy::V2(dir) => {
                fs::write(dir.join("cpu.max"), format!("{quota} {PERIOD_MICROS}"))?;
                fs::write(dir.join("memory.max"), bytes)
            }
            Hierarchy::V1 { cpu, memory, .. } => {
                fs::write(cpu.join("cpu.cfs_period_us"), PERIOD_MICROS.to_string())?;
                fs::write(cpu.join("cpu.cfs_quota_us"), quota.to_string())?;
                fs::write(memory.join("memory.limit_in_bytes"), bytes)
            }
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if !self.is_ours {
            return;
        }
        for dir in self.dirs() {
            // What is left, the next benchmark sweeps.
            let _ = fs::remove_dir(dir);
        }
    }
}

fn micros(value: u64) -> Duration {
    Duration::from_micros(value)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))
}

/// The value of `key` in a file of `key value` lines.
fn field(path: &Path, key: &str) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    let value = pairs.find_map(|(name, value)| (name == key).then(|| value.trim().parse().ok()));
    value
        .flatten()
        .ok_or_else(|| io::Error::other(format!("no {key} in {}", path.display())))
}

/// The nearest ancestor of our own unified group that hands cpu and memory to its children.
fn unified(mounts: &str, own: &str) -> Option<Hierarchy> {
    let mount = mounts
        .lines()
        .filter_map(Mount::parse)
        .find(|mount| mount.kind == "cgroup2")?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let start = mount.dir(path);
    let mut dirs = start
        .ancestors()
        .take_while(|dir| dir.starts_with(&mount.point));
    let found = dirs.find(|dir| hands_down(dir))?;
    Some(Hierarchy::V2(found.to_path_buf()))
}

fn hands_down(dir: &Path) -> bool {
    let text = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
    let controllers: Vec<&str> = text.split_whitespace().collect();
    ["cpu", "memory"]
        .iter()
        .all(|wanted| controllers.contains(wanted))
}

/// Our own group in each of the version 1 hierarchies.
fn split(mounts: &str, own: &str) -> Option<Hierarchy> {
    let find = |controller: &str| {
        let mut found = mounts.lines().filter_map(Mount::parse);
        let mount = found.find(|mount| mount.kind == "cgroup" && mount.has(controller))?;
        let path = own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let held = parts.next()?.split(',').any(|name| name == controller);
            held.then(|| parts.next()).flatten()
        })?;
        Some(mount.dir(path))
    };
    Some(Hierarchy::V1 {
        cpu: find("cpu")?,
        cpuacct: find("cpuacct")?,
        memory: find("memory")?,
    })
}

/// One line of `/proc/self/mountinfo`.
struct Mount<'a> {
    root: &'a str,
    point: PathBuf,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, PathBuf::from(before.next()?));
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        Some(Self {
            root,
            point,
            kind,
            options,
        })
    }

    fn has(&self, controller: &str) -> bool {
        self.options.split(',').any(|option| option == controller)
    }

    /// Where a group's path is seen here; the mount's own point where it is out of sight.
    fn dir(&self, path: &str) -> PathBuf {
        let inside = path
            .strip_prefix(self.root)
            .unwrap_or(path)
            .trim_start_matches('/');
        let dir = self.point.join(inside);
        if dir.is_dir() {
            dir
        } else {
            self.point.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_hierarchies_are_found_by_controller() {
        let mounts = "30 20 0:1 / /nowhere/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      31 20 0:2 / /nowhere/memory rw - cgroup cgroup rw,memory\n";
        let own = "3:cpu,cpuacct:/a\n2:memory:/b\n0::/\n";
        let both = PathBuf::from("/nowhere/cpu,cpuacct");
        let found = split(mounts, own).unwrap();
        let memory = PathBuf::from("/nowhere/memory");
        assert_eq!(
            found,
            Hierarchy::V1 {
                cpu: both.clone(),
                cpuacct: both,
                memory
            }
        );
        assert_eq!(found.dirs().len(), 2);
    }

    #[test]
    fn root_makes_groups_with_limits_and_leaves_none() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        let hierarchy = Hierarchy::find().unwrap();
        let cgroup = hierarchy
            .make(
                "test",
                Limit {
                    cpus: 0.5,
                    memory_bytes: 64 << 20,
                },
            )
            .unwrap();
        let dirs: Vec<PathBuf> = cgroup.dirs().into_iter().map(Path::to_path_buf).collect();
        assert!(dirs.iter().all(|dir| dir.join("cgroup.procs").is_file()));
        assert_eq!(cgroup.cpu().unwrap(), Duration::ZERO);
        assert_eq!(cgroup.throttled().unwrap(), Throttled::default());
        assert!(cgroup.anon_bytes().is_ok());
        drop(cgroup);
        assert!(dirs.iter().all(|dir| !dir.exists()));
    }

    #[test]
    fn the_group_of_others_is_found_by_its_files_and_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let group = |name: &str, files: &[&str]| {
            let dir = root.path().join(name);
            fs::create_dir(&dir).unwrap();
            files
                .iter()
                .for_each(|file| fs::write(dir.join(file), "").unwrap());
            dir
        };
        let empty = group("unified", &["cgroup.procs"]);
        let cpu = group("cpu", &["cpu.cfs_quota_us", "cpuacct.usage"]);
        let memory = group("memory", &["memory.limit_in_bytes"]);
        let whole = group("whole", &["memory.max", "cpu.stat"]);
        let found = |dirs: &[&PathBuf]| {
            let dirs: Vec<PathBuf> = dirs.iter().map(|dir| (*dir).clone()).collect();
            Cgroup::of_others(&dirs).map(|group| group.hierarchy.name())
        };
        assert_eq!(found(&[&empty, &cpu, &memory]), Some("cgroup v1"));
        assert_eq!(found(&[&whole]), Some("cgroup v2"));
        assert_eq!(found(&[&empty]), None);
        assert!(whole.exists() && cpu.exists() && memory.exists());
    }

    #[test]
    fn a_unified_tree_without_controllers_is_passed_over() {
        let mounts = "30 20 0:1 / /nowhere/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(unified(mounts, "0::/\n"), None);
    }
}
