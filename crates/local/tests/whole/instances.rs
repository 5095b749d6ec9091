//! The instances of a workload, as the state of the mesh has them.

use std::collections::BTreeMap;

use local::process::Identity;
use local::state::{Running, State};

use crate::world::{World, until};

/// Processes of an instance: its application's and its sidecar's.
type Pair = [Option<Identity>; 2];

fn of<'a>(state: &'a State, workload: &str) -> Vec<&'a Running> {
    let id = workload.parse().unwrap();
    let all = state.instances.iter();
    all.filter(|one| one.workload == id).collect()
}

/// Waits until a workload has so many instances and all are ready.
#[track_caller]
pub(crate) fn await_ready(world: &World, workload: &str, count: usize) {
    let is_so = || {
        let state = world.state();
        let there = of(&state, workload);
        let all_ready = there.iter().all(|one| one.ready);
        (there.len() == count && all_ready).then_some(())
    };
    until(is_so, || format!("{:#?}", world.state().instances));
}

/// Processes of its instances, by their names.
pub(crate) fn processes(world: &World, workload: &str) -> BTreeMap<String, Pair> {
    let state = world.state();
    let pair = |one: &Running| {
        let application = one.application.as_ref().and_then(|life| life.process);
        [application, one.sidecar.process]
    };
    let there = of(&state, workload).into_iter();
    there.map(|one| (one.id.to_string(), pair(one))).collect()
}

/// What there is of the instance of that name.
#[track_caller]
pub(crate) fn one(world: &World, instance: &str) -> Running {
    let state = world.state();
    let found = state.instance(&instance.parse().unwrap());
    found.unwrap_or_else(|| panic!("{state:#?}")).clone()
}
