//! Holds HTTP/2 against the `h2` crate, in both roles: requests with bodies and trailers, many at
//! once, echoed by the other side. Whatever either side sends, the other one reads the same.

#![allow(clippy::unwrap_used, reason = "a test says with a panic what is wrong")]

use std::collections::HashMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::LocalSet;
use wire::h2::{Config, Connection, Dialect, Event, Key, Role};
use wire::http1::{Limits, Parsed, RequestHead, ResponseHead};

/// Requests of each test.
const REQUESTS: usize = 200;

/// Bytes that the pipe between both sides holds, fewer than most bodies.
const PIPE_BYTES: usize = 10_000;

/// The body of request `number`; each tenth is larger than a window.
fn body(number: usize) -> Vec<u8> {
    let len = match number % 10 {
        0 => 150_000,
        part => part * 997,
    };
    (0..len).map(|at| (at + number) as u8).collect()
}

/// Each third request has trailers.
fn trailer(number: usize) -> Option<String> {
    number.is_multiple_of(3).then(|| format!("t{number}"))
}

/// What is received and sent on one stream.
#[derive(Default)]
struct Exchange {
    number: usize,
    received: Vec<u8>,
    to_send: Vec<u8>,
    trailer: Option<String>,
    is_sending: bool,
}

/// Our side of a connection.
struct Ours {
    connection: Connection,
    role: Role,
    exchanges: HashMap<Key, Exchange>,
    opened: usize,
    complete: usize,
}

impl Ours {
    fn new(role: Role) -> Self {
        Self {
            connection: Connection::new(&Config::new(role, Dialect::Public)),
            role,
            exchanges: HashMap::new(),
            opened: 0,
            complete: 0,
        }
    }

    /// Until as many exchanges as there are requests are over and everything is written.
    async fn run(mut self, io: DuplexStream) {
        let (mut read, mut write) = tokio::io::split(io);
        let (mut input, mut chunk) = (Vec::new(), vec![0; 7000]);
        while self.complete < REQUESTS || self.connection.output_len() > 0 {
            self.send();
            let output = std::mem::take(self.connection.output());
            let (mut count, mut written) = (0, 0);
            tokio::select! {
                came = read.read(&mut chunk) => count = came.unwrap(),
                sent = write.write(&output), if !output.is_empty() => written = sent.unwrap(),
            }
            self.connection
                .output()
                .extend_from_slice(&output[written..]);
            input.extend_from_slice(&chunk[..count]);
            let mut at = 0;
            loop {
                let received = self.connection.receive(&input[at..]).unwrap();
                if received.consumed == 0 {
                    break;
                }
                at += received.consumed;
                self.take(received.event);
            }
            input.drain(..at);
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Request { stream, end } => {
                let (mut text, mut head) = (Vec::new(), RequestHead::default());
                self.connection.take_request(&mut text, &mut head);
                let path = str::from_utf8(head.path.of(&text)).unwrap();
                let number = path.strip_prefix("/").unwrap().parse().unwrap();
                self.exchanges.insert(
                    stream,
                    Exchange {
                        number,
                        ..Exchange::default()
                    },
                );
                self.end_if(stream, end);
            }
            Event::Response { stream, end } => {
                let (mut text, mut head) = (Vec::new(), ResponseHead::default());
                self.connection.take_response(&mut text, &mut head);
                assert_eq!((head.status, head.reason.of(&text)), (200, &b"OK"[..]));
                assert_eq!(head.find(&text, "x-a").unwrap().value.of(&text), b"b");
                self.end_if(stream, end);
            }
            Event::Data { stream, bytes, end } => {
                let exchange = self.exchanges.get_mut(&stream).unwrap();
                exchange.received.extend_from_slice(bytes);
                self.connection.consumed(stream, bytes.len());
                self.connection.consumed_connection(bytes.len());
                self.end_if(stream, end);
            }
            Event::Trailers { stream } => {
                let mut text = Vec::new();
                self.connection.take_trailers(&mut text);
                let number = self.exchanges[&stream].number;
                let expected = trailer(number).map(|value| format!("x-trailer: {value}\r\n"));
                assert_eq!(String::from_utf8(text).unwrap(), expected.unwrap());
                self.exchanges.get_mut(&stream).unwrap().trailer = trailer(number);
                self.end_if(stream, true);
            }
            Event::Reset { .. } | Event::TooLarge { .. } => panic!("{event:?}"),
            _ => {}
        }
    }

    /// A whole message came: a server echoes it, a client is done.
    fn end_if(&mut self, stream: Key, end: bool) {
        if !end {
            return;
        }
        let exchange = self.exchanges.get_mut(&stream).unwrap();
        assert!(exchange.received == body(exchange.number));
        if self.role == Role::Client {
            let expected = trailer(exchange.number);
            assert_eq!(exchange.trailer, expected);
            self.exchanges.remove(&stream);
            self.connection.release(stream);
            self.complete += 1;
            return;
        }
        exchange.to_send = std::mem::take(&mut exchange.received);
        exchange.is_sending = true;
        let lines = b"X-A: b\r\nConnection: close\r\n";
        self.connection.send_status(stream, 100, b"", false);
        self.connection.send_status(stream, 200, lines, false);
    }

    /// Opens what can be opened, sends what can be sent.
    fn send(&mut self) {
        // Who does not wait for the settings may be refused.
        let may_open = self.role == Role::Client && self.connection.peer_settings_came();
        while may_open && self.opened < REQUESTS {
            let Some(stream) = self.connection.open() else {
                break;
            };
            self.open(stream);
        }
        let mut over = Vec::new();
        for (stream, exchange) in &mut self.exchanges {
            if !exchange.is_sending {
                continue;
            }
            let ends = exchange.trailer.is_none();
            let taken = self.connection.send_data(*stream, &exchange.to_send, ends);
            exchange.to_send.drain(..taken);
            if !exchange.to_send.is_empty() {
                continue;
            }
            if let Some(value) = exchange.trailer.take() {
                let lines = format!("X-Trailer: {value}\r\n");
                self.connection.send_trailers(*stream, lines.as_bytes());
            }
            exchange.is_sending = false;
            over.push(*stream);
        }
        for stream in over.iter().filter(|_| self.role == Role::Server) {
            assert!(self.connection.is_closed(*stream));
            self.exchanges.remove(stream);
            self.connection.release(*stream);
            self.complete += 1;
        }
    }

    fn open(&mut self, stream: Key) {
        let number = self.opened;
        let text = format!("POST /{number} HTTP/1.1\r\nHost: a.b\r\nUser-Agent: x\r\n\r\n");
        let mut head = RequestHead::default();
        let limits = Limits {
            head_bytes: 4096,
            headers: 64,
        };
        let parsed = head.parse(text.as_bytes(), &limits);
        assert_eq!(parsed, Ok(Parsed::Complete));
        self.connection
            .send_request(stream, &head, text.as_bytes(), b"", false);
        self.opened += 1;
        self.exchanges.insert(
            stream,
            Exchange {
                number,
                to_send: body(number),
                trailer: trailer(number),
                is_sending: true,
                ..Exchange::default()
            },
        );
    }
}

/// Everything that a stream of the `h2` crate brings.
async fn collect(mut stream: h2::RecvStream) -> (Vec<u8>, Option<HeaderMap>) {
    let mut whole = Vec::new();
    while let Some(part) = stream.data().await {
        let part = part.unwrap();
        whole.extend_from_slice(&part);
        stream.flow_control().release_capacity(part.len()).unwrap();
    }
    (whole, stream.trailers().await.unwrap())
}

/// Sends a body as the windows let it through, and trailers if there are any.
async fn send(mut stream: h2::SendStream<Bytes>, whole: Vec<u8>, trailers: Option<HeaderMap>) {
    let mut rest = Bytes::from(whole);
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
        let part = rest.split_to(room.unwrap().unwrap().min(rest.len()));
        stream.send_data(part, false).unwrap();
    }
    match trailers {
        Some(trailers) => stream.send_trailers(trailers).unwrap(),
        None => stream.send_data(Bytes::new(), true).unwrap(),
    }
}

fn trailers(number: usize) -> Option<HeaderMap> {
    trailer(number).map(|value| {
        let value = HeaderValue::from_str(&value).unwrap();
        HeaderMap::from_iter([(http::HeaderName::from_static("x-trailer"), value)])
    })
}

/// One request of theirs to a server of ours.
async fn request(mut requests: h2::client::SendRequest<Bytes>, number: usize) {
    std::future::poll_fn(|cx| requests.poll_ready(cx))
        .await
        .unwrap();
    let uri = format!("http://a.b/{number}");
    let head = Request::post(uri).body(()).unwrap();
    let (response, stream) = requests.send_request(head, false).unwrap();
    send(stream, body(number), trailers(number)).await;
    let response = response.await.unwrap();
    assert_eq!(response.headers()["x-a"], "b");
    assert!(response.headers().get("connection").is_none());
    let (echo, end) = collect(response.into_body()).await;
    assert!(echo == body(number));
    assert_eq!(end, trailers(number));
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test);
}

#[test]
fn the_h2_crate_is_served() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let server = tokio::task::spawn_local(Ours::new(Role::Server).run(ours));
        let (requests, connection) = h2::client::handshake(theirs).await.unwrap();
        tokio::task::spawn_local(connection);
        let all: Vec<_> = (0..REQUESTS)
            .map(|number| tokio::task::spawn_local(request(requests.clone(), number)))
            .collect();
        for one in all {
            one.await.unwrap();
        }
        server.await.unwrap();
    });
}

/// Echoes one request of ours.
async fn respond(request: Request<h2::RecvStream>, mut answer: h2::server::SendResponse<Bytes>) {
    assert_eq!(request.uri().host(), Some("a.b"));
    assert_eq!(request.headers()["user-agent"], "x");
    let number: usize = request.uri().path()[1..].parse().unwrap();
    let (echo, end) = collect(request.into_body()).await;
    assert!(echo == body(number));
    assert_eq!(end, trailers(number));
    let head = Response::builder().header("x-a", "b").body(()).unwrap();
    let stream = answer.send_response(head, false).unwrap();
    send(stream, echo, end).await;
}

#[test]
fn the_h2_crate_serves_us() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let client = tokio::task::spawn_local(Ours::new(Role::Client).run(ours));
        tokio::task::spawn_local(async move {
            let mut server = h2::server::Builder::new()
                .max_concurrent_streams(20)
                .initial_window_size(9000)
                .handshake(theirs)
                .await
                .unwrap();
            while let Some(Ok((request, answer))) = server.accept().await {
                tokio::task::spawn_local(respond(request, answer));
            }
        });
        client.await.unwrap();
    });
}
