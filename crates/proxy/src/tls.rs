//! TLS on a connection after its handshake: records sealed and opened in the connection's own
//! buffers, keys updated. rustls does the handshake and keeps the key schedule; see
//! `docs/adr/0003-own-record-layer.md`. Called by [`crate::stream`] only.

pub(crate) mod handshake;
mod record;

use crate::buffer::Inbox;
use record::{Form, Opened, Opener, Sealer};
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{ConnectionTrafficSecrets, Error, ProtocolVersion};
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};

/// Content types (RFC 8446 §5.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;
/// Handshake messages that may follow a handshake (RFC 8446 §4).
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
/// Records without data between those with some before it counts as abuse of our time.
const EMPTY_MAX: u32 = 32;

/// The key schedule, which rustls keeps.
pub(crate) enum Keys {
    Client(KernelConnection<ClientConnectionData>),
    Server(KernelConnection<ServerConnectionData>),
}

impl Keys {
    fn version(&self) -> ProtocolVersion {
        match self {
            Self::Client(keys) => keys.protocol_version(),
            Self::Server(keys) => keys.protocol_version(),
        }
    }

    fn next_opener(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Self::Client(keys) => keys.update_rx_secret(),
            Self::Server(keys) => keys.update_rx_secret(),
        }
    }

    fn next_sealer(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Self::Client(keys) => keys.update_tx_secret(),
            Self::Server(keys) => keys.update_tx_secret(),
        }
    }
}

/// One connection's record layer.
pub(crate) struct Tls {
    opener: RefCell<Opener>,
    sealer: RefCell<Sealer>,
    keys: RefCell<Keys>,
    /// The peer said that it will send nothing more.
    closed: Cell<bool>,
    /// Records without data since the last with some.
    empty: Cell<u32>,
    /// The peer asked for new keys of our direction: due before our next data (RFC 8446 §4.6.3), so
    /// that asking often costs nothing until then.
    update_asked: Cell<bool>,
}

impl Tls {
    pub(crate) fn new(secrets: rustls::ExtractedSecrets, keys: Keys) -> io::Result<Self> {
        let form = Form::of(keys.version(), &secrets.tx.1);
        Ok(Self {
            opener: RefCell::new(Opener::new(form, secrets.rx)?),
            sealer: RefCell::new(Sealer::new(form, secrets.tx)?),
            keys: RefCell::new(keys),
            closed: Cell::new(false),
            empty: Cell::new(0),
            update_asked: Cell::new(false),
        })
    }

    /// The peer ended its direction with its handshake's last flight already.
    pub(crate) fn peer_closed(&self) {
        self.closed.set(true);
    }

    /// Whether the peer ended its direction in an orderly way.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Opens every whole record that waits in `inbox`; returns how many bytes of data they had.
    pub(crate) fn open(&self, inbox: &mut Inbox) -> io::Result<usize> {
        let mut total = 0;
        while !self.closed.get() {
            let mut opener = self.opener.borrow_mut();
            let Some(record) = opener.length(inbox.raw())? else {
                break;
            };
            let Opened {
                kind,
                offset,
                payload,
            } = opener.open(&mut inbox.raw()[..record])?;
            drop(opener);
            if kind == APPLICATION_DATA && payload > 0 {
                self.empty.set(0);
                inbox.opened(record, offset, payload);
                total += payload;
                continue;
            }
            let message = &inbox.raw()[offset..offset + payload];
            let understood = self.control(kind, message);
            inbox.opened(record, offset, 0);
            understood?;
            self.empty.set(self.empty.get() + 1);
            if self.empty.get() > EMPTY_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(total)
    }

    /// Seals all of `slices` into as few records as possible, behind what `out` holds.
    pub(crate) fn seal(&self, slices: &[IoSlice<'_>], out: &mut Vec<u8>) -> io::Result<()> {
        if self.update_asked.take() || self.sealer.borrow().is_worn() {
            self.update_sealer(false, out)?;
        }
        self.sealer.borrow_mut().seal(APPLICATION_DATA, slices, out)
    }

    /// Seals the alert that ends our direction.
    pub(crate) fn close(&self, out: &mut Vec<u8>) -> io::Result<()> {
        const WARNING: u8 = 1;
        const CLOSE_NOTIFY: u8 = 0;
        let alert = [WARNING, CLOSE_NOTIFY];
        self.sealer
            .borrow_mut()
            .seal(ALERT, &[IoSlice::new(&alert)], out)
    }

    fn control(&self, kind: u8, message: &[u8]) -> io::Result<()> {
        match (kind, message) {
            (APPLICATION_DATA, []) => {}
            // close_notify, and user_canceled which announces it.
            (ALERT, [_, 0]) => self.closed.set(true),
            (ALERT, [_, 90]) => {}
            (ALERT, _) => return Err(io::ErrorKind::ConnectionReset.into()),
            (HANDSHAKE, _) => return self.post_handshake(message),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(())
    }

    fn post_handshake(&self, mut messages: &[u8]) -> io::Result<()> {
        while let [kind, a, b, c, rest @ ..] = messages {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let (body, rest) = rest
                .split_at_checked(length)
                .ok_or(io::ErrorKind::InvalidData)?;
            messages = rest;
            match (*kind, &mut *self.keys.borrow_mut()) {
                (NEW_SESSION_TICKET, Keys::Client(keys)) => {
                    keys.handle_new_session_ticket(body).map_err(invalid)?;
                    continue;
                }
                (KEY_UPDATE, keys) => {
                    let secrets = keys.next_opener().map_err(invalid)?;
                    *self.opener.borrow_mut() = Opener::new(Form::Tls13, secrets)?;
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
            match body {
                [0] if rest.is_empty() => {}
                [1] if rest.is_empty() => self.update_asked.set(true),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        if messages.is_empty() {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    /// Announces new keys for our direction and takes them into use; an error in TLS 1.2, which
    /// knows no way to.
    fn update_sealer(&self, request: bool, out: &mut Vec<u8>) -> io::Result<()> {
        let message = [KEY_UPDATE, 0, 0, 1, u8::from(request)];
        self.sealer
            .borrow_mut()
            .seal(HANDSHAKE, &[IoSlice::new(&message)], out)?;
        let secrets = self.keys.borrow_mut().next_sealer().map_err(invalid)?;
        *self.sealer.borrow_mut() = Sealer::new(Form::Tls13, secrets)?;
        Ok(())
    }
}

fn invalid(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests;
