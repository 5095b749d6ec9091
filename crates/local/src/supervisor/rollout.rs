//! Does what [`crate::reconcile`] says: starts, stops and limits instances. Called by the
//! supervisor after every change. Must never choose for two meshes at the same time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use control::kinds::{Limits, Strategy};
use tokio::task::spawn_local;

use super::instance::Instance;
use super::progress::word;
use super::shared::{Shared, blocking};
use crate::explicit::{Explicit, is_rootless};
use crate::lock::{self, Turn};
use crate::mesh::Workload;
use crate::name::WorkloadId;
use crate::plan::{self, Taken};
use crate::reconcile::{Action, Revision, Stage, There, Wanted, reconcile};
use crate::state::{Life, Running, State, Step};
use crate::template::Template;
use crate::{command, folder, network, users};

/// Does what can be done now.
pub(super) async fn advance(shared: &Rc<Shared>) -> anyhow::Result<()> {
    let mut starts = Vec::new();
    for action in reconcile(&wanted(shared), &there(shared)) {
        let find = |id: &WorkloadId, ordinal| shared.instance(&id.instance(ordinal).ok()?);
        match action {
            Action::Start(id, ordinal) => starts.push((id, ordinal)),
            Action::Stop(id, ordinal) => _ = find(&id, ordinal).map(|one| one.stop()),
            Action::Limit(id, ordinal) => {
                let limits = shared.workload(&id).map(|workload| limits(&workload));
                let found = find(&id, ordinal).zip(limits);
                _ = found.map(|(one, limits)| one.set_limits(limits));
            }
        }
    }
    match starts.is_empty() {
        true => Ok(()),
        false => start(shared, starts).await,
    }
}

/// Who is not as they are to be, and why.
pub(super) fn missing(shared: &Shared) -> Vec<(WorkloadId, String)> {
    let (wanted, there) = (wanted(shared), there(shared));
    let of_each = wanted.iter().map(|one| behind(shared, one, &there));
    let mut missing: Vec<_> = of_each.flatten().collect();
    let is_wanted = |one: &&There| wanted.iter().any(|other| other.id == one.workload);
    let lost = there.iter().filter(|one| !is_wanted(one));
    let names = lost.filter_map(|one| one.workload.instance(one.ordinal).ok());
    missing.extend(names.map(|id| said(shared, id)));
    missing
}

/// Likewise, of one workload, as long as the file has it.
pub(super) fn missing_of(shared: &Shared, id: &WorkloadId) -> Vec<(WorkloadId, String)> {
    let there = there(shared);
    let wanted = wanted(shared).into_iter().filter(|one| one.id == *id);
    let missing = wanted.flat_map(|one| behind(shared, &one, &there));
    missing.collect()
}

fn behind(shared: &Shared, workload: &Wanted, there: &[There]) -> Vec<(WorkloadId, String)> {
    let of_it = there.iter().filter(|one| one.workload == workload.id);
    let of_it: Vec<_> = of_it.collect();
    let is_current = |one: &&&There| one.revision == workload.revision;
    let coming = |one: &&&There| is_current(one) && one.stage == Stage::Coming;
    let other = |one: &&&There| !is_current(one) || one.stage == Stage::Stopping;
    let mut left: Vec<_> = of_it.iter().filter(coming).collect();
    if left.is_empty() {
        left.extend(of_it.iter().filter(other));
    }
    if left.is_empty() && of_it.len() < workload.replicas as usize {
        return vec![(workload.id.clone(), "it is about to be started".into())];
    }
    let names = left
        .iter()
        .filter_map(|one| one.workload.instance(one.ordinal).ok());
    names.map(|id| said(shared, id)).collect()
}

/// Whether an instance is as the file says now.
pub(super) fn is_current(shared: &Shared, id: &WorkloadId) -> bool {
    let Some(instance) = shared.instance(id) else {
        return false;
    };
    let generation = shared.look(|state| state.instance(id).map(|one| one.generation));
    let wanted = wanted(shared).into_iter();
    let mut own = wanted.filter(|one| one.id == instance.workload);
    own.any(|one| {
        one.revision.template == instance.template.text()
            && Some(one.revision.generation) == generation
    })
}

fn said(shared: &Shared, id: WorkloadId) -> (WorkloadId, String) {
    let word = shared.look(|state| match state.instance(&id) {
        Some(one) if one.ready => "it is to be replaced".to_owned(),
        Some(one) => word(one),
        None => "it is about to be started".into(),
    });
    (id, word)
}

fn wanted(shared: &Shared) -> Vec<Wanted> {
    let source = shared.look(|state| state.source.clone());
    let mesh = shared.wanted();
    let one = |workload: &Workload| Wanted {
        id: workload.id.clone(),
        replicas: workload.spec.replicas,
        // Two gateways cannot listen at the same addresses.
        recreate: workload.spec.strategy == Strategy::Recreate || !workload.sockets.is_empty(),
        revision: Revision {
            template: Template::of(workload, &source).text(),
            generation: generation(shared, &workload.id),
        },
        limits: limits(workload),
    };
    mesh.workloads.iter().map(one).collect()
}

fn there(shared: &Shared) -> Vec<There> {
    let there = |instance: &Rc<Instance>| {
        let state = shared.look(|state| state.instance(&instance.id).cloned())?;
        let stage = match state.step {
            _ if instance.is_stopping() => Stage::Stopping,
            Step::Stopping => Stage::Stopping,
            Step::Completed => Stage::Settled,
            _ if state.ready => Stage::Settled,
            _ => Stage::Coming,
        };
        Some(There {
            workload: state.workload,
            ordinal: state.ordinal,
            revision: Revision {
                template: instance.template.text(),
                generation: state.generation,
            },
            limits: instance.limits.get(),
            stage,
        })
    };
    shared.instances().iter().filter_map(there).collect()
}

fn limits(workload: &Workload) -> [Limits; 2] {
    [workload.spec.limits, workload.spec.sidecar.limits]
}

fn generation(shared: &Shared, id: &WorkloadId) -> u64 {
    shared.look(|state| {
        let found = state.workloads.iter().find(|one| one.id == *id);
        found.map_or(0, |one| one.generation)
    })
}

/// Decides for new instances, and begins their lives.
async fn start(shared: &Rc<Shared>, starts: Vec<(WorkloadId, u32)>) -> anyhow::Result<()> {
    let base = shared.start.borrow().base.clone();
    let name = shared.ground.name.clone();
    let (taken, _deciding) = blocking(move || decide(&base, Some(name.as_str()))).await?;
    let (mut begun, mut failed) = (Vec::new(), None);
    for (id, ordinal) in starts {
        let Some(workload) = shared.workload(&id) else {
            continue;
        };
        let one = match make(shared, &workload, ordinal, &taken) {
            Ok(one) => one,
            // What is decided for others has its place, and has to come to life.
            Err(error) => {
                failed.get_or_insert(error);
                continue;
            }
        };
        let template = Template::of(&workload, &shared.look(|state| state.source.clone()));
        shared.change(|state| state.instances.push(one.clone()));
        begun.push(Instance::new(shared, &one, (workload, template)));
    }
    // Before anybody else may choose, and before anything is made.
    shared.save();
    for instance in &begun {
        shared.add(instance);
    }
    shared.publish();
    for instance in begun {
        spawn_local(instance.live(false));
    }
    failed.map_or(Ok(()), Err)
}

/// What this machine has, and what meshes have chosen that may not show yet. As long as the turn
/// lasts, no other mesh decides.
pub(super) fn decide(base: &Path, but: Option<&str>) -> anyhow::Result<(Taken, Turn)> {
    let deciding = lock::wait(&folder::deciding(base))?;
    let (mut users, names) = users::taken();
    for other in command::readable(base) {
        if Some(other.name.as_str()) != but {
            users.extend(chosen(&other));
        }
    }
    let taken = Taken {
        routes: match is_rootless() {
            true => Vec::new(),
            false => network::routes()?,
        },
        users,
        names,
    };
    Ok((taken, deciding))
}

/// Users that a mesh has chosen.
fn chosen(state: &State) -> BTreeSet<u32> {
    let of_instances = state.instances.iter();
    let of_instances = of_instances.flat_map(|one| [Some(one.user), one.sidecar_user]);
    let own = [state.control_user, state.resolver_user];
    of_instances.flatten().chain(own).collect()
}

fn make(
    shared: &Shared,
    workload: &Workload,
    ordinal: u32,
    taken: &Taken,
) -> anyhow::Result<Running> {
    let template = Template::of(workload, &shared.look(|state| state.source.clone()));
    let id = workload.id.instance(ordinal)?;
    let used = shared.look(|state| state.instances.iter().map(|one| one.offset).collect());
    let placed = shared.ground.place(id.clone(), &used)?;
    let (user, sidecar_user) = users(shared, workload, taken)?;
    let groups = |part| shared.cgroups.make(&format!("{id}.{part}"));
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Ok(Running {
        workload: workload.id.clone(),
        ordinal,
        offset: placed.offset,
        generation: generation(shared, &workload.id),
        service_account: template.account.clone(),
        user,
        sidecar_user: template.sidecar.then_some(sidecar_user),
        envoy: template.envoy,
        addresses: placed.addresses,
        netns: match shared.ground.is_explicit {
            true => PathBuf::new(),
            false => network::path(&shared.ground.name, &id),
        },
        explicit: shared.ground.is_explicit.then(Explicit::default),
        variables: Vec::new(),
        grace: workload.spec.grace,
        cgroups: groups("application"),
        sidecar_cgroups: match template.sidecar {
            true => groups("sidecar"),
            false => Vec::new(),
        },
        directory: template.directory.clone(),
        has_resolver: template.has_resolver() && !shared.ground.is_explicit,
        since: since.as_secs(),
        step: Step::Place,
        ready: false,
        fault: None,
        sidecar: Life::default(),
        application: None,
        id,
    })
}

/// Of an application and its sidecar: each its own, or all ours.
fn users(shared: &Shared, workload: &Workload, taken: &Taken) -> anyhow::Result<(u32, u32)> {
    if shared.ground.is_explicit {
        let own = rustix::process::geteuid().as_raw();
        return Ok((own, own));
    }
    let mut used = shared.look(chosen);
    used.extend(&taken.users);
    let user = match &workload.spec.user {
        Some(user) => plan::given_user(user, taken)?,
        None => plan::free_user(&plan::APPLICATIONS, &used)?,
    };
    Ok((user, plan::free_user(&plan::OURS, &used)?))
}
