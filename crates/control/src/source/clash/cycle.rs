//! Workloads that wait for each other: none of them would ever be started. Called by `clash`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::kinds::{Fault, Object, Resource, WorkloadKey};

type Waiting<'a> = BTreeMap<WorkloadKey, (&'a Resource, &'a [WorkloadKey])>;

/// One circle, if there is any: those that only wait for it say nothing new.
pub(super) fn find(resources: &[Arc<Resource>]) -> Option<Fault> {
    let stuck = stuck(resources);
    let circle = circle(&stuck)?;
    let (resource, _) = stuck.get(circle.first()?)?;
    let names: Vec<_> = circle.iter().map(ToString::to_string).collect();
    let message = format!("Workloads that wait for each other: {}", names.join(" → "));
    let hint = "remove one of these from `dependsOn`: none of them would start";
    Some(Fault::new(resource.origin.clone(), message, hint))
}

/// The Workloads that wait for a circle, or are in one: what is left when those are taken away, one
/// after the other, that wait for nobody who is left.
fn stuck(resources: &[Arc<Resource>]) -> Waiting<'_> {
    let workloads = resources
        .iter()
        .filter_map(|resource| match &resource.object {
            Object::Workload(workload) => Some((
                resource.key.workload(),
                (&**resource, workload.depends_on.as_slice()),
            )),
            _ => None,
        });
    let mut left: Waiting<'_> = workloads.collect();
    let mut waits: BTreeMap<WorkloadKey, usize> = BTreeMap::new();
    let mut awaited: BTreeMap<WorkloadKey, Vec<WorkloadKey>> = BTreeMap::new();
    for (key, (_, all)) in &left {
        let known = all.iter().filter(|other| left.contains_key(*other));
        waits.insert(key.clone(), known.clone().count());
        for other in known {
            awaited.entry(other.clone()).or_default().push(key.clone());
        }
    }
    let free = waits.iter().filter(|(_, count)| **count == 0);
    let mut free: Vec<_> = free.map(|(key, _)| key.clone()).collect();
    while let Some(key) = free.pop() {
        left.remove(&key);
        for other in awaited.remove(&key).unwrap_or_default() {
            let count = waits.entry(other.clone()).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                free.push(other);
            }
        }
    }
    left
}

/// From the first one on to one that is stuck, until one comes again, which is first and last.
fn circle(stuck: &Waiting<'_>) -> Option<Vec<WorkloadKey>> {
    let mut path = Vec::new();
    let mut seen = BTreeSet::new();
    let mut key = stuck.keys().next()?;
    while seen.insert(key) {
        path.push(key.clone());
        let (_, all) = stuck.get(key)?;
        key = all.iter().find(|other| stuck.contains_key(*other))?;
    }
    let begin = path.iter().position(|one| one == key)?;
    path.push(key.clone());
    Some(path.split_off(begin))
}
