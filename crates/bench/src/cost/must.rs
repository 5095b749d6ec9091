//! What the project promises of Leno's ratios, and in which cells. Called by `ratio`; pure.

use serde::Serialize;

use super::cell::{Cell, Placement, Protocol, Topology};
use super::contestant::Contestant;
use super::interval::Interval;
use super::ratio::{Against, Figure};

/// Below this confidence there is no verdict: too few rounds.
const CONFIDENCE_MIN: f64 = 0.95;
/// Pairs that a verdict takes.
const PAIRS_MIN: usize = 10;

/// A bound of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Must {
    /// Where less is better.
    AtMost(f64),
    /// Where more is better.
    AtLeast(f64),
}

/// How an interval stands to a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval is within.
    Met,
    /// The whole interval is beyond.
    Missed,
    /// The bound lies inside the interval, or a rival or a round is missing: a fuller run would
    /// tell.
    Open,
    /// Fewer than ten pairs.
    TooFewRounds,
}

impl Must {
    /// The promise about a ratio in `cell`, where there is one.
    pub(crate) fn of(
        cell: &Cell,
        contestant: Contestant,
        against: Against,
        figure: Figure,
    ) -> Option<Self> {
        match figure {
            Figure::Cpu if cell.is_bulk() => None,
            Figure::Cpu => cpu(cell, contestant, against),
            Figure::BytesPerCpuSecond => bytes(cell, contestant, against),
            Figure::AddedP50 => added(cell, contestant, against),
            Figure::AddedP99 | Figure::LossyP50 | Figure::LossyP99 | Figure::MixedP99 => None,
        }
    }

    /// How `interval` stands to it.
    pub(crate) fn judge(self, interval: Interval) -> Verdict {
        let (met, missed) = match self {
            Self::AtMost(bound) => (interval.high <= bound, interval.low > bound),
            Self::AtLeast(bound) => (interval.low >= bound, interval.high < bound),
        };
        match (met, missed) {
            _ if interval.count < PAIRS_MIN || interval.confidence < CONFIDENCE_MIN => {
                Verdict::TooFewRounds
            }
            (true, _) => Verdict::Met,
            (_, true) => Verdict::Missed,
            _ => Verdict::Open,
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
}

/// CPU time per request.
fn cpu(cell: &Cell, contestant: Contestant, against: Against) -> Option<Must> {
    let scene = cell.scene;
    let key = (scene.topology, scene.protocol, contestant, against);
    if scene.placement == Placement::Apart {
        return match key {
            // Sharing connections must not cost more where both ends run at once.
            (_, Protocol::Http1, Contestant::Leno, Against::LenoHttp1) => Some(Must::AtMost(1.1)),
            _ => None,
        };
    }
    let bound = match key {
        (Topology::Plain, Protocol::Http1, Contestant::Leno, Against::Floor) => 1.18,
        (Topology::Plain, Protocol::Http1, Contestant::Leno, Against::BetterOfNginxAndHaproxy) => {
            0.95
        }
        (Topology::Plain, Protocol::Http2 | Protocol::Grpc, Contestant::Leno, Against::Haproxy) => {
            1.0
        }
        (Topology::Mtls, Protocol::Http1, Contestant::Leno, Against::Floor) => 0.95,
        (Topology::Mtls, Protocol::Http1, Contestant::Leno, Against::HaproxyH2) => 0.9,
        (Topology::Mtls, Protocol::Http1, Contestant::LenoHttp1, Against::Floor) => 1.35,
        (
            Topology::Mtls,
            Protocol::Http1,
            Contestant::Leno | Contestant::LenoHttp1,
            Against::BetterOfNginxAndHaproxy,
        ) => 0.75,
        (Topology::Mtls, Protocol::Tcp, Contestant::Leno, Against::BetterOfHaproxyAndEnvoy) => 1.0,
        _ => return None,
    };
    Some(Must::AtMost(bound))
}

/// Bytes of bulk per CPU second.
fn bytes(cell: &Cell, contestant: Contestant, against: Against) -> Option<Must> {
    let protocol = matches!(cell.scene.protocol, Protocol::Http1 | Protocol::Tcp);
    let ratio = (contestant, against) == (Contestant::Leno, Against::Haproxy);
    (cell.is_bulk() && protocol && ratio).then_some(Must::AtLeast(0.9))
}

/// What a pair adds to the median latency.
fn added(cell: &Cell, contestant: Contestant, against: Against) -> Option<Must> {
    let is_leno = matches!(contestant, Contestant::Leno | Contestant::LenoHttp1);
    let is_pair = cell.scene.topology == Topology::Mtls && cell.scene.protocol == Protocol::Http1;
    (is_leno && is_pair && against == Against::Floor && !cell.is_bulk())
        .then_some(Must::AtMost(1.4))
}

#[cfg(test)]
mod tests {
    use super::super::cell::{Scene, Shape};
    use super::*;

    fn check(must: Must, count: usize, (low, high): (f64, f64), expected: Verdict) {
        let interval = Interval {
            median: low,
            low,
            high,
            confidence: 0.98,
            count,
        };
        assert_eq!(must.judge(interval), expected, "{must:?} {interval:?}");
    }

    #[test]
    fn the_whole_interval_decides() {
        let must = Must::AtMost(1.18);
        check(must, 10, (1.10, 1.17), Verdict::Met);
        check(must, 10, (1.10, 1.19), Verdict::Open);
        check(must, 10, (1.19, 1.30), Verdict::Missed);
        check(must, 9, (1.10, 1.17), Verdict::TooFewRounds);
        let must = Must::AtLeast(0.9);
        check(must, 10, (0.91, 1.17), Verdict::Met);
        check(must, 10, (0.89, 1.19), Verdict::Open);
        check(must, 10, (0.80, 0.89), Verdict::Missed);
    }

    #[test]
    fn bulk_is_judged_by_bytes_and_the_rest_by_requests() {
        let scene = Scene {
            protocol: Protocol::Http1,
            topology: Topology::Mtls,
            placement: Placement::Shared,
        };
        let shape = Shape {
            connections: 1,
            streams: 1,
        };
        let must = |size, against, figure| {
            Must::of(&scene.cell(shape, size), Contestant::Leno, against, figure)
        };
        let (cpu, bytes) = (Figure::Cpu, Figure::BytesPerCpuSecond);
        assert_eq!(must(1024, Against::Floor, cpu), Some(Must::AtMost(0.95)));
        assert_eq!(must(1 << 20, Against::Floor, cpu), None);
        assert_eq!(
            must(1 << 20, Against::Haproxy, bytes),
            Some(Must::AtLeast(0.9))
        );
        assert_eq!(must(1024, Against::Haproxy, bytes), None);
    }
}
