//! A server of HTTP/2 that does what a request's path asks for. Used by tests in the place of an
//! application, or of another sidecar.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ::h2::server::{self, SendResponse};
use ::h2::{Reason, RecvStream, SendStream};
use bytes::Bytes;
use http::{HeaderMap, Response};
use rustls::{Connection, ServerConfig, ServerConnection};
use tokio::net::{TcpListener, TcpStream};

use super::engine::Engine;
use super::io::Io;
use super::{CONNECTION_WINDOW, Lines, Settings, find, lines_of};
use crate::wait::eventually;

/// A request as it came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Received {
    /// Its connection, counted from 0.
    pub connection: usize,
    /// GET and so on.
    pub method: String,
    /// The path, with the query.
    pub path: String,
    /// Whose it is, if it said so.
    pub authority: Option<String>,
    /// Lines of the head, without those that begin with a colon; those of one name in order.
    pub lines: Lines,
    /// Bytes of the body.
    pub body: usize,
    /// None, or empty: the same here.
    pub trailers: Lines,
}

impl Received {
    /// The first value with this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.lines, name)
    }
}

/// Answers 200 with the request's body while it still comes, then with its trailers. By path:
/// - `/bytes/N`: N bytes with a length, `/stream/N`: without;
/// - `/status/N`: with that status and nothing else;
/// - `/trailers`: a body, and `grpc-status: 0` behind it;
/// - `/trailers-only`: `grpc-status: 5` in a head without a body;
/// - `/interim`: a 103 before;
/// - `/reset/N`: no answer but a reset with this code;
/// - `/hold`: nothing at all, nor is the body read;
/// - `/goaway`: as if nothing, but the connection takes no further request.
///
/// Every answer names its connection in `x-connection`, counted from 0.
pub struct H2Server {
    addr: SocketAddr,
    seen: Arc<Seen>,
    _engine: Engine,
}

#[derive(Default)]
struct Seen {
    accepted: AtomicUsize,
    open: AtomicUsize,
    /// Requests that are held now.
    held: AtomicUsize,
    requests: Mutex<Vec<Received>>,
    resets: Mutex<Vec<u32>>,
}

impl H2Server {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// If no port can be bound.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(Settings::default())
    }

    /// As [`H2Server::start`], with settings.
    ///
    /// # Panics
    /// If no port can be bound.
    #[must_use]
    pub fn start_with(settings: Settings) -> Self {
        Self::begin(settings, None)
    }

    /// As [`H2Server::start`], inside TLS, as a sidecar would.
    ///
    /// # Panics
    /// If no port can be bound.
    #[must_use]
    pub fn start_tls(config: Arc<ServerConfig>) -> Self {
        Self::begin(Settings::default(), Some(config))
    }

    fn begin(settings: Settings, tls: Option<Arc<ServerConfig>>) -> Self {
        let engine = Engine::start();
        let bind = TcpListener::bind("127.0.0.1:0");
        let listener = engine.wait("a socket", bind).expect("a port is free");
        let addr = listener
            .local_addr()
            .expect("a bound socket has an address");
        let seen = Arc::new(Seen::default());
        engine.spawn(accept(listener, (settings, tls), Arc::clone(&seen)));
        Self {
            addr,
            seen,
            _engine: engine,
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.seen.accepted.load(Ordering::SeqCst)
    }

    /// Connections open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.seen.open.load(Ordering::SeqCst)
    }

    /// Requests that are held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.seen.held.load(Ordering::SeqCst)
    }

    /// Requests that have come whole so far.
    ///
    /// # Panics
    /// If a connection's task panicked.
    #[must_use]
    pub fn requests(&self) -> Vec<Received> {
        let requests = self.seen.requests.lock();
        requests.expect("no task panicked").clone()
    }

    /// The request with this path, once it has come whole.
    ///
    /// # Panics
    /// If it does not come.
    #[track_caller]
    #[must_use]
    pub fn request(&self, path: &str) -> Received {
        eventually(&format!("a request for {path}"), || {
            let requests = self.requests();
            requests.into_iter().find(|request| request.path == path)
        })
    }

    /// Codes with which held requests were given up.
    ///
    /// # Panics
    /// If a connection's task panicked.
    #[must_use]
    pub fn resets(&self) -> Vec<u32> {
        self.seen.resets.lock().expect("no task panicked").clone()
    }
}

type How = (Settings, Option<Arc<ServerConfig>>);

async fn accept(listener: TcpListener, how: How, seen: Arc<Seen>) {
    while let Ok((tcp, _)) = listener.accept().await {
        let number = seen.accepted.fetch_add(1, Ordering::SeqCst);
        seen.open.fetch_add(1, Ordering::SeqCst);
        let (how, seen) = (how.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            // That the peer goes away is how a connection ends.
            let _ = serve(number, tcp, &how, &seen).await;
            seen.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn serve(
    number: usize,
    tcp: TcpStream,
    (settings, tls): &How,
    seen: &Arc<Seen>,
) -> Result<(), ::h2::Error> {
    tcp.set_nodelay(true).expect("a TCP socket has no delay");
    let io = match tls {
        Some(config) => {
            let tls = ServerConnection::new(Arc::clone(config)).expect("a good config");
            Io::tls(tcp, Connection::Server(tls))
        }
        None => Io::plain(tcp),
    };
    let mut builder = server::Builder::new();
    builder.initial_connection_window_size(CONNECTION_WINDOW);
    if let Some(streams) = settings.streams {
        builder.max_concurrent_streams(streams);
    }
    if let Some(bytes) = settings.window {
        builder.initial_window_size(bytes);
    }
    let mut connection = builder.handshake(io).await?;
    while let Some(request) = connection.accept().await {
        let (request, respond) = request?;
        if request.uri().path() == "/goaway" {
            connection.graceful_shutdown();
        }
        let seen = Arc::clone(seen);
        tokio::spawn(async move {
            let (head, body) = request.into_parts();
            let received = Received {
                connection: number,
                method: head.method.to_string(),
                path: head
                    .uri
                    .path_and_query()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
                authority: head.uri.authority().map(ToString::to_string),
                lines: lines_of(&head.headers),
                ..Received::default()
            };
            // That the peer gives a request up is how one ends.
            let _ = Exchange {
                received,
                respond,
                seen,
            }
            .run(body)
            .await;
        });
    }
    Ok(())
}

struct Exchange {
    received: Received,
    respond: SendResponse<Bytes>,
    seen: Arc<Seen>,
}

impl Exchange {
    async fn run(mut self, body: RecvStream) -> Result<(), ::h2::Error> {
        let path = self.received.path.clone();
        let (word, number) = split(&path);
        match word {
            "hold" => return self.hold(body).await,
            "reset" => {
                self.respond.send_reset(Reason::from(number));
                return Ok(());
            }
            "interim" => {
                let early = Response::builder().status(103).header("x-early", "yes");
                self.respond
                    .send_informational(early.body(()).expect("a good head"))?;
            }
            "" | "echo" => return self.echo(body).await,
            _ => {}
        }
        let trailers = self.take(body, None).await?;
        self.note(&trailers);
        self.answer(word, number).await
    }

    /// Answers once the request has come whole.
    async fn answer(&mut self, word: &str, number: u32) -> Result<(), ::h2::Error> {
        let text = |text: &'static str| Bytes::from_static(text.as_bytes());
        match word {
            "status" => {
                let status = u16::try_from(number).expect("a status is small");
                self.head(status, &[], true)?;
            }
            "trailers-only" => {
                let lines = [("content-type", "application/grpc"), ("grpc-status", "5")];
                self.head(200, &lines, true)?;
            }
            "bytes" => {
                let mut send = self.head(200, &[("content-length", &number.to_string())], false)?;
                send_all(&mut send, pattern(number as usize), true).await?;
            }
            "stream" => {
                let mut send = self.head(200, &[], false)?;
                send_all(&mut send, pattern(number as usize), true).await?;
            }
            "trailers" => {
                let mut send = self.head(200, &[], false)?;
                send.send_data(text("body"), false)?;
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", "0".parse().expect("a good value"));
                trailers.insert("x-sum", "1".parse().expect("a good value"));
                send.send_trailers(trailers)?;
            }
            _ => {
                let mut send = self.head(200, &[], false)?;
                send.send_data(text("ok"), true)?;
            }
        }
        Ok(())
    }

    /// Until the peer gives it up.
    async fn hold(&mut self, body: RecvStream) -> Result<(), ::h2::Error> {
        self.seen.held.fetch_add(1, Ordering::SeqCst);
        let reset = poll_fn(|context| self.respond.poll_reset(context)).await;
        self.seen.held.fetch_sub(1, Ordering::SeqCst);
        drop(body);
        let code = reset?.into();
        self.seen
            .resets
            .lock()
            .expect("no task panicked")
            .push(code);
        Ok(())
    }

    async fn echo(&mut self, body: RecvStream) -> Result<(), ::h2::Error> {
        if body.is_end_stream() {
            self.note(&HeaderMap::new());
            self.head(200, &[], true)?;
            return Ok(());
        }
        let length = self.received.header("content-length").map(str::to_owned);
        let length: Vec<_> = length
            .iter()
            .map(|n| ("content-length", n.as_str()))
            .collect();
        let mut send = self.head(200, &length, false)?;
        let trailers = self.take(body, Some(&mut send)).await?;
        self.note(&trailers);
        match trailers.is_empty() {
            true => send.send_data(Bytes::new(), true),
            false => send.send_trailers(trailers),
        }
    }

    /// Reads the body, and sends it back if there is somewhere to.
    async fn take(
        &mut self,
        mut body: RecvStream,
        mut back: Option<&mut SendStream<Bytes>>,
    ) -> Result<HeaderMap, ::h2::Error> {
        while let Some(part) = body.data().await {
            let part = part?;
            let length = part.len();
            self.received.body += length;
            if let Some(back) = &mut back {
                send_all(back, part, false).await?;
            }
            body.flow_control().release_capacity(length)?;
        }
        Ok(body.trailers().await?.unwrap_or_default())
    }

    fn note(&mut self, trailers: &HeaderMap) {
        self.received.trailers = lines_of(trailers);
        let mut requests = self.seen.requests.lock().expect("no task panicked");
        requests.push(self.received.clone());
    }

    fn head(
        &mut self,
        status: u16,
        lines: &[(&str, &str)],
        end: bool,
    ) -> Result<SendStream<Bytes>, ::h2::Error> {
        let mut head = Response::builder()
            .status(status)
            .header("x-connection", self.received.connection);
        for (name, value) in lines {
            head = head.header(*name, *value);
        }
        self.respond
            .send_response(head.body(()).expect("a good head"), end)
    }
}

/// The first word of a path, and the number behind it.
fn split(path: &str) -> (&str, u32) {
    let path = path.split('?').next().unwrap_or_default();
    let path = path.trim_start_matches('/');
    let (word, number) = path.split_once('/').unwrap_or((path, ""));
    (word, number.parse().unwrap_or_default())
}

/// Bytes that repeat only after a long while, so that what is lost or doubled shows.
fn pattern(length: usize) -> Bytes {
    let byte = |at: usize| u8::try_from((at / 251 + at) % 251).expect("below 251");
    (0..length).map(byte).collect()
}

/// Sends as fast as the peer lets it.
async fn send_all(
    send: &mut SendStream<Bytes>,
    mut bytes: Bytes,
    end: bool,
) -> Result<(), ::h2::Error> {
    if bytes.is_empty() && end {
        return send.send_data(bytes, true);
    }
    while !bytes.is_empty() {
        send.reserve_capacity(bytes.len());
        let room = poll_fn(|context| send.poll_capacity(context)).await;
        let room = room.ok_or(Reason::CANCEL)??;
        let part = bytes.split_to(room.min(bytes.len()));
        send.send_data(part, end && bytes.is_empty())?;
    }
    Ok(())
}
