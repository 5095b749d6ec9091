//! The side that is called. One [`Connection`] per peer, one [`Call`] per request of it.
//! Used by the control plane and by tests. What a peer can make it hold is bounded by [`Limits`].

use super::{CONTENT_TYPE, Error, Keepalive, MESSAGE_BYTES_MAX, Receiver, Sender, Status};
use bytes::Bytes;
use h2::server::{self, Builder, SendResponse};
use http::header::{CONTENT_TYPE as CONTENT_TYPE_NAME, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use prost::Message;
use std::fmt;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};

/// What one peer may do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls at once.
    pub streams: u32,
    /// Bytes of one message.
    pub message_bytes: usize,
    /// Bytes of one request's headers.
    pub header_bytes: u32,
    /// Bytes of all its calls that wait to be read.
    pub window_bytes: u32,
    /// Bytes of one answer that wait for a slow peer.
    pub buffer_bytes: usize,
    /// When a silent peer is given up.
    pub keepalive: Keepalive,
}

impl Default for Limits {
    /// 8 calls: a sidecar needs one for resources and one now and then for a certificate.
    /// 16 KiB of headers: a token and a dozen short lines. 64 KiB wait at most, either way: it is
    /// the least that HTTP/2 has.
    fn default() -> Self {
        Self {
            streams: 8,
            message_bytes: MESSAGE_BYTES_MAX,
            header_bytes: 16 << 10,
            window_bytes: 65_535,
            buffer_bytes: 64 << 10,
            keepalive: Keepalive::default(),
        }
    }
}

/// A peer's connection. It makes progress only while [`Self::next`] is awaited.
pub struct Connection<T> {
    http2: server::Connection<T, Bytes>,
    silence: Pin<Box<dyn Future<Output = Error> + Send>>,
    message_bytes_max: usize,
}

/// One request, not answered yet. Dropped, it is cancelled.
pub struct Call {
    /// `/SERVICE/METHOD`.
    pub path: String,
    /// All headers.
    pub metadata: HeaderMap,
    receiver: Receiver,
    respond: SendResponse<Bytes>,
}

impl fmt::Debug for Call {
    /// Without metadata, which may hold a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Begins HTTP/2 on `io`, on which a peer has agreed on `h2`.
///
/// # Errors
/// [`Error::Http2`].
pub async fn accept<T>(io: T, limits: &Limits) -> Result<Connection<T>, Error>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.header_bytes)
        .max_send_buffer_size(limits.buffer_bytes)
        .initial_window_size(limits.window_bytes)
        .initial_connection_window_size(limits.window_bytes);
    let mut http2: server::Connection<T, Bytes> = builder.handshake(io).await?;
    let pings = http2.ping_pong().expect("nobody else has asked for it");
    Ok(Connection {
        http2,
        silence: Box::pin(limits.keepalive.watch(pings)),
        message_bytes_max: limits.message_bytes,
    })
}

impl<T: AsyncRead + AsyncWrite + Unpin> Connection<T> {
    /// The next call; `None` when the connection has ended well. To be awaited until then, for
    /// calls that were taken are served by it too. It may be dropped while it waits.
    ///
    /// # Errors
    /// [`Error::Http2`], [`Error::Silent`]: the connection is over.
    pub async fn next(&mut self) -> Option<Result<Call, Error>> {
        loop {
            let accepted = tokio::select! {
                accepted = self.http2.accept() => accepted?,
                error = &mut self.silence => return Some(Err(error)),
            };
            match accepted {
                Ok((request, respond)) => {
                    if let Some(call) = Call::new(request, respond, self.message_bytes_max) {
                        return Some(Ok(call));
                    }
                }
                Err(error) => return Some(Err(error.into())),
            }
        }
    }

    /// Takes no further calls; [`Self::next`] ends with the last one under way.
    pub fn close(&mut self) {
        self.http2.graceful_shutdown();
    }

    /// Ends everything at once.
    pub fn abort(&mut self) {
        self.http2.abrupt_shutdown(h2::Reason::NO_ERROR);
    }
}

impl Call {
    /// `None` for what is not gRPC, which is answered with a status of HTTP.
    fn new(
        request: Request<h2::RecvStream>,
        mut respond: SendResponse<Bytes>,
        message_bytes_max: usize,
    ) -> Option<Self> {
        let (head, body) = request.into_parts();
        if let Some(status) = find_fault(&head.method, &head.headers) {
            let mut response = Response::new(());
            *response.status_mut() = status;
            // One that is gone already needs no answer.
            let _ = respond.send_response(response, true);
            return None;
        }
        Some(Self {
            path: head.uri.path().to_owned(),
            metadata: head.headers,
            receiver: Receiver::of_called(body, message_bytes_max),
            respond,
        })
    }

    /// The one message of a unary call.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Ended`] if there is none.
    pub async fn request<M: Message + Default>(&mut self) -> Result<M, Error> {
        self.receiver.recv().await?.ok_or(Error::Ended)
    }

    /// Answers a unary call.
    ///
    /// # Errors
    /// [`Error::Http2`], [`Error::Ended`]: the peer does not want it any more.
    pub async fn reply(self, message: &impl Message) -> Result<(), Error> {
        // The receiver stays until the end: without it, the peer would be told to stop sending.
        let (mut sender, _receiver) = self.open()?;
        sender.send(message).await?;
        sender.finish(&Status::ok())
    }

    /// Ends the call with nothing but `status`.
    pub fn refuse(mut self, status: &Status) {
        let mut response = head();
        status.write(response.headers_mut());
        // One that is gone already needs no answer.
        let _ = self.respond.send_response(response, true);
    }

    /// Begins to stream.
    ///
    /// # Errors
    /// [`Error::Http2`]: the peer does not want it any more.
    pub fn open(mut self) -> Result<(Sender, Receiver), Error> {
        let body = self.respond.send_response(head(), false)?;
        Ok((Sender::new(body), self.receiver))
    }
}

fn head() -> Response<()> {
    let mut response = Response::new(());
    let content_type = HeaderValue::from_static(CONTENT_TYPE);
    response
        .headers_mut()
        .insert(CONTENT_TYPE_NAME, content_type);
    response
}

fn find_fault(method: &Method, headers: &HeaderMap) -> Option<StatusCode> {
    if method != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let content_type = headers.get(CONTENT_TYPE_NAME).map(HeaderValue::as_bytes);
    match content_type.and_then(|value| value.strip_prefix(CONTENT_TYPE.as_bytes())) {
        Some(b"" | [b'+' | b';', ..]) => None,
        _ => Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}
