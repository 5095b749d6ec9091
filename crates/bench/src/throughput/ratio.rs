//! How the throughput of two rounds compares: repeat by repeat within a run, which takes them close
//! to each other. Pure. There is no ratio where either is not throughput.

use crate::results::{Cell, CellKey, Run, Spread};

use super::limiter::Limiter;

/// One data plane against another on a link and under a limit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) of: CellKey,
    pub(crate) to: String,
    /// Over the repeats that both have.
    pub(crate) spread: Spread,
    /// Who held the first back.
    pub(crate) limit: &'static str,
}

/// Every round with sidecars against none, and leno's against the others under the same limit.
pub(crate) fn all(run: &Run) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for cell in run
        .cells
        .iter()
        .filter(|cell| cell.key.data_plane != "none")
    {
        let others = run
            .cells
            .iter()
            .filter(|other| is_opponent(&cell.key, &other.key));
        ratios.extend(others.filter_map(|other| ratio(cell, other)));
    }
    ratios
}

/// How sure they are: all ratios of two equals, too, are on one side of one by chance.
pub(crate) fn chance(ratios: &[Ratio]) -> Option<String> {
    let repeats = ratios.iter().map(|ratio| ratio.spread.repeats);
    let least = repeats.filter(|&repeats| repeats > 1).min()?;
    let one_in = 2_u64.saturating_pow(u32::try_from(least).ok()?.saturating_sub(1));
    Some(format!(
        "Ratios are of rounds that were taken close to each other. Of two equals all {least} are \
         on one side of 1 by chance in one of {one_in} comparisons: a range near 1 shows little."
    ))
}

fn is_opponent(key: &CellKey, other: &CellKey) -> bool {
    let same_load = key.link == other.link && key.connections == other.connections;
    let without = other.data_plane == "none";
    let beside = key.data_plane == "leno"
        && other.data_plane != "leno"
        && key.sidecar_millis == other.sidecar_millis;
    same_load && (without || beside)
}

fn ratio(cell: &Cell, other: &Cell) -> Option<Ratio> {
    let limits = [cell, other].map(Limiter::of_cell);
    if limits
        .iter()
        .any(|limit| matches!(limit, Limiter::Errors | Limiter::Machine))
    {
        return None;
    }
    let pairs = cell.counted().filter_map(|repeat| {
        let same = other.counted().find(|one| one.index == repeat.index)?;
        let (mine, theirs) = (repeat.achieved_qps, same.achieved_qps);
        (theirs > 0.0).then(|| mine / theirs)
    });
    Some(Ratio {
        of: cell.key.clone(),
        to: other.key.data_plane.clone(),
        spread: Spread::of(pairs)?,
        limit: limits[0].kind(),
    })
}

impl Ratio {
    /// A sentence without a full stop.
    pub(crate) fn words(&self) -> String {
        let Self {
            of,
            to,
            spread,
            limit,
        } = self;
        let (median, cpus) = (spread.median, f64::from(of.sidecar_millis) / 1e3);
        let to = if to == "none" { "no mesh" } else { to };
        let range = match spread.repeats {
            0 | 1 => " (one repeat, no interval)".to_owned(),
            count => format!(
                " ({:.2} to {:.2} over {count} repeats{})",
                spread.min,
                spread.max,
                match spread.min <= 1.0 && spread.max >= 1.0 {
                    true => ", so that no difference is shown",
                    false => "",
                }
            ),
        };
        format!(
            "{}, sidecars with {cpus} CPU: {} has {median:.2} × the throughput of {to}{range}; its \
             limit: {limit}",
            of.link.name(),
            of.data_plane,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn leno_is_compared_with_none_and_with_others_under_the_same_limit() {
        let mut run = sample::throughput_run();
        let words: Vec<String> = all(&run).iter().map(Ratio::words).collect();
        // Two links, two limits: leno to none and envoy, envoy to none.
        assert_eq!(words.len(), 2 * 2 * 3, "{words:#?}");
        assert!(
            words.iter().any(|one| one.starts_with(
                "gateway-ratings, sidecars with 1 CPU: leno has 2.50 × the throughput of envoy"
            )),
            "{words:#?}"
        );
        assert_eq!(chance(&all(&run)), None);
        for cell in &mut run.cells {
            let mut second = cell.repeats[0].clone();
            second.index = 1;
            cell.repeats.push(second);
        }
        assert!(chance(&all(&run)).unwrap().contains("one of 2 comparisons"));
        let failed = run
            .cells
            .iter_mut()
            .filter(|cell| cell.key.data_plane == "envoy");
        failed
            .flat_map(|cell| &mut cell.repeats)
            .for_each(|repeat| repeat.errors = 9);
        let left = all(&run);
        assert!(
            left.iter()
                .all(|one| one.to == "none" && one.of.data_plane == "leno")
        );
    }
}
