//! Pages as a client sees them, over real sockets.

use std::future::pending;
use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::snapshot::Identity;
use identity::ca::Authority;
use identity::tls::Tickets;
use model::Config;

use super::*;
use crate::telemetry::metrics::SLOTS_MAX;

const FILE: &str = "\
workload: {name: web}
listeners:
- {name: in, direction: inbound, address: \"127.0.0.1:0\", routes: [{cluster: app}]}
clusters:
- {name: app, endpoints: [{address: \"127.0.0.1:8080\"}]}
";

fn config() -> Config {
    crate::config::parse(FILE, Path::new("/etc/leno")).unwrap()
}

/// With a certificate made for the test in `dir`.
fn config_with_identity(dir: &Path) -> Config {
    let now = std::time::SystemTime::now();
    let authority = Authority::create("cluster.local", now).unwrap();
    authority.save(dir).unwrap();
    let id = "spiffe://cluster.local/ns/default/sa/web".parse().unwrap();
    authority
        .issue(&id, Duration::from_secs(3600), now)
        .unwrap()
        .save(dir, "web")
        .unwrap();
    let identity = "identity: {certificate: web.pem, key: web.key, trustBundle: ca.pem}\n";
    crate::config::parse(&(identity.to_owned() + FILE), dir).unwrap()
}

fn snapshot(config: Config, previous: Option<&Snapshot>) -> Arc<Snapshot> {
    let identity = Identity::load(&config, &Tickets::new()).unwrap();
    Arc::new(Snapshot::build(Arc::new(config), identity, previous).unwrap())
}

fn state() -> Arc<State> {
    let state = State::new(snapshot(config(), None));
    state.describe(Registry::new(&config().workload, SLOTS_MAX), Box::new(|| 1));
    state
}

/// Runs `test` beside a server.
fn with_server<F: Future>(
    state: &Arc<State>,
    which: Surface,
    test: impl FnOnce(std::net::SocketAddr) -> F,
) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::select! {
            () = serve(listener, Arc::clone(state), which, pending()) => {
                unreachable!("it serves for ever")
            }
            output = test(address) => output,
        }
    })
}

/// The whole answer to `request` on a connection of its own.
async fn exchange(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn ask(state: &Arc<State>, which: Surface, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    with_server(state, which, async |address| {
        exchange(address, &request).await
    })
}

#[track_caller]
fn body(answer: &str) -> Value {
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.contains("content-type: application/json\r\n"),
        "{answer}"
    );
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn readiness_follows_start_and_drain() {
    let state = state();
    let check = |status, word: &str| {
        let answer = ask(&state, Surface::Admin, "/ready");
        let starts = answer.starts_with(&format!("HTTP/1.1 {status} "));
        assert!(
            starts && answer.ends_with(&format!("\n{word}\n")),
            "{answer}"
        );
    };
    check(503, "not ready");
    state.set_phase(Phase::Ready);
    check(200, "ready");
    state.set_phase(Phase::Draining);
    check(503, "draining");
}

#[test]
fn what_is_open_is_served_when_no_more_is_accepted() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let end_of_tenure = async { ended.await.unwrap_or_default() };
        tokio::spawn(serve(listener, state(), Surface::Admin, end_of_tenure));
        let mut open = TcpStream::connect(address).await.unwrap();
        let mut answered = async || {
            let request = b"GET /ready HTTP/1.1\r\nhost: a\r\n\r\n";
            open.write_all(request).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"not ready\n") {
                assert!(open.read_buf(&mut answer).await.unwrap() > 0);
            }
        };
        answered().await;
        drop(end);
        while TcpStream::connect(address).await.is_ok() {}
        answered().await;
    });
}

#[test]
fn the_dump_is_what_is_in_force_and_counts_generations() {
    let state = state();
    let first = body(&ask(&state, Surface::Admin, "/config_dump"));
    assert_eq!(first["generation"], 1);
    assert_eq!(first["config"]["limits"]["idleTimeout"], "300s");
    assert_eq!(first["config"]["listeners"][0]["tls"], "disabled");
    let reloaded = Config {
        workers: 7,
        ..config()
    };
    let next = snapshot(reloaded, Some(&state.snapshot.load()));
    state.publish(next);
    let second = body(&ask(&state, Surface::Admin, "/config_dump"));
    assert_eq!(
        (&second["generation"], &second["applied"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(second["config"]["workers"], 7);
}

#[test]
fn clusters_are_shown_with_their_endpoints() {
    let clusters = body(&ask(&state(), Surface::Admin, "/clusters"));
    assert_eq!(clusters[0]["name"], "app");
    assert_eq!(clusters[0]["endpoints"][0]["address"], "127.0.0.1:8080");
}

#[test]
fn certificates_are_shown_and_keys_are_not() {
    assert_eq!(body(&ask(&state(), Surface::Admin, "/certs")), Value::Null);
    let dir = tempfile::tempdir().unwrap();
    let state = State::new(snapshot(config_with_identity(dir.path()), None));
    let key = std::fs::read_to_string(dir.path().join("web.key")).unwrap();
    let secret = key.lines().nth(1).unwrap();
    for (page, expected) in [
        ("/certs", "spiffe://cluster.local/"),
        ("/config_dump", "web.key"),
    ] {
        let answer = ask(&state, Surface::Admin, page);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains(expected), "{answer}");
        assert!(
            !answer.contains(secret) && !answer.contains("PRIVATE"),
            "{answer}"
        );
    }
}

#[test]
fn metrics_are_on_both_addresses_under_both_names() {
    let state = state();
    for which in [Surface::Admin, Surface::Metrics] {
        for path in ["/metrics", "/stats/prometheus?x=y"] {
            let answer = ask(&state, which, path);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(
                answer.contains("content-type: text/plain; version=0.0.4"),
                "{answer}"
            );
            assert!(
                answer.contains("\nleno_proxy_info{workload=\"web\""),
                "{answer}"
            );
        }
    }
    let stats = body(&ask(&state, Surface::Admin, "/stats?format=json"));
    assert!(
        stats
            .as_array()
            .unwrap()
            .iter()
            .any(|sample| sample["name"] == "leno_proxy_info")
    );
    assert!(ask(&state, Surface::Admin, "/stats?format=xml").starts_with("HTTP/1.1 400 "));
}

#[test]
fn the_metrics_address_shows_nothing_else() {
    let state = state();
    for path in [
        "/",
        "/ready",
        "/config_dump",
        "/clusters",
        "/certs",
        "/stats",
    ] {
        let answer = ask(&state, Surface::Metrics, path);
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        assert!(
            answer.contains("/metrics") && !answer.contains("/config_dump"),
            "{answer}"
        );
    }
}

#[test]
fn an_unknown_page_lists_those_there_are() {
    let answer = ask(&state(), Surface::Admin, "/nothing");
    assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{answer}");
    for row in [
        "/ready",
        "/config_dump",
        "/clusters",
        "/certs",
        "/stats",
        "/metrics",
    ] {
        assert!(answer.contains(&format!("\n{row} ")), "{answer}");
    }
}

#[test]
fn nothing_can_be_changed() {
    let state = state();
    let request = "POST /ready HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
                   content-length: 0\r\n\r\n";
    let answer = with_server(&state, Surface::Admin, async |address| {
        exchange(address, request).await
    });
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    assert!(answer.contains("allow: GET, HEAD\r\n"), "{answer}");
}

#[test]
fn a_head_request_gets_no_body() {
    let request = "HEAD /ready HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answer = with_server(&state(), Surface::Admin, async |address| {
        exchange(address, request).await
    });
    assert!(
        answer.contains("content-length: 10\r\n") && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
}

#[test]
fn silent_connections_do_not_keep_others_out_for_ever() {
    let state = state();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let answer = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        // Time jumps to the next timer whenever all tasks wait.
        tokio::time::pause();
        let request = "GET /ready HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        tokio::select! {
            () = serve(listener, state, Surface::Admin, pending()) => {
                unreachable!("it serves for ever")
            }
            answer = exchange(address, request) => answer,
        }
    });
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}
