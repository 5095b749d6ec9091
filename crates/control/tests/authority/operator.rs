//! The operator's socket, spoken to as `leno` does.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use control::authority::Settings;
use control::operator::{self, Desk, Socket};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use crate::world::{World, csr, id};

/// The socket has the real clock.
fn world() -> World {
    World::at(SystemTime::now(), Settings::default())
}

/// One request; status and body.
async fn ask(path: &Path, method: &str, target: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let head = format!(
        "{method} {target} HTTP/1.1\r\nhost: leno\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// Runs `test` against the socket, then ends it in good order.
async fn served<F: Future<Output = ()>>(world: &World, test: impl FnOnce(std::path::PathBuf) -> F) {
    let path = operator::path(world.dir.path());
    // What a control plane that was killed has left.
    std::fs::write(&path, "").unwrap();
    let socket = Socket::bind(&path).unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let shutdown = async { drop(ended.await) };
    // Nobody is there who does what only the control plane's loop can do.
    let (orders, _) = mpsc::channel(1);
    let desk = Desk {
        authority: world.authority().clone(),
        directory: world.directory(),
        proxies: Arc::default(),
        orders,
    };
    let run = socket.run(desk, shutdown);
    let test = async {
        test(path).await;
        drop(end);
    };
    let (ran, ()) = tokio::join!(run, test);
    ran.unwrap();
}

#[tokio::test]
async fn token_from_the_socket_enrols_its_workload() {
    let world = world();
    let (told, token) = oneshot::channel();
    served(&world, |path| async move {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let request = json!({"namespace": "default", "workload": "a"});
        let (status, answer) = ask(&path, "POST", "/v1/tokens", request).await;
        assert_eq!(status, 200, "{answer}");
        told.send(answer["token"].as_str().unwrap().to_owned())
            .unwrap();
    })
    .await;
    let signed = world.redeem(&token.await.unwrap(), &csr("a")).unwrap();
    assert_eq!(signed.id, id("a"));
}

#[tokio::test]
async fn socket_says_what_is_wrong() {
    let world = world();
    served(&world, |path| async move {
        let check = async |target: &str, body: Value, expected: u16| {
            let (status, answer) = ask(&path, "POST", target, body).await;
            assert_eq!(status, expected, "{target}: {answer}");
            answer
        };
        let stranger = json!({"namespace": "default", "workload": "stranger"});
        let answer = check("/v1/tokens", stranger, 404).await;
        assert!(
            answer["error"]
                .as_str()
                .unwrap()
                .contains("not in the mesh")
        );
        check("/v1/tokens", json!({"namespace": "default"}), 422).await;
        let more = json!({"namespace": "default", "workload": "a", "ttl": 1});
        check("/v1/tokens", more, 422).await;
        let long = json!({"namespace": "x".repeat(5000), "workload": "a"});
        check("/v1/tokens", long, 413).await;
        check("/v1/status", Value::Null, 405).await;
        check("/v2/tokens", Value::Null, 404).await;
        let answer = check("/v1/rotate-root", Value::Null, 200).await;
        assert_eq!(answer["phase"], "distributing");
        let answer = check("/v1/rotate-root", Value::Null, 409).await;
        assert!(answer["error"].as_str().unwrap().contains("being rotated"));
        let answer = check("/v1/rotate-leaves", Value::Null, 200).await;
        assert_eq!(answer["issuers"].as_array().unwrap().len(), 2);
        // Its loop has ended.
        let answer = check("/v1/settle", json!({}), 503).await;
        assert!(answer["error"].as_str().unwrap().contains("is ending"));
        check("/v1/settle", json!({"timeout": 1}), 422).await;
        check("/v1/settle", json!({"timeoutMs": -1}), 422).await;
    })
    .await;
}

#[tokio::test]
async fn status_is_what_an_operator_looks_for() {
    let world = world();
    world.redeem(world.token("a").as_str(), &csr("a")).unwrap();
    served(&world, |path| async move {
        let (status, answer) = ask(&path, "GET", "/v1/status", Value::Null).await;
        assert_eq!(status, 200);
        assert_eq!(answer["trustDomain"], id("a").trust_domain());
        assert_eq!(answer["phase"], "stable");
        assert_eq!(
            (&answer["enrolled"], &answer["revoked"]),
            (&json!(1), &json!(0))
        );
        assert!(!answer.to_string().contains("PRIVATE"));
    })
    .await;
}

#[test]
fn path_that_is_too_long_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let long = dir.path().join("x".repeat(200)).join("operator.sock");
    assert!(Socket::bind(&long).is_err());
}
