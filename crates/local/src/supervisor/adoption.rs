//! Takes over what a supervisor that was killed has left: what lives goes on, what is half made is
//! removed, to be made anew. Must never end what serves.

use std::rc::Rc;

use anyhow::{Context, ensure};

use super::Start;
use super::instance::{Instance, remove_place};
use super::shared::{Shared, blocking};
use crate::explicit::{Claim, is_rootless};
use crate::folder::Folder;
use crate::logs::say;
use crate::mesh;
use crate::network;
use crate::plan::Ground;
use crate::process::Identity;
use crate::state::{Phase, Running, State, Step};
use crate::template::Template;

/// Begins with what is there; all instances of what it gives were made before.
///
/// # Errors
/// When it is not known well enough what there is.
pub(super) async fn adopt(start: &Start, folder: &Folder) -> anyhow::Result<Rc<Shared>> {
    let state = State::load(&folder.state())?.context("nothing says what runs")?;
    ensure!(
        is_rootless() || network::has_bridge(&start.name),
        "its bridge is gone: something else removed it"
    );
    let ranges = state.workload_cidrs.iter().map(|range| range.parse());
    let ground = Ground {
        name: start.name.clone(),
        trust_domain: state.trust_domain.clone(),
        ranges: ranges.collect::<Result<_, _>>()?,
        is_explicit: is_rootless(),
    };
    let first = ground.ranges.first().filter(|_| ground.is_explicit);
    let claim = first.map(|range| Claim::of(*range)).transpose()?;
    let before = mesh::read(&folder.source().join("mesh.yaml"))?;
    let before = match ground.is_explicit {
        true => before,
        false => before.intercepted(),
    };
    let state = State {
        supervisor: Identity::own()?,
        phase: Phase::Running,
        ..state
    };
    say("goes on with what another supervisor has left");
    let shared = Rc::new(Shared::new(start, folder, (ground, claim), state));
    shared.want(before);
    for one in shared.look(|state| state.instances.clone()) {
        match find(&shared, &one) {
            Some(instance) => shared.add(&instance),
            None => discard(&shared, one).await,
        }
    }
    let _ = std::fs::remove_file(super::file::leaving_path(&shared));
    shared.publish();
    shared.save();
    Ok(shared)
}

/// The instance, if it was made to its end.
fn find(shared: &Rc<Shared>, one: &Running) -> Option<Rc<Instance>> {
    if matches!(one.step, Step::Place | Step::Stopping)
        || one.namespace().is_some_and(|path| !path.exists())
    {
        return None;
    }
    let workload = shared.workload(&one.workload)?;
    let template = Template::load(&shared.folder.instance(&one.id).template()).ok()?;
    Some(Instance::new(shared, one, (workload, template)))
}

/// Removes what is half made, or half gone.
async fn discard(shared: &Rc<Shared>, one: Running) {
    let (id, name) = (one.id.clone(), shared.ground.name.clone());
    let folders = [
        shared.folder.handover(one.offset),
        shared.folder.instance(&one.id).root().to_path_buf(),
    ];
    let removed = blocking(move || remove_place(&name, &one, &folders)).await;
    if let Err(error) = removed {
        say(&format!("remove {id}: {error:#}"));
    }
    shared.forget(&id);
}
