//! One request over HTTP/2 and its answer, by the same parameters as over HTTP/1. Called for each
//! stream of a session; what is gRPC goes on to `grpc`.

use super::{Floor, grpc};
use crate::{
    clock,
    grpc::CONTENT_TYPE as GRPC,
    serve::{echo::Ask, request::BODY_BYTES_MAX},
};
use bytes::Bytes;
use h2::{RecvStream, SendStream, server::SendResponse};
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use std::{rc::Rc, time::Duration};

/// A body held as it came, piece by piece.
pub(super) enum Body {
    Whole(Vec<Bytes>),
    TooLarge,
}

/// Answers; if that fails, the peer has reset the stream or has gone, and nobody is left to tell.
pub(super) async fn answer(
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    floor: Rc<Floor>,
) {
    let kind = request.headers().get(CONTENT_TYPE);
    let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(GRPC.as_bytes()));
    let _ = if is_grpc {
        grpc::answer(request, respond, &floor).await
    } else {
        plain(request, respond, &floor).await
    };
}

async fn plain(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    floor: &Floor,
) -> Result<(), h2::Error> {
    let (head, mut body) = request.into_parts();
    let pieces = read(&mut body).await?;
    let read_at = clock::now();
    let ask = Ask::read(
        head.uri.query().unwrap_or_default(),
        &mut floor.random.borrow_mut(),
    );
    let (status, pieces, delay) = match (pieces, ask) {
        (Body::TooLarge, _) => (413, Vec::new(), Duration::ZERO),
        (Body::Whole(_), Err(text)) => (400, vec![text.into()], Duration::ZERO),
        (Body::Whole(pieces), Ok(ask)) => {
            let asked = ask.size.map(|size| floor.payload.borrow_mut().share(size));
            let pieces = asked.map_or(pieces, |payload| vec![payload]);
            (ask.status, pieces, ask.delay)
        }
    };
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    write(&mut respond, (status, pieces), &head.method)?;
    floor.answered(read_at);
    Ok(())
}

/// Reads a body to its end, or to its limit.
pub(super) async fn read(body: &mut RecvStream) -> Result<Body, h2::Error> {
    let (mut pieces, mut length) = (Vec::new(), 0);
    while let Some(piece) = body.data().await {
        let piece = piece?;
        // It is held here from now on, within the limit.
        body.flow_control().release_capacity(piece.len())?;
        length += piece.len();
        if length > BODY_BYTES_MAX {
            return Ok(Body::TooLarge);
        }
        pieces.push(piece);
    }
    Ok(Body::Whole(pieces))
}

/// Queues an answer; h2 sends it as the windows allow.
fn write(
    respond: &mut SendResponse<Bytes>,
    (status, pieces): (u16, Vec<Bytes>),
    method: &Method,
) -> Result<(), h2::Error> {
    let bodiless = matches!(status, 204 | 304);
    let length: usize = pieces.iter().map(Bytes::len).sum();
    let mut head = Response::new(());
    *head.status_mut() = StatusCode::from_u16(status).expect("from 200 to 599");
    if !bodiless {
        let headers = head.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(CONTENT_LENGTH, length.into());
    }
    let empty = bodiless || length == 0 || *method == Method::HEAD;
    let mut send = respond.send_response(head, empty)?;
    if empty {
        return Ok(());
    }
    send_all(&mut send, pieces, true)
}

/// Queues pieces; `end` says whether the stream ends with them.
pub(super) fn send_all(
    send: &mut SendStream<Bytes>,
    mut pieces: Vec<Bytes>,
    end: bool,
) -> Result<(), h2::Error> {
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        send.send_data(piece, false)?;
    }
    send.send_data(last, end)
}
