//! Medians of paired ratios with their interval. Pure arithmetic, used by `outcome`.
//! The interval comes from order statistics (the sign test): it assumes no distribution, and the
//! same figures always give the same interval.

use serde::Serialize;

/// The median of some figures with the interval that holds the true median.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The middle figure, or the mean of the two middle ones.
    pub median: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How sure the interval is, 0 to 1; below 0.95 when there are fewer than six figures.
    pub confidence: f64,
    /// How many figures there were.
    pub count: usize,
}

impl Interval {
    /// The interval of at least 95 % where `figures` suffice, else of their whole range.
    ///
    /// Returns `None` without figures.
    pub fn of(figures: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.iter().copied().filter(|f| f.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        if count == 0 {
            return None;
        }
        let cut = cut(count);
        Some(Self {
            median: (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0,
            low: sorted[cut],
            high: sorted[count - 1 - cut],
            confidence: 1.0 - 2.0 * tail(count, cut),
            count,
        })
    }
}

/// How many figures may be cut from each end while 95 % confidence remains.
fn cut(count: usize) -> usize {
    (0..count.div_ceil(2))
        .take_while(|&cut| 2.0 * tail(count, cut) <= 0.05)
        .last()
        .unwrap_or(0)
}

/// Chance that at most `cut` of `count` fair coins show heads.
fn tail(count: usize, cut: usize) -> f64 {
    let mut term = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut sum = term;
    for heads in 1..=cut {
        term *= (count - heads + 1) as f64 / heads as f64;
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(count: u32, low: f64, high: f64) -> Interval {
        let figures: Vec<f64> = (1..=count).rev().map(f64::from).collect();
        let interval = Interval::of(&figures).unwrap();
        assert_eq!((interval.low, interval.high), (low, high), "{interval:?}");
        interval
    }

    #[test]
    fn agrees_with_the_published_ranks_of_the_sign_test() {
        // Ranks for 95 % as printed in tables of nonparametric statistics.
        check(6, 1.0, 6.0);
        check(8, 1.0, 8.0);
        check(9, 2.0, 8.0);
        check(10, 2.0, 9.0);
        check(15, 4.0, 12.0);
        check(20, 6.0, 15.0);
    }

    #[test]
    fn says_how_sure_it_is() {
        assert!((check(10, 2.0, 9.0).confidence - 0.978_515_625).abs() < 1e-12);
        assert!((check(3, 1.0, 3.0).confidence - 0.75).abs() < 1e-12);
    }

    #[test]
    fn the_median_of_an_even_count_is_the_middle_of_two() {
        assert_eq!(Interval::of(&[4.0, 1.0, 3.0, 2.0]).unwrap().median, 2.5);
    }

    #[test]
    fn nothing_has_no_interval() {
        assert_eq!(Interval::of(&[]), None);
        assert_eq!(Interval::of(&[f64::NAN]), None);
    }
}
