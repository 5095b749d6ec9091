//! The same over HTTP/2: bodies go into frames to a peer that sends them back, and from frames to a
//! reader, several streams at a time through windows of all sizes.

use super::*;
use crate::exchange::Exchange;
use crate::http2::{Came, Handle, Mux};
use crate::telemetry::metrics::Registry;
use crate::worker::Worker;
use crate::worker::simulation::{end, snapshot, worker};
use std::collections::VecDeque;
use wire::h2::{Code, Config, Connection, Dialect, Event, Key, Limits, Role};
use wire::http1::{Parsed, RequestHead};

const SEEDS: u64 = 150;
const STREAMS_MAX: usize = 4;
const CONFIG: &str = "\
workload: {name: simulation}
admin: 'off'
metrics: 'off'
listeners:
- {name: main, direction: outbound, address: '127.0.0.1:0', routes: [{cluster: next}]}
clusters:
- {name: next, endpoints: []}
";
const HEAD: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";

/// What the peer does with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Echo,
    /// Gives the stream up after so many bytes.
    Reset(usize),
}

/// A stream as the peer sees it.
struct Echo {
    queue: VecDeque<u8>,
    trailers: Vec<u8>,
    ended: bool,
    answered: usize,
    /// Received, and the window not opened again for it.
    owed: usize,
    reply: Reply,
}

/// The far end of the connection, which sends back what it gets.
struct Peer {
    tcp: Tcp,
    wire: Connection,
    dice: Rc<Dice>,
    streams: Vec<(Key, Echo)>,
    replies: VecDeque<Reply>,
}

impl Peer {
    /// Until the connection ends.
    async fn run(mut self) {
        let mut input = Vec::new();
        let mut buf = vec![0; 40_000];
        loop {
            if !self.write().await {
                return;
            }
            let size = self.dice.pick(&[3, 500, 40_000]);
            // Not waiting for input while there is something to send back.
            let is_busy = self.streams.iter().any(|(_, echo)| echo.is_busy());
            let read = poll_fn(|_| match self.tcp.poll_read(&mut buf[..size]) {
                Poll::Pending if is_busy => Poll::Ready(None),
                polled => polled.map(Some),
            });
            match read.await {
                None => self.tcp.reactor().yield_now().await,
                Some(Ok(0) | Err(_)) => return,
                Some(Ok(count)) => input.extend_from_slice(&buf[..count]),
            }
            self.take_in(&mut input);
            self.reply();
            self.dice.pause(self.tcp.reactor()).await;
        }
    }

    async fn write(&mut self) -> bool {
        let output = std::mem::take(self.wire.output());
        let mut rest = &output[..];
        while !rest.is_empty() {
            match poll_fn(|_| self.tcp.poll_write(rest)).await {
                Ok(count) => rest = &rest[count..],
                Err(_) => return false,
            }
        }
        true
    }

    fn take_in(&mut self, input: &mut Vec<u8>) {
        let mut at = 0;
        loop {
            let received = self
                .wire
                .receive(&input[at..])
                .expect("our own frames are good");
            if received.consumed == 0 {
                break;
            }
            at += received.consumed;
            match received.event {
                Event::Request { stream, end } => {
                    self.wire
                        .take_request(&mut Vec::new(), &mut RequestHead::default());
                    self.wire.send_status(stream, 200, b"", false);
                    let reply = self.replies.pop_front().expect("as many as streams");
                    self.streams.push((stream, Echo::new(reply, end)));
                }
                Event::Data { stream, bytes, end } => {
                    if let Some(echo) = find(&mut self.streams, stream) {
                        echo.queue.extend(bytes);
                        echo.owed += bytes.len();
                        echo.ended |= end;
                    }
                    self.wire.consumed_connection(bytes.len());
                }
                Event::Trailers { stream } => {
                    let mut lines = Vec::new();
                    self.wire.take_trailers(&mut lines);
                    if let Some(echo) = find(&mut self.streams, stream) {
                        (echo.trailers, echo.ended) = (lines, true);
                    }
                }
                Event::Reset { stream, .. } => self.release(stream),
                _ => {}
            }
        }
        input.drain(..at);
    }

    fn reply(&mut self) {
        for place in 0..self.streams.len() {
            let (key, echo) = &mut self.streams[place];
            let count = echo.queue.len().min(self.wire.sendable(*key));
            let count = count.min(1 + self.dice.below(30_000));
            let bytes: Vec<u8> = echo.queue.drain(..count).collect();
            let is_last = echo.ended && echo.queue.is_empty();
            let end = is_last && echo.trailers.is_empty();
            if !bytes.is_empty() || end {
                assert_eq!(self.wire.send_data(*key, &bytes, end), bytes.len());
            }
            if is_last && !end {
                self.wire.send_trailers(*key, &echo.trailers);
            }
            echo.answered += bytes.len();
            // All of the request is taken whether or not its echo can be sent.
            let taken = echo.owed.min(1 + self.dice.below(30_000));
            echo.owed -= taken;
            if !echo.ended {
                self.wire.consumed(*key, taken);
            }
            if let Reply::Reset(after) = echo.reply
                && echo.answered >= after
                && !is_last
            {
                self.wire.reset(*key, Code::InternalError);
                echo.ended = true;
                echo.queue.clear();
            }
        }
        let is_done = |echo: &Echo| echo.ended && echo.queue.is_empty();
        let done = self.streams.iter().filter(|(_, echo)| is_done(echo));
        let done: Vec<_> = done.map(|(key, _)| *key).collect();
        done.into_iter().for_each(|key| self.release(key));
    }

    fn release(&mut self, key: Key) {
        self.streams.retain(|(other, _)| *other != key);
        self.wire.release(key);
    }
}

impl Echo {
    fn new(reply: Reply, ended: bool) -> Self {
        Self {
            queue: VecDeque::new(),
            trailers: Vec::new(),
            ended,
            answered: 0,
            owed: 0,
            reply,
        }
    }

    fn is_busy(&self) -> bool {
        self.ended || self.owed > 0 || !self.queue.is_empty()
    }
}

fn find(streams: &mut [(Key, Echo)], key: Key) -> Option<&mut Echo> {
    let found = streams.iter_mut().find(|(other, _)| *other == key);
    found.map(|(_, echo)| echo)
}

/// What one stream carries, and what came of it.
struct Round {
    case: Case,
    reply: Reply,
    outcome: Outcome,
}

/// There and back: from a socket into frames, from frames into another socket.
async fn carry(mux: &Rc<Mux>, round: &Round, from: Tcp, into: Tcp) -> Result<()> {
    let case = &round.case;
    let pool = Rc::default();
    let (from, into) = (Stream::plain(from, &pool), Stream::plain(into, &pool));
    let (mut inbox, mut body) = (Inbox::new(&pool), Body::new(case.framing));
    let mut exchange = Exchange::default();
    let limits = wire::http1::Limits {
        head_bytes: 1000,
        headers: 10,
    };
    assert_eq!(exchange.request.parse(HEAD, &limits), Ok(Parsed::Complete));
    let stream = Handle::open(mux).expect("few streams");
    stream.send_request(&exchange, HEAD, false)?;
    let flow = Flow {
        from: Source::Http1 {
            stream: &from,
            inbox: &mut inbox,
            body: &mut body,
        },
        into: Sink::Http2(&stream),
        side: Side::Request,
        patience: PATIENT,
        trailers: Vec::new(),
        length: None,
    };
    pump(flow).await?;
    let mut text = Vec::new();
    let answered = |error| Error::upstream(Flag::UpstreamClosed, error);
    let came = poll_fn(|_| stream.poll_head(&mut exchange, &mut text))
        .await
        .map_err(answered)?;
    assert_eq!((came, exchange.response.status), (Came::Final, 200));
    let mut payload = 0;
    let flow = Flow {
        from: Source::Http2 {
            stream: &stream,
            payload: &mut payload,
        },
        into: match case.into {
            Into::Verbatim | Into::Payload => Sink::Payload(&into),
            Into::Chunks => Sink::Chunks(&into),
            Into::Tunnel => Sink::Tunnel(&into),
        },
        side: Side::Answer,
        patience: PATIENT,
        trailers: Vec::new(),
        length: None,
    };
    let result = pump(flow).await;
    into.finish();
    result?;
    let is_whole = payload == case.payload.len() as u64;
    assert!(
        is_whole || case.fate != Fate::Whole,
        "{payload} bytes counted"
    );
    Ok(())
}

/// Streams of one connection, until all have come to their end and it has as well. The peer takes
/// all of a request while its answer waits, so that one pump may run after the other.
fn check(seed: u64) {
    let dice = Dice::new(seed);
    let config = snapshot(CONFIG, None);
    let worker = worker(&config, &Registry::new(&config.config.workload, 1));
    let reactor = Rc::clone(&worker.reactor);
    let rounds = (0..1 + dice.below(STREAMS_MAX)).map(|_| roll(&dice));
    let rounds: Vec<_> = rounds.map(Rc::new).collect();
    let mux = connect(&worker, &dice, &rounds);
    let (running, turning) = (rounds.clone(), Rc::clone(&reactor));
    for round in &rounds {
        start(&mux, round, &dice);
    }
    let ending = Rc::clone(&mux);
    let main = async move {
        let is_done = |round: &Rc<Round>| round.outcome.flag.get().is_some();
        let is_read = |round: &Rc<Round>| round.outcome.received.borrow().is_some();
        while !running.iter().all(|round| is_done(round) && is_read(round)) {
            turning.yield_now().await;
        }
        ending.retire();
        while ending.life() != crate::http2::Life::Ended {
            turning.yield_now().await;
        }
        end(&ending.worker).await;
    };
    let kinds: Vec<_> = rounds.iter().map(|round| round.name()).collect();
    let name = format!("seed {seed}: {}", kinds.join("; "));
    assert!(run(&reactor, TURNS_MAX, main), "{name}: hangs");
    assert_eq!(mux.streams(), 0, "{name}: streams are left");
    assert_eq!(worker.held_bytes(), 0, "{name}: bytes are held for nobody");
    for round in &rounds {
        round.judge(&name);
    }
}

fn roll(dice: &Dice) -> Round {
    let mut case = Case::roll(dice);
    // An empty body is in the head, and a reader that goes is tried with sockets.
    while case.framing == Framing::Length(0) || matches!(case.fate, Fate::Left(_)) {
        case = Case::roll(dice);
    }
    case.side = Side::Request;
    let after = dice.below(case.payload.len() + 1);
    let reply = dice.pick(&[Reply::Echo, Reply::Echo, Reply::Reset(after)]);
    Round {
        case,
        reply,
        outcome: Outcome::default(),
    }
}

fn connect(worker: &Rc<Worker>, dice: &Rc<Dice>, rounds: &[Rc<Round>]) -> Rc<Mux> {
    let (near, far) = pair(&worker.reactor);
    let mut config = Config::new(Role::Client, Dialect::Public);
    config.limits.stream_window = dice.pick(&[1000, 65_535, 1 << 20]);
    let stream = Stream::plain(near, &worker.buffers);
    let mux = Mux::new(worker, stream, &config, u64::MAX);
    let (driven, inbox) = (Rc::clone(&mux), Inbox::new(&worker.buffers));
    let driver = worker.reactor.spawn(driven.drive(inbox, None));
    mux.driven_by(driver);
    let limits = Limits {
        stream_window: dice.pick(&[100, 65_535, 1 << 20]),
        ..Limits::default()
    };
    let peer = Peer {
        tcp: far,
        wire: Connection::new(&Config {
            limits,
            ..Config::new(Role::Server, Dialect::Public)
        }),
        dice: Rc::clone(dice),
        streams: Vec::new(),
        replies: rounds.iter().map(|round| round.reply).collect(),
    };
    worker.reactor.spawn(peer.run());
    mux
}

fn start(mux: &Rc<Mux>, round: &Rc<Round>, dice: &Rc<Dice>) {
    let reactor = &mux.worker.reactor;
    let ((sender, from), (into, reader)) = (pair(reactor), pair(reactor));
    let (round_too, habits) = (Rc::clone(round), Rc::clone(dice));
    reactor.spawn(async move {
        let case = &round_too.case;
        send(&sender, &case.sent, &habits).await;
        if case.sender_ends() {
            sender.shutdown_write().unwrap_or_default();
        }
        while round_too.outcome.flag.get().is_none() {
            sender.reactor().yield_now().await;
        }
    });
    let (round_too, habits) = (Rc::clone(round), Rc::clone(dice));
    reactor.spawn(async move {
        let bytes = receive(&reader, usize::MAX, &habits).await;
        *round_too.outcome.received.borrow_mut() = Some(bytes);
    });
    let (mux, round) = (Rc::clone(mux), Rc::clone(round));
    reactor.spawn(async move {
        let result = carry(&mux, &round, from, into).await;
        let flag = result.map_or_else(|error| error.flag, |()| Flag::None);
        round.outcome.flag.set(Some(flag));
    });
}

impl Round {
    fn name(&self) -> String {
        let Case {
            fate,
            framing,
            into,
            ..
        } = &self.case;
        format!("{fate:?} {framing:?} into {into:?}, {:?}", self.reply)
    }

    fn judge(&self, name: &str) {
        let (case, flag) = (&self.case, self.outcome.flag.get().unwrap());
        let received = self.outcome.received.borrow();
        let received = received.as_ref().unwrap();
        let is_reset = matches!(self.reply, Reply::Reset(_));
        let reset = is_reset && flag == Flag::UpstreamClosed;
        assert!(reset || case.expected(flag), "{name}: {flag:?}");
        if flag != Flag::None {
            assert!(
                case.into != Into::Chunks || unchunked(received).is_none(),
                "{name}: a part looks like the whole"
            );
        } else if case.fate == Fate::Whole {
            let (payload, trailers) = match case.into {
                Into::Chunks => unchunked(received).expect(name),
                _ => (received.clone(), case.trailers.to_vec()),
            };
            assert!(payload == case.payload, "{name}: payload");
            assert_eq!(trailers, case.trailers, "{name}: trailers");
        }
    }
}

#[test]
fn bodies_arrive_once_and_whole_through_frames() {
    for seed in 0..SEEDS {
        check(seed);
    }
}
