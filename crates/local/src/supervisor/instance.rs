//! The life of one instance, from its network to its end: the page that tells it, top to bottom.
//! Run as a task of its own by the supervisor. Must never leave a process or a network that it has
//! not told the state of.

/// Its sidecar.
mod sidecar;

/// Its application.
mod application;

/// Whether its application answers.
mod health;

/// What its sidecar still carries to it.
mod quiet;

/// Network, folders, groups.
mod place;

pub(super) use place::make_home;

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use control::kinds::Limits;
use tokio::sync::{Mutex, watch};
use tokio::task::spawn_local;

use super::shared::{Shared, blocking};
use crate::cgroup;
use crate::explicit::{Marked, kill_marked};
use crate::folder::InstanceFolder;
use crate::job::Job;
use crate::logs::say;
use crate::mesh::Workload;
use crate::name::{MeshName, WorkloadId};
use crate::process::{self, Outputs};
use crate::state::{Running, Step};
use crate::template::Template;
use crate::watched::Process;
use crate::{network, teardown};

/// How long a sidecar may take to bring what it carries to an end, a little longer than it takes
/// by itself.
const DRAINED_WITHIN: Duration = Duration::from_secs(12);

/// One instance.
pub(super) struct Instance {
    pub(super) id: WorkloadId,
    pub(super) workload: WorkloadId,
    /// What it is made from.
    pub(super) template: Template,
    /// The limits that it has: of its application, and of its sidecar.
    pub(super) limits: Cell<[Limits; 2]>,
    shared: Rc<Shared>,
    /// What the file says, or said last, of what can change while it runs.
    spec: RefCell<Rc<Workload>>,
    /// How it is to end, when it is.
    stop: watch::Sender<bool>,
    /// Held by what is not to be left half done.
    whole: Arc<Mutex<()>>,
    /// The one that serves is the last; those before it come to their end.
    sidecars: RefCell<Vec<Process>>,
    /// One that is to take over, but does not serve yet.
    successor: RefCell<Option<Process>>,
    /// Held while one takes over from another.
    taking_over: Mutex<()>,
    application: RefCell<Option<Process>>,
    /// Sockets that each of its sidecars is given, where nothing is intercepted.
    held: RefCell<Vec<OwnedFd>>,
    /// Whether the sidecar, if there is to be one, serves.
    serving: watch::Sender<bool>,
    /// Whether the application, if there is to be one, runs.
    running: watch::Sender<bool>,
    /// Whether the application has ended for good.
    finished: watch::Sender<bool>,
}

impl Instance {
    pub(super) fn new(shared: &Rc<Shared>, one: &Running, what: (Workload, Template)) -> Rc<Self> {
        let (workload, template) = what;
        Rc::new(Self {
            id: one.id.clone(),
            workload: one.workload.clone(),
            template,
            limits: Cell::new([workload.spec.limits, workload.spec.sidecar.limits]),
            shared: Rc::clone(shared),
            spec: RefCell::new(Rc::new(workload)),
            stop: watch::Sender::new(false),
            whole: Arc::default(),
            sidecars: RefCell::default(),
            successor: RefCell::default(),
            taking_over: Mutex::default(),
            application: RefCell::default(),
            held: RefCell::default(),
            serving: watch::Sender::new(false),
            running: watch::Sender::new(false),
            finished: watch::Sender::new(false),
        })
    }

    /// All of its life. One that was `made` by a supervisor before us goes on.
    pub(super) async fn live(self: Rc<Self>, made: bool) {
        tokio::select! {
            () = is_true(&self.stop) => {}
            () = self.work(made) => {}
        }
        self.leave().await;
    }

    async fn work(self: &Rc<Self>, made: bool) {
        match made {
            true => self.take_over().await,
            false => self.make_place().await,
        }
        tokio::join!(
            self.keep_sidecar(),
            self.keep_application(),
            self.watch_readiness(),
            self.watch_liveness(),
        );
        // It has completed, and stays to be seen until it is replaced.
        is_true(&self.stop).await;
    }

    /// Nothing more is sent to it; it does what it was asked for, and is gone.
    async fn leave(&self) {
        let was_ready = self.change(|one| {
            (one.step, one.fault) = (Step::Stopping, None);
            std::mem::take(&mut one.ready)
        });
        // What was begun for it is done, and stays in sight.
        let _whole = self.whole.lock().await;
        self.shared.publish();
        if was_ready {
            self.shared.settle().await;
            self.await_quiet().await;
        }
        let application = self.application.borrow().clone();
        if let Some(application) = application {
            application.finish(self.spec().spec.grace).await;
            self.application_ended(&application.ended().await);
        }
        self.end_sidecar().await;
        self.remove_place().await;
        self.shared.forget(&self.id);
        say(&format!("{} is gone", self.id));
    }

    /// Asks it to leave.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Whether it was asked to leave.
    pub(super) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Whether there is something for a newer sidecar to take over from.
    pub(super) const fn has_sidecar(&self) -> bool {
        self.template.sidecar
    }

    /// What the file says of it now.
    pub(super) fn want(&self, workload: Workload) {
        self.change(|one| one.grace = workload.spec.grace);
        *self.spec.borrow_mut() = Rc::new(workload);
    }

    /// Gives its processes the limits that are wanted.
    pub(super) fn set_limits(&self, limits: [Limits; 2]) {
        self.limits.set(limits);
        if let Err(error) = self.apply_limits() {
            self.stumble(&error);
        }
    }

    fn apply_limits(&self) -> anyhow::Result<()> {
        let [application, sidecar] = self.limits.get();
        let one = self.look().context("the instance is gone")?;
        if one.explicit.is_some() && one.cgroups.is_empty() {
            // One file serves both ways: without root, limits are kept where they can be.
            return Ok(());
        }
        let context = || format!("limit {}", self.id);
        cgroup::set_limits(&one.cgroups, &application).with_context(context)?;
        match self.template.sidecar {
            true => cgroup::set_limits(&one.sidecar_cgroups, &sidecar).with_context(context),
            false => Ok(()),
        }
    }

    fn spec(&self) -> Rc<Workload> {
        Rc::clone(&self.spec.borrow())
    }

    fn folder(&self) -> InstanceFolder {
        self.shared.folder.instance(&self.id)
    }

    /// Its part of the state, as it is now.
    fn look(&self) -> Option<Running> {
        self.shared.look(|state| state.instance(&self.id).cloned())
    }

    /// Changes its part of the state.
    fn change<T: Default>(&self, change: impl FnOnce(&mut Running) -> T) -> T {
        self.shared.change(|state| {
            let mut instances = state.instances.iter_mut();
            let own = instances.find(|one| one.id == self.id);
            own.map(change).unwrap_or_default()
        })
    }

    fn step(&self, step: Step) {
        self.change(|one| (one.step, one.fault) = (step, None));
    }

    /// Something went wrong that is tried again.
    fn stumble(&self, error: &anyhow::Error) {
        self.shared.fail(error);
        self.change(|one| one.fault = Some(format!("{error:#}")));
    }

    /// Starts a program and tells the state of it through `record`, also when nobody waits for that
    /// any more.
    async fn launch(
        self: &Rc<Self>,
        (job, outputs, passed): (Job, Outputs, Vec<OwnedFd>),
        record: fn(&Self, Process),
    ) -> anyhow::Result<Process> {
        let own = Rc::clone(self);
        self.entirely(async move {
            let _busy = own.shared.busy.acquire().await;
            let launcher = own.shared.start.borrow().launcher.clone();
            let start = move || launcher.start_with(&job, &outputs, &passed);
            let mut child = blocking(start).await?;
            let process = Process::of(&mut child)?;
            record(&own, process.clone());
            Ok(process)
        })
        .await
    }

    /// Does something that is not to be left half done, whoever stops waiting for it.
    async fn entirely<T: 'static>(
        &self,
        work: impl Future<Output = anyhow::Result<T>> + 'static,
    ) -> anyhow::Result<T> {
        let whole = Arc::clone(&self.whole).lock_owned().await;
        let task = spawn_local(async move {
            let done = work.await;
            drop(whole);
            done
        });
        task.await.context("a task of the supervisor ended early")?
    }

    fn outputs(&self, program: &str) -> Outputs {
        let own = self.folder();
        Outputs {
            stdout: own.output(program, "out"),
            stderr: own.output(program, "err"),
        }
    }

    /// Ends what is left in its place, and removes that.
    async fn remove_place(&self) {
        let Some(one) = self.look() else { return };
        let name = self.shared.ground.name.clone();
        let folders = [
            self.shared.folder.handover(one.offset),
            self.folder().root().to_path_buf(),
        ];
        let removed = blocking(move || remove_place(&name, &one, &folders));
        if let Err(error) = removed.await {
            say(&format!("remove {}: {error:#}", self.id));
        }
    }
}

/// Ends what is left in the place of an instance, and removes that, with its `folders`.
pub(super) fn remove_place(
    name: &MeshName,
    one: &Running,
    folders: &[PathBuf],
) -> anyhow::Result<()> {
    let groups = [one.cgroups.as_slice(), &one.sidecar_cgroups].concat();
    cgroup::kill(&groups);
    match one.namespace() {
        Some(namespace) => {
            process::kill(|| process::members(&[namespace.to_path_buf()]));
            network::remove_instance(name, &one.id, one.offset);
        }
        None => folders
            .iter()
            .for_each(|folder| kill_marked(folder, &Marked::ALL)),
    }
    let left = cgroup::remove(&groups);
    folders
        .iter()
        .try_for_each(|one| teardown::remove_tree(one))?;
    ensure!(left.is_empty(), "left over: {left:?}");
    Ok(())
}

/// Waits until it is.
async fn is_true(flag: &watch::Sender<bool>) {
    is(flag, true).await;
}

async fn is(flag: &watch::Sender<bool>, wanted: bool) {
    let mut flag = flag.subscribe();
    // The sender is ours: it never goes before us.
    let _ = flag.wait_for(|now| *now == wanted).await;
}
