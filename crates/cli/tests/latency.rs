//! `leno bench latency` from the command line: what it leaves behind, how it stops, goes on and
//! fails. Small loads on loopback, and one in a mesh of this machine; no assertion on a time.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

#[path = "shared/programs.rs"]
mod programs;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use bench::results::{EnvironmentKind, Mode, Run, folder};

const FIGURES: [&str; 8] = [
    "latency-p50.svg",
    "latency-p90.svg",
    "latency-p99.svg",
    "latency-p999.svg",
    "cpu-client.svg",
    "cpu-server.svg",
    "memory-client.svg",
    "memory-server.svg",
];

/// A run of short cells on loopback; `args` say the rest.
fn latency(out: &Path, args: &str) -> Command {
    let mut command = anywhere(out, args);
    command.args(["--environment", "loopback"]);
    command
}

fn anywhere(out: &Path, args: &str) -> Command {
    run_by(Path::new(env!("CARGO_BIN_EXE_leno")), out, args)
}

fn run_by(leno: &Path, out: &Path, args: &str) -> Command {
    let mut command = Command::new(leno);
    command.args([
        "bench",
        "latency",
        "--qps",
        "200",
        "--duration",
        "1",
        "--warmup",
        "0",
    ]);
    command.args(args.split_whitespace()).arg("--out").arg(out);
    command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    command
}

fn resume(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leno"));
    command
        .args(["bench", "latency", "--resume"])
        .arg(dir)
        .stdin(Stdio::null());
    command
}

fn succeed(mut command: Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn check_cells(run: &Run, cells: usize, repeats: usize) {
    assert_eq!(run.cells.len(), cells);
    for cell in &run.cells {
        assert_eq!(cell.repeats.len(), repeats, "{}", cell.key.slug());
        // What was never sent is the machine's fault.
        let mut faults = cell.faults();
        faults.retain(|fault| !fault.contains("were never sent"));
        assert_eq!(faults, Vec::<&str>::new(), "{}", cell.key.slug());
        for repeat in &cell.repeats {
            assert!(repeat.requests > 0 && repeat.errors == 0);
            assert_eq!(repeat.latencies.intended.len(), repeat.requests);
            assert_eq!(repeat.client.is_some(), cell.key.mode.crosses_client());
            assert_eq!(repeat.server.is_some(), cell.key.mode.crosses_server());
        }
    }
}

#[test]
fn a_run_leaves_every_artefact() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let output = succeed(latency(
        &out,
        "--data-planes none --modes baseline --connections 2 --repeats 1",
    ));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("baseline") && table.contains("report.html"),
        "{table}"
    );
    for file in ["run.json", "environment.json", "results.csv", "report.html"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    for figure in FIGURES {
        assert!(out.join("figures").join(figure).is_file(), "{figure}");
    }
    for ending in ["json", "hlog", "fortio.json"] {
        let file = format!("cells/none_baseline_c2_q200_s1024_r0.{ending}");
        assert!(out.join(&file).is_file(), "{file}");
    }
    let run = folder::open(&out).unwrap();
    assert!(!run.environment.kernel.is_empty());
    check_cells(&run, 1, 1);
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut command = latency(&out, "--data-planes none --connections 1,2 --repeats 2");
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    assert!(lines.any(|line| line.trim_start().starts_with("1/4")));
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    assert!(lines.any(|line| line.contains("interrupted")));
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
    let taken = |run: &Run| {
        run.cells
            .iter()
            .map(|cell| cell.repeats.len())
            .sum::<usize>()
    };
    let first = folder::open(&out).unwrap();
    assert!((1..4).contains(&taken(&first)), "{}", taken(&first));

    succeed(resume(&out));
    let whole = folder::open(&out).unwrap();
    check_cells(&whole, 2, 2);
    assert_eq!(whole.started, first.started);
    let rows = fs::read_to_string(out.join("results.csv"))
        .unwrap()
        .lines()
        .count();
    assert_eq!(rows, 1 + 4);
}

#[test]
fn a_sidecar_that_does_not_come_up_is_quoted() {
    let dir = tempfile::tempdir().unwrap();
    let proxy = dir.path().join("leno-proxy");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo leno-proxy 0.0.0 && exit 0\n\
                  echo no more sockets today >&2\nexit 3\n";
    fs::write(&proxy, script).unwrap();
    fs::set_permissions(&proxy, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = latency(
        &dir.path().join("run"),
        "--data-planes leno --modes both --connections 2",
    );
    let output = command.arg("--proxy").arg(&proxy).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("server sidecar (leno) ended: exit status: 3"),
        "{said}"
    );
    assert!(said.contains("no more sockets today"), "{said}");
}

#[test]
fn a_folder_with_a_run_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("run.json"), "{}").unwrap();
    let output = latency(dir.path(), "--data-planes none").output().unwrap();
    assert!(!output.status.success());
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("--resume")
    );
}

/// Needs `leno-proxy` beside `leno`, as a build of the workspace leaves it.
#[test]
fn each_mode_uses_the_sidecars_that_it_crosses() {
    let proxy = Path::new(env!("CARGO_BIN_EXE_leno")).with_file_name("leno-proxy");
    if !proxy.is_file() {
        println!("skipped: no leno-proxy beside leno; build the workspace");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let all = "--data-planes none,leno --modes baseline,serveronly,clientonly,both";
    succeed(latency(&out, &format!("{all} --connections 2 --repeats 1")));
    let run = folder::open(&out).unwrap();
    check_cells(&run, 4, 1);
    let mut modes: Vec<Mode> = run.cells.iter().map(|cell| cell.key.mode).collect();
    modes.sort();
    let without_gateway = [
        Mode::Baseline,
        Mode::ServerOnly,
        Mode::ClientOnly,
        Mode::Both,
    ];
    assert_eq!(modes, without_gateway);
}

/// Of the meshes that the benchmark with that process id made, nothing is left.
#[track_caller]
fn check_nothing_left(pid: u32) {
    let namespaces = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let text = String::from_utf8(namespaces.stdout).unwrap();
    assert!(!text.contains(&format!("leno-bench-{pid}.")), "{text}");
}

/// Interrupted in the midst of a window: what was up is down again.
#[test]
fn an_interrupted_run_takes_its_mesh_down() {
    let Some(dir) = programs::folder() else {
        return;
    };
    let (leno, out) = (dir.path().join("leno"), dir.path().join("run"));
    let all = "--environment local --data-planes none --connections 1 --repeats 9";
    let mut command = run_by(&leno, &out, all);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let mut lines = stderr.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.trim_start().starts_with("1/9")));
    let pid = child.id();
    let asked = Command::new("kill")
        .args(["-INT", &pid.to_string()])
        .status();
    assert!(asked.unwrap().success());
    assert!(lines.any(|line| line.contains("interrupted")));
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
    check_nothing_left(pid);
}

#[test]
fn in_a_mesh_modes_are_what_its_sidecars_intercept() {
    let Some(dir) = programs::folder() else {
        return;
    };
    let (leno, out) = (dir.path().join("leno"), dir.path().join("run"));
    // Where there can be a mesh it is what is measured, without being asked for.
    let all = "--data-planes none,leno --modes baseline,serveronly,clientonly,both";
    let all = format!("{all} --connections 2 --repeats 1");
    let mut child = run_by(&leno, &out, &all).spawn().unwrap();
    let pid = child.id();
    assert!(child.wait().unwrap().success());
    let run = folder::open(&out).unwrap();
    assert_eq!(run.settings.environment, EnvironmentKind::Local);
    assert_eq!(run.environment.kind, "local");
    assert_eq!(run.environment.limits.cpus, Some(1.0));
    check_cells(&run, 5, 1);
    let cells = run.cells.iter();
    let series: Vec<String> = cells.map(|cell| cell.key.series()).collect();
    let expected = [
        "none baseline",
        "leno baseline",
        "leno serveronly",
        "leno clientonly",
        "leno both",
    ];
    assert_eq!(series, expected);
    for cell in &run.cells {
        let usages = cell
            .repeats
            .iter()
            .flat_map(|one| [&one.client, &one.server]);
        for usage in usages.flatten() {
            let sound = usage.worked() && usage.anon_bytes.is_some_and(|bytes| bytes > 0);
            assert!(sound && usage.throttled_seconds.is_some(), "{usage:?}");
        }
    }
    let configuration = out.join("configurations/leno_both_c2_q200_s1024.mesh.yaml");
    assert!(configuration.is_file());
    check_nothing_left(pid);
}

#[test]
fn what_a_mesh_cannot_measure_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let envoy = dir.path().join("envoy");
    // Any program will do: it is not started.
    fs::copy("/bin/true", &envoy).unwrap();
    let mut command = anywhere(&dir.path().join("run"), "--data-planes envoy-h2");
    command
        .args(["--environment", "local", "--envoy"])
        .arg(&envoy);
    let refused = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(
        refused.contains("envoy-h2 is not measured in a local mesh"),
        "{refused}"
    );
    assert!(refused.contains("--environment loopback"), "{refused}");
}

/// `leno` all by itself has no control plane to make a mesh with.
#[test]
fn where_there_can_be_no_mesh_it_says_why_and_stays_on_loopback() {
    let dir = tempfile::tempdir().unwrap();
    let leno = dir.path().join("leno");
    fs::copy(env!("CARGO_BIN_EXE_leno"), &leno).unwrap();
    let out = dir.path().join("run");
    let mut command = Command::new(&leno);
    command.args("bench latency --data-planes none --connections 1 --repeats 1".split(' '));
    command
        .args(["--duration", "1", "--warmup", "0", "--out"])
        .arg(&out);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let said = String::from_utf8(succeed(command).stderr).unwrap();
    let note = "on loopback, not in a local mesh: ";
    assert!(said.contains(note), "{said}");
    let run = folder::open(&out).unwrap();
    assert_eq!(run.environment.kind, "loopback");
    assert!(run.environment.notes.iter().any(|one| one.contains(note)));
}
