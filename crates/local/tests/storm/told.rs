//! What a sidecar was told, read from its page `/config_dump`.

use std::net::SocketAddr;

use serde_json::Value;

const OTHER: &str = "outbound|80|other.default.svc.cluster.local";

/// Whether `echo` is answered for at `address`.
pub(crate) fn has(config: &Value, address: SocketAddr) -> bool {
    let mut clusters = list(&config["clusters"]);
    let echo = clusters.find(|one| one["name"] == "outbound|80|echo.default.svc.cluster.local");
    let is_at = |one: &Value| one["address"] == address.to_string();
    echo.is_some_and(|echo| list(&echo["endpoints"]).any(is_at))
}

/// Whether there is a Service of that name.
pub(crate) fn is_known(config: &Value, service: &str) -> bool {
    let name = format!("outbound|80|{service}.default.svc.cluster.local");
    list(&config["listeners"]).any(|one| one["name"] == name)
}

/// Of a hundred requests to `echo`, those that `other` gets.
pub(crate) fn share(config: &Value) -> u64 {
    let echo = "outbound|80|echo.default.svc.cluster.local";
    let listeners = list(&config["listeners"]).filter(|one| one["name"] == echo);
    let backends = listeners
        .flat_map(|one| list(&one["routes"]))
        .flat_map(|route| list(&route["backends"]));
    let to_other = backends.filter(|one| one["cluster"] == OTHER);
    to_other.filter_map(|one| one["weight"].as_u64()).sum()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
