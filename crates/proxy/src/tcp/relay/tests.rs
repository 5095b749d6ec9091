//! A relay between two sockets of this machine, whose other ends are played by a thread.

use super::*;
use crate::stream::Stream;
use rt::{Reactor, Tcp};
use rustix::net::sockopt::set_socket_linger;
use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

const PATIENT: Patience = Patience {
    idle: Duration::ZERO,
    half_closed: Duration::ZERO,
    until_ms: u64::MAX,
};

/// Two ends of one connection; the second for the reactor.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    far.set_nonblocking(true).unwrap();
    (near, far)
}

/// Relays between a downstream and an upstream that `play` plays; how it ended, as a flag, and how
/// many bytes went up and down.
fn relayed(
    patience: Patience,
    play: impl FnOnce(TcpStream, TcpStream) + Send + 'static,
) -> (Flag, u64, u64) {
    relayed_on(&Reactor::new().unwrap(), patience, play)
}

/// Likewise, beside what else the reactor does.
fn relayed_on(
    reactor: &Rc<Reactor>,
    patience: Patience,
    play: impl FnOnce(TcpStream, TcpStream) + Send + 'static,
) -> (Flag, u64, u64) {
    let ((client, down), (server, up)) = (pair(), pair());
    let stream = |socket: TcpStream| {
        let tcp = Tcp::adopt(reactor, socket.into()).unwrap();
        Stream::plain(tcp, &Rc::default())
    };
    let (down, up) = (stream(down), stream(up));
    let ended = Rc::new(RefCell::new(None));
    let ended_too = Rc::clone(&ended);
    reactor.spawn(async move {
        let mut inboxes = [Inbox::new(down.pool()), Inbox::new(up.pool())];
        let [down_inbox, up_inbox] = &mut inboxes;
        let (stream, inbox) = (&down, down_inbox);
        let down_end = End { stream, inbox };
        let (stream, inbox) = (&up, up_inbox);
        let up_end = End { stream, inbox };
        let mut tally = Tally::default();
        let result = relay(down_end, up_end, patience, (&mut tally, |_| {})).await;
        let flag = result.map_or_else(|error| error.flag, |()| Flag::None);
        *ended_too.borrow_mut() = Some((flag, tally.up(), tally.down()));
    });
    let players = in_thread(move || play(client, server));
    reactor.run().unwrap();
    players.join().unwrap();
    assert_eq!(reactor.panics(), 0);
    ended.take().expect("the relay has ended")
}

fn in_thread(play: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    Builder::new().spawn(play).unwrap()
}

fn read_all(mut from: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    bytes
}

fn expect(mut from: &TcpStream, bytes: &[u8]) {
    let mut got = vec![0; bytes.len()];
    from.read_exact(&mut got).unwrap();
    assert_eq!(got, bytes);
}

fn reset(socket: TcpStream) {
    set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
    drop(socket);
}

#[test]
fn each_side_may_end_first_and_still_be_answered() {
    let ended = relayed(PATIENT, |mut client, mut server| {
        client.write_all(b"question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&server), b"question");
        server.write_all(b"answer, long after").unwrap();
        drop(server);
        assert_eq!(read_all(&client), b"answer, long after");
    });
    assert_eq!(ended, (Flag::None, 8, 18));
    let ended = relayed(PATIENT, |mut client, mut server| {
        server.write_all(b"greeting").unwrap();
        server.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&client), b"greeting");
        client.write_all(b"thanks").unwrap();
        drop(client);
        assert_eq!(read_all(&server), b"thanks");
    });
    assert_eq!(ended, (Flag::None, 6, 8));
}

#[test]
fn much_goes_both_ways_at_once_though_nobody_reads_at_first() {
    const MANY: usize = 8 << 20;
    let ended = relayed(PATIENT, |client, server| {
        let sender = |mut socket: TcpStream, byte: u8| {
            in_thread(move || {
                socket.write_all(&vec![byte; MANY]).unwrap();
                socket.shutdown(Shutdown::Write).unwrap();
            })
        };
        let up = sender(client.try_clone().unwrap(), b'u');
        let down = sender(server.try_clone().unwrap(), b'd');
        let (at_server, at_client) = (read_all(&server), read_all(&client));
        assert!(at_server.len() == MANY && at_server.iter().all(|byte| *byte == b'u'));
        assert!(at_client.len() == MANY && at_client.iter().all(|byte| *byte == b'd'));
        up.join().unwrap();
        down.join().unwrap();
    });
    assert_eq!(ended, (Flag::None, MANY as u64, MANY as u64));
}

#[test]
fn a_reset_is_passed_on_as_one() {
    let failed = |mut socket: &TcpStream| {
        let error = socket.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    };
    let ended = relayed(PATIENT, move |mut client, server| {
        client.write_all(b"a part").unwrap();
        expect(&server, b"a part");
        reset(client);
        failed(&server);
    });
    assert_eq!(ended, (Flag::DownstreamClosed, 6, 0));
    let ended = relayed(PATIENT, move |client, mut server| {
        server.write_all(b"a part").unwrap();
        expect(&client, b"a part");
        reset(server);
        failed(&client);
    });
    assert_eq!(ended, (Flag::UpstreamClosed, 0, 6));
}

#[test]
fn an_upstream_that_ended_and_is_gone_leaves_its_answer_whole() {
    let ended = relayed(PATIENT, |mut client, mut server| {
        server.write_all(b"answer").unwrap();
        drop(server);
        assert_eq!(read_all(&client), b"answer");
        // Nobody reads this: at some time the relay learns of it.
        while client.write_all(b"more").is_ok() {}
    });
    assert_eq!((ended.0, ended.2), (Flag::UpstreamClosed, 6));
}

/// Changes of the mesh wake all that runs, and come more often than connections are given up.
#[test]
fn a_connection_that_stands_still_is_ended_though_the_mesh_changes_all_the_time() {
    const CHANGES: usize = 1000;
    let reactor = Reactor::new().unwrap();
    let (changing, left) = (Rc::clone(&reactor), Rc::new(Cell::new(CHANGES)));
    let (left_too, is_over) = (Rc::clone(&left), Arc::new(AtomicBool::new(false)));
    let is_over_too = Arc::clone(&is_over);
    reactor.spawn(async move {
        while left_too.get() > 0 && !is_over_too.load(Ordering::Relaxed) {
            changing.sleep(Duration::from_millis(20)).await;
            changing.wake_all();
            left_too.set(left_too.get() - 1);
        }
    });
    let idle = Patience {
        idle: Duration::from_millis(TELL_PERIOD_MS + 200),
        ..PATIENT
    };
    let ended = relayed_on(&reactor, idle, move |client, server| {
        assert_eq!((read_all(&client), read_all(&server)), (vec![], vec![]));
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(ended, (Flag::StreamIdle, 0, 0));
    assert!(left.get() > 0, "it went on as long as the mesh changed");
}

#[test]
fn a_connection_that_stands_still_is_ended_in_an_orderly_way() {
    let idle = Patience {
        idle: Duration::from_millis(1),
        ..PATIENT
    };
    let ended = relayed(idle, |client, server| {
        assert_eq!((read_all(&client), read_all(&server)), (vec![], vec![]));
    });
    assert_eq!(ended, (Flag::StreamIdle, 0, 0));
    let half_closed = Patience {
        half_closed: Duration::from_millis(1),
        ..PATIENT
    };
    let ended = relayed(half_closed, |client, server| {
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!((read_all(&client), read_all(&server)), (vec![], vec![]));
    });
    assert_eq!(ended, (Flag::StreamIdle, 0, 0));
    let expired = Patience {
        until_ms: 1,
        ..PATIENT
    };
    let ended = relayed(expired, |client, server| {
        assert_eq!((read_all(&client), read_all(&server)), (vec![], vec![]));
    });
    assert_eq!(ended, (Flag::StreamIdle, 0, 0));
}
