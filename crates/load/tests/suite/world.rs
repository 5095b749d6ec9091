//! What the tests share: servers on port 0, scripted peers, runs without progress.

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use load::{
    Outcome, Plan, Rate,
    serve::{self, Server},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

pub(crate) fn local() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// An echo server with default options.
pub(crate) fn echo() -> Server {
    serve::start(&serve::Options::new(local())).unwrap()
}

/// A short open loop against `path` of `address`.
pub(crate) fn plan(address: SocketAddr, path: &str, rate: f64) -> Plan {
    Plan {
        rate: Rate::PerSecond(rate),
        duration: Duration::from_secs(1),
        ..Plan::new(format!("http://{address}{path}"))
    }
}

pub(crate) fn run(plan: &Plan) -> Outcome {
    load::run(plan, &mut |_| {}).unwrap()
}

/// A peer that treats every connection by `script`, on a thread of its own that lives as long as
/// the test program.
pub(crate) fn scripted(script: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind(local()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || script(stream));
        }
    });
    address
}

/// Reads one bodiless request; false at the end of the stream.
pub(crate) fn read_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") {
        if !matches!(stream.read(&mut byte), Ok(1)) {
            return false;
        }
        seen.push(byte[0]);
    }
    true
}

/// Writes; a peer that is gone is no concern of the script.
pub(crate) fn write(stream: &mut TcpStream, text: &str) {
    let _ = stream.write_all(text.as_bytes());
}

/// What a scripted peer of HTTP/2 does with a request.
pub(crate) type Treatment = fn(Request<Bytes>, &mut SendResponse<Bytes>);

/// A peer that speaks HTTP/2 and treats every request, once it has come whole, by `treat`.
pub(crate) fn scripted_h2(treat: Treatment) -> SocketAddr {
    let listener = TcpListener::bind(local()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve_h2(stream, treat));
        }
    });
    address
}

fn serve_h2(stream: TcpStream, treat: Treatment) {
    stream.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::from_std(stream).unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            tokio::spawn(async move {
                let (head, mut incoming) = request.into_parts();
                let mut whole = BytesMut::new();
                while let Some(Ok(piece)) = incoming.data().await {
                    whole.extend_from_slice(&piece);
                }
                treat(Request::from_parts(head, whole.freeze()), &mut respond);
            });
        }
    });
}

/// A gRPC message behind its prefix.
pub(crate) fn framed(payload: &[u8]) -> Bytes {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[0], &length[..], payload].concat().into()
}

/// Answers with a body, and with `grpc-status` in trailers if it is given.
pub(crate) fn body(respond: &mut SendResponse<Bytes>, body: Bytes, status: Option<&'static str>) {
    let mut send = respond.send_response(Response::new(()), false).unwrap();
    send.send_data(body, status.is_none()).unwrap();
    if let Some(status) = status {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static(status));
        send.send_trailers(trailers).unwrap();
    }
}

/// For the message of an assertion.
pub(crate) fn shown(outcome: &Outcome) -> String {
    load::report::text(outcome)
}

/// Whether the machine had time for us: where it had not, more is slow than what is made slow.
pub(crate) fn is_undisturbed(outcome: &Outcome) -> bool {
    outcome.unfinished == 0 && outcome.late_sends < outcome.requests / 20
}
