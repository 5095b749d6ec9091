//! One GET and the status of its answer, over a connection of its own. Called by `probe`, which
//! sees to the time. Must never keep more of an answer than its head.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// The longest head, interim ones before it included.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How much of the rest is taken, so that whoever writes it sees no reset.
const REST_BYTES_MAX: u64 = 64 * 1024;
const REST_WITHIN: Duration = Duration::from_millis(100);

pub(super) async fn check(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    host: SocketAddr,
    path: &str,
) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_graphic();
    if !path.starts_with('/') || !path.bytes().all(is_plain) {
        return Err(format!(
            "`{path}` is not a path: begin it with /, and escape what is no ASCII"
        ));
    }
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: leno-probe\r\nAccept: */*\r\n\
         Connection: close\r\n\r\n"
    );
    let sent = stream.write_all(request.as_bytes()).await;
    sent.map_err(|error| format!("send a request: {error}"))?;
    let status = read_status(&mut stream).await?;
    let mut rest = stream.take(REST_BYTES_MAX);
    // Good or not, it has answered.
    let _ = timeout(
        REST_WITHIN,
        tokio::io::copy(&mut rest, &mut tokio::io::sink()),
    )
    .await;
    match status {
        200..=399 => Ok(()),
        _ => Err(format!("status {status}")),
    }
}

/// The status of the first answer that is not an interim one.
async fn read_status(stream: &mut (impl AsyncRead + Unpin)) -> Result<u16, String> {
    let mut head = Vec::new();
    loop {
        if let Some(status) = find_status(&head)? {
            return Ok(status);
        }
        if head.len() >= HEAD_BYTES_MAX {
            return Err(format!(
                "an answer without an end in {HEAD_BYTES_MAX} bytes"
            ));
        }
        let mut part = [0; 1024];
        match stream.read(&mut part).await {
            Ok(0) if head.is_empty() => return Err("the connection ended without an answer".into()),
            Ok(0) => return Err("the connection ended within an answer's head".into()),
            Ok(count) => head.extend_from_slice(&part[..count]),
            Err(error) => return Err(format!("read the answer: {error}")),
        }
    }
}

/// None while there is too little of it.
fn find_status(mut head: &[u8]) -> Result<Option<u16>, String> {
    loop {
        let Some(end) = find(head, b"\n") else {
            return Ok(None);
        };
        let line = String::from_utf8_lossy(&head[..end]);
        let mut words = line.split_ascii_whitespace();
        let version = words.next().filter(|word| word.starts_with("HTTP/1."));
        let status = words.next().and_then(|word| word.parse().ok());
        let status = version
            .and(status)
            .filter(|status| (100..=999).contains(status));
        match status {
            None => return Err("an answer that is not HTTP".into()),
            // It switches protocols, and does not come back.
            Some(status) if status >= 200 || status == 101 => return Ok(Some(status)),
            Some(_) => {}
        }
        let Some(end) = find(head, b"\r\n\r\n") else {
            return Ok(None);
        };
        head = &head[end + 4..];
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    async fn asked(path: &str, answer: &[u8]) -> (Result<(), String>, String) {
        let (ours, mut theirs) = duplex(64 * 1024);
        theirs.write_all(answer).await.unwrap();
        theirs.shutdown().await.unwrap();
        let host = "10.77.0.2:8080".parse().unwrap();
        let checked = check(ours, host, path).await;
        let mut request = String::new();
        theirs.read_to_string(&mut request).await.unwrap();
        (checked, request)
    }

    #[tokio::test]
    async fn an_answers_status_decides() {
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\n\r\nyes", Ok(())),
            ("HTTP/1.0 399\r\n\r\n", Ok(())),
            ("HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n\r\n", Ok(())),
            (
                "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 \r\n",
                Ok(()),
            ),
            (
                "HTTP/1.1 503 Service Unavailable\r\n\r\n",
                Err("status 503"),
            ),
            (
                "HTTP/1.1 101 Switching Protocols\r\n\r\n",
                Err("status 101"),
            ),
            ("SSH-2.0-OpenSSH\r\n", Err("an answer that is not HTTP")),
            (
                "HTTP/1.1 2000 OK\r\n\r\n",
                Err("an answer that is not HTTP"),
            ),
            ("", Err("the connection ended without an answer")),
            (
                "HTTP/1.1 200",
                Err("the connection ended within an answer's head"),
            ),
        ] {
            let (checked, request) = asked("/ready?a=1", answer.as_bytes()).await;
            assert_eq!(checked, expected.map_err(str::to_owned), "{answer:?}");
            assert!(request.starts_with("GET /ready?a=1 HTTP/1.1\r\nHost: 10.77.0.2:8080\r\n"));
        }
    }

    #[tokio::test]
    async fn what_never_ends_is_not_kept() {
        let (checked, _) = asked("/", &[b'a'; 2 * HEAD_BYTES_MAX]).await;
        let expected = format!("an answer without an end in {HEAD_BYTES_MAX} bytes");
        assert_eq!(checked, Err(expected));
    }

    #[tokio::test]
    async fn a_path_cannot_carry_a_request() {
        for path in ["", "ready", "/a b", "/a\r\nX: y"] {
            let (checked, request) = asked(path, b"HTTP/1.1 200 OK\r\n\r\n").await;
            assert!(checked.unwrap_err().contains("is not a path"));
            assert_eq!(request, "");
        }
    }
}
