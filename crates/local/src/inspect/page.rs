//! One page of a sidecar or of the control plane, and why there is none. Called by `inspect`. Must
//! never wait for long.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use intercept::netns;
use serde_json::Value;

use super::Address;
use crate::http::{self, Answer, Connection, Request};

/// The other side is on this machine and answers from memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// The metrics of two thousand peers are a sixth of that.
const PAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

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
    let ask = |at: &SocketAddr| {
        let stream = TcpStream::connect_timeout(at, PATIENCE);
        page(stream, &at.to_string(), path)
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
    page(
        UnixStream::connect(socket),
        &socket.display().to_string(),
        path,
    )
}

fn page(
    connected: io::Result<impl Connection>,
    address: &str,
    path: &str,
) -> Result<String, Error> {
    let request = Request {
        path,
        body: None,
        within: PATIENCE,
        bytes_max: PAGE_BYTES_MAX,
    };
    let answer = connected.and_then(|connection| http::ask(connection, request));
    match answer {
        Ok(answer) if answer.is_good() => Ok(answer.body),
        Ok(Answer { status, body }) => Err(Error::Refused {
            address: address.to_owned(),
            path: path.to_owned(),
            status,
            said: said(&body),
        }),
        Err(source) => Err(Error::Silent {
            address: address.to_owned(),
            source,
        }),
    }
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
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    /// What comes of asking a sidecar that answers with that.
    fn asked(answer: &'static str) -> Result<String, Error> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Here(listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        fetch(&address, "/certs")
    }

    #[test]
    fn says_who_refused_what() {
        let said = |answer| asked(answer).unwrap_err().to_string();
        let plain = said("HTTP/1.0 404 Not Found\r\n\r\nno such page; there are\n/ready");
        let expected = "answers 404 Not Found for /certs: no such page; there are";
        assert!(plain.ends_with(expected), "{plain}");
        let json = said("HTTP/1.0 404 Not Found\r\n\r\n{\n  \"error\": \"nobody\"\n}");
        assert!(json.ends_with("for /certs: nobody"), "{json}");
        assert!(said("SSH-2.0-x\r\n").contains("is no HTTP"));
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
