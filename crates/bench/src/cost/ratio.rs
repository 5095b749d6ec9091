//! Ratios between contestants, paired by round, and how they stand to what the project promises.
//! Called by `cost` when all rounds are over. Pure.

use serde::Serialize;

use super::cell::Cell;
use super::contestant::Contestant;
use super::interval::Interval;
use super::must::{Must, Verdict};
use super::outcome::{Outcome, Row};

/// One contestant's figure over that of another, round by round.
#[derive(Debug, Clone, Serialize)]
pub struct Ratio {
    /// Under what.
    #[serde(flatten)]
    pub cell: Cell,
    /// Whose figure it is.
    pub contestant: Contestant,
    /// Against whom.
    pub against: Against,
    /// Of what.
    pub figure: Figure,
    /// The ratio over all rounds.
    pub interval: Interval,
    /// Its bound, where the project has promised something.
    pub must: Option<Must>,
    /// How the interval stands to the bound.
    pub verdict: Option<Verdict>,
}

/// The other side of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// The bare relay, or two of them.
    Floor,
    /// A pair of Leno with HTTP/1.1 in between.
    LenoHttp1,
    /// HAProxy; a pair with HTTP/1.1 in between.
    Haproxy,
    /// A pair of HAProxy with HTTP/2 in between.
    HaproxyH2,
    /// nginx or HAProxy, whichever is cheaper over all rounds.
    BetterOfNginxAndHaproxy,
    /// HAProxy or Envoy, whichever is cheaper over all rounds.
    BetterOfHaproxyAndEnvoy,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// CPU time per request.
    Cpu,
    /// Bytes of bodies per second of CPU time.
    BytesPerCpuSecond,
    /// What is added to the median latency.
    AddedP50,
    /// What is added to the 99th percentile.
    AddedP99,
    /// The median latency over a slow and lossy link.
    LossyP50,
    /// The 99th percentile over a slow and lossy link.
    LossyP99,
    /// The 99th percentile beside a huge body.
    MixedP99,
}

impl Against {
    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::LenoHttp1 => "leno-http1",
            Self::Haproxy => "haproxy",
            Self::HaproxyH2 => "haproxy-h2",
            Self::BetterOfNginxAndHaproxy => "better of nginx, haproxy",
            Self::BetterOfHaproxyAndEnvoy => "better of haproxy, envoy",
        }
    }

    /// Whose figures these are; of several the better one's.
    fn rivals(self) -> &'static [Contestant] {
        match self {
            Self::Floor => &[Contestant::Floor],
            Self::LenoHttp1 => &[Contestant::LenoHttp1],
            Self::Haproxy => &[Contestant::Haproxy],
            Self::HaproxyH2 => &[Contestant::HaproxyH2],
            Self::BetterOfNginxAndHaproxy => &[Contestant::Nginx, Contestant::Haproxy],
            Self::BetterOfHaproxyAndEnvoy => &[Contestant::Haproxy, Contestant::Envoy],
        }
    }
}

impl Figure {
    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU per request",
            Self::BytesPerCpuSecond => "bytes per CPU second",
            Self::AddedP50 => "added P50",
            Self::AddedP99 => "added P99",
            Self::LossyP50 => "P50 over the lossy link",
            Self::LossyP99 => "P99 over the lossy link",
            Self::MixedP99 => "P99 beside the huge body",
        }
    }
}

/// Every ratio that the outcome's figures allow.
pub(crate) fn all(outcome: &Outcome) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for setting in &outcome.cells {
        let cell = setting.cell;
        let rows: Vec<&Row> = outcome.rows.iter().filter(|row| row.cell == cell).collect();
        ratios.extend(costs(cell, &rows));
    }
    ratios.extend(latencies(outcome));
    ratios
}

/// The ratios of CPU time within one cell.
fn costs(cell: Cell, rows: &[&Row]) -> Vec<Ratio> {
    let figure = match cell.is_bulk() {
        true => Figure::BytesPerCpuSecond,
        false => Figure::Cpu,
    };
    let series = rows.iter().map(|row| Series {
        cell,
        contestant: row.contestant,
        figures: match figure {
            Figure::BytesPerCpuSecond => row.figures(|window| window.bytes_per_cpu_second),
            _ => row.figures(|window| window.cpu_micros),
        },
    });
    compare(&series.collect::<Vec<_>>(), figure)
}

fn latencies(outcome: &Outcome) -> Vec<Ratio> {
    let series = |cell, contestant, figures: &Vec<f64>| Series {
        cell,
        contestant,
        figures: figures.clone(),
    };
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for found in &outcome.latencies {
        p50.push(series(
            found.cell,
            found.contestant,
            &found.added.p50_micros,
        ));
        p99.push(series(
            found.cell,
            found.contestant,
            &found.added.p99_micros,
        ));
    }
    let mut ratios = by_cell(&p50, Figure::AddedP50);
    ratios.extend(by_cell(&p99, Figure::AddedP99));
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for found in &outcome.lossy {
        let percentiles = &found.percentiles;
        p50.push(series(
            found.cell,
            found.contestant,
            &percentiles.p50_micros,
        ));
        p99.push(series(
            found.cell,
            found.contestant,
            &percentiles.p99_micros,
        ));
    }
    ratios.extend(by_cell(&p50, Figure::LossyP50));
    ratios.extend(by_cell(&p99, Figure::LossyP99));
    let mixed = outcome.mixed.iter();
    let mixed = mixed.map(|found| series(found.cell, found.contestant, &found.beside.p99_micros));
    ratios.extend(by_cell(&mixed.collect::<Vec<_>>(), Figure::MixedP99));
    ratios
}

/// A contestant's figures by round.
#[derive(Clone)]
struct Series {
    cell: Cell,
    contestant: Contestant,
    figures: Vec<f64>,
}

fn by_cell(all: &[Series], figure: Figure) -> Vec<Ratio> {
    let mut cells: Vec<Cell> = Vec::new();
    for series in all {
        if !cells.contains(&series.cell) {
            cells.push(series.cell);
        }
    }
    let of = |cell: Cell| {
        all.iter()
            .filter(move |series| series.cell == cell)
            .cloned()
    };
    let compared = cells
        .into_iter()
        .map(|cell| compare(&of(cell).collect::<Vec<_>>(), figure));
    compared.flatten().collect()
}

/// Everybody against the floor, and Leno against the rivals that it is measured by.
fn compare(all: &[Series], figure: Figure) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for over in all.iter().filter(|s| s.contestant != Contestant::Floor) {
        ratios.extend(ratio(over, Against::Floor, all, figure));
    }
    let rivals: &[Against] = match figure {
        Figure::Cpu => &[
            Against::LenoHttp1,
            Against::HaproxyH2,
            Against::Haproxy,
            Against::BetterOfNginxAndHaproxy,
            Against::BetterOfHaproxyAndEnvoy,
        ],
        Figure::BytesPerCpuSecond => &[Against::LenoHttp1, Against::Haproxy],
        Figure::AddedP50
        | Figure::AddedP99
        | Figure::LossyP50
        | Figure::LossyP99
        | Figure::MixedP99 => &[Against::LenoHttp1],
    };
    let leno = [Contestant::Leno, Contestant::LenoHttp1];
    for over in all.iter().filter(|s| leno.contains(&s.contestant)) {
        let found = rivals
            .iter()
            .filter_map(|&against| ratio(over, against, all, figure));
        // The variant is there for its promise, not for a table of its own.
        ratios.extend(found.filter(|r| r.must.is_some() || r.contestant == Contestant::Leno));
    }
    ratios
}

fn ratio(over: &Series, against: Against, all: &[Series], figure: Figure) -> Option<Ratio> {
    let candidates = against.rivals();
    let rivals: Vec<&Series> = all
        .iter()
        .filter(|s| candidates.contains(&s.contestant))
        .collect();
    let must = Must::of(&over.cell, over.contestant, against, figure);
    // The better of two tells no more than each of them, unless something hangs on it.
    if candidates.len() > 1 && must.is_none() || candidates == [over.contestant] {
        return None;
    }
    let under = cheapest(&rivals)?;
    // Noise may make an added latency negative; such a round says nothing about a ratio.
    let pairs = over.figures.iter().zip(&under.figures);
    let pairs = pairs.filter(|(_, under)| **under > 0.0);
    let pairs: Vec<f64> = pairs.map(|(over, under)| over / under).collect();
    let interval = Interval::of(&pairs)?;
    let verdict = must.map(|must| match must.judge(interval) {
        // A round that was left out could lie on either side.
        _ if interval.count != over.figures.len() => Verdict::Open,
        // The better one may be the one that is not here.
        Verdict::Met if rivals.len() < candidates.len() => Verdict::Open,
        verdict => verdict,
    });
    Some(Ratio {
        cell: over.cell,
        contestant: over.contestant,
        against,
        figure,
        interval,
        must,
        verdict,
    })
}

/// The one with the lowest median: one rival for all rounds, not the luckiest of each.
fn cheapest<'a>(all: &[&'a Series]) -> Option<&'a Series> {
    let median = |s: &Series| Interval::of(&s.figures).map_or(f64::INFINITY, |found| found.median);
    let by_median = |a: &&&Series, b: &&&Series| median(a).total_cmp(&median(b));
    all.iter().min_by(by_median).copied()
}

#[cfg(test)]
mod tests {
    use super::super::cell::{Placement, Protocol, Scene, Shape, Topology};
    use super::super::cores::Cores;
    use super::super::outcome::{CellSetting, Setting, Window};
    use super::*;

    fn ratios(topology: Topology, costs: &[(Contestant, &[f64])]) -> Vec<Ratio> {
        let scene = Scene {
            protocol: Protocol::Http1,
            topology,
            placement: Placement::Shared,
        };
        let shape = Shape {
            connections: 64,
            streams: 1,
        };
        let cell = scene.cell(shape, 1024);
        let mut outcome = Outcome::new(Setting::default());
        let cores = Cores::default();
        outcome.cells.push(CellSetting { cell, cores });
        for (contestant, costs) in costs {
            let mut row = Row::new(*contestant, cell);
            let window = |&cpu_micros| Window {
                cpu_micros,
                ..Window::default()
            };
            row.windows = costs.iter().map(window).collect();
            outcome.rows.push(row);
        }
        all(&outcome)
    }

    fn find(ratios: &[Ratio], against: Against) -> &Ratio {
        ratios.iter().find(|r| r.against == against).unwrap()
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The machine slowed down threefold in the last round; the ratio did not move.
        let costs: [(_, &[f64]); 2] = [
            (Contestant::Floor, &[10.0, 11.0, 30.0]),
            (Contestant::Leno, &[12.0, 13.2, 36.0]),
        ];
        let interval = ratios(Topology::Plain, &costs)[0].interval;
        assert!((interval.low - 1.2).abs() < 1e-9 && (interval.high - 1.2).abs() < 1e-9);
    }

    #[test]
    fn the_rival_is_the_one_that_is_better_over_all_rounds() {
        let costs: [(_, &[f64]); 3] = [
            (Contestant::Leno, &[10.0, 10.0, 10.0]),
            (Contestant::Haproxy, &[20.0, 20.0, 8.0]),
            (Contestant::Nginx, &[16.0, 16.0, 16.0]),
        ];
        let ratios = ratios(Topology::Plain, &costs);
        let ratio = find(&ratios, Against::BetterOfNginxAndHaproxy);
        assert!((ratio.interval.median - 10.0 / 16.0).abs() < 1e-9);
    }

    #[test]
    fn without_the_other_rival_nothing_is_met() {
        let (cheap, dear) = ([1.0; 10], [10.0; 10]);
        let costs: [(_, &[f64]); 2] = [(Contestant::Leno, &cheap), (Contestant::Haproxy, &dear)];
        let ratios = ratios(Topology::Plain, &costs);
        let ratio = find(&ratios, Against::BetterOfNginxAndHaproxy);
        assert_eq!(ratio.verdict, Some(Verdict::Open));
    }

    #[test]
    fn both_hops_of_leno_are_held_to_their_promise() {
        let figures = [1.0; 10];
        let of = |contestant| (contestant, &figures[..]);
        let everybody = Contestant::ALL.map(of);
        let ratios = ratios(Topology::Mtls, &everybody);
        let judged = ratios.iter().filter(|ratio| ratio.must.is_some());
        let judged = judged.map(|r| (r.contestant.name(), r.against.name()));
        let expected = [
            ("leno", "floor"),
            ("leno-http1", "floor"),
            ("leno", "haproxy-h2"),
            ("leno", "better of nginx, haproxy"),
            ("leno-http1", "better of nginx, haproxy"),
        ];
        assert_eq!(judged.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn without_a_floor_there_is_no_ratio_to_it() {
        assert!(ratios(Topology::Plain, &[(Contestant::Nginx, &[1.0])]).is_empty());
    }
}
