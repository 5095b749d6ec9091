//! Which users this machine has already. Asked before a mesh chooses its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Users with a name or a process, and the names.
pub(crate) fn taken() -> (BTreeSet<u32>, BTreeMap<String, u32>) {
    let names = read(&fs::read_to_string("/etc/passwd").unwrap_or_default());
    // The folder of a process is its user's.
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let owners = entries.filter_map(|entry| entry.metadata().ok().map(|found| found.uid()));
    let users = owners.chain(names.values().copied()).collect();
    (users, names)
}

fn read(passwd: &str) -> BTreeMap<String, u32> {
    let read = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((name, fields.nth(1)?.parse().ok()?))
    };
    passwd.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_and_numbers() {
        let users = read("root:x:0:0:root:/root:/bin/sh\nbroken\nwww:x:33:33::/:\n");
        assert_eq!(
            users,
            [("root".to_owned(), 0), ("www".to_owned(), 33)].into()
        );
    }

    #[test]
    fn who_runs_this_is_taken() {
        let (users, _) = taken();
        assert!(users.contains(&rustix::process::geteuid().as_raw()));
    }
}
