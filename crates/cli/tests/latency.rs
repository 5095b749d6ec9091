//! `leno bench latency` from the command line: what it leaves behind, how it stops, goes on and
//! fails. Small loads on loopback; no assertion on a time.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use bench::results::{Mode, Run, folder};

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

/// A run of short cells; `args` say the rest.
fn latency(out: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leno"));
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
        assert_eq!(cell.faults(), Vec::<&str>::new(), "{}", cell.key.slug());
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
    assert_eq!(modes, Mode::ALL);
}
