//! What the commands do: up, down, ps, exec, logs, restart, upgrade. Called by `leno`, which only
//! reads its arguments and prints what comes back.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use rustix::fs::Mode;
use rustix::process::umask;
use serde_json::Value;

use crate::client::{Desk, Gone, NotReady};
use crate::explicit::{MARK, is_rootless};
use crate::folder::{self, Folder};
use crate::job::{Job, sockets};
use crate::name::{MeshName, WorkloadId};
use crate::process::{self, Launcher};
use crate::program::{self, find};
use crate::state::{Running, State};
use crate::supervisor::desk::{Event, Request};
use crate::supervisor::{self, READY_WITHIN, Start};
use crate::template::Template;
use crate::variables::{Variables, fill};
use crate::{logs, mesh, teardown, terminal};

/// How long a supervisor may take to take its mesh down, beside what applications may take, before
/// it is done without it.
const DOWN_WITHIN: Duration = Duration::from_secs(40);

/// The programs of a mesh.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// The control plane; none: beside us, or in `PATH`.
    pub control: Option<PathBuf>,
    /// The sidecar; likewise.
    pub proxy: Option<PathBuf>,
    /// Envoy, where workloads have it; none: in `PATH`.
    pub envoy: Option<PathBuf>,
}

impl Start {
    /// Checks what can be checked before anything is made.
    ///
    /// # Errors
    /// When the file is wrong, or a program is missing.
    pub fn check(
        name: MeshName,
        base: PathBuf,
        file: &Path,
        programs: &Programs,
    ) -> anyhow::Result<Self> {
        // Where root's are kept, nobody else's are.
        let is_roots = is_rootless() && base == Path::new(folder::BASE);
        let base = if is_roots { folder::base() } else { base };
        let source = fs::canonicalize(file)
            .with_context(|| format!("read {}: give the mesh's file", file.display()))?;
        let envoy = program::envoy(programs.envoy.as_deref())?;
        program::check_envoy(&mesh::read(&source)?, envoy.as_deref())?;
        Ok(Self {
            name,
            base: std::path::absolute(base)?,
            source,
            launcher: launcher()?,
            control: find(programs.control.as_deref(), "leno-control")?,
            proxy: find(programs.proxy.as_deref(), "leno-proxy")?,
            envoy,
        })
    }
}

/// Brings a mesh up and leaves a supervisor behind that keeps it; one that is up gets the file.
/// Returns when everything is ready.
///
/// # Errors
/// As [`up_within`].
pub fn up(start: &Start) -> anyhow::Result<State> {
    up_within(start, READY_WITHIN, &mut |_| {})
}

/// Likewise, telling `show` how it goes, and waiting only so long.
///
/// # Errors
/// What keeps the mesh from coming up at all: then nothing is left of it. Or who is not ready, and
/// why: then the mesh stays up, to be looked at.
pub fn up_within(
    start: &Start,
    within: Duration,
    show: &mut dyn FnMut(&Event),
) -> anyhow::Result<State> {
    let folder = Folder::new(&start.base, &start.name);
    umask(Mode::from_raw_mode(0o022));
    folder.make()?;
    let apply = Request::Apply {
        source: start.source.clone(),
        envoy: start.envoy.clone(),
        within,
    };
    let asked = Desk::find(&folder)?.map(|desk| desk.ask(&apply, show));
    match asked {
        // One that was just killed may still be heard of.
        None => begin(start, &folder, within, show)?,
        Some(Err(error)) if error.is::<Gone>() => begin(start, &folder, within, show)?,
        Some(asked) => asked?,
    }
    let state = State::load(&folder.state())?;
    state.context("the mesh went down while it came up: see what else is at work on it")
}

/// Leaves a supervisor behind.
fn begin(
    start: &Start,
    folder: &Folder,
    within: Duration,
    show: &mut dyn FnMut(&Event),
) -> anyhow::Result<()> {
    let mut command = Command::new(&start.launcher.program);
    command
        .args(&start.launcher.args)
        .arg("supervise")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(logs::open(&folder.log())?);
    // It would hold what a script has open, a lock for example, as long as the mesh is up.
    sockets::withhold(&mut command)?;
    let mut child = command.spawn().context("start the supervisor")?;
    let mut stdin = child.stdin.take().context("standard input is a pipe")?;
    stdin.write_all(serde_json::to_string(start)?.as_bytes())?;
    drop(stdin);
    let stdout = child.stdout.take().context("standard output is a pipe")?;
    let mut lines = BufReader::new(stdout).lines();
    let mut next = || lines.next().and_then(Result::ok);
    let mut last = next();
    if last
        .as_deref()
        .is_some_and(|line| said(line, "listening").is_some())
    {
        let desk = Desk::find(folder)?;
        let asked = desk.map(|desk| desk.ask(&Request::Await { within }, show));
        match asked {
            Some(Err(error)) if error.is::<NotReady>() => return Err(error),
            Some(Ok(())) => return Ok(()),
            // It says why when it has cleaned up.
            _ => last = next(),
        }
    }
    child.wait()?;
    match last.as_deref().and_then(|line| said(line, "failed")) {
        Some(event) => bail!("{}", event["message"].as_str().unwrap_or_default()),
        None => bail!(
            "the supervisor ended: `leno down {}`, then try again: {}",
            start.name,
            logs::tail(&folder.log())
        ),
    }
}

fn said(line: &str, event: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(line).ok()?;
    (value["event"] == event).then_some(value)
}

/// Replaces all instances of a workload, or the one that is named, telling `show` how it goes.
///
/// # Errors
/// When it is another user's, nobody has that name, or who is not ready in the end.
pub fn restart(
    (base, name): (&Path, &MeshName),
    workload: &WorkloadId,
    within: Duration,
    show: &mut dyn FnMut(&Event),
) -> anyhow::Result<()> {
    need_owner("leno restart", (base, name))?;
    let request = Request::Restart {
        workload: workload.clone(),
        within,
    };
    desk(base, name)?.ask(&request, show)
}

/// Has newer programs take over, telling `show` how it goes. Without a path, the sidecars' program
/// is read anew from where it was.
///
/// # Errors
/// When it is another user's, or what could not take over.
pub fn upgrade(
    (base, name): (&Path, &MeshName),
    programs: &Programs,
    workloads: &[WorkloadId],
    show: &mut dyn FnMut(&Event),
) -> anyhow::Result<()> {
    need_owner("leno upgrade", (base, name))?;
    let found = |path: &Option<PathBuf>, name| {
        let path = path.as_deref();
        path.map(|path| find(Some(path), name)).transpose()
    };
    let request = Request::Upgrade {
        proxy: found(&programs.proxy, "leno-proxy")?,
        control: found(&programs.control, "leno-control")?,
        envoy: match &programs.envoy {
            Some(given) => program::envoy(Some(given))?,
            None => None,
        },
        workloads: workloads.to_vec(),
    };
    desk(base, name)?.ask(&request, show)
}

fn desk(base: &Path, name: &MeshName) -> anyhow::Result<Desk> {
    Desk::find(&Folder::new(base, name))?.with_context(|| {
        format!(
            "nobody keeps a mesh {name} here: see `leno ps`, or bring it up with `leno up FILE`"
        )
    })
}

/// Takes a mesh down, and whatever is left of one.
///
/// # Errors
/// When it is another user's, there is no such mesh, or something could not be removed.
pub fn down(base: &Path, name: &MeshName) -> anyhow::Result<()> {
    need_owner("leno down", (base, name))?;
    let folder = Folder::new(base, name);
    ensure!(
        teardown::is_anything_left(&folder, name),
        "there is no mesh {name} here: `leno ps` shows those that are up"
    );
    let state = State::load(&folder.state()).ok().flatten();
    if let Some(state) = state.filter(|state| state.supervisor.is_alive()) {
        process::terminate(&state.supervisor);
        let grace = state.instances.iter().map(|one| one.grace).max();
        let within = DOWN_WITHIN + grace.unwrap_or_default();
        if !process::wait_for(&state.supervisor, within) {
            let alive = || state.supervisor.is_alive().then_some(state.supervisor.pid);
            process::kill(|| alive().into_iter().collect());
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
    let load = |name: &MeshName| State::load(&Folder::new(base, name).state()).transpose();
    names(base)?.iter().filter_map(load).collect()
}

fn names(base: &Path) -> anyhow::Result<Vec<MeshName>> {
    let entries = match fs::read_dir(base) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("read {}", base.display())),
    };
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect::<Vec<MeshName>>();
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    Ok(names)
}

/// Every mesh of which the state can be read.
pub(crate) fn readable(base: &Path) -> Vec<State> {
    let names = names(base).unwrap_or_default();
    let load = |name: &MeshName| State::load(&Folder::new(base, name).state()).ok()?;
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

/// Becomes `command` as the workload's user inside its namespaces, or runs it there and ends as it
/// does. Returns only when that fails.
pub fn exec(
    base: &Path,
    name: &MeshName,
    workload: &WorkloadId,
    command: &[String],
) -> anyhow::Error {
    let run = || {
        let job = prepare(base, name, workload, command)?;
        if !terminal::is_there() {
            return Err(job.run_attached());
        }
        terminal::run(&launcher()?, job)
    };
    match run() {
        Ok(status) => std::process::exit(status),
        Err(error) => error,
    }
}

/// Ourselves.
fn launcher() -> anyhow::Result<Launcher> {
    Ok(Launcher {
        program: std::env::current_exe().context("find our own program")?,
        args: vec!["workload".into()],
    })
}

fn prepare(
    base: &Path,
    name: &MeshName,
    workload: &WorkloadId,
    command: &[String],
) -> anyhow::Result<Job> {
    need_owner("leno exec", (base, name))?;
    let folder = Folder::new(base, name);
    let state = state_of(base, name)?;
    let running = find_instance(&state, workload)?;
    let (program, args) = command
        .split_first()
        .ok_or_else(|| anyhow!("say what to run after --"))?;
    let template = Template::load(&folder.instance(&running.id).template())?;
    let mut job = Job {
        program: program.into(),
        args: args.to_vec(),
        ..running.job(&folder, &template)
    };
    let terminal = std::env::var("TERM").ok();
    job.environment
        .extend(terminal.map(|value| ("TERM".into(), value)));
    Ok(job)
}

pub(crate) fn state_of(base: &Path, name: &MeshName) -> anyhow::Result<State> {
    let state = State::load(&Folder::new(base, name).state())?;
    state.with_context(|| format!("there is no mesh {name}: see `leno ps`"))
}

pub(crate) fn find_instance<'a>(
    state: &'a State,
    name: &WorkloadId,
) -> anyhow::Result<&'a Running> {
    let missing = || {
        let is_known = state.workloads.iter().any(|one| one.id == *name);
        match is_known {
            true => format!(
                "{name} has no instance in {} now: see `leno ps`",
                state.name
            ),
            false => format!(
                "there is no workload {name} in {}: take one of {}",
                state.name,
                state.known()
            ),
        }
    };
    state.workload(name).with_context(missing)
}

/// The logs of workloads, each line with whose it is: of all instances of those that are named, or
/// of all there are; of their sidecars instead where that is asked for. Each with the file's path.
///
/// # Errors
/// When there is no such mesh, or nobody of a name.
pub fn log_files(
    (base, name): (&Path, &MeshName),
    workloads: &[WorkloadId],
    of_sidecars: bool,
) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let state = state_of(base, name)?;
    for wanted in workloads {
        find_instance(&state, wanted)?;
    }
    let folder = Folder::new(base, name);
    let is_meant = |one: &&Running| {
        let has_name = |id: &WorkloadId| workloads.contains(id);
        workloads.is_empty() || has_name(&one.workload) || has_name(&one.id)
    };
    let program = if of_sidecars {
        "sidecar"
    } else {
        "application"
    };
    let files = |one: &Running| {
        let (id, own) = (one.id.to_string(), folder.instance(&one.id));
        ["out", "err"].map(|stream| (id.clone(), own.output(program, stream)))
    };
    let meant = state.instances.iter().filter(is_meant);
    Ok(meant.flat_map(files).collect())
}

impl Running {
    /// What stands for something else in its command, and in what the file adds to its environment:
    /// where it lives, and where Services are.
    pub(crate) fn words(&self) -> Variables {
        let address = self.addresses.first().map(ToString::to_string);
        let address = address.map(|address| ("LENO_ADDRESS".to_owned(), address));
        address
            .into_iter()
            .chain(self.variables.iter().cloned())
            .collect()
    }

    /// The place of its application, without a program.
    pub(crate) fn job(&self, folder: &Folder, template: &Template) -> Job {
        let own = folder.instance(&self.id);
        let home = own.application_home().display().to_string();
        let known = self.words();
        let environment = [
            ("PATH", crate::job::PATH),
            ("HOME", &home),
            ("LENO_WORKLOAD", self.workload.name()),
            ("LENO_INSTANCE", self.id.name()),
            ("LENO_NAMESPACE", self.id.namespace()),
        ];
        let own_words = environment.map(|(name, value)| (name.into(), value.into()));
        let given = template.environment.iter();
        let given = given.map(|(name, value)| (name.clone(), fill(value, &known)));
        let given: Vec<_> = given.collect();
        let words = own_words.into_iter().chain(known).chain(given);
        let mark = self.explicit.as_ref().map(|_| {
            let folder = own.root().display().to_string();
            (MARK.to_owned(), folder)
        });
        Job {
            directory: self.directory.clone(),
            environment: words.chain(mark).collect(),
            user: self.user,
            netns: self.namespace().map(Path::to_path_buf),
            cgroups: self.cgroups.clone(),
            resolver: self.has_resolver.then(|| own.resolver()),
            ..Job::default()
        }
    }
}

/// A mesh is kept by whoever brought it up; root's works on network namespaces and on processes of
/// other users.
fn need_owner(command: &str, (base, name): (&Path, &MeshName)) -> anyhow::Result<()> {
    let folder = Folder::new(base, name);
    let owner = fs::metadata(folder.root()).map(|found| found.uid());
    let own = rustix::process::geteuid().as_raw();
    match owner {
        Ok(0) if own != 0 => bail!(
            "{command}: the mesh {name} was brought up by root: run it with sudo, or bring up one \
             of your own (docs/rootless.md)"
        ),
        Ok(owner) if owner != own => {
            bail!("{command}: the mesh {name} is kept by user {owner}: run it as that user")
        }
        // There may be none, which is said elsewhere.
        _ => Ok(()),
    }
}
