//! What `leno bench latency` does when things go wrong on its way: proxies that die or answer
//! errors, programs that are missing, a disk that is full, more load than can be made. On loopback;
//! what was measured before must still be there. No assertion on a time.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bench::results::{Run, Verdict, folder};

const LENO: &str = env!("CARGO_BIN_EXE_leno");

/// One sidecar of ours in front of the server, by a script that stands for it.
const ONE_SIDECAR: &str = "--data-planes leno --modes serveronly --connections 2 --qps 200";

fn latency(out: &Path, args: &str) -> Command {
    let mut command = Command::new(LENO);
    command.args("bench latency --environment loopback --duration 1 --warmup 0".split(' '));
    command.args(args.split_whitespace()).arg("--out").arg(out);
    command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn repeats(run: &Run) -> usize {
    run.cells.iter().map(|cell| cell.repeats.len()).sum()
}

/// A script that does as it says before it becomes the real proxy; none, said aloud, without one.
fn proxy(dir: &Path, before: &str) -> Option<PathBuf> {
    let real = Path::new(LENO).with_file_name("leno-proxy");
    if !real.is_file() {
        println!("SKIPPED: no leno-proxy beside leno; build the workspace");
        return None;
    }
    let path = dir.join("leno-proxy");
    let real = real.display();
    let script = format!(
        "#!/bin/sh\nreal={real}\n[ \"$1\" = --version ] && exec $real --version\n{before}\n\
         exec $real \"$@\"\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Some(path)
}

#[test]
fn when_a_proxy_dies_what_was_measured_is_kept_and_the_run_can_go_on() {
    let dir = tempfile::tempdir().unwrap();
    // Once two repeats were taken, void or not, it does not live long: the first is kept then.
    let before = format!(
        "[ ! -e {0}/died ] && ls {0}/run/cells/*_r1.json > {0}/seen \
         && touch {0}/died || exec $real \"$@\"\n\
         $real \"$@\" &\nsleep 0.5\nkill -9 $!\necho overcome by events >&2\nexit 9",
        dir.path().display()
    );
    let Some(proxy) = proxy(dir.path(), &before) else {
        return;
    };
    let out = dir.path().join("run");
    let all = format!("{ONE_SIDECAR} --repeats 3");
    let stopped = latency(&out, &all)
        .arg("--proxy")
        .arg(&proxy)
        .output()
        .unwrap();
    let why = said(&stopped);
    assert!(!stopped.status.success(), "{why}");
    for expected in [
        "server sidecar (leno) ended: exit status: 9",
        "overcome by events",
        "go on with: leno bench latency --resume",
    ] {
        assert!(why.contains(expected), "{expected}: {why}");
    }
    let rows = fs::read_to_string(out.join("results.csv")).unwrap();
    assert!(rows.lines().count() > 1, "{rows}");
    assert!(out.join("report.html").is_file());

    let mut resume = Command::new(LENO);
    resume.args(["bench", "latency", "--resume"]).arg(&out);
    let resumed = resume.arg("--proxy").arg(&proxy).output().unwrap();
    assert!(resumed.status.success(), "{}", said(&resumed));
    assert_eq!(repeats(&folder::open(&out).unwrap()), 3);
}

#[test]
fn errors_of_a_proxy_are_no_throughput() {
    let dir = tempfile::tempdir().unwrap();
    // Nobody listens where it is told to send to.
    let before = r#"sed -i 's/"127.0.0.1:[1-9][0-9]*"/"127.0.0.1:9"/' "$2""#;
    let Some(proxy) = proxy(dir.path(), before) else {
        return;
    };
    let out = dir.path().join("run");
    for (name, qps) in [("open", "200"), ("closed", "max")] {
        let out = out.join(name);
        let all = format!("{ONE_SIDECAR} --qps {qps} --repeats 1").replacen("--qps 200 ", "", 1);
        let output = latency(&out, &all).arg("--proxy").arg(&proxy).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let run = folder::open(&out).unwrap();
        let repeat = &run.cells[0].repeats[0];
        assert!(repeat.errors > 0 && repeat.errors == repeat.requests);
        assert!(repeat.achieved_qps.abs() < 1e-9, "{}", repeat.achieved_qps);
        let table = String::from_utf8(output.stdout).unwrap();
        assert!(table.contains("errors (100.00 %)"), "{table}");
        assert!(table.contains("503"), "{table}");
    }
}

#[test]
fn a_program_that_is_missing_is_named_before_anything_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    for (plane, option) in [("leno", "--proxy"), ("envoy", "--envoy")] {
        let out = dir.path().join(plane);
        let all = format!("--data-planes none,{plane} {option} /nowhere/at-all");
        let output = latency(&out, &all).output().unwrap();
        assert!(!output.status.success());
        let why = said(&output);
        assert!(why.contains("/nowhere/at-all is not a file"), "{why}");
        assert!(!out.exists());
    }
}

#[test]
fn more_load_than_can_be_made_is_not_a_valid_result() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let all = "--data-planes none --connections 1 --qps 5000000 --repeats 1";
    let output = latency(&out, all).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let run = folder::open(&out).unwrap();
    let repeat = &run.cells[0].repeats[0];
    assert_ne!(repeat.verdict, Verdict::Valid);
    assert!(!repeat.reasons.is_empty());
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains(repeat.verdict.name()));
}

/// In a mount namespace of its own, so that nothing is left of the small disk.
#[test]
fn when_the_disk_is_full_what_was_measured_is_kept_and_the_run_can_go_on() {
    if !rustix::process::geteuid().is_root() {
        let promised = std::env::var_os("LENO_REQUIRE_PRIVILEGED").is_some();
        assert!(!promised, "a disk of our own needs root");
        println!("SKIPPED: a disk of our own needs root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (disk, kept) = (dir.path().join("disk"), dir.path().join("kept"));
    fs::create_dir(&disk).unwrap();
    let script = "mount -t tmpfs -o size=96k none $1 || exit 70\n\
                  $0 bench latency --environment loopback --data-planes none --connections 1 \
                  --qps 100 --duration 1 --warmup 0 --repeats 9 --out $1/run && exit 71\n\
                  mount -o remount,size=16m none $1 || exit 72\n\
                  cp -r $1/run $2\n\
                  $0 bench latency --resume $1/run || exit 73\n\
                  cp -r $1/run $2-whole\n";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, LENO]);
    let output = command.arg(&disk).arg(&kept).stdin(Stdio::null()).output();
    let output = output.unwrap();
    let why = said(&output);
    assert!(output.status.success(), "{}: {why}", output.status);
    assert!(why.contains("No space left on device"), "{why}");
    assert!(
        why.contains("go on with: leno bench latency --resume"),
        "{why}"
    );
    let before = repeats(&folder::open(&kept).unwrap());
    assert!((1..9).contains(&before), "{before}");
    let whole = dir.path().join("kept-whole");
    assert_eq!(repeats(&folder::open(&whole).unwrap()), 9);
}
