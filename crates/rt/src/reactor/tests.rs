//! Tests of the executor over real loopback sockets.

use super::Reactor;
use crate::{Listener, Mailbox, Tcp};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

fn listener(reactor: &Rc<Reactor>) -> (Listener, SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let addr = socket.local_addr().unwrap();
    (Listener::adopt(reactor, socket.into()).unwrap(), addr)
}

async fn read_all(stream: &Tcp) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut buf = [0; 7];
    loop {
        match poll_fn(|_| stream.poll_read(&mut buf)).await? {
            0 => return Ok(all),
            count => all.extend_from_slice(&buf[..count]),
        }
    }
}

#[test]
fn bytes_and_the_end_of_stream_cross_a_connection() {
    let reactor = Reactor::new().unwrap();
    let (server, addr) = listener(&reactor);
    let received = Rc::new(RefCell::new(Vec::new()));
    let (r, sink) = (Rc::clone(&reactor), Rc::clone(&received));
    reactor.spawn(async move {
        let (fd, _) = server.accept().await.unwrap();
        let stream = Tcp::adopt(&r, fd).unwrap();
        *sink.borrow_mut() = read_all(&stream).await.unwrap();
    });
    let r = Rc::clone(&reactor);
    reactor.spawn(async move {
        let stream = Tcp::connect(&r, addr).await.unwrap();
        for part in [&b"hello, "[..], b"edge-triggered ", b"world"] {
            poll_fn(|_| stream.poll_write(part)).await.unwrap();
            r.yield_now().await;
        }
        stream.shutdown_write().unwrap();
    });
    reactor.run().unwrap();
    assert_eq!(*received.borrow(), b"hello, edge-triggered world");
}

#[test]
fn a_deadline_ends_a_read_that_waits() {
    let reactor = Reactor::new().unwrap();
    let (server, addr) = listener(&reactor);
    let kind = Rc::new(Cell::new(None));
    let (r, seen) = (Rc::clone(&reactor), Rc::clone(&kind));
    reactor.spawn(async move {
        let stream = Tcp::connect(&r, addr).await.unwrap();
        r.deadline_after(Duration::from_millis(1));
        seen.set(Some(stream.readable().await.unwrap_err().kind()));
        drop(server);
    });
    reactor.run().unwrap();
    assert_eq!(kind.get(), Some(io::ErrorKind::TimedOut));
}

#[test]
fn a_refused_connection_is_an_error() {
    let reactor = Reactor::new().unwrap();
    let addr = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let kind = Rc::new(Cell::new(None));
    let (r, seen) = (Rc::clone(&reactor), Rc::clone(&kind));
    reactor.spawn(async move {
        seen.set(Tcp::connect(&r, addr).await.err().map(|error| error.kind()));
    });
    reactor.run().unwrap();
    assert_eq!(kind.get(), Some(io::ErrorKind::ConnectionRefused));
}

#[test]
fn a_panicking_task_is_dropped_and_counted() {
    let reactor = Reactor::new().unwrap();
    let ran = Rc::new(Cell::new(false));
    let (r, flag) = (Rc::clone(&reactor), Rc::clone(&ran));
    reactor.spawn(async { panic!("a bug in one connection") });
    reactor.spawn(async move {
        r.yield_now().await;
        flag.set(true);
    });
    reactor.run().unwrap();
    assert!(ran.get());
    assert_eq!(reactor.panics(), 1);
}

#[test]
fn messages_arrive_in_order_from_another_thread() {
    let reactor = Reactor::new().unwrap();
    let (sender, mailbox) = Mailbox::new(&reactor).unwrap();
    let thread = std::thread::spawn(move || (0..1000).for_each(|n| sender.send(n)));
    let got = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&got);
    reactor.spawn(async move {
        while sink.borrow().len() < 1000 {
            let message: i32 = mailbox.receive().await;
            sink.borrow_mut().push(message);
        }
    });
    reactor.run().unwrap();
    thread.join().unwrap();
    assert!(got.borrow().iter().copied().eq(0..1000));
}

#[test]
fn sleeps_end_in_the_order_of_their_times() {
    let reactor = Reactor::new().unwrap();
    let order = Rc::new(RefCell::new(Vec::new()));
    for ms in [30, 10, 20] {
        let (r, order) = (Rc::clone(&reactor), Rc::clone(&order));
        reactor.spawn(async move {
            r.sleep(Duration::from_millis(ms)).await;
            order.borrow_mut().push(ms);
        });
    }
    reactor.run().unwrap();
    assert_eq!(*order.borrow(), [10, 20, 30]);
}
