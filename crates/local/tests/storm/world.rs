//! A mesh with its real programs and addresses that no other test has. Taken down when dropped.

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use intercept::netns;
use local::folder::Folder;
use local::name::{MeshName, WorkloadId};
use local::process::{Identity, Launcher};
use local::state::State;
use local::{Programs, Start, command, teardown};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use testkit::Subnet;

use crate::pages;

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(120);
const ADMIN: &str = "127.0.0.1:15000";
const PROGRAMS: [&str; 3] = ["leno", "leno-control", "leno-proxy"];

/// What is set otherwise than it is by itself, so that what takes days is done in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Haste {
    /// How long certificates hold.
    pub(crate) leaf_ttl: &'static str,
    /// How long sidecars take to renew theirs when they are to.
    pub(crate) renewal_spread: &'static str,
}

impl Default for Haste {
    fn default() -> Self {
        Self {
            leaf_ttl: "24h",
            renewal_spread: "2s",
        }
    }
}

/// Whether everything is to be done in full.
pub(crate) fn is_soak() -> bool {
    std::env::var_os("LENO_SOAK").is_some()
}

pub(crate) struct World {
    folder: TempDir,
    start: Start,
    pub(crate) subnet: Subnet,
    /// One mesh at a time: they share two processors.
    _alone: MutexGuard<'static, ()>,
}

impl World {
    /// None, said aloud, without root or programs; that is a failure where root was promised.
    pub(crate) fn make(haste: Haste) -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        let built = Path::new(env!("CARGO_BIN_EXE_leno-stand-in"))
            .parent()
            .unwrap();
        let missing = PROGRAMS.iter().find(|name| !built.join(name).exists());
        let why = match missing {
            _ if !rustix::process::geteuid().is_root() => "a mesh on one machine needs root",
            Some(_) => "`cargo build --workspace --bins` has not been run with this profile",
            None => "",
        };
        if !why.is_empty() {
            let promised = std::env::var_os("LENO_REQUIRE_PRIVILEGED").is_some();
            assert!(!promised, "{why}");
            println!("SKIPPED: {why}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let start = Start {
            name: format!("s{}-storm", std::process::id()).parse().unwrap(),
            base: folder.path().join("run"),
            source: folder.path().join("mesh.yaml"),
            launcher: Launcher {
                program: folder.path().join("leno"),
                args: vec!["workload".into()],
            },
            control: folder.path().join("control"),
            proxy: folder.path().join("proxy"),
            envoy: None,
        };
        let world = Self {
            folder,
            start,
            subnet: Subnet::claim(),
            _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner),
        };
        world.lay_out(built, haste);
        Some(world)
    }

    /// Likewise, with an Envoy, where there is one.
    pub(crate) fn with_envoy(haste: Haste) -> Option<Self> {
        let Some(envoy) = local::program::envoy(None).unwrap() else {
            let promised = std::env::var_os("LENO_REQUIRE_ENVOY").is_some();
            assert!(
                !promised,
                "there is no envoy in $PATH, and one was promised"
            );
            println!("SKIPPED: there is no envoy in $PATH: `make envoy`");
            return None;
        };
        let mut world = Self::make(haste)?;
        let place = world.file("envoy");
        let linked = fs::hard_link(&envoy, &place);
        linked
            .or_else(|_| fs::copy(&envoy, &place).map(drop))
            .unwrap();
        world.start.envoy = Some(place);
        Some(world)
    }

    /// Users of the mesh may not enter the folder of whoever built it.
    fn lay_out(&self, built: &Path, haste: Haste) {
        let Haste {
            leaf_ttl,
            renewal_spread,
        } = haste;
        for name in PROGRAMS {
            let place = self.folder.path().join(name);
            let linked = fs::hard_link(built.join(name), &place);
            linked
                .or_else(|_| fs::copy(built.join(name), &place).map(drop))
                .unwrap();
        }
        let base = self.folder.path().display();
        let away = self.away();
        let control = format!(
            "[ -e {} ] && exit 1\nexec {base}/leno-control --leaf-ttl {leaf_ttl} \"$@\"\n",
            away.display()
        );
        let own = "\"${2%bootstrap.yaml}sidecar/bootstrap.yaml\"";
        let proxy = format!(
            "case \"$2\" in *bootstrap.yaml) ;; *) exec {base}/leno-proxy \"$@\" ;; esac\n\
             sed 's/\"control\": {{/&\"renewalSpread\": \"{renewal_spread}\",/' \"$2\" > {own}\n\
             exec {base}/leno-proxy --config {own}\n"
        );
        for (path, script) in [(&self.start.control, control), (&self.start.proxy, proxy)] {
            fs::write(path, format!("#!/bin/sh\n{script}")).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    /// While it exists, no control plane starts.
    fn away(&self) -> PathBuf {
        self.folder.path().join("away")
    }

    /// Brings up what `resources` say; a mesh that is up gets them.
    #[track_caller]
    pub(crate) fn up(&self, resources: &str) {
        self.write(resources);
        self.take(PATIENCE).unwrap();
    }

    /// Has the mesh's file taken by whoever keeps the mesh, and waits so long until all is ready.
    pub(crate) fn take(&self, within: Duration) -> anyhow::Result<State> {
        command::up_within(&self.start, within, &mut |_| {})
    }

    /// Has the mesh's file say what `resources` say, and does nothing more.
    pub(crate) fn write(&self, resources: &str) {
        let config = "apiVersion: leno.dev/v1alpha1\nkind: MeshConfig\nmetadata: {name: mesh}\n";
        let spec = format!("spec: {{{}}}\n", self.subnet.spec());
        replace(&self.start.source, &format!("{config}{spec}{resources}"));
    }

    /// Replaces all instances of a workload.
    #[track_caller]
    pub(crate) fn restart(&self, workload: &str) {
        let place = (&*self.start.base, &self.start.name);
        let workload = workload.parse().unwrap();
        command::restart(place, &workload, PATIENCE, &mut |_| {}).unwrap();
    }

    /// Has all sidecars taken over from.
    #[track_caller]
    pub(crate) fn upgrade(&self) {
        let place = (&*self.start.base, &self.start.name);
        command::upgrade(place, &Programs::default(), &[], &mut |_| {}).unwrap();
    }

    /// Has all sidecars taken over from by that program.
    pub(crate) fn upgrade_to(&self, program: &Path) -> anyhow::Result<()> {
        let place = (&*self.start.base, &self.start.name);
        let programs = Programs {
            proxy: Some(program.to_path_buf()),
            ..Programs::default()
        };
        command::upgrade(place, &programs, &[], &mut |_| {})
    }

    /// Likewise, of these workloads by the program that there is.
    pub(crate) fn upgrade_of(&self, workloads: &[WorkloadId]) -> anyhow::Result<()> {
        let place = (&*self.start.base, &self.start.name);
        command::upgrade(place, &Programs::default(), workloads, &mut |_| {})
    }

    /// Where everything of the mesh lies.
    pub(crate) fn runtime(&self) -> Folder {
        self.layout()
    }

    pub(crate) fn name(&self) -> &MeshName {
        &self.start.name
    }

    /// Kills the supervisor, and gives the mesh another.
    #[track_caller]
    pub(crate) fn change_supervisor(&self) {
        let before = self.state().supervisor;
        send(before, Signal::KILL);
        until(
            || (!before.is_alive()).then_some(()),
            || "it goes on".into(),
        );
        assert_ne!(local::up(&self.start).unwrap().supervisor, before);
    }

    pub(crate) fn down(&self) -> anyhow::Result<()> {
        local::down(&self.start.base, &self.start.name)
    }

    fn layout(&self) -> Folder {
        Folder::new(&self.start.base, &self.start.name)
    }

    /// Tells the control plane more; nothing: not any more.
    pub(crate) fn tell(&self, name: &str, resources: &str) {
        let path = self.layout().source().join(format!("{name}.yaml"));
        match resources {
            "" => fs::remove_file(path).unwrap(),
            _ => replace(&path, resources),
        }
    }

    /// A workload is to be called no more: the control plane is told that it is not ready. Gives
    /// what it was told.
    pub(crate) fn withdraw(&self, workload: &str) -> Withdrawn {
        let path = self.layout().status().join(format!("{workload}.yaml"));
        let text = fs::read_to_string(&path).unwrap();
        let other = text.replace("\"ready\": true", "\"ready\": false");
        assert_ne!(other, text);
        replace(&path, &other);
        Withdrawn { path, text }
    }

    /// A workload is gone: the control plane is told nothing of where it is.
    pub(crate) fn remove(&self, workload: &str) {
        let path = self.layout().status().join(format!("{workload}.yaml"));
        fs::remove_file(path).unwrap();
    }

    pub(crate) fn state(&self) -> State {
        State::load(&self.layout().state()).unwrap().unwrap()
    }

    /// Runs `work` in the network of a workload.
    pub(crate) fn inside<T: Send>(&self, workload: &str, work: impl FnOnce() -> T + Send) -> T {
        let state = self.state();
        let running = state.workload(&workload.parse().unwrap()).unwrap();
        netns::inside(&running.netns, work).unwrap()
    }

    /// Addresses that a Service can be given, of both families.
    pub(crate) fn virtual_addresses(&self, place: u8) -> [IpAddr; 2] {
        self.subnet.services().map(|range| {
            let (first, _) = range.split_once('/').unwrap();
            match first.parse().unwrap() {
                IpAddr::V4(addr) => IpAddr::from((addr.to_bits() | u32::from(place)).to_be_bytes()),
                IpAddr::V6(addr) => {
                    IpAddr::from((addr.to_bits() | u128::from(place)).to_be_bytes())
                }
            }
        })
    }

    pub(crate) fn address(&self, workload: &str) -> IpAddr {
        self.state()
            .workload(&workload.parse().unwrap())
            .unwrap()
            .addresses[0]
    }

    /// A page of a sidecar.
    #[track_caller]
    pub(crate) fn page(&self, workload: &str, path: &str) -> String {
        self.inside(workload, || {
            pages::fetch(TcpStream::connect(ADMIN), ("GET", path)).unwrap()
        })
    }

    /// What a sidecar uses, as soon as it uses what `holds`.
    #[track_caller]
    pub(crate) fn await_config(&self, workload: &str, holds: impl Fn(&Value) -> bool + Sync) {
        let uses = |page: &str| {
            let page: Value = serde_json::from_str(page).unwrap();
            (page["generation"] == page["applied"] && holds(&page["config"])).then_some(())
        };
        self.inside(workload, || {
            let fetch = || pages::fetch(TcpStream::connect(ADMIN), ("GET", "/config_dump")).ok();
            until(|| uses(&fetch()?), || fetch().unwrap_or_default());
        });
    }

    /// The sum of a sidecar's counters of that name whose labels contain `label`.
    #[track_caller]
    pub(crate) fn count(&self, workload: &str, name: &str, label: &str) -> u64 {
        pages::sum(&self.page(workload, "/metrics"), name, label)
    }

    /// Requests that a sidecar has sent, and that were answered.
    #[track_caller]
    pub(crate) fn sent(&self, workload: &str) -> u64 {
        let state = self.state();
        match state.workload(&workload.parse().unwrap()).unwrap().envoy {
            true => {
                let page = self.page(workload, "/envoy/stats/prometheus");
                pages::sum(&page, "envoy_cluster_upstream_rq_xx", "outbound")
            }
            false => self.count(workload, "leno_requests_total", "outbound"),
        }
    }

    /// The serial numbers of a sidecar's certificate and of who signed it.
    #[track_caller]
    pub(crate) fn serials(&self, workload: &str) -> [String; 2] {
        let page: Value = serde_json::from_str(&self.page(workload, "/certs")).unwrap();
        [0, 1].map(|place| {
            page["certificateChain"][place]["serial"]
                .as_str()
                .unwrap()
                .to_owned()
        })
    }

    /// A page of the control plane, if there is one now.
    pub(crate) fn control_page(&self, path: &str) -> Option<String> {
        let admin: SocketAddr = self.state().admin?.parse().unwrap();
        pages::fetch(TcpStream::connect(admin), ("GET", path)).ok()
    }

    /// What the control plane has counted since its start.
    pub(crate) fn control_count(&self, name: &str, label: &str) -> u64 {
        let page = until(
            || self.control_page("/metrics"),
            || "no control plane".into(),
        );
        pages::sum(&page, name, label)
    }

    /// Asks at the operator's socket.
    #[track_caller]
    pub(crate) fn operate(&self, method: &str, path: &str) -> Value {
        let socket = std::os::unix::net::UnixStream::connect(self.layout().operator());
        serde_json::from_str(&pages::fetch(socket, (method, path)).unwrap()).unwrap()
    }

    /// Certificates that were signed so far.
    pub(crate) fn issued(&self) -> usize {
        let log = fs::read_to_string(self.layout().control().join("issued.log")).unwrap();
        log.lines()
            .filter(|line| line.contains("\"issued\""))
            .count()
    }

    /// Waits until the control plane has told all sidecars everything.
    pub(crate) fn await_settled(&self) {
        let wanted = self.state().instances.len();
        let settled = || {
            let page: Value = serde_json::from_str(&self.control_page("/proxies")?).ok()?;
            let proxies = page["proxies"].as_array()?;
            let is_settled =
                |one: &&Value| one["settled"] == true && one["generation"] == page["generation"];
            (proxies.iter().filter(is_settled).count() >= wanted).then_some(())
        };
        until(settled, || {
            self.control_page("/proxies").unwrap_or_default()
        });
    }

    /// Ends the control plane by `signal`; comes back when the next one is asked for.
    pub(crate) fn end_control(&self, signal: Signal) {
        let before = self.state().control;
        send(before.process.unwrap(), signal);
        until(
            || (self.state().control.process != before.process).then_some(()),
            || "the control plane goes on".into(),
        );
    }

    pub(crate) fn await_control(&self) {
        until(
            || {
                self.state()
                    .control
                    .process
                    .and_then(|_| self.control_page("/ready"))
            },
            || "there is no control plane".into(),
        );
    }

    /// No control plane from now on.
    pub(crate) fn leave_alone(&self) {
        fs::write(self.away(), "").unwrap();
        self.end_control(Signal::KILL);
    }

    /// There may be one again.
    pub(crate) fn come_back(&self) {
        fs::remove_file(self.away()).unwrap();
        self.await_control();
    }

    /// Ends a sidecar; comes back when the next one is ready.
    pub(crate) fn restart_sidecar(&self, workload: &str) {
        let id = workload.parse().unwrap();
        let life = || self.state().workload(&id).unwrap().sidecar.clone();
        let before = life().process.unwrap();
        send(before, Signal::KILL);
        until(
            || life().process.filter(|process| *process != before),
            || fs::read_to_string(self.layout().log()).unwrap_or_default(),
        );
        let ready = || {
            let answer = self.inside(workload, || {
                pages::fetch(TcpStream::connect(ADMIN), ("GET", "/ready"))
            });
            answer.ok()
        };
        until(ready, || "the sidecar is not ready".into());
    }

    /// Whether what a sidecar has written down has `text` in it.
    pub(crate) fn is_kept(&self, workload: &str, text: &str) -> bool {
        let state = self.state();
        let running = state.workload(&workload.parse().unwrap()).unwrap();
        let own = self.layout().instance(&running.id);
        let bytes = fs::read(own.sidecar_home().join("resources.pb")).unwrap_or_default();
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    }

    /// Resident memory of a sidecar, in KiB.
    pub(crate) fn resident_kib(&self, workload: &str) -> u64 {
        let state = self.state();
        let sidecar = &state.workload(&workload.parse().unwrap()).unwrap().sidecar;
        let path = format!("/proc/{}/status", sidecar.process.unwrap().pid);
        let status = fs::read_to_string(path).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// What `leno ps` says.
    #[track_caller]
    pub(crate) fn shown(&self) -> Value {
        let mut command = Command::new(&self.start.launcher.program);
        command.args(["ps", "-o", "json", "--runtime"]);
        let output = command.arg(&self.start.base).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// `leno`, in a workload as its user.
    pub(crate) fn leno(&self, workload: &str, args: &[&str]) -> Command {
        let leno = self.start.launcher.program.to_str().unwrap();
        self.exec(workload, &[&[leno], args].concat())
    }

    /// Any command, in a workload as its user.
    pub(crate) fn exec(&self, workload: &str, words: &[&str]) -> Command {
        let mut command = self.command(&["exec"]);
        command.args([workload, "--"]).args(words);
        command
    }

    /// One of `leno`'s own commands about this mesh.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.start.launcher.program);
        command.args(words);
        command.args(["--name", self.start.name.as_str(), "--runtime"]);
        command.arg(&self.start.base);
        command
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let folder = self.layout();
        if thread::panicking() {
            let files = [folder.log(), folder.output("control", "err")].into_iter();
            let state = State::load(&folder.state()).ok().flatten();
            let instances = state.into_iter().flat_map(|state| state.instances);
            let sidecars = instances.map(|one| folder.instance(&one.id).output("sidecar", "err"));
            for path in files.chain(sidecars) {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<_> = text.lines().collect();
                let tail = &lines[lines.len().saturating_sub(40)..];
                eprintln!("--- {}\n{}", path.display(), tail.join("\n"));
            }
        }
        if teardown::is_anything_left(&folder, &self.start.name) {
            let _ = self.down();
        }
    }
}

/// What the control plane was told of a workload that has gone.
pub(crate) struct Withdrawn {
    path: PathBuf,
    text: String,
}

impl Withdrawn {
    /// It is there again.
    pub(crate) fn restore(self) {
        replace(&self.path, &self.text);
    }
}

/// In one step, so that nobody reads a part.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, path).unwrap();
}

#[track_caller]
pub(crate) fn send(process: Identity, signal: Signal) {
    assert!(process.is_alive());
    kill_process(Pid::from_raw(process.pid).unwrap(), signal).unwrap();
}

#[track_caller]
pub(crate) fn until<T>(find: impl Fn() -> Option<T>, why: impl Fn() -> String) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < deadline, "{}", why());
        thread::sleep(Duration::from_millis(2));
    }
}
