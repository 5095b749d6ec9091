//! Asking the control plane, over its operator socket: one request, one answer, HTTP/1.1 with JSON.
//! Called by the supervisor, on threads that may wait.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::name::WorkloadId;

/// The other side is on this machine and does little.
const PATIENCE: Duration = Duration::from_secs(10);
/// A token or a reason, and no more: a pipe holds it, which a sidecar reads it from.
const ANSWER_BYTES_MAX: u64 = 16 * 1024;

/// A token with which the sidecar of `instance` gets its first certificate, once.
pub(crate) fn token(socket: &Path, instance: &WorkloadId) -> anyhow::Result<String> {
    let body = json!({"namespace": instance.namespace(), "workload": instance.name()});
    let answer = post(socket, "/v1/tokens", &body, PATIENCE)?;
    let token = answer["token"].as_str();
    token
        .map(str::to_owned)
        .context("the control plane's answer has no token")
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

fn post(socket: &Path, path: &str, body: &Value, patience: Duration) -> anyhow::Result<Value> {
    let context = || format!("ask the control plane at {}", socket.display());
    let mut stream = UnixStream::connect(socket).with_context(context)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: leno\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all((head + &body).as_bytes())
        .with_context(context)?;
    let mut answer = Vec::new();
    let mut stream = stream.take(ANSWER_BYTES_MAX);
    stream.read_to_end(&mut answer).with_context(context)?;
    read_answer(&String::from_utf8_lossy(&answer)).with_context(|| format!("POST {path}"))
}

/// The JSON of an answer that ends with its connection.
fn read_answer(answer: &str) -> anyhow::Result<Value> {
    let parts = answer.split_once("\r\n\r\n");
    let (head, body) = parts.context("the control plane's answer is no HTTP")?;
    let (status, fields) = head.split_once("\r\n").unwrap_or((head, ""));
    let is_chunked = fields.to_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked {
        join_chunks(body)
    } else {
        body.to_owned()
    };
    if !status
        .split(' ')
        .nth(1)
        .is_some_and(|code| code.starts_with('2'))
    {
        bail!("the control plane refused ({status}): {}", body.trim());
    }
    serde_json::from_str(&body).context("the control plane's answer is no JSON")
}

fn join_chunks(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some(chunk) = rest.get(..size).filter(|chunk| !chunk.is_empty()) else {
            break;
        };
        whole.push_str(chunk);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_an_answer_in_either_framing() {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"token\":\"t\"}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\n{\"tok\r\n8\r\nen\":\"t\"}\r\n0\r\n\r\n",
        ] {
            assert_eq!(read_answer(answer).unwrap()["token"], "t");
        }
    }

    #[test]
    fn says_what_was_refused() {
        let error = read_answer("HTTP/1.1 404 Not Found\r\n\r\nno workload x").unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("404") && text.contains("no workload x"),
            "{text}"
        );
        assert!(read_answer("").is_err());
    }
}
