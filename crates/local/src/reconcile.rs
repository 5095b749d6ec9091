//! What is to be done so that there is what is wanted. Pure: called by the supervisor after every
//! change of either, again and again, so that it may do one step of many.
//! Invariant: no instance is stopped for one that is not ready to take its place.

use std::collections::BTreeSet;

use crate::name::WorkloadId;
use control::kinds::Limits;

/// What an instance was made from; one that was made from something else is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Revision {
    /// What cannot be changed while it runs, as text.
    pub(crate) template: String,
    /// How often a replacement was asked for.
    pub(crate) generation: u64,
}

/// One workload as it is to be.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) id: WorkloadId,
    pub(crate) replicas: u32,
    /// Whether it must not run twice.
    pub(crate) recreate: bool,
    pub(crate) revision: Revision,
    /// Of its applications and sidecars.
    pub(crate) limits: [Limits; 2],
}

/// One instance as it is.
#[derive(Clone, Debug)]
pub(crate) struct There {
    pub(crate) workload: WorkloadId,
    pub(crate) ordinal: u32,
    pub(crate) revision: Revision,
    pub(crate) limits: [Limits; 2],
    pub(crate) stage: Stage,
}

/// How far an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Not ready, or not any more.
    Coming,
    /// Ready, or completed.
    Settled,
    /// On its way out.
    Stopping,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// Makes and starts an instance.
    Start(WorkloadId, u32),
    /// Takes an instance away.
    Stop(WorkloadId, u32),
    /// Gives a running instance the limits that are wanted.
    Limit(WorkloadId, u32),
}

/// What is to be done now; nothing: all is as it is to be, or has to be waited for.
pub(crate) fn reconcile(wanted: &[Wanted], there: &[There]) -> Vec<Action> {
    let is_wanted = |one: &&There| wanted.iter().any(|other| other.id == one.workload);
    let (kept, lost): (Vec<_>, Vec<_>) = there.iter().partition(is_wanted);
    let lost = lost.into_iter().filter(|one| one.stage != Stage::Stopping);
    let mut actions: Vec<_> = lost.map(stop).collect();
    for workload in wanted {
        let of_it = kept.iter().copied();
        let of_it: Vec<_> = of_it.filter(|one| one.workload == workload.id).collect();
        actions.extend(limit(workload, &of_it));
        actions.extend(match workload.recreate {
            true => recreate(workload, &of_it),
            false => roll(workload, &of_it),
        });
    }
    actions
}

fn stop(one: &There) -> Action {
    Action::Stop(one.workload.clone(), one.ordinal)
}

fn limit(wanted: &Wanted, there: &[&There]) -> Vec<Action> {
    let is_other = |one: &&&There| one.stage != Stage::Stopping && one.limits != wanted.limits;
    let others = there.iter().filter(is_other);
    others
        .map(|one| Action::Limit(one.workload.clone(), one.ordinal))
        .collect()
}

/// All of the old end before any of the new begins, in the same places.
fn recreate(wanted: &Wanted, there: &[&There]) -> Vec<Action> {
    let live = || there.iter().filter(|one| one.stage != Stage::Stopping);
    let old: Vec<_> = live()
        .filter(|one| one.revision != wanted.revision)
        .collect();
    if !old.is_empty() {
        return old.into_iter().map(|one| stop(one)).collect();
    }
    let replicas = wanted.replicas as usize;
    if live().count() > replicas {
        return surplus(live().copied().collect(), replicas);
    }
    start(wanted, there, replicas.saturating_sub(there.len()))
}

/// One more than wanted while there are old ones: they go when the new ones are ready.
fn roll(wanted: &Wanted, there: &[&There]) -> Vec<Action> {
    let live = there.iter().filter(|one| one.stage != Stage::Stopping);
    let (current, old): (Vec<_>, Vec<_>) = live
        .copied()
        .partition(|one| one.revision == wanted.revision);
    let (replicas, count) = (wanted.replicas as usize, current.len() + old.len());
    if old.is_empty() {
        return match count.checked_sub(replicas) {
            Some(0) => Vec::new(),
            Some(_) => surplus(current, replicas),
            None => start(wanted, there, replicas - count),
        };
    }
    if replicas == 0 {
        return current.into_iter().chain(old).map(stop).collect();
    }
    let coming = current
        .iter()
        .filter(|one| one.stage == Stage::Coming)
        .count();
    if count > replicas {
        let keep = old
            .len()
            .saturating_sub(count - replicas - coming.min(count - replicas));
        return surplus(old, keep);
    }
    // An old one that stops still has its place: the next may have it.
    start(wanted, there, replicas + 1 - count)
}

/// Stops all but `keep`: first those that are not ready, then the last.
fn surplus(mut live: Vec<&There>, keep: usize) -> Vec<Action> {
    live.sort_by_key(|one| (one.stage == Stage::Coming, one.ordinal));
    live.into_iter().skip(keep).map(stop).collect()
}

/// Starts `count` in the lowest places that nobody has.
fn start(wanted: &Wanted, there: &[&There], count: usize) -> Vec<Action> {
    let taken: BTreeSet<_> = there.iter().map(|one| one.ordinal).collect();
    let free = (0..).filter(|ordinal| !taken.contains(ordinal));
    free.take(count)
        .map(|ordinal| Action::Start(wanted.id.clone(), ordinal))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Stage::{Coming, Settled, Stopping};
    use super::*;

    fn revision(template: &str) -> Revision {
        Revision {
            template: template.into(),
            generation: 0,
        }
    }

    fn wanted(replicas: u32, template: &str) -> Wanted {
        Wanted {
            id: "hello".parse().unwrap(),
            replicas,
            recreate: false,
            revision: revision(template),
            limits: Default::default(),
        }
    }

    fn there(instances: &[(u32, &str, Stage)]) -> Vec<There> {
        let one = |(ordinal, template, stage): &(u32, &str, Stage)| There {
            workload: "hello".parse().unwrap(),
            ordinal: *ordinal,
            revision: revision(template),
            limits: Default::default(),
            stage: *stage,
        };
        instances.iter().map(one).collect()
    }

    /// `+0` starts the first, `-0` stops it, `=0` gives it other limits.
    #[track_caller]
    fn check(wanted: &[Wanted], instances: &[(u32, &str, Stage)], expected: &str) {
        let shown: Vec<_> = reconcile(wanted, &there(instances))
            .iter()
            .map(|action| match action {
                Action::Start(_, ordinal) => format!("+{ordinal}"),
                Action::Stop(_, ordinal) => format!("-{ordinal}"),
                Action::Limit(_, ordinal) => format!("={ordinal}"),
            })
            .collect();
        assert_eq!(shown.join(" "), expected, "{instances:?}");
    }

    #[test]
    fn there_are_as_many_as_are_wanted() {
        let five = (0..5).map(|ordinal| (ordinal, "a", Settled));
        let five: Vec<_> = five.collect();
        check(&[wanted(1, "a")], &[], "+0");
        check(&[wanted(5, "a")], &five[..1], "+1 +2 +3 +4");
        check(&[wanted(5, "a")], &five, "");
        check(&[wanted(1, "a")], &five, "-1 -2 -3 -4");
        check(&[wanted(0, "a")], &five[..1], "-0");
        check(&[], &five[..2], "-0 -1");
    }

    #[test]
    fn places_of_those_that_go_are_not_free_yet() {
        check(
            &[wanted(2, "a")],
            &[(0, "a", Stopping), (1, "a", Settled)],
            "+2",
        );
        check(&[], &[(0, "a", Stopping)], "");
    }

    #[test]
    fn who_is_not_ready_goes_first() {
        let instances = [(0, "a", Coming), (1, "a", Settled), (2, "a", Settled)];
        check(&[wanted(2, "a")], &instances, "-0");
        check(&[wanted(1, "a")], &instances, "-2 -0");
    }

    #[test]
    fn a_change_takes_one_more_at_a_time() {
        let to = [wanted(2, "b")];
        check(&to, &[(0, "a", Settled), (1, "a", Settled)], "+2");
        let coming = [(0, "a", Settled), (1, "a", Settled), (2, "b", Coming)];
        check(&to, &coming, "");
        let ready = [(0, "a", Settled), (1, "a", Settled), (2, "b", Settled)];
        check(&to, &ready, "-1");
        let going = [(0, "a", Settled), (1, "a", Stopping), (2, "b", Settled)];
        check(&to, &going, "+3");
        let last = [(0, "a", Settled), (2, "b", Settled), (3, "b", Settled)];
        check(&to, &last, "-0");
        check(&to, &[(2, "b", Settled), (3, "b", Settled)], "");
    }

    #[test]
    fn the_next_change_goes_back_to_the_first_place() {
        check(&[wanted(1, "b")], &[(0, "a", Settled)], "+1");
        check(&[wanted(1, "c")], &[(1, "b", Settled)], "+0");
    }

    #[test]
    fn an_unready_new_one_keeps_the_old_until_it_is_itself_old() {
        let stuck = [(0, "a", Settled), (1, "b", Coming)];
        check(&[wanted(1, "b")], &stuck, "");
        check(&[wanted(1, "c")], &stuck, "-1");
        check(&[wanted(1, "a")], &stuck, "-1");
    }

    #[test]
    fn a_change_may_come_with_another_number() {
        check(&[wanted(3, "b")], &[(0, "a", Settled)], "+1 +2 +3");
        let three = [(0, "a", Settled), (1, "a", Settled), (2, "a", Settled)];
        check(&[wanted(1, "b")], &three, "-1 -2");
        check(&[wanted(0, "b")], &three[..2], "-0 -1");
    }

    #[test]
    fn what_must_not_run_twice_ends_before_it_begins() {
        let to = [Wanted {
            recreate: true,
            ..wanted(1, "b")
        }];
        check(&to, &[(0, "a", Settled)], "-0");
        check(&to, &[(0, "a", Stopping)], "");
        check(&to, &[], "+0");
        check(&to, &[(0, "b", Coming)], "");
    }

    #[test]
    fn limits_change_in_place() {
        let limits = Limits {
            cpu_millis: Some(200),
            memory_bytes: None,
        };
        let to = [Wanted {
            limits: [Limits::default(), limits],
            ..wanted(1, "a")
        }];
        check(&to, &[(0, "a", Settled), (1, "a", Stopping)], "=0");
    }

    #[test]
    fn a_restart_replaces_what_has_not_changed() {
        let mut to = wanted(1, "a");
        to.revision.generation = 1;
        check(&[to], &[(0, "a", Settled)], "+1");
    }
}
