//! Asking the control plane, over its operator socket: one request, one answer, in JSON.
//! Called by the supervisor and by benchmarks, on threads that may wait.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::http::{self, Answer, Request};
use crate::name::WorkloadId;

/// The other side is on this machine and does little.
const PATIENCE: Duration = Duration::from_secs(10);
/// The names of some thousand workloads are a fraction of that.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A pipe holds it, which a sidecar reads it from.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// A token with which the sidecar of `instance` gets its first certificate, once.
///
/// # Errors
/// When nobody answers, or the instance is not in the mesh.
pub fn token(socket: &Path, instance: &WorkloadId) -> anyhow::Result<String> {
    let body = json!({"namespace": instance.namespace(), "workload": instance.name()});
    let answer = post(socket, "/v1/tokens", &body, PATIENCE)?;
    let token = answer["token"].as_str();
    let token = token.context("the control plane's answer has no token")?;
    ensure!(
        token.len() <= TOKEN_BYTES_MAX,
        "the control plane's token is too long"
    );
    Ok(token.to_owned())
}

/// Has the control plane read its sources and tell everybody; gives those who have not
/// acknowledged everything within `limit`.
pub(crate) fn settle(socket: &Path, limit: Duration) -> anyhow::Result<Vec<String>> {
    let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let body = json!({"timeoutMs": millis});
    let answer = post(socket, "/v1/settle", &body, limit + PATIENCE)?;
    let behind = answer["behind"].as_array().cloned().unwrap_or_default();
    let names = behind.iter().filter_map(Value::as_str);
    Ok(names.map(str::to_owned).collect())
}

fn post(socket: &Path, path: &str, body: &Value, within: Duration) -> anyhow::Result<Value> {
    let context = || format!("ask the control plane at {}", socket.display());
    let request = Request {
        path,
        body: Some(&body.to_string()),
        within,
        bytes_max: ANSWER_BYTES_MAX,
    };
    let stream = UnixStream::connect(socket).with_context(context)?;
    let Answer { status, body } = match http::ask(stream, request).with_context(context)? {
        answer if answer.is_good() => answer,
        Answer { status, body } => {
            bail!(
                "POST {path}: the control plane refused ({status}): {}",
                body.trim()
            )
        }
    };
    serde_json::from_str(&body)
        .with_context(|| format!("POST {path}: the control plane's answer ({status}) is no JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// Asks a control plane that `says` that.
    fn asked<T>(says: String, ask: impl FnOnce(&Path) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("operator.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            let _ = stream.write_all(says.as_bytes());
        });
        ask(&socket)
    }

    #[test]
    fn says_what_was_refused() {
        let ask = |socket: &Path| token(socket, &WorkloadId::new("default", "x").unwrap());
        let said = |says: &str| format!("{:#}", asked(says.into(), ask).unwrap_err());
        let refused = said("HTTP/1.0 404 Not Found\r\n\r\nno workload x");
        assert!(
            refused.contains("404") && refused.contains("no workload x"),
            "{refused}"
        );
        let long = format!(
            "HTTP/1.0 200 OK\r\n\r\n{{\"token\":\"{}\"}}",
            "t".repeat(70_000)
        );
        assert!(said(&long).contains("too long"));
    }

    #[test]
    fn however_many_are_behind_are_named() {
        let names: Vec<_> = (0..2000)
            .map(|number| format!("default/workload-{number}"))
            .collect();
        let answer = format!("HTTP/1.0 200 OK\r\n\r\n{}", json!({"behind": names}));
        let behind = asked(answer, |socket| settle(socket, PATIENCE)).unwrap();
        assert_eq!(behind.len(), 2000);
    }
}
