//! Limits as they are written, in folders that look like groups, and as the kernel keeps them.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::super::{Cgroups, Usage, usage};
use super::*;

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(30);
const MIB: u64 = 1024 * 1024;

fn limits(cpu_millis: Option<u64>, memory_bytes: Option<u64>) -> Limits {
    Limits {
        cpu_millis,
        memory_bytes,
    }
}

/// Folders with files, as those of a group.
struct Fake {
    _root: tempfile::TempDir,
    groups: Vec<PathBuf>,
}

impl Fake {
    fn new(folders: &[&[(&str, &str)]]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let make = |(index, files): (usize, &&[(&str, &str)])| {
            let group = root.path().join(format!("{index}/leno-a/hello"));
            fs::create_dir_all(&group).unwrap();
            for (name, text) in *files {
                fs::write(group.join(name), text).unwrap();
            }
            group
        };
        let groups = folders.iter().enumerate().map(make).collect();
        Self {
            _root: root,
            groups,
        }
    }

    #[track_caller]
    fn check(&self, limits: Limits, expected: &[(usize, &str, &str)]) {
        set_limits(&self.groups, &limits).unwrap();
        for (index, name, text) in expected {
            let found = fs::read_to_string(self.groups[*index].join(name)).unwrap();
            assert_eq!(found, *text, "{name}");
        }
    }
}

#[test]
fn what_is_small_has_shorter_periods() {
    for (millis, quota, period) in [
        (1, 1_000, 1_000_000),
        (10, 1_000, 100_000),
        (20, 1_000, 50_000),
        (49, 1_000, 20_408),
        (50, 5_000, 100_000),
        (200, 20_000, 100_000),
        (2_500, 250_000, 100_000),
    ] {
        assert_eq!(Quota::of(millis), Quota { quota, period }, "{millis}");
    }
}

#[test]
fn writes_version_2_and_takes_back() {
    let fake = Fake::new(&[&[
        ("cpu.max", "max 100000\n"),
        ("memory.max", "max\n"),
        ("memory.swap.max", "max\n"),
        ("memory.oom.group", "0\n"),
    ]]);
    fake.check(
        limits(Some(20), Some(64 * MIB)),
        &[
            (0, "cpu.max", "1000 50000"),
            (0, "memory.max", "67108864"),
            (0, "memory.swap.max", "0"),
            (0, "memory.oom.group", "1"),
        ],
    );
    fake.check(
        Limits::default(),
        &[
            (0, "cpu.max", "max 100000"),
            (0, "memory.max", "max"),
            (0, "memory.swap.max", "max"),
            (0, "memory.oom.group", "0"),
        ],
    );
}

#[test]
fn writes_version_1_and_takes_back() {
    let fake = Fake::new(&[
        &[
            ("cpu.cfs_quota_us", "-1\n"),
            ("cpu.cfs_period_us", "100000\n"),
        ],
        &[("cpuacct.usage", "0\n")],
        &[
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.memsw.limit_in_bytes", "9223372036854771712\n"),
            ("memory.oom_control", "oom_kill_disable 1\n"),
        ],
    ]);
    fake.check(
        limits(Some(500), Some(MIB)),
        &[
            (0, "cpu.cfs_quota_us", "50000"),
            (0, "cpu.cfs_period_us", "100000"),
            (2, "memory.limit_in_bytes", "1048576"),
            (2, "memory.memsw.limit_in_bytes", "1048576"),
            (2, "memory.oom_control", "0"),
        ],
    );
    fake.check(
        Limits::default(),
        &[
            (0, "cpu.cfs_quota_us", "-1"),
            (2, "memory.limit_in_bytes", "-1"),
            (2, "memory.memsw.limit_in_bytes", "-1"),
        ],
    );
}

#[test]
fn a_limit_that_nothing_keeps_is_an_error_and_none_is_not() {
    let refused = |groups: &[PathBuf], limits| {
        set_limits(groups, &Limits::default()).unwrap();
        format!("{:#}", set_limits(groups, &limits).unwrap_err())
    };
    let cpu = limits(Some(100), None);
    let memory = limits(None, Some(MIB));
    let said = refused(&[], cpu);
    assert!(said.contains("no cgroups can be made here"), "{said}");
    let fake = Fake::new(&[&[("cpu.max", "")]]);
    let said = refused(&fake.groups, memory);
    assert!(said.contains("limit the memory: "), "{said}");
    assert!(said.contains("cgroup_enable=memory"), "{said}");
    let said = refused(&fake.groups, limits(Some(0), None));
    assert!(said.contains("at least 1m"), "{said}");
    // Version 2, where the group above may not hand anything down.
    let fake = Fake::new(&[&[]]);
    let above = fake.groups[0].parent().unwrap();
    fs::write(above.join("cgroup.controllers"), "cpu memory\n").unwrap();
    fs::create_dir(above.join("cgroup.subtree_control")).unwrap();
    let said = refused(&fake.groups, cpu);
    assert!(
        said.contains("does not hand its controllers down"),
        "{said}"
    );
}

/// Groups of a mesh that no other test has. Everything in them ends when it is dropped.
struct World(Cgroups);

impl World {
    /// None, said aloud, without root; that is a failure where root was promised.
    fn make(name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            let promised = std::env::var_os("LENO_REQUIRE_PRIVILEGED").is_some();
            assert!(!promised, "this test needs root, which was promised");
            println!("SKIPPED: cgroups need root");
            return None;
        }
        let name = format!("t{}-{name}", std::process::id());
        Some(Self(Cgroups::of(&name.parse().unwrap())))
    }

    fn group(&self, name: &str, limits: Limits) -> Vec<PathBuf> {
        let groups = self.0.make(name);
        set_limits(&groups, &limits).unwrap();
        groups
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.0.kill();
        let left = self.0.remove();
        assert!(
            left.is_empty() || thread::panicking(),
            "left over: {left:?}"
        );
    }
}

/// Before whatever else this machine does: only its limit is to hold it back.
fn prefer(groups: &[PathBuf]) {
    let above = groups.iter().filter_map(|group| group.parent());
    for (name, most) in [("cpu.shares", "262144"), ("cpu.weight", "10000")] {
        let paths = above.clone().map(|folder| folder.join(name));
        for path in paths.filter(|path| path.exists()) {
            fs::write(path, most).unwrap();
        }
    }
}

/// Runs a script of the shell's in a group.
fn run_in(groups: &[PathBuf], script: &str) -> Child {
    let join = "for group in \"$@\"; do echo 0 >\"$group/cgroup.procs\" || exit 99; done";
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{join}\n{script}"), "sh"])
        .args(groups)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

#[track_caller]
fn until(groups: &[PathBuf], enough: impl Fn(&Usage) -> bool) -> Usage {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let usage = usage(groups);
        if enough(&usage) {
            return usage;
        }
        assert!(Instant::now() < deadline, "still {usage:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_busy_program_gets_its_part_of_a_cpu() {
    let Some(world) = World::make("cpu") else {
        return;
    };
    let group = world.group("busy", limits(Some(200), None));
    prefer(&group);
    let mut busy = run_in(&group, "while :; do :; done");
    let is_held = |usage: &Usage| usage.throttled_periods >= 8 && usage.throttled > Duration::ZERO;
    let used = until(&group, is_held);
    // Of the kernel's own periods, whatever else the machine does meanwhile.
    let share = used.cpu.as_secs_f64() / (used.periods as f64 * 0.1);
    assert!((0.05..0.4).contains(&share), "{share}: {used:?}");
    // Raised in place, it is not held back any more.
    set_limits(&group, &limits(Some(64_000), None)).unwrap();
    let raised = usage(&group);
    let used = until(&group, |usage| usage.periods >= raised.periods + 5);
    let more = used.throttled_periods - raised.throttled_periods;
    assert!(more <= 1, "{raised:?}, then {used:?}");
    busy.kill().unwrap();
    busy.wait().unwrap();
}

#[test]
fn who_uses_its_memory_up_is_killed_and_its_neighbour_is_not() {
    use std::os::unix::process::ExitStatusExt;
    let Some(world) = World::make("memory") else {
        return;
    };
    let few = limits(None, Some(32 * MIB));
    let (greedy, modest) = (world.group("greedy", few), world.group("modest", few));
    let mut neighbour = run_in(&modest, "exec sleep 600");
    // It keeps the line that never ends.
    let mut grows = run_in(&greedy, "exec tail /dev/zero");
    let status = grows.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "{status}");
    assert_eq!(until(&greedy, |usage| usage.oom_kills > 0).oom_kills, 1);
    assert!(neighbour.try_wait().unwrap().is_none());
    let used = until(&modest, |usage| usage.memory_bytes > 0);
    assert!(
        used.oom_kills == 0 && used.memory_bytes < 32 * MIB,
        "{used:?}"
    );
    super::super::kill(&modest);
    neighbour.wait().unwrap();
    assert!(super::super::remove(&modest).is_empty());
}
