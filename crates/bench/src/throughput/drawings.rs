//! What the figures of throughput show: bars of throughput and of percentiles, lines of CPU and
//! memory over the window. Made for `content`. Pure: it draws nothing itself.

use crate::dataplane::Side;
use crate::figures::{Bar, Bars, Chart, Group, Line, Point, Scale};
use crate::results::{Cell, Estimate, Link, Metric, Mode, Repeat, Run, UsageSample};
use crate::units::mebibytes;

use super::limiter::Limiter;

/// The cells of one link and number of connections.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) run: &'a Run,
    pub(crate) link: Link,
    pub(crate) connections: u32,
}

/// What of a sidecar is drawn over time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Cpu,
    Memory,
}

const PERCENTILES: [(Metric, &str); 4] = [
    (Metric::P50, "P50"),
    (Metric::P90, "P90"),
    (Metric::P95, "P95"),
    (Metric::P99, "P99"),
];

impl<'a> View<'a> {
    /// The rounds under one limit; that without sidecars belongs to each.
    pub(crate) fn under(self, millis: u32) -> impl Iterator<Item = &'a Cell> {
        self.cells().filter(move |cell| {
            let key = &cell.key;
            key.data_plane == "none" || key.sidecar_millis == millis
        })
    }

    fn cells(self) -> impl Iterator<Item = &'a Cell> {
        let Self {
            run,
            link,
            connections,
        } = self;
        let is_of = move |cell: &&Cell| {
            let key = &cell.key;
            key.link == link && key.connections == connections
        };
        run.cells.iter().filter(is_of)
    }

    /// A group for each limit.
    pub(crate) fn throughput(self) -> Bars {
        let group = |&millis: &u32| Group {
            label: format!("sidecars with {}", cpus(millis)),
            bars: self.under(millis).filter_map(throughput_of).collect(),
        };
        let limits = self.run.settings.sidecar_millis.iter();
        Bars {
            title: format!("Throughput, {}", self.link.name()),
            y_axis: "successful answers per second".to_owned(),
            unit: "answers/s",
            groups: limits.map(group).collect(),
            notes: hollow(self.cells()),
        }
    }

    /// A group for each percentile.
    pub(crate) fn latency(self, millis: u32) -> Bars {
        let group = |&(metric, label): &(Metric, &str)| {
            let bar = |cell: &Cell| Some(bar(cell, metric.of(cell)?));
            Group {
                label: label.to_owned(),
                bars: self.under(millis).filter_map(bar).collect(),
            }
        };
        let (link, cpus) = (self.link.name(), cpus(millis));
        Bars {
            title: format!("Latency, {link}, sidecars with {cpus}"),
            y_axis: "latency (ms)".to_owned(),
            unit: "ms",
            groups: PERCENTILES.iter().map(group).collect(),
            notes: hollow(self.under(millis)),
        }
    }

    /// A line for each data plane: one repeat's samples.
    pub(crate) fn over_time(self, millis: u32, side: Side, resource: Resource) -> Chart {
        let scale = self.run.settings.scale;
        let line = |cell: &Cell| {
            let repeat = cell.counted().next()?;
            let points: Vec<Point> = samples(repeat, side)?
                .iter()
                .filter_map(|sample| point(sample, resource, scale))
                .collect();
            let plane = cell.key.data_plane.clone();
            (!points.is_empty()).then(|| Line {
                label: plane.clone(),
                data_plane: plane,
                mode: Mode::Both,
                points,
            })
        };
        let (what, y_axis, unit) = match resource {
            Resource::Cpu => ("CPU", "CPU (% of one, times the scale)", "%"),
            Resource::Memory => ("Memory", "anonymous memory (MiB)", "MiB"),
        };
        Chart {
            title: format!("{what} of {} with {}", sidecar(side), cpus(millis)),
            x_axis: "seconds since the window opened".to_owned(),
            y_axis: y_axis.to_owned(),
            unit,
            abscissa: Scale::Time,
            lines: self.under(millis).filter_map(line).collect(),
            ..Chart::default()
        }
    }
}

/// Whose sidecar it is on the sample's links.
fn sidecar(side: Side) -> &'static str {
    match side {
        Side::Client => "api-gateway's sidecar",
        Side::Server => "ratings' sidecar",
        Side::Gateway => "the gateway",
    }
}

pub(crate) fn cpus(millis: u32) -> String {
    let plural = if millis > 1000 { "s" } else { "" };
    format!("{} CPU{plural}", f64::from(millis) / 1e3)
}

fn throughput_of(cell: &Cell) -> Option<Bar> {
    Some(bar(cell, Metric::Rate.of(cell)?))
}

fn bar(cell: &Cell, estimate: Estimate) -> Bar {
    let label = match cell.key.data_plane.as_str() {
        "none" => "no mesh",
        name => name,
    };
    Bar {
        data_plane: cell.key.data_plane.clone(),
        label: label.to_owned(),
        value: estimate.value,
        interval: estimate.interval(),
        hollow: doubtful(cell),
    }
}

fn doubtful(cell: &Cell) -> bool {
    matches!(Limiter::of_cell(cell), Limiter::Machine | Limiter::Errors)
}

fn hollow<'a>(mut cells: impl Iterator<Item = &'a Cell>) -> Vec<String> {
    let note = "Hollow bars: the machine had no idle time left, or answers were errors; they say \
                nothing about the data plane.";
    let doubtful = cells.any(doubtful);
    doubtful.then(|| note.to_owned()).into_iter().collect()
}

fn samples(repeat: &Repeat, side: Side) -> Option<&[UsageSample]> {
    let usage = match side {
        Side::Client => &repeat.client,
        Side::Server => &repeat.server,
        Side::Gateway => &repeat.gateway,
    };
    Some(&usage.as_ref()?.samples)
}

fn point(sample: &UsageSample, resource: Resource, scale: f64) -> Option<Point> {
    let y = match resource {
        Resource::Cpu => sample.cores * 100.0 / scale,
        Resource::Memory => mebibytes(sample.anon_bytes?),
    };
    Some(Point {
        x: sample.at_seconds,
        y,
        ..Point::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    fn view(run: &Run) -> View<'_> {
        View {
            run,
            link: Link::GatewayRatings,
            connections: 200,
        }
    }

    #[test]
    fn each_limit_has_a_bar_for_every_round_and_no_mesh_beside() {
        let run = sample::throughput_run();
        let bars = view(&run).throughput();
        let labels = |group: &Group| -> Vec<String> {
            group.bars.iter().map(|bar| bar.label.clone()).collect()
        };
        assert_eq!(bars.groups[0].label, "sidecars with 2 CPUs");
        for group in &bars.groups {
            assert_eq!(labels(group), ["no mesh", "leno", "envoy"]);
            assert!(group.bars.iter().all(|bar| !bar.hollow));
        }
    }

    #[test]
    fn what_was_errors_is_hollow_and_explained() {
        let mut run = sample::throughput_run();
        let repeats = run.cells.iter_mut().flat_map(|cell| &mut cell.repeats);
        repeats.for_each(|repeat| repeat.errors = repeat.requests);
        let bars = view(&run).latency(1000);
        assert_eq!(bars.groups.len(), 4);
        assert!(
            bars.groups
                .iter()
                .flat_map(|group| &group.bars)
                .all(|bar| bar.hollow)
        );
        assert_eq!(bars.notes.len(), 1);
    }

    #[test]
    fn cpu_over_time_is_in_percent_of_a_scaled_cpu() {
        let mut run = sample::throughput_run();
        for repeat in run.cells.iter_mut().flat_map(|cell| &mut cell.repeats) {
            for usage in [&mut repeat.client, &mut repeat.server]
                .into_iter()
                .flatten()
            {
                usage.samples = vec![UsageSample {
                    at_seconds: 1.0,
                    cores: 0.2,
                    anon_bytes: Some(5 << 20),
                }];
            }
        }
        let value = |resource| {
            let chart = view(&run).over_time(1000, Side::Client, resource);
            assert_eq!(chart.lines.len(), 2);
            chart.lines[0].points[0].y
        };
        assert!((value(Resource::Cpu) - 100.0).abs() < 1e-9);
        assert!((value(Resource::Memory) - 5.0).abs() < 1e-9);
    }
}
