//! Two of our own sides over loopback: what one seals the other opens, whatever its size, and new
//! keys are taken into use on the way.

use super::handshake;
use super::*;
use crate::buffer::Pool;
use crate::stream::Stream;
use identity::tls::{self, ALPN_HTTP1, Tickets, endpoint_name};
use rt::{Listener, Reactor, Tcp};
use std::cell::RefCell;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use testkit::TestCa;

/// Runs one future on each side of a finished handshake.
fn meet<C, S>(client: impl FnOnce(Stream, Inbox) -> C, server: impl FnOnce(Stream, Inbox) -> S)
where
    C: Future<Output = ()> + 'static,
    S: Future<Output = ()> + 'static,
{
    let ca = TestCa::new();
    let (client_identity, server_identity) = (ca.identity("client"), ca.identity("server"));
    let (ours, theirs) = (client_identity.credentials(), server_identity.credentials());
    let expected = [server_identity.id];
    let client_config = tls::client_config(&ours, &[ALPN_HTTP1], &expected).unwrap();
    let server_config = tls::server_config(&theirs, &[ALPN_HTTP1], &Tickets::new()).unwrap();
    let reactor = Reactor::new().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let addr: SocketAddr = socket.local_addr().unwrap();
    let streams = Rc::new(RefCell::new((None, None)));
    let (r, made) = (Rc::clone(&reactor), Rc::clone(&streams));
    reactor.spawn(async move {
        let mut stream = Stream::plain(Tcp::connect(&r, addr).await.unwrap(), &Rc::default());
        let mut inbox = Inbox::new(stream.pool());
        let name = endpoint_name(addr);
        handshake::connect(&mut stream, &mut inbox, &client_config, name)
            .await
            .unwrap();
        made.borrow_mut().0 = Some((stream, inbox));
    });
    let (r, made) = (Rc::clone(&reactor), Rc::clone(&streams));
    let listener = Listener::adopt(&reactor, socket.into()).unwrap();
    reactor.spawn(async move {
        let (fd, _) = listener.accept().await.unwrap();
        let mut stream = Stream::plain(Tcp::adopt(&r, fd).unwrap(), &Rc::<Pool>::default());
        let mut inbox = Inbox::new(stream.pool());
        stream.fill(&mut inbox).await.unwrap();
        handshake::accept(&mut stream, &mut inbox, &server_config)
            .await
            .unwrap();
        made.borrow_mut().1 = Some((stream, inbox));
    });
    reactor.run().unwrap();
    let (ours, theirs) = streams.take();
    let ((one, inbox), (other, other_inbox)) = (ours.unwrap(), theirs.unwrap());
    reactor.spawn(client(one, inbox));
    reactor.spawn(server(other, other_inbox));
    reactor.run().unwrap();
    assert_eq!(reactor.panics(), 0, "a side panicked; its message is above");
}

async fn send(stream: &Stream, bytes: &[u8]) {
    stream.write(&[IoSlice::new(bytes)]).unwrap();
    stream.flush().await.unwrap();
}

async fn receive(stream: &Stream, inbox: &mut Inbox, expected: &[u8]) {
    let mut at = 0;
    while at < expected.len() {
        if inbox.is_empty() {
            assert!(
                stream.fill(inbox).await.unwrap() > 0,
                "ended after {at} bytes"
            );
        }
        let count = inbox.bytes().len();
        assert!(
            inbox.bytes() == &expected[at..at + count],
            "differs after {at} bytes"
        );
        inbox.consume(count);
        at += count;
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

#[test]
fn messages_of_every_size_cross_whole() {
    const SIZES: [usize; 8] = [1, 100, 16_383, 16_384, 16_385, 40_000, 300_000, 3];
    meet(
        async |stream, mut inbox| {
            for size in SIZES {
                send(&stream, &pattern(size)).await;
                receive(&stream, &mut inbox, &pattern(size)).await;
            }
            stream.finish();
        },
        async |stream, mut inbox| {
            for size in SIZES {
                receive(&stream, &mut inbox, &pattern(size)).await;
                send(&stream, &pattern(size)).await;
            }
            assert_eq!(stream.fill(&mut inbox).await.unwrap(), 0, "an orderly end");
        },
    );
}

#[test]
fn worn_keys_are_replaced_on_the_way() {
    meet(
        async |stream, mut inbox| {
            for _ in 0..3 {
                stream.tls.as_ref().unwrap().sealer.borrow_mut().wear_out();
                send(&stream, &pattern(20_000)).await;
                receive(&stream, &mut inbox, b"thanks").await;
            }
        },
        async |stream, mut inbox| {
            for _ in 0..3 {
                receive(&stream, &mut inbox, &pattern(20_000)).await;
                send(&stream, b"thanks").await;
            }
        },
    );
}

#[test]
fn a_requested_key_update_is_answered() {
    meet(
        async |stream, mut inbox| {
            let mut record = Vec::new();
            stream
                .tls
                .as_ref()
                .unwrap()
                .update_sealer(true, &mut record)
                .unwrap();
            stream
                .tls
                .as_ref()
                .unwrap()
                .seal(&[IoSlice::new(b"ping")], &mut record)
                .unwrap();
            // Ciphertext made by hand, sent as it is.
            std::future::poll_fn(|_| stream.tcp.poll_write(&record))
                .await
                .unwrap();
            receive(&stream, &mut inbox, b"pong").await;
        },
        async |stream, mut inbox| {
            receive(&stream, &mut inbox, b"ping").await;
            send(&stream, b"pong").await;
        },
    );
}

#[test]
fn a_tampered_record_ends_the_connection() {
    meet(
        async |stream, _inbox| {
            let mut record = Vec::new();
            stream
                .tls
                .as_ref()
                .unwrap()
                .seal(&[IoSlice::new(b"hello")], &mut record)
                .unwrap();
            record[7] ^= 1;
            std::future::poll_fn(|_| stream.tcp.poll_write(&record))
                .await
                .unwrap();
        },
        async |stream, mut inbox| {
            let error = stream.fill(&mut inbox).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(inbox.is_empty(), "nothing of it is shown");
        },
    );
}

#[test]
fn a_stream_cut_without_its_alert_is_not_an_orderly_end() {
    meet(
        async |stream, mut inbox| {
            // What is left unread would turn the end into a reset.
            receive(&stream, &mut inbox, b"go").await;
            send(&stream, b"part").await;
        },
        async |stream, mut inbox| {
            send(&stream, b"go").await;
            receive(&stream, &mut inbox, b"part").await;
            let error = stream.fill(&mut inbox).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        },
    );
}

#[test]
fn record_headers_are_checked_before_anything_else() {
    let long = [23, 3, 3, 0x41, 0x01];
    for raw in [&[22, 3, 3, 0, 1, 0][..], &[23, 2, 3, 0, 1, 0], &long] {
        assert!(record::length(Form::Tls13, raw).is_err(), "{raw:?}");
    }
    assert_eq!(record::length(Form::Tls13, &[23, 3, 3, 0]).unwrap(), None);
    assert_eq!(
        record::length(Form::Tls13, &[23, 3, 3, 0, 2, 9]).unwrap(),
        None
    );
    assert_eq!(
        record::length(Form::Tls13, &[23, 3, 3, 0, 2, 9, 9, 1]).unwrap(),
        Some(7)
    );
}
