//! `leno proxy clusters`: where requests go.

use local::inspect::Address;

use super::envoy;
use super::pages::{Cluster, Endpoint};
use crate::output::{Cell, Output, Screen, Table, Tone};

const HEADS: [&str; 7] = [
    "CLUSTER",
    "PROTO",
    "ENDPOINT",
    "HEALTH",
    "ACTIVE",
    "TRANSPORT",
    "IDENTITY",
];

pub(super) fn show(pages: &Address, output: Output) -> anyhow::Result<()> {
    let (page, clusters) = match envoy::is_there(pages)? {
        true => envoy::clusters(pages)?,
        false => {
            let page = pages.json("/clusters")?;
            let clusters: Vec<Cluster> = super::read(page.clone())?;
            (page, clusters)
        }
    };
    output.print(&page, |screen| render(&clusters, screen))
}

fn render(clusters: &[Cluster], screen: Screen) -> String {
    let mut table = Table::new(&HEADS);
    for cluster in clusters {
        let without = [Endpoint::default()];
        let endpoints = match cluster.endpoints.as_slice() {
            [] => &without[..],
            some => some,
        };
        for (at, endpoint) in endpoints.iter().enumerate() {
            // What is said once holds for the rows below.
            let name = if at == 0 { cluster.name.as_str() } else { "" };
            let protocol = if at == 0 {
                cluster.protocol.as_str()
            } else {
                ""
            };
            let mut row = vec![Cell::from(name), Cell::from(protocol)];
            row.extend(endpoint_of(cluster, endpoint));
            table.push(row);
        }
    }
    if clusters.is_empty() {
        return "no clusters: whatever it is asked for, it has nowhere to send it\n".to_owned();
    }
    table.render(screen)
}

fn endpoint_of(cluster: &Cluster, endpoint: &Endpoint) -> [Cell; 5] {
    let address = match endpoint.address.as_str() {
        "" if cluster.passthrough => "(as called)",
        "" if cluster.discovery == "onDemand" => "(on demand)",
        "" => "(none: 503)",
        address => address,
    };
    let active = endpoint.active_requests;
    let identity = match endpoint.identities.as_slice() {
        [] => "-".to_owned(),
        some => some.join(", "),
    };
    let transport = match endpoint.transport.as_str() {
        "" => "-",
        transport => transport,
    };
    [
        address.into(),
        health(endpoint),
        Cell::number(active.map_or_else(|| "-".to_owned(), |active| active.to_string())),
        transport.into(),
        identity.into(),
    ]
}

/// A worker that cannot reach an endpoint leaves it alone for a while.
fn health(endpoint: &Endpoint) -> Cell {
    match endpoint.unhealthy_workers {
        _ if endpoint.address.is_empty() => "-".into(),
        0 => Cell::toned("ok", Tone::Good),
        1 => Cell::toned("left alone by 1 worker", Tone::Bad),
        workers => Cell::toned(format!("left alone by {workers} workers"), Tone::Bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_endpoint_has_a_row_and_its_cluster_is_said_once() {
        let id = "spiffe://td/a/b";
        let endpoint = |address: &str, unhealthy: u64| {
            json!({"address": address, "transport": "leno", "identities": [id],
                   "unhealthyWorkers": unhealthy, "activeRequests": 3})
        };
        let clusters: Vec<Cluster> = super::super::read(json!([
            {"name": "hello", "protocol": "auto",
             "endpoints": [endpoint("10.77.0.2:8080", 0), endpoint("10.77.0.3:8080", 2)]},
            {"name": "passthrough", "protocol": "tcp", "passthrough": true, "endpoints": []},
            {"name": "gone", "protocol": "http1", "endpoints": []},
        ]))
        .unwrap();
        let expected = "\
CLUSTER      PROTO  ENDPOINT        HEALTH                   ACTIVE  TRANSPORT  IDENTITY
hello        auto   10.77.0.2:8080  ok                            3  leno       spiffe://td/a/b
                    10.77.0.3:8080  left alone by 2 workers       3  leno       spiffe://td/a/b
passthrough  tcp    (as called)     -                             -  -          -
gone         http1  (none: 503)     -                             -  -          -
";
        assert_eq!(render(&clusters, Screen::default()), expected);
    }
}
