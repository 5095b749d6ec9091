//! A client of HTTP/2: whole requests and answers, or piece by piece. Used by tests in the place
//! of an application, or of another sidecar.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;

use ::h2::client::{self, ResponseFuture, SendRequest};
use ::h2::{Reason, RecvStream, SendStream};
use bytes::Bytes;
use identity::tls::endpoint_name;
use rustls::{ClientConnection, Connection};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::engine::Engine;
use super::io::Io;
use super::{CONNECTION_WINDOW, Lines, Settings, find, lines_of, map_of};
use crate::client::MeshConnector;

/// A connection that carries many requests at once.
pub struct H2Client {
    // First, so that the connection is there as long as somebody may ask it.
    send: SendRequest<Bytes>,
    ended: watch::Receiver<Option<String>>,
    engine: Arc<Engine>,
}

/// A request's head.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    path: String,
    lines: Lines,
}

/// A whole answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Of the final head.
    pub status: u16,
    /// Its lines; those of one name in their order.
    pub lines: Lines,
    /// Everything.
    pub body: Vec<u8>,
    /// None, or empty: the same here.
    pub trailers: Lines,
}

/// A request on its way.
pub struct Call {
    engine: Arc<Engine>,
    response: Option<ResponseFuture>,
    send: SendStream<Bytes>,
    body: Option<RecvStream>,
}

impl Request {
    /// To the host `test`.
    #[must_use]
    pub fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            lines: Lines::new(),
        }
    }

    /// With a line.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.lines.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A call of gRPC.
    #[must_use]
    pub fn grpc(path: &str) -> Self {
        Self::new("POST", path)
            .with("content-type", "application/grpc")
            .with("te", "trailers")
    }

    fn build(&self) -> http::Request<()> {
        let builder = http::Request::builder()
            .method(self.method.as_str())
            .version(http::Version::HTTP_2)
            .uri(format!("http://test{}", self.path));
        let mut request = builder.body(()).expect("a test's request is good");
        *request.headers_mut() = map_of(&self.lines);
        request
    }
}

impl Answer {
    /// The first value with this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.lines, name)
    }

    /// The first trailer with this name.
    #[must_use]
    pub fn trailer(&self, name: &str) -> Option<&str> {
        find(&self.trailers, name)
    }

    /// The status of a gRPC call, in the trailers or (an answer without messages) in the head.
    #[must_use]
    pub fn grpc_status(&self) -> Option<&str> {
        let name = "grpc-status";
        self.trailer(name).or_else(|| self.header(name))
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl H2Client {
    /// Connects in plaintext, by prior knowledge.
    ///
    /// # Panics
    /// If that fails.
    #[track_caller]
    #[must_use]
    pub fn connect(addr: SocketAddr) -> Self {
        Self::connect_with(addr, Settings::default())
    }

    /// As [`H2Client::connect`], with settings.
    ///
    /// # Panics
    /// If that fails.
    #[track_caller]
    #[must_use]
    pub fn connect_with(addr: SocketAddr, settings: Settings) -> Self {
        Self::begin(addr, settings, Io::plain)
    }

    /// Connects inside mesh TLS, with what the connector offers.
    ///
    /// # Panics
    /// If that fails.
    #[track_caller]
    #[must_use]
    pub fn connect_tls(addr: SocketAddr, connector: &MeshConnector) -> Self {
        let config = Arc::new(connector.config().clone());
        let tls = ClientConnection::new(config, endpoint_name(addr)).expect("the name is valid");
        Self::connect_in(addr, tls)
    }

    /// Connects inside TLS.
    #[track_caller]
    pub(crate) fn connect_in(addr: SocketAddr, tls: ClientConnection) -> Self {
        let inside = |tcp| Io::tls(tcp, Connection::Client(tls));
        Self::begin(addr, Settings::default(), inside)
    }

    #[track_caller]
    fn begin(addr: SocketAddr, settings: Settings, wrap: impl FnOnce(TcpStream) -> Io) -> Self {
        let engine = Engine::start();
        let (send, connection) = engine.wait("an HTTP/2 connection", async {
            let tcp = TcpStream::connect(addr).await.expect("connects");
            tcp.set_nodelay(true).expect("a TCP socket has no delay");
            let mut builder = client::Builder::new();
            builder.initial_connection_window_size(CONNECTION_WINDOW);
            if let Some(bytes) = settings.window {
                builder.initial_window_size(bytes);
            }
            let shaken = builder.handshake(wrap(tcp)).await;
            shaken.expect("the preface goes out")
        });
        let (tell, ended) = watch::channel(None);
        engine.spawn(async move {
            let end = connection.await;
            let end = end.map_or_else(|error| error.to_string(), |()| String::new());
            let _ = tell.send(Some(end));
        });
        Self {
            send,
            ended,
            engine: Arc::new(engine),
        }
    }

    /// Sends a request's head; `end`: no body follows.
    ///
    /// # Panics
    /// If the connection is gone.
    #[track_caller]
    #[must_use]
    pub fn call(&mut self, request: &Request, end: bool) -> Call {
        self.try_call(request, end).expect("a stream begins")
    }

    /// As [`H2Client::call`].
    ///
    /// # Errors
    /// What the connection says.
    pub fn try_call(&mut self, request: &Request, end: bool) -> Result<Call, ::h2::Error> {
        let engine = Arc::clone(&self.engine);
        let mut ready = engine.wait("room for a stream", self.send.clone().ready())?;
        let (response, send) = ready.send_request(request.build(), end)?;
        Ok(Call {
            engine,
            response: Some(response),
            send,
            body: None,
        })
    }

    /// Sends a whole request and waits for the whole answer.
    ///
    /// # Panics
    /// If none comes.
    #[track_caller]
    pub fn ask(&mut self, request: &Request, body: &[u8]) -> Answer {
        let mut call = self.call(request, body.is_empty());
        if !body.is_empty() {
            // Who has answered already need not hear it.
            let _ = call.send.send_data(Bytes::copy_from_slice(body), true);
        }
        call.answer()
    }

    /// A GET.
    ///
    /// # Panics
    /// If no answer comes.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Answer {
        self.ask(&Request::new("GET", path), b"")
    }

    /// A POST without a length.
    ///
    /// # Panics
    /// If no answer comes.
    #[track_caller]
    pub fn post(&mut self, path: &str, body: impl AsRef<[u8]>) -> Answer {
        self.ask(&Request::new("POST", path), body.as_ref())
    }

    /// Waits for the connection's end; empty if it ended in order.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    #[must_use]
    pub fn end(&self) -> String {
        let mut ended = self.ended.clone();
        self.engine.wait("the connection's end", async {
            let end = ended.wait_for(Option::is_some).await;
            end.expect("it says so").clone().unwrap_or_default()
        })
    }
}

impl Call {
    /// Sends a part of the body as fast as the peer lets it.
    ///
    /// # Panics
    /// If it cannot be sent.
    #[track_caller]
    pub fn send(&mut self, body: impl AsRef<[u8]>) {
        self.send_with(body.as_ref(), false);
    }

    /// Sends the rest of the body, and goes on before it has left: the connection does the rest.
    ///
    /// # Panics
    /// If the stream is gone.
    #[track_caller]
    pub fn send_all(&mut self, body: &[u8]) {
        let body = Bytes::copy_from_slice(body);
        self.send.send_data(body, true).expect("sends");
    }

    #[track_caller]
    fn send_with(&mut self, mut body: &[u8], end: bool) {
        let Self { engine, send, .. } = self;
        engine.wait("room for a body", async {
            while !body.is_empty() {
                send.reserve_capacity(body.len());
                let room = poll_fn(|context| send.poll_capacity(context)).await;
                let room = room.expect("the stream is open").expect("it can be sent");
                let (part, rest) = body.split_at(room.min(body.len()));
                let part = Bytes::copy_from_slice(part);
                send.send_data(part, end && rest.is_empty()).expect("sends");
                body = rest;
            }
        });
    }

    /// Ends the request.
    ///
    /// # Panics
    /// If the stream is gone.
    #[track_caller]
    pub fn finish(&mut self) {
        self.send.send_data(Bytes::new(), true).expect("sends");
    }

    /// Ends the request with trailers.
    ///
    /// # Panics
    /// If the stream is gone.
    #[track_caller]
    pub fn finish_with(&mut self, trailers: &[(&str, &str)]) {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let lines: Lines = trailers.iter().map(own).collect();
        self.send.send_trailers(map_of(&lines)).expect("sends");
    }

    /// Gives the request up.
    pub fn reset(mut self) {
        self.send.send_reset(Reason::CANCEL);
    }

    /// Waits for the next interim answer's status.
    ///
    /// # Panics
    /// If none comes.
    #[track_caller]
    pub fn interim(&mut self) -> u16 {
        let response = self.response.as_mut().expect("the head is still to come");
        let interim = self.engine.wait("an interim answer", async {
            poll_fn(|context| response.poll_informational(context)).await
        });
        let head = interim.expect("an interim answer comes");
        head.expect("it is good").status().as_u16()
    }

    /// Waits for the head of the answer.
    ///
    /// # Errors
    /// How the stream ended instead.
    ///
    /// # Panics
    /// If it has been taken before.
    pub fn try_head(&mut self) -> Result<Answer, ::h2::Error> {
        let response = self.response.take().expect("the head is taken once");
        let (head, body) = self.engine.wait("an answer's head", response)?.into_parts();
        self.body = Some(body);
        Ok(Answer {
            status: head.status.as_u16(),
            lines: lines_of(&head.headers),
            ..Answer::default()
        })
    }

    /// Waits for the head of the answer.
    ///
    /// # Panics
    /// If none comes.
    #[track_caller]
    pub fn head(&mut self) -> Answer {
        self.try_head().expect("an answer comes")
    }

    /// Waits for the next part of the body; `None` at its end. The window opens again for it.
    ///
    /// # Errors
    /// How the stream ended instead.
    ///
    /// # Panics
    /// Before the head.
    pub fn part(&mut self) -> Result<Option<Bytes>, ::h2::Error> {
        let body = self.body.as_mut().expect("the head has come");
        let Some(part) = self.engine.wait("a part of a body", body.data()) else {
            return Ok(None);
        };
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        Ok(Some(part))
    }

    /// Waits for exactly so much of the body, as it was sent in parts.
    ///
    /// # Panics
    /// If something else comes.
    #[track_caller]
    pub fn expect(&mut self, expected: &[u8]) {
        let mut came = Vec::new();
        while came.len() < expected.len() {
            let part = self.part().expect("a part comes");
            came.extend(part.expect("the body goes on"));
        }
        assert_eq!(came, expected);
    }

    /// Waits for the rest of the answer.
    ///
    /// # Errors
    /// How the stream ended instead.
    pub fn try_answer(mut self) -> Result<Answer, ::h2::Error> {
        let mut answer = match self.body {
            Some(_) => Answer::default(),
            None => self.try_head()?,
        };
        while let Some(part) = self.part()? {
            answer.body.extend(part);
        }
        if let Some(body) = &mut self.body {
            let trailers = self.engine.wait("trailers", body.trailers())?;
            answer.trailers = trailers.as_ref().map(lines_of).unwrap_or_default();
        }
        Ok(answer)
    }

    /// Waits for the rest of the answer.
    ///
    /// # Panics
    /// If it does not come whole.
    #[track_caller]
    #[must_use]
    pub fn answer(self) -> Answer {
        self.try_answer().expect("a whole answer comes")
    }

    /// Waits for the peer to give the request up, and says with which code.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn was_reset(&mut self) -> u32 {
        let send = &mut self.send;
        let reset = poll_fn(|context| send.poll_reset(context));
        self.engine.wait("a reset", reset).expect("a reset").into()
    }
}
