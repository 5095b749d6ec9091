//! Axes: where a value lies and which ticks a reader sees. Pure arithmetic, called by `plot`.

use super::number;

/// From this ratio of the greatest to the least value on, a linear axis hides the small ones.
const LOG_FROM_RATIO: f64 = 40.0;
const TICKS_MAX: f64 = 6.0;

/// A labelled place on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// Maps values to pixels.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) ticks: Vec<Tick>,
    /// Equal ratios are equal distances.
    pub(crate) logarithmic: bool,
    range: (f64, f64),
    pixels: (f64, f64),
}

impl Axis {
    /// An axis for measured values: linear from zero, or logarithmic where they span too much.
    pub(crate) fn of_values(values: &[f64], pixels: (f64, f64)) -> Self {
        let high = values.iter().copied().fold(0.0, f64::max);
        let positive = values.iter().copied().filter(|v| *v > 0.0);
        let low = positive.fold(f64::INFINITY, f64::min);
        if low.is_finite() && high / low > LOG_FROM_RATIO {
            Self::logarithmic(low, high, pixels)
        } else {
            Self::linear(high, pixels)
        }
    }

    /// An axis with a tick at each of the given settings, an octave apart where they double.
    pub(crate) fn of_settings(settings: &[f64], pixels: (f64, f64)) -> Self {
        let low = settings.iter().copied().fold(f64::INFINITY, f64::min);
        let high = settings.iter().copied().fold(0.0, f64::max);
        let ticks = settings
            .iter()
            .map(|&value| Tick {
                value,
                label: number::grouped(value),
            })
            .collect();
        let (low, high) = if low.is_finite() {
            (low, high)
        } else {
            (1.0, 1.0)
        };
        // A lone setting sits in the middle.
        let range = if low < high {
            (low, high)
        } else {
            (low / 2.0, low * 2.0)
        };
        Self {
            ticks,
            logarithmic: true,
            range,
            pixels,
        }
    }

    /// An axis from zero with round ticks, on which equal differences are equal distances.
    pub(crate) fn linear(high: f64, pixels: (f64, f64)) -> Self {
        Self::signed(&[high], pixels)
    }

    /// The same for differences: what is below zero has its place, too.
    pub(crate) fn signed(values: &[f64], pixels: (f64, f64)) -> Self {
        let high = values.iter().copied().fold(0.0, f64::max);
        let low = values.iter().copied().fold(0.0, f64::min);
        let high = if high > low { high } else { 1.0 };
        let step = nice_step((high - low) / (TICKS_MAX - 1.0));
        let first = (low / step + 1e-9).floor() as i32;
        let last = (high / step - 1e-9).ceil() as i32;
        let decimals = decimals(step);
        let ticks = (first..=last)
            .map(|index| f64::from(index) * step)
            .map(|value| Tick {
                value,
                label: number::fixed(value, decimals),
            })
            .collect();
        Self {
            ticks,
            logarithmic: false,
            range: (f64::from(first) * step, f64::from(last) * step),
            pixels,
        }
    }

    fn logarithmic(low: f64, high: f64, pixels: (f64, f64)) -> Self {
        let decades = (high / low).log10();
        let factors: &[f64] = if decades <= 2.5 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let first = low.log10().floor() as i32;
        let last = high.log10().ceil() as i32;
        let marks = (first..=last).flat_map(|exponent| {
            factors
                .iter()
                .map(move |factor| factor * 10_f64.powi(exponent))
        });
        let marks: Vec<f64> = marks.collect();
        let below = marks
            .iter()
            .copied()
            .filter(|m| *m <= low * 1.0001)
            .fold(0.0, f64::max);
        let above = marks.iter().copied().filter(|m| *m >= high * 0.9999);
        let above = above.fold(f64::INFINITY, f64::min);
        let ticks = marks
            .into_iter()
            .filter(|mark| (below..=above).contains(mark))
            .map(|value| Tick {
                value,
                label: number::fixed(value, decimals(value)),
            })
            .collect();
        Self {
            ticks,
            logarithmic: true,
            range: (below, above),
            pixels,
        }
    }

    /// The pixel of a value; values off the range are held at its ends.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let (low, high) = self.range;
        let part = if self.logarithmic {
            (value.max(f64::MIN_POSITIVE) / low).log2() / (high / low).log2()
        } else {
            (value - low) / (high - low)
        };
        self.pixels.0 + part.clamp(0.0, 1.0) * (self.pixels.1 - self.pixels.0)
    }
}

/// The least of 1, 2, 5 times a power of ten that is not below `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps
        .into_iter()
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// Decimals that tell multiples of `step` apart.
fn decimals(step: f64) -> usize {
    (-(step.log10() + 1e-9).floor()).max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    fn check(values: &[f64], expected: &[&str]) {
        assert_eq!(
            labels(&Axis::of_values(values, (0.0, 1.0))),
            expected,
            "{values:?}"
        );
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        check(&[0.31, 0.47], &["0.0", "0.1", "0.2", "0.3", "0.4", "0.5"]);
        check(&[3.0, 7.9], &["0", "2", "4", "6", "8"]);
        check(&[12.0, 100.0], &["0", "20", "40", "60", "80", "100"]);
        check(&[900.0, 1201.0], &["0", "500", "1,000", "1,500"]);
        check(
            &[0.002],
            &["0.0000", "0.0005", "0.0010", "0.0015", "0.0020"],
        );
        check(&[], &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    }

    #[test]
    fn what_is_below_zero_has_its_place() {
        let axis = Axis::signed(&[-0.4, 2.0], (0.0, 1.0));
        assert_eq!(labels(&axis), ["−0.5", "0.0", "0.5", "1.0", "1.5", "2.0"]);
        assert!((axis.at(0.0) - 0.2).abs() < 1e-9);
    }

    #[test]
    fn a_wide_span_is_logarithmic() {
        check(
            &[0.3, 45.0],
            &["0.2", "0.5", "1", "2", "5", "10", "20", "50"],
        );
        check(
            &[0.5, 4000.0],
            &["0.1", "1", "10", "100", "1,000", "10,000"],
        );
        assert!(Axis::of_values(&[0.3, 45.0], (0.0, 1.0)).logarithmic);
    }

    #[test]
    fn settings_that_double_are_equally_far_apart() {
        let axis = Axis::of_settings(&[2.0, 4.0, 8.0, 16.0, 32.0, 64.0], (0.0, 500.0));
        let places: Vec<f64> = axis.ticks.iter().map(|tick| axis.at(tick.value)).collect();
        assert_eq!(places, [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]);
        assert_eq!(labels(&axis), ["2", "4", "8", "16", "32", "64"]);
    }

    #[test]
    fn a_lone_setting_is_in_the_middle() {
        let axis = Axis::of_settings(&[16.0], (0.0, 100.0));
        assert!((axis.at(16.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_value_off_the_axis_stays_on_paper() {
        let axis = Axis::of_values(&[1.0], (100.0, 0.0));
        assert_eq!((axis.at(-1.0), axis.at(9.0)), (100.0, 0.0));
    }
}
