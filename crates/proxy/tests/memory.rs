//! What connections that wait cost: memory and descriptors, and that both come back. The figures
//! that are promised are judged on a release build; a debug build only has to stay in proportion.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where its world is not as it should be"
)]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use testkit::client::Client;
use testkit::{
    EchoServer, MeshConnector, ProxyProcess, RawClient, Sidecar, TestCa, descriptors, until,
};

const ACTIVE: &str = "leno_connections_active";

/// What a sidecar may take.
#[derive(Clone, Copy)]
struct Bounds {
    idle_kib: u64,
    plain_bytes: u64,
    mtls_bytes: u64,
}

/// What is promised.
const RELEASE: Bounds = Bounds {
    idle_kib: 5 * 1024,
    plain_bytes: 2 * 1024,
    mtls_bytes: 14 * 1024,
};
/// An unoptimised program is larger, and so are its futures.
const DEBUG: Bounds = Bounds {
    idle_kib: 20 * 1024,
    plain_bytes: 4 * 1024,
    mtls_bytes: 16 * 1024,
};

/// One at a time: memory is measured, and descriptors are many.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The best program to measure, and what it is measured by.
fn subject() -> (PathBuf, Bounds) {
    let built = PathBuf::from(env!("CARGO_BIN_EXE_leno-proxy"));
    if !cfg!(debug_assertions) {
        return (built, RELEASE);
    }
    let release = built.ancestors().nth(2).unwrap().join("release/leno-proxy");
    match changed(&release) {
        Some(made) if made > newest_source() => (release, RELEASE),
        found => {
            let why = if found.is_some() {
                "is older than the sources"
            } else {
                "is not built"
            };
            eprintln!(
                "SKIPPED: {} {why}: only a debug build's bounds are checked",
                release.display()
            );
            (built, DEBUG)
        }
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|data| data.modified()).ok()
}

/// When a source file of the proxy was changed last.
fn newest_source() -> SystemTime {
    fn newest(folder: &Path) -> SystemTime {
        let entries = folder
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let times = entries.map(|path| match path.is_dir() {
            true => newest(&path),
            false => changed(&path).unwrap_or(SystemTime::UNIX_EPOCH),
        });
        times.max().unwrap_or(SystemTime::UNIX_EPOCH)
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let of = |name: &&str| newest(&crates.join(name).join("src"));
    ["proxy", "rt", "wire", "identity", "model"]
        .iter()
        .map(of)
        .max()
        .unwrap()
}

fn start(program: &Path, sidecar: Sidecar) -> ProxyProcess {
    let sidecar = sidecar.with("limits: {connections: 30000}");
    ProxyProcess::start(program.to_str().unwrap(), &sidecar.yaml())
}

/// Connections that have carried one request each.
fn used<S: Read + Write>(count: usize, dial: impl Fn() -> Client<S>) -> Vec<Client<S>> {
    let one = |_| {
        let mut client = dial();
        assert_eq!(client.get("/").status(), 200);
        client
    };
    (0..count).map(one).collect()
}

/// Bytes per connection of `count`, after the first that fill what is kept anyway.
fn cost<S: Read + Write>(proxy: &ProxyProcess, count: usize, dial: impl Fn() -> Client<S>) -> u64 {
    let first = used(count / 4, &dial);
    let before = proxy.anon_kib();
    let further = used(count, &dial);
    let grown = proxy.anon_kib().saturating_sub(before) * 1024;
    drop((first, further));
    grown / count as u64
}

#[test]
fn idle_sidecar_is_small() {
    let _alone = alone();
    let (program, bounds) = subject();
    let (ca, app) = (TestCa::new(), EchoServer::start());
    let server = ca.identity("server");
    let proxy = start(&program, Sidecar::inbound(app.addr()).identity(&server));
    assert_eq!(RawClient::connect(proxy.addr()).get("/").status(), 200);
    let kib = proxy.pss_kib();
    println!("idle: {kib} KiB");
    assert!(kib <= bounds.idle_kib, "{kib} KiB");
}

#[test]
fn idle_plain_connection_is_small() {
    let _alone = alone();
    let limit = descriptors::raise(9_000);
    let (program, bounds) = subject();
    let app = EchoServer::start();
    let proxy = start(&program, Sidecar::inbound(app.addr()));
    let (addr, count) = (proxy.addr(), if limit < 9_000 { 500 } else { 3_000 });
    let bytes = cost(&proxy, count, || RawClient::connect(addr));
    println!("idle plain connection: {bytes} bytes");
    assert!(bytes <= bounds.plain_bytes, "{bytes} bytes");
}

#[test]
fn idle_mesh_connection_is_small() {
    let _alone = alone();
    let (program, bounds) = subject();
    let (ca, app) = (TestCa::new(), EchoServer::start());
    let (server, client) = (ca.identity("server"), ca.identity("client"));
    let proxy = start(&program, Sidecar::inbound(app.addr()).identity(&server));
    let connector = MeshConnector::new(&client.credentials(), &server.id);
    let addr = proxy.addr();
    let bytes = cost(&proxy, 400, || connector.connect(addr).unwrap());
    println!("idle mesh connection: {bytes} bytes");
    assert!(bytes <= bounds.mtls_bytes, "{bytes} bytes");
}

#[test]
fn ten_thousand_idle_connections_are_served_on_and_leave_nothing() {
    const WANTED: usize = 10_000;
    let _alone = alone();
    let limit = usize::try_from(descriptors::raise(WANTED as u64 + 500)).unwrap();
    let count = WANTED.min(limit.saturating_sub(500));
    if count < WANTED {
        eprintln!(
            "SKIPPED in part: {limit} descriptors are allowed, enough for {count} connections"
        );
    }
    let (program, bounds) = subject();
    let app = EchoServer::start();
    let proxy = start(&program, Sidecar::inbound(app.addr()));
    let addr = proxy.addr();
    drop(used(100, || RawClient::connect(addr)));
    proxy.metric_becomes(ACTIVE, &[], 0.0);
    let (fds, memory) = (proxy.open_fds(), proxy.anon_kib());
    let mut rounds = Vec::new();
    for _ in 0..2 {
        let mut clients = used(count, || RawClient::connect(addr));
        proxy.metric_becomes(ACTIVE, &[], count as f64);
        rounds.push(proxy.anon_kib() - memory);
        for client in clients.iter_mut().step_by(100) {
            assert_eq!(client.get("/").status(), 200);
        }
        drop(clients);
        proxy.metric_becomes(ACTIVE, &[], 0.0);
        until("descriptors are back", || proxy.open_fds() <= fds + 2);
        assert_eq!(RawClient::connect(addr).get("/").status(), 200);
    }
    println!("{count} idle connections: {rounds:?} KiB");
    let allowed = bounds.plain_bytes * count as u64 / 1024;
    assert!(rounds[0] <= allowed, "{rounds:?} KiB, allowed {allowed}");
    assert!(
        rounds[1] <= rounds[0] + 1024,
        "the second time took more: {rounds:?} KiB"
    );
    assert!(!proxy.stderr().contains("panicked"), "{}", proxy.stderr());
    if cfg!(target_env = "gnu") {
        let back = memory + allowed / 4;
        until("memory goes back to the kernel", || {
            proxy.anon_kib() <= back
        });
        println!(
            "afterwards: {} KiB",
            proxy.anon_kib().saturating_sub(memory)
        );
    }
}

/// Most machines start programs with 1,024 descriptors and allow many more.
#[test]
fn takes_the_descriptors_that_it_may_have() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("start");
    let program = env!("CARGO_BIN_EXE_leno-proxy");
    let text = format!("#!/bin/sh\nulimit -S -n 256\nexec '{program}' \"$@\"\n");
    std::fs::write(&script, text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let app = EchoServer::start();
    let proxy = start(&script, Sidecar::inbound(app.addr()));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", proxy.pid())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let columns: Vec<_> = line.split_whitespace().collect();
    assert_eq!(columns[3], columns[4], "{line}");
}
