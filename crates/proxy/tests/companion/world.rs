//! A companion, its Envoy, and a control plane that tells both.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use model::{Cluster, Discovery, Listener};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::control::{parts_of_cluster, parts_of_listener};
use testkit::{ControlPlane, ProxyProcess, RawClient};
use xds::resource::{Resource, encode};

pub(crate) const PROXY: &str = env!("CARGO_BIN_EXE_leno-proxy");

/// Where Envoy is; `None` with a word about it.
pub(crate) fn envoy() -> Option<PathBuf> {
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

/// A control plane, and a workload that Envoy serves.
pub(crate) struct World {
    pub(crate) plane: ControlPlane,
    envoy: PathBuf,
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
        world.tell_cluster(&super::life::cluster("app", app));
        world.tell_listener(&super::life::listener("main", "app"));
        Some(world)
    }

    /// Tells a listener, to Envoy and to its companion.
    pub(crate) fn tell_listener(&self, listener: &Listener) {
        self.plane.listener(listener);
        self.tell_envoy(parts_of_listener(listener));
    }

    /// Tells a cluster to Envoy.
    pub(crate) fn tell_cluster(&self, cluster: &Cluster) {
        assert_eq!(cluster.discovery, Discovery::Static);
        self.tell_envoy(parts_of_cluster(cluster));
    }

    fn tell_envoy(&self, parts: Vec<Resource>) {
        self.plane.together(|| {
            for part in parts {
                let bytes = encode(&part).unwrap();
                self.plane.set_for_envoys(part.kind(), part.name(), bytes);
            }
        });
    }

    /// Where the sockets of Envoy beside `workload` are.
    pub(crate) fn folder(&self, workload: &str) -> PathBuf {
        self.plane.dir().join(format!("{workload}-envoy"))
    }

    /// The configuration of the companion beside `workload`, with `more` in its section `envoy`.
    pub(crate) fn yaml(&self, workload: &str, more: &str) -> String {
        let (program, folder) = (&self.envoy, self.folder(workload));
        let sidecar = self.plane.sidecar(workload, "");
        format!("{sidecar}envoy: {{program: {program:?}, folder: {folder:?}{more}}}\n")
    }

    /// The companion beside `web`, ready.
    #[track_caller]
    pub(crate) fn start(&self) -> ProxyProcess {
        ProxyProcess::start(PROXY, &self.yaml("web", ""))
    }
}

/// The status of one request to listener `main`, on a connection of its own.
#[track_caller]
pub(crate) fn ask(proxy: &ProxyProcess) -> u16 {
    RawClient::connect(proxy.addr()).get("/").status()
}

#[track_caller]
pub(crate) fn page(proxy: &ProxyProcess, path: &str) -> Value {
    let page = proxy.admin(path).text();
    serde_json::from_str(&page).unwrap_or_else(|error| panic!("{path}: {error}: {page}"))
}

/// The process id of the companion's Envoy.
#[track_caller]
pub(crate) fn envoy_of(proxy: &ProxyProcess) -> u32 {
    let pid = proxy.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.trim().parse().expect("one child")
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process id"), signal).expect("the process is there");
}
