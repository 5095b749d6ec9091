//! How far a mesh is from what is wanted: who is still to come, told as it changes. Used for
//! whoever waits. Must never change anything but that the first start is over.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::desk::{Event, Teller};
use super::rollout;
use super::shared::Shared;
use crate::name::WorkloadId;
use crate::state::{Phase, Running, State, Step};

/// Who is not as they are to be, and why; nobody: everything is.
type Missing = Vec<(WorkloadId, String)>;

/// Tells `teller` of all changes until everything is as it is wanted, or cannot be, or the time is
/// over. The state of the mesh is asked with `missing`, which sees what is wanted.
pub(super) async fn follow(
    shared: &Shared,
    teller: Option<&Teller>,
    within: Duration,
    missing: impl Fn() -> Missing,
) -> Event {
    let deadline = Instant::now() + within;
    let mut changes = shared.changes();
    let mut shown = BTreeMap::new();
    loop {
        changes.mark_unchanged();
        for event in news(shared, &mut shown) {
            let _ = teller.map(|teller| teller.send(event));
        }
        if let Some(message) = shared.fatal() {
            return Event::Failed { message };
        }
        let left = missing();
        if !left.is_empty() && left.iter().all(|(id, _)| is_hopeless(shared, id)) {
            return over(shared, left);
        }
        if left.is_empty() {
            shared.publish();
            shared.settle().await;
            shared.change(|state| state.phase = Phase::Running);
            return Event::Done;
        }
        if timeout_at(deadline, changes.changed()).await.is_err() {
            return over(shared, missing());
        }
    }
}

/// Whether an instance cannot become ready by itself: it has failed for good, or waits for one that
/// has. Nobody waits in a circle.
fn is_hopeless(shared: &Shared, id: &WorkloadId) -> bool {
    let found = shared.look(|state| {
        let one = state.instance(id)?;
        Some((one.step, one.workload.clone()))
    });
    match found {
        // One that the file has mended since is about to be replaced.
        Some((Step::Failed, _)) => rollout::is_current(shared, id),
        Some((Step::Dependencies, workload)) => {
            let own = shared.workload(&workload);
            let others = own.map(|own| own.depends_on).unwrap_or_default();
            others.iter().any(|other| {
                let ids = shared.look(|state| instances(state, other));
                ids.iter().any(|id| is_hopeless(shared, id))
            })
        }
        _ => false,
    }
}

fn instances(state: &State, workload: &WorkloadId) -> Vec<WorkloadId> {
    let all = state.instances.iter();
    let own = all.filter(|one| one.workload == *workload);
    own.map(|one| one.id.clone()).collect()
}

fn over(shared: &Shared, missing: Missing) -> Event {
    // What goes wrong from now on takes nothing down.
    shared.change(|state| state.phase = Phase::Running);
    Event::Late { missing }
}

/// Instances of which something else is to be said than was.
fn news(shared: &Shared, shown: &mut BTreeMap<WorkloadId, String>) -> Vec<Event> {
    let is_first = shown.is_empty();
    let now: BTreeMap<_, _> = shared.look(|state| {
        let all = state.instances.iter();
        all.map(|one| (one.id.clone(), word(one))).collect()
    });
    let event = |name: &WorkloadId, text: &str| Event::Instance {
        name: name.clone(),
        text: text.to_owned(),
    };
    let gone = shown.keys().filter(|id| !now.contains_key(*id));
    let mut events: Vec<_> = gone.map(|id| event(id, "gone")).collect();
    let other = now
        .iter()
        .filter(|(id, text)| shown.get(*id) != Some(*text));
    // What is there already when somebody begins to listen is no news.
    let other = other.filter(|(_, text)| !is_first || *text != "ready");
    events.extend(other.map(|(id, text)| event(id, text)));
    *shown = now;
    events
}

/// Where an instance is, in a few words.
pub(crate) fn word(one: &Running) -> String {
    let fault = one.fault.clone();
    match one.step {
        Step::Place => fault.unwrap_or_else(|| "its network is made".into()),
        Step::Sidecar => fault.unwrap_or_else(|| "its sidecar starts".into()),
        Step::Dependencies => fault.unwrap_or_else(|| "waits for others".into()),
        Step::Application if one.ready => "ready".into(),
        Step::Application => fault.unwrap_or_else(|| "it starts".into()),
        Step::Completed => "completed".into(),
        Step::Failed => fault.map_or_else(|| "failed".into(), |fault| format!("failed: {fault}")),
        Step::Stopping => "it is being taken away".into(),
    }
}
