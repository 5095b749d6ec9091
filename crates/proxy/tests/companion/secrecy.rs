//! Who gets at the key: Envoy, and nobody else.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::geteuid;
use testkit::{DEADLINE, EchoServer, until};

use crate::world::{World, envoy_of, listener};
use model::{Listener, TlsMode};

/// Somebody who is no user of this machine.
const NOBODY: u32 = 65_534;

#[test]
fn no_other_process_is_let_in_at_the_sockets() {
    let app = EchoServer::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    let proxy = world.start();
    for name in ["sds.sock", "xds.sock"] {
        let mut stream = UnixStream::connect(world.folder("web").join(name)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        // The end may come before what it is told.
        let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut said = Vec::new();
        let ended = stream.read_to_end(&mut said);
        assert!(ended.is_err() || said.is_empty(), "{name}: {said:?}");
    }
    let (own, envoy) = (std::process::id(), envoy_of(&proxy));
    let words = format!("process {own} is turned away: process {envoy} is Envoy");
    until("it says so", || proxy.stderr().contains(&words));
}

#[test]
fn no_other_user_enters_the_folder() {
    if !geteuid().is_root() {
        return eprintln!("skipped: it takes root to be another user");
    }
    let app = EchoServer::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    let _proxy = world.start();
    fs::set_permissions(world.plane.dir(), Permissions::from_mode(0o755)).unwrap();
    let may_read = |path: &std::path::Path| {
        let mut command = Command::new("ls");
        command.arg(path).uid(NOBODY).gid(NOBODY);
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().unwrap().success()
    };
    assert!(may_read(world.plane.dir()), "so far anybody comes");
    assert!(!may_read(&world.folder("web")));
    assert!(!may_read(&world.folder("web").join("sds.sock")));
}

#[test]
fn keys_are_in_no_file_no_log_and_no_page() {
    let app = EchoServer::start();
    let Some(world) = World::before(app.addr()) else {
        return;
    };
    world.plane.listener(&Listener {
        tls: TlsMode::Strict,
        ..listener("strict", "app")
    });
    let proxy = world.start();
    let dump = proxy.admin("/envoy/config_dump").text();
    assert!(
        dump.contains("\"name\": \"default\""),
        "the secret is shown: {dump}"
    );
    let pages = [
        "/config_dump",
        "/certs",
        "/control",
        "/envoy/certs",
        "/envoy/init_dump",
    ];
    let mut seen: Vec<_> = pages.map(|path| proxy.admin(path).text()).into();
    for entry in fs::read_dir(world.folder("web")).unwrap() {
        seen.extend(fs::read_to_string(entry.unwrap().path()));
    }
    let (own, envoy) = (proxy.pid(), envoy_of(&proxy));
    for pid in [own, envoy] {
        seen.extend(["cmdline", "environ"].map(|file| {
            let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&text).into_owned()
        }));
    }
    seen.extend([dump, proxy.stderr()]);
    // In PEM, and the same in base64.
    for text in seen {
        for secret in ["PRIVATE KEY", "LS0tLS1CRUdJTiBQUklWQVRF"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}
