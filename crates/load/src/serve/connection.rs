//! One connection of the echo server: reads a request, waits if it was asked to, writes the
//! answer, goes on. Called by `worker` on events and when a wait is over.

use super::{
    echo::Ask,
    http2::PREFACE,
    payload::Payload,
    request::{Reader, Refusal, Request, Step},
};
use crate::{clock, schedule::Random};
use rustix::{
    fd::OwnedFd,
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};
use std::io::Write;

/// A connection and the request on it.
pub(crate) struct Connection {
    fd: OwnedFd,
    drained: bool,
    /// The peer will send nothing more: read on until the end is seen.
    closing: bool,
    reader: Reader,
    /// Bytes that came after the request being answered.
    leftover: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    state: State,
    /// When the request had been read whole.
    read_at: u64,
    close: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing, or not enough, has come to tell HTTP/1 from HTTP/2.
    Telling,
    Reading,
    /// The answer is ready, its time has not come.
    Waiting,
    Writing,
}

/// What all connections of a thread use in turn.
pub(crate) struct Scratch {
    pub(crate) input: Vec<u8>,
    pub(crate) payload: Payload,
    pub(crate) random: Random,
}

/// What the worker has to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing until an event.
    Event,
    /// Call `resume` at this instant.
    At(u64),
    /// An answer has been written; its delay in nanoseconds. Call `resume` again.
    Answered(u64),
    /// The connection is one of HTTP/2: this was read from it.
    Http2(Vec<u8>),
    Close,
}

impl Connection {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            drained: false,
            closing: false,
            reader: Reader::default(),
            leftover: Vec::new(),
            output: Vec::new(),
            written: 0,
            state: State::Telling,
            read_at: 0,
            close: false,
        }
    }

    /// For another thread to go on with.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// The kernel has news.
    pub(crate) fn awake(&mut self, closing: bool) {
        self.drained = false;
        self.closing |= closing;
    }

    /// The wait is over.
    pub(crate) fn due(&mut self) {
        if self.state == State::Waiting {
            self.state = State::Writing;
        }
    }

    /// Goes on as far as it can.
    pub(crate) fn resume(&mut self, scratch: &mut Scratch) -> Next {
        match self.state {
            State::Telling | State::Reading => self.read(scratch),
            State::Waiting => Next::Event,
            State::Writing => self.write(),
        }
    }

    fn read(&mut self, scratch: &mut Scratch) -> Next {
        loop {
            if self.state == State::Reading && !self.leftover.is_empty() {
                let bytes = std::mem::take(&mut self.leftover);
                if let Some(next) = self.take(&bytes, scratch) {
                    return next;
                }
            }
            if self.drained {
                return Next::Event;
            }
            let taken = match recv(&self.fd, &mut scratch.input[..], RecvFlags::empty()) {
                Ok((0, _)) => return Next::Close,
                Ok((taken, _)) => taken,
                Err(Errno::AGAIN) => return Next::Event,
                Err(Errno::INTR) => continue,
                Err(_) => return Next::Close,
            };
            self.drained = taken < scratch.input.len() && !self.closing;
            let input = std::mem::take(&mut scratch.input);
            let next = self.take(&input[..taken], scratch);
            scratch.input = input;
            if let Some(next) = next {
                return next;
            }
        }
    }

    /// Feeds bytes to the reader; none if more are needed.
    fn take(&mut self, mut bytes: &[u8], scratch: &mut Scratch) -> Option<Next> {
        if self.state == State::Telling {
            match tell(&mut self.leftover, bytes) {
                Told::Http1 if self.leftover.is_empty() => self.state = State::Reading,
                Told::Http1 => {
                    self.state = State::Reading;
                    let first = std::mem::take(&mut self.leftover);
                    return self.take(&first, scratch);
                }
                Told::Http2(read) => return Some(Next::Http2(read)),
                Told::TooLittle => return None,
            }
        }
        while !bytes.is_empty() {
            match self.reader.feed(bytes) {
                Ok((used, Step::Whole)) => {
                    self.leftover.extend_from_slice(&bytes[used..]);
                    return Some(self.answer(scratch));
                }
                Ok((used, Step::Expects)) => {
                    bytes = &bytes[used..];
                    // A peer that takes no 25 bytes on a fresh connection is gone.
                    if send(
                        &self.fd,
                        b"HTTP/1.1 100 Continue\r\n\r\n",
                        SendFlags::NOSIGNAL,
                    )
                    .is_err()
                    {
                        return Some(Next::Close);
                    }
                }
                Ok((_, Step::More)) => return None,
                Err(refusal) => return Some(self.refuse(refusal)),
            }
        }
        None
    }

    fn answer(&mut self, scratch: &mut Scratch) -> Next {
        self.read_at = clock::now();
        let Self { reader, output, .. } = self;
        let request = &reader.request;
        output.clear();
        self.written = 0;
        let ask = match Ask::read(&request.query, &mut scratch.random) {
            Ok(ask) => ask,
            Err(text) => {
                compose(output, 400, text.as_bytes(), request, request.close);
                self.close = request.close;
                self.state = State::Writing;
                return self.write();
            }
        };
        self.close = request.close || ask.close;
        let body = match ask.size {
            None => request.body.as_slice(),
            Some(size) => scratch.payload.first(size),
        };
        compose(output, ask.status, body, request, self.close);
        if ask.delay.is_zero() {
            self.state = State::Writing;
            return self.write();
        }
        self.state = State::Waiting;
        Next::At(self.read_at + clock::duration(ask.delay))
    }

    fn refuse(&mut self, refusal: Refusal) -> Next {
        let status = match refusal {
            Refusal::Malformed => 400,
            Refusal::TooLarge => 413,
        };
        self.read_at = clock::now();
        self.output.clear();
        self.written = 0;
        let request = Request {
            close: true,
            ..Request::default()
        };
        compose(&mut self.output, status, b"", &request, true);
        self.close = true;
        self.state = State::Writing;
        self.write()
    }

    fn write(&mut self) -> Next {
        while self.written < self.output.len() {
            match send(&self.fd, &self.output[self.written..], SendFlags::NOSIGNAL) {
                Ok(taken) => self.written += taken,
                Err(Errno::AGAIN) => return Next::Event,
                Err(Errno::INTR) => {}
                Err(_) => return Next::Close,
            }
        }
        self.state = State::Reading;
        Next::Answered(clock::now() - self.read_at)
    }

    /// The answer just written was the last one.
    pub(crate) fn is_over(&self) -> bool {
        self.close
    }
}

/// What the first bytes of a connection say.
enum Told {
    Http1,
    Http2(Vec<u8>),
    TooLittle,
}

/// Looks at the bytes that have come, which follow those in `before`. What must wait for more, or
/// was waiting, is left there.
fn tell(before: &mut Vec<u8>, bytes: &[u8]) -> Told {
    let known = before.len();
    let agree = bytes.len().min(PREFACE.len() - known);
    if bytes[..agree] != PREFACE[known..known + agree] {
        if known > 0 {
            before.extend_from_slice(bytes);
        }
        return Told::Http1;
    }
    before.extend_from_slice(bytes);
    if known + agree < PREFACE.len() {
        return Told::TooLittle;
    }
    Told::Http2(std::mem::take(before))
}

fn compose(output: &mut Vec<u8>, status: u16, body: &[u8], request: &Request, close: bool) {
    let bodiless = matches!(status, 204 | 304);
    let connection = match (close, request.http10) {
        (true, _) => "Connection: close\r\n",
        (false, true) => "Connection: keep-alive\r\n",
        (false, false) => "",
    };
    let reason = reason(status);
    let wrote = if bodiless {
        write!(output, "HTTP/1.1 {status} {reason}\r\n{connection}\r\n")
    } else {
        let length = body.len();
        write!(
            output,
            "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\n\
             Content-Length: {length}\r\n{connection}\r\n"
        )
    };
    wrote.expect("a vector takes everything");
    if !bodiless && !request.is_head {
        output.extend_from_slice(body);
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        404 => "Not Found",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
