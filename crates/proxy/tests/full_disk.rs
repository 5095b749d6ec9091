//! A disk without room for another line of the log: nothing else may suffer from it.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use testkit::{EchoServer, RawClient, Sidecar};

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let app = EchoServer::start();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("proxy.yaml");
    std::fs::write(&config, Sidecar::outbound(&[app.addr()]).yaml()).unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_leno-proxy"))
        .args(["--log-level", "debug", "--config"])
        .arg(&config)
        .stdout(Stdio::piped())
        .stderr(full)
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    let pid = Pid::from_child(&child);
    // It says that it reads its configuration again, and that it drains.
    kill_process(pid, Signal::HUP).unwrap();
    let listeners = ready["listeners"].as_object().unwrap();
    let outbound = listeners.values().next().and_then(|addr| addr.as_str());
    let mut client = RawClient::connect(outbound.unwrap().parse().unwrap());
    assert_eq!(client.get("/").status(), 200);
    drop(client);
    kill_process(pid, Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}
