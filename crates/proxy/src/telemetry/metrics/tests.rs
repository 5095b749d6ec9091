//! What a scrape sees of what workers count.

use crate::control::Status;
use std::collections::HashSet;

use identity::HandshakeFailure;
use model::Direction;

use super::families::FAMILIES;
use super::*;
use crate::error::Flag;

const DOCUMENTATION: &str = include_str!("../../../../../docs/metrics.md");

fn workload() -> model::Workload {
    model::Workload {
        name: "web".to_owned(),
        namespace: "shop".to_owned(),
        service_account: "web".to_owned(),
    }
}

fn registry(slots_max: usize) -> Arc<Registry> {
    Registry::new(&workload(), slots_max)
}

fn peer(recorder: &Recorder, name: &str) -> Labels {
    recorder.labels(Direction::Inbound, Protocol::Http1, Some((name, "shop")))
}

/// The values of all lines that begin with `name` and hold each of `labels`.
fn values(page: &str, name: &str, labels: &[&str]) -> Vec<f64> {
    page.lines()
        .filter(|line| line.split(['{', ' ']).next() == Some(name))
        .filter(|line| labels.iter().all(|label| line.contains(label)))
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect()
}

/// A registry in which every family has a sample.
fn busy() -> Arc<Registry> {
    let registry = registry(SLOTS_MAX);
    let recorder = registry.worker();
    let slot = recorder.slot(&peer(&recorder, "cart"));
    slot.begin();
    slot.begin();
    slot.retry();
    slot.finish(200, Flag::None, 70, 3, 1024);
    slot.begin();
    slot.finish(503, Flag::ConnectFailed, 1_000_000, 0, 20);
    let connections = recorder.connections();
    connections.opened(Direction::Inbound);
    connections.opened(Direction::Inbound);
    connections.closed(Direction::Inbound);
    connections.rejected(Direction::Outbound);
    connections.upstream_opened();
    connections.upstream_failed();
    connections.handshake(Side::Downstream, true);
    connections.handshake_failed(Side::Upstream, HandshakeFailure::Expired);
    registry.reloaded(true);
    registry.dns().add(Answered::NoName);
    registry.dns().recalled(Recalled::Fresh);
    registry.dns().upstream(Upstream::Silent);
    registry
        .dns()
        .upstream(Upstream::Answered(Duration::from_millis(2)));
    let mut status = Status::default();
    status.heard(xds::kind::Kind::Cluster, 2, 1, "it is wrong");
    registry.show_control(Arc::new(status));
    registry
        .access_log_dropped()
        .fetch_add(7, Ordering::Relaxed);
    registry
}

#[test]
fn a_request_is_seen_with_all_its_labels() {
    let page = busy().render();
    let labels = "direction=\"inbound\",source_workload=\"cart\",source_namespace=\"shop\",\
                  destination_workload=\"web\",destination_namespace=\"shop\",protocol=\"http1\"";
    for line in [
        format!("leno_requests_total{{{labels},status_class=\"2xx\",flag=\"-\"}} 1"),
        format!("leno_requests_total{{{labels},status_class=\"5xx\",flag=\"UF\"}} 1"),
        format!("leno_request_duration_seconds_bucket{{{labels},le=\"0.00005\"}} 0"),
        format!("leno_request_duration_seconds_bucket{{{labels},le=\"0.0001\"}} 1"),
        format!("leno_request_duration_seconds_bucket{{{labels},le=\"13.1072\"}} 2"),
        format!("leno_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 2"),
        format!("leno_request_duration_seconds_sum{{{labels}}} 1.00007"),
        format!("leno_request_duration_seconds_count{{{labels}}} 2"),
        format!("leno_request_bytes_total{{{labels}}} 3"),
        format!("leno_response_bytes_total{{{labels}}} 1044"),
        format!("leno_requests_active{{{labels}}} 1"),
        format!("leno_request_retries_total{{{labels}}} 1"),
    ] {
        assert!(
            page.lines().any(|found| found == line),
            "{line}\nnot in\n{page}"
        );
    }
}

#[test]
fn the_proxy_is_seen_with_its_connections() {
    let page = busy().render();
    for line in [
        "leno_connections_opened_total{direction=\"inbound\"} 2",
        "leno_connections_active{direction=\"inbound\"} 1",
        "leno_connections_rejected_total{direction=\"outbound\"} 1",
        "leno_upstream_connections_opened_total 1",
        "leno_upstream_connections_active 1",
        "leno_upstream_connect_failures_total 1",
        "leno_tls_handshakes_total{side=\"downstream\",resumed=\"true\"} 1",
        "leno_tls_handshake_failures_total{side=\"upstream\",reason=\"expired\"} 1",
        "leno_control_connected 0",
        "leno_control_resources_total{kind=\"cluster\",result=\"accepted\"} 2",
        "leno_control_resources_total{kind=\"cluster\",result=\"refused\"} 1",
        "leno_dns_queries_total{result=\"answered\"} 0",
        "leno_dns_queries_total{result=\"nxdomain\"} 1",
        "leno_dns_cache_lookups_total{result=\"hit\"} 1",
        "leno_dns_upstream_queries_total{result=\"answered\"} 1",
        "leno_dns_upstream_queries_total{result=\"silent\"} 1",
        "leno_dns_upstream_duration_seconds_bucket{le=\"0.0016\"} 0",
        "leno_dns_upstream_duration_seconds_bucket{le=\"0.0032\"} 1",
        "leno_dns_upstream_duration_seconds_sum 0.002",
        "leno_dns_upstream_duration_seconds_count 1",
        "leno_config_reloads_total{result=\"accepted\"} 1",
        "leno_config_reloads_total{result=\"rejected\"} 0",
        "leno_access_log_dropped_total 7",
        "leno_metric_series 1",
        "leno_metric_series_overflowed_total 0",
    ] {
        assert!(
            page.lines().any(|found| found == line),
            "{line}\nnot in\n{page}"
        );
    }
}

#[test]
fn a_page_keeps_the_rules_of_the_text_format() {
    let recorder_page = busy().render();
    assert!(recorder_page.ends_with('\n'));
    let mut family = ("", "");
    let (mut families, mut samples) = (HashSet::new(), HashSet::new());
    for line in recorder_page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            assert!(
                families.insert(help.split_once(' ').unwrap().0),
                "twice: {line}"
            );
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            family = kind.split_once(' ').unwrap();
            assert!(
                ["counter", "gauge", "histogram"].contains(&family.1),
                "{line}"
            );
            assert_eq!(
                family.0.ends_with("_total"),
                family.1 == "counter",
                "{line}"
            );
        } else {
            let name = line.split(['{', ' ']).next().unwrap();
            let suffix = name.strip_prefix(family.0).expect(line);
            let histogram = ["_bucket", "_sum", "_count"].contains(&suffix);
            assert_eq!(histogram, family.1 == "histogram", "{line}");
            assert!(suffix.is_empty() || histogram, "{line}");
            assert!(
                samples.insert(line.rsplit_once(' ').unwrap().0),
                "twice: {line}"
            );
        }
    }
    let buckets = values(&recorder_page, "leno_request_duration_seconds_bucket", &[]);
    assert!(buckets.is_sorted(), "{buckets:?}");
}

#[test]
fn code_and_documentation_agree() {
    let page = busy().render();
    let cells = |line: &'static str| line.split('|').map(|cell| cell.trim().trim_matches('`'));
    let rows: Vec<Vec<_>> = DOCUMENTATION
        .lines()
        .filter(|line| line.starts_with("| `leno_"))
        .map(|line| cells(line).collect())
        .collect();
    let documented: Vec<_> = rows.iter().map(|row| (row[1], row[2])).collect();
    let coded: Vec<_> = FAMILIES
        .iter()
        .map(|family| (family.name, family.kind))
        .collect();
    assert_eq!(documented, coded);
    for row in rows {
        let line = page.lines().find(|line| {
            !line.starts_with('#') && line.starts_with(row[1]) && !line.contains("le=\"")
        });
        let labels = line
            .unwrap()
            .split_once('{')
            .map_or("", |(_, labels)| labels);
        let labels: Vec<_> = labels
            .split(',')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let labels: Vec<_> = labels.iter().map(|(label, _)| *label).collect();
        let common = "direction, source_workload, source_namespace, destination_workload, \
                      destination_namespace, protocol";
        let expected = row[3].replace("request labels", common);
        // Which the lines of buckets have alone.
        let expected = expected.trim_end_matches("le").trim_end_matches(", ");
        assert_eq!(labels.join(", "), expected.trim_matches('–'), "{}", row[1]);
    }
    for flag in Flag::ALL {
        assert!(
            DOCUMENTATION.contains(&format!("| `{}` |", flag.label())),
            "{}",
            flag.label()
        );
    }
    for reason in HandshakeFailure::ALL {
        assert!(
            DOCUMENTATION.contains(&format!("`{}`", reason.label())),
            "{}",
            reason.label()
        );
    }
}

#[test]
fn workers_are_summed() {
    let registry = registry(SLOTS_MAX);
    let recorders = [registry.worker(), registry.worker(), registry.worker()];
    std::thread::scope(|scope| {
        for recorder in recorders {
            scope.spawn(move || {
                let slot = recorder.slot(&peer(&recorder, "cart"));
                for _ in 0..1000 {
                    slot.begin();
                    slot.finish(204, Flag::None, 100, 1, 2);
                }
            });
        }
    });
    let page = registry.render();
    assert_eq!(values(&page, "leno_requests_total", &[]), [3000.0]);
    assert_eq!(values(&page, "leno_response_bytes_total", &[]), [6000.0]);
    assert_eq!(values(&page, "leno_requests_active", &[]), [0.0]);
    assert_eq!(values(&page, "leno_metric_series", &[]), [1.0]);
}

#[test]
fn labels_are_escaped() {
    let registry = registry(SLOTS_MAX);
    let recorder = registry.worker();
    drop(recorder.slot(&peer(&recorder, "a\"} 1\nforged \\")));
    let page = registry.render();
    assert!(
        page.contains("source_workload=\"a\\\"} 1\\nforged \\\\\","),
        "{page}"
    );
    assert!(
        !page.lines().any(|line| line.starts_with("forged")),
        "{page}"
    );
}

#[test]
fn peers_without_certificate_are_unknown() {
    let registry = registry(SLOTS_MAX);
    let recorder = registry.worker();
    let labels = recorder.labels(Direction::Outbound, Protocol::Http1, None);
    assert_eq!(
        (&*labels.source, &*labels.source_namespace),
        ("web", "shop")
    );
    assert_eq!(
        (&*labels.destination, &*labels.destination_namespace),
        ("unknown", "unknown")
    );
}

#[test]
fn peers_beyond_the_bound_share_the_overflow_slot() {
    let registry = registry(3);
    let recorder = registry.worker();
    for number in 0..10 {
        let slot = recorder.slot(&peer(&recorder, &number.to_string()));
        slot.begin();
        slot.finish(200, Flag::None, 1, 0, 0);
    }
    let page = registry.render();
    let overflow = [
        "source_workload=\"overflow\"",
        "destination_workload=\"overflow\"",
    ];
    assert_eq!(values(&page, "leno_requests_total", &overflow), [7.0]);
    assert_eq!(values(&page, "leno_requests_total", &[]).len(), 4);
    assert_eq!(
        values(&page, "leno_metric_series_overflowed_total", &[]),
        [7.0]
    );
    // Known peers keep their own.
    let known = recorder.slot(&peer(&recorder, "1"));
    assert_eq!(known.begun(), 1);
}

#[test]
fn idle_slots_retire_and_go_and_make_room() {
    let registry = registry(2);
    let recorder = registry.worker();
    let idle = recorder.slot(&peer(&recorder, "idle"));
    let stuck = recorder.slot(&peer(&recorder, "stuck"));
    stuck.begin();
    let limit = Duration::from_millis(100);
    registry.sweep(limit, 1_000);
    registry.sweep(limit, 1_099);
    assert!(!idle.is_retired());
    registry.sweep(limit, 1_100);
    assert!(idle.is_retired());
    assert!(!stuck.is_retired(), "a request is still under way");
    assert_eq!(values(&registry.render(), "leno_metric_series", &[]), [2.0]);
    registry.sweep(limit, 1_101);
    let page = registry.render();
    assert_eq!(values(&page, "leno_requests_active", &[]), [1.0]);
    let next = recorder.slot(&peer(&recorder, "next"));
    assert!(!next.is_retired());
    assert_eq!(
        values(
            &registry.render(),
            "leno_metric_series_overflowed_total",
            &[]
        ),
        [0.0]
    );
}

#[test]
fn a_retired_slot_that_is_used_or_asked_for_again_comes_back() {
    let registry = registry(10);
    let recorder = registry.worker();
    let labels = peer(&recorder, "cart");
    let slot = recorder.slot(&labels);
    let limit = Duration::from_millis(100);
    registry.sweep(limit, 1_000);
    registry.sweep(limit, 2_000);
    assert!(slot.is_retired());
    // A worker that had looked just before counts all the same.
    slot.begin();
    slot.finish(200, Flag::None, 1, 0, 0);
    registry.sweep(limit, 3_000);
    assert!(!slot.is_retired());
    registry.sweep(limit, 4_000);
    assert!(slot.is_retired());
    assert!(Arc::ptr_eq(&slot, &recorder.slot(&labels)));
    assert!(!slot.is_retired());
    assert_eq!(
        values(&registry.render(), "leno_requests_total", &[]),
        [1.0]
    );
}

#[test]
fn a_page_of_many_series_comes_in_pieces_of_whole_lines() {
    let registry = registry(SLOTS_MAX);
    let recorder = registry.worker();
    for number in 0..200 {
        recorder.slot(&peer(&recorder, &number.to_string())).begin();
    }
    let pieces: Vec<_> = registry.page().collect();
    assert!(pieces.len() > 5);
    assert!(
        pieces
            .iter()
            .all(|piece| piece.ends_with('\n') && piece.len() < 64 * 1024)
    );
    assert_eq!(
        values(&pieces.concat(), "leno_requests_active", &[]).len(),
        200
    );
}

#[test]
fn json_has_the_same_samples_as_text() {
    let registry = busy();
    let samples = registry.to_json();
    let lines = registry.render();
    let lines = lines.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(samples.as_array().unwrap().len(), lines);
    assert_eq!(samples[0]["name"], "leno_requests_total");
    assert_eq!(samples[0]["labels"]["source_workload"], "cart");
    assert_eq!(samples[0]["value"], 1);
}
