//! Pages as a client sees them, over real sockets.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn config() -> Config {
    let text = "\
workload: {name: web}
identity: {certificate: c.pem, key: c.key, trustBundle: ca.pem}
listeners:
- {name: in, direction: inbound, address: \"127.0.0.1:0\", routes: [{cluster: app}]}
clusters:
- {name: app, endpoints: [{address: \"127.0.0.1:8080\"}]}
";
    crate::config::parse(text, std::path::Path::new("/etc/leno")).unwrap()
}

fn state() -> Arc<State> {
    let config = Arc::new(config());
    let registry = Registry::new(&config.workload, 10);
    let pages = Pages {
        clusters: Box::new(|| json!([{"name": "app"}])),
        certs: Box::new(|| json!({"serial": "01"})),
    };
    Arc::new(State::new(registry, config, pages))
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
            () = serve(listener, Arc::clone(state), which) => unreachable!("it serves for ever"),
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
    for (ready, expected) in [(false, "503"), (true, "200"), (false, "503")] {
        state.set_ready(ready);
        let answer = ask(&state, Surface::Admin, "/ready");
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {expected} ")),
            "{answer}"
        );
    }
}

#[test]
fn the_dump_is_what_is_in_force_and_counts_generations() {
    let state = state();
    let first = body(&ask(&state, Surface::Admin, "/config_dump"));
    assert_eq!(first["generation"], 1);
    assert_eq!(first["config"]["identity"]["key"], "/etc/leno/c.key");
    assert_eq!(first["config"]["limits"]["idleTimeout"], "300s");
    assert_eq!(first["config"]["listeners"][0]["tls"], "permissive");
    state.replace(Arc::new(Config {
        workers: 7,
        ..config()
    }));
    let second = body(&ask(&state, Surface::Admin, "/config_dump"));
    assert_eq!(
        (&second["generation"], &second["config"]["workers"]),
        (&json!(2), &json!(7))
    );
}

#[test]
fn clusters_and_certificates_come_from_their_providers() {
    let state = state();
    assert_eq!(
        body(&ask(&state, Surface::Admin, "/clusters")),
        json!([{"name": "app"}])
    );
    assert_eq!(
        body(&ask(&state, Surface::Admin, "/certs")),
        json!({"serial": "01"})
    );
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
            () = serve(listener, state, Surface::Admin) => unreachable!("it serves for ever"),
            answer = exchange(address, request) => answer,
        }
    });
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}
