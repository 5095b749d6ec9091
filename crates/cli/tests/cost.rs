//! `leno bench cost` from the command line, with the floor alone: every protocol reaches the
//! server and comes back. Small loads on loopback; no assertion on a time.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::process::{Command, Output, Stdio};

fn cost(args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leno"));
    command
        .args(["bench", "cost"])
        .args(args.split_whitespace());
    command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    command.output().unwrap()
}

fn check(output: &Output, expected: &str) {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains(expected), "no {expected} in {said}");
}

#[test]
fn every_protocol_crosses_the_relays() {
    let args = "--only floor --protocol http1,http2,grpc,tcp --rounds 1 --duration 0.5 \
                --connections 2 --streams 3 --size 1KiB";
    let output = cost(args);
    for protocol in ["http1", "http2", "grpc", "tcp"] {
        let streams = match protocol {
            "http2" | "grpc" => " of 3 streams each",
            _ => "",
        };
        for topology in ["plain", "mtls"] {
            check(
                &output,
                &format!("{protocol} {topology}: 2 connections{streams}, 1 KiB"),
            );
        }
    }
    assert!(output.status.success());
    let rows = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        rows.lines().filter(|line| line.contains(" floor ")).count(),
        8
    );
}

/// Idle connections are those of a mesh, which its sidecars must take for such.
#[test]
fn memory_is_that_of_connections_from_the_mesh() {
    let args = "--only leno --topology mtls --memory --rounds 1 --duration 0.5 --connections 2";
    let output = cost(args);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && !said.contains("not measured"),
        "{said}"
    );
    let row = said
        .lines()
        .find(|line| line.contains("http1 mtls") && line.contains(" 200 "));
    assert!(row.is_some_and(|row| row.contains(" leno ")), "{said}");
}
