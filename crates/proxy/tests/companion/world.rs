//! Companions with their Envoys, and a control plane that tells both.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use model::{Cluster, Direction, Discovery, Listener, Protocol};
use rustix::process::{Pid, Signal, kill_process};
use testkit::{ControlPlane, ProxyProcess, RawClient, parts};

pub(crate) const PROXY: &str = env!("CARGO_BIN_EXE_leno-proxy");

/// Where Envoy is; `None` with a word about it.
fn envoy() -> Option<PathBuf> {
    let named = std::env::var_os("LENO_ENVOY").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("envoy"));
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/envoy");
    let mut all = named.into_iter().chain(found).chain([beside]);
    let envoy = all.find(|path| path.is_file());
    if envoy.is_none() {
        let promised = std::env::var_os("LENO_REQUIRE_ENVOY").is_some();
        assert!(!promised, "there is no Envoy: `make envoy`");
        eprintln!("skipped: there is no Envoy (`make envoy` brings one)");
    }
    envoy
}

/// A control plane, and workloads that Envoys serve.
pub(crate) struct World {
    pub(crate) plane: ControlPlane,
    pub(crate) envoy: PathBuf,
}

impl World {
    /// Nothing is told yet. `None` without an Envoy.
    pub(crate) fn new() -> Option<Self> {
        let envoy = envoy()?;
        let plane = ControlPlane::start();
        Some(Self { plane, envoy })
    }

    /// One listener `main` in front of `app`, in plaintext.
    pub(crate) fn before(app: SocketAddr) -> Option<Self> {
        let world = Self::new()?;
        world.plane.cluster(&cluster("app", app));
        world.plane.listener(&listener("main", "app"));
        Some(world)
    }

    /// Where the sockets of Envoy beside `workload` are.
    pub(crate) fn folder(&self, workload: &str) -> PathBuf {
        self.plane.dir().join(format!("{workload}-envoy"))
    }

    /// The configuration of the companion beside `workload`; `more` goes into its `control`.
    pub(crate) fn yaml(&self, workload: &str, more: &str) -> String {
        let (program, folder) = (&self.envoy, self.folder(workload));
        let sidecar = self.plane.sidecar(workload, more);
        format!("{sidecar}envoy: {{program: {program:?}, folder: {folder:?}}}\n")
    }

    /// The companion beside `web`, ready.
    #[track_caller]
    pub(crate) fn start(&self) -> ProxyProcess {
        self.start_as("web")
    }

    /// That beside another workload. It renews as soon as there is a newer authority.
    #[track_caller]
    pub(crate) fn start_as(&self, workload: &str) -> ProxyProcess {
        ProxyProcess::start(PROXY, &self.yaml(workload, ", renewalSpread: 0s"))
    }
}

/// An inbound listener in plaintext, with a socket.
pub(crate) fn listener(name: &str, cluster: &str) -> Listener {
    Listener {
        direction: Direction::Inbound,
        bind: true,
        ..parts::listener(name, "127.0.0.1:0", cluster)
    }
}

/// One endpoint in plaintext.
pub(crate) fn cluster(name: &str, endpoint: SocketAddr) -> Cluster {
    Cluster {
        protocol: Protocol::Http1,
        discovery: Discovery::Static,
        ..parts::cluster(name, &[endpoint])
    }
}

/// The status of one request to listener `main`, on a connection of its own.
#[track_caller]
pub(crate) fn ask(proxy: &ProxyProcess) -> u16 {
    RawClient::connect(proxy.addr()).get("/").status()
}

/// The process id of the companion's Envoy.
#[track_caller]
pub(crate) fn envoy_of(proxy: &ProxyProcess) -> u32 {
    let pid = proxy.pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    children.unwrap().trim().parse().expect("one child")
}

/// Whether a process is gone, but for the note that its parent has to take.
pub(crate) fn is_over(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process id"), signal).expect("the process is there");
}

/// An application that answers its first request when it is told to.
pub(crate) struct Slow {
    listener: TcpListener,
}

impl Slow {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { listener }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Waits for the head of a request.
    #[track_caller]
    pub(crate) fn request(&self) -> TcpStream {
        let (mut stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(testkit::DEADLINE)).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        stream
    }
}
