//! Which rate is tried next: twice as much while it is kept, half while it is not, then between the
//! highest that is kept and the lowest that is not; what is found must hold in most of its repeats.
//! Pure: the whole course follows from what was found at each rate, so that it can be gone on with.

use std::collections::BTreeMap;

/// Within what is searched, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The rate to begin with.
    pub(super) first: u32,
    /// Nothing is tried below it.
    pub(super) least: u32,
    /// Nothing is tried above it.
    pub(super) most: u32,
    /// The search ends when the next rate that is not kept is above by less than this share.
    pub(super) tolerance: f64,
    /// Repeats of the rate that is found.
    pub(super) repeats: usize,
}

/// What is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// One more repeat at this rate.
    Probe(u32),
    /// It is found; `None`: not even the least rate is kept.
    Done(Option<u32>),
}

/// What is known of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Most of its repeats kept it, and all were taken.
    Confirmed,
    /// So far it is kept.
    Kept,
    /// Another repeat has to tell.
    Open,
    /// It cannot be kept in most of its repeats any more.
    GivenUp,
}

/// The next step, from whether each repeat at each rate kept the objective.
pub(super) fn next(bounds: &Bounds, tried: &BTreeMap<u32, Vec<bool>>) -> Step {
    let standing = |repeats: &Vec<bool>| standing(repeats, bounds.repeats);
    let open = tried.iter().find(|it| standing(it.1) == Standing::Open);
    if let Some((&rate, _)) = open {
        return Step::Probe(rate);
    }
    let high = given_up(bounds, tried);
    let below = |rate: u32| high.is_none_or(|high| rate < high);
    let kept = tried.iter().rev();
    let low = kept.map(|(&rate, _)| rate).find(|&rate| below(rate));
    let between = match (low, high) {
        (None, None) => Some(bounds.first.clamp(bounds.least, bounds.most)),
        (Some(low), None) => (low < bounds.most).then(|| low.saturating_mul(2).min(bounds.most)),
        (None, Some(high)) if high <= bounds.least => return Step::Done(None),
        (None, Some(high)) => Some((high / 2).max(bounds.least)),
        (Some(low), Some(high)) => middle(low, high, bounds.tolerance),
    };
    match (between, low) {
        (Some(rate), _) => Step::Probe(rate),
        (None, Some(low)) if standing(&tried[&low]) != Standing::Confirmed => Step::Probe(low),
        (None, found) => Step::Done(found),
    }
}

/// The lowest rate that is not kept.
pub(super) fn given_up(bounds: &Bounds, tried: &BTreeMap<u32, Vec<bool>>) -> Option<u32> {
    let is_given_up = |repeats: &[bool]| standing(repeats, bounds.repeats) == Standing::GivenUp;
    let mut rates = tried.iter().filter(|(_, repeats)| is_given_up(repeats));
    rates.next().map(|(&rate, _)| rate)
}

fn standing(repeats: &[bool], wanted: usize) -> Standing {
    let kept = repeats.iter().filter(|&&kept| kept).count();
    let missed = repeats.len() - kept;
    let most = wanted / 2 + 1;
    match () {
        () if missed > wanted - most => Standing::GivenUp,
        () if repeats.len() >= wanted => Standing::Confirmed,
        () if kept > missed => Standing::Kept,
        () => Standing::Open,
    }
}

/// A rate of three digits between both, by ratio; none where they are close enough.
fn middle(low: u32, high: u32, tolerance: f64) -> Option<u32> {
    let (below, above) = (f64::from(low), f64::from(high));
    if above <= below * (1.0 + tolerance) {
        return None;
    }
    let exact = (below * above).sqrt();
    let digit = 10_f64.powf((exact.log10().floor() - 2.0).max(0.0));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between two numbers of this type"
    )]
    let rounded = ((exact / digit).round() * digit) as u32;
    (low < rounded && rounded < high).then_some(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        first: 1000,
        least: 200,
        most: 100_000,
        tolerance: 0.05,
        repeats: 3,
    };

    /// Searches with a target of which is known whether it keeps a rate in a repeat.
    fn search(bounds: Bounds, keeps: impl Fn(u32, usize) -> bool) -> (Option<u32>, Vec<u32>) {
        let (mut tried, mut course) = (BTreeMap::<u32, Vec<bool>>::new(), Vec::new());
        loop {
            match next(&bounds, &tried) {
                Step::Done(found) => return (found, course),
                Step::Probe(rate) => {
                    assert!(course.len() < 100, "{course:?}");
                    course.push(rate);
                    let repeats = tried.entry(rate).or_default();
                    repeats.push(keeps(rate, repeats.len()));
                }
            }
        }
    }

    #[test]
    fn the_highest_rate_is_found_within_the_tolerance_and_repeated() {
        let (found, course) = search(BOUNDS, |rate, _| rate <= 5_300);
        let found = found.unwrap();
        assert!((5_040..=5_300).contains(&found), "{course:?}");
        assert_eq!(course[..4], [1000, 2000, 4000, 8000]);
        assert_eq!(course.iter().filter(|&&rate| rate == found).count(), 3);
    }

    #[test]
    fn a_first_rate_that_is_too_high_is_halved() {
        let (found, course) = search(BOUNDS, |rate, _| rate <= 300);
        assert!((285..=300).contains(&found.unwrap()), "{course:?}");
        assert_eq!(course[..4], [1000, 1000, 500, 500]);
    }

    #[test]
    fn nothing_is_found_where_the_least_is_too_much() {
        assert_eq!(search(BOUNDS, |_, _| false).0, None);
    }

    #[test]
    fn the_most_is_found_where_everything_is_kept() {
        assert_eq!(search(BOUNDS, |_, _| true).0, Some(100_000));
    }

    #[test]
    fn one_bad_repeat_does_not_end_the_climb() {
        let (found, _) = search(BOUNDS, |rate, repeat| rate <= 5_300 && repeat != 0);
        assert!((5_040..=5_300).contains(&found.unwrap()));
    }

    #[test]
    fn a_rate_that_held_once_only_is_given_up() {
        let holds = |rate, repeat| rate <= 3_000 || (rate <= 5_300 && repeat == 0);
        let (found, course) = search(BOUNDS, holds);
        assert!((2_850..=3_000).contains(&found.unwrap()), "{course:?}");
    }

    #[test]
    fn with_a_single_repeat_each_rate_is_tried_once() {
        let once = Bounds {
            repeats: 1,
            ..BOUNDS
        };
        let (found, mut course) = search(once, |rate, _| rate <= 5_300);
        assert!(found.is_some());
        let probes = course.len();
        course.sort_unstable();
        course.dedup();
        assert_eq!(course.len(), probes);
    }
}
