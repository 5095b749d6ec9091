//! `--export smp`: a run in the terms of the Service Mesh Performance specification: for each
//! repeat its configuration, environment and result. Fields that we do not know are left out.

use serde_json::{Value, json};

use crate::results::{Application, Link, Metric, Mode, Repeat, Run, SidecarUsage, pool};
use crate::run::label;
use crate::units::{count, mebibytes};

/// The specification's version that is followed.
const VERSION: &str = "v0.0.1";

/// All repeats, in the order of the cells.
pub(crate) fn value(run: &Run) -> Value {
    let repeats = run.cells.iter().flat_map(|cell| &cell.repeats);
    Value::Array(repeats.map(|repeat| result(run, repeat)).collect())
}

fn result(run: &Run, repeat: &Repeat) -> Value {
    let name = label(&run.id, &repeat.key, run.settings.extra_labels.as_deref());
    let sidecars = [
        usage("client", &repeat.client),
        usage("server", &repeat.server),
    ];
    let sidecars: Vec<Value> = sidecars.into_iter().flatten().collect();
    json!({
        "name": name,
        "start_time": repeat.started,
        "end_time": end(repeat),
        "latencies_ms": latencies(repeat),
        "actual_qps": repeat.achieved_qps,
        "sidecars": sidecars,
        "performance_test_config": test_config(run, repeat),
        "mesh_config": mesh_config(run, repeat),
        "environment": environment(run),
        "labels": {
            "verdict": repeat.verdict.name(),
            "repeat": repeat.index,
            "requests": repeat.requests,
            "errors": repeat.errors,
        },
    })
}

fn end(repeat: &Repeat) -> Option<String> {
    use time::format_description::well_known::Rfc3339;
    let started = time::OffsetDateTime::parse(&repeat.started, &Rfc3339).ok()?;
    let end = started + time::Duration::seconds_f64(repeat.window_seconds);
    end.format(&Rfc3339).ok()
}

/// A percentile without enough samples beyond it is left out.
fn latencies(repeat: &Repeat) -> Value {
    let histogram = &repeat.latencies.intended;
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

fn usage(side: &str, usage: &Option<SidecarUsage>) -> Option<Value> {
    let usage = usage.as_ref()?;
    Some(json!({
        "side": side,
        "cpu_mcores": usage.cores() * 1e3,
        "mem_mb": mebibytes(usage.pss_bytes),
    }))
}

fn test_config(run: &Run, repeat: &Repeat) -> Value {
    let key = &repeat.key;
    let headers = run.settings.headers.iter();
    let headers: serde_json::Map<String, Value> = headers
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
        .collect();
    json!({
        "smp_version": VERSION,
        "name": run.settings.experiment.name(),
        "clients": [{
            "internal": true,
            "load_generator": run.environment.generator,
            "protocol": "http",
            "connections": key.connections,
            // A closed loop has no rate.
            "rps": key.qps.unwrap_or(0),
            "headers": headers,
        }],
        "duration": format!("{}s", repeat.window_seconds),
    })
}

fn mesh_config(run: &Run, repeat: &Repeat) -> Value {
    let key = &repeat.key;
    let planes = &run.environment.data_planes;
    let version = planes.iter().find(|plane| plane.name == key.data_plane);
    let sidecars = u8::from(key.crosses_client()) + u8::from(key.crosses_server());
    json!({
        "name": key.data_plane,
        "version": version.map(|plane| plane.version.as_str()),
        "mtls_enabled": key.mode == Mode::Both || key.mode == Mode::Ingress,
        "sidecar": {
            "count": sidecars,
            "cpu_mcores": Metric::Cpu.of_repeat(repeat),
            "mem_mb": Metric::Memory.of_repeat(repeat),
            "rps": repeat.achieved_qps,
        },
    })
}

fn environment(run: &Run) -> Value {
    let here = &run.environment;
    let application = match (run.settings.application, run.settings.links.as_slice()) {
        (_, [Link::Echo]) => "echo",
        (Application::Java, _) => "bookinfo, Java",
        (Application::Static, _) => "bookinfo, static",
    };
    json!({
        "kind": here.kind,
        "nodes": [{
            "cpu": here.cpu_model,
            "cpus": here.cpus,
            "memory_bytes": here.memory_bytes,
            "kernel": here.kernel,
            "system": here.system,
        }],
        "workloads": [application],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn a_repeat_has_the_words_of_the_specification() {
        let run = sample::full_run();
        let value = value(&run);
        let all = value.as_array().unwrap();
        assert_eq!(
            all.len(),
            run.cells
                .iter()
                .map(|cell| cell.repeats.len())
                .sum::<usize>()
        );
        let last = all.last().unwrap();
        assert_eq!(last["start_time"], "2026-01-02T03:04:06Z");
        assert_eq!(last["end_time"], "2026-01-02T03:04:11Z");
        assert_eq!(last["mesh_config"]["sidecar"]["count"], 2);
        assert_eq!(last["mesh_config"]["mtls_enabled"], true);
        assert_eq!(last["performance_test_config"]["clients"][0]["rps"], 1000);
        assert!(last["latencies_ms"]["p99"].as_f64().unwrap() > 4.9);
    }
}
