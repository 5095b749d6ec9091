//! Results as fortio writes them, so that its report and Istio's harness can read them. Buckets
//! are at most 1 % wide, so that percentiles interpolated from them agree with ours.

use super::percentile;
use crate::{Arrivals, Failure, Outcome, Protocol, Rate, Verdict, serve::Served};
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};
use std::time::Duration;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

const PERCENTILES: [f64; 5] = [50.0, 75.0, 90.0, 99.0, 99.9];
/// A bucket ends before this multiple of its start.
const BUCKET_WIDTH: f64 = 1.0075;
/// fortio's code for a request without an answer.
const NO_ANSWER: &str = "-1";

/// The run as fortio's JSON. Times are from the intended send, in seconds; what fortio has no
/// field for is under `Leno`, among it the same histogram from the actual send.
pub fn fortio(outcome: &Outcome) -> Value {
    let plan = &outcome.plan;
    let requested = match plan.rate {
        Rate::PerSecond(rate) => rate.to_string(),
        Rate::Max => "max".to_owned(),
    };
    let mut value = json!({
        "RunType": match plan.protocol {
            Protocol::Http1 | Protocol::Http2 => "HTTP",
            Protocol::Grpc(_) => "GRPC",
            Protocol::Tcp => "TCP",
        },
        "Labels": plan.labels,
        "StartTime": start_time(outcome),
        "RequestedQPS": requested,
        "RequestedDuration": go_duration(plan.duration),
        "ActualQPS": outcome.requests as f64 / outcome.elapsed.as_secs_f64(),
        "ActualDuration": nanos(outcome.elapsed),
        "NumThreads": plan.connections * plan.streams,
        "Version": concat!("leno ", env!("CARGO_PKG_VERSION")),
        "DurationHistogram": duration_histogram(&outcome.latency),
        "ErrorsDurationHistogram": duration_histogram(&outcome.latency_failed),
        "Exactly": 0,
        "Jitter": plan.arrivals == Arrivals::Poisson,
        "Uniform": plan.arrivals == Arrivals::Staggered,
        "NoCatchUp": false,
        "RunID": 0,
        "AccessLoggerInfo": "",
        "ID": "",
    });
    extend(&mut value, http(outcome));
    extend(&mut value, json!({ "Leno": own(outcome) }));
    value
}

/// What fortio says besides about its HTTP runner.
fn http(outcome: &Outcome) -> Value {
    let plan = &outcome.plan;
    let tls = plan.tls.clone().unwrap_or_default();
    let path = |path: &Option<std::path::PathBuf>| {
        path.as_ref()
            .map_or_else(String::new, |path| path.display().to_string())
    };
    json!({
        "RetCodes": return_codes(outcome),
        "IPCountMap": { outcome.address.ip().to_string(): plan.connections },
        "Insecure": tls.insecure,
        "MTLS": tls.certificate_pem.is_some(),
        "CACert": path(&tls.roots_pem),
        "Cert": path(&tls.certificate_pem),
        "Key": path(&tls.key_pem),
        "UnixDomainSocket": "",
        "URL": plan.url,
        "NumConnections": plan.connections,
        "Compression": false,
        "DisableFastClient": false,
        "HTTP10": false,
        "H2": plan.protocol.has_streams(),
        "DisableKeepAlive": false,
        "AllowHalfClose": false,
        "FollowRedirects": false,
        "Resolve": plan.connect_to.map_or_else(String::new, |address| address.ip().to_string()),
        "HTTPReqTimeOut": nanos(plan.timeout),
        "UserCredentials": "",
        "ContentType": "",
        "Payload": null,
        "MethodOverride": if plan.method == "GET" { "" } else { plan.method.as_str() },
        "LogErrors": false,
        "SequentialWarmup": false,
        "ConnReuseRange": [0, 0],
        "NoResolveEachConn": false,
        "Offset": 0,
        "Resolution": 0.000_001,
        "Sizes": null,
        "HeaderSizes": null,
        "Sockets": null,
        "SocketCount": u64::from(plan.connections) + outcome.reconnects,
        "ConnectionStats": null,
        "AbortOn": 0,
    })
}

/// A histogram of nanoseconds as fortio writes one, in seconds. Percentiles without enough
/// samples beyond them are left out.
pub fn duration_histogram(histogram: &Histogram<u64>) -> Value {
    if histogram.is_empty() {
        return json!({
            "Count": 0, "Min": 0, "Max": 0, "Sum": 0, "Avg": 0, "StdDev": 0, "Data": null,
        });
    }
    let percentiles = PERCENTILES.into_iter().filter_map(|percent| {
        let value = seconds(percentile(histogram, percent)?);
        Some(json!({ "Percentile": percent, "Value": value }))
    });
    let mean = histogram.mean() / 1e9;
    json!({
        "Count": histogram.len(),
        "Min": seconds(histogram.min()),
        "Max": seconds(histogram.max()),
        "Sum": mean * histogram.len() as f64,
        "Avg": mean,
        "StdDev": histogram.stdev() / 1e9,
        "Data": buckets(histogram),
        "Percentiles": percentiles.collect::<Vec<_>>(),
    })
}

/// A server's delays: fortio's histogram with the times around it.
pub(crate) fn delays(served: &Served) -> Value {
    json!({
        "Answers": served.answers,
        "Connections": served.connections,
        "Duration": served.elapsed.as_secs_f64(),
        "DelayHistogram": duration_histogram(&served.delays),
    })
}

/// Neighbouring recorded values are put together while the bucket stays narrow.
fn buckets(histogram: &Histogram<u64>) -> Vec<Value> {
    let mut buckets: Vec<(u64, u64, u64)> = Vec::new();
    for recorded in histogram.iter_recorded() {
        let value = recorded.value_iterated_to();
        let (low, high) = (
            histogram.lowest_equivalent(value),
            histogram.highest_equivalent(value),
        );
        let count = recorded.count_at_value();
        match buckets.last_mut() {
            Some((start, end, sum)) if (high as f64) < *start as f64 * BUCKET_WIDTH => {
                (*end, *sum) = (high, *sum + count);
            }
            _ => buckets.push((low, high, count)),
        }
    }
    let (total, last) = (histogram.len() as f64, buckets.len().saturating_sub(1));
    let mut sum = 0;
    let entry = |(index, (start, end, count))| {
        sum += count;
        let start = if index == 0 { histogram.min() } else { start };
        let end = if index == last { histogram.max() } else { end };
        json!({
            "Start": seconds(start),
            "End": seconds(end.max(start)),
            "Percent": 100.0 * sum as f64 / total,
            "Count": count,
        })
    };
    buckets.into_iter().enumerate().map(entry).collect()
}

fn own(outcome: &Outcome) -> Value {
    let plan = &outcome.plan;
    let reason = match &outcome.verdict {
        Verdict::Void { reason } => reason.as_str(),
        Verdict::Valid | Verdict::Saturated => "",
    };
    let verdict = match outcome.verdict {
        Verdict::Valid => "valid",
        Verdict::Saturated => "saturated",
        Verdict::Void { .. } => "void",
    };
    json!({
        "Protocol": plan.protocol.name(),
        "GrpcMode": match plan.protocol {
            Protocol::Grpc(mode) => Some(mode.name()),
            Protocol::Http1 | Protocol::Http2 | Protocol::Tcp => None,
        },
        "Streams": plan.streams,
        "Verdict": verdict,
        "Reason": reason,
        "AskedRate": outcome.asked_rate,
        "AchievedRate": outcome.achieved_rate,
        "WarmUp": go_duration(plan.warm_up),
        "Scheduled": outcome.scheduled,
        "LateSends": outcome.late_sends,
        "WorstLateness": outcome.worst_lateness.as_secs_f64(),
        "Unfinished": outcome.unfinished,
        "Failures": failures(outcome),
        "Reconnects": outcome.reconnects,
        "BytesSent": outcome.bytes_sent,
        "BytesReceived": outcome.bytes_received,
        "GeneratorCpu": outcome.generator.cpu.as_secs_f64(),
        "GeneratorCpuShare": outcome.generator.busiest,
        "GeneratorCpuWait": outcome.generator.wait.as_secs_f64(),
        "DurationHistogramFromSend": duration_histogram(&outcome.latency_from_send),
    })
}

fn failures(outcome: &Outcome) -> Value {
    serde_json::to_value(&outcome.failures).expect("a map of counts")
}

fn return_codes(outcome: &Outcome) -> Map<String, Value> {
    let answered = outcome
        .statuses
        .iter()
        .map(|(status, count)| (status_name(outcome.plan.protocol, *status), *count));
    let mut codes: Map<String, Value> = answered
        .map(|(status, count)| (status, count.into()))
        .collect();
    if outcome.failed() > 0 {
        codes.insert(NO_ANSWER.to_owned(), outcome.failed().into());
    }
    codes
}

fn extend(value: &mut Value, more: Value) {
    if let (Value::Object(all), Value::Object(more)) = (value, more) {
        all.extend(more);
    }
}

fn start_time(outcome: &Outcome) -> String {
    let time = OffsetDateTime::from(outcome.started);
    time.format(&Rfc3339).expect("today has an RFC 3339 form")
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn nanos(duration: Duration) -> u64 {
    crate::clock::duration(duration)
}

/// A duration as Go writes it: `1m30s`, `500ms`.
fn go_duration(duration: Duration) -> String {
    let total = duration.as_secs();
    if total == 0 {
        return match duration.subsec_nanos() {
            0 => "0s".to_owned(),
            nanos if nanos % 1_000_000 == 0 => format!("{}ms", nanos / 1_000_000),
            nanos if nanos % 1_000 == 0 => format!("{}µs", nanos / 1_000),
            nanos => format!("{nanos}ns"),
        };
    }
    let (hours, minutes) = (total / 3600, total / 60 % 60);
    let seconds = (total % 60) as f64 + f64::from(duration.subsec_nanos()) / 1e9;
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// How an answer is called in a table: by its HTTP status, or as OK where the protocol has a word
/// of its own for what went well.
pub(super) fn status_name(protocol: Protocol, status: u16) -> String {
    match (protocol, status) {
        (Protocol::Grpc(_) | Protocol::Tcp, 200) => "OK".to_owned(),
        _ => status.to_string(),
    }
}

/// How a failure is called in a table.
pub(super) fn failure_name(failure: Failure) -> &'static str {
    match failure {
        Failure::Connect => "no connection",
        Failure::Tls => "TLS failed",
        Failure::Timeout => "timed out",
        Failure::Closed => "closed too early",
        Failure::Malformed => "answer breaks the protocol",
        Failure::Reset => "stream reset",
        Failure::GrpcStatus => "gRPC status not OK",
        Failure::WrongEcho => "not what was sent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_durations_as_go_does() {
        let check = |millis, expected| {
            assert_eq!(go_duration(Duration::from_millis(millis)), expected);
        };
        check(0, "0s");
        check(500, "500ms");
        check(10_000, "10s");
        check(1_500, "1.5s");
        check(90_000, "1m30s");
        check(3_600_000, "1h0m0s");
    }

    /// fortio's own interpolation.
    fn interpolated(data: &[Value], count: u64, percent: f64) -> f64 {
        let field = |bucket: &Value, name: &str| bucket[name].as_f64().unwrap();
        let mut before = 100.0 / count as f64;
        for bucket in data {
            let (start, end) = (field(bucket, "Start"), field(bucket, "End"));
            if percent <= field(bucket, "Percent") {
                let part = (percent - before) / (field(bucket, "Percent") - before);
                return start + part * (end - start);
            }
            before = field(bucket, "Percent");
        }
        unreachable!("the last bucket reaches 100 %")
    }

    #[test]
    fn percentiles_interpolated_from_the_buckets_agree() {
        let mut histogram = crate::tally::histogram();
        let mut random = crate::schedule::Random::new(3, 3);
        for _ in 0..100_000 {
            histogram
                .record((1e5 * (8.0 * random.unit()).exp()) as u64)
                .unwrap();
        }
        let value = duration_histogram(&histogram);
        let data = value["Data"].as_array().unwrap();
        assert!(data.len() < 1500, "{}", data.len());
        for entry in value["Percentiles"].as_array().unwrap() {
            let (percent, ours) = (
                entry["Percentile"].as_f64(),
                entry["Value"].as_f64().unwrap(),
            );
            let theirs = interpolated(data, histogram.len(), percent.unwrap());
            assert!(
                (theirs / ours - 1.0).abs() < 0.01,
                "{percent:?}: {theirs} {ours}"
            );
        }
        let counts = data.iter().map(|bucket| bucket["Count"].as_u64().unwrap());
        assert_eq!(counts.sum::<u64>(), 100_000);
    }
}
