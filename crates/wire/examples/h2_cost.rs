//! Prints what one exchange without a body costs on a warm connection of HTTP/2, in nanoseconds,
//! each of its four steps apart and for both dialects. Usage: `h2_cost [COUNT]`. A measurement
//! for tuning, never a test.

use std::hint::black_box;
use std::time::{Duration, Instant};

use wire::h2::{Config, Connection, Dialect, Event, Key, Role};
use wire::http1::{Limits, Method, RequestHead, ResponseHead};

const LIMITS: Limits = Limits {
    head_bytes: 65536,
    headers: 200,
};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 10:44:00 GMT\r\n\
    Content-Type: text/plain; charset=UTF-8\r\nContent-Length: 1024\r\nServer: fortio\r\n\r\n";

/// How many different request ids there are.
const IDS: usize = 512;

fn main() {
    let count = std::env::args()
        .nth(1)
        .map_or(1_000_000, |n| n.parse().expect("a count"));
    for dialect in [Dialect::Public, Dialect::Hop] {
        measure(dialect, count);
    }
}

fn request(id: usize) -> Vec<u8> {
    format!(
        "GET /echo?size=1024 HTTP/1.1\r\nHost: fortioserver:8080\r\n\
         User-Agent: fortio.org/fortio-1.63.7\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\
         Content-Type: application/json\r\nX-Request-Id: 5f2b1c9e-7c1d-4a57-8d3e-{id:012x}\r\n\r\n"
    )
    .into_bytes()
}

struct Side {
    connection: Connection,
    text: Vec<u8>,
    request: RequestHead,
    response: ResponseHead,
}

impl Side {
    fn new(role: Role, dialect: Dialect) -> Self {
        Self {
            connection: Connection::new(&Config::new(role, dialect)),
            text: Vec::new(),
            request: RequestHead::default(),
            response: ResponseHead::default(),
        }
    }

    /// Takes all of `bytes`; the stream of the last head.
    fn receive(&mut self, bytes: &mut Vec<u8>) -> Option<Key> {
        let (mut at, mut last) = (0, None);
        while at < bytes.len() {
            let received = self.connection.receive(&bytes[at..]).expect("no violation");
            at += received.consumed;
            match received.event {
                Event::Request { stream, .. } => {
                    self.connection
                        .take_request(&mut self.text, &mut self.request);
                    last = Some(stream);
                }
                Event::Response { stream, .. } => {
                    self.connection
                        .take_response(&mut self.text, &mut self.response);
                    last = Some(stream);
                }
                _ => {}
            }
        }
        bytes.clear();
        last
    }
}

fn measure(dialect: Dialect, count: u32) {
    let (mut client, mut server) = (
        Side::new(Role::Client, dialect),
        Side::new(Role::Server, dialect),
    );
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut answer = ResponseHead::default();
    answer
        .parse(ANSWER, &LIMITS, Method::Get)
        .expect("a good head");
    let requests: Vec<(Vec<u8>, RequestHead)> = (0..IDS)
        .map(|id| {
            let (text, mut head) = (request(id), RequestHead::default());
            head.parse(&text, &LIMITS).expect("a good head");
            (text, head)
        })
        .collect();
    let mut spent = [Duration::ZERO; 4];
    // In batches, so that the clock costs little.
    let batch = 50;
    for round in 0..count / batch {
        let mut sent = Vec::new();
        let start = Instant::now();
        for at in 0..batch {
            let (text, head) = &requests[(round * batch + at) as usize % IDS];
            let stream = client.connection.open().expect("a stream");
            client
                .connection
                .send_request(stream, black_box(head), text, b"", true);
            sent.push(stream);
        }
        up.append(client.connection.output());
        let lap = |spent: &mut Duration, start: &mut Instant| {
            *spent += start.elapsed();
            *start = Instant::now();
        };
        let mut start = {
            let mut s = start;
            lap(&mut spent[0], &mut s);
            s
        };
        let _ = (&mut start, &mut down);
        let streams = take_all(&mut server, &mut up);
        lap(&mut spent[1], &mut start);
        for stream in streams {
            server
                .connection
                .send_response(stream, black_box(&answer), ANSWER, b"", true);
            server.connection.release(stream);
        }
        lap(&mut spent[2], &mut start);
        down.append(server.connection.output());
        client.receive(&mut down);
        for stream in sent {
            client.connection.release(stream);
        }
        lap(&mut spent[3], &mut start);
    }
    let names = [
        "send_request",
        "receive request",
        "send_response",
        "receive response",
    ];
    for (name, spent) in names.iter().zip(spent) {
        let nanos = spent.as_nanos() as f64 / f64::from(count);
        println!("{dialect:?} {name}: {nanos:.0} ns");
    }
}

/// Takes the requests one by one, as the proxy does.
fn take_all(server: &mut Side, bytes: &mut Vec<u8>) -> Vec<Key> {
    let (mut at, mut streams) = (0, Vec::with_capacity(64));
    while at < bytes.len() {
        let received = server
            .connection
            .receive(&bytes[at..])
            .expect("no violation");
        at += received.consumed;
        if let Event::Request { stream, .. } = received.event {
            server
                .connection
                .take_request(&mut server.text, &mut server.request);
            streams.push(stream);
        }
    }
    bytes.clear();
    streams
}
