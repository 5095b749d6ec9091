//! Ratios between contestants, paired by round, and how they stand to what the project promises.
//! Called by `cost` when all rounds are over. Pure.

use serde::Serialize;

use super::contestant::{Contestant, Topology};
use super::interval::Interval;
use super::outcome::{Latency, Outcome, Row};

/// Below this confidence there is no verdict: too few rounds.
const CONFIDENCE_MIN: f64 = 0.95;
/// Pairs that a verdict takes.
const PAIRS_MIN: usize = 10;

/// One contestant's figure over that of another, round by round.
#[derive(Debug, Clone, Serialize)]
pub struct Ratio {
    /// In what topology.
    pub topology: Topology,
    /// Whose figure it is.
    pub contestant: Contestant,
    /// Against whom.
    pub against: Against,
    /// Of what.
    pub figure: Figure,
    /// The ratio over all rounds.
    pub interval: Interval,
    /// What it must not exceed, where the project has promised something.
    pub limit: Option<f64>,
    /// How the interval stands to the limit.
    pub verdict: Option<Verdict>,
}

/// The other side of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// The bare relay, or two of them.
    Floor,
    /// nginx or HAProxy, whichever is cheaper over all rounds.
    BetterOfNginxAndHaproxy,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// CPU time per request.
    Cpu,
    /// What is added to the median latency.
    AddedP50,
}

/// How an interval stands to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval is within.
    Met,
    /// The whole interval is beyond.
    Missed,
    /// The limit lies inside the interval, or a rival or a round is missing: a fuller run would
    /// tell.
    Open,
    /// Fewer than ten pairs.
    TooFewRounds,
}

impl Against {
    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::BetterOfNginxAndHaproxy => "better of nginx, haproxy",
        }
    }
}

impl Figure {
    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU per request",
            Self::AddedP50 => "added P50",
        }
    }
}

impl Verdict {
    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::Open => "open",
            Self::TooFewRounds => "too few rounds",
        }
    }

    fn of(interval: Interval, limit: f64) -> Self {
        match interval {
            _ if interval.count < PAIRS_MIN || interval.confidence < CONFIDENCE_MIN => {
                Self::TooFewRounds
            }
            _ if interval.high <= limit => Self::Met,
            _ if interval.low > limit => Self::Missed,
            _ => Self::Open,
        }
    }
}

/// Every ratio that the outcome's figures allow.
pub(crate) fn all(outcome: &Outcome) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for topology in Topology::ALL {
        let row = |contestant| {
            let mut rows = outcome.rows.iter();
            rows.find(|row| row.contestant == contestant && row.topology == topology)
        };
        for contestant in Contestant::ALL
            .into_iter()
            .filter(|c| *c != Contestant::Floor)
        {
            let Some((over, floor)) = row(contestant).zip(row(Contestant::Floor)) else {
                continue;
            };
            let key = (topology, contestant, Against::Floor, Figure::Cpu);
            ratios.extend(ratio(key, &costs(over), &costs(floor)));
        }
        let rivals: Vec<&Row> = [Contestant::Nginx, Contestant::Haproxy]
            .into_iter()
            .filter_map(row)
            .collect();
        if let Some((leno, rival)) = row(Contestant::Leno).zip(cheapest(&rivals)) {
            let against = Against::BetterOfNginxAndHaproxy;
            let key = (topology, Contestant::Leno, against, Figure::Cpu);
            let mut found = ratio(key, &costs(leno), &costs(rival));
            if rivals.len() < 2 {
                // The better one may be the one that is not here.
                let met = found.iter_mut().filter(|r| r.verdict == Some(Verdict::Met));
                met.for_each(|ratio| ratio.verdict = Some(Verdict::Open));
            }
            ratios.extend(found);
        }
        ratios.extend(added(outcome, topology));
    }
    ratios
}

fn added(outcome: &Outcome, topology: Topology) -> Vec<Ratio> {
    let here = || {
        outcome
            .latencies
            .iter()
            .filter(|latency| latency.topology == topology)
    };
    let is_floor = |latency: &&Latency| latency.contestant == Contestant::Floor;
    let Some(floor) = here().find(is_floor) else {
        return Vec::new();
    };
    let of = |latency: &Latency| {
        let key = (
            topology,
            latency.contestant,
            Against::Floor,
            Figure::AddedP50,
        );
        ratio(key, &latency.added_micros, &floor.added_micros)
    };
    here()
        .filter(|latency| !is_floor(latency))
        .filter_map(of)
        .collect()
}

fn ratio(
    (topology, contestant, against, figure): (Topology, Contestant, Against, Figure),
    over: &[f64],
    under: &[f64],
) -> Option<Ratio> {
    // Noise may make an added latency negative; such a round says nothing about a ratio.
    let pairs = over.iter().zip(under).filter(|(_, under)| **under > 0.0);
    let pairs: Vec<f64> = pairs.map(|(over, under)| over / under).collect();
    let interval = Interval::of(&pairs)?;
    let limit = limit(topology, contestant, against, figure);
    let verdict = limit.map(|limit| match interval.count == over.len() {
        true => Verdict::of(interval, limit),
        // A round that was left out could lie on either side.
        false => Verdict::Open,
    });
    Some(Ratio {
        topology,
        contestant,
        against,
        figure,
        interval,
        limit,
        verdict,
    })
}

/// What Leno must not exceed.
fn limit(
    topology: Topology,
    contestant: Contestant,
    against: Against,
    figure: Figure,
) -> Option<f64> {
    match (contestant, topology, against, figure) {
        (Contestant::Leno, Topology::Plain, Against::Floor, Figure::Cpu) => Some(1.18),
        (Contestant::Leno, Topology::Mtls, Against::Floor, Figure::Cpu) => Some(1.35),
        (Contestant::Leno, Topology::Plain, Against::BetterOfNginxAndHaproxy, _) => Some(0.95),
        (Contestant::Leno, Topology::Mtls, Against::BetterOfNginxAndHaproxy, _) => Some(0.75),
        (Contestant::Leno, Topology::Mtls, Against::Floor, Figure::AddedP50) => Some(1.4),
        _ => None,
    }
}

/// The row with the lowest median: one rival for all rounds, not the luckiest of each.
fn cheapest<'a>(rows: &[&'a Row]) -> Option<&'a Row> {
    let median = |row: &Row| Interval::of(&costs(row)).map_or(f64::INFINITY, |cost| cost.median);
    rows.iter()
        .copied()
        .min_by(|a, b| median(a).total_cmp(&median(b)))
}

fn costs(row: &Row) -> Vec<f64> {
    row.windows.iter().map(|window| window.cpu_micros).collect()
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{Setting, Window};
    use super::*;

    fn ratios(costs: &[(Contestant, &[f64])]) -> Vec<Ratio> {
        let mut outcome = Outcome::new(Setting::default());
        for (contestant, costs) in costs {
            let mut row = Row::new(*contestant, Topology::Plain);
            let window = |&cpu_micros| Window {
                cpu_micros,
                ..Window::default()
            };
            row.windows = costs.iter().map(window).collect();
            outcome.rows.push(row);
        }
        all(&outcome)
    }

    fn verdict(count: usize, low: f64, high: f64) -> Verdict {
        let interval = Interval {
            median: low,
            low,
            high,
            confidence: 0.98,
            count,
        };
        Verdict::of(interval, 1.18)
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The machine slowed down threefold in the last round; the ratio did not move.
        let ratios = ratios(&[
            (Contestant::Floor, &[10.0, 11.0, 30.0]),
            (Contestant::Leno, &[12.0, 13.2, 36.0]),
        ]);
        let interval = ratios[0].interval;
        assert!((interval.low - 1.2).abs() < 1e-9 && (interval.high - 1.2).abs() < 1e-9);
    }

    #[test]
    fn the_rival_is_the_one_that_is_better_over_all_rounds() {
        let ratios = ratios(&[
            (Contestant::Leno, &[10.0, 10.0, 10.0]),
            (Contestant::Haproxy, &[20.0, 20.0, 8.0]),
            (Contestant::Nginx, &[16.0, 16.0, 16.0]),
        ]);
        assert_eq!(ratios[0].against, Against::BetterOfNginxAndHaproxy);
        assert!((ratios[0].interval.median - 10.0 / 16.0).abs() < 1e-9);
    }

    #[test]
    fn without_a_floor_there_is_no_ratio_to_it() {
        assert!(ratios(&[(Contestant::Nginx, &[1.0])]).is_empty());
    }

    #[test]
    fn the_whole_interval_decides() {
        assert_eq!(verdict(10, 1.10, 1.17), Verdict::Met);
        assert_eq!(verdict(10, 1.10, 1.19), Verdict::Open);
        assert_eq!(verdict(10, 1.19, 1.30), Verdict::Missed);
        assert_eq!(verdict(9, 1.10, 1.17), Verdict::TooFewRounds);
    }
}
