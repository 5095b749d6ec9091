//! The most that a group may use, written for whichever version is there. Called by the supervisor
//! before a process joins, and when the file changes. A limit that cannot be kept is an error; no
//! limit never is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use control::kinds::Limits;
use rustix::io::Errno;

use super::place::{self, Refused};

/// How often the CPU time is given anew; the kernel's own default.
const PERIOD_MICROS: u64 = 100_000;
/// The longest that the kernel takes.
const PERIOD_MICROS_MAX: u64 = 1_000_000;
/// The least CPU time of a period that the kernel takes.
const QUOTA_MICROS_MIN: u64 = 1_000;
/// Who has less of a period than this has the least of a shorter one: a program that has used its
/// part up stands still until the next begins.
const QUOTA_MICROS_FINE: u64 = 5_000;

/// Lets `groups`, the folders of one group, use no more than `limits`. They may have processes
/// already. Where there is no limit, one that was there is taken away.
///
/// # Errors
/// When a limit is asked for and the machine has nothing to keep it, or refuses it.
pub fn set_limits(groups: &[PathBuf], limits: &Limits) -> anyhow::Result<()> {
    let handed = groups.iter().try_for_each(|group| place::hand_down(group));
    let place = Place { groups, handed };
    cpu(&place, limits.cpu_millis).context("limit the CPU time")?;
    memory(&place, limits.memory_bytes).context("limit the memory")
}

/// Where limits are written.
struct Place<'a> {
    groups: &'a [PathBuf],
    handed: Result<(), Refused>,
}

impl Place<'_> {
    /// The file of that name, in whichever hierarchy has it.
    fn file(&self, name: &str) -> Option<PathBuf> {
        let paths = self.groups.iter().map(|group| group.join(name));
        paths.into_iter().find(|path| path.exists())
    }

    /// Why there is no file for this controller.
    fn missing(&self, controller: &str) -> anyhow::Error {
        if self.groups.is_empty() {
            return anyhow!("no cgroups can be made here: mount cgroup2, or remove the limit");
        }
        match &self.handed {
            Err(refused) => anyhow!("{refused}: {}", hint(&refused.error)),
            Ok(()) => anyhow!(
                "the cgroups of this machine have no controller `{controller}`: boot it with \
                 cgroup_enable={controller}, or remove the limit"
            ),
        }
    }
}

fn hint(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::BUSY) => "it has processes of its own; move them into a group below it",
        Some(Errno::ACCESS | Errno::ROFS) => "let this machine's cgroups be written here",
        _ => "let it, or remove the limit",
    }
}

/// CPU time of each period, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quota {
    quota: u64,
    period: u64,
}

impl Quota {
    fn of(millis: u64) -> Self {
        let quota = millis.saturating_mul(PERIOD_MICROS / 1000);
        if quota >= QUOTA_MICROS_FINE {
            return Self {
                quota,
                period: PERIOD_MICROS,
            };
        }
        let period = QUOTA_MICROS_MIN * 1000 / millis.max(1);
        Self {
            quota: QUOTA_MICROS_MIN,
            period: period.min(PERIOD_MICROS_MAX),
        }
    }
}

fn cpu(place: &Place<'_>, millis: Option<u64>) -> anyhow::Result<()> {
    if millis == Some(0) {
        bail!("without any, nothing runs: give at least 1m, or remove the limit");
    }
    let quota = millis.map(Quota::of);
    if let Some(max) = place.file("cpu.max") {
        let quota = quota.map_or_else(|| "max".into(), |one| one.quota.to_string());
        let period = millis.map_or(PERIOD_MICROS, |millis| Quota::of(millis).period);
        return write(&max, &format!("{quota} {period}"));
    }
    match (place.file("cpu.cfs_quota_us"), quota) {
        (Some(path), quota) => cpu_apart(&path, quota),
        (None, Some(_)) => Err(place.missing("cpu")),
        (None, None) => Ok(()),
    }
}

/// In version 1, quota and period are two files, of which neither may make the other impossible.
fn cpu_apart(path: &Path, quota: Option<Quota>) -> anyhow::Result<()> {
    let period_path = path.with_file_name("cpu.cfs_period_us");
    let there = (number(path), number(&period_path));
    let same = |one: Quota| there == (Some(one.quota), Some(one.period));
    if quota.is_some_and(same) {
        return Ok(());
    }
    write(path, "-1")?;
    let Some(quota) = quota else {
        return Ok(());
    };
    write(&period_path, &quota.period.to_string())?;
    write(path, &quota.quota.to_string())
}

fn memory(place: &Place<'_>, bytes: Option<u64>) -> anyhow::Result<()> {
    if let Some(max) = place.file("memory.max") {
        return memory_unified(&max, bytes);
    }
    match (place.file("memory.limit_in_bytes"), bytes) {
        (Some(path), bytes) => memory_apart(&path, bytes),
        (None, Some(_)) => Err(place.missing("memory")),
        (None, None) => Ok(()),
    }
}

/// What is too much is killed and not swapped; all of the group at once, as half of an application
/// is of no use.
fn memory_unified(max: &Path, bytes: Option<u64>) -> anyhow::Result<()> {
    let swap = max.with_file_name("memory.swap.max");
    let together = max.with_file_name("memory.oom.group");
    if swap.exists() {
        write(&swap, if bytes.is_some() { "0" } else { "max" })?;
    }
    if together.exists() {
        write(&together, if bytes.is_some() { "1" } else { "0" })?;
    }
    write(
        max,
        &bytes.map_or_else(|| "max".into(), |bytes| bytes.to_string()),
    )
}

/// In version 1, memory and swap together are never limited lower than memory is.
fn memory_apart(limit: &Path, bytes: Option<u64>) -> anyhow::Result<()> {
    let mut paths = vec![limit.to_path_buf()];
    let with_swap = limit.with_file_name("memory.memsw.limit_in_bytes");
    if with_swap.exists() {
        let grows = bytes.is_none_or(|bytes| number(limit).is_some_and(|there| there < bytes));
        paths.insert(usize::from(!grows), with_swap);
    }
    let text = bytes.map_or_else(|| "-1".into(), |bytes| bytes.to_string());
    paths.iter().try_for_each(|path| write(path, &text))?;
    let killing = limit.with_file_name("memory.oom_control");
    // Inherited from a group above, it would make what is too much stand still for ever.
    let stands_still = super::usage::field(&killing, "oom_kill_disable") == Some(1);
    if stands_still {
        write(&killing, "0")
    } else {
        Ok(())
    }
}

fn number(path: &Path) -> Option<u64> {
    super::usage::field(path, "")
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let context = |error: &io::Error| {
        let hint = match Errno::from_io_error(error) {
            Some(Errno::BUSY) => ": more is in use already; start it anew for a lower limit",
            Some(Errno::INVAL) => ": give a limit that fits into those of the groups above",
            _ => "",
        };
        format!("write {text} to {}{hint}", path.display())
    };
    fs::write(path, text).map_err(|error| {
        let context = context(&error);
        anyhow!(error).context(context)
    })
}

#[cfg(test)]
mod tests;
