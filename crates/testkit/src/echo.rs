//! An upstream that answers with what it was sent: keep-alive HTTP/1.1, plain or inside TLS.
//! Used by tests in the place of an application, or of another sidecar.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::http::{Inbox, Message};
use crate::server::Server;

/// Requests that are remembered; later ones are only counted.
const REMEMBERED_MAX: usize = 1000;

/// Answers 200 with the request's body; to `/bytes/N` with N bytes, to `/status/N` with that
/// status, to `/close` and then closes. Every answer names the connection in `x-connection`,
/// counted from 0.
pub struct EchoServer {
    server: Server,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    count: AtomicUsize,
    requests: Mutex<Vec<Message>>,
}

impl EchoServer {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// If no port can be bound.
    #[must_use]
    pub fn start() -> Self {
        Self::start_on("127.0.0.1:0")
    }

    /// Listens on an address, as `[::1]:0`.
    ///
    /// # Panics
    /// If it cannot be bound.
    #[must_use]
    pub fn start_on(addr: &str) -> Self {
        let seen = Arc::new(Seen::default());
        let record = Arc::clone(&seen);
        let server = Server::start(addr, move |number, stream| {
            // That the peer goes away is how a connection ends.
            let _ = echo(number, stream, &record);
        });
        Self { server, seen }
    }

    /// Listens on a free port and speaks TLS, as a sidecar would.
    ///
    /// # Panics
    /// If no port can be bound.
    #[must_use]
    pub fn start_tls(config: Arc<ServerConfig>) -> Self {
        let seen = Arc::new(Seen::default());
        let record = Arc::clone(&seen);
        let server = Server::start("127.0.0.1:0", move |number, stream| {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a good config");
            let _ = echo(number, StreamOwned::new(connection, stream), &record);
        });
        Self { server, seen }
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// Whole requests received so far.
    #[must_use]
    pub fn request_count(&self) -> usize {
        self.seen.count.load(Ordering::SeqCst)
    }

    /// The requests received so far, at most a thousand.
    ///
    /// # Panics
    /// If a connection's thread panicked.
    #[must_use]
    pub fn requests(&self) -> Vec<Message> {
        self.seen
            .requests
            .lock()
            .expect("no thread panicked")
            .clone()
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.server.accepted.load(Ordering::SeqCst)
    }

    /// Connections open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.server.open.load(Ordering::SeqCst)
    }
}

fn echo(number: usize, mut stream: impl Read + Write, seen: &Seen) -> io::Result<()> {
    let mut inbox = Inbox::default();
    loop {
        let request = inbox.read_request(&mut stream)?;
        let close = request.target() == "/close"
            || request
                .header("connection")
                .is_some_and(|c| c.eq_ignore_ascii_case("close"));
        let answer = answer(number, &request, close);
        seen.count.fetch_add(1, Ordering::SeqCst);
        let mut requests = seen.requests.lock().expect("no thread panicked");
        if requests.len() < REMEMBERED_MAX {
            requests.push(request);
        }
        drop(requests);
        stream.write_all(&answer)?;
        stream.flush()?;
        if close {
            return Ok(());
        }
    }
}

fn answer(number: usize, request: &Message, close: bool) -> Vec<u8> {
    let argument = |prefix| {
        request
            .target()
            .strip_prefix(prefix)
            .and_then(|n| n.parse().ok())
    };
    let body = match argument("/bytes/") {
        Some(count) => vec![b'x'; count],
        None => request.body.clone(),
    };
    let status = argument("/status/").unwrap_or(200);
    let bodiless = matches!(status, 204 | 304);
    let mut head = format!("HTTP/1.1 {status} Echo\r\nx-connection: {number}\r\n");
    if !bodiless {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    if close {
        head.push_str("connection: close\r\n");
    }
    let mut answer = format!("{head}\r\n").into_bytes();
    if !bodiless && !request.start.starts_with("HEAD ") {
        answer.extend(body);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{End, MeshConnector, RawClient, failure};
    use crate::{TestCa, until};
    use identity::HandshakeFailure;
    use identity::tls::{ALPN_HTTP1, Tickets, server_config};

    #[test]
    fn echoes_on_a_kept_connection_and_counts() {
        let server = EchoServer::start();
        let mut client = RawClient::connect(server.addr());
        assert_eq!(client.post("/", "hello").text(), "hello");
        assert_eq!(client.get("/bytes/70000").body.len(), 70_000);
        assert_eq!(client.get("/status/204").status(), 204);
        client.send("HEAD /bytes/9 HTTP/1.1\r\n\r\n");
        assert_eq!(
            client
                .try_response("HEAD")
                .unwrap()
                .header("content-length"),
            Some("9")
        );
        assert_eq!((server.request_count(), server.connection_count()), (4, 1));
        assert_eq!(server.requests()[0].header("host"), Some("test"));
        client.get("/close");
        assert_eq!(client.read_to_end(), (vec![], End::Closed));
        until("the connection is gone", || server.open_connections() == 0);
    }

    #[test]
    fn dropped_server_refuses_and_closes() {
        let server = EchoServer::start();
        let addr = server.addr();
        let mut client = RawClient::connect(addr);
        client.get("/");
        drop(server);
        assert!(client.try_get("/").is_err());
        assert!(std::net::TcpStream::connect(addr).is_err());
    }

    #[test]
    fn speaks_mesh_tls() {
        let ca = TestCa::new();
        let (a, b) = (ca.identity("a"), ca.identity("b"));
        let config = server_config(&b.credentials(), &[ALPN_HTTP1], &Tickets::new()).unwrap();
        let server = EchoServer::start_tls(config);
        let connector = MeshConnector::new(&a.credentials(), &b.id);
        for resumed in [false, true] {
            let mut client = connector.connect(server.addr()).unwrap();
            assert_eq!(client.post("/", "hello").text(), "hello");
            assert_eq!(
                (client.is_resumed(), client.peer_id()),
                (resumed, b.id.clone())
            );
            assert_eq!(client.alpn(), Some(ALPN_HTTP1));
        }
        let wrong = MeshConnector::new(&a.credentials(), &a.id).connect(server.addr());
        assert_eq!(wrong.err(), Some(HandshakeFailure::UnexpectedIdentity));
        let other = TestCa::new();
        let stranger = other.identity("a").trusting(ca.bundle());
        let stranger = MeshConnector::new(&stranger.credentials(), &b.id);
        let mut stranger = stranger.connect(server.addr()).unwrap();
        let error = stranger.try_get("/").unwrap_err();
        assert_eq!(failure(&error), HandshakeFailure::PeerSaysUnknownIssuer);
    }
}
