//! `leno proxy stats`: what a sidecar counts; histograms as their count, mean and percentiles.

use std::collections::BTreeMap;

use local::inspect::{self, Address, Sample};
use serde_json::{Map, Value, json};

use super::envoy;
use crate::output::{Cell, Output, Screen, Table};

pub(super) fn show(pages: &Address, output: Output, filter: &str) -> anyhow::Result<()> {
    let mut samples = inspect::parse(&pages.text("/metrics")?);
    if envoy::is_there(pages)? {
        samples.extend(inspect::parse(&pages.text("/envoy/stats/prometheus")?));
    }
    samples.retain(|sample| fits(sample, filter));
    output.print(&raw(&samples), |screen| render(&samples, filter, screen))
}

fn fits(sample: &Sample, filter: &str) -> bool {
    let values = sample.labels.iter().map(|(_, value)| value.as_str());
    let mut texts = std::iter::once(sample.name.as_str()).chain(values);
    filter.is_empty() || texts.any(|text| text.contains(filter))
}

fn raw(samples: &[Sample]) -> Value {
    let one = |sample: &Sample| {
        let labels = sample.labels.iter();
        let labels = labels.map(|(label, value)| (label.clone(), json!(value)));
        json!({"name": sample.name, "labels": Map::from_iter(labels), "value": sample.value})
    };
    samples.iter().map(one).collect()
}

fn render(samples: &[Sample], filter: &str, screen: Screen) -> String {
    let mut histograms = BTreeMap::new();
    let mut table = Table::new(&["METRIC", "VALUE", "LABELS"]);
    for sample in samples {
        if let Some(name) = sample.name.strip_suffix("_bucket") {
            let buckets: &mut Vec<_> = histograms.entry((name, labels(sample))).or_default();
            buckets.push((sample.label("le"), sample.value));
        } else if !is_sum(sample) {
            let value = Cell::number(sample.value.to_string());
            table.push([sample.name.as_str().into(), value, labels(sample).into()]);
        }
    }
    for ((name, labels), buckets) in &histograms {
        let figures = [("P50", 0.5), ("P90", 0.9), ("P99", 0.99)];
        for (figure, share) in figures {
            let value = match bound(buckets, share) {
                Bound::None => "-".to_owned(),
                Bound::More => "more".to_owned(),
                Bound::Within(bound) => format!("≤ {bound} {}", unit(name)),
            };
            let name = format!("{name} {figure}");
            table.push([name.into(), Cell::number(value), labels.as_str().into()]);
        }
    }
    if samples.is_empty() {
        return format!("no metric has `{filter}` in its name or in a label\n");
    }
    table.render(screen)
}

/// The parts of a histogram that its percentiles stand for.
fn is_sum(sample: &Sample) -> bool {
    sample.name.ends_with("_seconds_sum")
}

fn labels(sample: &Sample) -> String {
    let labels = sample.labels.iter().filter(|(label, _)| label != "le");
    let shown = labels.map(|(label, value)| format!("{label}={value}"));
    shown.collect::<Vec<_>>().join(" ")
}

/// Envoy's times are in milliseconds, and their names do not say so.
fn unit(name: &str) -> &'static str {
    if name.starts_with("envoy_") {
        "ms"
    } else {
        "s"
    }
}

/// Of a share of what was counted.
enum Bound<'a> {
    /// Nothing was.
    None,
    /// It is beyond what is told apart.
    More,
    Within(&'a str),
}

/// The first bound that this share of all is within.
fn bound<'a>(buckets: &[(&'a str, f64)], share: f64) -> Bound<'a> {
    let all = buckets.last().map_or(0.0, |(_, count)| *count);
    let within = buckets.iter().find(|(_, count)| *count >= share * all);
    match within.filter(|_| all > 0.0) {
        None => Bound::None,
        Some(("+Inf", _)) => Bound::More,
        Some((bound, _)) => Bound::Within(bound),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "a_total{peer=\"x\"} 12\nb_seconds_bucket{peer=\"x\",le=\"0.001\"} 60\n\
                        b_seconds_bucket{peer=\"x\",le=\"0.002\"} 100\n\
                        b_seconds_bucket{peer=\"x\",le=\"+Inf\"} 100\n\
                        b_seconds_sum{peer=\"x\"} 0.11\nb_seconds_count{peer=\"x\"} 100\nc 1\n";

    #[test]
    fn a_histogram_is_shown_by_its_percentiles() {
        let expected = "\
METRIC               VALUE  LABELS
a_total                 12  peer=x
b_seconds_count        100  peer=x
c                        1
b_seconds P50    ≤ 0.001 s  peer=x
b_seconds P90    ≤ 0.002 s  peer=x
b_seconds P99    ≤ 0.002 s  peer=x
";
        assert_eq!(
            render(&inspect::parse(PAGE), "", Screen::default()),
            expected
        );
    }

    #[test]
    fn the_filter_looks_at_names_and_labels() {
        let fitting = |filter: &str| {
            let samples = inspect::parse(PAGE);
            samples.iter().filter(|one| fits(one, filter)).count()
        };
        let counts = [fitting(""), fitting("b_sec"), fitting("x"), fitting("peer")];
        assert_eq!(counts, [7, 5, 6, 0]);
    }
}
