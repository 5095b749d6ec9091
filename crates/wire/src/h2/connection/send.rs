//! Sending: heads, payload, trailers and resets become frames in the output. Called by the proxy.
//! Never sends on a stream that is over, never beyond a window, and never keeps payload.

use super::super::code::Code;
use super::super::config::{Dialect, Role};
use super::super::encode::Source;
use super::super::event::Key;
use super::super::frame::{PAYLOAD_MAX, data, headers, rst_stream};
use super::super::stream::{Ending, State, Stream};
use super::super::window::Outbound;
use super::{Connection, ID_MAX};
use crate::http1::{Method, RequestHead, ResponseHead};

impl Connection {
    /// Whether `open` would give a stream.
    pub fn can_open(&self) -> bool {
        let live = self.streams.live();
        // Streams from `open` still need ids.
        let ids_left = (ID_MAX - self.next_local.min(ID_MAX)) as usize / 2;
        self.config.role == Role::Client
            && !self.is_going_away()
            && live < self.peer.streams_max as usize
            && live < ids_left
    }

    /// A client's new stream, to be released by the caller; it counts from now on, but the peer
    /// hears of it from `send_request`. None if the server takes no more at once, if either side
    /// is leaving, or if the ids are used up.
    pub fn open(&mut self) -> Option<Key> {
        if !self.can_open() {
            return None;
        }
        let (outbound, inbound) = (Outbound::default(), self.inbound_of_stream());
        let stream = Stream::new(0, State::Idle, outbound, inbound);
        Some(self.streams.insert(stream))
    }

    /// Sends a request on a stream from `open`: its head, whose ranges are of `bytes`, with
    /// `extra`, further lines as text. Lines that are dropped, frame an HTTP/1 message or are for
    /// one hop are left out. In public the host becomes the authority, and a head with a
    /// `protocol` an extended CONNECT, whatever its method. If the peer is leaving, nothing is
    /// sent, and `next_reset` gives the stream.
    pub fn send_request(
        &mut self,
        stream: Key,
        head: &RequestHead,
        bytes: &[u8],
        extra: &[u8],
        end: bool,
    ) {
        if !self.is_unsent(stream) || self.is_going_away() {
            return;
        }
        let id = self.next_local;
        self.next_local += 2;
        self.streams.begin(stream, id);
        let outbound = self.outbound_of_stream();
        let becomes_connect = self.config.dialect == Dialect::Public && head.protocol.is_some();
        let state = self.streams.of_mut(stream);
        state.outbound = outbound;
        state.method = head.method;
        state.tunnel = head.method == Method::Connect || becomes_connect;
        let at = headers::begin(id, end, &mut self.output);
        let source = Source { bytes, extra };
        self.encode.request(head, source, &mut self.output);
        headers::finish(at, &mut self.output);
        self.sent_head(stream, end);
    }

    /// Sends a response's head likewise. An interim one (1xx but 101) may be followed by others.
    pub fn send_response(
        &mut self,
        stream: Key,
        head: &ResponseHead,
        bytes: &[u8],
        extra: &[u8],
        end: bool,
    ) {
        let Some((at, end)) = self.begin_response(stream, head.status, end) else {
            return;
        };
        let source = Source { bytes, extra };
        self.encode.response(head, source, &mut self.output);
        headers::finish(at, &mut self.output);
        self.sent_head(stream, end);
    }

    /// Sends a response's head of our own, with `lines` as text, each with CR LF.
    pub fn send_status(&mut self, stream: Key, status: u16, lines: &[u8], end: bool) {
        let Some((at, end)) = self.begin_response(stream, status, end) else {
            return;
        };
        self.encode.status(status, lines, &mut self.output);
        headers::finish(at, &mut self.output);
        self.sent_head(stream, end);
    }

    /// Begins the head of a response, if one can be sent; an interim one ends nothing.
    fn begin_response(&mut self, stream: Key, status: u16, end: bool) -> Option<(usize, bool)> {
        let state = self.streams.of_mut(stream);
        if !state.state.may_send() || state.answered {
            return None;
        }
        let is_final = status >= 200 || status == 101;
        state.answered = is_final;
        let id = state.id;
        if is_final {
            self.resets.earn();
        }
        let end = end && is_final;
        Some((headers::begin(id, end, &mut self.output), end))
    }

    fn sent_head(&mut self, stream: Key, end: bool) {
        self.idle_frames.earn();
        self.sent_end_if(stream, end);
    }

    #[inline]
    fn sent_end_if(&mut self, stream: Key, end: bool) {
        if end {
            self.streams.step(stream, State::end_local);
        }
    }

    /// Bytes of DATA that both windows let through now.
    #[inline]
    pub fn sendable(&self, stream: Key) -> usize {
        let stream = self.streams.of(stream);
        match stream.state.may_send() {
            true => stream.outbound.open().min(self.outbound.open()),
            false => 0,
        }
    }

    /// Sends as much of `payload` as the windows let through, and the end of the stream if that
    /// was all and `end`. Says how much it took; when more can be taken, `Event::Window` says.
    pub fn send_data(&mut self, stream: Key, payload: &[u8], end: bool) -> usize {
        let state = self.streams.of(stream);
        if !state.state.may_send() {
            return 0;
        }
        let id = state.id;
        let taken = payload.len().min(self.sendable(stream));
        let end = end && taken == payload.len();
        let mut rest = &payload[..taken];
        while rest.len() > PAYLOAD_MAX {
            let (part, behind) = rest.split_at(PAYLOAD_MAX);
            self.write_data(id, part, false);
            rest = behind;
        }
        if !rest.is_empty() || end {
            self.write_data(id, rest, end);
        }
        self.outbound.sent(taken);
        self.streams.of_mut(stream).outbound.sent(taken);
        self.sent_end_if(stream, end);
        taken
    }

    fn write_data(&mut self, id: u32, payload: &[u8], end: bool) {
        data::write(id, payload, end, &mut self.output);
        self.idle_frames.earn();
    }

    /// Ends the stream with trailers, `lines` as text, each with CR LF.
    pub fn send_trailers(&mut self, stream: Key, lines: &[u8]) {
        if lines.is_empty() {
            self.send_data(stream, b"", true);
            return;
        }
        let state = self.streams.of(stream);
        if !state.state.may_send() {
            return;
        }
        let at = headers::begin(state.id, true, &mut self.output);
        self.encode.text(lines, false, &mut self.output);
        headers::finish(at, &mut self.output);
        self.sent_head(stream, true);
    }

    /// Ends the stream before its time, unless it is closed. A stream whose request was not sent
    /// is just closed.
    pub fn reset(&mut self, stream: Key, code: Code) {
        let state = self.streams.of(stream);
        if state.state.is_closed() {
            return;
        }
        if state.state != State::Idle {
            rst_stream::write(state.id, code, &mut self.output);
        }
        self.incoming.forget(stream);
        self.streams
            .step(stream, |state| state.reset(Ending::ResetByUs));
    }

    /// The caller forgets the stream, whose place may then be another's. One that is not closed
    /// is reset: with NO_ERROR if its answer was sent in full, else with CANCEL.
    pub fn release(&mut self, stream: Key) {
        let code = match self.streams.of(stream).state {
            State::HalfClosedLocal if self.config.role == Role::Server => Code::NoError,
            _ => Code::Cancel,
        };
        self.reset(stream, code);
        self.incoming.forget(stream);
        self.streams.release(stream);
    }
}
