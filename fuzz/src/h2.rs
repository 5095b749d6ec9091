//! What must hold of a connection of HTTP/2 for any bytes that a peer sends. Called by its fuzz
//! target and, over the seeds, by wire's tests.

use std::collections::BTreeMap;

use wire::h2::{Code, Config, Connection, Dialect, Event, Key, PREFACE, Role};
use wire::http1::{Framing, Method, Parsed, RequestHead, ResponseHead};

use super::{WIDE, check_lines, check_strict};

/// Input that is looked at: fewer frames than any flood, so that a verdict does not depend on how
/// the bytes arrive.
const INPUT_BYTES_MAX: usize = 4096;

/// Output that so little input can cause: the answers to some hundred frames, and bodies.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// What a client has asked before the input comes, and which method each answer answers.
const REQUESTS: [(&[u8], Method); 3] = [
    (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", Method::Get),
    (b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", Method::Head),
    (
        b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
        Method::Connect,
    ),
];

/// The first byte says which side and dialect, whether greetings come before the rest, and how it
/// is cut; the rest is what the peer sends. Nothing panics, nothing grows, heads are what HTTP/1
/// reads in their text, and all says the same however it is cut.
pub fn h2(data: &[u8]) {
    let Some((mode, bytes)) = data.split_first() else {
        return;
    };
    let bytes = &bytes[..bytes.len().min(INPUT_BYTES_MAX)];
    let whole = Run::new(*mode).feed(bytes, bytes.len().max(1));
    let cut = Run::new(*mode).feed(bytes, 1 + usize::from(mode >> 3));
    assert_eq!(whole, cut);
}

/// Whether the peer kept to the protocol.
pub fn is_good(data: &[u8]) -> bool {
    let Some((mode, bytes)) = data.split_first() else {
        return false;
    };
    let log = Run::new(*mode).feed(bytes, bytes.len().max(1));
    !log.violated && log.resets == 0
}

/// What happened; payload is put together.
#[derive(Debug, Default, PartialEq, Eq)]
struct Log {
    events: Vec<String>,
    payload: BTreeMap<usize, Vec<u8>>,
    violated: bool,
    resets: usize,
}

struct Run {
    connection: Connection,
    role: Role,
    /// Streams that were not released, with the number of the exchange.
    held: Vec<(Key, usize)>,
    exchanges: usize,
    log: Log,
}

impl Run {
    fn new(mode: u8) -> Self {
        let role = [Role::Server, Role::Client][usize::from(mode & 1)];
        let dialect = [Dialect::Public, Dialect::Hop][usize::from(mode >> 1 & 1)];
        let mut config = Config::new(role, dialect);
        (config.limits.head_bytes, config.limits.headers) = (1000, 12);
        (config.limits.streams, config.limits.stream_window) = (4, 500);
        let mut run = Self {
            connection: Connection::new(&config),
            role,
            held: Vec::new(),
            exchanges: 0,
            log: Log::default(),
        };
        if mode & 4 == 0 {
            run.greet();
        }
        if role == Role::Client {
            REQUESTS.iter().for_each(|(text, _)| run.ask(text));
        }
        run
    }

    fn greet(&mut self) {
        let mut bytes = PREFACE.to_vec();
        if self.role == Role::Client {
            bytes.clear();
        }
        // Settings of nothing, and the acknowledgement of ours.
        bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&[0, 0, 0, 4, 1, 0, 0, 0, 0]);
        assert_eq!(self.take_all(&bytes), bytes.len());
    }

    fn ask(&mut self, text: &[u8]) {
        let mut head = RequestHead::default();
        assert_eq!(head.parse(text, &WIDE), Ok(Parsed::Complete));
        let stream = self.connection.open().expect("three streams are few");
        self.connection
            .send_request(stream, &head, text, b"x: y\r\n", false);
        self.connection.send_data(stream, b"body", false);
        self.hold(stream);
    }

    fn hold(&mut self, stream: Key) {
        assert!(self.held.iter().all(|(key, _)| *key != stream));
        self.held.push((stream, self.exchanges));
        self.exchanges += 1;
    }

    fn number(&self, stream: Key) -> usize {
        let held = self.held.iter().find(|(key, _)| *key == stream);
        held.expect("events are of streams that are held").1
    }

    fn release(&mut self, stream: Key) {
        self.held.retain(|(key, _)| *key != stream);
        self.connection.release(stream);
    }

    /// All of `bytes`, `step` more of them at a time.
    fn feed(mut self, bytes: &[u8], step: usize) -> Log {
        let (mut at, mut end) = (0, 0);
        while end < bytes.len() && !self.log.violated {
            end = bytes.len().min(end + step);
            at += self.take_all(&bytes[at..end]);
        }
        assert!(self.connection.streams() <= self.held.len());
        assert!(self.connection.output_len() < OUTPUT_BYTES_MAX);
        for (stream, _) in std::mem::take(&mut self.held) {
            self.connection.release(stream);
        }
        assert_eq!(self.connection.streams(), 0);
        self.log
    }

    fn take_all(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let Ok(received) = self.connection.receive(&bytes[at..]) else {
                assert!(self.connection.receive(&bytes[at..]).is_err());
                self.log.violated = true;
                return at;
            };
            if received.consumed == 0 {
                assert_eq!(received.event, Event::Nothing);
                return at;
            }
            at += received.consumed;
            self.take(received.event);
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Nothing => return,
            Event::Data { stream, bytes, end } => return self.data(stream, bytes, end),
            Event::Request { stream, end } => {
                self.hold(stream);
                self.request(end);
                self.answer(stream);
            }
            Event::TooLarge { stream } => {
                self.connection.send_status(stream, 431, b"", true);
                self.connection.release(stream);
            }
            Event::Interim { stream } | Event::Response { stream, end: false } => {
                self.response(stream, false);
            }
            Event::Response { stream, end: true } => self.response(stream, true),
            Event::Trailers { .. } => self.trailers(),
            Event::Reset { stream, .. } => {
                self.log.resets += 1;
                self.release(stream);
            }
            Event::GoAway { .. } => {
                while let Some(stream) = self.connection.next_reset() {
                    self.release(stream);
                }
            }
            Event::Window { .. } | Event::Settings | Event::Pong { .. } => {}
        }
        self.log.events.push(format!("{event:?}"));
    }

    fn data(&mut self, stream: Key, bytes: &[u8], end: bool) {
        let number = self.number(stream);
        let payload = self.log.payload.entry(number).or_default();
        payload.extend_from_slice(bytes);
        self.connection.consumed_connection(bytes.len());
        if end {
            self.log.events.push(format!("end of {number}"));
        }
    }

    /// Each server's stream has another fate.
    fn answer(&mut self, stream: Key) {
        self.connection.send_status(stream, 200, b"x: y\r\n", false);
        match self.number(stream) % 4 {
            0 => {
                self.connection.send_data(stream, &[0; 600], true);
            }
            1 => self.connection.send_trailers(stream, b"x: y\r\n"),
            2 => self.release(stream),
            _ => self.connection.reset(stream, Code::InternalError),
        }
    }

    fn request(&mut self, end: bool) {
        let (mut text, mut head) = (Vec::new(), RequestHead::default());
        self.connection.take_request(&mut text, &mut head);
        check_strict(&text[..head.len]);
        check_lines(&text, &head.lines, head.len);
        assert!(!end || head.framing == Framing::None);
        let asks = head.protocol.map(|protocol| protocol.of(&text).to_vec());
        assert_eq!(asks.is_some(), text.len() > head.len);
        let extended = head.method == Method::Connect && asks.is_some();
        if extended {
            return;
        }
        let mut again = RequestHead::default();
        assert_eq!(again.parse(&text, &WIDE), Ok(Parsed::Complete));
        assert_eq!((&again.lines, again.len), (&head.lines, head.len));
        assert_eq!((again.host, again.authority), (head.host, head.authority));
        assert_eq!((again.target, again.path), (head.target, head.path));
        assert_eq!((again.method, again.version), (head.method, head.version));
    }

    fn response(&mut self, stream: Key, end: bool) {
        let (mut text, mut head) = (Vec::new(), ResponseHead::default());
        self.connection.take_response(&mut text, &mut head);
        check_strict(&text);
        check_lines(&text, &head.lines, head.len);
        assert!(!end || head.framing == Framing::None);
        let mut again = ResponseHead::default();
        let method = REQUESTS[self.number(stream)].1;
        assert_eq!(again.parse(&text, &WIDE, method), Ok(Parsed::Complete));
        assert_eq!((&again.lines, again.len), (&head.lines, head.len));
        assert_eq!((again.status, again.reason), (head.status, head.reason));
        assert_eq!(again.upgrade, head.upgrade);
    }

    fn trailers(&mut self) {
        let mut text = Vec::new();
        self.connection.take_trailers(&mut text);
        text.extend_from_slice(b"\r\n");
        check_strict(&[b"x\r\n", &text[..]].concat());
    }
}
