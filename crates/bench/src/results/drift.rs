//! Whether the machine changed during a run: the last round of repeats against the first, over all
//! cells. Called by the report. Pure.

use super::{Metric, Resampled, Run, Verdict};
use crate::figures::number;

/// Fewer cells say nothing.
const CELLS_MIN: usize = 5;
/// Smaller drifts matter to nobody, in parts of one.
const WORTH_A_NOTE: f64 = 0.02;
const WATCHED: [Metric; 4] = [
    Metric::P50,
    Metric::P99,
    Metric::Rate,
    Metric::CpuPerThousand,
];

/// A sentence for each metric whose ratio of the last round to the first, in the median over cells,
/// parts from one by more than its interval.
pub(crate) fn notes(run: &Run) -> Vec<String> {
    WATCHED
        .iter()
        .filter_map(|&metric| note(run, metric))
        .collect()
}

fn note(run: &Run, metric: Metric) -> Option<String> {
    let ratios: Vec<f64> = run
        .cells
        .iter()
        .filter_map(|cell| {
            let mut repeats = cell
                .repeats
                .iter()
                .filter(|repeat| repeat.verdict == Verdict::Valid);
            let first = repeats.next().filter(|first| first.index == 0)?;
            let last = repeats.next_back()?;
            let (first, last) = (metric.of_repeat(first)?, metric.of_repeat(last)?);
            (first > 0.0).then(|| last / first)
        })
        .collect();
    if ratios.len() < CELLS_MIN {
        return None;
    }
    let cells = ratios.len();
    let found = Resampled::median(ratios)?.estimate();
    let parts = found.low > 1.0 || found.high < 1.0;
    if !parts || (found.value - 1.0).abs() < WORTH_A_NOTE {
        return None;
    }
    let percent = |ratio: f64| number::signed((ratio - 1.0) * 100.0);
    Some(format!(
        "The machine drifted: {} of the last round against the first is {} % in the median over \
         {cells} cells ({} to {} %). Rounds are shuffled, so that this falls on all data planes \
         alike, but intervals are wider for it.",
        metric.title(),
        percent(found.value),
        percent(found.low),
        percent(found.high),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn a_machine_that_gets_slower_is_noticed_and_a_steady_one_is_not() {
        let mut run = sample::full_run();
        assert_eq!(notes(&run), Vec::<String>::new());
        for cell in &mut run.cells {
            let latencies = &mut cell.repeats[1].latencies.intended;
            latencies.reset();
            (1..=5_000_u64).for_each(|step| latencies.record(step * 1_200).unwrap());
        }
        let notes = notes(&run);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(
            notes[0].contains("latency P50 of the last round against the first is +20.0 %"),
            "{notes:?}"
        );
    }
}
