//! Message charts: frames of a scripted peer, the events they are, and the frames that go back, all
//! as text. Shared by the tests of connections; never compiled into a program.

mod abuse;
mod exchanges;
mod leaving;
mod streams;
mod windows;

use super::frame::{self, Header, kind};
use super::hpack::{Decoder, Encoder};
use super::{Code, Config, Connection, Dialect, Event, Key, PREFACE, Role};
use crate::http1::{Limits, Parsed, RequestHead, ResponseHead};

/// A connection and the peer that is played.
pub(super) struct Chart {
    pub(super) connection: Connection,
    encoder: Encoder,
    decoder: Decoder,
}

/// The fields of a plain request.
pub(super) const GET: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "a"),
];

pub(super) const OK: &[(&str, &str)] = &[(":status", "200")];

pub(super) const HEAD_LIMITS: Limits = Limits {
    head_bytes: 4096,
    headers: 64,
};

impl Chart {
    /// A connection whose greetings are over.
    pub(super) fn new(role: Role, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(role, Dialect::Public);
        change(&mut config);
        let mut chart = Self {
            connection: Connection::new(&config),
            encoder: Encoder::new(),
            decoder: Decoder::new(4096),
        };
        if role == Role::Server {
            chart.check(PREFACE, "");
        }
        chart.check(&settings(&[]), "settings");
        chart.check(&settings_ack(), "");
        chart.connection.output().clear();
        chart
    }

    pub(super) fn server() -> Self {
        Self::new(Role::Server, |_| {})
    }

    pub(super) fn client() -> Self {
        Self::new(Role::Client, |_| {})
    }

    /// A client that has sent this many requests, each with a body to come.
    pub(super) fn asking(requests: usize) -> (Self, Vec<Key>) {
        let mut chart = Self::client();
        let keys = (0..requests).map(|_| chart.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n", false));
        let keys = keys.collect();
        chart.connection.output().clear();
        (chart, keys)
    }

    pub(super) fn ask(&mut self, text: &str, end: bool) -> Key {
        let key = self.connection.open().unwrap();
        let mut head = RequestHead::default();
        let parsed = head.parse(text.as_bytes(), &HEAD_LIMITS);
        assert_eq!(parsed, Ok(Parsed::Complete));
        self.connection
            .send_request(key, &head, text.as_bytes(), b"", end);
        key
    }

    /// HEADERS with these fields.
    pub(super) fn headers(&mut self, stream: u32, fields: &[(&str, &str)], end: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let at = frame::headers::begin(stream, end, &mut out);
        for (name, value) in fields {
            self.encoder
                .field(name.as_bytes(), value.as_bytes(), &mut out);
        }
        frame::headers::finish(at, &mut out);
        out
    }

    /// Plays `bytes` and compares the events.
    #[track_caller]
    pub(super) fn check(&mut self, bytes: &[u8], events: &str) {
        assert_eq!(self.events(bytes), events);
    }

    /// As `check`, for a request; its stream.
    #[track_caller]
    pub(super) fn request(&mut self, stream: u32, end: bool) -> Key {
        let bytes = self.headers(stream, GET, end);
        match self.connection.receive(&bytes).unwrap().event {
            Event::Request { stream, .. } => stream,
            other => panic!("{other:?}"),
        }
    }

    /// Compares the frames that went out.
    #[track_caller]
    pub(super) fn sent(&mut self, expected: &str) {
        let bytes = std::mem::take(self.connection.output());
        let (mut rest, mut frames) = (&bytes[..], Vec::new());
        while let Some(header) = Header::parse(rest) {
            let payload = &rest[9..9 + header.len];
            frames.push(self.render(&header, payload));
            rest = &rest[9 + header.len..];
        }
        assert_eq!(frames.join("; "), expected);
    }

    fn render(&mut self, header: &Header, payload: &[u8]) -> String {
        let (stream, flags) = (header.stream, header.flags);
        let last = payload.last_chunk().map_or(0, |b| u32::from_be_bytes(*b));
        let end = if flags & 1 == 0 { "" } else { " end" };
        match header.kind {
            kind::DATA => format!("DATA {stream} {}{end}", payload.len()),
            kind::HEADERS => format!("HEADERS {stream} {}{end}", self.fields(payload)),
            kind::RST_STREAM => format!("RST_STREAM {stream} {:?}", Code::from(last)),
            kind::SETTINGS if flags == 1 => "SETTINGS ack".to_owned(),
            kind::PING if flags == 1 => "PING ack".to_owned(),
            kind::PING => "PING".to_owned(),
            kind::GOAWAY => {
                let stream = u32::from_be_bytes(*payload.first_chunk().unwrap());
                format!("GOAWAY {stream} {:?}", Code::from(last))
            }
            kind::WINDOW_UPDATE => format!("WINDOW_UPDATE {stream} {last}"),
            other => panic!("frame of kind {other}"),
        }
    }

    /// Fields as `name=value`, with commas between them.
    fn fields(&mut self, block: &[u8]) -> String {
        let mut fields = Vec::new();
        let mut visit = |field: super::hpack::Field<'_>| {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            fields.push(format!("{}={}", text(field.name), text(field.value)));
            0
        };
        self.decoder.decode(block, &mut visit).unwrap();
        fields.join(",")
    }

    /// Plays `bytes` in one piece, then compares nothing.
    pub(super) fn events(&mut self, bytes: &[u8]) -> String {
        let (mut at, mut events) = (0, Vec::new());
        loop {
            let received = match self.connection.receive(&bytes[at..]) {
                Ok(received) => received,
                Err(violation) => {
                    events.push(format!("{:?}", violation.code));
                    break;
                }
            };
            if received.consumed == 0 {
                break;
            }
            at += received.consumed;
            events.extend(self.event(received.event));
        }
        events.join("; ")
    }

    fn event(&mut self, event: Event<'_>) -> Option<String> {
        let ended = |end| if end { " end" } else { "" };
        Some(match event {
            Event::Nothing => return None,
            Event::Request { stream, end } => {
                let (mut text, mut head) = (Vec::new(), RequestHead::default());
                self.connection.take_request(&mut text, &mut head);
                let target = String::from_utf8_lossy(head.target.of(&text)).into_owned();
                format!("request {} {target}{}", stream.index(), ended(end))
            }
            Event::TooLarge { stream } => format!("too large {}", stream.index()),
            Event::Interim { stream } | Event::Response { stream, end: false } => {
                format!("response {} {}", stream.index(), self.status())
            }
            Event::Response { stream, .. } => {
                format!("response {} {} end", stream.index(), self.status())
            }
            Event::Data { stream, bytes, end } => {
                format!("data {} {}{}", stream.index(), bytes.len(), ended(end))
            }
            Event::Trailers { stream } => {
                let mut text = Vec::new();
                self.connection.take_trailers(&mut text);
                let text = String::from_utf8_lossy(&text).replace("\r\n", ",");
                format!("trailers {} {text}", stream.index())
            }
            Event::Reset {
                stream,
                code,
                unprocessed,
            } => {
                let again = if unprocessed { " unprocessed" } else { "" };
                format!("reset {} {code:?}{again}", stream.index())
            }
            Event::Window { stream: None } => "window".to_owned(),
            Event::Window { stream: Some(key) } => format!("window {}", key.index()),
            Event::Settings => "settings".to_owned(),
            Event::GoAway { code } => format!("goaway {code:?}"),
            Event::Pong { payload } => format!("pong {}", payload[7]),
        })
    }

    fn status(&mut self) -> u16 {
        let (mut text, mut head) = (Vec::new(), ResponseHead::default());
        self.connection.take_response(&mut text, &mut head);
        head.status
    }
}

/// A frame of any kind.
pub(super) fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let header = Header {
        len: payload.len(),
        kind,
        flags,
        stream,
    };
    header.write(&mut out);
    out.extend_from_slice(payload);
    out
}

pub(super) fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::settings::write(settings, &mut out);
    out
}

pub(super) fn settings_ack() -> Vec<u8> {
    raw(kind::SETTINGS, 1, 0, b"")
}

pub(super) fn data(stream: u32, len: usize, end: bool) -> Vec<u8> {
    let mut out = Vec::new();
    frame::data::write(stream, &vec![b'x'; len], end, &mut out);
    out
}

pub(super) fn reset(stream: u32, code: Code) -> Vec<u8> {
    let mut out = Vec::new();
    frame::rst_stream::write(stream, code, &mut out);
    out
}

pub(super) fn window(stream: u32, increment: u32) -> Vec<u8> {
    let mut out = Vec::new();
    frame::window_update::write(stream, increment, &mut out);
    out
}

pub(super) fn goaway(last: u32, code: Code) -> Vec<u8> {
    let mut out = Vec::new();
    frame::goaway::write(last, code, &mut out);
    out
}

pub(super) fn ping() -> Vec<u8> {
    raw(kind::PING, 0, 0, &[7; 8])
}
