//! Two namespaces joined by a wire: inside lives a workload, outside everybody else. Servers in
//! them say their name and what the connection was meant for. Gone when dropped.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use intercept::{Backend, Cidr, Policy, apply, netns};
use rustix::net::sockopt;
use rustix::process::Uid;
use rustix::thread::set_thread_uid;

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(10);
const OWN: [&str; 2] = ["10.203.0.1", "fd03::1"];
const PEER: [&str; 2] = ["10.203.0.2", "fd03::2"];
/// Of the peer too.
const SECOND: [&str; 2] = ["10.203.0.3", "fd03::3"];

static COUNT: AtomicU32 = AtomicU32::new(0);

pub(super) struct World {
    inside: PathBuf,
    outside: PathBuf,
}

impl World {
    /// None, said aloud, without root; that is a failure where root was promised.
    pub(super) fn make() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            let promised = std::env::var_os("LENO_REQUIRE_PRIVILEGED").is_some();
            assert!(!promised, "this test needs root, which was promised");
            println!("SKIPPED: network namespaces need root");
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |side| format!("leno-test-{}-{number}-{side}", std::process::id());
        let [inside, outside] = [name("in"), name("out")];
        let path = |name: &str| Path::new("/run/netns").join(name);
        let world = Self {
            inside: path(&inside),
            outside: path(&outside),
        };
        ip(&format!(
            "netns add {inside}\nnetns add {outside}\n\
             link add eth0 netns {inside} type veth peer name eth0 netns {outside}\n"
        ));
        world.wire(&world.inside, &[OWN]);
        world.wire(&world.outside, &[PEER, SECOND]);
        Some(world)
    }

    fn wire(&self, namespace: &Path, addrs: &[[&str; 2]]) {
        let mut script = String::from("link set lo up\nlink set eth0 up\n");
        for [v4, v6] in addrs {
            script.push_str(&format!("addr add {v4}/24 dev eth0\n"));
            script.push_str(&format!("addr add {v6}/64 dev eth0 nodad\n"));
        }
        netns::inside(namespace, || ip(&script)).unwrap();
    }

    pub(super) fn namespace(&self) -> &Path {
        &self.inside
    }

    pub(super) fn own(&self) -> [IpAddr; 2] {
        OWN.map(|addr| addr.parse().unwrap())
    }

    pub(super) fn peer(&self) -> [IpAddr; 2] {
        PEER.map(|addr| addr.parse().unwrap())
    }

    pub(super) fn second(&self) -> [IpAddr; 2] {
        SECOND.map(|addr| addr.parse().unwrap())
    }

    #[track_caller]
    pub(super) fn intercept(&self, policy: &Policy, backend: Backend) {
        let done = apply(Some(&self.inside), policy, backend).unwrap();
        assert_eq!(done, backend);
    }

    /// A server beside the workload.
    pub(super) fn inside(&self, name: &'static str, address: &str) {
        serve(&self.inside, name, address);
    }

    /// A server elsewhere.
    pub(super) fn outside(&self, name: &'static str, address: &str) {
        serve(&self.outside, name, address);
    }

    /// Who answers to `user` of the workload's namespace by TCP, and what it takes for the
    /// destination: `-` when that is the connection's own.
    pub(super) fn ask(&self, user: u32, target: SocketAddr) -> io::Result<String> {
        ask(&self.inside, user, target)
    }

    pub(super) fn ask_from_outside(&self, target: SocketAddr) -> io::Result<String> {
        ask(&self.outside, 0, target)
    }

    /// Who answers by UDP.
    pub(super) fn send(&self, user: u32, target: SocketAddr) -> io::Result<String> {
        let work = || {
            become_user(user);
            let socket = UdpSocket::bind(any(target))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.connect(target)?;
            socket.send(b"?")?;
            let mut answer = [0; 64];
            let length = socket.recv(&mut answer)?;
            Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
        };
        netns::inside(&self.inside, work).unwrap()
    }

    /// Sends a datagram to one address of the workload, then one to another: which comes first.
    pub(super) fn first_of_two_from_outside(&self, a: SocketAddr, b: SocketAddr) -> SocketAddr {
        let bind = || [a, b].map(|addr| UdpSocket::bind(addr).unwrap());
        let sockets = netns::inside(&self.inside, bind).unwrap();
        netns::inside(&self.outside, || {
            for addr in [a, b] {
                let socket = UdpSocket::bind(any(addr)).unwrap();
                socket.send_to(b"?", addr).unwrap();
            }
        })
        .unwrap();
        let [early, late] = sockets;
        late.set_read_timeout(Some(PATIENCE)).unwrap();
        late.recv(&mut [0; 8]).unwrap();
        // Had it passed, it would be here: the wire keeps the order.
        early.set_nonblocking(true).unwrap();
        if early.recv(&mut [0; 8]).is_ok() {
            a
        } else {
            b
        }
    }

    /// Rules that somebody else has, of both makes; what [`World::rules`] shows of them.
    pub(super) fn add_rules_of_others(&self) -> [&'static str; 2] {
        let work = || {
            let chain = "add table inet other; add chain inet other alien";
            run("nft", &chain.split(' ').collect::<Vec<_>>());
            run(
                "iptables",
                &"-t nat -A OUTPUT -p tcp --dport 7 -j ACCEPT"
                    .split(' ')
                    .collect::<Vec<_>>(),
            );
        };
        netns::inside(&self.inside, work).unwrap();
        ["alien", "-A OUTPUT -p tcp -m tcp --dport 7 -j ACCEPT"]
    }

    /// All rules, without counters.
    pub(super) fn rules(&self) -> String {
        let work = || {
            let nft = run("nft", &["list", "tables"]);
            let ours = nft
                .contains("inet leno")
                .then(|| run("nft", &["list", "table", "inet", "leno"]));
            let others = nft
                .contains("inet other")
                .then(|| run("nft", &["list", "table", "inet", "other"]));
            let saved = ["iptables-save", "ip6tables-save"].map(|program| run(program, &[]));
            let saved = saved.concat();
            let lines = saved.lines().filter(|line| !line.starts_with(['#', '*']));
            let saved: Vec<_> = lines.map(|line| line.split(" [").next().unwrap()).collect();
            [
                ours.unwrap_or_default(),
                others.unwrap_or_default(),
                saved.join("\n"),
            ]
            .concat()
        };
        netns::inside(&self.inside, work).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for path in [&self.inside, &self.outside] {
            let name = path.file_name().unwrap();
            let _ = Command::new("ip").args(["netns", "del"]).arg(name).status();
        }
        if !thread::panicking() {
            assert!(fs::metadata(&self.inside).is_err(), "a namespace is left");
        }
    }
}

pub(super) fn loopback() -> [IpAddr; 2] {
    ["127.0.0.1", "::1"].map(|addr| addr.parse().unwrap())
}

/// The range with nothing else in it.
pub(super) fn only(addr: IpAddr) -> Cidr {
    Cidr::new(addr, if addr.is_ipv4() { 32 } else { 128 }).unwrap()
}

fn any(like: SocketAddr) -> &'static str {
    if like.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    }
}

/// Of this thread alone, which ends soon.
fn become_user(user: u32) {
    set_thread_uid(Uid::from_raw(user)).unwrap();
}

fn ask(namespace: &Path, user: u32, target: SocketAddr) -> io::Result<String> {
    let work = || {
        become_user(user);
        let mut stream = TcpStream::connect_timeout(&target, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    netns::inside(namespace, work).unwrap()
}

/// TCP and UDP, until the test program ends.
fn serve(namespace: &Path, name: &'static str, address: &str) {
    let bind = || {
        (
            TcpListener::bind(address).unwrap(),
            UdpSocket::bind(address).unwrap(),
        )
    };
    let (listener, socket) = netns::inside(namespace, bind).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let meant = meant(&stream).map_or_else(|| "-".to_owned(), |addr| addr.to_string());
            // A peer that has gone is its own affair.
            let _ = write!(stream, "{name} {meant}");
            let _ = stream.shutdown(Shutdown::Write);
        }
    });
    thread::spawn(move || {
        let mut question = [0; 8];
        while let Ok((_, from)) = socket.recv_from(&mut question) {
            let _ = socket.send_to(name.as_bytes(), from);
        }
    });
}

/// Where the connection went before it was redirected.
fn meant(stream: &TcpStream) -> Option<SocketAddr> {
    let local = stream.local_addr().unwrap();
    let local = SocketAddr::new(local.ip().to_canonical(), local.port());
    let meant = match local {
        SocketAddr::V4(_) => sockopt::ip_original_dst(stream).ok()?.into(),
        SocketAddr::V6(_) => sockopt::ipv6_original_dst(stream).ok()?.into(),
    };
    (meant != local).then_some(meant)
}

fn ip(script: &str) {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success(), "{script}");
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
