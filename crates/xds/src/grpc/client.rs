//! The side that calls. Used by the sidecar (streams of resources, signing) and by tests.

use super::{CONTENT_TYPE, Error, Keepalive, MESSAGE_BYTES_MAX, Receiver, Sender};
use bytes::Bytes;
use h2::PingPong;
use h2::client::{Builder, Connection, SendRequest};
use http::header::{CONTENT_TYPE as CONTENT_TYPE_NAME, HeaderMap, HeaderValue, TE};
use http::uri::{Authority, Scheme};
use http::{Method, Request, Uri};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};

/// Windows: a push goes on for so many bytes before it waits for a round trip, and so many wait
/// here at most until they are read.
const WINDOW_BYTES: u32 = 256 << 10;
/// Who is called is proven by its certificate; the name is only there because HTTP wants one.
const AUTHORITY: &str = "leno-control";
const HEADER_BYTES_MAX: u32 = 16 << 10;

/// A connection on which calls can be made, any number at once.
#[derive(Clone, Debug)]
pub struct Channel {
    requests: SendRequest<Bytes>,
    scheme: Scheme,
    authority: Authority,
}

/// What moves the bytes of a [`Channel`]. Nothing happens on the channel unless this runs.
pub struct Driver<T> {
    connection: Connection<T, Bytes>,
    pings: PingPong,
}

/// Begins HTTP/2 on `io`, which is verified and has agreed on `h2` already.
///
/// # Errors
/// [`Error::Http2`].
pub async fn connect<T>(io: T) -> Result<(Channel, Driver<T>), Error>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = Builder::new();
    builder
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_header_list_size(HEADER_BYTES_MAX)
        .enable_push(false);
    let (requests, mut connection) = builder.handshake(io).await?;
    let pings = connection
        .ping_pong()
        .expect("nobody else has asked for it");
    let channel = Channel {
        requests,
        scheme: Scheme::HTTPS,
        authority: Authority::from_static(AUTHORITY),
    };
    Ok((channel, Driver { connection, pings }))
}

impl<T: AsyncRead + AsyncWrite + Unpin> Driver<T> {
    /// Runs until the connection ends: well, because nobody uses it any more or the peer closed
    /// it, or badly.
    ///
    /// # Errors
    /// [`Error::Http2`], [`Error::Silent`].
    pub async fn run(self, keepalive: Keepalive) -> Result<(), Error> {
        tokio::select! {
            ended = self.connection => Ok(ended?),
            error = keepalive.watch(self.pings) => Err(error),
        }
    }
}

impl Channel {
    /// The same with other words for whom is called, for servers that go by them.
    #[must_use]
    pub fn calling(self, scheme: Scheme, authority: Authority) -> Self {
        Self {
            scheme,
            authority,
            ..self
        }
    }

    /// Opens a stream of messages both ways. `path` is `/SERVICE/METHOD`. That the peer takes it is
    /// known with the first message.
    ///
    /// # Errors
    /// [`Error::Http2`], [`Error::Unwritable`].
    pub async fn bidi(&self, path: &str, metadata: HeaderMap) -> Result<(Sender, Receiver), Error> {
        let request = self.head(path, metadata)?;
        let mut requests = self.requests.clone().ready().await?;
        let (response, body) = requests.send_request(request, false)?;
        let receiver = Receiver::of_caller(response, MESSAGE_BYTES_MAX);
        Ok((Sender::new(body), receiver))
    }

    /// Asks once and waits for the answer.
    ///
    /// # Errors
    /// [`Error`]; what the peer refuses is [`Error::Status`].
    pub async fn unary<A: Message + Default>(
        &self,
        path: &str,
        metadata: HeaderMap,
        message: &impl Message,
    ) -> Result<A, Error> {
        let (mut sender, mut receiver) = self.bidi(path, metadata).await?;
        // A peer that refuses before it has read says why in the other direction.
        if sender.send(message).await.is_ok() {
            let _ = sender.end();
        }
        let answer = receiver.recv().await?.ok_or(Error::Ended)?;
        match receiver.recv_bytes().await? {
            None => Ok(answer),
            Some(_) => Err(Error::Ended),
        }
    }

    fn head(&self, path: &str, metadata: HeaderMap) -> Result<Request<()>, Error> {
        let uri = Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(path)
            .build()?;
        let mut request = Request::builder().method(Method::POST).uri(uri).body(())?;
        let headers = request.headers_mut();
        *headers = metadata;
        headers.insert(CONTENT_TYPE_NAME, HeaderValue::from_static(CONTENT_TYPE));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        Ok(request)
    }
}
