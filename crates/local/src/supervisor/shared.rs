//! What all tasks of a supervisor see: what is wanted, what is there, and where it is written down.
//! One thread has it. Invariant: no borrow of it is held while something is waited for.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::Start;
use super::instance::Instance;
use crate::cgroup::Cgroups;
use crate::explicit::Claim;
use crate::folder::Folder;
use crate::logs::say;
use crate::mesh::{Mesh, Workload};
use crate::name::WorkloadId;
use crate::operator;
use crate::plan::Ground;
use crate::state::{Phase, Running, State, Step};
use crate::variables::Book;
use crate::{foreign, written};

/// Things that start programs or make networks at the same time: more are no faster.
const BUSY_MAX: usize = 8;
/// How long everybody may take to have acknowledged a change, before it goes on without.
pub(super) const SETTLED_WITHIN: Duration = Duration::from_secs(5);
/// How often the control plane is asked for it that does not answer.
const ASKED_PERIOD: Duration = Duration::from_millis(100);

/// All of it.
pub(super) struct Shared {
    pub(super) folder: Folder,
    pub(super) cgroups: Cgroups,
    pub(super) ground: Ground,
    _claim: Option<Claim>,
    pub(super) start: RefCell<Start>,
    pub(super) busy: Semaphore,
    wanted: RefCell<Rc<Mesh>>,
    state: RefCell<State>,
    instances: RefCell<BTreeMap<WorkloadId, Rc<Instance>>>,
    /// Where workloads live, as it was written last.
    published: RefCell<BTreeMap<WorkloadId, String>>,
    is_saved: Cell<bool>,
    changes: watch::Sender<u64>,
    fatal: RefCell<Option<String>>,
}

impl Shared {
    /// Of a mesh whose addresses are held by a claim, where they are not by the kernel.
    pub(super) fn new(
        start: &Start,
        folder: &Folder,
        (ground, claim): (Ground, Option<Claim>),
        state: State,
    ) -> Self {
        let nothing = Mesh {
            trust_domain: ground.trust_domain.clone(),
            workload_cidrs: ground.ranges.clone(),
            workloads: Vec::new(),
            services: Vec::new(),
        };
        Self {
            folder: folder.clone(),
            cgroups: match ground.is_explicit {
                true => Cgroups::of_user(&start.name),
                false => Cgroups::of(&start.name),
            },
            ground,
            _claim: claim,
            start: RefCell::new(start.clone()),
            busy: Semaphore::new(BUSY_MAX),
            wanted: RefCell::new(Rc::new(nothing)),
            state: RefCell::new(state),
            instances: RefCell::default(),
            published: RefCell::default(),
            is_saved: Cell::new(false),
            changes: watch::Sender::new(0),
            fatal: RefCell::default(),
        }
    }

    /// Looks at what is there.
    pub(super) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.borrow())
    }

    /// Changes it; everybody who waits for a change looks again.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state.borrow_mut());
        self.is_saved.set(false);
        self.changes.send_modify(|number| *number += 1);
        changed
    }

    /// Has a counter that goes up with every change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits until `find` finds something.
    pub(super) async fn until<T>(&self, find: impl Fn(&State) -> Option<T>) -> T {
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            if let Some(found) = self.look(&find) {
                return found;
            }
            // The sender is ours: there will always be another.
            let _ = changes.changed().await;
        }
    }

    /// What the file says.
    pub(super) fn wanted(&self) -> Rc<Mesh> {
        Rc::clone(&self.wanted.borrow())
    }

    /// The file says something else.
    pub(super) fn want(&self, mesh: Mesh) {
        *self.wanted.borrow_mut() = Rc::new(mesh);
        for instance in self.instances() {
            if let Some(workload) = self.workload(&instance.workload) {
                instance.want(workload);
            }
        }
    }

    /// What the file says of a workload; none: nothing any more.
    pub(super) fn workload(&self, id: &WorkloadId) -> Option<Workload> {
        self.wanted.borrow().workload(id).cloned()
    }

    /// Everybody who lives.
    pub(super) fn instances(&self) -> Vec<Rc<Instance>> {
        self.instances.borrow().values().map(Rc::clone).collect()
    }

    /// The instance of that name.
    pub(super) fn instance(&self, id: &WorkloadId) -> Option<Rc<Instance>> {
        self.instances.borrow().get(id).map(Rc::clone)
    }

    /// One more lives.
    pub(super) fn add(&self, instance: &Rc<Instance>) {
        let id = instance.id.clone();
        self.instances.borrow_mut().insert(id, Rc::clone(instance));
    }

    /// It lives no more, and nothing of it is there.
    pub(super) fn forget(&self, id: &WorkloadId) {
        self.instances.borrow_mut().remove(id);
        self.change(|state| state.instances.retain(|one| one.id != *id));
        self.publish();
    }

    /// Something without which the mesh cannot come up at all; later it is only said.
    pub(super) fn fail(&self, error: &anyhow::Error) {
        say(&format!("{error:#}"));
        if self.look(|state| state.phase) == Phase::Starting {
            let mut fatal = self.fatal.borrow_mut();
            fatal.get_or_insert_with(|| format!("{error:#}"));
            drop(fatal);
            self.changes.send_modify(|number| *number += 1);
        }
    }

    /// Why the mesh cannot come up at all.
    pub(super) fn fatal(&self) -> Option<String> {
        self.fatal.borrow().clone()
    }

    /// The virtual addresses of Services; none of them where it is not known.
    pub(super) fn addresses(&self) -> Book {
        let (path, user) = (
            self.folder.addresses(),
            self.look(|state| state.control_user),
        );
        if !path.exists() {
            // Nothing was allocated.
            return Book::default();
        }
        let read = foreign::read_of(&path, user).and_then(|text| Book::read(&text));
        read.unwrap_or_else(|error| {
            say(&format!(
                "applications are not told where Services are: {error:#}"
            ));
            Book::default()
        })
    }

    /// Tells the control plane where everybody lives, and who is ready. What cannot be written now
    /// is tried again.
    pub(super) fn publish(&self) {
        let mut texts: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let state = self.state.borrow();
        for one in state.instances.iter().filter(|one| is_listed(one)) {
            texts.entry(&one.workload).or_default().push(one);
        }
        let texts = texts.into_iter();
        let texts: BTreeMap<_, _> = texts
            .map(|(id, instances)| (id.clone(), written::status(id, &instances)))
            .collect();
        let mut published = self.published.borrow_mut();
        for (id, text) in &texts {
            if published.get(id) == Some(text) {
                continue;
            }
            match written::replace(&self.status(id), text) {
                Ok(()) => drop(published.insert(id.clone(), text.clone())),
                Err(error) => say(&format!("{error:#}")),
            }
        }
        published.retain(|id, _| texts.contains_key(id) || !is_removed(&self.status(id)));
    }

    fn status(&self, id: &WorkloadId) -> PathBuf {
        self.folder.status().join(format!("{id}.yaml"))
    }

    /// Waits until all sidecars have been told of it; not for longer than is good.
    pub(super) async fn settle(&self) {
        let deadline = Instant::now() + SETTLED_WITHIN;
        let settled = loop {
            let (socket, left) = (self.folder.operator(), deadline - Instant::now());
            let settled = blocking(move || operator::settle(&socket, left)).await;
            // It may just be starting again: until then nobody else hears of the change either.
            if settled.is_ok() || Instant::now() + ASKED_PERIOD >= deadline {
                break settled;
            }
            sleep(ASKED_PERIOD).await;
        };
        match settled {
            Ok(behind) if behind.is_empty() => {}
            Ok(behind) => say(&format!(
                "{} did not acknowledge a change within {SETTLED_WITHIN:?}",
                behind.join(", ")
            )),
            Err(error) => say(&format!("a change is not waited for: {error:#}")),
        }
    }

    /// Writes down what runs, if that has changed. Whether it is written down now.
    pub(super) fn save(&self) -> bool {
        if !self.is_saved.replace(true)
            && let Err(error) = self.look(|state| state.save(&self.folder.state()))
        {
            say(&format!("{error:#}"));
            self.is_saved.set(false);
        }
        self.is_saved.get()
    }
}

/// Whether the control plane is to know of it: one that has completed never comes back.
fn is_listed(one: &Running) -> bool {
    !matches!(one.step, Step::Completed | Step::Failed)
}

fn is_removed(path: &std::path::Path) -> bool {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            say(&format!("remove {}: {error}", path.display()));
            false
        }
        _ => true,
    }
}

/// Does something that has to be waited for, on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let done = spawn_blocking(work).await;
    done.context("a thread of the supervisor ended early")?
}
