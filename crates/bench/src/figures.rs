//! The figures of a run, as SVG written by hand: lines with whiskers and groups of bars.
//! Called by experiments and `report`. Pure: a run in, text out; it never averages a percentile
//! and never smooths.

mod axis;
pub(crate) mod bars;
pub mod chart;
pub(crate) mod number;
mod palette;
mod paper;
pub(crate) mod plot;
pub(crate) mod series;
pub(crate) mod telemetry;

pub use chart::{Bar, Bars, Chart, Group, Line, Point, Scale};
pub(crate) use palette::{style, styles};
pub(crate) use paper::escape;

use crate::results::{Metric, Run};

/// One figure of a run.
#[derive(Debug, Clone)]
pub struct Figure {
    /// File name without its ending, e.g. `latency-p99`.
    pub name: String,
    /// What it shows, for a caption.
    pub title: String,
    /// A whole SVG document in light colours; classes let a page restyle it.
    pub svg: String,
    /// It comes from another program, with styles of its own: shown as an image, the full width.
    pub foreign: bool,
}

/// A chart as a figure.
pub fn of_chart(name: &str, chart: &Chart) -> Figure {
    Figure {
        name: name.to_owned(),
        title: chart.title.clone(),
        svg: plot::svg(chart),
        foreign: false,
    }
}

/// Groups of bars as a figure.
pub fn of_bars(name: &str, bars: &Bars) -> Figure {
    Figure {
        name: name.to_owned(),
        title: bars.title.clone(),
        svg: bars::svg(bars),
        foreign: false,
    }
}

/// A figure for each metric over connections, or over the rate where only that varies. All of them
/// have one scale where they are to be compared.
pub(crate) fn of_metrics(run: &Run, metrics: &[Metric], one_scale: bool) -> Vec<Figure> {
    let mut charts: Vec<(Metric, Chart)> = metrics
        .iter()
        .map(|&metric| (metric, series::chart(run, metric)))
        .collect();
    if one_scale {
        let highest = charts.iter().map(|(_, chart)| chart.highest());
        let highest = highest.fold(0.0, f64::max);
        charts
            .iter_mut()
            .for_each(|(_, chart)| chart.reach = highest);
    }
    let figure = |(metric, chart): &(Metric, Chart)| of_chart(metric.name(), chart);
    charts.iter().map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn every_figure_is_well_formed() {
        for figure in of_metrics(&sample::full_run(), &Metric::ALL, false) {
            plot::tests::check_well_formed(&figure.svg);
        }
    }

    #[test]
    fn cpu_against_the_rate_begins_at_zero() {
        let mut run = sample::full_run();
        run.settings.connections = vec![16];
        run.settings.qps = vec![Some(10), Some(1000)];
        let figures = of_metrics(&run, &[Metric::ClientCpu], true);
        assert_eq!(figures[0].name, "cpu-client");
        assert!(figures[0].svg.contains(">0</text>"), "{}", figures[0].svg);
    }

    #[test]
    fn an_empty_run_still_has_figures() {
        for figure in of_metrics(&sample::run(), &Metric::ALL, true) {
            plot::tests::check_well_formed(&figure.svg);
            assert!(
                figure.svg.contains("too few samples, or none"),
                "{}",
                figure.svg
            );
        }
    }
}
