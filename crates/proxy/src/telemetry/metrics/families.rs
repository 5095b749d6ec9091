//! THE table of metrics: name, kind, help, labels and where the samples come from.
//! Read by the page and by the test that compares it with `docs/metrics.md`. Adding a metric is a
//! row here and a row there; must never differ from what is documented.

use identity::HandshakeFailure;
use model::Direction;

use super::connections::Side;
use super::dns::{Answered, Recalled, Upstream};
use super::slot::{BUCKETS, CLASSES, Totals, bound_us};
use super::view::{Out, Pair, Sample, Value, View};
use crate::error::Flag;

pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) help: &'static str,
    pub(super) samples: Samples,
}

pub(super) enum Samples {
    OfProxy(fn(&View, &mut Out<'_>)),
    OfSeries(fn(&[Pair<'_>], &Totals, &mut Out<'_>)),
}

use Samples::{OfProxy, OfSeries};

const fn row(
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: Samples,
) -> Family {
    Family {
        name,
        kind,
        help,
        samples,
    }
}

#[rustfmt::skip]
pub(super) static FAMILIES: &[Family] = &[
    row("leno_requests_total", "counter",
        "Requests that ended, by class of status and response flag.", OfSeries(requests)),
    row("leno_request_duration_seconds", "histogram",
        "From a request's first bytes to the end of its answer.", OfSeries(durations)),
    row("leno_request_bytes_total", "counter",
        "Body bytes received from downstream.", OfSeries(|labels, totals, out| {
            one(labels, totals.bytes_in, out);
        })),
    row("leno_response_bytes_total", "counter",
        "Body bytes sent to downstream.", OfSeries(|labels, totals, out| {
            one(labels, totals.bytes_out, out);
        })),
    row("leno_requests_active", "gauge",
        "Requests that have begun and not ended.", OfSeries(|labels, totals, out| {
            one(labels, totals.active, out);
        })),
    row("leno_request_retries_total", "counter",
        "Further attempts, on another endpoint or connection.", OfSeries(|labels, totals, out| {
            one(labels, totals.retries, out);
        })),
    row("leno_connections_opened_total", "counter",
        "Downstream connections accepted.", OfProxy(|view, out| downstream(view, 0, out))),
    row("leno_connections_active", "gauge",
        "Downstream connections open now.", OfProxy(|view, out| downstream(view, 1, out))),
    row("leno_connections_rejected_total", "counter",
        "Downstream connections closed at once, over the limit.",
        OfProxy(|view, out| downstream(view, 2, out))),
    row("leno_upstream_connections_opened_total", "counter",
        "Connections made to endpoints.", OfProxy(|view, out| {
            one(&[], view.connections.upstream[0], out);
        })),
    row("leno_upstream_connections_active", "gauge",
        "Connections to endpoints open now, used or not.", OfProxy(|view, out| {
            one(&[], view.connections.upstream[1], out);
        })),
    row("leno_upstream_connect_failures_total", "counter",
        "Connections to endpoints that could not be made.", OfProxy(|view, out| {
            one(&[], view.connections.upstream[2], out);
        })),
    row("leno_tls_handshakes_total", "counter",
        "TLS handshakes that succeeded.", OfProxy(handshakes)),
    row("leno_tls_handshake_failures_total", "counter",
        "TLS handshakes that failed, by reason.", OfProxy(handshake_failures)),
    row("leno_control_connected", "gauge",
        "1 while there is a conversation with the control plane.", OfProxy(control_connected)),
    row("leno_control_resources_total", "counter",
        "Resources that the control plane sent, by kind and result.", OfProxy(control_resources)),
    row("leno_dns_queries_total", "counter",
        "Queries for names, by result.", OfProxy(dns_queries)),
    row("leno_dns_cache_lookups_total", "counter",
        "Queries for names outside the mesh, by where the answer is got.", OfProxy(dns_lookups)),
    row("leno_dns_upstream_queries_total", "counter",
        "Questions to other name servers, by result.", OfProxy(dns_upstream)),
    row("leno_dns_upstream_duration_seconds", "histogram",
        "From a question to another name server to its answer.", OfProxy(|view, out| {
            let (buckets, sum_us) = view.parts.dns.read_durations();
            histogram(&[], &buckets, sum_us, out);
        })),
    row("leno_config_reloads_total", "counter",
        "Reloads of the configuration, by result.", OfProxy(reloads)),
    row("leno_access_log_dropped_total", "counter",
        "Access log lines dropped because the log could not keep up.", OfProxy(|view, out| {
            one(&[], view.parts.access_log_dropped, out);
        })),
    row("leno_metric_series", "gauge",
        "Sets of labels that requests are counted under.", OfProxy(|view, out| {
            one(&[], view.parts.series.len() as u64, out);
        })),
    row("leno_metric_series_overflowed_total", "counter",
        "Times that a peer found no series of its own.", OfProxy(|view, out| {
            one(&[], view.parts.overflowed, out);
        })),
    row("leno_proxy_info", "gauge",
        "Always 1: the workload and the version of its proxy.", OfProxy(info)),
];

fn one(labels: &[Pair<'_>], value: u64, out: &mut Out<'_>) {
    out(Sample {
        suffix: "",
        labels,
        more: &[],
        value: Value::Count(value),
    });
}

/// Pairs of class and flag that never came are left out: they would be ninety lines.
fn requests(labels: &[Pair<'_>], totals: &Totals, out: &mut Out<'_>) {
    for (flag, by_class) in Flag::ALL.iter().zip(&totals.requests) {
        for (class, &count) in CLASSES.iter().zip(by_class) {
            if count > 0 {
                let more = &[("status_class", *class), ("flag", flag.label())];
                out(Sample {
                    suffix: "",
                    labels,
                    more,
                    value: Value::Count(count),
                });
            }
        }
    }
}

fn durations(labels: &[Pair<'_>], totals: &Totals, out: &mut Out<'_>) {
    histogram(labels, &totals.buckets, totals.duration_us, out);
}

fn histogram(labels: &[Pair<'_>], buckets: &[u64; BUCKETS], sum_us: u64, out: &mut Out<'_>) {
    let mut count = 0;
    for (index, bucket) in buckets.iter().enumerate() {
        count += bucket;
        let bound = bound_us(index).map_or_else(|| "+Inf".to_owned(), seconds);
        let more = &[("le", bound.as_str())];
        out(Sample {
            suffix: "_bucket",
            labels,
            more,
            value: Value::Count(count),
        });
    }
    let value = Value::Micros(sum_us);
    out(Sample {
        suffix: "_sum",
        labels,
        more: &[],
        value,
    });
    out(Sample {
        suffix: "_count",
        labels,
        more: &[],
        value: Value::Count(count),
    });
}

/// Without trailing zeros: `le` values are compared as text by many.
pub(super) fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn downstream(view: &View, what: usize, out: &mut Out<'_>) {
    for direction in Direction::ALL {
        let labels = &[("direction", direction.label())];
        one(
            labels,
            view.connections.downstream[direction.index()][what],
            out,
        );
    }
}

fn handshakes(view: &View, out: &mut Out<'_>) {
    for (side, counts) in Side::ALL.iter().zip(view.connections.handshakes) {
        for (resumed, count) in ["false", "true"].iter().zip(counts) {
            one(&[("side", side.label()), ("resumed", resumed)], count, out);
        }
    }
}

/// Reasons that never came are left out.
fn handshake_failures(view: &View, out: &mut Out<'_>) {
    for (side, counts) in Side::ALL.iter().zip(view.connections.failures) {
        for (reason, count) in HandshakeFailure::ALL.iter().zip(counts) {
            if count > 0 {
                one(
                    &[("side", side.label()), ("reason", reason.label())],
                    count,
                    out,
                );
            }
        }
    }
}

fn control_connected(view: &View, out: &mut Out<'_>) {
    if let Some(status) = &view.parts.control {
        one(&[], u64::from(status.is_connected()), out);
    }
}

fn control_resources(view: &View, out: &mut Out<'_>) {
    let Some(status) = &view.parts.control else {
        return;
    };
    for (kind, accepted, refused) in status.counts() {
        one(&[("kind", kind), ("result", "accepted")], accepted, out);
        one(&[("kind", kind), ("result", "refused")], refused, out);
    }
}

fn dns_queries(view: &View, out: &mut Out<'_>) {
    for answered in Answered::ALL {
        let labels = &[("result", answered.label())];
        one(labels, view.parts.dns.read(answered), out);
    }
}

fn dns_lookups(view: &View, out: &mut Out<'_>) {
    for recalled in Recalled::ALL {
        let labels = &[("result", recalled.label())];
        one(labels, view.parts.dns.read_recalled(recalled), out);
    }
}

fn dns_upstream(view: &View, out: &mut Out<'_>) {
    let counts = view.parts.dns.read_upstream();
    for (label, count) in Upstream::LABELS.iter().zip(counts) {
        one(&[("result", label)], count, out);
    }
}

fn reloads(view: &View, out: &mut Out<'_>) {
    let (accepted, rejected) = view.parts.reloads;
    one(&[("result", "accepted")], accepted, out);
    one(&[("result", "rejected")], rejected, out);
}

fn info(view: &View, out: &mut Out<'_>) {
    let workload = &view.parts.workload;
    let labels = &[
        ("workload", workload.name.as_str()),
        ("namespace", &workload.namespace),
        ("service_account", &workload.service_account),
        ("version", env!("CARGO_PKG_VERSION")),
    ];
    one(labels, 1, out);
}
