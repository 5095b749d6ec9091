//! DATA: the payload as it comes, and its flow control. Called by `receive`, and by the proxy when
//! it has consumed what it was given. Never holds a byte of it.

use super::super::code::{Code, Violation};
use super::super::event::{Event, Key, Received};
use super::super::frame::{HEADER_BYTES, Header, data, flag, window_update};
use super::super::stream::{Ending, State};
use super::super::streams::Past;
use super::Connection;
use super::receive::NEED_MORE;

/// A DATA frame of which something is still to come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Incoming {
    /// Whose; `None` if nobody wants it any more.
    stream: Option<Key>,
    /// Bytes of payload that are still to come.
    payload: usize,
    /// Bytes of padding.
    padding: usize,
    /// The stream ends with it.
    end: bool,
    /// Some of it is still to come.
    is_open: bool,
}

/// Whom a DATA frame is for.
enum Admission {
    Stream(Key),
    /// Nobody: it is read and thrown away.
    Nobody,
    /// Nobody any more, because of it.
    Broken(Event<'static>),
}

impl Incoming {
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The caller does not want more of this stream.
    pub(super) fn forget(&mut self, stream: Key) {
        if self.stream == Some(stream) {
            self.stream = None;
        }
    }
}

impl Connection {
    /// A DATA frame begins.
    pub(super) fn data<'b>(
        &mut self,
        header: &Header,
        input: &'b [u8],
    ) -> Result<Received<'b>, Violation> {
        let padded = header.has(flag::PADDED) && header.len > 0;
        if padded && input.len() == HEADER_BYTES {
            return Ok(NEED_MORE);
        }
        let first = input.get(HEADER_BYTES).copied();
        let frame = data::parse(header, first.filter(|_| padded))?;
        if self.inbound.charge(header.len).is_err() {
            return Err(Violation::new(
                Code::FlowControlError,
                "more data than the connection's window",
            ));
        }
        let admission = self.admit(header, &frame)?;
        let begun = HEADER_BYTES + usize::from(padded);
        self.incoming = Incoming {
            stream: match admission {
                Admission::Stream(stream) => Some(stream),
                Admission::Nobody | Admission::Broken(_) => None,
            },
            payload: frame.payload,
            padding: frame.padding,
            end: frame.end,
            is_open: frame.payload + frame.padding > 0,
        };
        if padded {
            self.give_back(1);
        }
        if let Admission::Broken(event) = admission {
            return Ok(Received {
                consumed: begun,
                event,
            });
        }
        let mut received = self.payload(&input[begun..]);
        received.consumed += begun;
        Ok(received)
    }

    #[inline]
    fn admit(&mut self, header: &Header, frame: &data::Data) -> Result<Admission, Violation> {
        if self.is_idle(header.stream) {
            return Err(Violation::protocol("data on an idle stream"));
        }
        match frame.payload == 0 && !frame.end {
            true => self.idle_frame(false)?,
            false => self.idle_frames.earn(),
        }
        let Some(key) = self.streams.find(header.stream) else {
            return self.late(header.stream, self.streams.past(header.stream));
        };
        let stream = self.streams.of_mut(key);
        let state = stream.state;
        let code = match state {
            State::Closed(ending) => return self.late(header.stream, Past::Ended(ending)),
            _ if !state.may_receive() => Code::StreamClosed,
            _ if !stream.head_came => Code::ProtocolError,
            _ if stream.inbound.charge(header.len).is_err() => Code::FlowControlError,
            _ if !stream.keeps_promise(frame.payload, frame.end) => Code::ProtocolError,
            _ => return Ok(Admission::Stream(key)),
        };
        self.break_stream(key, code).map(Admission::Broken)
    }

    /// DATA on a closed stream: it may have been under way when we reset it.
    #[cold]
    fn late(&mut self, id: u32, past: Past) -> Result<Admission, Violation> {
        self.idle_frame(false)?;
        match past {
            Past::Ended(Ending::ResetByUs) => Ok(Admission::Nobody),
            _ => self.refuse(id, Code::StreamClosed).map(Admission::Broken),
        }
    }

    /// More of the frame that is under way, or of its padding.
    #[inline]
    pub(super) fn payload<'b>(&mut self, input: &'b [u8]) -> Received<'b> {
        let incoming = &mut self.incoming;
        let taken = incoming.payload.min(input.len());
        let bytes = &input[..taken];
        let had_payload = incoming.payload > 0;
        incoming.payload -= taken;
        let padding = match incoming.payload {
            0 => incoming.padding.min(input.len() - taken),
            _ => 0,
        };
        incoming.padding -= padding;
        let (stream, end) = (incoming.stream, incoming.end && incoming.payload == 0);
        // What is left to show: the end, and that only once.
        incoming.end &= !end;
        incoming.is_open = incoming.payload > 0 || incoming.padding > 0;
        let consumed = taken + padding;
        if padding > 0 {
            self.give_back(padding);
        }
        let Some(stream) = stream else {
            self.give_back_connection(taken);
            return Received {
                consumed,
                event: Event::Nothing,
            };
        };
        if end {
            self.streams.step(stream, State::end_remote);
        }
        let event = match end || (had_payload && taken > 0) {
            true => Event::Data { stream, bytes, end },
            false => Event::Nothing,
        };
        Received { consumed, event }
    }

    /// Padding of the frame that is under way.
    fn give_back(&mut self, count: usize) {
        self.give_back_connection(count);
        if let Some(stream) = self.incoming.stream {
            self.consumed(stream, count);
        }
    }

    fn give_back_connection(&mut self, count: usize) {
        if let Some(increment) = self.inbound.give_back(count) {
            window_update::write(0, increment, &mut self.output);
        }
    }

    /// The caller is done with `count` bytes of the stream's DATA: its window opens again, in
    /// steps of half its size. Of the connection's window `consumed_connection` says the same.
    #[inline]
    pub fn consumed(&mut self, stream: Key, count: usize) {
        let stream = self.streams.of_mut(stream);
        let increment = stream.inbound.give_back(count);
        if let (Some(increment), true) = (increment, stream.state.may_receive()) {
            window_update::write(stream.id, increment, &mut self.output);
        }
    }

    /// Lets the peer send `by` bytes further ahead on the stream, for good: its reader keeps up.
    /// The window as a whole must stay below 2^31.
    pub fn enlarge(&mut self, stream: Key, by: u32) {
        let stream = self.streams.of_mut(stream);
        let increment = stream.inbound.enlarge(by);
        if stream.state.may_receive() {
            window_update::write(stream.id, increment, &mut self.output);
        }
    }

    /// The caller is done with `count` bytes of DATA, be their stream released or not.
    #[inline]
    pub fn consumed_connection(&mut self, count: usize) {
        self.give_back_connection(count);
    }

    /// Bytes of DATA that the caller has of the stream and has not said to be consumed.
    pub fn unconsumed(&self, stream: Key) -> usize {
        self.streams.of(stream).inbound.held()
    }

    /// Likewise of all streams, be they released or not.
    pub fn connection_unconsumed(&self) -> usize {
        self.inbound.held()
    }
}
