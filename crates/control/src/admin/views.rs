//! What the pages show, as JSON. Pure.

use std::sync::Arc;
use std::time::SystemTime;

use model::{Cluster, Listener};
use serde_json::{Map, Value, json};
use xds::delta::server::Progress;
use xds::kind::Kind;

use crate::ads::Proxy;
use crate::kinds::WorkloadKey;
use crate::push::Catalogue;
use crate::translate::{Reach, ServiceParts};

/// All sidecars that are connected; `generation` is the newest.
pub(super) fn proxies(proxies: &[Arc<Proxy>], generation: u64, now: SystemTime) -> Value {
    let proxies: Vec<_> = proxies.iter().map(|proxy| one(proxy, now)).collect();
    json!({ "generation": generation, "proxies": proxies })
}

fn one(proxy: &Proxy, now: SystemTime) -> Value {
    let state = proxy.state();
    let connected = now.duration_since(proxy.since).unwrap_or_default();
    let kinds = state
        .kinds
        .iter()
        .map(|(kind, progress)| (kind.label().to_owned(), progress_of(progress)));
    json!({
        "workload": proxy.workload.to_string(),
        "identity": proxy.identity,
        "address": proxy.address.to_string(),
        "agent": proxy.agent,
        "variant": proxy.variant,
        "connectedSeconds": connected.as_secs(),
        "generation": state.generation,
        "settled": state.is_settled,
        "trustBundle": state.bundle,
        "kinds": Map::from_iter(kinds),
    })
}

fn progress_of(progress: &Progress) -> Value {
    let mut value = json!({
        "wanted": progress.wanted.map_or_else(|| json!("*"), Value::from),
        "queued": progress.queued,
        "waiting": progress.is_waiting,
        "refused": progress.refused,
    });
    if !progress.detail.is_empty() {
        value["refusal"] = json!(progress.detail);
    }
    value
}

/// Everything that somebody is told.
pub(super) fn mesh(catalogue: &Catalogue) -> Value {
    let mesh = &catalogue.mesh;
    let services = mesh.services.iter();
    let services = services.map(|(key, parts)| (key.to_string(), parts_of(parts)));
    let workloads = mesh.workloads.keys();
    let workloads = workloads.filter_map(|key| Some((key.to_string(), own(catalogue, key)?)));
    json!({
        "generation": catalogue.generation,
        "common": { "listeners": mesh.common.listeners, "clusters": mesh.common.clusters },
        "services": Map::from_iter(services),
        "workloads": Map::from_iter(workloads),
    })
}

fn parts_of(parts: &ServiceParts) -> Value {
    json!({ "listeners": parts.listeners, "clusters": parts.clusters })
}

fn own(catalogue: &Catalogue, key: &WorkloadKey) -> Option<Value> {
    let parts = catalogue.mesh.workloads.get(key)?;
    let reach = match &parts.reach {
        Reach::All => json!("*"),
        Reach::Only(keys) => json!(keys.iter().map(ToString::to_string).collect::<Vec<_>>()),
    };
    Some(json!({
        "identity": parts.identity,
        "reach": reach,
        "listeners": parts.listeners,
        "clusters": parts.clusters,
    }))
}

/// Everything that one sidecar is told; `None` if there is no such workload.
pub(super) fn workload(catalogue: &Catalogue, key: &WorkloadKey) -> Option<Value> {
    let mesh = &catalogue.mesh;
    let parts = mesh.workloads.get(key)?;
    let services = mesh.services.iter().filter(|(key, _)| match &parts.reach {
        Reach::All => true,
        Reach::Only(keys) => keys.contains(key),
    });
    let services: Vec<_> = services.map(|(_, parts)| parts).collect();
    let common = &mesh.common;
    let listeners = services.iter().flat_map(|parts| &parts.listeners);
    let listeners: Vec<&Listener> = parts
        .listeners
        .iter()
        .chain(&common.listeners)
        .chain(listeners)
        .collect();
    let clusters = services.iter().flat_map(|parts| &parts.clusters);
    let clusters: Vec<&Cluster> = parts
        .clusters
        .iter()
        .chain(&common.clusters)
        .chain(clusters)
        .collect();
    Some(json!({
        "workload": key.to_string(),
        "identity": parts.identity,
        "generation": catalogue.generation,
        "resources": versions(catalogue, key),
        "listeners": listeners,
        "clusters": clusters,
    }))
}

/// Names and versions of what travels.
fn versions(catalogue: &Catalogue, key: &WorkloadKey) -> Option<Value> {
    let own = catalogue.workload(key)?;
    let kinds = Kind::ALL.map(|kind| {
        let told = own.told(catalogue, kind);
        let versions = told.map(|entry| (entry.name.clone(), json!(entry.version)));
        (kind.label().to_owned(), Value::Object(versions.collect()))
    });
    Some(Value::Object(Map::from_iter(kinds)))
}
