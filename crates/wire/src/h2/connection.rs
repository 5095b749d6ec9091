//! One connection: what both sides know of each other, and what the proxy may ask and order.
//! Called by the proxy for each read and each write. Never waits: what cannot be done now is not
//! done, and an event says when it can.

mod blocks;
mod control;
mod payload;
mod receive;
mod send;

use blocks::Block;
use payload::Incoming;

use super::abuse::Budget;
use super::code::{Code, Violation};
use super::config::{Config, Dialect, Role};
use super::encode::Encode;
use super::event::Key;
use super::frame::settings::{self, id};
use super::frame::{goaway, window_update};
use super::head::Draft;
use super::hpack::{Decoder, TABLE_BYTES_DEFAULT};
use super::streams::Streams;
use super::window::{INITIAL, Inbound, Outbound};
use crate::http1::{RequestHead, ResponseHead};

/// What a client sends first (RFC 9113, section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Ids have 31 bits; the last one also means "none is refused yet" in a GOAWAY.
const ID_MAX: u32 = (1 << 31) - 1;

/// Streams that a client opens before the server has said how many it takes: what section 6.5.2
/// recommends as the least.
const STREAMS_ASSUMED: u32 = 100;

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A server waits for the preface.
    Preface,
    /// The first frame must be SETTINGS (section 3.4).
    FirstSettings,
    /// Any frame may come.
    Ready,
    /// The peer broke it; nothing is read any more.
    Broken(Violation),
}

/// What the peer has said of itself.
#[derive(Clone, Copy, Debug)]
struct Peer {
    initial_window: u32,
    streams_max: u32,
    connect_protocol: bool,
    /// Its SETTINGS_MAX_HEADER_LIST_SIZE.
    head_bytes: usize,
    workers: u32,
    worker_plus_one: u32,
    settings_came: bool,
    /// It has taken our settings.
    took_settings: bool,
    /// The last id of its GOAWAY.
    leaving: Option<u32>,
}

/// A connection of HTTP/2.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    stage: Stage,
    output: Vec<u8>,
    /// Bytes of answers to the peer since the output was last seen empty.
    reply_bytes: usize,
    streams: Streams,
    peer: Peer,
    /// Invariant: what of DATA has come and was not given back is charged here.
    inbound: Inbound,
    outbound: Outbound,
    decoder: Decoder,
    encode: Encode,
    draft: Draft,
    request: RequestHead,
    response: ResponseHead,
    /// The header block that is not complete.
    block: Block,
    /// The DATA frame that is not complete.
    incoming: Incoming,
    /// The highest id of the peer's streams.
    last_remote: u32,
    /// The id of the next stream of ours.
    next_local: u32,
    /// What our last GOAWAY named.
    leaving: Option<u32>,
    resets: Budget,
    idle_frames: Budget,
}

impl Connection {
    /// A new connection. A client's preface, the settings and the connection's window are in the
    /// output.
    pub fn new(config: &Config) -> Self {
        let window = config.limits.connection_window.clamp(INITIAL, ID_MAX);
        let mut connection = Self {
            config: *config,
            stage: match config.role {
                Role::Client => Stage::FirstSettings,
                Role::Server => Stage::Preface,
            },
            output: Vec::new(),
            reply_bytes: 0,
            streams: Streams::new(),
            peer: Peer {
                initial_window: INITIAL,
                streams_max: STREAMS_ASSUMED,
                connect_protocol: false,
                head_bytes: usize::MAX,
                workers: 0,
                worker_plus_one: 0,
                settings_came: false,
                took_settings: false,
                leaving: None,
            },
            inbound: Inbound::new(window, window),
            outbound: Outbound::new(INITIAL),
            decoder: Decoder::new(TABLE_BYTES_DEFAULT),
            encode: Encode::new(config.dialect),
            draft: Draft::new(config.dialect, &config.limits),
            request: RequestHead::default(),
            response: ResponseHead::default(),
            block: Block::default(),
            incoming: Incoming::default(),
            last_remote: 0,
            next_local: 1,
            leaving: None,
            resets: Budget::resets(config.dialect),
            idle_frames: Budget::idle_frames(),
        };
        connection.config.limits.stream_window = config.limits.stream_window.min(ID_MAX);
        connection.greet(window);
        connection
    }

    fn greet(&mut self, window: u32) {
        let limits = self.config.limits;
        let both = [
            (id::INITIAL_WINDOW_SIZE, limits.stream_window),
            (
                id::MAX_HEADER_LIST_SIZE,
                u32::try_from(limits.head_bytes).unwrap_or(u32::MAX),
            ),
        ];
        let mut all = both.to_vec();
        match self.config.role {
            Role::Client => {
                self.output.extend_from_slice(PREFACE);
                all.push((id::ENABLE_PUSH, 0));
            }
            Role::Server => {
                all.push((id::MAX_CONCURRENT_STREAMS, limits.streams));
                all.push((id::ENABLE_CONNECT_PROTOCOL, 1));
                let worker = self.config.worker;
                if let Some((own, of)) = worker.filter(|_| self.config.dialect == Dialect::Hop) {
                    all.push((id::WORKERS, of.into()));
                    all.push((id::WORKER, u32::from(own) + 1));
                }
            }
        }
        settings::write(&all, &mut self.output);
        if window > INITIAL {
            window_update::write(0, window - INITIAL, &mut self.output);
        }
    }

    /// Frames to send. The caller takes them off, all or from the front.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Bytes of frames to send.
    pub fn output_len(&self) -> usize {
        self.output.len()
    }

    /// Streams that are not closed, those from `open` included.
    pub fn streams(&self) -> usize {
        self.streams.live()
    }

    /// Whether no new stream is taken: a GOAWAY came or was sent, or the connection is broken.
    pub fn is_going_away(&self) -> bool {
        let is_broken = matches!(self.stage, Stage::Broken(_));
        self.peer.leaving.is_some() || self.leaving.is_some() || is_broken
    }

    /// Whether a head, data or trailers can be sent on the stream; of one from `open`, whether
    /// its request can.
    pub fn is_open_for_sending(&self, stream: Key) -> bool {
        let state = self.streams.of(stream).state;
        state.may_send() || (state == super::stream::State::Idle && !self.is_going_away())
    }

    /// Whether nothing can be sent or come on the stream any more.
    pub fn is_closed(&self, stream: Key) -> bool {
        self.streams.of(stream).state.is_closed()
    }

    /// Which worker of the peer serves this connection, and how many it has; on the hop.
    pub fn peer_worker(&self) -> Option<(u16, u16)> {
        let workers = u16::try_from(self.peer.workers).ok()?;
        let own = u16::try_from(self.peer.worker_plus_one.checked_sub(1)?).ok()?;
        (own < workers).then_some((own, workers))
    }

    /// Whether the server takes CONNECT with a protocol (RFC 8441).
    pub fn peer_connect_protocol(&self) -> bool {
        self.peer.connect_protocol
    }

    /// The largest head that the peer takes: name, value and 32 bytes of each field.
    pub fn peer_head_bytes(&self) -> usize {
        self.peer.head_bytes
    }

    /// Whether the peer's first settings came.
    pub fn peer_settings_came(&self) -> bool {
        self.peer.settings_came
    }

    /// The peer broke the connection: says so to it, once, and remembers it.
    #[cold]
    fn fail(&mut self, violation: Violation) -> Violation {
        if let Stage::Broken(first) = self.stage {
            return first;
        }
        self.stage = Stage::Broken(violation);
        goaway::write(self.last_remote, violation.code, &mut self.output);
        violation
    }

    /// Goes: first with NO_ERROR so that the peer opens no more streams, while those under way are
    /// still taken; the second time, or at once with another code, none beyond the last one that
    /// came is.
    pub fn go_away(&mut self, code: Code) {
        if matches!(self.stage, Stage::Broken(_)) {
            return;
        }
        let last = match (code, self.leaving) {
            (Code::NoError, None) if self.config.role == Role::Server => ID_MAX,
            _ => self.last_remote.min(self.leaving.unwrap_or(ID_MAX)),
        };
        self.leaving = Some(last);
        goaway::write(last, code, &mut self.output);
    }
}
