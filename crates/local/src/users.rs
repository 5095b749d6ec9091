//! Which users this machine has already. Asked before a mesh chooses its own, and for the group of
//! one that the file gives.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// Where they have names.
const PASSWD: &str = "/etc/passwd";

/// Users with a name or a process, and the names.
pub(crate) fn taken() -> (BTreeSet<u32>, BTreeMap<String, u32>) {
    let names = read(&fs::read_to_string(PASSWD).unwrap_or_default());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter(|entry| is_number(&entry.file_name()));
    let owners = processes.flat_map(|entry| owners(&entry.path()));
    let users = owners.chain(names.values().copied()).collect();
    (users, names)
}

fn is_number(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
}

/// All users that a process is. Its folder does not tell: that of one that hides its memory is
/// root's.
fn owners(process: &Path) -> Vec<u32> {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let words = users.unwrap_or_default().split_ascii_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

fn read(passwd: &str) -> BTreeMap<String, u32> {
    let read = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((name, fields.nth(1)?.parse().ok()?))
    };
    passwd.lines().filter_map(read).collect()
}

/// The group of a user: that which this machine says, or that of the same number where it does not
/// know the user. The same number may be a group with rights of its own (`shadow`), and root's
/// group is nobody's.
pub(crate) fn group_of(user: u32) -> u32 {
    own_group(&fs::read_to_string(PASSWD).unwrap_or_default(), user)
}

fn own_group(passwd: &str, user: u32) -> u32 {
    let read = |line: &str| {
        let mut numbers = line.split(':').skip(2).map(str::parse);
        let is_it = numbers.next()? == Ok(user);
        numbers.next()?.ok().filter(|group| is_it && *group != 0)
    };
    passwd.lines().find_map(read).unwrap_or(user)
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
    fn a_user_has_the_group_that_this_machine_says() {
        let passwd = "root:x:0:0::/:\nbroken\nwww:x:33:42::/:\nodd:x:11:0::/:\n";
        let check = |user, group| assert_eq!(own_group(passwd, user), group, "{user}");
        check(33, 42);
        check(11, 11);
        check(60_601, 60_601);
    }

    #[test]
    fn a_process_that_hides_its_memory_has_a_user_all_the_same() {
        assert_eq!(owners(Path::new("/proc/self")).len(), 4);
        assert!(is_number(OsStr::new("12")) && !is_number(OsStr::new("self")));
    }

    #[test]
    fn who_runs_this_is_taken() {
        let (users, _) = taken();
        assert!(users.contains(&rustix::process::geteuid().as_raw()));
    }
}
