//! The pump between sockets of this machine whose far ends have random habits: what is sent arrives
//! once, whole and in order, whatever the framing on either side; who breaks off is blamed; nothing
//! is read beyond the body; nothing hangs.

mod frames;

use super::*;
use crate::worker::simulation::{Dice, run};
use rt::Tcp;
use std::cell::{Cell, RefCell};
use std::net::{TcpListener, TcpStream};
use wire::http1::Framing;

const SEEDS: u64 = 300;
/// A run takes some hundred turns; the largest body with the slowest reader some ten thousand.
const TURNS_MAX: u32 = 400_000;
const PATIENT: Patience = Patience {
    idle: Duration::ZERO,
    until_ms: u64::MAX,
};
/// What the sender says after the body, which is none of the pump's business.
const NEXT: &[u8] = b"GET /next HTTP/1.1\r\n\r\n";
const TRAILERS: &[u8] = b"x-sum: 1\r\nx-end: yes\r\n";

/// What becomes of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Whole,
    /// The sender ends after so many bytes.
    Cut(usize),
    /// So many good bytes, then a chunk without a size.
    Malformed,
    /// The reader goes away after so many bytes.
    Left(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Into {
    Verbatim,
    Payload,
    Chunks,
    Tunnel,
}

struct Case {
    framing: Framing,
    into: Into,
    side: Side,
    fate: Fate,
    payload: Vec<u8>,
    trailers: &'static [u8],
    /// The body as the sender frames it.
    sent: Vec<u8>,
}

impl Case {
    fn roll(dice: &Dice) -> Self {
        let size = dice.pick(&[0, 1, 3000, 40_000, 400_000]);
        let payload: Vec<u8> = (0..dice.below(size + 1)).map(|at| (at * 7) as u8).collect();
        let len = payload.len() as u64;
        let framing = dice.pick(&[Framing::Length(len), Framing::Chunked, Framing::UntilClose]);
        let trailers = dice.pick(&[b"", TRAILERS]);
        let sent = match framing {
            Framing::Chunked => chunked(&payload, trailers, dice),
            _ => payload.clone(),
        };
        let cut = dice.below(sent.len().max(1));
        let fates = [
            Fate::Whole,
            Fate::Whole,
            Fate::Cut(cut),
            Fate::Malformed,
            Fate::Left(cut),
        ];
        let fate = match (dice.pick(&fates), framing) {
            (Fate::Malformed, Framing::Length(_) | Framing::UntilClose) => Fate::Whole,
            // An empty body has no end that could be missing.
            (Fate::Cut(_), _) if sent.is_empty() => Fate::Whole,
            (fate, _) => fate,
        };
        let mut case = Self {
            framing,
            into: dice.pick(&[Into::Verbatim, Into::Payload, Into::Chunks, Into::Tunnel]),
            side: dice.pick(&[Side::Request, Side::Answer]),
            fate,
            payload,
            trailers: if framing == Framing::Chunked {
                trailers
            } else {
                b""
            },
            sent,
        };
        case.spoil(cut);
        case
    }

    fn spoil(&mut self, cut: usize) {
        match self.fate {
            Fate::Cut(_) => self.sent.truncate(cut),
            Fate::Malformed => self.sent = [b"5\r\nhello\r\nno size\r\n", &self.sent[..]].concat(),
            _ if self.framing != Framing::UntilClose => self.sent.extend_from_slice(NEXT),
            _ => {}
        }
    }

    /// Whether the sender's end is the end of what it sends.
    fn sender_ends(&self) -> bool {
        self.framing == Framing::UntilClose || matches!(self.fate, Fate::Cut(_))
    }

    fn expected(&self, flag: Flag) -> bool {
        let request = self.side == Side::Request;
        let blame =
            |request_flag, answer_flag| flag == if request { request_flag } else { answer_flag };
        match self.fate {
            Fate::Whole => flag == Flag::None,
            Fate::Cut(_) if self.framing == Framing::UntilClose => flag == Flag::None,
            Fate::Cut(_) => blame(Flag::DownstreamClosed, Flag::UpstreamClosed),
            Fate::Malformed => blame(Flag::DownstreamProtocol, Flag::UpstreamProtocol),
            // The kernel may have taken all of it before.
            Fate::Left(_) => {
                flag == Flag::None || blame(Flag::UpstreamClosed, Flag::DownstreamClosed)
            }
        }
    }

    /// What the reader must have if all went well.
    fn whole(&self, dice: &Dice) -> Vec<u8> {
        match (self.into, self.framing) {
            (Into::Verbatim, Framing::Chunked) => {
                let end = self.sent.len() - NEXT.len();
                self.sent[..end].to_vec()
            }
            (Into::Chunks, _) => chunked(&self.payload, self.trailers, dice),
            _ => self.payload.clone(),
        }
    }
}

/// The payload in chunks of random sizes.
fn chunked(payload: &[u8], trailers: &[u8], dice: &Dice) -> Vec<u8> {
    let mut body = Vec::new();
    let mut rest = payload;
    while !rest.is_empty() {
        let size = (1 + dice.below(dice.pick(&[4, 900, 30_000]))).min(rest.len());
        let (chunk, more) = rest.split_at(size);
        body.extend_from_slice(format!("{size:x}\r\n").as_bytes());
        body.extend_from_slice(chunk);
        body.extend_from_slice(b"\r\n");
        rest = more;
    }
    [&body[..], b"0\r\n", trailers, b"\r\n"].concat()
}

/// Payload and trailers of what came in chunks; none if it does not end.
fn unchunked(bytes: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut body, mut payload, mut at) = (Body::new(Framing::Chunked), Vec::new(), 0);
    let mut trailers = Vec::new();
    while !body.is_done() && at < bytes.len() {
        let in_trailers = body.is_in_trailers();
        let decoded = body.decode(&bytes[at..]).unwrap();
        let part = &bytes[at..];
        if in_trailers {
            trailers.extend_from_slice(&part[..decoded.consumed]);
        }
        payload.extend_from_slice(&part[decoded.payload]);
        at += decoded.consumed;
    }
    assert!(
        !body.is_done() || at == bytes.len(),
        "more than a body came"
    );
    trailers.truncate(trailers.len().saturating_sub(2));
    body.is_done().then_some((payload, trailers))
}

/// Two ends of one connection.
fn pair(reactor: &Rc<Reactor>) -> (Tcp, Tcp) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    let adopt = |socket: TcpStream| {
        socket.set_nonblocking(true).unwrap();
        Tcp::adopt(reactor, socket.into()).unwrap()
    };
    (adopt(near), adopt(far))
}

/// Writes all of `bytes` in pieces, as far as anybody listens.
async fn send(tcp: &Tcp, bytes: &[u8], dice: &Dice) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let size = (1 + dice.below(dice.pick(&[2, 700, 60_000]))).min(rest.len());
        match poll_fn(|_| tcp.poll_write(&rest[..size])).await {
            Ok(count) => rest = &rest[count..],
            Err(_) => return,
        }
        dice.pause(tcp.reactor()).await;
    }
}

/// Reads until the end, or until `most` bytes are there.
async fn receive(tcp: &Tcp, most: usize, dice: &Dice) -> Vec<u8> {
    let (mut bytes, mut buf) = (Vec::new(), vec![0; 70_000]);
    let size = dice.pick(&[900, 20_000, 70_000]);
    while bytes.len() < most {
        let wanted = size.min(most - bytes.len());
        match poll_fn(|_| tcp.poll_read(&mut buf[..wanted])).await {
            Ok(0) | Err(_) => break,
            Ok(count) => bytes.extend_from_slice(&buf[..count]),
        }
        dice.pause(tcp.reactor()).await;
    }
    bytes
}

/// What came of a run.
#[derive(Default)]
struct Outcome {
    flag: Cell<Option<Flag>>,
    received: RefCell<Option<Vec<u8>>>,
    /// What the pump left unread.
    rest: RefCell<Vec<u8>>,
}

async fn pump_case(case: &Case, from: Tcp, into: Tcp, outcome: &Outcome) {
    let pool = Rc::default();
    let (from, into) = (Stream::plain(from, &pool), Stream::plain(into, &pool));
    let (mut inbox, mut body) = (Inbox::new(&pool), Body::new(case.framing));
    let flow = Flow {
        from: Source::Http1 {
            stream: &from,
            inbox: &mut inbox,
            body: &mut body,
        },
        into: match case.into {
            Into::Verbatim => Sink::Verbatim(&into),
            Into::Payload => Sink::Payload(&into),
            Into::Chunks => Sink::Chunks(&into),
            Into::Tunnel => Sink::Tunnel(&into),
        },
        side: case.side,
        patience: PATIENT,
        trailers: Vec::new(),
        length: None,
    };
    // A message without a body has no pump.
    let result = match case.framing {
        Framing::Length(0) => Ok(()),
        _ => pump(flow).await,
    };
    let flag = result.map_or_else(|error| error.flag, |()| Flag::None);
    outcome.flag.set(Some(flag));
    if flag == Flag::None && case.fate == Fate::Whole && case.framing != Framing::UntilClose {
        while inbox.bytes().len() < NEXT.len() && from.fill(&mut inbox).await.unwrap() > 0 {}
        *outcome.rest.borrow_mut() = inbox.bytes().to_vec();
    }
    into.finish();
}

fn check(seed: u64) {
    let dice = Dice::new(seed);
    let case = Rc::new(Case::roll(&dice));
    let reactor = Reactor::new().unwrap();
    let ((sender, from), (into, reader)) = (pair(&reactor), pair(&reactor));
    let outcome = Rc::new(Outcome::default());
    let (sent, seen, habits) = (Rc::clone(&case), Rc::clone(&outcome), Rc::clone(&dice));
    reactor.spawn(async move {
        send(&sender, &sent.sent, &habits).await;
        if sent.sender_ends() {
            sender.shutdown_write().unwrap_or_default();
        }
        // A close before all was read would be a reset.
        while seen.flag.get().is_none() {
            sender.reactor().yield_now().await;
        }
    });
    let (read, habits) = (Rc::clone(&outcome), Rc::clone(&dice));
    let most = match case.fate {
        Fate::Left(most) => most,
        _ => usize::MAX,
    };
    reactor.spawn(async move {
        let bytes = receive(&reader, most, &habits).await;
        *read.received.borrow_mut() = Some(bytes);
    });
    let (pumped, ended) = (Rc::clone(&case), Rc::clone(&outcome));
    let turning = Rc::clone(&reactor);
    let main = async move {
        pump_case(&pumped, from, into, &ended).await;
        while ended.received.borrow().is_none() {
            turning.yield_now().await;
        }
    };
    let case_name = format!(
        "seed {seed}: {:?} {:?} into {:?}, {} bytes",
        case.fate,
        case.framing,
        case.into,
        case.payload.len()
    );
    assert!(run(&reactor, TURNS_MAX, main), "{case_name}: hangs");
    judge(&case, &outcome, &dice, &case_name);
}

fn judge(case: &Case, outcome: &Outcome, dice: &Dice, name: &str) {
    let flag = outcome.flag.get().unwrap();
    assert!(case.expected(flag), "{name}: {flag:?}");
    let received = outcome.received.borrow();
    let received = received.as_ref().unwrap();
    if case.fate == Fate::Whole {
        // A message of no length is not pumped, so there is no chunk that says so.
        let is_empty = case.framing == Framing::Length(0);
        if case.framing != Framing::UntilClose {
            assert_eq!(
                outcome.rest.borrow().as_slice(),
                NEXT,
                "{name}: beyond the body"
            );
        }
        match case.into {
            Into::Chunks if is_empty => assert!(received.is_empty(), "{name}"),
            Into::Chunks => {
                let (payload, trailers) = unchunked(received).expect(name);
                assert!(payload == case.payload, "{name}: payload");
                assert_eq!(trailers, case.trailers, "{name}: trailers");
            }
            _ => assert!(*received == case.whole(dice), "{name}: payload"),
        }
    } else if matches!(case.into, Into::Payload | Into::Tunnel) && case.fate != Fate::Malformed {
        assert!(
            case.payload.starts_with(received),
            "{name}: not a part of what was sent"
        );
    } else if case.into == Into::Chunks && matches!(case.fate, Fate::Cut(_)) {
        let is_whole = unchunked(received).is_some();
        assert_eq!(
            is_whole,
            flag == Flag::None,
            "{name}: a part looks like the whole"
        );
    }
}

#[test]
fn a_body_arrives_once_and_whole_or_the_right_side_is_blamed() {
    for seed in 0..SEEDS {
        check(seed);
    }
}
