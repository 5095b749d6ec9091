//! A client and a server of ours against each other, with random requests, bodies, resets and cuts
//! of the bytes between them. What was sent arrives, once and in order; nothing is left at the end.

use std::collections::HashMap;

use super::{Code, Config, Connection, Dialect, Event, Key, Role};
use crate::http1::{Framing, Limits, Origin, Parsed, RequestHead, ResponseHead};

const LIMITS: Limits = Limits {
    head_bytes: 4096,
    headers: 64,
};

/// xorshift; good enough to choose with, and the same on every machine.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// What message `number` of a side is, known to both.
#[derive(Default)]
struct Message {
    body: Vec<u8>,
    has_length: bool,
    trailers: Option<String>,
}

fn message(number: usize, role: Role) -> Message {
    let salt = if role == Role::Client { 1 } else { 2 };
    let mut random = Random((number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt);
    for _ in 0..4 {
        random.below(2);
    }
    let bound = [1, 100, 20_000, 200_000][random.below(4)];
    let len = random.below(bound);
    let first = random.below(256);
    let has_length = random.one_in(2);
    Message {
        body: (0..len).map(|at| (first + at) as u8).collect(),
        has_length,
        trailers: (!has_length && random.one_in(2)).then(|| format!("x-trailer: {number}\r\n")),
    }
}

fn lines(number: usize, message: &Message) -> String {
    let length = message.body.len();
    let length = match message.has_length {
        true => format!("content-length: {length}\r\n"),
        false => String::new(),
    };
    format!("x-number: {number}\r\n{length}x-same: {}\r\n", number % 3)
}

/// One exchange as one side sees it.
#[derive(Default)]
struct Exchange {
    number: usize,
    /// What this side sends.
    message: Message,
    /// Body to send that was not taken yet, if the head was sent.
    to_send: Option<(usize, bool)>,
    received: Vec<u8>,
    trailers: Option<String>,
    came_to_end: bool,
    unconsumed: usize,
}

struct Side {
    connection: Connection,
    role: Role,
    exchanges: HashMap<Key, Exchange>,
    /// Bytes on their way to this side.
    wire: Vec<u8>,
    /// Numbers of messages that came in full.
    complete: Vec<usize>,
    resets: usize,
}

impl Side {
    fn new(role: Role, dialect: Dialect) -> Self {
        let mut config = Config::new(role, dialect);
        config.limits.stream_window = 30_000;
        config.limits.streams = 5;
        config.worker = Some((2, 4));
        Self {
            connection: Connection::new(&config),
            role,
            exchanges: HashMap::new(),
            wire: Vec::new(),
            complete: Vec::new(),
            resets: 0,
        }
    }

    fn request(&mut self, number: usize) -> bool {
        // Who does not wait for the settings may be refused.
        if !self.connection.peer_settings_came() {
            return false;
        }
        let Some(key) = self.connection.open() else {
            return false;
        };
        let message = message(number, Role::Client);
        let mut head = RequestHead::default();
        let lines = lines(number, &message);
        let text = format!("POST /{number} HTTP/1.1\r\nHost: a.b\r\n{lines}X-Case: 1\r\n\r\n");
        assert_eq!(head.parse(text.as_bytes(), &LIMITS), Ok(Parsed::Complete));
        let end = message.body.is_empty() && message.trailers.is_none();
        self.connection
            .send_request(key, &head, text.as_bytes(), b"x-extra: 1\r\n", end);
        self.exchanges.insert(
            key,
            Exchange {
                number,
                message,
                to_send: Some((0, end)),
                ..Exchange::default()
            },
        );
        true
    }

    fn respond(&mut self, key: Key, random: &mut Random) {
        let exchange = self.exchanges.get_mut(&key).unwrap();
        let message = message(exchange.number, Role::Server);
        if random.one_in(4) {
            self.connection.send_status(key, 103, b"link: a\r\n", false);
        }
        let end = message.body.is_empty() && message.trailers.is_none();
        let lines = lines(exchange.number, &message);
        self.connection.send_status(key, 200, lines.as_bytes(), end);
        exchange.to_send = Some((0, end));
        exchange.message = message;
    }

    /// Sends some of a body.
    fn pump(&mut self, key: Key, random: &mut Random) {
        let exchange = self.exchanges.get_mut(&key).unwrap();
        let Some((at, false)) = exchange.to_send else {
            return;
        };
        let message = &exchange.message;
        let part = random.below(40_000).min(message.body.len() - at);
        let is_last = at + part == message.body.len();
        let end = is_last && message.trailers.is_none();
        let sendable = self.connection.sendable(key);
        let taken = self
            .connection
            .send_data(key, &message.body[at..at + part], end);
        assert_eq!(taken, part.min(sendable));
        let mut is_done = end && taken == part;
        if let (Some(trailers), true) = (&message.trailers, at + taken == message.body.len()) {
            self.connection.send_trailers(key, trailers.as_bytes());
            is_done = true;
        }
        exchange.to_send = Some((at + taken, is_done));
    }

    fn consume(&mut self, key: Key) {
        let exchange = self.exchanges.get_mut(&key).unwrap();
        let count = std::mem::take(&mut exchange.unconsumed);
        self.connection.consumed(key, count);
        self.connection.consumed_connection(count);
    }

    fn forget(&mut self, key: Key) {
        self.consume(key);
        self.exchanges.remove(&key);
        self.connection.release(key);
    }

    /// Takes a part of what is on the wire.
    fn receive(&mut self, count: usize) {
        let count = count.min(self.wire.len());
        let bytes: Vec<u8> = self.wire[..count].to_vec();
        let mut at = 0;
        loop {
            let received = self.connection.receive(&bytes[at..]).unwrap();
            if received.consumed == 0 {
                break;
            }
            at += received.consumed;
            let event = received.event;
            self.take(event);
        }
        self.wire.drain(..at);
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Request { stream, end } => {
                let exchange = self.take_request(end);
                assert!(self.exchanges.insert(stream, exchange).is_none());
                self.check_end(stream);
            }
            Event::Response { stream, end } => self.take_response(stream, end),
            Event::Interim { stream } => {
                let (mut text, mut head) = (Vec::new(), ResponseHead::default());
                self.connection.take_response(&mut text, &mut head);
                assert_eq!(head.status, 103);
                assert!(self.exchanges[&stream].to_send.is_some());
            }
            Event::Data { stream, bytes, end } => {
                let exchange = self.exchanges.get_mut(&stream).unwrap();
                assert!(!exchange.came_to_end);
                exchange.received.extend_from_slice(bytes);
                exchange.unconsumed += bytes.len();
                exchange.came_to_end = end;
                self.check_end(stream);
            }
            Event::Trailers { stream } => {
                let mut text = Vec::new();
                self.connection.take_trailers(&mut text);
                let exchange = self.exchanges.get_mut(&stream).unwrap();
                exchange.trailers = Some(String::from_utf8(text).unwrap());
                exchange.came_to_end = true;
                self.check_end(stream);
            }
            Event::Reset { stream, .. } => {
                self.resets += 1;
                self.forget(stream);
            }
            Event::Nothing | Event::Window { .. } | Event::Settings => {}
            other => panic!("{other:?}"),
        }
    }

    fn take_request(&mut self, end: bool) -> Exchange {
        let (mut text, mut head) = (Vec::new(), RequestHead::default());
        self.connection.take_request(&mut text, &mut head);
        let mut again = RequestHead::default();
        assert_eq!(again.parse(&text, &LIMITS), Ok(Parsed::Complete));
        assert_eq!((&again.lines, again.host), (&head.lines, head.host));
        assert_eq!((again.target, again.path), (head.target, head.path));
        assert_eq!((again.len, again.method), (head.len, head.method));
        let number = head.find(&text, "x-number").unwrap().value.of(&text);
        let number = str::from_utf8(number).unwrap().parse().unwrap();
        let message = message(number, Role::Client);
        let expected = match (end, message.has_length) {
            (true, _) => Framing::None,
            (false, true) => Framing::Length(message.body.len() as u64),
            (false, false) => Framing::Chunked,
        };
        assert_eq!(head.framing, expected);
        assert_eq!(head.host.unwrap().of(&text), b"a.b");
        assert!(head.find(&text, "x-extra").is_some());
        let keeps_case = head.origin == Origin::Http1;
        let case = head.find(&text, "x-case").unwrap().name.of(&text);
        assert_eq!(case, if keeps_case { b"X-Case" } else { b"x-case" });
        Exchange {
            number,
            came_to_end: end,
            ..Exchange::default()
        }
    }

    fn take_response(&mut self, stream: Key, end: bool) {
        let (mut text, mut head) = (Vec::new(), ResponseHead::default());
        self.connection.take_response(&mut text, &mut head);
        let exchange = self.exchanges.get_mut(&stream).unwrap();
        let number = head.find(&text, "x-number").unwrap().value.of(&text);
        assert_eq!(number, exchange.number.to_string().as_bytes());
        assert_eq!((head.status, head.reason.of(&text)), (200, &b"OK"[..]));
        exchange.came_to_end = end;
        self.check_end(stream);
    }

    /// A message that came in full is the one that was sent.
    fn check_end(&mut self, stream: Key) {
        let exchange = &self.exchanges[&stream];
        if !exchange.came_to_end {
            return;
        }
        let from = match self.role {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        };
        let message = message(exchange.number, from);
        assert!(exchange.received == message.body, "{}", exchange.number);
        assert_eq!(exchange.trailers, message.trailers);
        self.complete.push(exchange.number);
    }

    /// A random exchange.
    fn any(&self, random: &mut Random) -> Option<Key> {
        let mut keys: Vec<Key> = self.exchanges.keys().copied().collect();
        keys.sort_by_key(Key::index);
        (!keys.is_empty()).then(|| keys[random.below(keys.len())])
    }

    /// Forgets the exchanges that are over, as a proxy does at once.
    fn tidy(&mut self) {
        let is_over =
            |(_, e): &(&Key, &Exchange)| e.came_to_end && matches!(e.to_send, Some((_, true)));
        let over = self.exchanges.iter().filter(is_over);
        let over: Vec<Key> = over.map(|(key, _)| *key).collect();
        over.into_iter().for_each(|key| self.forget(key));
    }

    /// Does something with one exchange.
    fn act(&mut self, random: &mut Random, resets: bool) {
        let Some(key) = self.any(random) else {
            return;
        };
        let exchange = &self.exchanges[&key];
        let unanswered = self.role == Role::Server && exchange.to_send.is_none();
        match random.below(8) {
            0..4 => self.pump(key, random),
            4..6 => self.consume(key),
            6 if unanswered => self.respond(key, random),
            7 if resets && random.one_in(300) => {
                self.connection.reset(key, Code::Cancel);
                self.forget(key);
            }
            _ => {}
        }
    }
}

fn carry(from: &mut Side, to: &mut Side, random: &mut Random) {
    let output = from.connection.output();
    let count = random.below(1 + output.len()).min(random.below(30_000));
    to.wire.extend(output.drain(..count));
    let count = match random.one_in(3) {
        true => random.below(40),
        false => random.below(60_000),
    };
    to.receive(count);
}

/// Runs `requests` of them to their ends; how many were answered in full.
fn run(seed: u64, dialect: Dialect, requests: usize, resets: bool) -> usize {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
    let mut client = Side::new(Role::Client, dialect);
    let mut server = Side::new(Role::Server, dialect);
    let (mut next, mut idle) = (0, 0);
    while next < requests || !client.exchanges.is_empty() || !server.exchanges.is_empty() {
        if next < requests && random.one_in(6) {
            next += usize::from(client.request(next));
        }
        client.act(&mut random, resets);
        server.act(&mut random, resets);
        client.tidy();
        server.tidy();
        carry(&mut client, &mut server, &mut random);
        carry(&mut server, &mut client, &mut random);
        idle += 1;
        assert!(idle < 400 * 1000, "nothing moves");
    }
    for side in [&mut client, &mut server] {
        side.wire.clear();
        assert_eq!((side.connection.streams(), side.exchanges.len()), (0, 0));
    }
    if dialect == Dialect::Hop {
        assert_eq!(client.connection.peer_worker(), Some((2, 4)));
    }
    assert!(!client.connection.is_going_away() && client.connection.peer_connect_protocol());
    if !resets {
        assert_eq!((client.resets, server.resets), (0, 0));
        assert_eq!(
            (client.complete.len(), server.complete.len()),
            (requests, requests)
        );
    }
    client.complete.len()
}

#[test]
fn what_was_sent_arrives_once_and_in_order() {
    for dialect in [Dialect::Public, Dialect::Hop] {
        for seed in 0..6 {
            assert_eq!(run(seed, dialect, 40, false), 40, "{dialect:?} {seed}");
        }
    }
}

#[test]
fn resets_of_some_streams_leave_the_others_whole() {
    let answered: usize = (0..6)
        .map(|seed| run(seed, Dialect::Public, 40, true) + run(seed, Dialect::Hop, 40, true))
        .sum();
    assert!((1..480).contains(&answered), "{answered}");
}
