//! Medians, and bootstrap intervals of the median ratio of paired rounds. Pure.

/// A small generator (xorshift); good enough to shuffle and resample.
pub struct Dice(u64);

impl Dice {
    /// From any seed.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }

    /// A random order of `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// The middle of `values`, which must not be empty.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[half]
    } else {
        (sorted[half - 1] + sorted[half]) / 2.0
    }
}

/// The median of `a/b` round by round, and the bounds of its 95 % bootstrap interval.
pub fn ratio(a: &[f64], b: &[f64], dice: &mut Dice) -> (f64, f64, f64) {
    const RESAMPLES: usize = 4000;
    let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| a / b).collect();
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn: Vec<f64> = ratios
                .iter()
                .map(|_| ratios[dice.below(ratios.len())])
                .collect();
            median(&drawn)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    (
        median(&ratios),
        medians[RESAMPLES / 40],
        medians[RESAMPLES - 1 - RESAMPLES / 40],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_equal_ratios_is_a_point() {
        let bounds = ratio(&[2.0, 4.0, 6.0], &[1.0, 2.0, 3.0], &mut Dice::new(7));
        assert_eq!(bounds, (2.0, 2.0, 2.0));
    }
}
