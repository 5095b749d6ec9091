//! Both sides over a pipe: what arrives, how calls end, and what a peer cannot do.

use super::client::{self, Channel};
use super::server::{self, Call, Limits};
use super::*;
use crate::proto::google::{BoolValue, Status as Message};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;

const PIPE_BYTES: usize = 4096;

fn message(text: &str) -> Message {
    Message {
        message: text.to_owned(),
        ..Message::default()
    }
}

/// Answers each call as its path says.
async fn serve(io: DuplexStream, limits: Limits) -> Result<(), Error> {
    let mut connection = server::accept(io, &limits).await?;
    while let Some(call) = connection.next().await {
        tokio::spawn(answer(call?));
    }
    Ok(())
}

async fn answer(mut call: Call) -> Result<(), Error> {
    match call.path.as_str() {
        "/echo" => {
            let request: Message = call.request().await?;
            call.reply(&request).await
        }
        "/token" => {
            let token = call.metadata.get("authorization");
            let token = token.map_or("", |value| value.to_str().unwrap()).to_owned();
            call.reply(&message(&token)).await
        }
        "/stream" => echo(call).await,
        "/silence" => std::future::pending().await,
        "/late" => {
            let (sender, _receiver) = call.open()?;
            sender.finish(&Status::new(Code::Aborted, "in the middle"))
        }
        "/cut" => {
            drop(call.open()?);
            Ok(())
        }
        _ => {
            call.refuse(&Status::new(Code::Unimplemented, "no\nsuch method"));
            Ok(())
        }
    }
}

/// Each message back, in two parts.
async fn echo(call: Call) -> Result<(), Error> {
    let (mut sender, mut receiver) = call.open()?;
    while let Some(bytes) = receiver.recv_bytes().await? {
        let half = bytes.len() / 2;
        sender
            .send_parts(&[bytes.slice(..half), Bytes::new(), bytes.slice(half..)])
            .await?;
    }
    sender.finish(&Status::ok())
}

struct World {
    channel: Channel,
    driver: JoinHandle<Result<(), Error>>,
    server: JoinHandle<Result<(), Error>>,
}

async fn world(limits: Limits) -> World {
    let (near, far) = duplex(PIPE_BYTES);
    let server = tokio::spawn(serve(far, limits));
    let (channel, driver) = client::connect(near).await.unwrap();
    let driver = tokio::spawn(driver.run(Keepalive::default()));
    World {
        channel,
        driver,
        server,
    }
}

impl World {
    async fn unary(&self, path: &str, request: &Message) -> Result<Message, Error> {
        self.channel.unary(path, HeaderMap::new(), request).await
    }

    /// Both ends see that it is over.
    async fn end(self) {
        drop(self.channel);
        self.driver.await.unwrap().unwrap();
        self.server.await.unwrap().unwrap();
    }
}

fn status(error: &Error) -> Option<&Status> {
    match error {
        Error::Status(status) => Some(status),
        _ => None,
    }
}

#[tokio::test]
async fn a_call_is_answered_with_its_metadata_known() {
    let world = world(Limits::default()).await;
    for size in [0, 1, 100_000, 1_000_000] {
        let request = message(&"x".repeat(size));
        assert_eq!(world.unary("/echo", &request).await.unwrap(), request);
    }
    let mut metadata = HeaderMap::new();
    metadata.insert("authorization", HeaderValue::from_static("Bearer t"));
    let token: Message = world
        .channel
        .unary("/token", metadata, &message(""))
        .await
        .unwrap();
    assert_eq!(token.message, "Bearer t");
    world.end().await;
}

#[tokio::test]
async fn a_stream_carries_messages_both_ways_under_small_windows() {
    let world = world(Limits::default()).await;
    let (mut sender, mut receiver) = world
        .channel
        .bidi("/stream", HeaderMap::new())
        .await
        .unwrap();
    for size in [0, 5, 300_000, 1, 70_000] {
        let sent = message(&"y".repeat(size));
        let (taken, got) = tokio::join!(sender.send(&sent), receiver.recv::<Message>());
        taken.unwrap();
        assert_eq!(got.unwrap(), Some(sent));
    }
    sender.end().unwrap();
    assert_eq!(receiver.recv::<Message>().await.unwrap(), None);
    assert_eq!(
        receiver.recv::<Message>().await.unwrap(),
        None,
        "and stays so"
    );
    world.end().await;
}

#[tokio::test]
async fn a_refusal_arrives_with_its_reason() {
    let world = world(Limits::default()).await;
    let error = world.unary("/no", &message("")).await.unwrap_err();
    let expected = Status::new(Code::Unimplemented, "no\nsuch method");
    assert_eq!(status(&error), Some(&expected));
    // One that is refused before it was read whole.
    let error = world
        .unary("/no", &message(&"x".repeat(1_000_000)))
        .await
        .unwrap_err();
    assert_eq!(status(&error), Some(&expected));
    let (_sender, mut receiver) = world.channel.bidi("/late", HeaderMap::new()).await.unwrap();
    let error = receiver.recv::<Message>().await.unwrap_err();
    assert_eq!(
        status(&error),
        Some(&Status::new(Code::Aborted, "in the middle"))
    );
    drop((_sender, receiver));
    world.end().await;
}

#[tokio::test]
async fn a_stream_without_a_status_is_no_end() {
    let world = world(Limits::default()).await;
    let (_sender, mut receiver) = world.channel.bidi("/cut", HeaderMap::new()).await.unwrap();
    let error = receiver.recv::<Message>().await.unwrap_err();
    assert!(matches!(error, Error::Http2(_)), "{error}");
    drop((_sender, receiver));
    world.end().await;
}

#[tokio::test]
async fn what_is_too_long_or_of_another_type_is_an_error_there() {
    let limits = Limits {
        message_bytes: 1000,
        ..Limits::default()
    };
    let (near, far) = duplex(PIPE_BYTES);
    let seen = tokio::spawn(async move {
        let mut connection = server::accept(far, &limits).await.unwrap();
        let mut seen = Vec::new();
        while let Some(Ok(mut call)) = connection.next().await {
            let request = tokio::select! {
                request = call.request::<Message>() => request,
                _ = connection.next() => panic!("one call at a time"),
            };
            seen.push(request.map_err(|error| error.to_string()));
            call.refuse(&Status::new(Code::InvalidArgument, ""));
        }
        seen
    });
    let (channel, driver) = client::connect(near).await.unwrap();
    let driver = tokio::spawn(driver.run(Keepalive::default()));
    let long = message(&"x".repeat(1001));
    let other = BoolValue { value: true };
    let refused = channel.unary::<Message>("/", HeaderMap::new(), &long).await;
    assert!(status(&refused.unwrap_err()).is_some());
    let refused = channel
        .unary::<Message>("/", HeaderMap::new(), &other)
        .await;
    assert!(status(&refused.unwrap_err()).is_some());
    drop(channel);
    driver.await.unwrap().unwrap();
    let seen = seen.await.unwrap();
    let long = seen[0].as_ref().unwrap_err();
    assert!(long.contains("over the limit of 1000"), "{long}");
    // A field of the same number and type: what protobuf cannot tell apart, this cannot either.
    assert_eq!(
        seen[1],
        Ok(Message {
            code: 1,
            ..Message::default()
        })
    );
}

#[tokio::test]
async fn what_is_not_grpc_is_answered_in_http() {
    let (near, far) = duplex(PIPE_BYTES);
    tokio::spawn(serve(far, Limits::default()));
    let (mut requests, connection) = h2::client::handshake(near).await.unwrap();
    tokio::spawn(connection);
    for (method, content_type, expected) in [
        ("GET", "application/grpc", 405),
        ("POST", "application/json", 415),
        ("POST", "application/grpcx", 415),
        ("POST", "application/grpc+proto", 200),
        ("POST", "application/grpc;x=y", 200),
    ] {
        let request = http::Request::builder()
            .method(method)
            .uri("https://a/none");
        let request = request
            .header("content-type", content_type)
            .body(())
            .unwrap();
        let (response, _body) = requests.send_request(request, true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), expected, "{method} {content_type}");
        assert_eq!(Status::read(response.headers()).is_some(), expected == 200);
    }
}

#[tokio::test]
async fn what_answers_without_grpc_is_named_so() {
    let (near, far) = duplex(PIPE_BYTES);
    tokio::spawn(async move {
        let mut connection = h2::server::handshake(far).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let response = http::Response::builder().status(404).body(()).unwrap();
            respond.send_response(response, true).unwrap();
        }
    });
    let (channel, driver) = client::connect(near).await.unwrap();
    tokio::spawn(driver.run(Keepalive::default()));
    let answer = channel
        .unary::<Message>("/", HeaderMap::new(), &message(""))
        .await;
    assert!(matches!(answer, Err(Error::NotGrpc(404))));
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_and_the_connection_goes_on() {
    let world = world(Limits::default()).await;
    for _ in 0..16 {
        // More than may be open at once, and fewer than an attack is made of.
        let opened = world
            .channel
            .bidi("/silence", HeaderMap::new())
            .await
            .unwrap();
        drop(opened);
    }
    assert_eq!(
        world.unary("/echo", &message("a")).await.unwrap(),
        message("a")
    );
    world.end().await;
}

/// Under a clock that moves when nothing else does.
#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_given_up_by_either_side() {
    let (near, mut far) = duplex(PIPE_BYTES);
    let (_channel, driver) = client::connect(near).await.unwrap();
    let ended = driver.run(Keepalive::default()).await;
    assert!(matches!(ended, Err(Error::Silent)));
    assert!(far.read_u8().await.is_ok(), "and was there all the time");

    let (near, mut far) = duplex(PIPE_BYTES);
    // The preface and empty settings, and then nothing.
    far.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let mut connection = server::accept(near, &Limits::default()).await.unwrap();
    let ended = connection.next().await;
    assert!(matches!(ended, Some(Err(Error::Silent))));
}

/// Under a clock that moves when nothing else does.
#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_pings_is_kept() {
    let world = world(Limits::default()).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(
        world.unary("/echo", &message("a")).await.unwrap(),
        message("a")
    );
    world.end().await;
}

#[tokio::test]
async fn a_server_that_closes_lets_calls_end() {
    let (near, far) = duplex(PIPE_BYTES);
    let server = tokio::spawn(async move {
        let mut connection = server::accept(far, &Limits::default()).await.unwrap();
        let call = connection.next().await.unwrap().unwrap();
        let answered = tokio::spawn(answer(call));
        connection.close();
        assert!(connection.next().await.is_none());
        answered.await.unwrap().unwrap();
    });
    let (channel, driver) = client::connect(near).await.unwrap();
    let driver = tokio::spawn(driver.run(Keepalive::default()));
    let answer = channel
        .unary::<Message>("/echo", HeaderMap::new(), &message("a"))
        .await;
    assert_eq!(answer.unwrap(), message("a"));
    driver.await.unwrap().unwrap();
    server.await.unwrap();
    assert!(channel.bidi("/echo", HeaderMap::new()).await.is_err());
}
