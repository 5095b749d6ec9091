//! `leno bench throughput` from the command line, in a mesh of this machine: what a look leaves
//! behind, and what becomes of it when an application ends. No assertion on a figure's size: the
//! machine may be busy.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

#[path = "shared/programs.rs"]
mod programs;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use bench::results::{Cell, Link, Run, folder};
use testkit::until;

fn throughput(leno: &Path, args: &str) -> Command {
    let mut command = Command::new(leno);
    command.args(["bench", "throughput"]);
    command.args(args.split_whitespace());
    command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    command
}

fn look(leno: &Path, out: &Path, args: &str) -> Command {
    let few = "--quick --warmup 0 --connections 4 --limits 1 --scale 0.5";
    let mut command = throughput(leno, &format!("{few} {args}"));
    command.arg("--out").arg(out);
    command
}

#[track_caller]
fn succeeded(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// Of the meshes that the benchmark with that process id made, nothing is left.
#[track_caller]
fn check_nothing_left(pid: u32) {
    let namespaces = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let text = String::from_utf8(namespaces.stdout).unwrap();
    assert!(!text.contains(&format!("leno-bench-{pid}.")), "{text}");
}

/// Each part that a round has was read, and no other.
fn check_parts(cell: &Cell) {
    let (slug, repeat) = (cell.key.slug(), &cell.repeats[0]);
    assert!(
        repeat.requests > 0 && repeat.errors == 0,
        "{slug}: {repeat:?}"
    );
    // A short window without warm-up may well hold the beginning.
    let mut faults = repeat.faults.clone();
    faults.retain(|fault| !fault.starts_with("still warming up"));
    assert_eq!(faults, Vec::<String>::new(), "{slug}");
    let (has_sidecars, is_long) = (
        cell.key.data_plane != "none",
        cell.key.link == Link::GatewayRatings,
    );
    let parts = [
        (&repeat.gateway, true),
        (&repeat.server_application, true),
        (&repeat.client_application, is_long),
        (&repeat.server, has_sidecars),
        (&repeat.client, has_sidecars && is_long),
    ];
    for (place, (usage, expected)) in parts.into_iter().enumerate() {
        assert_eq!(usage.is_some(), expected, "{slug}: part {place}");
        let Some(usage) = usage else { continue };
        let has_quota = usage.periods.is_some() && usage.throttled_periods.is_some();
        assert!(
            usage.worked() && has_quota,
            "{slug}: part {place}: {usage:?}"
        );
    }
}

#[test]
fn a_look_reads_every_part_of_both_links() {
    let Some(dir) = programs::folder() else {
        return;
    };
    let (leno, out) = (dir.path().join("leno"), dir.path().join("run"));
    let mut command = look(&leno, &out, "--duration 2 --data-planes none,leno");
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    succeeded(&output);
    check_nothing_left(pid);
    let run = folder::open(&out).unwrap();
    assert_eq!(run.cells.len(), 4);
    run.cells.iter().for_each(check_parts);
    assert_eq!(run.settings.effective_millis(1000), 500);
    let table = String::from_utf8(output.stdout).unwrap();
    let markdown = fs::read_to_string(out.join("report.md")).unwrap();
    for text in [&table, &markdown] {
        for expected in ["gateway-ratings: ", "no mesh", "1 (0.5)", "limit"] {
            assert!(text.contains(expected), "{expected} is not in {text}");
        }
    }
    check_columns(&out, &run);
}

fn check_columns(out: &Path, run: &Run) {
    let rows = fs::read_to_string(out.join("results.csv")).unwrap();
    let mut rows = rows.lines();
    let names: Vec<&str> = rows.next().unwrap().split(',').collect();
    for name in [
        "AchievedQPS",
        "LimitedBy",
        "nr_periods_client",
        "nr_throttled_ratings",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert_eq!(rows.count(), run.cells.len());
}

/// The process of an application that serves, as soon as there is one.
fn application(mesh: &str, workload: &str) -> i32 {
    let state = Path::new("/run/leno").join(mesh).join("state.json");
    let mut found = None;
    until("the application serves", || {
        let text = fs::read_to_string(&state).unwrap_or_default();
        let state: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let instances = state["instances"].as_array().into_iter().flatten();
        let mut instances = instances.filter(|one| one["workload"]["name"] == workload);
        let ready = instances.find(|one| one["ready"] == true);
        found = ready.and_then(|one| one["application"]["process"]["pid"].as_i64());
        found.is_some()
    });
    i32::try_from(found.unwrap()).unwrap()
}

/// Until its process has used a fifth of a second of CPU time: it is loaded by then.
fn is_loaded(pid: i32) {
    const LOADED_TICKS: u64 = 20;
    until("the application is loaded", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let times = after_name.split_whitespace().skip(11).take(2);
        let ticks = times.filter_map(|word| word.parse::<u64>().ok());
        ticks.sum::<u64>() >= LOADED_TICKS
    });
}

/// It stops, says what ended, keeps what it has, and goes on when it is asked to.
#[test]
fn an_application_that_ends_stops_the_run_which_can_go_on() {
    let Some(dir) = programs::folder() else {
        return;
    };
    let (leno, out) = (dir.path().join("leno"), dir.path().join("run"));
    let args = "--duration 5 --data-planes none --links ratings --repeats 1";
    let child = look(&leno, &out, args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.unwrap();
    let pid = child.id();
    let ratings = application(&format!("bench-{pid}"), "ratings");
    // Before that one that ends is simply started again.
    is_loaded(ratings);
    let killed = Command::new("kill")
        .args(["-KILL", &ratings.to_string()])
        .status();
    assert!(killed.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("the application of ratings"), "{said}");
    assert!(said.contains("leno bench throughput --resume"), "{said}");
    check_nothing_left(pid);

    let resumed = throughput(&leno, "--resume").arg(&out).output().unwrap();
    succeeded(&resumed);
    let run = folder::open(&out).unwrap();
    check_parts(&run.cells[0]);
}

#[test]
fn what_a_mesh_cannot_have_is_refused_without_another_place_being_named() {
    let dir = tempfile::tempdir().unwrap();
    let envoy = dir.path().join("envoy");
    // Any program will do: it is not started.
    fs::copy("/bin/true", &envoy).unwrap();
    let leno = Path::new(env!("CARGO_BIN_EXE_leno"));
    let mut command = look(leno, &dir.path().join("run"), "--data-planes envoy-h2");
    let output = command.arg("--envoy").arg(&envoy).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("envoy-h2 is not measured in a local mesh"),
        "{said}"
    );
    assert!(!said.contains("loopback"), "{said}");
}

#[test]
fn a_folder_with_a_run_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("run.json"), "{}").unwrap();
    let leno = Path::new(env!("CARGO_BIN_EXE_leno"));
    let output = look(leno, dir.path(), "--data-planes none")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("--resume"),
        "{said}"
    );
}
