//! A mesh of the real programs, with addresses that no other test has; what is done in it is done
//! by `tool.py`. Taken down when dropped.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use intercept::{Backend, Policy};
use local::folder::Folder;
use local::name::MeshName;
use local::process::Identity;
use local::state::{Running, State};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use testkit::Subnet;

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(30);
const PROGRAMS: [&str; 3] = ["leno", "leno-control", "leno-proxy"];
const PYTHON: &str = "/usr/bin/python3";
/// The port of a sidecar's pages.
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 15000);

pub(crate) struct World {
    name: MeshName,
    folder: TempDir,
    subnet: Subnet,
}

/// What came of each thing that the tool did.
pub(crate) type Outcomes = BTreeMap<String, String>;

impl World {
    /// None, said aloud, where something is missing; that is a failure where root was promised.
    pub(crate) fn make(name: &str) -> Option<Self> {
        let missing = missing();
        if !missing.is_empty() {
            let promised = std::env::var_os("LENO_REQUIRE_PRIVILEGED").is_some();
            assert!(
                !promised,
                "this test needs {missing}, and root was promised"
            );
            println!("SKIPPED: a mesh on one machine needs {missing}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // Users of the mesh may not enter the folder of whoever built it, and enter this one.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for program in PROGRAMS {
            let (built, ours) = (built(program), folder.path().join(program));
            fs::hard_link(&built, &ours)
                .or_else(|_| fs::copy(&built, &ours).map(drop))
                .unwrap();
        }
        fs::write(folder.path().join("tool.py"), include_str!("tool.py")).unwrap();
        Some(Self {
            name: format!("p{}-{name}", std::process::id()).parse().unwrap(),
            folder,
            subnet: Subnet::claim(),
        })
    }

    /// Brings up `resources`, in a mesh with addresses of both families.
    #[track_caller]
    pub(crate) fn up(&self, settings: &str, resources: &str) -> State {
        self.start(settings, resources, true)
    }

    #[track_caller]
    pub(crate) fn up_with_ipv4_alone(&self, settings: &str, resources: &str) -> State {
        self.start(settings, resources, false)
    }

    fn start(&self, settings: &str, resources: &str, with_ipv6: bool) -> State {
        let range = |name, [ipv4, ipv6]: [String; 2]| {
            let ipv6 = format!(", \"{ipv6}\"");
            format!("{name}: [{ipv4}{}]", if with_ipv6 { &ipv6 } else { "" })
        };
        let ranges = [
            range("workloadCIDRs", self.subnet.workloads()),
            range("serviceCIDRs", self.subnet.services()),
        ];
        let config = format!(
            "apiVersion: leno.dev/v1alpha1\nkind: MeshConfig\nmetadata: {{name: mesh}}\n\
             spec: {{{settings}, {}}}\n{resources}",
            ranges.join(", ")
        );
        fs::write(self.folder.path().join("mesh.yaml"), config).unwrap();
        self.up_again()
    }

    /// Brings up what the file says.
    #[track_caller]
    pub(crate) fn up_again(&self) -> State {
        let source = self.folder.path().join("mesh.yaml");
        let args = ["up", "--name", self.name.as_str()];
        let output = finish(self.leno().args(args).arg(source));
        assert!(output.0, "{}", output.1);
        State::load(&self.runtime("state.json")).unwrap().unwrap()
    }

    #[track_caller]
    pub(crate) fn down(&self) {
        let output = finish(self.leno().args(["down", self.name.as_str()]));
        assert!(output.0, "{}", output.1);
    }

    fn leno(&self) -> Command {
        let mut command = limited(&self.folder.path().join("leno"));
        command.env_clear().env("PATH", local::job::PATH);
        command
    }

    /// Has rules of that kind, and no others, in a workload's namespace.
    pub(crate) fn rule(&self, workload: &str, policy: &Policy, backend: Backend) {
        let state = self.state();
        let one = find(&state, workload);
        let namespace = Some(&*one.netns);
        let policy = Policy {
            bypass_uid: one.sidecar_user.unwrap(),
            ..policy.clone()
        };
        intercept::remove(namespace, Backend::Detect).unwrap();
        intercept::apply(namespace, &policy, backend).unwrap();
    }

    pub(crate) fn name(&self) -> &MeshName {
        &self.name
    }

    pub(crate) fn runtime(&self, path: &str) -> PathBuf {
        let folder = Folder::new(Path::new(local::folder::BASE), &self.name);
        folder.root().join(path)
    }

    pub(crate) fn state(&self) -> State {
        State::load(&self.runtime("state.json")).unwrap().unwrap()
    }

    /// The tool, in a workload, as its application's user.
    pub(crate) fn tool(&self, workload: &str, args: &[&str]) -> Outcomes {
        outcomes(&finish(&mut self.tool_in(workload, args)).1)
    }

    /// It goes on until it is dropped.
    pub(crate) fn tool_beside(&self, workload: &str, args: &[&str]) -> Beside {
        Beside::start(self.tool_in(workload, args))
    }

    fn tool_in(&self, workload: &str, args: &[&str]) -> Command {
        let mut command = self.leno();
        command.args(["exec", "--name", self.name.as_str(), workload, "--"]);
        let bypass = find(&self.state(), workload).sidecar_user;
        let bypass = bypass.map(|user| format!("--bypass={user}"));
        command.args([PYTHON, "tool.py"]).args(bypass).args(args);
        command
    }

    /// Any command in a workload, and what it wrote to its standard output.
    pub(crate) fn run(&self, workload: &str, command: &[&str]) -> String {
        let mut exec = self.leno();
        exec.args(["exec", "--name", self.name.as_str(), workload, "--"]);
        let output = exec.args(command).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The tool, as root, in this machine's own namespace.
    pub(crate) fn tool_outside(&self, args: &[&str]) -> Outcomes {
        outcomes(&finish(&mut self.tool_of_root(args)).1)
    }

    pub(crate) fn tool_outside_beside(&self, args: &[&str]) -> Beside {
        Beside::start(self.tool_of_root(args))
    }

    fn tool_of_root(&self, args: &[&str]) -> Command {
        let mut command = limited(Path::new(PYTHON));
        command.arg(self.folder.path().join("tool.py")).args(args);
        command
    }

    /// What `workload` is answered, as soon as that is `expected`.
    #[track_caller]
    pub(crate) fn eventually_gets(&self, workload: &str, url: &str, expected: &str) {
        let mut last = Outcomes::new();
        until(|| {
            last = self.tool(workload, &["get", url]);
            let is_there = last[url] == format!("done {expected}");
            (is_there.then_some(()), format!("{last:?}"))
        });
    }

    /// A page of a workload's sidecar, as root sees it.
    pub(crate) fn page(&self, workload: &str, path: &str) -> String {
        let ask = || ask(ADMIN, &format!("GET {path} HTTP/1.0\r\n\r\n"));
        let state = self.state();
        let answer = intercept::netns::inside(&find(&state, workload).netns, ask).unwrap();
        answer.unwrap().split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    pub(crate) fn certificates(&self, workload: &str) -> Value {
        serde_json::from_str(&self.page(workload, "/certs")).unwrap()
    }

    /// The sum of the series of a metric that have all of `labels`.
    pub(crate) fn metric(&self, workload: &str, name: &str, labels: &[&str]) -> u64 {
        let page = self.page(workload, "/metrics");
        let series = page.lines().filter(|line| line.starts_with(name));
        let series = series.filter(|line| labels.iter().all(|label| line.contains(label)));
        let values = series.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        values.sum()
    }

    /// Waits for that sum: what is counted may be seen after the answer that it is counted for.
    #[track_caller]
    pub(crate) fn metric_becomes(&self, workload: &str, series: (&str, &[&str]), sum: u64) {
        until(|| {
            let found = self.metric(workload, series.0, series.1);
            ((found == sum).then_some(()), format!("{series:?}: {found}"))
        });
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if thread::panicking() {
            for log in ["supervisor.log", "control.err"] {
                let text = fs::read_to_string(self.runtime(log)).unwrap_or_default();
                eprintln!("--- {log}\n{text}");
            }
        }
        if self.runtime("").exists() {
            let _ = finish(self.leno().args(["down", self.name.as_str()]));
        }
    }
}

/// A process that goes on beside the test, and tells line by line.
pub(crate) struct Beside {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Beside {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.ends_with("\tdone\n"), "{line:?}");
        Self { child, lines }
    }

    /// The next line; ends with the process, which ends by itself when nothing else ends it.
    pub(crate) fn next(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// All lines until the process ends.
    pub(crate) fn rest(mut self) -> Outcomes {
        let mut text = String::new();
        self.lines.read_to_string(&mut text).unwrap();
        outcomes(&text)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // `timeout` hands this on to what it runs.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Ends by itself, whatever becomes of the test.
fn limited(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", "60"]).arg(program);
    command.stdin(Stdio::null());
    command
}

/// Whether it went well, and what it said.
fn finish(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said += &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

#[track_caller]
fn outcomes(said: &str) -> Outcomes {
    let read = |line: &str| {
        line.split_once('\t')
            .map(|(name, came)| (name.into(), came.into()))
    };
    let read = |line| read(line).unwrap_or_else(|| panic!("{said}"));
    said.lines().map(read).collect()
}

fn missing() -> String {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root".to_owned());
    }
    if !Path::new(PYTHON).exists() {
        missing.push(PYTHON.to_owned());
    }
    let unbuilt = PROGRAMS.iter().filter(|program| !built(program).exists());
    missing.extend(unbuilt.map(|program| format!("{program} (build the workspace)")));
    missing.join(" and ")
}

fn built(program: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_leno-stand-in")).with_file_name(program)
}

/// A Workload as a resource, with the service account and the label `app` of its name; `spec` has
/// what else there is.
pub(crate) fn workload(name: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: leno.dev/v1alpha1\nkind: Workload\n\
         metadata: {{name: {name}, labels: {{app: {name}}}}}\n\
         spec: {{serviceAccount: {name}, {spec}}}\n"
    )
}

/// A Workload that serves: `8080:web` and the like.
pub(crate) fn server(name: &str, serves: &[&str], spec: &str) -> String {
    let mut command = format!("command: [{PYTHON}, tool.py, serve, {name}");
    serves
        .iter()
        .for_each(|serves| _ = write!(command, ", \"{serves}\""));
    workload(name, &format!("{command}]{spec}"))
}

/// A Workload that waits to be told.
pub(crate) fn idle(name: &str) -> String {
    workload(name, "command: [sleep, infinity]")
}

/// A Service in front of the workloads with that label.
pub(crate) fn service(name: &str, app: &str, ports: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\n\
         spec: {{selector: {{app: {app}}}, ports: [{ports}]}}\n"
    )
}

pub(crate) fn policy(callee: &str, caller: &str) -> String {
    format!(
        "---\napiVersion: leno.dev/v1alpha1\nkind: AccessPolicy\n\
         metadata: {{name: {caller}-calls-{callee}}}\n\
         spec: {{serviceAccount: {callee}, callers: [{{serviceAccount: {caller}}}]}}\n"
    )
}

#[track_caller]
pub(crate) fn find<'a>(state: &'a State, workload: &str) -> &'a Running {
    state.workload(&workload.parse().unwrap()).unwrap()
}

/// The first address of the family.
#[track_caller]
pub(crate) fn address(state: &State, workload: &str, is_ipv6: bool) -> IpAddr {
    let addresses = &find(state, workload).addresses;
    *addresses
        .iter()
        .find(|addr| addr.is_ipv6() == is_ipv6)
        .unwrap()
}

/// This machine's address in the mesh, of the family: all ranges begin with it.
pub(crate) fn gateway(state: &State, is_ipv6: bool) -> IpAddr {
    match address(state, &state.instances[0].id.to_string(), is_ipv6) {
        IpAddr::V4(addr) => Ipv4Addr::from_bits(addr.to_bits() & !0xff | 1).into(),
        IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits() & !0xffff | 1).into(),
    }
}

/// What is answered to `said`, or the error.
pub(crate) fn ask(target: SocketAddr, said: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&target, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(said.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

pub(crate) fn kill(process: Identity) {
    kill_process(Pid::from_raw(process.pid).unwrap(), Signal::KILL).unwrap();
}

/// What `find` finds, as soon as it does; else why it did not.
#[track_caller]
pub(crate) fn until<T>(mut find: impl FnMut() -> (Option<T>, String)) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (found, why) = find();
        if let Some(found) = found {
            return found;
        }
        assert!(Instant::now() < deadline, "{why}");
        thread::sleep(Duration::from_millis(10));
    }
}
