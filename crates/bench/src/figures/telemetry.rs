//! What telling about requests costs: CPU and latency of each variant over those of the least one,
//! taken repeat by repeat. Called by `figures`; nothing where a run has only one variant.

use super::chart::{Chart, Point};
use super::series::{Abscissa, push};
use super::{Figure, of_chart};
use crate::results::{Cell, CellKey, Mode, Repeat, Run, Spread, Telemetry, pool};
use crate::units;

/// What is compared.
struct Compared {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    read: fn(&Repeat) -> Option<f64>,
}

const COMPARED: [Compared; 2] = [
    Compared {
        name: "telemetry-cpu",
        title: "CPU that telemetry adds to a request",
        unit: "µs",
        read: Repeat::cpu_micros_per_request,
    },
    Compared {
        name: "telemetry-p50",
        title: "Latency that telemetry adds, P50",
        unit: "ms",
        read: median,
    },
];

/// One for each figure that is compared.
pub(crate) fn figures(run: &Run) -> Vec<Figure> {
    let Some(&least) = run.settings.telemetry.iter().min() else {
        return Vec::new();
    };
    if run.settings.telemetry.iter().all(|&one| one == least) {
        return Vec::new();
    }
    let figure = |compared: &Compared| of_chart(compared.name, &chart(run, compared, least));
    COMPARED.iter().map(figure).collect()
}

fn chart(run: &Run, compared: &Compared, least: Telemetry) -> Chart {
    let abscissa = Abscissa::of_run(run);
    let mut lines = Vec::new();
    for cell in run
        .cells
        .iter()
        .filter(|cell| cell.key.mode != Mode::Baseline)
    {
        let Some((x, base)) = abscissa.of(&cell.key).zip(base(run, cell, least)) else {
            continue;
        };
        let Some(added) = added(cell, base, compared.read) else {
            continue;
        };
        let point = Point {
            x,
            y: added.median,
            interval: (added.repeats > 1).then_some((added.min, added.max)),
            doubtful: cell.doubt().or_else(|| base.doubt()).is_some(),
        };
        push(&mut lines, cell, abscissa.label(run, &cell.key), point);
    }
    Chart {
        title: compared.title.to_owned(),
        x_axis: abscissa.title().to_owned(),
        y_axis: format!("{} added", compared.unit),
        unit: compared.unit,
        lines,
        notes: vec![format!(
            "Over the same cell with telemetry {}: the median of the differences, repeat by \
             repeat, and their range.",
            least.name()
        )],
        ..Chart::default()
    }
}

/// The same cell with the least telemetry; none for that one itself.
fn base<'a>(run: &'a Run, cell: &Cell, least: Telemetry) -> Option<&'a Cell> {
    let wanted = CellKey {
        telemetry: least,
        ..cell.key.clone()
    };
    let is_another = cell.key.telemetry != least;
    run.cells
        .iter()
        .find(|other| is_another && other.key == wanted)
}

/// Differences of repeats that were taken in the same round.
fn added(cell: &Cell, base: &Cell, read: fn(&Repeat) -> Option<f64>) -> Option<Spread> {
    let difference = |repeat: &Repeat| {
        let beside = base.counted().find(|other| other.index == repeat.index)?;
        Some(read(repeat)? - read(beside)?)
    };
    Spread::of(cell.counted().filter_map(difference))
}

fn median(repeat: &Repeat) -> Option<f64> {
    let nanos = pool::percentile(repeat.latencies.shown(), 0.5)?;
    Some(units::micros(nanos) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::plot::tests::check_well_formed;
    use crate::results::sample;

    #[test]
    fn each_variant_is_over_the_least_one_round_by_round() {
        let mut run = sample::run();
        assert!(figures(&run).is_empty());
        run.settings.telemetry = vec![Telemetry::MetricsAndAccessLog, Telemetry::None];
        for (index, cpu) in [(0, 0.25), (1, 0.30)] {
            let mut least = sample::repeat("leno", index);
            least.key.telemetry = Telemetry::None;
            let mut most = sample::repeat("leno", index);
            most.key.telemetry = Telemetry::MetricsAndAccessLog;
            most.client.as_mut().unwrap().cpu_seconds = cpu;
            run.insert(least);
            run.insert(most);
        }
        let chart = chart(&run, &COMPARED[0], Telemetry::None);
        assert_eq!(chart.lines.len(), 1);
        assert_eq!(chart.lines[0].label, "leno both, with access log");
        let point = &chart.lines[0].points[0];
        // 0.05 s more over 5,000 requests in the second round, nothing in the first.
        assert!((point.y - 5.0).abs() < 1e-9, "{point:?}");
        let (low, high) = point.interval.unwrap();
        assert!(low.abs() < 1e-9 && (high - 10.0).abs() < 1e-9, "{point:?}");
        figures(&run)
            .iter()
            .for_each(|figure| check_well_formed(&figure.svg));
    }
}
