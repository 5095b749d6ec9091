//! Whom an Envoy calls, and how it goes: its statistics of clusters, which know no peers; who
//! answers for a cluster its configuration says. Pure. Of what comes in it tells nothing apart.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Key, NO_BOUND, Own, Peer, Protocol, Totals, service};
use crate::inspect::samples::Sample;

/// How clusters are called whose requests leave the workload.
const OUTBOUND: &str = "outbound|";
const CLUSTER: &str = "envoy_cluster_name";
/// The page that says who answers for them.
pub(in crate::inspect) const CLUSTERS: &str = "/envoy/config_dump?resource=dynamic_active_clusters";

/// Who answers for a cluster, where that is one identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::inspect) struct Callees(BTreeMap<String, Option<String>>);

impl Callees {
    /// Of the page [`CLUSTERS`].
    pub(in crate::inspect) fn of(page: &Value) -> Self {
        let clusters = page["configs"].as_array().into_iter().flatten();
        let one = |told: &Value| {
            let name = told["cluster"]["name"].as_str()?.to_owned();
            let mut ids = Vec::new();
            identities(&told["cluster"], &mut ids);
            ids.sort_unstable();
            ids.dedup();
            let only = ids.first().filter(|_| ids.len() == 1);
            Some((name, only.map(|id| (*id).to_owned())))
        };
        Self(clusters.filter_map(one).collect())
    }

    /// Whether it says something of every cluster that was called.
    pub(in crate::inspect) fn knows(&self, samples: &[Sample]) -> bool {
        let mut called = samples.iter().filter_map(called);
        called.all(|name| self.0.contains_key(name))
    }
}

/// Names that may answer, wherever in a cluster they are.
fn identities<'a>(told: &'a Value, found: &mut Vec<&'a str>) {
    let names = told["match_typed_subject_alt_names"].as_array();
    let names = names.into_iter().flatten();
    found.extend(names.filter_map(|one| one["matcher"]["exact"].as_str()));
    match told {
        Value::Object(fields) => fields.values().for_each(|one| identities(one, found)),
        Value::Array(items) => items.iter().for_each(|one| identities(one, found)),
        _ => {}
    }
}

fn called(sample: &Sample) -> Option<&str> {
    Some(sample.label(CLUSTER)).filter(|name| name.starts_with(OUTBOUND))
}

/// Totals of what it sends, by edge; nothing of who was never sent anything.
pub(in crate::inspect) fn totals(
    samples: &[Sample],
    own: &Own<'_>,
    callees: &Callees,
) -> BTreeMap<Key, Totals> {
    let mut all: BTreeMap<Key, Totals> = BTreeMap::new();
    for sample in samples {
        let Some(cluster) = called(sample) else {
            continue;
        };
        let key = Key {
            source: Peer {
                name: own.name.clone(),
                identity: own.identity.map(str::to_owned),
            },
            destination: Peer {
                name: service(cluster),
                identity: callees.0.get(cluster).cloned().flatten(),
            },
            protocol: Protocol::Http,
        };
        add(all.entry(key).or_default(), sample);
    }
    all.retain(|_, totals| totals.ended + totals.active > 0);
    all
}

fn add(totals: &mut Totals, sample: &Sample) {
    // Counts are below 2^53, where these numbers are exact.
    let count = sample.value as u64;
    match sample.name.as_str() {
        "envoy_cluster_upstream_rq_xx" => {
            totals.ended += count;
            let has_failed = sample.label("envoy_response_code_class") == "5";
            totals.failed += if has_failed { count } else { 0 };
        }
        "envoy_cluster_upstream_rq_active" => totals.active += count,
        "envoy_cluster_upstream_cx_rx_bytes_total" | "envoy_cluster_upstream_cx_tx_bytes_total" => {
            totals.bytes += count;
        }
        "envoy_cluster_upstream_rq_time_bucket" => {
            let millis: f64 = sample.label("le").parse().unwrap_or(f64::INFINITY);
            let bound = if millis.is_finite() {
                (millis * 1e3).round() as u64
            } else {
                NO_BOUND
            };
            *totals.within.entry(bound).or_default() += count;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::edges::Services;
    use crate::inspect::parse;
    use serde_json::json;

    /// `NAME` stands for a cluster.
    const PAGE: &str = "\
upstream_rq_xx{envoy_response_code_class=\"2\",NAME} 9
upstream_rq_xx{envoy_response_code_class=\"5\",NAME} 1
upstream_rq_active{envoy_cluster_name=\"outbound|80|idle.default.svc.cluster.local\"} 0
upstream_rq_time_bucket{NAME,le=\"0.5\"} 4
upstream_rq_time_bucket{NAME,le=\"+Inf\"} 10
upstream_rq_xx{envoy_response_code_class=\"2\",envoy_cluster_name=\"inbound|a\"} 7
";

    fn page() -> String {
        let name = "envoy_cluster_name=\"outbound|80|hello.shop.svc.cluster.local\"";
        let lines = PAGE.lines().map(|line| format!("envoy_cluster_{line}\n"));
        lines.collect::<String>().replace("NAME", name)
    }

    #[test]
    fn who_is_called_is_known_by_the_cluster_s_identity() {
        let id = "spiffe://cluster.local/ns/shop/sa/hello";
        let names = json!({"validation": [{"match_typed_subject_alt_names":
            [{"san_type": "URI", "matcher": {"exact": id}}]}]});
        let name = "outbound|80|hello.shop.svc.cluster.local";
        let page = json!({"configs": [
            {"cluster": {"name": name, "transport_socket_matches": [names.clone(), names]}},
        ]});
        let (samples, callees) = (parse(&self::page()), Callees::of(&page));
        assert!(!callees.knows(&samples) && callees.knows(&samples[..2]));
        let own = Own {
            name: "curl".into(),
            identity: Some("spiffe://cluster.local/ns/default/sa/curl"),
            services: &Services::default(),
        };
        let found = totals(&samples, &own, &callees);
        let [(key, totals)] = &found.into_iter().collect::<Vec<_>>()[..] else {
            panic!("one edge")
        };
        assert_eq!(key.destination.name, "hello.shop");
        assert_eq!(key.destination.identity.as_deref(), Some(id));
        assert!(key.is_mutual());
        assert_eq!((totals.ended, totals.failed), (10, 1));
        assert_eq!(totals.within, [(500, 4), (NO_BOUND, 10)].into());
    }
}
