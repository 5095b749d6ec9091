//! Prints what one exchange without a body costs on a warm connection of HTTP/2, in nanoseconds,
//! each of its four steps apart and for both dialects; the least of many batches, so that a busy
//! machine disturbs little. Usage: `h2_cost [COUNT]`. A measurement for tuning, never a test.

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

/// Exchanges between two looks at the clock.
const BATCH: u32 = 50;

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

    fn ask(&mut self, text: &[u8], head: &RequestHead) -> Key {
        let stream = self.connection.open().expect("the batch is not large");
        self.connection
            .send_request(stream, black_box(head), text, b"", true);
        stream
    }

    /// Takes all of `bytes`, head by head; their streams.
    fn receive(&mut self, bytes: &mut Vec<u8>) -> Vec<Key> {
        let (mut at, mut streams) = (0, Vec::with_capacity(BATCH as usize));
        while at < bytes.len() {
            let received = self
                .connection
                .receive(&bytes[at..])
                .expect("an honest peer");
            at += received.consumed;
            match received.event {
                Event::Request { stream, .. } => {
                    self.connection
                        .take_request(&mut self.text, &mut self.request);
                    streams.push(stream);
                }
                Event::Response { stream, .. } => {
                    self.connection
                        .take_response(&mut self.text, &mut self.response);
                    streams.push(stream);
                }
                _ => {}
            }
        }
        bytes.clear();
        streams
    }
}

fn measure(dialect: Dialect, count: u32) {
    let mut client = Side::new(Role::Client, dialect);
    let mut server = Side::new(Role::Server, dialect);
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
    let mut least = [Duration::MAX; 4];
    for round in 0..(count / BATCH) as usize {
        let mut laps = [Instant::now(); 5];
        let batch = (0..BATCH as usize).map(|at| &requests[(round * BATCH as usize + at) % IDS]);
        let sent: Vec<Key> = batch.map(|(text, head)| client.ask(text, head)).collect();
        laps[1] = Instant::now();
        let came = server.receive(client.connection.output());
        laps[2] = Instant::now();
        for stream in came {
            let connection = &mut server.connection;
            connection.send_response(stream, black_box(&answer), ANSWER, b"", true);
            connection.release(stream);
        }
        laps[3] = Instant::now();
        client.receive(server.connection.output());
        for stream in sent {
            client.connection.release(stream);
        }
        laps[4] = Instant::now();
        for (least, lap) in least.iter_mut().zip(laps.windows(2)) {
            *least = (*least).min(lap[1] - lap[0]);
        }
    }
    let names = ["request sent", "received", "response sent", "received"];
    for (name, least) in names.iter().zip(least) {
        let nanos = least.as_nanos() as f64 / f64::from(BATCH);
        println!("{dialect:?}, {name}: {nanos:.0} ns");
    }
}
