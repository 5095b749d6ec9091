//! What the commands do: up, down, ps, exec. Called by `leno`, which only reads its arguments and
//! prints what comes back.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use rustix::fs::Mode;
use rustix::process::umask;
use serde_json::Value;

use crate::folder::Folder;
use crate::job::Job;
use crate::name::{MeshName, WorkloadId};
use crate::process::{self, Launcher};
use crate::state::{Running, State};
use crate::supervisor::{self, Start};
use crate::{logs, mesh, teardown};

/// How long a supervisor may take to take its mesh down, before it is done without it.
const DOWN_WITHIN: Duration = Duration::from_secs(40);

/// The programs of a mesh.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// The control plane; none: beside us, or in `PATH`.
    pub control: Option<PathBuf>,
    /// The sidecar; likewise.
    pub proxy: Option<PathBuf>,
}

impl Start {
    /// Checks what can be checked before anything is made.
    ///
    /// # Errors
    /// Without root, when the file is wrong, or a program is missing.
    pub fn check(
        name: MeshName,
        base: PathBuf,
        file: &Path,
        programs: &Programs,
    ) -> anyhow::Result<Self> {
        need_root("leno up")?;
        let source = fs::canonicalize(file)
            .with_context(|| format!("read {}: give the mesh's file", file.display()))?;
        mesh::read(&source)?;
        Ok(Self {
            name,
            base: std::path::absolute(base)?,
            source,
            launcher: Launcher {
                program: std::env::current_exe().context("find our own program")?,
                args: vec!["workload".into()],
            },
            control: find(programs.control.as_deref(), "leno-control")?,
            proxy: find(programs.proxy.as_deref(), "leno-proxy")?,
        })
    }
}

/// Brings a mesh up and leaves a supervisor behind that keeps it. Returns when everything runs.
///
/// # Errors
/// The first thing that went wrong; nothing of the mesh is left then.
pub fn up(start: &Start) -> anyhow::Result<State> {
    let folder = Folder::new(&start.base, &start.name);
    umask(Mode::from_raw_mode(0o022));
    folder.make()?;
    let mut child = Command::new(&start.launcher.program)
        .args(&start.launcher.args)
        .arg("supervise")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(logs::open(&folder.log())?)
        .spawn()
        .context("start the supervisor")?;
    let mut stdin = child.stdin.take().context("standard input is a pipe")?;
    stdin.write_all(serde_json::to_string(start)?.as_bytes())?;
    drop(stdin);
    let stdout = child.stdout.take().context("standard output is a pipe")?;
    match read_event(stdout)? {
        Some(event) if event["event"] == "running" => {
            let state = State::load(&folder.state())?;
            state.context("the mesh went down while it came up: see what else is at work on it")
        }
        Some(event) => {
            // It has cleaned up when it ends.
            child.wait()?;
            bail!("{}", event["message"].as_str().unwrap_or_default())
        }
        None => {
            child.wait()?;
            let said = logs::tail(&folder.log());
            bail!(
                "the supervisor ended: `leno down {}`, then try again: {said}",
                start.name
            )
        }
    }
}

fn read_event(stdout: ChildStdout) -> anyhow::Result<Option<Value>> {
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    serde_json::from_str(&line)
        .context("the supervisor says something else")
        .map(Some)
}

/// Takes a mesh down, and whatever is left of one.
///
/// # Errors
/// Without root, when there is no such mesh, or something could not be removed.
pub fn down(base: &Path, name: &MeshName) -> anyhow::Result<()> {
    need_root("leno down")?;
    let folder = Folder::new(base, name);
    ensure!(
        teardown::is_anything_left(&folder, name),
        "there is no mesh {name} here: `leno ps` shows those that are up"
    );
    let state = State::load(&folder.state()).ok().flatten();
    if let Some(state) = state.filter(|state| state.supervisor.is_alive()) {
        process::terminate(&state.supervisor);
        if !process::wait_for(&state.supervisor, DOWN_WITHIN) {
            process::kill([state.supervisor.pid]);
        }
    }
    // One that came since would have its mesh taken from under it.
    let _kept_out = supervisor::keep_out(&folder, name)?;
    teardown::run(&folder, name)
}

/// Every mesh that is up, or was left.
///
/// # Errors
/// When a file of one cannot be read.
pub fn list(base: &Path) -> anyhow::Result<Vec<State>> {
    let entries = match fs::read_dir(base) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("read {}", base.display())),
    };
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect::<Vec<MeshName>>();
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    let load = |name: &MeshName| State::load(&Folder::new(base, name).state()).transpose();
    names.iter().filter_map(load).collect()
}

/// The mesh that is meant where none is named: the only one.
///
/// # Errors
/// When there is none, or more than one.
pub fn only(base: &Path) -> anyhow::Result<MeshName> {
    let states = list(base)?;
    let names: Vec<_> = states.iter().map(|state| state.name.as_str()).collect();
    match states.as_slice() {
        [state] => Ok(state.name.clone()),
        [] => bail!("no mesh is up here: `leno up FILE` brings one up"),
        _ => bail!("several meshes are up: name one of {}", names.join(", ")),
    }
}

/// Becomes `command` as the workload's user inside its namespaces. Returns only when that fails.
pub fn exec(
    base: &Path,
    name: &MeshName,
    workload: &WorkloadId,
    command: &[String],
) -> anyhow::Error {
    match prepare(base, name, workload, command) {
        Ok(job) => job.run_attached(),
        Err(error) => error,
    }
}

fn prepare(
    base: &Path,
    name: &MeshName,
    workload: &WorkloadId,
    command: &[String],
) -> anyhow::Result<Job> {
    need_root("leno exec")?;
    let folder = Folder::new(base, name);
    let state = State::load(&folder.state())?;
    let state = state.with_context(|| format!("there is no mesh {name}: see `leno ps`"))?;
    let running = state.workload(workload).with_context(|| {
        let known: Vec<_> = state
            .workloads
            .iter()
            .map(|one| one.id.to_string())
            .collect();
        format!(
            "there is no workload {workload} in {name}: take one of {}",
            known.join(", ")
        )
    })?;
    let (program, args) = command
        .split_first()
        .ok_or_else(|| anyhow!("say what to run after --"))?;
    let mut job = Job {
        program: program.into(),
        args: args.to_vec(),
        ..running.job(&folder)
    };
    let terminal = std::env::var("TERM").ok();
    job.environment
        .extend(terminal.map(|value| ("TERM".into(), value)));
    Ok(job)
}

impl Running {
    /// The place of its application, without a program.
    pub(crate) fn job(&self, folder: &Folder) -> Job {
        let own = folder.workload(&self.id);
        let home = own.application_home().display().to_string();
        let environment = [
            ("PATH", crate::job::PATH),
            ("HOME", &home),
            ("LENO_WORKLOAD", self.id.name()),
            ("LENO_NAMESPACE", self.id.namespace()),
        ];
        Job {
            directory: self.directory.clone(),
            environment: environment
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
            user: self.user,
            netns: Some(self.netns.clone()),
            cgroups: self.cgroups.clone(),
            resolver: Some(own.resolver()),
            ..Job::default()
        }
    }
}

fn need_root(command: &str) -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "{command} works on network namespaces and on processes of other users, which takes root: \
         run it with sudo. Without root, `leno-proxy` can be started by hand with ports of its \
         own, and applications be told to use those (docs/local.md)"
    );
    Ok(())
}

/// The first of `given`, a file beside our own, one in `PATH`.
fn find(given: Option<&Path>, name: &str) -> anyhow::Result<PathBuf> {
    if let Some(path) = given {
        return fs::canonicalize(path).with_context(|| format!("find {}", path.display()));
    }
    let ours = std::env::current_exe().context("find our own program")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).map(|folder| folder.join(name));
    let mut candidates = [ours.with_file_name(name)].into_iter().chain(folders);
    candidates
        .find(|candidate| candidate.is_file())
        .with_context(|| {
            format!(
                "there is no {name} beside {} and none in $PATH: build it, or give its path",
                ours.display()
            )
        })
}
