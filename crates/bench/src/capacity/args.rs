//! The options of `leno bench capacity`: those of every grid, and what is to be kept.

use crate::options;
use crate::results::Objective;

/// Of the search, unless told otherwise.
const TOLERANCE: f64 = 0.05;

/// Of the quick one.
const QUICK_TOLERANCE: f64 = 0.15;

/// Options of `leno bench capacity`.
#[derive(Debug, Clone, Default, clap::Args)]
// The group of the options below has this name already.
#[group(skip)]
pub struct Args {
    /// Latency that is to be kept: p50, p90, p99 or p99.9, and milliseconds [default: p99=5]
    #[arg(long, value_name = "WHAT=MS", value_parser = parse_bound, conflicts_with = "resume")]
    pub objective: Option<Bound>,
    /// How close the search comes, in percent [default: 5]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, conflicts_with = "resume")]
    pub tolerance: Option<f64>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap reads documentation of flattened fields")]
    pub common: options::Args,
}

/// A percentile, 0 to 1, and its bound in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    quantile: f64,
    millis: f64,
}

impl Args {
    pub(super) fn objective(&self) -> Objective {
        let bound = self.objective.unwrap_or(Bound {
            quantile: 0.99,
            millis: 5.0,
        });
        Objective {
            quantile: bound.quantile,
            millis: bound.millis,
            tolerance: match self.common.quick {
                true => self.tolerance.unwrap_or(QUICK_TOLERANCE),
                false => self.tolerance.unwrap_or(TOLERANCE),
            },
        }
    }
}

fn parse_bound(text: &str) -> Result<Bound, String> {
    let parsed = text.split_once('=').and_then(|(percentile, bound)| {
        let quantile = match percentile {
            "p50" => 0.5,
            "p90" => 0.9,
            "p99" => 0.99,
            "p99.9" => 0.999,
            _ => return None,
        };
        let millis = bound.strip_suffix("ms").unwrap_or(bound).parse().ok()?;
        Some(Bound { quantile, millis })
    });
    let sound = parsed.filter(|bound| bound.millis.is_finite() && bound.millis > 0.0);
    sound.ok_or_else(|| "use p50, p90, p99 or p99.9 and milliseconds, e.g. p99=5".to_owned())
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    match number {
        Ok(percent) if (0.5..=50.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("use a percentage from 0.5 to 50".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_a_percentile_and_milliseconds() {
        let bound = |quantile, millis| Ok(Bound { quantile, millis });
        assert_eq!(parse_bound("p99=5"), bound(0.99, 5.0));
        assert_eq!(parse_bound("p99.9=12.5ms"), bound(0.999, 12.5));
        for text in ["p99", "p98=5", "p99=0", "p99=fast", "5"] {
            assert!(parse_bound(text).is_err(), "{text}");
        }
        assert!(parse_percent("0").is_err());
    }
}
