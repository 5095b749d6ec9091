//! Brings a mesh up and keeps it: the page that tells what happens, in the order in which it does.
//! Run by `leno up --foreground`, or by a process of its own that `leno up` leaves behind. Nothing
//! in it stands still: what takes time is done by tasks, or on threads of their own.

/// What is wanted, what is there.
mod shared;

/// The programs that a mesh has once.
mod service;

/// The life of one instance.
mod instance;

/// From what is wanted to what is there.
mod rollout;

/// What a supervisor before us has left.
mod adoption;

/// What the user's file says.
mod file;

/// What a new file changes.
mod changes;

/// Who is still to come.
mod progress;

/// Newer programs.
mod upgrade;

/// Where it is asked.
pub(crate) mod desk;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::fs::Mode;
use rustix::process::{geteuid, umask};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval};

use crate::explicit::{Claim, give, is_rootless};
use crate::folder::Folder;
use crate::logs::{self, say};
use crate::mesh::{self, Mesh};
use crate::name::{MeshName, WorkloadId};
use crate::plan::{self, Ground};
use crate::process::{Identity, Launcher};
use crate::state::{Life, Phase, State};
use crate::{lock, network, program, teardown};
use desk::{Event, Request, Teller};
use file::Seen;
use instance::make_home;
use progress::follow;
use service::{Service, Which};
use shared::Shared;

pub(crate) use progress::word;

/// How often the user's file and the logs are looked at.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// How long everything may take to be ready, unless somebody says otherwise.
pub const READY_WITHIN: Duration = Duration::from_secs(60);
/// What is being done on other threads may take this long to come to its end.
const THREADS_WITHIN: Duration = Duration::from_secs(15);

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
    /// Envoy's, which workloads may have that are on it; none: they may not.
    #[serde(default)]
    pub envoy: Option<PathBuf>,
}

/// Brings the mesh up, calls `running` when everything is ready or long overdue, keeps it until
/// asked to end, and takes it down; also when it cannot come up. Of a mesh whose supervisor was
/// killed, it keeps what is there.
///
/// # Errors
/// When the mesh is up already, cannot come up, or leaves something behind.
pub fn run(start: &Start, running: impl FnOnce(&State)) -> anyhow::Result<()> {
    keep(start, Role::Attached, running)
}

/// The supervisor that `leno up` leaves behind: reads its [`Start`] from standard input, and tells
/// through standard output, in lines of JSON, that it listens, and why it ended.
///
/// # Errors
/// As [`run`].
pub fn run_detached() -> anyhow::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let start: Start =
        serde_json::from_str(&text).context("a supervisor is started by `leno up`")?;
    rustix::process::setsid().context("begin a session")?;
    rustix::process::chdir("/")?;
    let result = keep(&start, Role::Detached, |_| {});
    if let Err(error) = &result {
        tell(&json!({"event": "failed", "message": format!("{error:#}")}));
    }
    result
}

/// Tells `leno up`. Whoever does not listen any more has given up, and the log has it.
fn tell(event: &Value) {
    let _ = writeln!(io::stdout(), "{event}");
}

/// Whose process the supervisor is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Of whoever typed the command, or of an init system.
    Attached,
    /// Its own: `leno up` left it behind, and is told what becomes of it.
    Detached,
}

fn keep(start: &Start, role: Role, running: impl FnOnce(&State)) -> anyhow::Result<()> {
    // Whoever typed the command may hide new files from others; ours are read by many users.
    umask(Mode::from_raw_mode(0o022));
    let folder = Folder::new(&start.base, &start.name);
    let _lock = lock(&folder, &start.name)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let tasks = LocalSet::new();
    let kept = tasks.block_on(&runtime, async {
        let shared = begin(start, &folder).await?;
        if role == Role::Detached {
            leave_group(&shared);
        }
        let supervisor = Supervisor::new(&shared)?;
        supervisor.keep(start, role, running).await
    });
    // With all tasks; what they have begun on other threads is done first.
    drop(tasks);
    runtime.shutdown_timeout(THREADS_WITHIN);
    let removed = teardown::run(&folder, &start.name);
    if let (Err(_), Err(error)) = (&kept, &removed) {
        say(&format!("{error:#}"));
    }
    kept.and(removed)
}

/// One supervisor for a mesh, as long as the file is open.
fn lock(folder: &Folder, name: &MeshName) -> anyhow::Result<File> {
    let refusal =
        format!("the mesh {name} is up already: see `leno ps`, or `leno down {name}` first");
    lock::hold(folder, &refusal)
}

/// Keeps supervisors out, as long as the file is open.
pub(crate) fn keep_out(folder: &Folder, name: &MeshName) -> anyhow::Result<File> {
    let refusal = format!("the mesh {name} is just coming up: try again when it is");
    lock::hold(folder, &refusal)
}

/// What there is of the mesh, or the beginning of one: folders and a bridge.
async fn begin(start: &Start, folder: &Folder) -> anyhow::Result<Rc<Shared>> {
    if folder.state().exists() || (!is_rootless() && network::is_there(&start.name)) {
        match adoption::adopt(start, folder).await {
            Ok(shared) => return Ok(shared),
            Err(error) => say(&format!("what was left is of no use: {error:#}")),
        }
        teardown::clear(folder, &start.name)?;
    }
    make(start, folder)
}

/// Decides everything that is decided once, makes folders and bridge; nothing runs yet.
fn make(start: &Start, folder: &Folder) -> anyhow::Result<Rc<Shared>> {
    let mesh = mesh::read(&start.source)?;
    program::check_envoy(&mesh, start.envoy.as_deref())?;
    // Two meshes that come up at the same time must not decide for the same.
    let (taken, _deciding) = rollout::decide(&start.base, None)?;
    let (ground, claim) = find_ground(start, &mesh, &taken)?;
    plan::check(&ground, &mesh, &taken)?;
    let users = match ground.is_explicit {
        true => [geteuid().as_raw(); 2],
        false => {
            let control = plan::free_user(&plan::OURS, &taken.users)?;
            let mut used = taken.users;
            used.insert(control);
            [control, plan::free_user(&plan::OURS, &used)?]
        }
    };
    let state = State {
        name: start.name.clone(),
        source: start.source.clone(),
        trust_domain: ground.trust_domain.clone(),
        workload_cidrs: ground.ranges.iter().map(ToString::to_string).collect(),
        supervisor: Identity::own()?,
        phase: Phase::Starting,
        fault: None,
        admin: None,
        control: Life::default(),
        control_user: users[0],
        resolver: Life::default(),
        resolver_user: users[1],
        workloads: Vec::new(),
        instances: Vec::new(),
    };
    state.save(&folder.state())?;
    let shared = Rc::new(Shared::new(start, folder, (ground, claim), state));
    for path in [folder.source(), folder.status()] {
        make_shared(&path, users[0])?;
    }
    make_home(&folder.control(), users[0])?;
    if !shared.ground.is_explicit {
        network::build(&shared.ground)?;
    }
    Ok(shared)
}

/// Where instances live: in ranges that the file gives, or in a block that is held from now on.
fn find_ground(
    start: &Start,
    mesh: &Mesh,
    taken: &plan::Taken,
) -> anyhow::Result<(Ground, Option<Claim>)> {
    let name = start.name.clone();
    if is_rootless() {
        let claim = Claim::find()?;
        return Ok((Ground::explicit(name, mesh, claim.range), Some(claim)));
    }
    let ground = Ground::of(name, mesh)?;
    ground.check_free(taken)?;
    Ok((ground, None))
}

/// One that is left behind outlives whoever typed the command, and so must not be in their group.
fn leave_group(shared: &Shared) {
    let own = shared.cgroups.make("supervisor");
    own.iter()
        .for_each(|group| drop(fs::write(group.join("cgroup.procs"), "0")));
}

struct Supervisor {
    shared: Rc<Shared>,
    control: Rc<Service>,
    resolver: Rc<Service>,
    seen: RefCell<Option<Seen>>,
    /// Why the last step could not be done.
    trouble: RefCell<Option<String>>,
    /// Documents of workloads that are on their way out.
    leaving: RefCell<BTreeMap<WorkloadId, String>>,
    signals: RefCell<[Signal; 3]>,
}

impl Supervisor {
    fn new(shared: &Rc<Shared>) -> anyhow::Result<Self> {
        let kinds = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
        ];
        let [terminate, interrupt, hang_up] = kinds.map(signal);
        Ok(Self {
            shared: Rc::clone(shared),
            control: Service::new(Which::Control, shared),
            resolver: Service::new(Which::Resolver, shared),
            seen: RefCell::default(),
            trouble: RefCell::default(),
            leaving: RefCell::default(),
            signals: RefCell::new([terminate?, interrupt?, hang_up?]),
        })
    }

    /// Until asked to end.
    async fn keep(
        &self,
        start: &Start,
        role: Role,
        running: impl FnOnce(&State),
    ) -> anyhow::Result<()> {
        let requests = desk::open(&self.shared.folder.desk())?;
        self.look_at_file(&start.source).await;
        spawn_local(Rc::clone(&self.control).run());
        if !self.shared.ground.is_explicit {
            spawn_local(Rc::clone(&self.resolver).run());
        }
        let made = self.shared.instances().into_iter();
        made.for_each(|one| drop(spawn_local(one.live(true))));
        if role == Role::Detached {
            tell(&json!({"event": "listening"}));
        }
        let shared = Rc::clone(&self.shared);
        let first = async move {
            follow(&shared, None, READY_WITHIN, || rollout::missing(&shared)).await;
            shared.look(running);
            std::future::pending().await
        };
        tokio::select! {
            () = first => Ok(()),
            kept = self.attend(requests) => kept,
        }
    }

    /// Does what there is to do, as it comes.
    async fn attend(
        &self,
        mut requests: UnboundedReceiver<(Request, Teller)>,
    ) -> anyhow::Result<()> {
        let mut look = interval(LOOK_PERIOD);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut changes = self.shared.changes();
        loop {
            changes.mark_unchanged();
            self.advance().await;
            self.shared.save();
            if let Some(message) = self.shared.fatal() {
                bail!(message);
            }
            tokio::select! {
                () = self.asked_to_end() => return Ok(()),
                _ = changes.changed() => {}
                _ = look.tick() => self.look_after().await,
                Some((request, teller)) = requests.recv() => self.answer(request, teller).await,
            }
        }
    }

    /// One step towards what is wanted. What cannot be done is tried again after every change.
    async fn advance(&self) {
        let before = self.trouble.take();
        match rollout::advance(&self.shared).await {
            Ok(()) if before.is_some() => self.shared.change(|state| {
                // Only what is over is taken back.
                state
                    .fault
                    .take_if(|fault| Some(&*fault) == before.as_ref());
            }),
            Ok(()) => {}
            Err(error) => {
                *self.trouble.borrow_mut() = Some(format!("{error:#}"));
                self.blame(&error);
            }
        }
    }

    async fn asked_to_end(&self) {
        std::future::poll_fn(|context| {
            let mut signals = self.signals.borrow_mut();
            let came = signals
                .iter_mut()
                .any(|one| one.poll_recv(context).is_ready());
            match came {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
    }

    /// Says what is wrong, once, and where `leno ps` finds it.
    fn blame(&self, error: &anyhow::Error) {
        let fault = format!("{error:#}");
        if self
            .shared
            .look(|state| state.fault.as_ref() != Some(&fault))
        {
            self.shared.fail(error);
            self.shared.change(|state| state.fault = Some(fault));
        }
    }

    async fn look_after(&self) {
        let source = self.shared.look(|state| state.source.clone());
        self.look_at_file(&source).await;
        self.let_go();
        self.shared.publish();
        self.trim_logs();
    }

    async fn answer(&self, request: Request, teller: Teller) {
        match request {
            Request::Await { within } => self.tell_of(within, teller),
            Request::Apply {
                source,
                envoy,
                within,
            } => match self.apply_with(&source, envoy).await {
                Ok(lines) => {
                    let nothing = ["nothing to change".to_owned()];
                    let lines = if lines.is_empty() { &nothing } else { &*lines };
                    lines.iter().for_each(|line| tell_text(&teller, line));
                    self.tell_of(within, teller);
                }
                Err(error) => tell_failure(&teller, &error),
            },
            Request::Restart { workload, within } => match self.restart(&workload) {
                Ok(text) => {
                    tell_text(&teller, &text);
                    self.tell_of(within, teller);
                }
                Err(error) => tell_failure(&teller, &error),
            },
            Request::Upgrade {
                proxy,
                control,
                envoy,
                workloads,
            } => {
                let all = upgrade::All {
                    shared: Rc::clone(&self.shared),
                    control: Rc::clone(&self.control),
                    resolver: Rc::clone(&self.resolver),
                };
                let programs = upgrade::Newer {
                    proxy,
                    control,
                    envoy,
                };
                spawn_local(all.run(programs, workloads, teller));
            }
        }
    }

    /// Tells how it goes, until it has come to an end.
    fn tell_of(&self, within: Duration, teller: Teller) {
        let shared = Rc::clone(&self.shared);
        spawn_local(async move {
            let missing = || rollout::missing(&shared);
            let end = follow(&shared, Some(&teller), within, missing).await;
            // What was waited for is written down when somebody looks.
            shared.save();
            let _ = teller.send(end);
        });
    }

    /// Has all instances of a workload, or one of them, replaced.
    fn restart(&self, name: &WorkloadId) -> anyhow::Result<String> {
        let (is_workload, is_instance, known) = self.shared.look(|state| {
            let is_workload = state.workloads.iter().any(|one| one.id == *name);
            (is_workload, state.instance(name).is_some(), state.known())
        });
        ensure!(
            is_workload || is_instance,
            "there is no workload {name}: take one of {known}"
        );
        self.shared.change(|state| {
            if is_workload {
                let of_it = state.workloads.iter_mut().filter(|one| one.id == *name);
                of_it.for_each(|one| one.generation += 1);
                return;
            }
            state.supersede(name);
        });
        Ok(format!("{name}: replaced"))
    }

    /// A program that says much must not take all memory with it.
    fn trim_logs(&self) {
        let folder = &self.shared.folder;
        let both = |name: &str| ["out", "err"].map(|stream| folder.output(name, stream));
        let mut paths = [both("control"), both("resolver")].concat();
        paths.push(folder.log());
        for instance in self.shared.instances() {
            let own = folder.instance(&instance.id);
            for program in ["sidecar", "application"] {
                paths.extend(["out", "err"].map(|stream| own.output(program, stream)));
            }
        }
        for log in paths {
            if logs::trim(&log) {
                say(&format!("{} was too long and begins anew", log.display()));
            }
        }
    }
}

fn tell_text(teller: &Teller, text: &str) {
    let text = text.to_owned();
    let _ = teller.send(Event::Said { text });
}

fn tell_failure(teller: &Teller, error: &anyhow::Error) {
    let message = format!("{error:#}");
    let _ = teller.send(Event::Failed { message });
}

/// A folder of root's in which one user may read, and nobody else: what workloads there are and how
/// they are started is not everybody's affair.
fn make_shared(path: &Path, user: u32) -> anyhow::Result<()> {
    let make = || {
        fs::create_dir_all(path)?;
        give(path, None, Some(user))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o750))
    };
    make().with_context(|| format!("make {}", path.display()))
}
