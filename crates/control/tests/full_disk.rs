//! A disk without room for another line of the log: nothing else may suffer from it.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = dir.path().join("mesh.yaml");
    fs::write(
        &mesh,
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n",
    )
    .unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_leno-control"))
        .args(["--listen", "127.0.0.1:0", "--admin", "off"])
        .args(["--log-level", "debug", "--source"])
        .arg(&mesh)
        .arg("--state")
        .arg(dir.path().join("state"))
        .stdout(Stdio::piped())
        .stderr(full)
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert!(line.contains("ready"), "{line:?}");
    // It says that it closes.
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}
