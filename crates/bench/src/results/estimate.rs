//! Figures with their intervals: a percentile bootstrap over a cell's repeats. Pure, and the same
//! repeats always give the same interval. Up to five repeats every resample is counted with its
//! probability, and the interval is the range of the repeats, since a bootstrap of so few
//! is too narrow; beyond, a fixed seed draws them. Called by `metric` and by every output.

use std::cmp::Ordering;

use hdrhistogram::Histogram;

use super::random::SplitMix;

/// How sure an interval is meant to be.
const CONFIDENCE: f64 = 0.95;
/// Up to this many repeats all resamples are counted: of five there are 126.
pub const COUNTED_MAX: usize = 5;
/// Resamples drawn beyond that.
const DRAWN: u32 = 500;
const SEED: u64 = 0x1e90;

/// A figure, its interval, and how many repeats are behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// A median over repeats, or a percentile of their pooled histograms.
    pub value: f64,
    /// Lower end; the value itself with a single repeat.
    pub low: f64,
    /// Upper end; the value itself with a single repeat.
    pub high: f64,
    /// Repeats.
    pub repeats: usize,
}

impl Estimate {
    /// The ends; `None` with a single repeat, which says nothing about its spread.
    pub fn interval(&self) -> Option<(f64, f64)> {
        (self.repeats > 1).then_some((self.low, self.high))
    }

    /// How it stands to another one where the two intervals part; `None` where they do not, or
    /// where one of the two is a single repeat.
    pub fn against(&self, other: &Self) -> Option<Ordering> {
        let (mine, theirs) = (self.interval()?, other.interval()?);
        match (mine.1 < theirs.0, mine.0 > theirs.1) {
            (true, _) => Some(Ordering::Less),
            (_, true) => Some(Ordering::Greater),
            _ => None,
        }
    }

    /// In another unit.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
            ..self
        }
    }
}

/// A figure with what it would have been in each resample of its repeats.
#[derive(Debug, Clone)]
pub struct Resampled {
    value: f64,
    /// Figures of resamples with their weights, which sum up to one.
    draws: Vec<(f64, f64)>,
    repeats: usize,
}

impl Resampled {
    /// The median of one value per repeat; `None` without repeats.
    pub fn median(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let value = median(&sorted, &vec![1; sorted.len()])?;
        let draw = |pick: &Pick| Some((median(&sorted, &pick.times)?, pick.weight));
        let draws = picks(sorted.len()).iter().filter_map(draw).collect();
        Some(Self {
            value,
            draws,
            repeats: sorted.len(),
        })
    }

    /// A percentile of the repeats' histograms together, `quantile` from 0 to 1; `None` without a
    /// sample. Whether there are enough samples is up to the caller.
    pub fn percentile(histograms: &[&Histogram<u64>], quantile: f64) -> Option<Self> {
        let recorded = Recorded::of(histograms);
        let value = recorded.percentile(&vec![1; histograms.len()], quantile)?;
        let draw = |pick: &Pick| Some((recorded.percentile(&pick.times, quantile)?, pick.weight));
        let draws = picks(histograms.len()).iter().filter_map(draw).collect();
        Some(Self {
            value,
            draws,
            repeats: histograms.len(),
        })
    }

    /// What this is above `other`, resampled independently of it.
    #[must_use]
    pub fn above(&self, other: &Self) -> Self {
        let pair = |&(mine, weight): &(f64, f64)| {
            let theirs = other.draws.iter();
            theirs.map(move |&(theirs, other)| (mine - theirs, weight * other))
        };
        Self {
            value: self.value - other.value,
            draws: self.draws.iter().flat_map(pair).collect(),
            repeats: self.repeats.min(other.repeats),
        }
    }

    /// In another unit.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        self.value *= factor;
        self.draws.iter_mut().for_each(|draw| draw.0 *= factor);
        self
    }

    /// The figure with its interval.
    pub fn estimate(&self) -> Estimate {
        let mut draws = self.draws.clone();
        draws.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Of few repeats each is a resample of its own, so that the ends are their range.
        let tail = match self.repeats <= COUNTED_MAX {
            true => 0.0,
            false => (1.0 - CONFIDENCE) / 2.0,
        };
        let (low, high) = (quantile(&draws, tail), quantile(&draws, 1.0 - tail));
        Estimate {
            value: self.value,
            low: low.unwrap_or(self.value).min(self.value),
            high: high.unwrap_or(self.value).max(self.value),
            repeats: self.repeats,
        }
    }
}

/// The draw below which this share of the weight lies.
fn quantile(sorted: &[(f64, f64)], share: f64) -> Option<f64> {
    let mut below = 0.0;
    let reached = sorted.iter().find(|(_, weight)| {
        below += weight;
        // The weights' sum is inexact.
        below >= share - 1e-9
    });
    reached.or_else(|| sorted.last()).map(|(value, _)| *value)
}

/// Which repeats a resample holds, how often each, and how likely that is.
struct Pick {
    times: Vec<u32>,
    weight: f64,
}

fn picks(repeats: usize) -> Vec<Pick> {
    if repeats > COUNTED_MAX {
        return drawn(repeats);
    }
    let mut picks = Vec::new();
    count_all(repeats, &mut Vec::new(), &mut picks);
    picks
}

/// Every way to give `repeats` places away among as many repeats.
fn count_all(repeats: usize, given: &mut Vec<u32>, picks: &mut Vec<Pick>) {
    let sum: u32 = given.iter().sum();
    let left = u32::try_from(repeats).unwrap_or(u32::MAX) - sum;
    if given.len() + 1 < repeats {
        for times in 0..=left {
            given.push(times);
            count_all(repeats, given, picks);
            given.pop();
        }
    } else if repeats > 0 {
        let mut times = given.clone();
        times.push(left);
        let weight = likelihood(&times);
        picks.push(Pick { times, weight });
    }
}

/// The multinomial distribution's, with equal chances.
fn likelihood(times: &[u32]) -> f64 {
    let factorial = |count: u32| (1..=count).map(f64::from).product::<f64>();
    let count: u32 = times.iter().sum();
    let ways = factorial(count) / times.iter().map(|&each| factorial(each)).product::<f64>();
    ways / f64::from(count).powf(f64::from(count))
}

fn drawn(repeats: usize) -> Vec<Pick> {
    let mut random = SplitMix::new(SEED);
    let mut draw = || {
        let mut times = vec![0; repeats];
        (0..repeats).for_each(|_| times[random.below(repeats)] += 1);
        Pick {
            times,
            weight: 1.0 / f64::from(DRAWN),
        }
    };
    (0..DRAWN).map(|_| draw()).collect()
}

/// The median of `sorted`, each taken so many times.
fn median(sorted: &[f64], times: &[u32]) -> Option<f64> {
    let count: u32 = times.iter().sum();
    let at = |place: u32| {
        let mut below = 0;
        let found = sorted.iter().zip(times).find(|&(_, &times)| {
            below += times;
            below > place
        });
        found.map(|(value, _)| *value)
    };
    Some(f64::midpoint(
        at(count.checked_sub(1)? / 2)?,
        at(count / 2)?,
    ))
}

/// The values that occur in some histograms, and how often in each.
struct Recorded {
    /// Ascending: the greatest value that counts as the same, and the count in each histogram.
    values: Vec<(u64, Vec<u64>)>,
}

impl Recorded {
    fn of(histograms: &[&Histogram<u64>]) -> Self {
        let mut values: std::collections::BTreeMap<u64, Vec<u64>> =
            std::collections::BTreeMap::new();
        for (index, histogram) in histograms.iter().enumerate() {
            for step in histogram.iter_recorded() {
                let value = histogram.highest_equivalent(step.value_iterated_to());
                let counts = values.entry(value);
                let counts = counts.or_insert_with(|| vec![0; histograms.len()]);
                counts[index] += step.count_at_value();
            }
        }
        Self {
            values: values.into_iter().collect(),
        }
    }

    /// As [`Histogram::value_at_quantile`] of the histograms added, each so many times.
    fn percentile(&self, times: &[u32], quantile: f64) -> Option<f64> {
        let count = |counts: &[u64]| -> u64 {
            let weighted = counts.iter().zip(times);
            weighted
                .map(|(count, &times)| count * u64::from(times))
                .sum()
        };
        let total: u64 = self.values.iter().map(|(_, counts)| count(counts)).sum();
        let wanted = (quantile * crate::units::count(total)).ceil().max(1.0);
        let mut below = 0;
        let reached = self.values.iter().find(|(_, counts)| {
            below += count(counts);
            crate::units::count(below) >= wanted
        });
        reached.map(|(value, _)| crate::units::count(*value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::pool;

    fn estimate(values: &[f64]) -> Estimate {
        Resampled::median(values.iter().copied())
            .unwrap()
            .estimate()
    }

    #[test]
    fn few_repeats_have_their_range_as_interval() {
        for values in [&[3.0, 1.0, 2.0][..], &[5.0, 1.0, 2.0, 4.0, 3.0]] {
            let found = estimate(values);
            let greatest = values.iter().copied().fold(0.0, f64::max);
            assert_eq!((found.low, found.high), (1.0, greatest), "{values:?}");
        }
    }

    #[test]
    fn so_have_their_percentiles() {
        let histogram = |value: u64| {
            let mut histogram = pool::empty();
            histogram.record_n(value, 1_000).unwrap();
            histogram
        };
        let all = [1_000, 2_000, 3_000, 4_000, 50_000].map(histogram);
        let each: Vec<&Histogram<u64>> = all.iter().collect();
        let found = Resampled::percentile(&each, 0.5).unwrap().estimate();
        let ends = [&all[0], &all[4]].map(|one| crate::units::count(one.max()));
        assert_eq!([found.low, found.high], ends);
    }

    #[test]
    fn many_repeats_have_a_narrower_one_and_always_the_same() {
        let values: Vec<f64> = (1..=40).map(f64::from).collect();
        let found = estimate(&values);
        assert_eq!(found.value, 20.5);
        assert!(found.low > 10.0 && found.high < 31.0, "{found:?}");
        assert_eq!(found, estimate(&values));
    }

    #[test]
    fn the_weights_of_all_resamples_sum_up_to_one() {
        for (repeats, ways) in [(1, 1), (2, 3), (3, 10), (5, 126)] {
            let picks = picks(repeats);
            let sum: f64 = picks.iter().map(|pick| pick.weight).sum();
            assert_eq!(picks.len(), ways);
            assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        }
    }

    #[test]
    fn a_pooled_percentile_is_that_of_the_added_histograms() {
        let histogram = |first: u64| {
            let mut histogram = pool::empty();
            (0..5_000).for_each(|step| histogram.record(first + step * 997).unwrap());
            histogram
        };
        let all = [histogram(1_000), histogram(90_000), histogram(7)];
        let mut added = pool::empty();
        all.iter().for_each(|one| added.add(one).unwrap());
        let each: Vec<&Histogram<u64>> = all.iter().collect();
        for quantile in [0.5, 0.9, 0.99] {
            let found = Resampled::percentile(&each, quantile).unwrap().estimate();
            let expected = crate::units::count(added.value_at_quantile(quantile));
            assert_eq!(found.value, expected);
            assert!(found.low <= expected && expected <= found.high);
            assert!(found.low < found.high);
        }
    }

    #[test]
    fn a_verdict_needs_intervals_that_part() {
        let low = estimate(&[1.0, 1.1, 1.2]);
        let near = estimate(&[1.2, 1.3, 1.4]);
        let high = estimate(&[1.5, 1.6, 1.7]);
        assert_eq!(low.against(&high), Some(Ordering::Less));
        assert_eq!(high.against(&low), Some(Ordering::Greater));
        assert_eq!(low.against(&near), None);
        assert_eq!(estimate(&[1.0]).against(&estimate(&[9.0])), None);
    }

    #[test]
    fn a_difference_is_as_uncertain_as_both() {
        let mine = Resampled::median([10.0, 11.0, 12.0]).unwrap();
        let theirs = Resampled::median([1.0, 2.0, 3.0]).unwrap();
        let above = mine.above(&theirs).estimate();
        assert_eq!((above.value, above.low, above.high), (9.0, 7.0, 11.0));
    }
}
