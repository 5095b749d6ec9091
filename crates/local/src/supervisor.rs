//! Brings a mesh up and keeps it: the page that tells what happens, in the order in which it does.
//! Run by `leno up --foreground`, or by a process of its own that `leno up` leaves behind.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use intercept::Policy;
use rustix::fs::{FlockOperation, Mode, flock};
use rustix::process::umask;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cgroup::Cgroups;
use crate::folder::Folder;
use crate::job::{Job, PATH};
use crate::kept::Kept;
use crate::logs::{self, say};
use crate::name::{MeshName, WorkloadId};
use crate::plan::{self, Plan, Taken};
use crate::process::{Identity, Launcher, Outputs};
use crate::signals::Signals;
use crate::state::{Life, Phase, Running, State};
use crate::{command, foreign, mesh, network, operator, ready, teardown, users, written};

/// How often the user's file is looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// What stands for our own program in a command.
const OURS: &str = "${LENO}";

/// What a supervisor has to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    /// What the mesh is called.
    pub name: MeshName,
    /// The folder that has the runtime folders of all meshes.
    pub base: PathBuf,
    /// The user's file, absolute.
    pub source: PathBuf,
    /// Becomes jobs.
    pub launcher: Launcher,
    /// The control plane's program.
    pub control: PathBuf,
    /// The sidecar's program.
    pub proxy: PathBuf,
}

/// Brings the mesh up, calls `running`, keeps it until asked to end, and takes it down; also when
/// it did not come up.
///
/// # Errors
/// When the mesh is up already, does not come up, or leaves something behind.
pub fn run(start: &Start, running: impl FnOnce(&State)) -> anyhow::Result<()> {
    let signals = Signals::listen()?;
    // Whoever typed the command may hide new files from others; ours are read by many users.
    umask(Mode::from_raw_mode(0o022));
    let folder = Folder::new(&start.base, &start.name);
    let _lock = lock(&folder, &start.name)?;
    ensure!(
        !folder.state().exists() && !network::is_there(&start.name),
        "the mesh {} was left by an earlier run: `leno down {}` first",
        start.name,
        start.name
    );
    let kept = Supervisor::make(start, &folder).and_then(|mut supervisor| {
        supervisor.bring_up(&signals)?;
        running(&supervisor.state);
        supervisor.keep(&signals)
    });
    let removed = teardown::run(&folder, &start.name);
    kept.and(removed)
}

/// The supervisor that `leno up` leaves behind: reads its [`Start`] from standard input, and tells
/// through standard output, in one line of JSON, how it went.
///
/// # Errors
/// As [`run`].
pub fn run_detached() -> anyhow::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let start = serde_json::from_str(&text).context("a supervisor is started by `leno up`")?;
    rustix::process::setsid().context("begin a session")?;
    rustix::process::chdir("/")?;
    let result = run(&start, |_| tell(&json!({"event": "running"})));
    if let Err(error) = &result {
        tell(&json!({"event": "failed", "message": format!("{error:#}")}));
    }
    result
}

/// Tells `leno up`. Whoever does not listen any more has given up, and the log has it.
fn tell(event: &Value) {
    let _ = writeln!(io::stdout(), "{event}");
}

/// One supervisor for a mesh, as long as the file is open.
fn lock(folder: &Folder, name: &MeshName) -> anyhow::Result<File> {
    folder.make()?;
    let file =
        File::create(folder.lock()).with_context(|| format!("make {}", folder.lock().display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("the mesh {name} is up already: see `leno ps`, or `leno down {name}` first");
    }
    Ok(file)
}

/// Keeps supervisors out, as long as the file is open; none where there never was one.
pub(crate) fn keep_out(folder: &Folder, name: &MeshName) -> anyhow::Result<Option<File>> {
    let file = match File::open(folder.lock()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.with_context(|| format!("open {}", folder.lock().display()))?,
    };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!("the mesh {name} is just coming up: try again when it is");
    }
    Ok(Some(file))
}

/// What the user's file looked like when it was copied.
type Seen = (i64, i64, u64);

struct Supervisor<'a> {
    start: &'a Start,
    folder: &'a Folder,
    plan: Plan,
    cgroups: Cgroups,
    state: State,
    control: Kept,
    /// In the order of the plan's workloads.
    sidecars: Vec<Kept>,
    applications: Vec<Kept>,
    seen: Option<Seen>,
}

impl<'a> Supervisor<'a> {
    /// Decides everything, makes folders and network; nothing runs yet.
    fn make(start: &'a Start, folder: &'a Folder) -> anyhow::Result<Self> {
        // Two meshes that come up at the same time must not decide for the same.
        let deciding = File::open(&start.base)?;
        flock(&deciding, FlockOperation::LockExclusive)
            .with_context(|| format!("lock {}", start.base.display()))?;
        let taken = find_taken(&start.base)?;
        let plan = plan::make(start.name.clone(), mesh::read(&start.source)?, &taken)?;
        let cgroups = Cgroups::of(&start.name);
        let state = begin_state(start, &plan, &cgroups)?;
        state.save(&folder.state())?;
        // It outlives whoever typed the command, and so must not be in their group.
        let own = cgroups.make("supervisor");
        own.iter()
            .for_each(|group| drop(fs::write(group.join("cgroup.procs"), "0")));
        let mut supervisor = Self {
            start,
            folder,
            sidecars: plan.workloads.iter().map(|_| Kept::default()).collect(),
            applications: plan.workloads.iter().map(|_| Kept::default()).collect(),
            plan,
            cgroups,
            state,
            control: Kept::default(),
            seen: None,
        };
        supervisor.make_folders()?;
        network::build(&supervisor.plan, &supervisor.plan.policy())?;
        Ok(supervisor)
    }

    fn make_folders(&mut self) -> anyhow::Result<()> {
        let folder = self.folder;
        for shared in [folder.source(), folder.status()] {
            make_shared(&shared, self.plan.control_user)?;
        }
        make_home(&folder.control(), self.plan.control_user)?;
        for placed in &self.plan.workloads {
            let own = folder.workload(placed.id());
            fs::create_dir_all(own.root())?;
            make_home(&own.sidecar_home(), Policy::default().bypass_uid)?;
            make_home(&own.application_home(), placed.user)?;
            let status = folder.status().join(format!("{}.yaml", placed.id()));
            written::replace(&status, &written::status(placed.id(), &placed.addresses))?;
            let bootstrap = written::bootstrap(&self.plan, placed, &own);
            written::replace(&own.bootstrap(), &bootstrap)?;
            written::replace(&own.resolver(), &written::resolver(&self.plan, placed.id()))?;
        }
        self.copy_source()
    }

    fn bring_up(&mut self, signals: &Signals) -> anyhow::Result<()> {
        self.start_control(signals)?;
        let mut skipped = Vec::new();
        for index in 0..self.plan.workloads.len() {
            skipped.push(self.start_sidecar(index)?);
        }
        for (index, skipped) in skipped.into_iter().enumerate() {
            self.await_sidecar(index, skipped, signals)?;
        }
        for index in 0..self.plan.workloads.len() {
            self.start_application(index)?;
        }
        self.state.phase = Phase::Running;
        self.save()
    }

    /// Until asked to end.
    fn keep(&mut self, signals: &Signals) -> anyhow::Result<()> {
        let mut is_saved = true;
        while !signals.is_asked_to_end() {
            let now = Instant::now();
            is_saved &= !(self.look(now) | self.restart(now, signals));
            // What runs does so whether that can be written down now or not.
            let saved = (!is_saved).then(|| self.save()).transpose();
            is_saved = saved.is_ok();
            for error in [saved.err(), self.copy_source().err()]
                .into_iter()
                .flatten()
            {
                say(&format!("{error:#}"));
            }
            self.trim_logs();
            signals.wait(self.next_wait(Instant::now()));
        }
        Ok(())
    }

    /// Whether anything ended.
    fn look(&mut self, now: Instant) -> bool {
        let mut ends = Vec::new();
        if let Some(end) = self.control.look(&mut self.state.control, now) {
            ends.push(("leno-control".to_owned(), end));
        }
        for (index, running) in self.state.workloads.iter_mut().enumerate() {
            if let Some(end) = self.sidecars[index].look(&mut running.sidecar, now) {
                ends.push((format!("the sidecar of {}", running.id), end));
            }
            let Some(life) = &mut running.application else {
                continue;
            };
            if let Some(end) = self.applications[index].look(life, now) {
                ends.push((running.id.to_string(), end));
            }
        }
        for (who, end) in &ends {
            say(&format!("{who} ended: {end}"));
        }
        !ends.is_empty()
    }

    /// Starts again what is due; whether anything was.
    fn restart(&mut self, now: Instant, signals: &Signals) -> bool {
        let is_due = |kept: &Kept| kept.due().is_some_and(|due| due <= now);
        let mut changed = false;
        if is_due(&self.control) {
            changed = true;
            self.state.control.restarts += 1;
            if let Err(error) = self.start_control(signals) {
                say(&format!("{error:#}"));
                // It may run, and would be in the way of the next.
                self.control
                    .give_up(&mut self.state.control, Instant::now());
            }
        }
        for index in 0..self.sidecars.len() {
            if !is_due(&self.sidecars[index]) {
                continue;
            }
            changed = true;
            self.state.workloads[index].sidecar.restarts += 1;
            if let Err(error) = self.start_sidecar(index) {
                say(&format!("{error:#}"));
                self.sidecars[index].put_off(Instant::now());
            }
        }
        changed
    }

    fn next_wait(&self, now: Instant) -> Duration {
        let dues = self
            .sidecars
            .iter()
            .chain([&self.control])
            .filter_map(Kept::due);
        let waits = dues.map(|due| due.saturating_duration_since(now));
        waits.min().unwrap_or(LOOK_PERIOD).min(LOOK_PERIOD)
    }

    fn start_control(&mut self, signals: &Signals) -> anyhow::Result<()> {
        let folder = self.folder;
        let path = |path: PathBuf| path.display().to_string();
        let mut args = [
            ["--source".into(), path(folder.source())],
            ["--source".into(), path(folder.status())],
            ["--state".into(), path(folder.control())],
            ["--admin".into(), "127.0.0.1:0".into()],
        ]
        .concat();
        for address in written::control_addresses(&self.plan) {
            args.extend(["--listen".into(), address.to_string()]);
        }
        let job = Job {
            program: self.start.control.clone(),
            args,
            directory: "/".into(),
            environment: vec![("PATH".into(), PATH.into())],
            user: self.plan.control_user,
            cgroups: self.cgroups.make("control"),
            ..Job::default()
        };
        let outputs = Outputs {
            stdout: folder.output("control", "out"),
            stderr: folder.output("control", "err"),
        };
        let skipped = logs::length(&outputs.stdout);
        let child = self
            .start
            .launcher
            .start(&job, &outputs)
            .context("start leno-control")?;
        self.control
            .begin(child, &mut self.state.control, Instant::now());
        let child = self.control.child().context("it was just started")?;
        let said = ready::wait(child, "leno-control", (&outputs, skipped), signals)?;
        self.state.admin = said["admin"].as_str().map(str::to_owned);
        Ok(())
    }

    /// Gives how much its log held before.
    fn start_sidecar(&mut self, index: usize) -> anyhow::Result<u64> {
        let id = self.plan.workloads[index].id().clone();
        let context = || format!("start the sidecar of {id}");
        let own = self.folder.workload(&id);
        // Anew each time: after a rotation it is another.
        let (bundle, user) = (self.folder.trust_bundle(), self.plan.control_user);
        let trusted = foreign::read_of(&bundle, user).with_context(context)?;
        written::replace(&own.trust_bundle(), &trusted)?;
        let token = self.token(&id).with_context(context)?;
        let job = Job {
            program: self.start.proxy.clone(),
            args: vec!["--config".into(), own.bootstrap().display().to_string()],
            directory: own.root().to_path_buf(),
            environment: vec![("PATH".into(), PATH.into())],
            user: Policy::default().bypass_uid,
            netns: Some(self.state.workloads[index].netns.clone()),
            cgroups: self.cgroups.make(&format!("{id}.sidecar")),
            resolver: None,
            input: Some(token + "\n"),
        };
        let outputs = self.outputs(index, "sidecar");
        let skipped = logs::length(&outputs.stdout);
        let child = self
            .start
            .launcher
            .start(&job, &outputs)
            .with_context(context)?;
        let life = &mut self.state.workloads[index].sidecar;
        self.sidecars[index].begin(child, life, Instant::now());
        Ok(skipped)
    }

    /// What a sidecar proves itself by. One that has been there before proves itself by its
    /// certificate, and is needed most while nobody gives tokens.
    fn token(&self, id: &WorkloadId) -> anyhow::Result<String> {
        let token = operator::token(&self.folder.operator(), id);
        if let Err(error) = &token
            && self.folder.workload(id).certificate().exists()
        {
            say(&format!(
                "the sidecar of {id} starts with the certificate that it has: {error:#}"
            ));
            return Ok(String::new());
        }
        token
    }

    fn await_sidecar(
        &mut self,
        index: usize,
        skipped: u64,
        signals: &Signals,
    ) -> anyhow::Result<()> {
        let outputs = self.outputs(index, "sidecar");
        let label = format!("the sidecar of {}", self.plan.workloads[index].id());
        let child = self.sidecars[index].child().context("it was started")?;
        ready::wait(child, &label, (&outputs, skipped), signals).map(drop)
    }

    fn start_application(&mut self, index: usize) -> anyhow::Result<()> {
        let running = &self.state.workloads[index];
        let ours = self.start.launcher.program.display().to_string();
        let command = &self.plan.workloads[index].workload.command;
        let mut words = command.iter().map(|word| word.replace(OURS, &ours));
        let Some(program) = words.next() else {
            return Ok(());
        };
        let job = Job {
            program: program.into(),
            args: words.collect(),
            ..running.job(self.folder)
        };
        let outputs = self.outputs(index, "application");
        let child = self.start.launcher.start(&job, &outputs);
        let child = child.with_context(|| format!("start the application of {}", running.id))?;
        let life = self.state.workloads[index]
            .application
            .get_or_insert_default();
        self.applications[index].begin(child, life, Instant::now());
        Ok(())
    }

    fn outputs(&self, index: usize, program: &str) -> Outputs {
        let own = self.folder.workload(self.plan.workloads[index].id());
        Outputs {
            stdout: own.output(program, "out"),
            stderr: own.output(program, "err"),
        }
    }

    /// A program that says much must not take all memory with it.
    fn trim_logs(&self) {
        let folder = self.folder;
        let own = ["out", "err"].map(|stream| folder.output("control", stream));
        let of_workloads = self.plan.workloads.iter().flat_map(|placed| {
            let own = folder.workload(placed.id());
            let programs = ["sidecar", "application"].into_iter();
            programs
                .flat_map(move |program| ["out", "err"].map(|stream| own.output(program, stream)))
        });
        for log in own.into_iter().chain([folder.log()]).chain(of_workloads) {
            if logs::trim(&log) {
                say(&format!("{} was too long and was emptied", log.display()));
            }
        }
    }

    /// Copies the user's file where the control plane can read it, when it has changed.
    fn copy_source(&mut self) -> anyhow::Result<()> {
        let source = &self.start.source;
        let context = || format!("read {}", source.display());
        let metadata = fs::metadata(source).with_context(context)?;
        let seen = (metadata.mtime(), metadata.mtime_nsec(), metadata.ino());
        if self.seen != Some(seen) {
            let text = foreign::read(source)?;
            written::replace(&self.folder.source().join("mesh.yaml"), &text)?;
            self.seen = Some(seen);
        }
        Ok(())
    }

    fn save(&self) -> anyhow::Result<()> {
        self.state.save(&self.folder.state())
    }
}

/// What this machine has, and what other meshes have chosen that may not show yet.
fn find_taken(base: &Path) -> anyhow::Result<Taken> {
    let (mut users, names) = users::taken();
    for other in command::list(base)? {
        users.insert(other.control_user);
        users.extend(other.workloads.iter().map(|workload| workload.user));
    }
    Ok(Taken {
        routes: network::routes()?,
        users,
        names,
    })
}

fn begin_state(start: &Start, plan: &Plan, cgroups: &Cgroups) -> anyhow::Result<State> {
    let directory = start.source.parent().unwrap_or_else(|| Path::new("/"));
    let workloads = plan.workloads.iter().map(|placed| Running {
        id: placed.id().clone(),
        service_account: placed.workload.service_account.clone(),
        user: placed.user,
        addresses: placed.addresses.clone(),
        netns: network::path(plan, placed),
        cgroups: cgroups.make(&format!("{}.application", placed.id())),
        directory: directory.to_path_buf(),
        sidecar: Life::default(),
        application: None,
    });
    Ok(State {
        name: start.name.clone(),
        source: start.source.clone(),
        supervisor: Identity::own()?,
        phase: Phase::Starting,
        admin: None,
        control: Life::default(),
        control_user: plan.control_user,
        workloads: workloads.collect(),
    })
}

/// A folder of root's in which one user may read, and nobody else: what workloads there are and how
/// they are started is not everybody's affair.
fn make_shared(path: &Path, user: u32) -> anyhow::Result<()> {
    let make = || {
        fs::create_dir_all(path)?;
        chown(path, None, Some(user))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o750))
    };
    make().with_context(|| format!("make {}", path.display()))
}

/// A folder that is one user's alone.
fn make_home(path: &Path, user: u32) -> anyhow::Result<()> {
    let make = || {
        fs::create_dir_all(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        chown(path, Some(user), Some(user))
    };
    make().with_context(|| format!("make {}", path.display()))
}
