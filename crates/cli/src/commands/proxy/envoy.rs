//! What an Envoy runs, from its own admin pages, which its companion passes on: read into what is
//! shown of our own sidecars, so that both look alike. Called by the pages' files. Must never show
//! something that Envoy does not say.

use std::collections::BTreeMap;

use local::inspect::Address;
use serde_json::{Value, json};

use super::pages::{Backend, Cluster, Endpoint, Listener, Redirect, Route};

/// The metadata by which an endpoint says how it is spoken to, and the key of ours in it.
const MATCH: &str = "envoy.transport_socket_match";
const TRANSPORT: &str = "leno";
/// Where connections are sent that are to end: what would come back to the listener itself.
const NOWHERE: &str = "leno.dev/nowhere";
const HTTP: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// Whether the sidecar is an Envoy with a companion, whose own configuration this is.
pub(super) fn is_there(pages: &Address) -> anyhow::Result<bool> {
    Ok(is_companion(&pages.json("/config_dump")?))
}

/// Likewise, as its page `/config_dump` says.
pub(super) fn is_companion(dump: &Value) -> bool {
    !dump["config"]["envoy"].is_null()
}

/// Envoy's own words about its clusters, and what is shown of them.
pub(super) fn clusters(pages: &Address) -> anyhow::Result<(Value, Vec<Cluster>)> {
    let statuses = pages.json("/envoy/clusters?format=json")?;
    let told = pages.json("/envoy/config_dump?resource=dynamic_active_clusters")?;
    let endpoints =
        pages.json("/envoy/config_dump?include_eds=&resource=dynamic_endpoint_configs")?;
    let shown = read_clusters(&statuses, &told, &endpoints);
    let page = json!({"clusters": statuses, "configuration": told, "endpoints": endpoints});
    Ok((page, shown))
}

/// Likewise, about its listeners.
pub(super) fn listeners(pages: &Address) -> anyhow::Result<(Value, Vec<Listener>)> {
    let listeners = pages.json("/envoy/config_dump?resource=dynamic_listeners")?;
    let routes = pages.json("/envoy/config_dump?resource=dynamic_route_configs")?;
    let shown = read_listeners(&listeners, &routes);
    Ok((json!({"listeners": listeners, "routes": routes}), shown))
}

/// What it is, in a few words, and its own page that says so.
pub(super) struct Summary {
    pub(super) version: String,
    pub(super) state: String,
    pub(super) listeners: Vec<Listener>,
    pub(super) clusters: Vec<Cluster>,
    pub(super) page: Value,
}

/// Of the Envoy behind `pages`.
pub(super) fn summary(pages: &Address) -> anyhow::Result<Summary> {
    let page = pages.json("/envoy/server_info")?;
    let (_, listeners) = listeners(pages)?;
    let (_, clusters) = clusters(pages)?;
    // `COMMIT/1.40.0/Clean/RELEASE/BoringSSL`
    let version = text(&page["version"]);
    Ok(Summary {
        version: version.split('/').nth(1).unwrap_or(&version).to_owned(),
        state: text(&page["state"]).to_lowercase(),
        listeners,
        clusters,
        page,
    })
}

fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Every value of that key, however deep.
fn find<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    let own = value.get(key);
    found.extend(own);
    let inner: Vec<&Value> = match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    inner.into_iter().for_each(|one| find(one, key, found));
}

fn found<'a>(value: &'a Value, key: &str) -> Vec<&'a Value> {
    let mut all = Vec::new();
    find(value, key, &mut all);
    all
}

fn read_clusters(statuses: &Value, told: &Value, endpoints: &Value) -> Vec<Cluster> {
    let told: BTreeMap<String, &Value> = items(told, "configs")
        .map(|one| (text(&one["cluster"]["name"]), &one["cluster"]))
        .collect();
    let transports = transports(endpoints);
    let of_mesh = items(statuses, "cluster_statuses").filter(|one| one["added_via_api"] == true);
    let cluster = |status: &Value| {
        let name = text(&status["name"]);
        let own = told.get(&name).copied().unwrap_or(&Value::Null);
        let endpoint = |host: &Value| {
            let address = address(&host["address"]);
            let key = (name.clone(), address.clone());
            let transport = transports.get(&key).cloned();
            endpoint(host, address, transport.unwrap_or_default(), own)
        };
        Cluster {
            protocol: protocol(own).to_owned(),
            passthrough: own["type"] == "ORIGINAL_DST",
            endpoints: items(status, "host_statuses").map(endpoint).collect(),
            name,
            ..Cluster::default()
        }
    };
    of_mesh.map(cluster).collect()
}

/// How endpoints are spoken to, by cluster and address.
fn transports(endpoints: &Value) -> BTreeMap<(String, String), String> {
    let assignments = items(endpoints, "configs").map(|one| &one["endpoint_config"]);
    let of_one = |assignment: &Value| {
        let name = text(&assignment["cluster_name"]);
        let localities = items(assignment, "endpoints");
        let all = localities.flat_map(|one| items(one, "lb_endpoints"));
        let one = all.map(|one| {
            let at = address(&one["endpoint"]["address"]);
            let word = &one["metadata"]["filter_metadata"][MATCH][TRANSPORT];
            ((name.clone(), at), text(word))
        });
        one.collect::<Vec<_>>()
    };
    assignments.flat_map(of_one).collect()
}

fn address(value: &Value) -> String {
    let socket = &value["socket_address"];
    let (ip, port) = (text(&socket["address"]), &socket["port_value"]);
    match ip.contains(':') {
        true => format!("[{ip}]:{port}"),
        false => format!("{ip}:{port}"),
    }
}

fn endpoint(host: &Value, address: String, transport: String, cluster: &Value) -> Endpoint {
    let health = &host["health_status"];
    let is_well = |key: &str| {
        health
            .get(key)
            .is_none_or(|it| it == "HEALTHY" || it == false)
    };
    let keys = [
        "eds_health_status",
        "failed_outlier_check",
        "failed_active_health_check",
    ];
    let mut stats = items(host, "stats");
    let active = stats.find(|one| one["name"] == "rq_active");
    let active = active.and_then(|one| text(&one["value"]).parse().ok());
    Endpoint {
        address,
        identities: match transport.is_empty() {
            true => Vec::new(),
            false => identities(cluster),
        },
        transport: match transport.is_empty() {
            true => "plaintext".to_owned(),
            false => transport,
        },
        unhealthy_workers: u64::from(!keys.into_iter().all(is_well)),
        active_requests: Some(active.unwrap_or(0)),
    }
}

/// Who may answer for a cluster.
fn identities(cluster: &Value) -> Vec<String> {
    let mut all = Vec::new();
    for matchers in found(cluster, "match_typed_subject_alt_names") {
        let exact = matchers.as_array().into_iter().flatten();
        all.extend(exact.map(|one| text(&one["matcher"]["exact"])));
    }
    all.sort();
    all.dedup();
    all
}

fn protocol(cluster: &Value) -> &'static str {
    let options = &cluster["typed_extension_protocol_options"][HTTP];
    let explicit = &options["explicit_http_config"];
    match () {
        () if options.is_null() => "tcp",
        () if explicit.get("http2_protocol_options").is_some() => "http2",
        () if explicit.get("http_protocol_options").is_some() => "http1",
        () => "auto",
    }
}

fn read_listeners(listeners: &Value, routes: &Value) -> Vec<Listener> {
    let tables: BTreeMap<String, &Value> = items(routes, "configs")
        .map(|one| (text(&one["route_config"]["name"]), &one["route_config"]))
        .collect();
    let active = items(listeners, "configs").map(|one| &one["active_state"]["listener"]);
    let active = active.filter(|one| !one.is_null());
    active.map(|one| listener(one, &tables)).collect()
}

fn listener(told: &Value, tables: &BTreeMap<String, &Value>) -> Listener {
    let names: Vec<_> = found(told, "route_config_name")
        .into_iter()
        .map(text)
        .collect();
    let table = names.iter().find_map(|name| tables.get(name).copied());
    let has_tls = |chain: &Value| chain.get("transport_socket").is_some();
    let chains: Vec<_> = items(told, "filter_chains").collect();
    let additional = items(told, "additional_addresses").map(|one| address(&one["address"]));
    Listener {
        name: text(&told["name"]),
        direction: text(&told["traffic_direction"]).to_lowercase(),
        address: address(&told["address"]),
        additional_addresses: additional.collect(),
        bind: told["bind_to_port"] != false,
        original_destination: told["use_original_dst"] == true,
        tls: match (
            chains.iter().any(|one| has_tls(one)),
            chains.iter().all(|one| has_tls(one)),
        ) {
            (true, true) => "strict",
            (true, false) => "permissive",
            (false, _) => "disabled",
        }
        .to_owned(),
        protocol: match (names.is_empty(), clusters_of_tcp(told).is_empty()) {
            (true, _) => "tcp",
            (false, true) => "http",
            (false, false) => "auto",
        }
        .to_owned(),
        routes: match table {
            Some(table) => routes(table),
            None => opaque(told),
        },
        ..Listener::default()
    }
}

/// Where what is not read goes.
fn clusters_of_tcp(listener: &Value) -> Vec<String> {
    let filters = found(listener, "filters").into_iter();
    let filters = filters.flat_map(|one| one.as_array().into_iter().flatten());
    let proxies = filters.filter(|one| one["name"] == "envoy.filters.network.tcp_proxy");
    let mut names: Vec<_> = proxies
        .map(|one| text(&one["typed_config"]["cluster"]))
        .filter(|name| !name.is_empty() && name != NOWHERE)
        .collect();
    names.sort();
    names.dedup();
    names
}

fn opaque(listener: &Value) -> Vec<Route> {
    let route = |cluster: String| Route {
        hosts: vec!["any".into()],
        prefix: "-".to_owned(),
        backends: vec![Backend { cluster, weight: 1 }],
        ..Route::default()
    };
    clusters_of_tcp(listener).into_iter().map(route).collect()
}

fn routes(table: &Value) -> Vec<Route> {
    let hosts = items(table, "virtual_hosts");
    hosts
        .flat_map(|host| {
            let domains: Vec<_> = items(host, "domains").map(domain).collect();
            items(host, "routes").map(move |one| route(one, domains.clone()))
        })
        .collect()
}

fn domain(value: &Value) -> Value {
    match value.as_str() {
        Some("*") | None => json!("any"),
        Some(text) => match text.strip_prefix('*') {
            Some(suffix) => json!({"suffix": suffix}),
            None => json!({"exact": text}),
        },
    }
}

fn route(told: &Value, hosts: Vec<Value>) -> Route {
    let path = &told["match"];
    let words = ["path", "path_separated_prefix", "prefix"];
    let prefix = words.iter().find_map(|word| path[*word].as_str());
    let pattern = || text(&path["safe_regex"]["regex"]);
    let action = &told["route"];
    let weighted = items(&action["weighted_clusters"], "clusters");
    let mut backends: Vec<_> = weighted
        .map(|one| Backend {
            cluster: text(&one["name"]),
            weight: one["weight"].as_u64().unwrap_or(1).try_into().unwrap_or(1),
        })
        .collect();
    backends.extend(action["cluster"].as_str().map(|cluster| Backend {
        cluster: cluster.to_owned(),
        weight: 1,
    }));
    Route {
        hosts,
        exact: path.get("path").is_some(),
        prefix: prefix.map_or_else(pattern, str::to_owned),
        redirect: told.get("redirect").map(redirect),
        timeout: action["timeout"]
            .as_str()
            .filter(|time| *time != "0s")
            .map(str::to_owned),
        backends,
        allow: allow(told),
        ..Route::default()
    }
}

/// Who may send it; nothing is said where everybody may.
fn allow(route: &Value) -> Option<Vec<String>> {
    let rules = found(&route["typed_per_filter_config"], "rules");
    if rules.is_empty() {
        return None;
    }
    let names = rules
        .into_iter()
        .flat_map(|one| found(one, "principal_name"));
    let mut names: Vec<_> = names.map(|one| text(&one["exact"])).collect();
    names.sort();
    Some(names)
}

fn redirect(told: &Value) -> Redirect {
    Redirect {
        scheme: text(&told["scheme_redirect"]),
        host: told["host_redirect"].as_str().map(str::to_owned),
        port: told["port_redirect"]
            .as_u64()
            .and_then(|port| port.try_into().ok())
            .unwrap_or(0),
        status: match told["response_code"].as_str() {
            Some("FOUND") => 302,
            Some("SEE_OTHER") => 303,
            Some("TEMPORARY_REDIRECT") => 307,
            Some("PERMANENT_REDIRECT") => 308,
            _ => 301,
        },
    }
}
