//! A mesh of stand-ins with addresses that no other test has. Taken down when dropped.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use local::folder::Folder;
use local::name::MeshName;
use local::process::{Identity, Launcher};
use local::state::{Life, State};
use local::{Event, Start, command, teardown};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use testkit::Subnet;

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(30);
const STAND_IN: &str = env!("CARGO_BIN_EXE_leno-stand-in");

pub(super) struct World {
    name: MeshName,
    folder: TempDir,
    /// Every program of the mesh.
    program: PathBuf,
    subnet: Subnet,
    /// Files that were brought up, each another: who keeps the mesh looks at the last one, and
    /// could otherwise take a change before it is asked to.
    files: AtomicU32,
}

impl World {
    /// None, said aloud, without root; that is a failure where root was promised.
    pub(super) fn make(name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            let promised = std::env::var_os("LENO_REQUIRE_PRIVILEGED").is_some();
            assert!(!promised, "this test needs root, which was promised");
            println!("SKIPPED: a mesh on one machine needs root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // Applications are started in it.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // Users of the mesh may not enter the folder of whoever built it.
        let program = folder.path().join("stand_in");
        fs::hard_link(STAND_IN, &program)
            .or_else(|_| fs::copy(STAND_IN, &program).map(drop))
            .unwrap();
        Some(Self {
            program,
            name: format!("t{}-{name}", std::process::id()).parse().unwrap(),
            folder,
            subnet: Subnet::claim(),
            files: AtomicU32::new(0),
        })
    }

    pub(super) fn name(&self) -> &MeshName {
        &self.name
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn base(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn runtime(&self, path: &str) -> PathBuf {
        let root = Folder::new(self.base(), &self.name).root().to_path_buf();
        if path.is_empty() {
            root
        } else {
            root.join(path)
        }
    }

    pub(super) fn gateway(&self) -> String {
        format!("{}.1\n", self.subnet.prefix())
    }

    /// Brings up workloads that tell on port 80 who they are.
    pub(super) fn up(&self, workloads: &[&str]) -> Result<State> {
        let spec = self.serve("");
        let documents = workloads.iter().map(|name| workload(name, &spec));
        self.apply(&documents.collect::<String>())
    }

    /// Brings up one workload.
    pub(super) fn up_with(&self, spec: &str) -> Result<State> {
        self.apply(&workload("a", spec))
    }

    /// What a workload is that tells on port 80 who it is; `more` has what else it is.
    pub(super) fn serve(&self, more: &str) -> String {
        self.run(
            &["serve", "[::]:80"],
            &format!("ports: [{{port: 80}}], {more}"),
        )
    }

    /// What a workload is that runs the stand-in with these words.
    pub(super) fn run(&self, words: &[&str], more: &str) -> String {
        let program = self.program.display().to_string();
        let words = [&[&*program], words].concat();
        format!("{{serviceAccount: a, command: {words:?}, {more}}}")
    }

    /// Has the file say this, and nothing else.
    pub(super) fn write(&self, workloads: &str) {
        self.write_in(24, workloads);
    }

    /// Likewise, with so many bits of the addresses given.
    fn write_in(&self, bits: u8, workloads: &str) {
        let [_, ipv6] = self.subnet.workloads();
        let ranges = format!("[{}.0/{bits}, \"{ipv6}\"]", self.subnet.prefix());
        let config = "apiVersion: leno.dev/v1alpha1\nkind: MeshConfig\nmetadata: {name: mesh}\n";
        let text = format!("{config}spec: {{workloadCIDRs: {ranges}}}\n{workloads}");
        let new = self.folder.path().join("mesh.new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, self.source()).unwrap();
    }

    /// The file that was brought up last.
    fn source(&self) -> PathBuf {
        let number = self.files.load(Ordering::Relaxed);
        self.folder.path().join(format!("mesh-{number}.yaml"))
    }

    /// Brings up what these documents say; a mesh that is up gets them.
    pub(super) fn apply(&self, workloads: &str) -> Result<State> {
        self.apply_within(PATIENCE, workloads, &mut Vec::new())
    }

    /// Likewise, with so many bits of the addresses given.
    pub(super) fn apply_in(&self, bits: u8, workloads: &str) -> Result<State> {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.write_in(bits, workloads);
        command::up_within(&self.start(), PATIENCE, &mut |_| {})
    }

    /// Likewise, with what was told of it.
    pub(super) fn apply_within(
        &self,
        within: Duration,
        workloads: &str,
        told: &mut Vec<Event>,
    ) -> Result<State> {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.write(workloads);
        command::up_within(&self.start(), within, &mut |event| told.push(event.clone()))
    }

    /// What a supervisor is told.
    pub(super) fn start(&self) -> Start {
        let program = self.program.clone();
        Start {
            name: self.name.clone(),
            base: self.base().to_path_buf(),
            source: self.source(),
            launcher: Launcher {
                program: program.clone(),
                args: vec!["workload".into()],
            },
            control: program.clone(),
            proxy: program.clone(),
            envoy: Some(program),
        }
    }

    /// Brings up what the file says already.
    pub(super) fn up_again(&self) -> Result<State> {
        local::up(&self.start())
    }

    /// What `workload` is answered at `target`.
    #[track_caller]
    pub(super) fn ask(&self, workload: &str, target: &str) -> String {
        self.try_ask(workload, target).unwrap()
    }

    /// As soon as there is an answer.
    pub(super) fn eventually_ask(&self, workload: &str, target: &str) -> String {
        let ask = || {
            self.try_ask(workload, target)
                .ok()
                .filter(|said| !said.is_empty())
        };
        until(ask, || format!("no answer from {target}"))
    }

    /// The words before those of a command that is run where a workload runs.
    pub(super) fn exec(&self, workload: &str) -> Vec<String> {
        let [program, base] = [&*self.program, self.base()].map(|path| path.display().to_string());
        let name = self.name.to_string();
        vec![program, "exec".into(), base, name, workload.into()]
    }

    /// Waits until `find` finds something.
    #[track_caller]
    pub(super) fn until<T>(&self, find: impl Fn() -> Option<T>) -> T {
        let log = self.runtime("supervisor.log");
        until(find, || fs::read_to_string(&log).unwrap_or_default())
    }

    /// A process of a workload's that does not belong to its application.
    pub(super) fn stray(&self, workload: &str) -> Child {
        let mut child = Command::new(&self.program)
            .args(["exec".as_ref(), self.base().as_os_str()])
            .args([self.name.as_str(), workload])
            .args(["sh", "-c", "echo ready; exec sleep 600"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = [0; 6];
        child.stdout.take().unwrap().read_exact(&mut line).unwrap();
        child
    }

    fn try_ask(&self, workload: &str, target: &str) -> Result<String> {
        let program = self.program.clone();
        let output = Command::new(&program)
            .args(["exec".as_ref(), self.base().as_os_str()])
            .args([self.name.as_str(), workload])
            .arg(&program)
            .args(["ask", target])
            .output()?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::ensure!(output.status.success(), "{error}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Where a workload, or an instance, is called.
    pub(super) fn target(&self, state: &State, workload: &str) -> String {
        let found = state.workload(&workload.parse().unwrap()).unwrap();
        SocketAddr::new(found.addresses[0], 80).to_string()
    }

    /// The state now.
    pub(super) fn state(&self) -> State {
        State::load(&self.runtime("state.json")).unwrap().unwrap()
    }

    /// A file that applications may write.
    pub(super) fn open_file(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        path
    }

    /// The state, as soon as `holds` of it.
    pub(super) fn eventually(&self, holds: impl Fn(&State) -> bool) -> State {
        let path = self.runtime("state.json");
        let load = || State::load(&path).unwrap();
        until(
            || load().filter(|state| holds(state)),
            || {
                format!(
                    "{:#?}\n{}",
                    load(),
                    fs::read_to_string(self.runtime("supervisor.log")).unwrap_or_default()
                )
            },
        )
    }

    pub(super) fn kill(&self, life: &Life) {
        send(life.process.unwrap(), Signal::KILL);
    }

    pub(super) fn kill_supervisor(&self, state: &State) {
        send(state.supervisor, Signal::KILL);
        self.await_end(state.supervisor);
    }

    pub(super) fn terminate_supervisor(&self, state: &State) {
        send(state.supervisor, Signal::TERM);
        self.await_end(state.supervisor);
    }

    fn await_end(&self, process: Identity) {
        until(
            || (!process.is_alive()).then_some(()),
            || "it goes on".into(),
        );
    }

    pub(super) fn down(&self) {
        local::down(self.base(), &self.name).unwrap();
    }

    pub(super) fn is_anything_left(&self) -> bool {
        teardown::is_anything_left(&Folder::new(self.base(), &self.name), &self.name)
    }

    /// No process, namespace, link, cgroup or file of it.
    #[track_caller]
    pub(super) fn assert_gone(&self, state: &State) {
        assert!(!self.is_anything_left());
        let processes = state.processes().concat();
        assert!(processes.iter().all(|process| !process.is_alive()));
        assert!(state.instances.iter().all(|one| !one.netns.exists()));
        let groups = state.instances.iter().flat_map(|one| &one.cgroups);
        for group in groups {
            assert!(!group.parent().unwrap().exists(), "{}", group.display());
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let log = self.runtime("supervisor.log");
        if thread::panicking() {
            eprintln!("{}", fs::read_to_string(log).unwrap_or_default());
        }
        if self.is_anything_left() {
            let _ = local::down(self.base(), &self.name);
        }
    }
}

pub(super) fn workload(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: leno.dev/v1alpha1\nkind: Workload\n\
         metadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

fn send(process: Identity, signal: Signal) {
    assert!(process.is_alive());
    kill_process(Pid::from_raw(process.pid).unwrap(), signal).unwrap();
}

#[track_caller]
fn until<T>(find: impl Fn() -> Option<T>, why: impl Fn() -> String) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < deadline, "{}", why());
        thread::sleep(Duration::from_millis(5));
    }
}

/// The instances of a workload that are ready, without its name.
pub(super) fn ready(state: &State, workload: &str) -> Vec<u32> {
    let id = workload.parse().unwrap();
    let of_it = state.instances.iter().filter(|one| one.workload == id);
    let mut ordinals: Vec<_> = of_it
        .filter(|one| one.ready)
        .map(|one| one.ordinal)
        .collect();
    ordinals.sort_unstable();
    ordinals
}

pub(super) fn sorted(list: &Value) -> Vec<&str> {
    let mut words: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    words.sort_unstable();
    words
}
