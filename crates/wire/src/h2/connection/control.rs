//! The frames that carry no message: settings, pings, windows, resets and leaving. Called by
//! `receive`. Never touches a head or a payload.

use super::super::abuse::USEFUL_INCREMENT;
use super::super::code::{Code, Fault, Violation};
use super::super::config::{Dialect, Role};
use super::super::event::{Event, Key};
use super::super::frame::settings::{self, id};
use super::super::frame::{Header, goaway, ping, window_update};
use super::super::stream::{Ending, State};
use super::super::window::{INITIAL, Overflow};
use super::Connection;

impl Connection {
    pub(super) fn settings(
        &mut self,
        header: &Header,
        payload: &[u8],
    ) -> Result<Event<'static>, Violation> {
        if settings::parse(header, payload)? {
            self.settings_taken();
            return Ok(Event::Nothing);
        }
        if !self.peer.settings_came {
            self.peer.settings_came = true;
            // Who says nothing of it takes any number (section 6.5.2).
            self.peer.streams_max = u32::MAX;
        }
        let mut window = None;
        for (id, value) in settings::each(payload) {
            // Of several the last one counts; applying each would cost a look at all streams.
            match id {
                id::INITIAL_WINDOW_SIZE => window = Some(value),
                id => self.apply(id, value)?,
            }
        }
        if let Some(value) = window {
            self.apply(id::INITIAL_WINDOW_SIZE, value)?;
        }
        self.reply_room()?;
        settings::write_ack(&mut self.output);
        Ok(Event::Settings)
    }

    /// The peer has taken our settings: what it sends from now on keeps to them.
    fn settings_taken(&mut self) {
        if std::mem::replace(&mut self.peer.took_settings, true) {
            return;
        }
        let size = self.config.limits.stream_window;
        for stream in self.streams.live_mut() {
            stream.inbound.shift(INITIAL, size);
        }
    }

    fn apply(&mut self, id: u16, value: u32) -> Result<(), Violation> {
        let is_client = self.config.role == Role::Client;
        let is_hop = self.config.dialect == Dialect::Hop;
        match id {
            id::HEADER_TABLE_SIZE => self.encode.hpack.set_table_bytes_max(value as usize),
            id::ENABLE_PUSH if is_client && value != 0 => {
                return Err(Violation::protocol("server enables push"));
            }
            id::MAX_CONCURRENT_STREAMS => self.peer.streams_max = value,
            id::INITIAL_WINDOW_SIZE => {
                let old = std::mem::replace(&mut self.peer.initial_window, value);
                // A stream without an id begins with the value of the day it gets one.
                for stream in self.streams.live_mut().filter(|stream| stream.id != 0) {
                    stream.outbound.shift(old, value).map_err(overflow)?;
                }
            }
            id::MAX_HEADER_LIST_SIZE => self.peer.head_bytes = value as usize,
            id::ENABLE_CONNECT_PROTOCOL => self.peer.connect_protocol = value == 1,
            id::WORKERS if is_client && is_hop => self.peer.workers = value,
            id::WORKER if is_client && is_hop => self.peer.worker_plus_one = value,
            _ => {}
        }
        Ok(())
    }

    pub(super) fn pinged(
        &mut self,
        header: &Header,
        payload: &[u8],
    ) -> Result<Event<'static>, Violation> {
        let (ack, payload) = ping::parse(header, payload)?;
        if ack {
            return Ok(Event::Pong { payload });
        }
        self.reply_room()?;
        ping::write(true, payload, &mut self.output);
        Ok(Event::Nothing)
    }

    pub(super) fn window_update(
        &mut self,
        header: &Header,
        payload: &[u8],
    ) -> Result<Event<'static>, Violation> {
        if header.stream != 0 && self.is_idle(header.stream) {
            return Err(Violation::protocol("window update on an idle stream"));
        }
        let increment = match window_update::parse(header, payload) {
            Ok(increment) => increment,
            Err(fault) => return self.fault(header.stream, fault),
        };
        if increment < USEFUL_INCREMENT {
            self.idle_frame(false)?;
        }
        if header.stream == 0 {
            let opened = self.outbound.grow(increment).map_err(overflow)?;
            return Ok(window(opened, None));
        }
        let Some(key) = self.streams.find(header.stream) else {
            if increment >= USEFUL_INCREMENT {
                self.idle_frame(false)?;
            }
            return Ok(Event::Nothing);
        };
        let stream = self.streams.of_mut(key);
        match stream.outbound.grow(increment) {
            Ok(opened) => Ok(window(opened && stream.state.may_send(), Some(key))),
            Err(Overflow) => self.fault(header.stream, Fault::Stream(Code::FlowControlError)),
        }
    }

    pub(super) fn rst_stream(&mut self, id: u32, code: Code) -> Result<Event<'static>, Violation> {
        if self.is_idle(id) {
            return Err(Violation::protocol("reset of an idle stream"));
        }
        let live = self.streams.find(id);
        let live = live.filter(|key| !self.streams.of(*key).state.is_closed());
        let Some(stream) = live else {
            return self.idle_frame(false).map(|()| Event::Nothing);
        };
        if !self.streams.of(stream).answered {
            self.spend_reset()?;
        }
        self.streams
            .step(stream, |state| state.reset(Ending::ResetByPeer));
        Ok(Event::Reset {
            stream,
            code,
            unprocessed: code == Code::RefusedStream && self.config.role == Role::Client,
        })
    }

    pub(super) fn goaway(
        &mut self,
        header: &Header,
        payload: &[u8],
    ) -> Result<Event<'static>, Violation> {
        let (last, code) = goaway::parse(header, payload)?;
        // A later one may only take back more (section 6.8).
        let before = self.peer.leaving.unwrap_or(last);
        self.peer.leaving = Some(last.min(before));
        Ok(Event::GoAway { code })
    }

    /// After `Event::GoAway`, until there is none: a stream of ours that the peer will not
    /// process, now closed, so that its request may be sent again elsewhere.
    pub fn next_reset(&mut self) -> Option<Key> {
        let last = self.peer.leaving?;
        if self.config.role == Role::Server {
            return None;
        }
        let stream = self.streams.beyond(last)?;
        self.streams
            .step(stream, |state| state.reset(Ending::ResetByPeer));
        Some(stream)
    }

    /// Asks the peer for an answer, which comes as `Event::Pong`.
    pub fn ping(&mut self, payload: [u8; 8]) {
        ping::write(false, payload, &mut self.output);
    }

    /// Whether the stream is one that `open` gave and whose request was not sent.
    pub(super) fn is_unsent(&self, stream: Key) -> bool {
        self.streams.of(stream).state == State::Idle
    }
}

fn window(opened: bool, stream: Option<Key>) -> Event<'static> {
    match opened {
        true => Event::Window { stream },
        false => Event::Nothing,
    }
}

#[cold]
fn overflow(Overflow: Overflow) -> Violation {
    Violation::new(Code::FlowControlError, "window grows beyond 2^31 - 1 bytes")
}
