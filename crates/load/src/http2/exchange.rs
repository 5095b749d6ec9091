//! One request over HTTP/2 and its answer: plain, as a gRPC call, or as a message on a gRPC call
//! that stays open. Called by `lane`, which decides when, and counts what came of it.

use crate::{GrpcMode, Protocol, echo::Echo, grpc, setup::Setup, tally::Failure};
use bytes::Bytes;
use h2::{
    RecvStream, SendStream,
    client::{ResponseFuture, SendRequest},
};
use http::{Request, StatusCode};
use std::future::poll_fn;

/// How a gRPC answer with status OK and the right message is counted.
const OK: u16 = 200;

/// An answer that has come whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Bytes of the body.
    pub(crate) received: u64,
}

/// A request that was not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken {
    pub(crate) failure: Failure,
    /// The connection can carry no further request.
    pub(crate) line_lost: bool,
}

/// A gRPC call that is kept open for message after message.
pub(crate) struct Call {
    send: SendStream<Bytes>,
    /// Until the head has come: many servers send it with the first message.
    head: Option<ResponseFuture>,
    /// From then on.
    body: Option<RecvStream>,
}

/// One request on a stream of its own.
pub(crate) async fn ask(sender: &mut SendRequest<Bytes>, setup: &Setup) -> Result<Answer, Broken> {
    let body = setup.request.clone();
    let (answer, mut send) = sender
        .send_request(head(setup), body.is_empty())
        .map_err(|error| broken(&error))?;
    if !body.is_empty() {
        // Held by h2 until the windows let it go.
        send.send_data(body, true).map_err(|error| broken(&error))?;
    }
    let response = answer.await.map_err(|error| broken(&error))?;
    match setup.protocol {
        Protocol::Grpc(_) => unary(response, setup).await,
        Protocol::Http1 | Protocol::Http2 | Protocol::Tcp => plain(response).await,
    }
}

async fn plain(response: http::Response<RecvStream>) -> Result<Answer, Broken> {
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let mut received = 0;
    while let Some(bytes) = next(&mut body).await? {
        received += bytes.len() as u64;
    }
    trailers(&mut body).await?;
    Ok(Answer { status, received })
}

async fn unary(response: http::Response<RecvStream>, setup: &Setup) -> Result<Answer, Broken> {
    let (head, mut body) = response.into_parts();
    let (mut echo, mut differs) = (Echo::default(), false);
    let mut received = 0;
    while let Some(bytes) = next(&mut body).await? {
        received += bytes.len() as u64;
        differs |= echo.feed(&bytes, &setup.request).is_err();
    }
    let trailers = trailers(&mut body).await?;
    let in_trailers = trailers.as_ref().and_then(grpc::is_ok);
    match in_trailers.or_else(|| grpc::is_ok(&head.headers)) {
        Some(true) if differs || !echo.is_whole(&setup.request) => Err(stay(Failure::WrongEcho)),
        Some(true) => Ok(Answer {
            status: OK,
            received,
        }),
        Some(false) => Err(stay(Failure::GrpcStatus)),
        None => without_status(head.status, received),
    }
}

/// Something on the way answered in the service's place, or gRPC is not what this is.
fn without_status(status: StatusCode, received: u64) -> Result<Answer, Broken> {
    if status == StatusCode::OK {
        return Err(stay(Failure::Malformed));
    }
    Ok(Answer {
        status: status.as_u16(),
        received,
    })
}

impl Call {
    /// Begins a call; sends no message yet.
    pub(crate) fn open(sender: &mut SendRequest<Bytes>, setup: &Setup) -> Result<Self, Broken> {
        debug_assert_eq!(setup.protocol, Protocol::Grpc(GrpcMode::Stream));
        let (answer, send) = sender
            .send_request(head(setup), false)
            .map_err(|error| broken(&error))?;
        Ok(Self {
            send,
            head: Some(answer),
            body: None,
        })
    }

    /// One message there and back. A call that fails is of no more use.
    pub(crate) async fn ask(&mut self, setup: &Setup) -> Result<Answer, Broken> {
        // A call that the peer has ended takes no message; what it said of it is to be read.
        let _ = self.send.send_data(setup.request.clone(), false);
        if let Some(head) = &mut self.head {
            let response = head.await.map_err(|error| broken(&error))?;
            self.head = None;
            if response.status() != StatusCode::OK || grpc::is_ok(response.headers()).is_some() {
                return unary(response, setup).await;
            }
            self.body = Some(response.into_body());
        }
        let body = self.body.as_mut().expect("it comes with the head");
        let (mut echo, mut received) = (Echo::default(), 0);
        while let Some(bytes) = next(body).await? {
            received += bytes.len() as u64;
            match echo.feed(&bytes, &setup.request) {
                Ok(false) => {}
                Ok(true) => {
                    return Ok(Answer {
                        status: OK,
                        received,
                    });
                }
                Err(_) => return Err(stay(Failure::WrongEcho)),
            }
        }
        // The call is over before its time.
        let trailers = trailers(body).await?;
        match trailers.as_ref().and_then(grpc::is_ok) {
            Some(false) => Err(stay(Failure::GrpcStatus)),
            Some(true) => Err(stay(Failure::Closed)),
            None => Err(stay(Failure::Malformed)),
        }
    }

    /// Ends the call in order, so that nobody on the way takes it for an abort.
    pub(crate) async fn hang_up(mut self) {
        if self.send.send_data(Bytes::new(), true).is_err() {
            return;
        }
        if let Some(head) = self.head {
            self.body = head.await.ok().map(http::Response::into_body);
        }
        let Some(mut body) = self.body else { return };
        // Nothing is counted any more: whatever comes is the end.
        while let Ok(Some(_)) = next(&mut body).await {}
        let _ = trailers(&mut body).await;
    }
}

fn head(setup: &Setup) -> Request<()> {
    let head = setup.head.as_ref();
    head.expect("protocols with streams have a head").clone()
}

async fn next(body: &mut RecvStream) -> Result<Option<Bytes>, Broken> {
    let Some(bytes) = body.data().await else {
        return Ok(None);
    };
    let bytes = bytes.map_err(|error| broken(&error))?;
    let released = body.flow_control().release_capacity(bytes.len());
    released.map_err(|error| broken(&error))?;
    Ok(Some(bytes))
}

/// The answer is whole only when its stream has ended.
async fn trailers(body: &mut RecvStream) -> Result<Option<http::HeaderMap>, Broken> {
    let trailers = poll_fn(|ctx| body.poll_trailers(ctx)).await;
    trailers.map_err(|error| broken(&error))
}

/// A failure that leaves the connection as it is.
fn stay(failure: Failure) -> Broken {
    Broken {
        failure,
        line_lost: false,
    }
}

fn broken(error: &h2::Error) -> Broken {
    let failure = match error {
        _ if error.is_reset() && error.is_remote() => return stay(Failure::Reset),
        _ if error.is_io() || error.is_go_away() && error.is_remote() => Failure::Closed,
        // A frame that h2 took offence at.
        _ if error.reason().is_some() => Failure::Malformed,
        // h2 will not send on what has ended.
        _ => Failure::Closed,
    };
    Broken {
        failure,
        line_lost: true,
    }
}
