//! What a group used, as the kernel counts it, in either version. Called by the supervisor and
//! whoever shows a mesh. What is not counted here is zero.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What all processes of a group used, those that ended included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time.
    pub cpu: Duration,
    /// Memory that could not be had back at once: without file pages that were not used of late.
    pub memory_bytes: u64,
    /// Periods of its CPU limit in which something ran.
    pub periods: u64,
    /// Those of them in which it was held back.
    pub throttled_periods: u64,
    /// How long it was held back, summed over the CPUs.
    pub throttled: Duration,
    /// Processes that were killed because its memory was used up.
    pub oom_kills: u64,
}

/// What was used by one group that has a folder in each hierarchy.
#[must_use]
pub fn usage(groups: &[PathBuf]) -> Usage {
    let one = |file: &str, key: &str| {
        let mut paths = groups.iter().map(|group| group.join(file));
        paths.find_map(|path| field(&path, key))
    };
    // A name alone is that of version 2, which has a word of its own for it.
    let either = |unified: (&str, &str), apart: (&str, &str)| {
        let found = one(unified.0, unified.1);
        found.or_else(|| one(apart.0, apart.1)).unwrap_or_default()
    };
    let micros = |file, key| one(file, key).map(Duration::from_micros);
    let nanos = |file, key| one(file, key).map(Duration::from_nanos);
    let counted = nanos("cpuacct.usage", "").or_else(|| micros("cpu.stat", "usage_usec"));
    let held = nanos("cpu.stat", "throttled_time").or_else(|| micros("cpu.stat", "throttled_usec"));
    let used = either(("memory.current", ""), ("memory.usage_in_bytes", ""));
    let idle = either(
        ("memory.stat", "total_inactive_file"),
        ("memory.stat", "inactive_file"),
    );
    Usage {
        cpu: counted.unwrap_or_default(),
        memory_bytes: used.saturating_sub(idle),
        periods: one("cpu.stat", "nr_periods").unwrap_or_default(),
        throttled_periods: one("cpu.stat", "nr_throttled").unwrap_or_default(),
        throttled: held.unwrap_or_default(),
        oom_kills: either(
            ("memory.events", "oom_kill"),
            ("memory.oom_control", "oom_kill"),
        ),
    }
}

/// The value of `key` in a file of `key value` lines; the whole file where the key is empty.
pub(super) fn field(path: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    if key.is_empty() {
        return text.trim().parse().ok();
    }
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = pairs.find(|(name, _)| *name == key)?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(folders: &[&[(&str, &str)]], expected: Usage) {
        let root = tempfile::tempdir().unwrap();
        let groups = folders.iter().enumerate().map(|(index, files)| {
            let group = root.path().join(index.to_string());
            fs::create_dir(&group).unwrap();
            for (name, text) in *files {
                fs::write(group.join(name), text).unwrap();
            }
            group
        });
        assert_eq!(usage(&groups.collect::<Vec<_>>()), expected);
    }

    #[test]
    fn both_versions_count_the_same() {
        let expected = Usage {
            cpu: Duration::from_millis(1500),
            memory_bytes: 6000,
            periods: 20,
            throttled_periods: 12,
            throttled: Duration::from_millis(700),
            oom_kills: 3,
        };
        let cpu = "usage_usec 1500000\nuser_usec 1\nnr_periods 20\nnr_throttled 12\n\
                   throttled_usec 700000\n";
        let unified = [
            ("cpu.stat", cpu),
            ("memory.current", "10000\n"),
            ("memory.stat", "anon 5000\ninactive_file 4000\n"),
            ("memory.events", "oom 4\noom_kill 3\n"),
        ];
        check(&[&unified], expected);
        let stat = "nr_periods 20\nnr_throttled 12\nthrottled_time 700000000\n";
        let memory = [
            ("memory.usage_in_bytes", "10000\n"),
            (
                "memory.stat",
                "inactive_file 1000\ntotal_inactive_file 4000\n",
            ),
            (
                "memory.oom_control",
                "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            ),
        ];
        check(
            &[
                &[("cpu.stat", stat)],
                &[("cpuacct.usage", "1500000000\n")],
                &memory,
            ],
            expected,
        );
    }

    #[test]
    fn what_is_not_counted_is_zero() {
        check(&[], Usage::default());
        check(&[&[("cpu.stat", "usage_usec ?\n")]], Usage::default());
    }
}
