//! Where in the cgroup file systems the groups of a mesh belong: below the root of each hierarchy,
//! or where that cannot be written, below the group that we are in; and handing the controllers
//! down to there. Called by `cgroup`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Controllers whose hierarchies are used where they are apart.
const CONTROLLERS: [&str; 3] = ["cpu", "cpuacct", "memory"];
/// Controllers that limit something, in either version.
const LIMITING: [&str; 2] = ["cpu", "memory"];

/// The folder `name` in each hierarchy that matters, for what `/proc/self/mountinfo` and
/// `/proc/self/cgroup` show: those of version 1 where it has our controllers, and that of version
/// 2 where it has one, or there is no other.
pub(super) fn find(mounts: &str, own: &str, name: &str) -> Vec<PathBuf> {
    let mounts: Vec<_> = mounts.lines().filter_map(Mount::parse).collect();
    let apart = mounts.iter().filter(|mount| mount.kind == "cgroup");
    let mut found: Vec<_> = apart
        .filter_map(|mount| {
            let is_ours = |one: &&str| CONTROLLERS.contains(one);
            let controller = mount.options.split(',').find(is_ours)?;
            Some(mount.base(path(own, controller)?, name).join(name))
        })
        .collect();
    let unified = mounts.iter().find(|mount| mount.kind == "cgroup2");
    if let Some(mount) = unified.filter(|mount| found.is_empty() || mount.has_controllers()) {
        let own = path(own, "").unwrap_or("/");
        found.push(mount.base(own, name).join(name));
    }
    // The same hierarchy may be mounted twice.
    found.dedup();
    found
}

/// The folder `name` in the hierarchy of version 2, if processes like this one may be moved there:
/// what is above it has to be ours to write to, down to the file that moves them.
pub(super) fn find_delegated(mounts: &str, own: &str, name: &str) -> Option<PathBuf> {
    let mut mounts = mounts.lines().filter_map(Mount::parse);
    let mount = mounts.find(|mount| mount.kind == "cgroup2")?;
    let base = mount.base(path(own, "")?, name);
    let may_write = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    let is_ours = may_write(&base) && may_write(&base.join("cgroup.procs"));
    is_ours.then(|| base.join(name))
}

/// The group that we are in, by controller; that of version 2 has none.
fn path<'a>(own: &'a str, controller: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_it = controllers.split(',').any(|one| one == controller);
        is_it.then_some(path)
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
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        Some(Self {
            root,
            point: point.into(),
            kind: after.next()?,
            options: after.nth(1)?,
        })
    }

    /// Of version 2: whether it limits anything.
    fn has_controllers(&self) -> bool {
        let has = words(&self.point.join("cgroup.controllers"));
        LIMITING
            .iter()
            .any(|one| has.iter().any(|have| have == one))
    }

    /// The group that has `name`, else the first that it can be made in; the mount's own where
    /// there is none: whoever makes it is told why not.
    fn base(&self, own: &str, name: &str) -> PathBuf {
        let own = self.seen(own);
        let above = own.ancestors().filter(|dir| dir.starts_with(&self.point));
        let mut all = vec![self.point.as_path()];
        all.extend(above);
        let there = all.iter().find(|dir| dir.join(name).is_dir());
        let writable = || {
            all.iter()
                .filter(|dir| access(**dir, Access::WRITE_OK).is_ok())
        };
        let found = there
            .or_else(|| writable().find(|dir| may_hand_down(dir)))
            .or_else(|| writable().next());
        found.map_or_else(|| self.point.clone(), |dir| dir.to_path_buf())
    }

    /// Where a group's path is seen here; the mount's own point where it is out of sight.
    fn seen(&self, path: &str) -> PathBuf {
        let inside = path.strip_prefix(self.root).unwrap_or(path);
        let dir = self.point.join(inside.trim_start_matches('/'));
        let is_plain = !inside.split('/').any(|part| part == "..");
        if is_plain && dir.is_dir() {
            dir
        } else {
            self.point.clone()
        }
    }
}

/// Whether groups below `dir` can have limits, as far as can be seen: always in version 1; in
/// version 2 in the root, and in what has no processes of its own.
fn may_hand_down(dir: &Path) -> bool {
    let is_version_1_or_root = !dir.join("cgroup.type").exists();
    let handed = words(&dir.join("cgroup.subtree_control"));
    let hands_all = LIMITING
        .iter()
        .all(|one| handed.iter().any(|word| word == one));
    is_version_1_or_root || hands_all || super::members(dir).is_empty()
}

/// Lets `group` have limits, which in version 2 takes the groups above: from the top down, each
/// hands its controllers to those below. Nothing to do in version 1.
pub(super) fn hand_down(group: &Path) -> Result<(), Refused> {
    let mut above: Vec<_> = group.ancestors().skip(1).take(2).collect();
    above.reverse();
    for dir in above {
        set_subtree(dir, '+')?;
    }
    Ok(())
}

/// Undoes it for the group above `folder`, so that it may have processes again.
pub(super) fn take_back(folder: &Path) -> Result<(), Refused> {
    set_subtree(folder, '-')?;
    folder
        .parent()
        .map_or(Ok(()), |base| set_subtree(base, '-'))
}

/// A group that does not hand its controllers down.
#[derive(Debug, thiserror::Error)]
#[error("{} does not hand its controllers down: {error}", .dir.display())]
pub(super) struct Refused {
    dir: PathBuf,
    #[source]
    pub(super) error: io::Error,
}

fn set_subtree(dir: &Path, sign: char) -> Result<(), Refused> {
    let handed = words(&dir.join("cgroup.subtree_control"));
    let mut wanted = words(&dir.join("cgroup.controllers"));
    wanted.retain(|one| LIMITING.contains(&one.as_str()) && handed.contains(one) != (sign == '+'));
    if wanted.is_empty() {
        return Ok(());
    }
    let text: Vec<_> = wanted.iter().map(|one| format!("{sign}{one}")).collect();
    let written = fs::write(dir.join("cgroup.subtree_control"), text.join(" "));
    written.map_err(|error| Refused {
        dir: dir.to_path_buf(),
        error,
    })
}

fn words(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree that looks like a mounted file system, and a line of mountinfo for it.
    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, String) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let point = root.path().display().to_string();
        (root, point)
    }

    fn read(root: &tempfile::TempDir, path: &str) -> String {
        fs::read_to_string(root.path().join(path)).unwrap()
    }

    #[track_caller]
    fn check(mounts: &str, own: &str, expected: &[&str]) {
        let expected: Vec<_> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(find(mounts, own, "leno-a"), expected);
    }

    #[test]
    fn finds_the_hierarchies_of_either_version() {
        check(
            "30 20 0:1 / /none/c rw - cgroup2 cgroup2 rw\n",
            "0::/\n",
            &["/none/c/leno-a"],
        );
        check(
            "30 20 0:1 / /none/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             31 20 0:2 / /none/pids rw - cgroup cgroup rw,pids\n\
             32 20 0:3 / /none/memory rw - cgroup cgroup rw,memory\n\
             33 20 0:4 / /none/unified rw - cgroup2 cgroup2 rw\n",
            "3:cpu,cpuacct:/a\n2:memory:/b\n1:pids:/\n0::/\n",
            &["/none/cpu,cpuacct/leno-a", "/none/memory/leno-a"],
        );
        check("30 20 0:1 / /tmp rw - tmpfs tmpfs rw\n", "0::/\n", &[]);
    }

    #[test]
    fn both_versions_are_used_where_each_has_a_controller() {
        let (_root, point) = tree(&[("cgroup.controllers", "cpu io\n")]);
        let mounts = format!(
            "30 20 0:1 / /none/memory rw - cgroup cgroup rw,memory\n\
             33 20 0:4 / {point} rw - cgroup2 cgroup2 rw\n"
        );
        let unified = format!("{point}/leno-a");
        let own = "2:memory:/b\n0::/\n";
        check(&mounts, own, &["/none/memory/leno-a", unified.as_str()]);
    }

    #[test]
    fn a_subtree_of_our_own_is_used_where_the_root_hands_nothing_down() {
        let (_root, point) = tree(&[
            ("cgroup.type", "domain\n"),
            ("cgroup.procs", "1\n"),
            ("cgroup.subtree_control", "pids\n"),
            ("unit/cgroup.type", "domain\n"),
            ("unit/cgroup.procs", ""),
            ("unit/cgroup.subtree_control", ""),
        ]);
        let mounts = format!("33 20 0:4 / {point} rw - cgroup2 cgroup2 rw\n");
        let expected = format!("{point}/unit/leno-a");
        check(&mounts, "0::/unit\n", &[expected.as_str()]);
        // What the mount does not show is not where it seems to be.
        let expected = format!("{point}/leno-a");
        check(&mounts, "0::/../elsewhere\n", &[expected.as_str()]);
    }

    #[test]
    fn without_root_only_what_was_left_to_our_user_is_used() {
        let (root, point) = tree(&[
            ("unit/cgroup.type", "domain\n"),
            ("unit/cgroup.procs", ""),
            ("unit/cgroup.subtree_control", ""),
        ]);
        let mounts = format!("33 20 0:4 / {point} rw - cgroup2 cgroup2 rw\n");
        let find = || find_delegated(&mounts, "0::/unit\n", "leno-1-a");
        let wanted = root.path().join("leno-1-a");
        // There is no file here that moves processes, as above what was left to a user.
        assert_eq!(find(), None);
        fs::write(root.path().join("cgroup.procs"), "").unwrap();
        assert_eq!(find(), Some(wanted));
        assert_eq!(find_delegated("", "0::/unit\n", "leno-1-a"), None);
    }

    #[test]
    fn a_mesh_that_is_there_is_found_from_elsewhere() {
        let (root, point) = tree(&[("unit/shell/cgroup.procs", ""), ("cgroup.procs", "")]);
        fs::create_dir(root.path().join("unit/leno-a")).unwrap();
        let mounts = format!("33 20 0:4 / {point} rw - cgroup2 cgroup2 rw\n");
        let expected = format!("{point}/unit/leno-a");
        check(&mounts, "0::/unit/shell\n", &[expected.as_str()]);
    }

    #[test]
    fn hands_down_what_there_is_from_the_top_to_the_group() {
        let (root, _) = tree(&[
            ("cgroup.controllers", "cpuset cpu memory\n"),
            ("cgroup.subtree_control", "cpu\n"),
            ("leno-a/cgroup.controllers", "cpu memory\n"),
            ("leno-a/cgroup.subtree_control", ""),
            ("leno-a/hello/cgroup.procs", ""),
        ]);
        let folder = root.path().join("leno-a");
        hand_down(&folder.join("hello")).unwrap();
        assert_eq!(read(&root, "cgroup.subtree_control"), "+memory");
        assert_eq!(read(&root, "leno-a/cgroup.subtree_control"), "+cpu +memory");
        fs::write(folder.join("cgroup.subtree_control"), "cpu memory\n").unwrap();
        take_back(&folder).unwrap();
        assert_eq!(read(&root, "leno-a/cgroup.subtree_control"), "-cpu -memory");
    }

    #[test]
    fn who_does_not_hand_down_is_named() {
        let (root, point) = tree(&[
            ("cgroup.controllers", "cpu memory\n"),
            ("leno-a/hello/cgroup.procs", ""),
        ]);
        // Neither readable nor writable as a file.
        fs::create_dir(root.path().join("cgroup.subtree_control")).unwrap();
        let refused = hand_down(&root.path().join("leno-a/hello")).unwrap_err();
        let expected = format!("{point} does not hand its controllers down: ");
        assert!(refused.to_string().starts_with(&expected), "{refused}");
    }
}
