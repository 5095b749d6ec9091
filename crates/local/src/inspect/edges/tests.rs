//! From what sidecars write to edges.

use super::*;
use crate::inspect::samples::parse;
use serde_json::json;

const OUT: &str = "direction=\"outbound\",source_workload=\"curl\",source_namespace=\"default\"";
const HELLO: &str = "destination_workload=\"greeter\",destination_namespace=\"default\"";

fn services() -> Services {
    let id = |account: &str| format!("spiffe://cluster.local/ns/default/sa/{account}");
    let endpoint = |account: &str| json!({"identities": [id(account)]});
    Services::of(&json!([
        {"name": "outbound|80|hello.default.svc.cluster.local", "endpoints": [endpoint("greeter")]},
        {"name": "outbound|90|hello.default.svc.cluster.local", "endpoints": [endpoint("greeter")]},
        {"name": "outbound|80|one.shop.svc.cluster.local", "endpoints": [endpoint("shared")]},
        {"name": "outbound|80|two.shop.svc.cluster.local", "endpoints": [endpoint("shared")]},
        {"name": "passthrough", "endpoints": []},
    ]))
}

fn read(page: &str) -> Reading {
    let services = services();
    let own = Own {
        name: "curl".into(),
        identity: Some("spiffe://cluster.local/ns/default/sa/curl"),
        services: &services,
    };
    Reading::from([("curl-0".to_owned(), totals(&parse(page), &own))])
}

/// `ok` answers and `failed` ones, of which all took at most 0.4 ms and half at most 0.2 ms.
fn page(ok: u64, failed: u64) -> String {
    let all = ok + failed;
    let base = format!("{OUT},{HELLO},protocol=\"http1\"");
    format!(
        "leno_requests_total{{{base},status_class=\"2xx\",flag=\"-\"}} {ok}\n\
         leno_requests_total{{{base},status_class=\"none\",flag=\"UF\"}} {failed}\n\
         leno_request_duration_seconds_bucket{{{base},le=\"0.0001\"}} 0\n\
         leno_request_duration_seconds_bucket{{{base},le=\"0.0002\"}} {}\n\
         leno_request_duration_seconds_bucket{{{base},le=\"0.0004\"}} {all}\n\
         leno_request_duration_seconds_bucket{{{base},le=\"+Inf\"}} {all}\n\
         leno_requests_active{{{base}}} 3\n\
         leno_request_bytes_total{{{base}}} {ok}\n\
         leno_response_bytes_total{{{base}}} {ok}\n",
        all / 2
    )
}

fn one(before: &str, after: &str) -> Edge {
    let edges = rates(&read(before), &read(after), Duration::from_secs(2));
    assert_eq!(edges.len(), 1, "{edges:?}");
    edges.into_iter().next().unwrap()
}

#[test]
fn an_edge_is_what_happened_between_two_readings() {
    let edge = one(&page(1000, 0), &page(1180, 20));
    assert_eq!(edge.key.source.name, "curl");
    assert_eq!(edge.key.destination.name, "hello", "by its service");
    assert!(edge.key.is_mutual());
    let id = "spiffe://cluster.local/ns/default/sa/greeter";
    assert_eq!(edge.key.destination.identity.as_deref(), Some(id));
    assert_eq!((edge.rate, edge.success), (100.0, Some(0.9)));
    assert_eq!((edge.active, edge.bytes_rate), (3, 180.0));
    let micros = |latency: Option<Latency>| latency.map(|latency| latency.micros);
    assert_eq!((micros(edge.p50), micros(edge.p99)), (Some(200), Some(396)));
}

#[test]
fn a_counter_that_went_back_began_anew() {
    let edge = one(&page(5000, 500), &page(40, 0));
    assert_eq!((edge.rate, edge.success), (20.0, Some(1.0)));
}

#[test]
fn an_edge_on_which_nothing_happens_has_no_figures() {
    let edge = one(&page(10, 0), &page(10, 0));
    assert_eq!(
        (edge.rate, edge.success, edge.p50, edge.p99),
        (0.0, None, None, None)
    );
}

#[test]
fn what_was_before_the_first_look_is_not_counted() {
    let edges = rates(&Reading::new(), &read(&page(10, 0)), Duration::from_secs(1));
    assert_eq!(edges, []);
    // A series that came since is counted whole.
    assert_eq!(one("", &page(10, 0)).rate, 5.0);
}

#[test]
fn beyond_the_last_bound_is_said_to_be_more() {
    let base = format!("{OUT},{HELLO},protocol=\"http1\"");
    let page = format!(
        "leno_request_duration_seconds_bucket{{{base},le=\"13.1072\"}} 1\n\
         leno_request_duration_seconds_bucket{{{base},le=\"+Inf\"}} 10\n"
    );
    let expected = Latency {
        micros: 13_107_200,
        is_more: true,
    };
    assert_eq!(one("", &page).p99, Some(expected));
}

/// Source, destination, whether both are proven.
fn names(labels: &str) -> Option<(String, String, bool)> {
    let reading = read(&format!(
        "leno_requests_active{{{labels},protocol=\"tcp\"}} 1\n"
    ));
    let key = reading["curl-0"].keys().next()?.clone();
    Some((
        key.source.name.clone(),
        key.destination.name.clone(),
        key.is_mutual(),
    ))
}

#[test]
fn both_sides_have_the_names_that_people_use() {
    let to = |name: &str, namespace: &str| {
        let to = format!("destination_workload=\"{name}\",destination_namespace=\"{namespace}\"");
        names(&format!("{OUT},{to}")).unwrap()
    };
    let expect = |name: &str, mutual| ("curl".to_owned(), name.to_owned(), mutual);
    assert_eq!(
        to("shared", "default"),
        expect("shared", true),
        "of two services"
    );
    assert_eq!(to("db", "shop"), expect("db.shop", true));
    assert_eq!(to("passthrough", ""), expect("passthrough", false));
    let plain = "outbound|80|old.shop.svc.cluster.local";
    assert_eq!(to(plain, ""), expect("old.shop", false));
    assert_eq!(to("overflow", "overflow"), expect("overflow", false));
    let inbound = |source: &str| {
        let own = "destination_workload=\"curl\",destination_namespace=\"default\"";
        names(&format!(
            "direction=\"inbound\",source_workload=\"{source}\",{own}"
        ))
    };
    let outside = ("outside".to_owned(), "curl".to_owned(), false);
    assert_eq!(inbound("unknown"), Some(outside));
    assert_eq!(inbound("hello"), None, "its own sidecar counts it");
}

#[test]
fn who_goes_away_has_not_been_failed() {
    let failed = |class: &str, flag: &str| {
        let base = format!("{OUT},{HELLO},protocol=\"http1\"");
        let page =
            format!("leno_requests_total{{{base},status_class=\"{class}\",flag=\"{flag}\"}} 1\n");
        one("", &page).success == Some(0.0)
    };
    assert!(failed("5xx", "-") && failed("5xx", "NE") && failed("none", "UC"));
    assert!(!failed("none", "DC") && !failed("4xx", "-") && !failed("none", "-"));
}
