//! One page of a sidecar or of the control plane: a request of HTTP/1.0, whose answer ends with the
//! connection. Called by `inspect`. Must never wait for long, nor read without end.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use intercept::netns;
use serde_json::Value;

use super::Address;

/// For each step: the other side is on this machine and answers from memory.
const PATIENCE: Duration = Duration::from_secs(5);
/// The metrics of two thousand peers are a sixth of that.
const PAGE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The namespace is gone, or we are not root.
    #[error(
        "the network namespace {} cannot be entered ({source}); be root, and see `leno ps` whether \
         the workload still runs",
        path.display()
    )]
    Namespace {
        /// Where it should be.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// Nobody answers.
    #[error(
        "no answer from {address} ({source}); see whether the sidecar runs and has admin pages"
    )]
    Silent {
        /// Who was asked.
        address: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// Somebody answers something else.
    #[error("{address} answers {status} for {path}: {said}")]
    Refused {
        /// Who was asked.
        address: String,
        /// What for.
        path: String,
        /// Of the answer.
        status: String,
        /// Why.
        said: String,
    },
}

/// The page `path` of a sidecar.
pub(super) fn fetch(address: &Address, path: &str) -> Result<String, Error> {
    let ask = |at: &std::net::SocketAddr| {
        let answer = TcpStream::connect_timeout(at, PATIENCE).and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            exchange(stream, path)
        });
        read(answer, &at.to_string(), path)
    };
    match address {
        Address::Here(at) => ask(at),
        Address::Inside { namespace, address } => netns::inside(namespace, || ask(address))
            .map_err(|source| Error::Namespace {
                path: namespace.clone(),
                source,
            })?,
    }
}

/// The answer of whoever listens on a socket file.
pub(super) fn ask(socket: &Path, path: &str) -> Result<String, Error> {
    let answer = UnixStream::connect(socket).and_then(|stream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        exchange(stream, path)
    });
    read(answer, &socket.display().to_string(), path)
}

fn exchange(mut stream: impl Read + Write, path: &str) -> io::Result<String> {
    let request = format!("GET {path} HTTP/1.0\r\nhost: leno\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(PAGE_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn read(answer: io::Result<String>, address: &str, path: &str) -> Result<String, Error> {
    let silent = |source| Error::Silent {
        address: address.to_owned(),
        source,
    };
    let answer = answer.map_err(silent)?;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        let reason = io::Error::new(io::ErrorKind::InvalidData, "what it says is no HTTP");
        return Err(silent(reason));
    };
    let status = head.lines().next().and_then(|line| line.split_once(' '));
    let status = status.map_or("", |(_, status)| status);
    if status.starts_with('2') {
        return Ok(body.to_owned());
    }
    Err(Error::Refused {
        address: address.to_owned(),
        path: path.to_owned(),
        status: status.to_owned(),
        said: said(body),
    })
}

/// The reason in an answer: what it calls its error, else its first line.
fn said(body: &str) -> String {
    let error = serde_json::from_str(body).ok();
    let error = error.and_then(|body: Value| body["error"].as_str().map(str::to_owned));
    error.unwrap_or_else(|| body.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// Answers one request with `answer`, and gives what was asked.
    fn asked(answer: &'static str) -> (Result<String, Error>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Here(listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 1024];
            let read = stream.read(&mut head).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&head[..read]).into_owned()
        });
        let answer = fetch(&address, "/certs");
        (answer, server.join().unwrap())
    }

    #[test]
    fn a_page_ends_with_its_connection() {
        let (page, head) = asked("HTTP/1.0 200 OK\r\nserver: x\r\n\r\n{\"a\":\n1}");
        assert_eq!(page.unwrap(), "{\"a\":\n1}");
        assert!(head.starts_with("GET /certs HTTP/1.0\r\n"), "{head}");
    }

    #[test]
    fn says_who_refused_what() {
        let (page, _) = asked("HTTP/1.0 404 Not Found\r\n\r\nno such page; there are\n/ready");
        let said = page.unwrap_err().to_string();
        assert!(
            said.ends_with("answers 404 Not Found for /certs: no such page; there are"),
            "{said}"
        );
        let (page, _) = asked("HTTP/1.0 404 Not Found\r\n\r\n{\n  \"error\": \"nobody\"\n}");
        let said = page.unwrap_err().to_string();
        assert!(said.ends_with("for /certs: nobody"), "{said}");
        let (page, _) = asked("SSH-2.0-x\r\n");
        assert!(page.unwrap_err().to_string().contains("is no HTTP"));
    }

    #[test]
    fn a_namespace_that_is_gone_is_named() {
        let address = Address::Inside {
            namespace: "/run/netns/leno-none.gone".into(),
            address: "127.0.0.1:15000".parse().unwrap(),
        };
        let said = fetch(&address, "/certs").unwrap_err().to_string();
        assert!(
            said.contains("leno-none.gone") && said.contains("leno ps"),
            "{said}"
        );
    }
}
