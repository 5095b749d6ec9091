//! Clients that say exactly what they are told to: over plain TCP, or inside mesh mutual TLS.
//! Used by tests in the place of an application or of another sidecar.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use identity::credentials::Credentials;
use identity::failure::classify;
use identity::tls::{self, ALPN_HTTP1};
use identity::{HandshakeFailure, SpiffeId};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, StreamOwned};

use crate::http::{Inbox, Message};
use crate::wait::DEADLINE;

/// A client over plain TCP.
pub type RawClient = Client<TcpStream>;
/// A client inside mesh mutual TLS.
pub type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

/// A connection of which a test controls every byte.
pub struct Client<S> {
    stream: S,
    inbox: Inbox,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// In order.
    Closed,
    /// By a reset.
    Reset,
}

impl RawClient {
    /// Connects; reads and writes fail after [`DEADLINE`].
    ///
    /// # Panics
    /// If the connection is refused.
    #[track_caller]
    #[must_use]
    pub fn connect(addr: SocketAddr) -> Self {
        Self {
            stream: dial(addr).expect("connects"),
            inbox: Inbox::default(),
        }
    }

    /// Says that nothing more will be sent.
    ///
    /// # Panics
    /// If the connection is gone.
    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("half-closes");
    }

    /// Resets the connection instead of closing it.
    ///
    /// # Panics
    /// If the socket refuses the option.
    pub fn reset(self) {
        reset(&self.stream);
    }
}

/// Makes the coming close a reset.
pub(crate) fn reset(stream: &TcpStream) {
    let now = Some(std::time::Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(stream, now).expect("a TCP socket can linger");
}

impl<S: Read + Write> Client<S> {
    /// Sends bytes as they are.
    ///
    /// # Panics
    /// If the connection is gone.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("sends");
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// What the connection says.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())?;
        self.stream.flush()
    }

    /// Sends bytes in pieces of at most `size`, each a segment where the kernel keeps up.
    ///
    /// # Panics
    /// If the connection is gone.
    #[track_caller]
    pub fn send_in_pieces(&mut self, size: usize, bytes: impl AsRef<[u8]>) {
        bytes
            .as_ref()
            .chunks(size)
            .for_each(|piece| self.send(piece));
    }

    /// Sends a request to which a response comes (but for HEAD), and reads that.
    ///
    /// # Panics
    /// If no response comes.
    #[track_caller]
    pub fn ask(&mut self, request: impl AsRef<[u8]>) -> Message {
        self.send(request);
        self.response()
    }

    /// Reads exactly as much as `expected` has, and compares.
    ///
    /// # Panics
    /// If something else comes.
    #[track_caller]
    pub fn expect(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let read = self.inbox.read_exact(&mut self.stream, expected.len());
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let read =
            read.unwrap_or_else(|error| panic!("{error} after {:?}", text(&self.inbox.take_all())));
        assert_eq!(text(&read), text(expected));
    }

    /// Reads one response to a GET (or anything but HEAD).
    ///
    /// # Panics
    /// If none comes whole.
    #[track_caller]
    pub fn response(&mut self) -> Message {
        self.try_response("GET").expect("a response comes")
    }

    /// Reads one response to a request with this method.
    ///
    /// # Errors
    /// What the connection says; `UnexpectedEof` if it ends first.
    pub fn try_response(&mut self, method: &str) -> io::Result<Message> {
        self.inbox.read_response(&mut self.stream, method)
    }

    /// Sends a GET and reads the response; the connection stays open.
    ///
    /// # Panics
    /// If no response comes.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Message {
        self.try_get(path).expect("a response comes")
    }

    /// As [`Client::get`].
    ///
    /// # Errors
    /// What the connection says.
    pub fn try_get(&mut self, path: &str) -> io::Result<Message> {
        self.try_send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n"))?;
        self.try_response("GET")
    }

    /// Sends a POST with a length and reads the response.
    ///
    /// # Panics
    /// If no response comes.
    #[track_caller]
    pub fn post(&mut self, path: &str, body: impl AsRef<[u8]>) -> Message {
        let body = body.as_ref();
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n");
        // In one write: a body that comes after the answer to its head costs the connection.
        self.send([head.as_bytes(), body].concat());
        self.response()
    }

    /// Everything until the peer closes, and how it did.
    ///
    /// # Panics
    /// If it does not within [`DEADLINE`].
    #[track_caller]
    pub fn read_to_end(&mut self) -> (Vec<u8>, End) {
        let mut bytes = self.inbox.take_all();
        let end = match self.stream.read_to_end(&mut bytes) {
            Ok(_) => End::Closed,
            // A peer that closes TCP without TLS' own goodbye.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => End::Closed,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => End::Reset,
            Err(error) => panic!("the connection did not end: {error}"),
        };
        (bytes, end)
    }

    /// The connection underneath.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// The connection underneath, of which nothing has been read yet.
    pub(crate) fn into_stream(self) -> S {
        self.stream
    }
}

impl TlsClient {
    /// Whether the handshake resumed an earlier session.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Whom the peer proved to be.
    ///
    /// # Panics
    /// Before the handshake is over.
    #[must_use]
    pub fn peer_id(&self) -> SpiffeId {
        let chain = self
            .stream
            .conn
            .peer_certificates()
            .expect("the handshake is over");
        tls::peer_id(chain).expect("the handshake has verified the chain")
    }

    /// Whether TLS 1.2 was agreed on, which the mesh never speaks.
    #[must_use]
    pub fn is_old(&self) -> bool {
        self.stream.conn.protocol_version() == Some(ProtocolVersion::TLSv1_2)
    }

    /// The agreed application protocol.
    #[must_use]
    pub fn alpn(&self) -> Option<&[u8]> {
        self.stream.conn.alpn_protocol()
    }
}

/// Connects as a sidecar would, and remembers sessions as one would.
#[derive(Clone)]
pub struct MeshConnector {
    config: Arc<ClientConfig>,
}

impl MeshConnector {
    /// A connector with these credentials, for upstreams with this id.
    ///
    /// # Panics
    /// If the id is not of the credentials' trust domain.
    #[must_use]
    pub fn new(credentials: &Credentials, expected: &SpiffeId) -> Self {
        Self::with_alpn(credentials, expected, &[ALPN_HTTP1])
    }

    /// As [`MeshConnector::new`], offering other protocols.
    ///
    /// # Panics
    /// If the id is not of the credentials' trust domain.
    #[must_use]
    pub fn with_alpn(credentials: &Credentials, expected: &SpiffeId, alpn: &[&[u8]]) -> Self {
        let config = tls::client_config(credentials, alpn, std::slice::from_ref(expected));
        Self {
            config: config.expect("a workload of the mesh is expected"),
        }
    }

    /// The configuration, for a test that needs another one.
    #[must_use]
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// A connector with another configuration.
    #[must_use]
    pub fn from_config(config: ClientConfig) -> Self {
        Self {
            config: Arc::new(config),
        }
    }

    /// Connects and shakes hands. In TLS 1.3 the client is done first: that the *server* refused
    /// shows when something is read.
    ///
    /// # Errors
    /// Why the handshake failed on this side.
    ///
    /// # Panics
    /// If TCP does not connect.
    pub fn connect(&self, addr: SocketAddr) -> Result<TlsClient, HandshakeFailure> {
        let name = tls::endpoint_name(addr);
        let connection =
            ClientConnection::new(Arc::clone(&self.config), name).expect("the name is valid");
        shake_hands(addr, connection).map_err(|error| failure(&error))
    }
}

/// Connects and shakes hands.
pub(crate) fn shake_hands(
    addr: SocketAddr,
    mut connection: ClientConnection,
) -> io::Result<TlsClient> {
    let mut tcp = dial(addr).expect("connects");
    while connection.is_handshaking() {
        connection.complete_io(&mut tcp)?;
    }
    Ok(Client {
        stream: StreamOwned::new(connection, tcp),
        inbox: Inbox::default(),
    })
}

/// The reason in an error of a TLS stream.
#[must_use]
pub fn failure(error: &io::Error) -> HandshakeFailure {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match (inner, error.kind()) {
        (Some(inner), _) => classify(inner),
        (None, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => HandshakeFailure::TimedOut,
        (None, _) => HandshakeFailure::Closed,
    }
}

fn dial(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, DEADLINE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    Ok(stream)
}
