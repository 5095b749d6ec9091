//! Reads a message with hyper: as a real server or client at one end of a pipe in memory.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use wire::http1::Method;

use super::verdict::{Message, Theirs};

/// Room for any generated message, so that writing one never waits for its reader.
const PIPE_BYTES: usize = 1 << 20;

/// The first request in `bytes`, after which the connection is closed.
pub(crate) async fn read_request(bytes: &[u8]) -> Theirs {
    let (far, near) = duplex(PIPE_BYTES);
    let first = Rc::new(RefCell::new(None));
    let service = service_fn(|request: Request<Incoming>| {
        let first = Rc::clone(&first);
        async move {
            let message = request_message(request).await;
            first.borrow_mut().get_or_insert(message);
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let serve = hyper::server::conn::http1::Builder::new()
        .half_close(true)
        .keep_alive(false)
        .serve_connection(TokioIo::new(near), service);
    let (_, ()) = tokio::join!(serve, say(far, bytes));
    first.take().flatten()
}

/// The first final response in `bytes` to a request with this method.
pub(crate) async fn read_response(bytes: &[u8], method: Method) -> Theirs {
    let (far, near) = duplex(PIPE_BYTES);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near))
        .await
        .unwrap();
    let method = if method == Method::Head {
        "HEAD"
    } else {
        "GET"
    };
    let request = Request::builder()
        .method(method)
        .uri("/")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let receive = async {
        let response = sender.send_request(request).await.ok()?;
        response_message(response).await
    };
    let (message, _, ()) = tokio::join!(receive, connection, answer(far, bytes));
    message
}

/// Writes `bytes`, closes that direction, and reads what comes back to its end.
async fn say(mut far: DuplexStream, bytes: &[u8]) {
    // The reader may close as soon as it has seen enough; its verdict is what counts.
    let _ = far.write_all(bytes).await;
    let _ = far.shutdown().await;
    let _ = far.read_to_end(&mut Vec::new()).await;
}

/// Waits for a request, which has no body, before it says anything.
async fn answer(mut far: DuplexStream, bytes: &[u8]) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if far.read_buf(&mut request).await.unwrap() == 0 {
            return;
        }
    }
    say(far, bytes).await;
}

async fn request_message(request: Request<Incoming>) -> Option<Message> {
    let (head, body) = request.into_parts();
    let start = format!("{} {} {}", head.method, head.uri, version(head.version));
    message(start, &head.headers, body).await
}

async fn response_message(response: Response<Incoming>) -> Option<Message> {
    let (head, body) = response.into_parts();
    let start = format!("{} {}", head.status.as_u16(), version(head.version));
    message(start, &head.headers, body).await
}

async fn message(start: String, headers: &HeaderMap, body: Incoming) -> Option<Message> {
    let lines = headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    let body = body.collect().await.ok()?.to_bytes().to_vec();
    Some(Message { start, lines, body })
}

fn version(version: Version) -> &'static str {
    if version == Version::HTTP_10 {
        "Http10"
    } else {
        "Http11"
    }
}
