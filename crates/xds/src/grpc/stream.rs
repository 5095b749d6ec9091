//! The two directions of a call, the same on both sides of it. Capacity is given back as soon as
//! bytes are in the decoder, which never holds more than one message and one frame.

use super::frame::{Decoder, PREFIX_BYTES, encode, prefix};
use super::{Error, Status};
use bytes::{Bytes, BytesMut};
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Response, StatusCode};
use prost::Message;
use std::future::poll_fn;

/// What a frame of HTTP/2 holds, if nobody says otherwise.
const FRAME_BYTES: usize = 16 << 10;

/// The direction to the peer. Dropped without [`Self::end`] or [`Self::finish`], it cancels.
#[derive(Debug)]
pub struct Sender {
    stream: SendStream<Bytes>,
}

/// The direction from the peer. Dropped before its end, it cancels.
#[derive(Debug)]
pub struct Receiver {
    source: Source,
    decoder: Decoder,
    /// Who calls learns from trailers how the call ended.
    is_caller: bool,
}

#[derive(Debug)]
enum Source {
    /// No head yet.
    Waiting(ResponseFuture),
    Open(RecvStream),
    Ended,
}

impl Sender {
    pub(super) const fn new(stream: SendStream<Bytes>) -> Self {
        Self { stream }
    }

    /// Sends one message, as fast as the peer takes it.
    ///
    /// # Errors
    /// [`Error::Http2`], [`Error::Ended`]: the call is over; why, the other direction knows.
    pub async fn send(&mut self, message: &impl Message) -> Result<(), Error> {
        self.write(encode(message)).await
    }

    /// Sends one message that is encoded already.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub async fn send_bytes(&mut self, message: Bytes) -> Result<(), Error> {
        self.send_parts(&[message]).await
    }

    /// Sends one message that lies in `parts`. Only one frame of it is copied at a time, and what
    /// fills frames by itself not at all.
    ///
    /// # Errors
    /// As [`Self::send`]. What was sent of it cannot be taken back: the call is of no further use.
    pub async fn send_parts(&mut self, parts: &[Bytes]) -> Result<(), Error> {
        let length = parts.iter().map(Bytes::len).sum();
        let mut frame = BytesMut::with_capacity(FRAME_BYTES.min(PREFIX_BYTES + length));
        frame.extend_from_slice(&prefix(length));
        for part in parts {
            if frame.len() + part.len() > FRAME_BYTES {
                self.write(frame.split().freeze()).await?;
            }
            match part.len() {
                FRAME_BYTES.. => self.write(part.clone()).await?,
                _ => frame.extend_from_slice(part),
            }
        }
        self.write(frame.freeze()).await
    }

    /// Says that nothing more is asked; for the side that called.
    ///
    /// # Errors
    /// [`Error::Http2`]: the call is over already.
    pub fn end(mut self) -> Result<(), Error> {
        Ok(self.stream.send_data(Bytes::new(), true)?)
    }

    /// Ends the call; for the side that was called.
    ///
    /// # Errors
    /// [`Error::Http2`]: the call is over already.
    pub fn finish(mut self, status: &Status) -> Result<(), Error> {
        let mut trailers = HeaderMap::new();
        status.write(&mut trailers);
        Ok(self.stream.send_trailers(trailers)?)
    }

    async fn write(&mut self, mut bytes: Bytes) -> Result<(), Error> {
        while !bytes.is_empty() {
            self.stream.reserve_capacity(bytes.len());
            let mut capacity = self.stream.capacity();
            while capacity == 0 {
                let more = poll_fn(|ctx| self.stream.poll_capacity(ctx)).await;
                capacity = more.ok_or(Error::Ended)??;
            }
            let part = bytes.split_to(capacity.min(bytes.len()));
            self.stream.send_data(part, false)?;
        }
        Ok(())
    }
}

impl Receiver {
    pub(super) fn of_caller(response: ResponseFuture, message_bytes_max: usize) -> Self {
        Self {
            source: Source::Waiting(response),
            decoder: Decoder::new(message_bytes_max),
            is_caller: true,
        }
    }

    pub(super) fn of_called(body: RecvStream, message_bytes_max: usize) -> Self {
        Self {
            source: Source::Open(body),
            decoder: Decoder::new(message_bytes_max),
            is_caller: false,
        }
    }

    /// The next message; `None` after the last one. It may be dropped while it waits: nothing is
    /// lost then.
    ///
    /// # Errors
    /// [`Error`]; on [`Error::Malformed`] the next message may be asked for, otherwise the call is
    /// over.
    pub async fn recv<M: Message + Default>(&mut self) -> Result<Option<M>, Error> {
        let bytes = self.recv_bytes().await?;
        Ok(bytes.map(M::decode).transpose()?)
    }

    /// As [`Self::recv`], without a look at the message.
    ///
    /// # Errors
    /// As [`Self::recv`].
    pub async fn recv_bytes(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(message) = self.decoder.take()? {
                return Ok(Some(message));
            }
            match &mut self.source {
                Source::Waiting(response) => {
                    let response = response.await?;
                    self.source = Source::Open(open(response)?);
                }
                Source::Open(body) => match poll_fn(|ctx| body.poll_data(ctx)).await {
                    Some(data) => {
                        let data = data?;
                        self.decoder.push(&data);
                        body.flow_control().release_capacity(data.len())?;
                    }
                    None => return self.finish().await,
                },
                Source::Ended => return Ok(None),
            }
        }
    }

    async fn finish(&mut self) -> Result<Option<Bytes>, Error> {
        let Source::Open(body) = &mut self.source else {
            return Ok(None);
        };
        let trailers = poll_fn(|ctx| body.poll_trailers(ctx)).await?;
        self.source = Source::Ended;
        if !self.decoder.is_empty() {
            return Err(Error::Ended);
        }
        if !self.is_caller {
            return Ok(None);
        }
        let status = trailers.as_ref().and_then(Status::read);
        match status.ok_or(Error::Ended)? {
            status if status.is_ok() => Ok(None),
            status => Err(status.into()),
        }
    }
}

/// The body of an answer, unless its head is its end.
fn open(response: Response<RecvStream>) -> Result<RecvStream, Error> {
    match Status::read(response.headers()) {
        Some(status) if !status.is_ok() => Err(status.into()),
        // A status in the head is an end: there was nothing to say.
        Some(_) => Err(Error::Ended),
        None if response.status() == StatusCode::OK => Ok(response.into_body()),
        None => Err(Error::NotGrpc(response.status().as_u16())),
    }
}
