//! `leno bench scale` from the command line, with a small mesh: everything is delivered, and what
//! it says of the control plane is what the kernel says to whoever looks. No assertion on a time.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// What somebody else sees of the control planes that a benchmark starts.
#[derive(Default)]
struct Witness {
    /// By process: the most that was resident, and seconds of CPU time.
    seen: BTreeMap<u32, (u64, f64)>,
}

impl Witness {
    /// Looks until the benchmark ends.
    fn watch(&mut self, bench: &mut Child) {
        while bench.try_wait().unwrap().is_none() {
            for pid in fs::read_dir("/proc").unwrap() {
                let name = pid.unwrap().file_name();
                let pid = name.to_str().and_then(|name| name.parse().ok());
                if let Some(pid) = pid.filter(|pid| is_control_plane_of(*pid, bench.id())) {
                    self.look(pid);
                }
            }
            std::thread::yield_now();
        }
    }

    fn look(&mut self, pid: u32) -> Option<()> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        let fields = stat(pid)?;
        let ticks = fields[11].parse::<f64>().ok()? + fields[12].parse::<f64>().ok()?;
        let seen = self.seen.entry(pid).or_default();
        seen.0 = seen.0.max(kib * 1024);
        seen.1 = ticks / rustix::param::clock_ticks_per_second() as f64;
        Some(())
    }
}

fn is_control_plane_of(pid: u32, bench: u32) -> bool {
    let is_named = fs::read_to_string(format!("/proc/{pid}/comm"))
        .is_ok_and(|name| name.trim() == "leno-control");
    let parent = |pid| stat(pid).and_then(|fields| fields[1].parse::<u32>().ok());
    let mut ancestors = std::iter::successors(parent(pid), |pid| parent(*pid));
    is_named && ancestors.any(|ancestor| ancestor == bench)
}

/// The fields of `/proc/PID/stat` after the name.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

fn bench(mode: &str, out: &Path) -> Child {
    let args = "bench scale --sidecars 20 --services 10 --endpoints 2 --interest 3 --rest 1 \
                --churn 20 --churn-seconds 2 --first-uses 30 --mode";
    let mut command = Command::new(env!("CARGO_BIN_EXE_leno"));
    command.args(args.split_whitespace()).arg(mode);
    command.arg("--out").arg(out).stdin(Stdio::null());
    command.stdout(Stdio::null()).spawn().unwrap()
}

/// The one row that a run of `mode` found, and what a witness saw meanwhile.
fn measure(mode: &str) -> (Value, Witness) {
    let dir = tempfile::tempdir().unwrap();
    let mut child = bench(mode, dir.path());
    let mut witness = Witness::default();
    witness.watch(&mut child);
    assert!(child.wait().unwrap().success());
    assert!(dir.path().join("figures/scale-memory.svg").is_file());
    assert_eq!(
        fs::read_to_string(dir.path().join("results.csv"))
            .unwrap()
            .lines()
            .count(),
        2
    );
    let run = fs::read_to_string(dir.path().join("run.json")).unwrap();
    let mut run: Value = serde_json::from_str(&run).unwrap();
    (run["rows"][0].take(), witness)
}

#[test]
fn everything_is_delivered_and_its_cost_is_what_the_kernel_says() {
    let (row, witness) = measure("scoped");
    assert_eq!(row["enrolment"]["certificates"], 20);
    assert_eq!(
        (&row["churn"]["changes"], &row["churn"]["undelivered"]),
        (&40.into(), &0.into())
    );
    // Each Service is used by three Workloads of two sidecars each.
    assert_eq!(row["churn"]["each"]["count"], 40 * 6);
    assert_eq!(row["storm"]["reissued"], 0);
    assert_eq!(row["accounts"]["agree"], true, "{}", row["accounts"]);
    assert_eq!(
        witness.seen.len(),
        2,
        "one before and one after the restart"
    );
    let [first, second] = [0, 1].map(|index| *witness.seen.values().nth(index).unwrap());
    let phases = row["memory"].as_array().unwrap();
    let peak = |phase: &Value| phase[1]["peak"].as_u64().unwrap();
    let [before, after] = [phases.len() - 2, phases.len() - 1].map(|index| peak(&phases[index]));
    for (seen, told) in [(first.0, before), (second.0, after)] {
        assert!(
            seen <= told + (1 << 20) && seen > told / 2,
            "{seen} seen, {told} told"
        );
    }
    let told = row["accounts"]["cpu"]["ticks"].as_f64().unwrap();
    assert!(
        second.1 > 0.0 && second.1 <= told + 0.5,
        "{} s seen, {told} s told",
        second.1
    );
}

#[test]
fn endpoints_come_when_they_are_used_first() {
    let (row, _) = measure("permissive");
    assert_eq!(row["first_use"]["count"], 30);
    assert_eq!(row["churn"]["undelivered"], 0);
    // Besides its six sidecars each Service has three that used it only then.
    assert_eq!(row["churn"]["each"]["count"], 40 * 9);
    assert_eq!(row["storm"]["reissued"], 0);
}
