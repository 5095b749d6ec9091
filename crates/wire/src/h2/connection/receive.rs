//! Bytes to frames: one at a time, checked for what may come now, and given to what it is about.
//! Called by the proxy with what it has read. Never looks at a frame before it is there in full,
//! except DATA.

use super::super::abuse::REPLY_BYTES_MAX;
use super::super::code::{Code, Fault, Violation};
use super::super::config::Role;
use super::super::event::{Event, Key, Received};
use super::super::frame::{
    HEADER_BYTES, Header, PAYLOAD_MAX, continuation, flag, headers, kind, priority, push_promise,
    rst_stream,
};
use super::super::stream::Ending;
use super::{Connection, PREFACE, Stage};

impl Connection {
    /// Takes the next frame, or a part of DATA, off the front of `input`. If nothing was consumed,
    /// more bytes are needed behind these; else it is to be called again with the rest. Frames but
    /// DATA are needed in full, so the caller must be able to hold 16,393 bytes.
    #[inline]
    pub fn receive<'b>(&mut self, input: &'b [u8]) -> Result<Received<'b>, Violation> {
        match self.next(input) {
            Ok(received) => Ok(received),
            Err(violation) => Err(self.fail(violation)),
        }
    }

    #[inline]
    fn next<'b>(&mut self, input: &'b [u8]) -> Result<Received<'b>, Violation> {
        match self.stage {
            Stage::Ready => {}
            Stage::Broken(violation) => return Err(violation),
            Stage::Preface => return self.preface(input),
            Stage::FirstSettings => return self.first_settings(input),
        }
        if self.incoming.is_open() {
            return Ok(self.payload(input));
        }
        self.frame(input)
    }

    fn preface(&mut self, input: &[u8]) -> Result<Received<'static>, Violation> {
        let seen = input.len().min(PREFACE.len());
        if input[..seen] != PREFACE[..seen] {
            return Err(Violation::protocol("not the preface of http/2"));
        }
        if seen < PREFACE.len() {
            return Ok(NEED_MORE);
        }
        self.stage = Stage::FirstSettings;
        Ok(Received {
            consumed: seen,
            event: Event::Nothing,
        })
    }

    fn first_settings<'b>(&mut self, input: &'b [u8]) -> Result<Received<'b>, Violation> {
        let Some(header) = Header::parse(input) else {
            return Ok(NEED_MORE);
        };
        if header.kind != kind::SETTINGS || header.has(flag::ACK) {
            return Err(Violation::protocol("first frame is not settings"));
        }
        let received = self.frame(input)?;
        if received.consumed > 0 {
            self.stage = Stage::Ready;
        }
        Ok(received)
    }

    #[inline]
    fn frame<'b>(&mut self, input: &'b [u8]) -> Result<Received<'b>, Violation> {
        let Some(header) = Header::parse(input) else {
            return Ok(NEED_MORE);
        };
        if header.len > PAYLOAD_MAX {
            return Err(Violation::new(
                Code::FrameSizeError,
                "frame is larger than 16384 bytes",
            ));
        }
        if !self.block.takes(&header) {
            return Err(Violation::protocol("header block is interrupted"));
        }
        if header.kind == kind::DATA {
            return self.data(&header, input);
        }
        let consumed = HEADER_BYTES + header.len;
        let Some(payload) = input.get(HEADER_BYTES..consumed) else {
            return Ok(NEED_MORE);
        };
        // A frame that came alone is no flood: the peer pays a packet for it, as we do.
        let alone = input.len() == consumed;
        let event = self.whole(&header, payload, alone)?;
        Ok(Received { consumed, event })
    }

    fn whole(
        &mut self,
        header: &Header,
        payload: &[u8],
        alone: bool,
    ) -> Result<Event<'static>, Violation> {
        match header.kind {
            kind::HEADERS => {
                let headers = headers::parse(header, payload)?;
                self.headers(header.stream, &headers)
            }
            kind::CONTINUATION => {
                let last = continuation::parse(header)?;
                self.continuation(payload, last)
            }
            kind::WINDOW_UPDATE => self.window_update(header, payload),
            kind::RST_STREAM => {
                let code = rst_stream::parse(header, payload)?;
                self.rst_stream(header.stream, code)
            }
            kind::SETTINGS => {
                self.idle_frame(alone)?;
                self.settings(header, payload)
            }
            kind::PING => {
                self.idle_frame(alone)?;
                self.pinged(header, payload)
            }
            kind::GOAWAY => {
                self.idle_frame(alone)?;
                self.goaway(header, payload)
            }
            kind::PUSH_PROMISE => Err(push_promise::violation()),
            kind::PRIORITY => {
                self.idle_frame(alone)?;
                let fault = priority::check(header, payload).err();
                fault.map_or(Ok(Event::Nothing), |f| self.fault(header.stream, f))
            }
            // Section 5.5: unknown frames are ignored.
            _ => self.idle_frame(alone).map(|()| Event::Nothing),
        }
    }

    /// The stream of a frame with a fault of its own ends, or the connection does. A stream that
    /// has no place any more is reset all the same, as idle ones are for PRIORITY.
    pub(super) fn fault(&mut self, stream: u32, fault: Fault) -> Result<Event<'static>, Violation> {
        match fault {
            Fault::Connection(violation) => Err(violation),
            Fault::Stream(code) => match self.streams.find(stream) {
                Some(key) => self.break_stream(key, code),
                None => self.refuse(stream, code),
            },
        }
    }

    /// Resets a stream on which the peer broke the protocol.
    #[cold]
    pub(super) fn break_stream(
        &mut self,
        stream: Key,
        code: Code,
    ) -> Result<Event<'static>, Violation> {
        if self.streams.of(stream).state.is_closed() {
            let id = self.streams.of(stream).id;
            return self.refuse(id, code);
        }
        self.spend_reset()?;
        self.reply_room()?;
        self.reset(stream, code);
        Ok(Event::Reset {
            stream,
            code,
            unprocessed: false,
        })
    }

    /// Resets a stream that the caller knows nothing of.
    #[cold]
    pub(super) fn refuse(&mut self, id: u32, code: Code) -> Result<Event<'static>, Violation> {
        self.spend_reset()?;
        self.reply_room()?;
        rst_stream::write(id, code, &mut self.output);
        self.streams.remember(id, Ending::ResetByUs);
        Ok(Event::Nothing)
    }

    /// A stream of the peer's came to nothing.
    pub(super) fn spend_reset(&mut self) -> Result<(), Violation> {
        match self.config.role == Role::Client || self.resets.spend() {
            true => Ok(()),
            false => Err(Violation::new(
                Code::EnhanceYourCalm,
                "too many streams were reset before they were answered",
            )),
        }
    }

    /// A frame came that is of no use.
    pub(super) fn idle_frame(&mut self, alone: bool) -> Result<(), Violation> {
        match alone || self.idle_frames.spend() {
            true => Ok(()),
            false => Err(Violation::new(
                Code::EnhanceYourCalm,
                "too many frames of no use",
            )),
        }
    }

    /// An answer to the peer is about to be put into the output.
    pub(super) fn reply_room(&mut self) -> Result<(), Violation> {
        /// No answer is larger than the frame of a PING.
        const REPLY_BYTES: usize = HEADER_BYTES + 8;
        if self.output.is_empty() {
            self.reply_bytes = 0;
        }
        self.reply_bytes += REPLY_BYTES;
        match self.reply_bytes.min(self.output.len()) > REPLY_BYTES_MAX {
            false => Ok(()),
            true => Err(Violation::new(
                Code::EnhanceYourCalm,
                "the peer does not read what it asks for",
            )),
        }
    }

    /// Whether no frame but HEADERS and PRIORITY may come on this stream, for it was never opened.
    #[inline]
    pub(super) fn is_idle(&self, id: u32) -> bool {
        let is_ours = id % 2 == 1;
        match self.config.role {
            Role::Client => !is_ours || id >= self.next_local,
            Role::Server => !is_ours || id > self.last_remote,
        }
    }
}

/// The answer to bytes that do not say anything yet.
pub(super) const NEED_MORE: Received<'static> = Received {
    consumed: 0,
    event: Event::Nothing,
};
