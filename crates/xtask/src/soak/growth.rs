//! What the sidecars held, and whether that has a slope from rest to rest. Called by `soak`.

use std::fmt;

/// Memory may grow by this much from the end of the warm-up to the end: what bodies leave free but
/// scattered in malloc's arenas until those have their size. Half an hour makes some hundred
/// thousand connections and ten million requests: forty bytes left by each connection are more.
const GROWTH_KIB_MAX: u64 = 4 * 1024;
/// At rest no connection is open; one descriptor may be that of a scrape.
const GROWTH_DESCRIPTORS_MAX: u64 = 1;
/// A quarter of the time is to warm up: pools, allocator, sessions.
const WARM_UP_SHARE: usize = 4;
/// Fewer rests have no slope.
const POINTS_MIN: usize = 3;

/// What one process held.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// Anonymous memory: heap and stacks.
    pub(super) anonymous_kib: u64,
    /// Proportional set size: with the program's own pages.
    pub(super) total_kib: u64,
    pub(super) descriptors: u64,
}

/// What both sidecars held at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) outbound: Held,
    pub(super) inbound: Held,
}

/// One of the figures.
struct Measure {
    name: &'static str,
    limit: u64,
    of: fn(&Sample) -> u64,
}

const fn kib(name: &'static str, of: fn(&Sample) -> u64) -> Measure {
    let limit = GROWTH_KIB_MAX;
    Measure { name, limit, of }
}

const fn descriptors(name: &'static str, of: fn(&Sample) -> u64) -> Measure {
    let limit = GROWTH_DESCRIPTORS_MAX;
    Measure { name, limit, of }
}

const MEASURES: &[Measure] = &[
    kib("anonymous KiB of the outbound sidecar", |s| {
        s.outbound.anonymous_kib
    }),
    kib("anonymous KiB of the inbound sidecar", |s| {
        s.inbound.anonymous_kib
    }),
    kib("KiB of the outbound sidecar", |s| s.outbound.total_kib),
    kib("KiB of the inbound sidecar", |s| s.inbound.total_kib),
    descriptors("descriptors of the outbound sidecar", |s| {
        s.outbound.descriptors
    }),
    descriptors("descriptors of the inbound sidecar", |s| {
        s.inbound.descriptors
    }),
];

/// What grew from one rest to the next; none if there were too few.
pub(super) fn find(rests: &[Sample]) -> Option<Vec<String>> {
    let warm = &rests[rests.len().div_ceil(WARM_UP_SHARE)..];
    if warm.len() < POINTS_MIN {
        return None;
    }
    let grown = MEASURES.iter().filter_map(|measure| {
        let points: Vec<_> = warm.iter().map(|rest| (measure.of)(rest) as f64).collect();
        let growth = slope(&points) * (points.len() - 1) as f64;
        let (name, limit) = (measure.name, measure.limit);
        let text = || format!("{growth:.0} {name} more than after the warm-up (allowed: {limit})");
        (growth > limit as f64).then(text)
    });
    Some(grown.collect())
}

/// The median of the slopes between any two points (Theil and Sen), which one odd point does not
/// move.
fn slope(points: &[f64]) -> f64 {
    let mut slopes = Vec::new();
    for (to, end) in points.iter().enumerate() {
        for (from, start) in points[..to].iter().enumerate() {
            slopes.push((end - start) / (to - from) as f64);
        }
    }
    slopes.sort_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied().unwrap_or(0.0)
}

impl Sample {
    /// What the columns are.
    pub(super) const HEAD: &str = "anonymous KiB, all KiB, descriptors";

    pub(super) fn sides(&self) -> [(&'static str, Held); 2] {
        [("outbound", self.outbound), ("inbound", self.inbound)]
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (_, held) in self.sides() {
            let Held {
                anonymous_kib,
                total_kib,
                descriptors,
            } = held;
            write!(f, "{anonymous_kib:7} {total_kib:7} {descriptors:5}   ")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kib: &[u64], expected: Option<usize>) {
        let rest = |anonymous_kib: &u64| Sample {
            outbound: Held {
                anonymous_kib: *anonymous_kib,
                ..Held::default()
            },
            ..Sample::default()
        };
        let rests: Vec<_> = kib.iter().map(rest).collect();
        let grown = find(&rests);
        assert_eq!(grown.map(|grown| grown.len()), expected, "{kib:?}");
    }

    #[test]
    fn a_steady_rise_is_growth_and_one_peak_is_not() {
        check(&[9000, 9000, 9000], None);
        check(&[1000, 9000, 9010, 8990, 9000], Some(0));
        check(&[9000, 9000, 9000, 19_000, 9000, 9000], Some(0));
        check(&[1000, 4000, 7000, 10_000, 13_000], Some(1));
        check(&[9000, 5000, 4000, 3000, 2000], Some(0));
    }
}
