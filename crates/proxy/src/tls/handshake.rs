//! The handshake of both sides: rustls' unbuffered connection driven over our stream, then its
//! secrets taken over by [`super::Tls`]. Called by `connection` (accept) and `pool` (connect).

use crate::buffer::Inbox;
use crate::stream::Stream;
use crate::tls::{Keys, Tls};
use identity::HandshakeFailure;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, Error, ExtractedSecrets, HandshakeKind, ServerConfig};
use std::io::{self, IoSlice};
use std::sync::Arc;

/// Handshake bytes that may wait unprocessed: more than any sane chain of certificates.
const FLIGHT_MAX: usize = 64 * 1024;

/// Why a handshake did not come about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Tls(#[from] Error),
}

impl Failure {
    /// As the metrics and the log call it.
    pub(crate) fn classify(&self) -> HandshakeFailure {
        match self {
            Self::Tls(error) => identity::failure::classify(error),
            Self::Io(error) => match error.kind() {
                io::ErrorKind::TimedOut => HandshakeFailure::TimedOut,
                io::ErrorKind::InvalidData => HandshakeFailure::Protocol,
                _ => HandshakeFailure::Closed,
            },
        }
    }
}

/// What a handshake proved.
pub(crate) struct Proven {
    /// The peer's chain, leaf first; verified (when resumed: at the time of the first handshake).
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) resumed: bool,
    /// The protocol that both agreed on.
    pub(crate) alpn: Option<Vec<u8>>,
}

/// The two sides of rustls' connection, seen alike.
trait Side: Sized {
    type Data;
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn state(&self) -> &CommonState;
    fn finish(self) -> Result<(ExtractedSecrets, Keys), Error>;
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn process<'c, 'i>(&'c mut self, raw: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(raw)
    }
    fn state(&self) -> &CommonState {
        self
    }
    fn finish(self) -> Result<(ExtractedSecrets, Keys), Error> {
        let (secrets, keys) = self.dangerous_into_kernel_connection()?;
        Ok((secrets, Keys::Server(keys)))
    }
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn process<'c, 'i>(&'c mut self, raw: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(raw)
    }
    fn state(&self) -> &CommonState {
        self
    }
    fn finish(self) -> Result<(ExtractedSecrets, Keys), Error> {
        let (secrets, keys) = self.dangerous_into_kernel_connection()?;
        Ok((secrets, Keys::Client(keys)))
    }
}

/// Answers a handshake whose first bytes are in `inbox`; `stream` speaks TLS from then on.
pub(crate) async fn accept(
    stream: &mut Stream,
    inbox: &mut Inbox,
    config: &Arc<ServerConfig>,
) -> Result<Proven, Failure> {
    inbox.plain_to_raw();
    let side = UnbufferedServerConnection::new(Arc::clone(config))?;
    run(stream, inbox, side).await
}

/// Begins a handshake; `stream` speaks TLS from then on.
pub(crate) async fn connect(
    stream: &mut Stream,
    inbox: &mut Inbox,
    config: &Arc<ClientConfig>,
    name: ServerName<'static>,
) -> Result<Proven, Failure> {
    let side = UnbufferedClientConnection::new(Arc::clone(config), name)?;
    run(stream, inbox, side).await
}

async fn run<S: Side>(
    stream: &mut Stream,
    inbox: &mut Inbox,
    mut side: S,
) -> Result<Proven, Failure> {
    let mut early = Vec::new();
    let mut out = Vec::new();
    let mut closed = false;
    loop {
        let step = step(&mut side, inbox, &mut out, &mut early);
        if !out.is_empty() && !matches!(step, Ok(Step::Again)) {
            stream.write(&[IoSlice::new(&out)])?;
            out.clear();
            stream.flush().await?;
        }
        match step? {
            Step::Again => {}
            Step::Closed => closed = true,
            Step::Blocked => read(stream, inbox).await?,
            Step::Done => break,
        }
    }
    if !early.is_empty() {
        inbox.prepend(&early);
    }
    let chain = side.state().peer_certificates().unwrap_or_default();
    let chain = chain.iter().map(|cert| cert.clone().into_owned()).collect();
    let resumed = side.state().handshake_kind() == Some(HandshakeKind::Resumed);
    let alpn = side.state().alpn_protocol().map(<[u8]>::to_vec);
    let (secrets, keys) = side.finish()?;
    let tls = Tls::new(secrets, keys)?;
    if closed {
        tls.peer_closed();
    }
    stream.tls = Some(Box::new(tls));
    Ok(Proven {
        chain,
        resumed,
        alpn,
    })
}

enum Step {
    Again,
    /// The peer will send nothing more, perhaps behind a request in the same flight.
    Closed,
    Blocked,
    Done,
}

/// One state of the handshake; on an error the alert that tells the peer is put into `out`.
fn step<S: Side>(
    side: &mut S,
    inbox: &mut Inbox,
    out: &mut Vec<u8>,
    early: &mut Vec<u8>,
) -> Result<Step, Failure> {
    let UnbufferedStatus { discard, state } = side.process(inbox.raw());
    let step = match state {
        Err(error) => Err(error),
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            encode(out, |buf| data.encode(buf)).map(|()| Step::Again)
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Step::Again)
        }
        Ok(ConnectionState::ReadTraffic(mut data)) => {
            while let Some(record) = data.next_record() {
                early.extend_from_slice(record?.payload);
            }
            Ok(Step::Again)
        }
        Ok(ConnectionState::PeerClosed) => Ok(Step::Closed),
        Ok(ConnectionState::BlockedHandshake) => Ok(Step::Blocked),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Step::Done),
        Ok(_) => Err(Error::HandshakeNotComplete),
    };
    inbox.discard_raw(discard);
    if step.is_err() {
        alert(side, inbox, out);
    }
    Ok(step?)
}

fn encode(
    out: &mut Vec<u8>,
    mut encode: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), Error> {
    let start = out.len();
    if let Err(EncodeError::InsufficientSize(needed)) = encode(&mut []) {
        out.resize(start + needed.required_size, 0);
    }
    match encode(&mut out[start..]) {
        Ok(written) => {
            out.truncate(start + written);
            Ok(())
        }
        Err(error) => Err(Error::General(error.to_string())),
    }
}

/// After an error rustls has an alert for the peer, perhaps behind a part of its flight. It
/// remembers its place in what was received, so it must be shown the same bytes again, and not once
/// more than it has something to say: it would find the same fault anew.
fn alert<S: Side>(side: &mut S, inbox: &mut Inbox, out: &mut Vec<u8>) {
    while side.state().wants_write()
        && let Ok(ConnectionState::EncodeTlsData(mut data)) = side.process(inbox.raw()).state
    {
        // The handshake has failed already; an alert that cannot be encoded changes nothing.
        if encode(out, |buf| data.encode(buf)).is_err() {
            return;
        }
    }
}

async fn read(stream: &Stream, inbox: &mut Inbox) -> Result<(), Failure> {
    if inbox.raw().len() > FLIGHT_MAX {
        return Err(io::Error::from(io::ErrorKind::InvalidData).into());
    }
    match stream.fill_raw(inbox).await? {
        0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        _ => Ok(()),
    }
}
