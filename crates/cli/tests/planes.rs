//! `leno bench latency` with other people's proxies on loopback: each carries requests through one
//! and through two sidecars. Small loads; no assertion on a time. A program that is missing is
//! said aloud, and a failure where it was promised.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use bench::dataplane::find;
use bench::results::{Run, folder};

const EXAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/data-planes/haproxy-tcp.yaml"
);

fn has(program: &str) -> bool {
    let found = find::installed(None, program).unwrap().is_some();
    let promised = std::env::var_os("LENO_REQUIRE_PEERS").is_some();
    assert!(found || !promised, "{program} is not installed");
    if !found {
        println!("SKIPPED: {program} is not installed");
    }
    found
}

fn latency(out: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leno"));
    let fixed = "bench latency --environment loopback --modes serveronly,both --qps 100 \
                 --connections 2 --duration 1 --warmup 0 --repeats 1";
    command.args(fixed.split_whitespace()).args(args);
    command.arg("--out").arg(out).stdin(Stdio::null());
    command.env("RUST_BACKTRACE", "0").output().unwrap()
}

/// Both modes of `name` answer without an error, by the sidecars that they cross.
#[track_caller]
fn check(name: &str, args: &[&str]) -> (Run, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let output = latency(&out, &[&["--data-planes", name], args].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let run = folder::open(&out).unwrap();
    assert_eq!(run.cells.len(), 2);
    for cell in &run.cells {
        let repeat = &cell.repeats[0];
        assert_eq!(cell.key.data_plane, name);
        assert!(
            repeat.requests > 0 && repeat.errors == 0,
            "{}",
            cell.key.slug()
        );
        let usages = [
            (&repeat.client, cell.key.mode.crosses_client()),
            (&repeat.server, true),
        ];
        for (usage, crossed) in usages {
            assert_eq!(usage.is_some(), crossed, "{}", cell.key.slug());
            assert!(
                usage.iter().all(|usage| usage.worked()),
                "{}",
                cell.key.slug()
            );
        }
    }
    (run, dir)
}

/// The files of a run whose names end like this, one after the other.
fn files(dir: &tempfile::TempDir, folder: &str, ending: &str) -> String {
    let entries = fs::read_dir(dir.path().join("run").join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let named = paths.filter(|path| path.display().to_string().ends_with(ending));
    named
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

#[test]
fn haproxy_is_a_data_plane_either_way() {
    if !has("haproxy") {
        return;
    }
    for (name, alpn) in [("haproxy", false), ("haproxy-h2", true)] {
        let (run, dir) = check(name, &[]);
        let version = &run.environment.data_planes[0].version;
        assert!(
            version.starts_with(|first: char| first.is_ascii_digit()),
            "{version}"
        );
        assert!(files(&dir, "cells", "server-after.stats").contains("in,FRONTEND,"));
        let configuration = files(&dir, "configurations", "client-haproxy.cfg");
        assert!(configuration.contains("verifyhost"), "{configuration}");
        assert_eq!(configuration.contains("alpn h2"), alpn, "{configuration}");
    }
}

#[test]
fn nginx_is_a_data_plane() {
    if !has("nginx") {
        return;
    }
    let (run, dir) = check("nginx", &[]);
    let version = &run.environment.data_planes[0].version;
    assert!(
        version.starts_with(|first: char| first.is_ascii_digit()),
        "{version}"
    );
    assert!(files(&dir, "cells", "server-after.stats").contains("Active connections"));
    let configuration = files(&dir, "configurations", "client-nginx.conf");
    assert!(
        configuration.contains("proxy_ssl_verify on"),
        "{configuration}"
    );
}

#[test]
fn the_example_of_a_data_plane_by_command_carries_requests() {
    if !has("haproxy") {
        return;
    }
    let (run, dir) = check("haproxy-tcp", &["--command", EXAMPLE]);
    assert!(
        run.environment.data_planes[0]
            .version
            .starts_with("HAProxy")
    );
    let kept = files(&dir, "configurations", "client-command.txt");
    assert!(
        kept.contains("exec haproxy -f /") && kept.contains("client.both"),
        "{kept}"
    );
    let notes = run.environment.notes.join("\n");
    assert!(notes.contains("haproxy-tcp: it carries bytes"), "{notes}");
    assert!(!notes.contains("plaintext with each other"), "{notes}");
}

/// It forks for each connection: what it has started is measured, and gone at the end.
#[test]
fn a_command_line_is_a_data_plane() {
    if !has("socat") {
        return;
    }
    let relay = "relay=socat TCP-LISTEN:{{ listen_port }},bind={{ listen_host }},fork \
                 TCP:{{ upstream }}";
    let (run, dir) = check("relay", &["--command", relay]);
    let notes = run.environment.notes.join("\n");
    assert!(
        notes.contains("relay: its definition makes no difference"),
        "{notes}"
    );
    for line in files(&dir, "configurations", "-command.txt").lines() {
        if let Some(command) = line.strip_prefix("exec ") {
            assert_eq!(running(command), Vec::<String>::new());
        }
    }
}

/// Processes with this command line.
fn running(command: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.trim_end() == command).collect()
}

#[test]
fn what_is_wrong_is_said_before_anything_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    for (args, words) in [
        (
            "--data-planes trafik",
            "no data plane `trafik`: use none, leno",
        ),
        (
            "--data-planes haproxy --haproxy /nowhere",
            "/nowhere is not a file",
        ),
        (
            "--data-planes linkerd2-proxy",
            "come from Linkerd's control plane only",
        ),
        (
            "--data-planes x --command x=true",
            "neither its command nor its files have {{ listen }}",
        ),
        (
            "--data-planes x --command /nowhere.yaml",
            "use NAME=COMMAND, or the path of a YAML file",
        ),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let output = latency(&out, &args);
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(words), "no `{words}` in {said}");
        assert!(!out.exists());
    }
    let twice = [
        "--data-planes",
        "nginx",
        "--command",
        "nginx=cat {{ listen }} {{ upstream }}",
    ];
    let said = String::from_utf8(latency(&out, &twice).stderr).unwrap();
    assert!(said.contains("call yours something else"), "{said}");
}
