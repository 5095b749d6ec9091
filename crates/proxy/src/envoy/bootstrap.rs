//! What Envoy is told at its start: who it is, where its two sockets are, and how much of it there
//! is to be. Pure but for `start`, which `envoy` calls. Must never hold anything secret.

use super::folder::{self, Folder};
use super::process::Process;
use model::{Config, Envoy, XdsVariant};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Clusters that resources of the mesh may refer to.
const CONTROL_PLANE: &str = "xds";
const COMPANION: &str = "companion";

/// As for the sidecar's own conversation with the control plane: a peer that is gone is noticed
/// within a minute.
const KEEPALIVE_INTERVAL: &str = "30s";
const KEEPALIVE_TIMEOUT: &str = "10s";
/// A push goes on for so many bytes before it waits for a round trip.
const WINDOW_BYTES: u32 = 256 << 10;
/// What the access log of the mesh's listeners asks whether it is to write.
const ACCESS_LOG: &str = "leno.access_log";

/// Statistics that `leno` shows, and those that tell when Envoy is ready and drained. Others cost
/// memory for every cluster and listener, and time for every request. Whole names are matched.
const STATS: [&str; 7] = [
    r"server\.(live|state|uptime|concurrency|memory_allocated)",
    r"control_plane\..*",
    r"(cluster_manager\.cds|listener_manager\.lds)\.update_(success|rejected)",
    r"listener_manager\.(workers_started|total_listeners_active)",
    r"(listener|http|tcp)\..*\.downstream_(cx_active|rq_active|rq_total|rq_[1-5]xx)",
    r"cluster\..*\.upstream_rq_(completed|active|time|[1-5]xx)",
    r"cluster\..*\.upstream_cx_(total|active|connect_fail|[rt]x_bytes_total)",
];

/// What of a statistic's name is a label for Prometheus. By itself Envoy takes names to end at
/// their first dot, and ours are of clusters and listeners that have dots.
const TAGS: [(&str, &str); 4] = [
    (
        "envoy.cluster_name",
        r"^cluster\.((.+?)\.)(?:external\.|internal\.)?(?:upstream|membership|circuit|ssl|lb)_",
    ),
    (
        "envoy.http_conn_manager_prefix",
        r"^http\.((.+?)\.)downstream_",
    ),
    ("envoy.tcp_prefix", r"^tcp\.((.+?)\.)downstream_"),
    ("envoy.listener_address", r"^listener\.((.+?)\.)downstream_"),
];

/// Starts the Envoy that `envoy` describes, with its sockets in `folder`.
///
/// # Errors
/// When it cannot be started.
pub(super) fn start(config: &Config, envoy: &Envoy, folder: &Folder) -> anyhow::Result<Process> {
    let text = format!("{:#}\n", bootstrap(config, envoy, folder));
    let path = folder.write(folder::BOOTSTRAP, &text)?;
    Process::start(&envoy.program, &arguments(config, &path))
}

/// As many workers as the sidecar would have.
fn arguments(config: &Config, bootstrap: &Path) -> Vec<OsString> {
    let workers = match config.workers {
        0 => thread::available_parallelism().map_or(1, usize::from),
        count => count,
    };
    // What a listener that has changed serves still has the time that it has at a handover.
    let drain = config.limits.handover_timeout;
    let words = [
        ("--config-path", bootstrap.as_os_str().to_owned()),
        ("--concurrency", workers.to_string().into()),
        ("--drain-time-s", seconds(drain).into()),
        ("--drain-strategy", "immediate".into()),
        ("--log-level", "warning".into()),
        ("--log-format", "%l: %n: %v".into()),
    ];
    let words = words.into_iter();
    let words = words.flat_map(|(name, value)| [name.into(), value]);
    words.chain(["--disable-hot-restart".into()]).collect()
}

/// Whole ones, and at least one.
fn seconds(time: Duration) -> String {
    time.as_millis().div_ceil(1000).max(1).to_string()
}

fn bootstrap(config: &Config, envoy: &Envoy, folder: &Folder) -> Value {
    let workload = &config.workload;
    let ads = json!({"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"});
    let mut bootstrap = json!({
        "node": {
            "id": format!("{}.{}", workload.name, workload.namespace),
            "cluster": workload.service_account,
        },
        "admin": {"address": pipe(&folder.path(folder::ADMIN), Some(0o600))},
        "static_resources": {"clusters": [
            cluster(CONTROL_PLANE, &folder.path(folder::XDS)),
            cluster(COMPANION, &folder.path(folder::SECRETS)),
        ]},
        "dynamic_resources": {
            "ads_config": {
                "api_type": match envoy.xds {
                    XdsVariant::Delta => "DELTA_GRPC",
                    XdsVariant::StateOfTheWorld => "GRPC",
                },
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{"envoy_grpc": {"cluster_name": CONTROL_PLANE}}],
            },
            "cds_config": ads,
            "lds_config": ads,
        },
        "overload_manager": {"resource_monitors": [connections(config.limits.connections)]},
        "layered_runtime": {"layers": [{
            "name": "sidecar",
            "static_layer": {ACCESS_LOG: if envoy.access_log { 100 } else { 0 }},
        }]},
    });
    let tags = TAGS.map(|(name, regex)| json!({"tag_name": name, "regex": regex}));
    let of_status = json!({"tag_name": "envoy.response_code_class"});
    let tags: Value = tags.into_iter().chain([of_status]).collect();
    bootstrap["stats_config"] = json!({"use_all_default_tags": false, "stats_tags": tags});
    if !envoy.stats {
        let patterns = STATS.map(|regex| json!({"safe_regex": {"regex": regex}}));
        let matcher = json!({"inclusion_list": {"patterns": patterns}});
        bootstrap["stats_config"]["stats_matcher"] = matcher;
    }
    bootstrap
}

/// One more than that is closed at once, as by a sidecar.
fn connections(most: usize) -> Value {
    let kind = "envoy.extensions.resource_monitors.downstream_connections.v3\
                .DownstreamConnectionsConfig";
    json!({
        "name": "envoy.resource_monitors.global_downstream_max_connections",
        "typed_config": {
            "@type": format!("type.googleapis.com/{kind}"),
            "max_active_downstream_connections": most,
        },
    })
}

/// One of the companion's sockets, over HTTP/2.
fn cluster(name: &str, socket: &Path) -> Value {
    let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let http2 = json!({
        "connection_keepalive": {"interval": KEEPALIVE_INTERVAL, "timeout": KEEPALIVE_TIMEOUT},
        "initial_stream_window_size": WINDOW_BYTES,
        "initial_connection_window_size": WINDOW_BYTES,
    });
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "typed_extension_protocol_options": {
            options: {
                "@type": format!("type.googleapis.com/{options}"),
                "explicit_http_config": {"http2_protocol_options": http2},
            },
        },
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": pipe(socket, None)}}]}],
        },
    })
}

fn pipe(path: &Path, mode: Option<u32>) -> Value {
    let mut pipe = json!({"path": path});
    if let Some(mode) = mode {
        pipe["mode"] = mode.into();
    }
    json!({"pipe": pipe})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn config(more: &str) -> Config {
        let text = format!(
            "workload: {{name: web-0, namespace: shop, serviceAccount: web}}\n\
             control: {{addresses: [\"10.77.0.1:15128\"], trustBundle: root.pem}}\n\
             limits: {{handoverTimeout: 1500ms}}\n\
             envoy: {{program: envoy, folder: run{more}}}\n"
        );
        crate::config::parse(&text, Path::new("/")).unwrap()
    }

    fn told(more: &str) -> Value {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::make(&dir.path().join("envoy")).unwrap();
        let config = config(more);
        bootstrap(&config, config.envoy.as_ref().unwrap(), &folder)
    }

    #[test]
    fn envoy_is_told_who_it_is_and_where_to_ask() {
        let told = told("");
        assert_eq!(told["node"], json!({"id": "web-0.shop", "cluster": "web"}));
        assert_eq!(told["admin"]["address"]["pipe"]["mode"], 0o600);
        let ads = &told["dynamic_resources"]["ads_config"];
        assert_eq!(ads["api_type"], "DELTA_GRPC");
        assert_eq!(ads["grpc_services"][0]["envoy_grpc"]["cluster_name"], "xds");
        let clusters = told["static_resources"]["clusters"].as_array().unwrap();
        let names: Vec<_> = clusters.iter().map(|cluster| &cluster["name"]).collect();
        assert_eq!(names, ["xds", "companion"]);
    }

    #[test]
    fn there_is_as_much_of_it_as_is_wanted() {
        let told = told(", xds: stateOfTheWorld, stats: true, accessLog: true");
        let ads = &told["dynamic_resources"]["ads_config"];
        assert_eq!(ads["api_type"], "GRPC");
        assert_eq!(told["stats_config"]["stats_matcher"], Value::Null);
        let runtime = &told["layered_runtime"]["layers"][0]["static_layer"];
        assert_eq!(runtime[ACCESS_LOG], 100);
        let arguments = arguments(&config(""), &PathBuf::from("b.json"));
        let drain = arguments.iter().position(|word| word == "--drain-time-s");
        assert_eq!(
            arguments[drain.unwrap() + 1],
            "2",
            "never less than was asked for"
        );
    }
}
