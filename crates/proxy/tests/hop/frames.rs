//! HTTP/2 frames by hand (RFC 9113, section 4.1), for peers that do not behave. Used by `misuse`
//! and `upgrades`; shares nothing with the code under test.

use std::io::{self, Read, Write};
use testkit::client::Client;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// Codes of section 7.
pub(crate) const PROTOCOL_ERROR: u32 = 1;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// A client of HTTP/2 that says exactly what it is told to.
pub(crate) struct Frames<S> {
    client: Client<S>,
}

impl<S: Read + Write> Frames<S> {
    /// Says hello: the preface, and settings of nothing.
    #[track_caller]
    pub(crate) fn new(client: Client<S>) -> Self {
        let mut frames = Self { client };
        frames.client.send(PREFACE);
        frames.send(SETTINGS, 0, 0, b"");
        frames
    }

    #[track_caller]
    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let id = stream.to_be_bytes();
        let head = [&length[1..], &[kind, flags], &id].concat();
        self.client.send([&head, payload].concat());
    }

    /// A request without a body, of these fields and nothing else.
    #[track_caller]
    pub(crate) fn request(&mut self, stream: u32, fields: &[(&str, &str)]) {
        self.send(HEADERS, END_STREAM | END_HEADERS, stream, &block(fields));
    }

    /// A request whose body follows.
    #[track_caller]
    pub(crate) fn open(&mut self, stream: u32, fields: &[(&str, &str)]) {
        self.send(HEADERS, END_HEADERS, stream, &block(fields));
    }

    /// The next frame, whatever it is.
    pub(crate) fn next(&mut self) -> io::Result<Frame> {
        let stream = self.client.stream();
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload)?;
        Ok(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes(head[5..].try_into().unwrap()) & 0x7fff_ffff,
            payload,
        })
    }

    /// The next frame of a stream; of the connection, only its end is told.
    #[track_caller]
    pub(crate) fn of(&mut self, stream: u32) -> Frame {
        loop {
            let frame = self.next().expect("a frame comes");
            let housekeeping = matches!(frame.kind, SETTINGS | PING | WINDOW_UPDATE);
            if frame.kind == SETTINGS && frame.flags & ACK == 0 {
                self.send(SETTINGS, ACK, 0, b"");
            }
            if !housekeeping && (frame.stream == stream || frame.kind == GOAWAY) {
                return frame;
            }
        }
    }

    /// The status with which a stream is answered, of those that HPACK has a number for.
    #[track_caller]
    pub(crate) fn status(&mut self, stream: u32) -> u16 {
        let frame = self.of(stream);
        assert_eq!(frame.kind, HEADERS, "{frame:?}");
        match frame.payload[0] {
            0x88 => 200,
            0x8c => 400,
            0x8d => 404,
            0x8e => 500,
            other => panic!("another status: {other:#x} in {frame:?}"),
        }
    }

    /// Bytes of bodies on a stream, so many.
    #[track_caller]
    pub(crate) fn data(&mut self, stream: u32, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            let frame = self.of(stream);
            assert_eq!(frame.kind, DATA, "{frame:?}");
            bytes.extend(frame.payload);
        }
        bytes
    }
}

/// A header block: every field written out, none kept (RFC 7541, section 6.2.2).
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        text(name.as_bytes(), &mut out);
        text(value.as_bytes(), &mut out);
    }
    out
}

/// A string as it is, its length in seven bits and more where need be (section 5.1).
fn text(bytes: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(bytes.len()) {
        Ok(length @ ..127) => out.push(length),
        _ => {
            out.push(127);
            let mut rest = bytes.len() - 127;
            while rest >= 128 {
                out.push(u8::try_from(rest % 128).unwrap() | 128);
                rest /= 128;
            }
            out.push(u8::try_from(rest).unwrap());
        }
    }
    out.extend_from_slice(bytes);
}
