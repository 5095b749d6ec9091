//! The figures of a run: percentiles, CPU and memory against connections, as SVG written by hand.
//! Called by `report`. Pure: a run in, text out; it never averages a percentile and never smooths.

mod axis;
mod metric;
pub(crate) mod number;
mod palette;
pub(crate) mod plot;
pub(crate) mod series;

pub(crate) use palette::{style, styles};

use crate::results::{Experiment, Run};

/// One figure of a run.
#[derive(Debug, Clone)]
pub struct Figure {
    /// File name without its ending, e.g. `latency-p99`.
    pub name: &'static str,
    /// What it shows, for a caption.
    pub title: String,
    /// A whole SVG document in light colours; classes let a page restyle it.
    pub svg: String,
}

/// The figures, in the order of the report: eight, and one more where the rate is what varies.
pub fn all(run: &Run) -> Vec<Figure> {
    let mut charts: Vec<_> = metric::ALL
        .iter()
        .map(|metric| series::chart(run, metric))
        .collect();
    // Client and server are compared: each pair has one scale.
    for pair in charts[metric::LATENCIES..].chunks_mut(2) {
        let highest = pair.iter().map(series::Chart::highest).fold(0.0, f64::max);
        pair.iter_mut().for_each(|chart| chart.reach = highest);
    }
    let figure = |(metric, chart): (&metric::Metric, series::Chart)| Figure {
        name: metric.name,
        title: metric.title.to_owned(),
        svg: plot::svg(&chart),
    };
    let mut figures: Vec<Figure> = metric::ALL.iter().zip(charts).map(figure).collect();
    if run.settings.experiment == Experiment::Cpu {
        let metric = &metric::PER_REQUEST;
        figures.push(figure((metric, series::chart(run, metric))));
        // What the run is about comes first.
        figures.rotate_left(metric::LATENCIES);
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn a_run_has_eight_figures_with_distinct_names() {
        let figures = all(&sample::full_run());
        let mut names: Vec<_> = figures.iter().map(|figure| figure.name).collect();
        names.dedup();
        assert_eq!(names.len(), 8);
    }

    #[test]
    fn cpu_against_the_rate_begins_at_zero_and_comes_first() {
        let mut run = sample::full_run();
        run.settings.experiment = Experiment::Cpu;
        run.settings.connections = vec![16];
        run.settings.qps = vec![Some(10), Some(1000)];
        let figures = all(&run);
        assert_eq!(figures[0].name, "cpu-client");
        assert!(figures[0].svg.contains(">0</text>"), "{}", figures[0].svg);
        assert!(
            figures
                .iter()
                .any(|figure| figure.name == "cpu-per-request")
        );
        figures
            .iter()
            .for_each(|figure| plot::tests::check_well_formed(&figure.svg));
    }

    #[test]
    fn every_figure_is_well_formed() {
        for figure in all(&sample::full_run()) {
            plot::tests::check_well_formed(&figure.svg);
        }
    }

    #[test]
    fn an_empty_run_still_has_figures() {
        for figure in all(&sample::run()) {
            plot::tests::check_well_formed(&figure.svg);
            assert!(
                figure.svg.contains("too few samples, or none"),
                "{}",
                figure.svg
            );
        }
    }
}
