//! `results.csv`: one row per repeat, first Istio's columns under its names and units, then ours.
//! Its defects are mended: every column has its comma, no row is skipped or repeated, a
//! percentile without enough samples is empty, latencies are from the intended send.

use std::fmt::Write;

use hdrhistogram::Histogram;

use crate::results::pool::percentile;
use crate::results::{CellKey, Repeat, Run, SidecarUsage, scaled};
use crate::run::label;
use crate::throughput::limiter::Limiter;
use crate::units::{count, mebibytes, micros};

/// The whole file.
pub fn text(run: &Run) -> String {
    let mut text = String::new();
    let names: Vec<&str> = columns(run, None).iter().map(|(name, _)| *name).collect();
    text.push_str(&names.join(","));
    text.push('\n');
    for repeat in run.cells.iter().flat_map(|cell| &cell.repeats) {
        let fields = columns(run, Some(repeat));
        let fields: Vec<String> = fields.into_iter().map(|(_, value)| quoted(value)).collect();
        writeln!(text, "{}", fields.join(",")).expect("writing to a string");
    }
    text
}

fn quoted(value: String) -> String {
    match value.contains([',', '"', '\n']) {
        true => format!("\"{}\"", value.replace('"', "\"\"")),
        false => value,
    }
}

type Columns = Vec<(&'static str, String)>;

/// Names and values; without a repeat the values are empty.
fn columns(run: &Run, repeat: Option<&Repeat>) -> Columns {
    let mut columns = harness(run, repeat);
    columns.extend(ours(run, repeat));
    columns.extend(parts(repeat));
    columns
}

/// Istio's columns. Latencies in µs, CPU in milli-cores, memory in MiB (Pss).
fn harness(run: &Run, repeat: Option<&Repeat>) -> Columns {
    let extra = run.settings.extra_labels.as_deref();
    let of = |value: &dyn Fn(&Repeat) -> String| repeat.map(value).unwrap_or_default();
    let quantile = |q: f64| of(&|r| micros_at(r.latencies.shown(), q));
    let cpu = |side: Side| of(&|r| side(r).map(milli_cores).unwrap_or_default());
    let memory = |side: Side| of(&|r| side(r).map(pss).unwrap_or_default());
    vec![
        ("StartTime", of(&|r| r.started.clone())),
        (
            "ActualDuration",
            of(&|r| format!("{:.0}", r.window_seconds)),
        ),
        ("Labels", of(&|r| label(&run.id, &r.key, extra))),
        ("NumThreads", of(&|r| r.key.connections.to_string())),
        ("ActualQPS", of(&|r| format!("{:.0}", r.achieved_qps))),
        ("p50", quantile(0.5)),
        ("p90", quantile(0.9)),
        ("p99", quantile(0.99)),
        ("p999", quantile(0.999)),
        ("cpu_mili_avg_istio_proxy_fortioclient", cpu(client)),
        ("cpu_mili_avg_istio_proxy_fortioserver", cpu(server)),
        (
            "cpu_mili_avg_istio_proxy_istio-ingressgateway",
            cpu(gateway),
        ),
        ("mem_Mi_avg_istio_proxy_fortioclient", memory(client)),
        ("mem_Mi_avg_istio_proxy_fortioserver", memory(server)),
        (
            "mem_Mi_avg_istio_proxy_istio-ingressgateway",
            memory(gateway),
        ),
        (
            "RequestedQPS",
            of(&|r| r.key.qps.unwrap_or(99_999_999).to_string()),
        ),
        ("RunType", of(&|_| "HTTP".to_owned())),
        ("min", of(&|r| extreme(r, Histogram::min))),
        ("max", of(&|r| extreme(r, Histogram::max))),
        ("p75", quantile(0.75)),
        ("errorPercent", of(&|r| error_percent(r))),
        ("Payload", of(&|r| r.key.payload_bytes.to_string())),
    ]
}

/// The least or the greatest; nothing where there is none.
fn extreme(repeat: &Repeat, which: fn(&Histogram<u64>) -> u64) -> String {
    let histogram = repeat.latencies.shown();
    match histogram.is_empty() {
        true => String::new(),
        false => format!("{:.1}", micros(which(histogram))),
    }
}

fn ours(run: &Run, repeat: Option<&Repeat>) -> Columns {
    let scale = run.settings.scale;
    let of = |value: &dyn Fn(&Repeat) -> String| repeat.map(value).unwrap_or_default();
    let sent = |q: f64| of(&|r| micros_at(&r.latencies.sent, q));
    let throttled = |side: Side| of(&|r| side(r).map(throttled_millis).unwrap_or_default());
    let periods = |side: Side| of(&|r| side(r).map(throttled_periods).unwrap_or_default());
    let anon = |side: Side| of(&|r| side(r).map(anon_mebibytes).unwrap_or_default());
    vec![
        ("DataPlane", of(&|r| r.key.data_plane.clone())),
        ("Mode", of(&|r| r.key.mode.name().to_owned())),
        ("Link", of(&|r| r.key.link.name().to_owned())),
        ("SidecarCPU", of(&|r| sidecar_limit(&r.key, 1.0))),
        ("SidecarCPUScaled", of(&|r| sidecar_limit(&r.key, scale))),
        ("Telemetry", of(&|r| r.key.telemetry.name().to_owned())),
        ("Repeat", of(&|r| r.index.to_string())),
        ("Verdict", of(&|r| r.verdict.name().to_owned())),
        ("Reasons", of(&|r| r.reasons.join("; "))),
        ("Faults", of(&|r| r.faults.join("; "))),
        ("Requests", of(&|r| r.requests.to_string())),
        ("Errors", of(&|r| r.errors.to_string())),
        ("LateSends", of(&|r| optional(r.late))),
        ("Unfinished", of(&|r| optional(r.unfinished))),
        ("AchievedQPS", of(&|r| format!("{:.2}", r.achieved_qps))),
        ("LimitedBy", of(&|r| Limiter::of(r).kind().to_owned())),
        ("p50_from_send", sent(0.5)),
        ("p90_from_send", sent(0.9)),
        ("p99_from_send", sent(0.99)),
        ("p999_from_send", sent(0.999)),
        ("cpu_micros_per_request", of(&|r| micros_per_request(r))),
        ("throttled_ms_client", throttled(client)),
        ("throttled_ms_server", throttled(server)),
        ("nr_throttled_client", periods(client)),
        ("nr_throttled_server", periods(server)),
        ("anon_Mi_client", anon(client)),
        ("anon_Mi_server", anon(server)),
        ("generator_cores", of(&|r| share(r.generator_cores))),
        ("machine_idle", of(&|r| share(r.machine_idle))),
        ("machine_stolen", of(&|r| share(r.machine_stolen))),
        ("load_average", of(&|r| share(r.load_average))),
        ("retaken", of(&|r| r.retaken.len().to_string())),
    ]
}

/// Of all parts that have a quota.
fn parts(repeat: Option<&Repeat>) -> Columns {
    let of = |value: &dyn Fn(&Repeat) -> String| repeat.map(value).unwrap_or_default();
    let quantile = |q: f64| of(&|r| micros_at(r.latencies.shown(), q));
    let all = |side: Side| of(&|r| side(r).map(quota_periods).unwrap_or_default());
    let spent = |side: Side| of(&|r| side(r).map(throttled_periods).unwrap_or_default());
    let cpu = |side: Side| of(&|r| side(r).map(milli_cores).unwrap_or_default());
    let [api_gateway, ratings]: [Side; 2] = [
        |r| r.client_application.as_ref(),
        |r| r.server_application.as_ref(),
    ];
    vec![
        ("p95", quantile(0.95)),
        ("nr_periods_client", all(client)),
        ("nr_periods_server", all(server)),
        ("nr_periods_gateway", all(gateway)),
        ("nr_throttled_gateway", spent(gateway)),
        ("nr_periods_api_gateway", all(api_gateway)),
        ("nr_throttled_api_gateway", spent(api_gateway)),
        ("nr_periods_ratings", all(ratings)),
        ("nr_throttled_ratings", spent(ratings)),
        ("cpu_mili_api_gateway", cpu(api_gateway)),
        ("cpu_mili_ratings", cpu(ratings)),
    ]
}

type Side = fn(&Repeat) -> Option<&SidecarUsage>;

fn client(repeat: &Repeat) -> Option<&SidecarUsage> {
    repeat.client.as_ref()
}

fn server(repeat: &Repeat) -> Option<&SidecarUsage> {
    repeat.server.as_ref()
}

fn gateway(repeat: &Repeat) -> Option<&SidecarUsage> {
    repeat.gateway.as_ref()
}

fn optional(count: Option<u64>) -> String {
    count.map(|count| count.to_string()).unwrap_or_default()
}

fn micros_at(histogram: &Histogram<u64>, quantile: f64) -> String {
    percentile(histogram, quantile)
        .map(|nanos| format!("{:.1}", micros(nanos)))
        .unwrap_or_default()
}

fn milli_cores(usage: &SidecarUsage) -> String {
    format!("{:.2}", usage.cores() * 1e3)
}

fn pss(usage: &SidecarUsage) -> String {
    format!("{:.3}", mebibytes(usage.pss_bytes))
}

fn throttled_millis(usage: &SidecarUsage) -> String {
    usage
        .throttled_seconds
        .map(|seconds| format!("{:.3}", seconds * 1e3))
        .unwrap_or_default()
}

fn quota_periods(usage: &SidecarUsage) -> String {
    let periods = usage.periods;
    periods.map(|count| count.to_string()).unwrap_or_default()
}

fn throttled_periods(usage: &SidecarUsage) -> String {
    let periods = usage.throttled_periods;
    periods.map(|count| count.to_string()).unwrap_or_default()
}

/// CPUs; empty where there is no sidecar.
fn sidecar_limit(key: &CellKey, scale: f64) -> String {
    match key.crosses_client() || key.crosses_server() {
        true => (f64::from(scaled(key.sidecar_millis, scale)) / 1e3).to_string(),
        false => String::new(),
    }
}

fn anon_mebibytes(usage: &SidecarUsage) -> String {
    usage
        .anon_bytes
        .map(|bytes| format!("{:.3}", mebibytes(bytes)))
        .unwrap_or_default()
}

fn error_percent(repeat: &Repeat) -> String {
    format!(
        "{:.4}",
        count(repeat.errors) * 100.0 / count(repeat.requests.max(1))
    )
}

fn micros_per_request(repeat: &Repeat) -> String {
    let per_request = repeat.cpu_micros_per_request();
    per_request
        .map(|micros| format!("{micros:.3}"))
        .unwrap_or_default()
}

fn share(value: Option<f64>) -> String {
    value.map(|value| format!("{value:.4}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn every_repeat_has_one_row_with_every_column() {
        let run = sample::full_run();
        let text = text(&run);
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap().split(',').collect();
        assert_eq!(
            names[8..10],
            ["p999", "cpu_mili_avg_istio_proxy_fortioclient"]
        );
        let rows: Vec<&str> = lines.collect();
        let repeats: usize = run.cells.iter().map(|cell| cell.repeats.len()).sum();
        assert_eq!(rows.len(), repeats);
        assert!(
            rows.iter().all(|row| row.split(',').count() == names.len()),
            "{text}"
        );
    }

    #[test]
    fn a_percentile_without_enough_samples_is_empty() {
        let run = sample::full_run();
        let text = text(&run);
        let row: Vec<&str> = text.lines().nth(1).unwrap().split(',').collect();
        // 5,000 samples: 50 beyond P99, 5 beyond P99.9.
        assert!(!row[7].is_empty());
        assert!(row[8].is_empty());
    }

    #[test]
    fn a_field_with_a_comma_is_quoted() {
        assert_eq!(quoted("a, \"b\"".to_owned()), "\"a, \"\"b\"\"\"");
    }
}
