//! How many descriptors a process may have: of the test itself, and of a proxy that runs.
//! Used by tests with many connections, and by those that want too few.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// Raises this process's limit to `wanted`, or as far as allowed; returns what it is now.
///
/// # Panics
/// If the limit cannot be set within what is allowed.
#[must_use]
pub fn raise(wanted: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let higher = wanted.max(maximum.unwrap_or(u64::MAX));
    let all = Rlimit {
        current: Some(wanted),
        maximum: Some(higher),
    };
    // The hard limit is root's to raise.
    if current.is_none_or(|current| current >= wanted) || setrlimit(Resource::Nofile, all).is_ok() {
        return wanted;
    }
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).expect("up to the hard limit");
    current.unwrap_or(wanted)
}

/// Limits another process to `count` from now on; what it has open stays open.
///
/// # Panics
/// If the process is gone or not ours.
pub fn limit(pid: u32, count: usize) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(count as u64);
    prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).expect("the process is ours");
}
