//! The gRPC service `leno.load.Echo`: `Unary` sends a message back, `Stream` each message of a
//! call that goes on. Called by `answer`; a message is never looked into.

use super::{
    Floor,
    answer::{Body, read, send_all},
};
use crate::{
    clock,
    grpc::{CONTENT_TYPE as GRPC, Code, Messages, STATUS, STREAM, UNARY},
};
use bytes::Bytes;
use h2::{RecvStream, SendStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response, header::CONTENT_TYPE};
use std::future::poll_fn;

pub(super) async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    floor: &Floor,
) -> Result<(), h2::Error> {
    match request.uri().path() {
        UNARY => unary(request.into_body(), respond, floor).await,
        STREAM => stream(request.into_body(), respond, floor).await,
        _ => refuse(&mut respond, Code::Unimplemented),
    }
}

async fn unary(
    mut body: RecvStream,
    mut respond: SendResponse<Bytes>,
    floor: &Floor,
) -> Result<(), h2::Error> {
    let Body::Whole(pieces) = read(&mut body).await? else {
        return refuse(&mut respond, Code::ResourceExhausted);
    };
    let read_at = clock::now();
    if let Err(code) = check_one(&pieces) {
        return refuse(&mut respond, code);
    }
    let mut send = respond.send_response(head(), false)?;
    send_all(&mut send, pieces, false)?;
    send.send_trailers(trailers(Code::Ok))?;
    floor.answered(read_at);
    Ok(())
}

/// A unary call has exactly one message.
fn check_one(pieces: &[Bytes]) -> Result<(), Code> {
    let (mut messages, mut ended) = (Messages::default(), 0);
    for piece in pieces {
        ended += messages.feed(piece)?;
    }
    if ended == 1 && messages.is_between() {
        Ok(())
    } else {
        Err(Code::Internal)
    }
}

async fn stream(
    mut body: RecvStream,
    mut respond: SendResponse<Bytes>,
    floor: &Floor,
) -> Result<(), h2::Error> {
    let mut send = respond.send_response(head(), false)?;
    let mut messages = Messages::default();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        let (length, read_at) = (piece.len(), clock::now());
        let ended = match messages.feed(&piece) {
            Ok(ended) => ended,
            Err(code) => return send.send_trailers(trailers(code)),
        };
        if !pass(&mut send, piece).await? {
            return Ok(());
        }
        // Only now: what the peer does not take back it shall not send either.
        body.flow_control().release_capacity(length)?;
        for _ in 0..ended {
            floor.answered(read_at);
        }
    }
    let code = if messages.is_between() {
        Code::Ok
    } else {
        Code::Internal
    };
    send.send_trailers(trailers(code))
}

/// Sends a piece as the windows allow; false if the peer has left.
async fn pass(send: &mut SendStream<Bytes>, mut piece: Bytes) -> Result<bool, h2::Error> {
    while !piece.is_empty() {
        send.reserve_capacity(piece.len());
        let mut capacity = send.capacity();
        if capacity == 0 {
            match poll_fn(|ctx| send.poll_capacity(ctx)).await {
                Some(granted) => capacity = granted?,
                None => return Ok(false),
            }
        }
        let part = piece.split_to(capacity.min(piece.len()));
        send.send_data(part, false)?;
    }
    Ok(true)
}

/// An answer of trailers only.
fn refuse(respond: &mut SendResponse<Bytes>, code: Code) -> Result<(), h2::Error> {
    let mut head = head();
    head.headers_mut().extend(trailers(code));
    respond.send_response(head, true).map(drop)
}

fn head() -> Response<()> {
    let mut head = Response::new(());
    let kind = HeaderValue::from_static(GRPC);
    head.headers_mut().insert(CONTENT_TYPE, kind);
    head
}

fn trailers(code: Code) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(STATUS, HeaderValue::from_static(code.text()));
    trailers
}
