//! Sockets that whoever starts the proxy has opened for it.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use testkit::{EchoServer, RawClient, Traffic, until};

use crate::world::{PROXY, Place, spawn};

/// A proxy that was started with sockets; it is killed when dropped.
struct Started {
    child: Child,
    dir: TempDir,
    ready: Value,
}

impl Started {
    /// As systemd would, with the sockets from descriptor 3 on.
    fn with(sockets: [TcpListener; 2], yaml: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("proxy.yaml"), yaml).unwrap();
        let [first, second] = sockets.map(OwnedFd::from);
        // Two descriptors that a program may be started with without further ado.
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(
                "exec 3<&0 4>&2 0</dev/null 2>\"$1/stderr\"; \
                 LISTEN_FDS=2 LISTEN_PID=$$ exec \"$0\" --config \"$1/proxy.yaml\" \
                 --log-level debug",
            )
            .arg(PROXY)
            .arg(dir.path())
            .stdin(Stdio::from(first))
            .stderr(Stdio::from(second))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let log = || std::fs::read_to_string(dir.path().join("stderr")).unwrap();
        let ready = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{}", log()));
        // What it says later, nobody reads.
        spawn(move || stdout.read_to_end(&mut Vec::new()));
        Self { child, dir, ready }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("stderr")).unwrap()
    }

    fn listener(&self, name: &str) -> &str {
        self.ready["listeners"][name].as_str().unwrap()
    }

    fn reconfigure(&self, yaml: &str) {
        let beside = self.dir.path().join("new");
        std::fs::write(&beside, yaml).unwrap();
        std::fs::rename(beside, self.dir.path().join("proxy.yaml")).unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn ended(mut self) {
        until("it ends", || self.child.try_wait().unwrap().is_some());
        assert!(self.child.wait().unwrap().success(), "{}", self.log());
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two of 127.0.0.1.
fn sockets() -> ([TcpListener; 2], [SocketAddr; 2]) {
    let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addrs = sockets.each_ref().map(|it| it.local_addr().unwrap());
    (sockets, addrs)
}

fn sidecar(app: &EchoServer, listeners: &[(&str, &str)], more: &str) -> String {
    let listener = |(name, address): &(&str, &str)| {
        format!(
            "- {{name: {name}, direction: outbound, address: \"{address}\", \
             routes: [{{cluster: main}}]}}\n"
        )
    };
    let (app, listeners) = (
        app.addr(),
        listeners.iter().map(listener).collect::<String>(),
    );
    format!(
        "workload: {{name: w}}\nadmin: off\nmetrics: off\nworkers: 2\n{more}\n\
         listeners:\n{listeners}clusters:\n- {{name: main, endpoints: [{{address: \"{app}\"}}]}}\n"
    )
}

#[track_caller]
fn serves(addr: SocketAddr) {
    assert_eq!(RawClient::connect(addr).get("/").status(), 200, "{addr}");
}

#[test]
fn socket_is_served_by_the_listener_that_has_its_address() {
    let app = EchoServer::start();
    let (sockets, [first, second]) = sockets();
    // Connected before anybody serves.
    let mut early = RawClient::connect(second);
    let listeners = [
        ("b", &*second.to_string()),
        ("own", "127.0.0.1:0"),
        ("a", &first.to_string()),
    ];
    let proxy = Started::with(sockets, &sidecar(&app, &listeners, ""));
    assert_eq!(early.get("/").status(), 200);
    assert_eq!(proxy.listener("a"), first.to_string());
    assert_eq!(proxy.listener("b"), second.to_string());
    serves(first);
    serves(proxy.listener("own").parse().unwrap());
    proxy.signal(Signal::TERM);
    until("it accepts no more", || TcpStream::connect(first).is_err());
    drop(early);
    proxy.ended();
}

#[test]
fn socket_waits_for_a_listener_that_comes_later() {
    let app = EchoServer::start();
    let (sockets, [first, second]) = sockets();
    let one = [("a", &*first.to_string())];
    let proxy = Started::with(sockets, &sidecar(&app, &one, ""));
    let unused = format!("no listener has {second}, which was passed");
    assert!(proxy.log().contains(&unused), "{}", proxy.log());
    let mut early = RawClient::connect(second);
    let both = [("a", &*first.to_string()), ("b", &second.to_string())];
    proxy.reconfigure(&sidecar(&app, &both, ""));
    assert_eq!(early.get("/").status(), 200);
    serves(second);
    // Gone, and back: nobody here could have opened it again.
    proxy.reconfigure(&sidecar(&app, &one, ""));
    until("it is gone", || {
        proxy.log().matches("configuration reloaded").count() == 2
    });
    let other = [("a", &*first.to_string()), ("other", &second.to_string())];
    proxy.reconfigure(&sidecar(&app, &other, ""));
    serves(second);
}

#[test]
fn socket_of_all_addresses_is_served_by_the_listener_for_those_of_ipv4() {
    let app = EchoServer::start();
    let Ok(every) = TcpListener::bind("[::]:0") else {
        return; // Where there is no IPv6, there is no such socket.
    };
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = every.local_addr().unwrap().port();
    let v4 = format!("0.0.0.0:{port}");
    let yaml = sidecar(&app, &[("a", &v4)], "");
    let proxy = Started::with([every, other], &yaml);
    assert_eq!(proxy.listener("a"), format!("[::]:{port}"));
    for ip in ["127.0.0.1", "[::1]"] {
        serves(format!("{ip}:{port}").parse().unwrap());
    }
}

#[test]
fn successor_has_what_its_predecessor_was_passed() {
    let (place, app) = (Place::new(), EchoServer::start());
    let (sockets, [first, second]) = sockets();
    let one = sidecar(&app, &[("a", &first.to_string())], &place.key());
    let old = Started::with(sockets, &one);
    let traffic = Traffic::start(first, 2);
    traffic.goes_on(20);
    let both = [("a", &*first.to_string()), ("b", &second.to_string())];
    let both = sidecar(&app, &both, &place.key());
    let next = crate::world::start(&both);
    old.ended();
    serves(second);
    let last = crate::world::start(&both);
    crate::world::ended(next);
    serves(second);
    traffic.goes_on(20);
    traffic.finish().is_only(&[200]);
    assert_eq!(last.listener("a"), first);
}
