//! `--export smp`: a run in the messages of the Service Mesh Performance specification (its
//! protos, in protobuf's JSON form with the names of the protos): one environment, a test
//! configuration for each cell, and for each repeat a mesh configuration, with what its sidecars
//! used, and a result. Ids tie them together. What the messages have no field for is a label; what
//! we do not know is left out.

use serde_json::{Map, Value, json};

use crate::results::{Application, Cell, CellKey, Link, Mode, Repeat, Run, SidecarUsage, pool};
use crate::run::planes;
use crate::units::count;

/// The specification's version that is followed.
const VERSION: &str = "v0.0.1";

/// Everything, by message.
pub(crate) fn value(run: &Run) -> Value {
    let repeats = || run.cells.iter().flat_map(|cell| &cell.repeats);
    let tests: Vec<Value> = run
        .cells
        .iter()
        .map(|cell| test_config(run, cell))
        .collect();
    let meshes: Vec<Value> = repeats().map(|repeat| mesh_config(run, repeat)).collect();
    let results: Vec<Value> = repeats().map(|repeat| result(run, repeat)).collect();
    json!({
        "environment_configs": [environment(run)],
        "performance_test_configs": tests,
        "mesh_configs": meshes,
        "performance_test_results": results,
    })
}

fn result(run: &Run, repeat: &Repeat) -> Value {
    json!({
        "smp_version": VERSION,
        "id": id_of(run, repeat),
        "labels": labels([
            ("verdict", repeat.verdict.name().to_owned()),
            ("requests", repeat.requests.to_string()),
            ("errors", repeat.errors.to_string()),
        ]),
        "start_time": repeat.started,
        "end_time": end(repeat),
        "latencies_ms": latencies(repeat),
        "actual_QPS": repeat.achieved_qps,
        "testId": test_id(run, &repeat.key),
        "meshConfigId": id_of(run, repeat),
        "envId": run.id,
    })
}

fn test_id(run: &Run, key: &CellKey) -> String {
    format!("{}/{}", run.id, key.slug())
}

fn id_of(run: &Run, repeat: &Repeat) -> String {
    format!("{}/{}", test_id(run, &repeat.key), repeat.index)
}

fn labels<const N: usize>(pairs: [(&str, String); N]) -> Map<String, Value> {
    let pairs = pairs.into_iter();
    pairs
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect()
}

fn end(repeat: &Repeat) -> Option<String> {
    use time::format_description::well_known::Rfc3339;
    let started = time::OffsetDateTime::parse(&repeat.started, &Rfc3339).ok()?;
    let end = started + time::Duration::seconds_f64(repeat.window_seconds);
    end.format(&Rfc3339).ok()
}

/// A percentile without enough samples beyond it is left out.
fn latencies(repeat: &Repeat) -> Value {
    let histogram = repeat.latencies.shown();
    if histogram.is_empty() {
        return json!({});
    }
    let mut latencies = json!({
        "min": count(histogram.min()) / 1e6,
        "average": histogram.mean() / 1e6,
        "max": count(histogram.max()) / 1e6,
    });
    for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        if let Some(nanos) = pool::percentile(histogram, quantile) {
            latencies[name] = json!(count(nanos) / 1e6);
        }
    }
    latencies
}

fn test_config(run: &Run, cell: &Cell) -> Value {
    let (settings, key) = (&run.settings, &cell.key);
    let headers = settings.headers.iter();
    let headers: Map<String, Value> = headers
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
        .collect();
    json!({
        "smp_version": VERSION,
        "id": test_id(run, key),
        "name": settings.experiment.name(),
        "labels": labels([
            ("link", key.link.name().to_owned()),
            ("loop", if key.qps.is_some() { "open" } else { "closed" }.to_owned()),
            ("note", settings.extra_labels.clone().unwrap_or_default()),
        ]),
        "clients": [{
            "internal": true,
            "load_generator": run.environment.generator,
            "protocol": "http",
            "connections": key.connections,
            // A closed loop has no rate.
            "rps": key.qps.unwrap_or(0),
            "headers": headers,
        }],
        "duration": format!("{}s", settings.duration_seconds),
    })
}

fn mesh_config(run: &Run, repeat: &Repeat) -> Value {
    let key = &repeat.key;
    let planes = &run.environment.data_planes;
    let version = planes.iter().find(|plane| plane.name == key.data_plane);
    let version = version.map_or("", |plane| plane.version.as_str());
    let sidecars: Vec<&SidecarUsage> = [&repeat.client, &repeat.server]
        .into_iter()
        .flatten()
        .collect();
    let cores: f64 = sidecars.iter().map(|usage| usage.cores()).sum();
    let memory: u64 = sidecars.iter().map(|usage| usage.pss_bytes).sum();
    json!({
        "smp_version": VERSION,
        "id": id_of(run, repeat),
        "labels": labels([
            ("data_plane", key.data_plane.clone()),
            ("mode", key.mode.name().to_owned()),
            ("telemetry", key.telemetry.name().to_owned()),
        ]),
        "sidecar": {
            "count": sidecars.len(),
            "cpu_mCores": whole(cores * 1e3),
            "mem_mb": megabytes(memory),
            "rps": whole(repeat.achieved_qps),
        },
        "mtls_enabled": is_mutual(key),
        "proxy_concurrency": 1,
        "proxy_build": version,
    })
}

/// Whether the hop is known to be mutual TLS: of a data plane that a command defines it is not.
fn is_mutual(key: &CellKey) -> bool {
    let has_hop = key.mode == Mode::Both || key.mode == Mode::Ingress;
    has_hop && planes::is_ours(&key.data_plane)
}

fn environment(run: &Run) -> Value {
    let here = &run.environment;
    let application = match (run.settings.application, run.settings.links.as_slice()) {
        (_, [Link::Echo]) => "echo",
        (Application::Java, _) => "bookinfo, Java",
        (Application::Static, _) => "bookinfo, static",
    };
    json!({
        "smp_version": VERSION,
        "id": run.id,
        "labels": labels([
            ("kind", here.kind.clone()),
            ("kernel", here.kernel.clone()),
            ("system", here.system.clone()),
        ]),
        "node": [{
            "type": here.cpu_model,
            "cores": here.cpus,
            "mem_mb": megabytes(here.memory_bytes),
        }],
        "individual_workloads": [{ "name": application, "count": 1 }],
    })
}

fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1_000_000)
}

/// The messages have whole numbers.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no rate and no number of cores comes near the end of u64"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    /// Fields of the messages as `protos/service_mesh_performance.proto` has them: s text, i a
    /// whole number, d a number, b a truth, m a map of texts, t a time.
    const FIELDS: [(&str, &str); 10] = [
        (
            "environment_configs",
            "smp_version:s id:s labels:m kubernetes_version:s node individual_workloads \
             traffic_metadata",
        ),
        ("node", "type:s cores:i mem_mb:i"),
        (
            "individual_workloads",
            "name:s count:i cpu_mCores:i mem_mb:i",
        ),
        (
            "performance_test_configs",
            "smp_version:s id:s name:s labels:m clients duration:s",
        ),
        (
            "clients",
            "internal:b load_generator:s protocol:s connections:i rps:i headers:m cookies:m body:s \
             content_type:s endpoint_url",
        ),
        (
            "mesh_configs",
            "smp_version:s id:s labels:m ingress_gateway sidecar mesh_telemetry mesh_policy \
             mesh_control_plane mesh_policy_enabled:b mesh_telemetry_enabled:b mtls_enabled:b \
             proxy_concurrency:i mesh_build:s proxy_build:s exp_group_uuid:s exp_uuid:s profile:s \
             mesh_type application_metadata",
        ),
        ("sidecar", "count:i cpu_mCores:i mem_mb:i rps:i bps:i"),
        (
            "performance_test_results",
            "smp_version:s id:s labels:m start_time:t end_time:t latencies_ms actual_QPS:d \
             details_uri:s testId:s meshConfigId:s envId:s",
        ),
        ("latencies_ms", "min:d average:d p50:d p90:d p99:d max:d"),
        (
            "",
            "environment_configs performance_test_configs mesh_configs performance_test_results",
        ),
    ];

    /// All that is in `value` must be fields of `message` with values of their kinds.
    #[track_caller]
    fn check(message: &str, value: &Value) {
        if let Some(values) = value.as_array() {
            return values.iter().for_each(|value| check(message, value));
        }
        let (_, fields) = FIELDS.iter().find(|(name, _)| *name == message).unwrap();
        for (name, value) in value.as_object().unwrap() {
            let field = fields
                .split_whitespace()
                .find(|field| field.split(':').next() == Some(name));
            let field = field.unwrap_or_else(|| panic!("{message} has no {name}"));
            let is_sound = match field.split_once(':').map(|(_, kind)| kind) {
                None => {
                    check(name, value);
                    true
                }
                Some("s") => value.is_string(),
                Some("i") => value.is_u64(),
                Some("d") => value.is_f64(),
                Some("b") => value.is_boolean(),
                Some("m") => value
                    .as_object()
                    .is_some_and(|map| map.values().all(Value::is_string)),
                _ => value.as_str().is_some_and(|time| time.ends_with('Z')),
            };
            assert!(is_sound, "{message}.{name}: {value}");
        }
    }

    #[test]
    fn all_are_messages_of_the_specification() {
        check("", &value(&sample::full_run()));
    }

    #[test]
    fn ids_lead_from_a_result_to_all_else() {
        let value = value(&sample::full_run());
        let ids = |message: &str| -> Vec<&str> {
            let all = value[message].as_array().unwrap().iter();
            all.map(|one| one["id"].as_str().unwrap()).collect()
        };
        for result in value["performance_test_results"].as_array().unwrap() {
            for (field, message) in [
                ("testId", "performance_test_configs"),
                ("meshConfigId", "mesh_configs"),
                ("envId", "environment_configs"),
            ] {
                let id = result[field].as_str().unwrap();
                assert!(ids(message).contains(&id), "{id} is not in {message}");
            }
        }
    }

    #[test]
    fn a_repeat_says_what_was_measured() {
        let run = sample::full_run();
        let value = value(&run);
        let results = value["performance_test_results"].as_array().unwrap();
        let repeats = run.cells.iter().map(|cell| cell.repeats.len());
        assert_eq!(results.len(), repeats.sum::<usize>());
        let last = results.last().unwrap();
        assert_eq!(last["start_time"], "2026-01-02T03:04:06Z");
        assert_eq!(last["end_time"], "2026-01-02T03:04:11Z");
        assert!(last["latencies_ms"]["p99"].as_f64().unwrap() > 4.9);
        let mesh = value["mesh_configs"].as_array().unwrap().last().unwrap();
        assert_eq!(mesh["sidecar"]["count"], 2);
        assert_eq!(mesh["mtls_enabled"], true);
        let tests = value["performance_test_configs"].as_array().unwrap();
        assert_eq!(tests.last().unwrap()["clients"][0]["rps"], 1000);
    }
}
