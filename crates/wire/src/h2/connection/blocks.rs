//! Header blocks: put together from HEADERS and CONTINUATION, decoded, and given to the message
//! they belong to. Called by `receive`. Never leaves a block undecoded, for then the tables of both
//! sides would differ.

use super::super::abuse::{BLOCK_BYTES_FACTOR, CONTINUATIONS_MAX};
use super::super::code::{Code, Violation};
use super::super::config::Role;
use super::super::event::{Event, Key};
use super::super::frame::headers::Headers;
use super::super::frame::{Header, kind};
use super::super::head::{Kind, Verdict};
use super::super::stream::{Ending, State, Stream};
use super::super::streams::Past;
use super::super::window::{INITIAL, Inbound, Outbound};
use super::Connection;
use crate::http1::{Framing, Method, RequestHead, ResponseHead};

/// What of the room for a block is kept from one to the next; most blocks need none of it.
const BLOCK_BYTES_KEPT: usize = 16 * 1024;

/// What the HEADERS frame of a block said.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    stream: u32,
    end: bool,
    depends_on_itself: bool,
}

/// A header block of which more is to come.
#[derive(Debug, Default)]
pub(super) struct Block {
    start: Option<Start>,
    bytes: Vec<u8>,
    continuations: u32,
}

impl Block {
    /// Whether this frame may come now: within a block nothing but its continuation, and that
    /// nowhere else (RFC 9113, section 6.10).
    #[inline]
    pub(super) fn takes(&self, header: &Header) -> bool {
        let continues = header.kind == kind::CONTINUATION;
        match &self.start {
            None => !continues,
            Some(start) => continues && header.stream == start.stream,
        }
    }
}

impl Connection {
    pub(super) fn headers(
        &mut self,
        stream: u32,
        headers: &Headers<'_>,
    ) -> Result<Event<'static>, Violation> {
        let start = Start {
            stream,
            end: headers.end_stream,
            depends_on_itself: headers.depends_on_itself,
        };
        if headers.end_headers {
            return self.block(start, headers.block);
        }
        self.block.bytes.clear();
        self.block.bytes.extend_from_slice(headers.block);
        self.block.continuations = 0;
        self.block.start = Some(start);
        Ok(Event::Nothing)
    }

    pub(super) fn continuation(
        &mut self,
        part: &[u8],
        last: bool,
    ) -> Result<Event<'static>, Violation> {
        let bytes_max = BLOCK_BYTES_FACTOR.saturating_mul(self.config.limits.head_bytes);
        self.block.continuations += 1;
        let bytes = self.block.bytes.len() + part.len();
        if bytes > bytes_max || self.block.continuations > CONTINUATIONS_MAX {
            return Err(Violation::new(
                Code::EnhanceYourCalm,
                "header block without an end",
            ));
        }
        self.block.bytes.extend_from_slice(part);
        if !last {
            return Ok(Event::Nothing);
        }
        let Some(start) = self.block.start.take() else {
            return Ok(Event::Nothing);
        };
        let mut bytes = std::mem::take(&mut self.block.bytes);
        let event = self.block(start, &bytes);
        bytes.clear();
        bytes.shrink_to(BLOCK_BYTES_KEPT);
        self.block.bytes = bytes;
        event
    }

    /// A whole block.
    fn block(&mut self, start: Start, block: &[u8]) -> Result<Event<'static>, Violation> {
        if self.config.role == Role::Server && start.stream > self.last_remote {
            return self.new_stream(start, block);
        }
        if self.is_idle(start.stream) {
            return Err(Violation::protocol("headers on an idle stream"));
        }
        let Some(key) = self.streams.find(start.stream) else {
            return self.late_block(start, self.streams.past(start.stream), block);
        };
        let stream = self.streams.of(key);
        match stream.state {
            State::Closed(ending) => self.late_block(start, Past::Ended(ending), block),
            state if !state.may_receive() => {
                self.decode(Kind::Nothing, block)?;
                self.break_stream(key, Code::StreamClosed)
            }
            _ if start.depends_on_itself => {
                self.decode(Kind::Nothing, block)?;
                self.break_stream(key, Code::ProtocolError)
            }
            _ if stream.head_came => self.trailers(key, start, block),
            _ => self.answer(key, start, block),
        }
    }

    fn decode(&mut self, kind: Kind, block: &[u8]) -> Result<(), Violation> {
        self.draft.begin(kind);
        let draft = &mut self.draft;
        let decoded = self.decoder.decode(block, &mut |field| draft.visit(&field));
        decoded.map_err(|_| Violation::new(Code::CompressionError, "malformed header block"))
    }

    /// A block on a stream that is over. Unless we reset it, the peer knew that.
    #[cold]
    fn late_block(
        &mut self,
        start: Start,
        past: Past,
        block: &[u8],
    ) -> Result<Event<'static>, Violation> {
        self.decode(Kind::Nothing, block)?;
        self.idle_frame(false)?;
        match past {
            Past::Ended(Ending::ResetByUs) => Ok(Event::Nothing),
            Past::Ended(Ending::ResetByPeer) | Past::Forgotten => {
                self.refuse(start.stream, Code::StreamClosed)
            }
            Past::Ended(Ending::Complete) => Err(Violation::new(
                Code::StreamClosed,
                "headers on a closed stream",
            )),
            Past::Never => Err(Violation::protocol("stream ids go backwards")),
        }
    }

    /// A request.
    fn new_stream(&mut self, start: Start, block: &[u8]) -> Result<Event<'static>, Violation> {
        if start.stream.is_multiple_of(2) {
            return Err(Violation::protocol("client opens a stream of the server's"));
        }
        self.last_remote = start.stream;
        let is_full = self.is_full() || self.leaving.is_some_and(|last| start.stream > last);
        self.decode(
            if is_full {
                Kind::Nothing
            } else {
                Kind::Request
            },
            block,
        )?;
        if is_full {
            return self.refuse(start.stream, Code::RefusedStream);
        }
        let verdict = match start.depends_on_itself {
            true => Verdict::Malformed,
            false => self.draft.finish_request(start.end, &mut self.request),
        };
        if verdict == Verdict::Malformed {
            return self.refuse(start.stream, Code::ProtocolError);
        }
        self.idle_frames.earn();
        let key = self.insert(start);
        if verdict == Verdict::TooLarge {
            return Ok(Event::TooLarge { stream: key });
        }
        let stream = self.streams.of_mut(key);
        stream.method = self.request.method;
        stream.promised = match self.request.framing {
            // What follows the body of such a request is no body.
            _ if self.request.upgrade => None,
            Framing::Length(length) => Some(length),
            _ => None,
        };
        Ok(Event::Request {
            stream: key,
            end: start.end,
        })
    }

    /// Whether there is no room for one more stream of the peer's. Closed ones that the caller has
    /// not released yet take room too, but as many again as there may be open ones.
    fn is_full(&self) -> bool {
        let most = self.config.limits.streams as usize;
        self.streams.live() >= most || self.streams.held() >= 2 * most
    }

    fn insert(&mut self, start: Start) -> Key {
        let state = match start.end {
            true => State::HalfClosedRemote,
            false => State::Open,
        };
        let mut stream = Stream::new(
            start.stream,
            state,
            self.outbound_of_stream(),
            self.inbound_of_stream(),
        );
        stream.head_came = true;
        self.streams.insert(stream)
    }

    pub(super) fn outbound_of_stream(&self) -> Outbound {
        Outbound::new(self.peer.initial_window)
    }

    /// Until the peer has taken our settings it uses the protocol's window (section 6.9.2).
    pub(super) fn inbound_of_stream(&self) -> Inbound {
        let size = self.config.limits.stream_window;
        Inbound::new(
            if self.peer.took_settings {
                size
            } else {
                INITIAL
            },
            size,
        )
    }

    /// A response, interim or final.
    fn answer(
        &mut self,
        key: Key,
        start: Start,
        block: &[u8],
    ) -> Result<Event<'static>, Violation> {
        self.decode(Kind::Response, block)?;
        let stream = self.streams.of_mut(key);
        let asked = (stream.method, stream.tunnel);
        let verdict = self
            .draft
            .finish_response(start.end, asked, &mut self.response);
        if verdict != Verdict::Complete {
            return self.break_stream(key, Code::ProtocolError);
        }
        self.idle_frames.earn();
        let head = &self.response;
        if head.status < 200 && head.status != 101 {
            return Ok(Event::Interim { stream: key });
        }
        stream.head_came = true;
        let bodiless = stream.method == Method::Head || matches!(head.status, 204 | 304);
        stream.promised = match head.framing {
            _ if head.upgrade => None,
            Framing::Length(length) => Some(length),
            _ if bodiless => Some(0),
            _ => None,
        };
        self.end_if(key, start.end);
        Ok(Event::Response {
            stream: key,
            end: start.end,
        })
    }

    fn trailers(
        &mut self,
        key: Key,
        start: Start,
        block: &[u8],
    ) -> Result<Event<'static>, Violation> {
        self.decode(Kind::Trailers, block)?;
        let kept = self.streams.of_mut(key).keeps_promise(0, true);
        match self.draft.finish_trailers() {
            Verdict::Complete if start.end && kept => {}
            _ => return self.break_stream(key, Code::ProtocolError),
        }
        self.idle_frames.earn();
        self.end_if(key, true);
        Ok(Event::Trailers { stream: key })
    }

    fn end_if(&mut self, key: Key, end: bool) {
        if end {
            self.streams.step(key, State::end_remote);
        }
    }

    /// The request that the last event announced: its text, and its head with ranges of it. Both
    /// are swapped with the caller's, whose room is used for the next one.
    pub fn take_request(&mut self, text: &mut Vec<u8>, head: &mut RequestHead) {
        std::mem::swap(text, &mut self.draft.text);
        std::mem::swap(head, &mut self.request);
    }

    /// Likewise the response, interim or final.
    pub fn take_response(&mut self, text: &mut Vec<u8>, head: &mut ResponseHead) {
        std::mem::swap(text, &mut self.draft.text);
        std::mem::swap(head, &mut self.response);
    }

    /// Likewise the trailers: lines `name: value`, each with CR LF, perhaps none.
    pub fn take_trailers(&mut self, text: &mut Vec<u8>) {
        std::mem::swap(text, &mut self.draft.text);
    }
}
