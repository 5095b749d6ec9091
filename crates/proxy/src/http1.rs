//! The edges of `wire::http1`: heads read from streams, answers of our own. Called by `request`
//! and `forward`; decides nothing about a request.

use crate::body::Patience;
use crate::buffer::Inbox;
use crate::connection::Client;
use crate::error::{Error, Flag, Result};
use crate::exchange::Exchange;
use crate::forward::Peer;
use crate::pool::Pinned;
use crate::record::Record;
use crate::stream::Stream;
use crate::trust::Standing;
use std::future::poll_fn;
use std::io::{self, IoSlice, Write};
use std::task::Poll;
use std::time::Duration;
use wire::http1::{Body, Limits, Method, Parsed};

/// How long and how much is read from a downstream whose connection we end, so that our last
/// answer is not lost to a reset.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 256 * 1024;

/// How long a connection may go on without a request whose proof ends with an authority that is to
/// go. Its client is to come anew before that is gone, and learns so from the next answer; only of
/// one that asks for nothing all this while is it taken that no request is on its way. An authority
/// has to be trusted for longer than that after another has taken its place.
const OUTGOING_IDLE: Duration = Duration::from_secs(5);

/// The downstream side of a connection that speaks HTTP/1.
pub(crate) struct Link {
    pub(crate) stream: Stream,
    pub(crate) inbox: Inbox,
    /// The upstream connection on which the client proved itself (NTLM, Negotiate): nobody else
    /// may use it, and the client may use no other.
    pub(crate) pinned: Option<Box<Pinned>>,
}

/// Waits until the downstream sends something; `false` when it ended, was idle for too long, or
/// has to go. Reads it: that a socket may be readable does not say that a request began.
pub(crate) async fn await_bytes(client: &Client, link: &mut Link, idle: Patience) -> bool {
    let Link { stream, inbox, .. } = link;
    if !inbox.is_empty() {
        return true;
    }
    let began = poll_fn(|_| match stream.poll_fill(inbox) {
        Poll::Ready(Ok(count)) => Poll::Ready(count > 0),
        // A broken record is found again, and answered, by who reads the head.
        Poll::Ready(Err(error)) => Poll::Ready(error.kind() == io::ErrorKind::InvalidData),
        // The rest of a record has to come as soon as the rest of a head.
        Poll::Pending if !inbox.holds_nothing() => Poll::Ready(true),
        Poll::Pending if client.worker.is_closing_idle() => Poll::Ready(false),
        Poll::Pending if is_lost(client, idle) => Poll::Ready(false),
        Poll::Pending => Poll::Pending,
    });
    began.await
}

/// Whether a connection without a request is trusted no more. One that soon will not be is given
/// less time to rest.
fn is_lost(client: &Client, idle: Patience) -> bool {
    let view = client.worker.view();
    let standing = client.standing(&view);
    if standing == Standing::Confirmed && client.is_outgoing(&view) {
        let limit = match idle.idle {
            Duration::ZERO => OUTGOING_IDLE,
            limit => limit.min(OUTGOING_IDLE),
        };
        idle.start_with(&client.worker.reactor, limit);
    }
    standing == Standing::Lost
}

/// Reads more of what the downstream sends; `false` when it ended or failed.
pub(crate) async fn read_more(link: &mut Link) -> bool {
    matches!(link.stream.fill(&mut link.inbox).await, Ok(1..))
}

/// Reads a request's head into `exchange`.
///
/// # Errors
/// `DownstreamProtocol` with the status to answer, `DownstreamTimeout`, `DownstreamClosed`.
pub(crate) async fn read_request(
    link: &mut Link,
    exchange: &mut Exchange,
    limits: &Limits,
) -> Result<()> {
    let mut seen = 0;
    loop {
        let bytes = link.inbox.bytes();
        match exchange.request.parse_more(bytes, seen, limits) {
            Ok(Parsed::Complete) => return Ok(()),
            Ok(Parsed::Partial) => seen = bytes.len(),
            Err(reject) => {
                return Err(Error::with_status(
                    Flag::DownstreamProtocol,
                    reject.status(),
                ));
            }
        }
        match link.stream.fill(&mut link.inbox).await {
            Ok(1..) => {}
            Ok(0) => return Err(Error::new(Flag::DownstreamClosed)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(Error::new(Flag::DownstreamTimeout));
            }
            Err(error) => return Err(Error::downstream(error)),
        }
    }
}

/// Reads an answer's head into `exchange`, as long as the downstream is there to have it.
///
/// # Errors
/// Of the upstream's side; `DownstreamClosed` when the downstream was reset meanwhile.
pub(crate) async fn read_response(
    up: &Stream,
    inbox: &mut Inbox,
    exchange: &mut Exchange,
    limits: &Limits,
    down: Peer<'_>,
) -> Result<()> {
    let mut seen = 0;
    loop {
        let bytes = inbox.bytes();
        let parsed = match seen {
            0 if bytes.is_empty() => Ok(Parsed::Partial),
            _ => exchange
                .response
                .parse_more(bytes, seen, limits, exchange.request.method),
        };
        match parsed {
            Ok(Parsed::Complete) => return Ok(()),
            Ok(Parsed::Partial) => seen = bytes.len(),
            Err(_) => return Err(Error::new(Flag::UpstreamProtocol)),
        }
        let filled = poll_fn(|_| {
            if down.is_gone() {
                return Poll::Ready(Err(Error::new(Flag::DownstreamClosed)));
            }
            let polled = up.poll_fill(inbox);
            polled.map_err(|error| Error::upstream(Flag::UpstreamClosed, error))
        });
        if filled.await? == 0 {
            return Err(Error::new(Flag::UpstreamClosed));
        }
    }
}

/// Answers a request ourselves; says whether the connection can go on.
pub(crate) async fn answer(
    client: &Client,
    link: &mut Link,
    exchange: &Exchange,
    error: &Error,
    record: &mut Record,
) -> bool {
    let whole = match error.flag {
        Flag::DownstreamProtocol | Flag::DownstreamTimeout => None,
        _ if exchange.gone => None,
        _ => whole_request(link, exchange),
    };
    let stay = whole.is_some() && exchange.request.keep_alive && client.may_stay();
    let head_only = exchange.request.method == Method::Head;
    let text = local_answer(error, exchange, stay, head_only);
    record.status = error.status();
    record.answered = true;
    let sent = link.stream.write(&[IoSlice::new(&text)]);
    let sent = sent.is_ok() && link.stream.flush().await.is_ok();
    match whole {
        Some(length) if sent && stay => {
            link.inbox.consume(length);
            true
        }
        _ => false,
    }
}

/// How many bytes the request has, if all of it has arrived.
fn whole_request(link: &Link, exchange: &Exchange) -> Option<usize> {
    let head = exchange.request.len;
    let mut body = Body::new(exchange.request.framing);
    let length = body.advance(link.inbox.bytes().get(head..)?).ok()?;
    body.is_done().then_some(head + length)
}

fn local_answer(error: &Error, exchange: &Exchange, stay: bool, head_only: bool) -> Vec<u8> {
    let status = error.status();
    let mut text = format!("HTTP/1.1 {status} {}\r\n", reason_phrase(status)).into_bytes();
    let body = match error.is_redirect() {
        true => {
            text.extend_from_slice(&exchange.response_extra);
            String::new()
        }
        false => {
            text.extend_from_slice(b"content-type: text/plain\r\n");
            format!("{}\n", error.reason())
        }
    };
    write!(text, "content-length: {}\r\n", body.len()).expect("writing to memory does not fail");
    if !stay {
        text.extend_from_slice(b"connection: close\r\n");
    }
    text.extend_from_slice(b"\r\n");
    if !head_only {
        text.extend_from_slice(body.as_bytes());
    }
    text
}

fn reason_phrase(status: u16) -> &'static str {
    match status {
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}

/// Ends our direction and reads what the downstream still sends, within bounds.
pub(crate) async fn linger(client: &Client, link: &mut Link) {
    link.stream.finish();
    client.worker.reactor.deadline_after(LINGER);
    let mut left = LINGER_BYTES;
    while left > 0 {
        let waiting = link.inbox.bytes().len();
        link.inbox.consume(waiting);
        left = left.saturating_sub(waiting);
        if !read_more(link).await {
            return;
        }
    }
}
