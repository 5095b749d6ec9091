//! An endpoint with moods: it answers, closes when idle or in the middle, says goodbye, refuses.
//! Speaks either a byte for a byte or HTTP/2. For the pool's simulation only.

use super::{Dice, Inner, Worker};
use rt::{Listener, Tcp};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener};
use std::rc::{Rc, Weak};
use std::task::Poll;
use wire::h2::{Code, Config, Connection, Dialect, Event, Key, Limits, Role};
use wire::http1::RequestHead;

/// How an endpoint treats its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Kind,
    /// Ends connections between requests, in order if it can.
    Tired,
    /// Ends them at any time, and new ones at once.
    Broken,
}

impl Mood {
    pub(super) const ALL: [Self; 3] = [Self::Kind, Self::Tired, Self::Broken];
}

/// Where an endpoint listens.
pub(super) struct Site {
    pub(super) address: SocketAddr,
    pub(super) inner: Inner,
    pub(super) mood: Cell<Mood>,
    dice: Rc<Dice>,
    socket: Cell<Option<TcpListener>>,
    /// Connections of a byte for a byte.
    lines: RefCell<Vec<Weak<Tcp>>>,
}

impl Site {
    pub(super) fn new(dice: &Rc<Dice>) -> Rc<Self> {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        Rc::new(Self {
            address: socket.local_addr().unwrap(),
            inner: dice.pick(&[Inner::Http1, Inner::H2]),
            mood: Cell::new(Mood::Kind),
            dice: Rc::clone(dice),
            socket: Cell::new(Some(socket)),
            lines: RefCell::default(),
        })
    }

    /// Takes connections until the worker ends.
    pub(super) async fn serve(self: Rc<Self>, worker: Rc<Worker>) {
        let reactor = &worker.reactor;
        let socket = self.socket.take().expect("served once");
        let listener = Listener::adopt(reactor, socket.into()).unwrap();
        loop {
            let accepted = poll_fn(|_| match worker.is_ending() {
                true => Poll::Ready(None),
                false => listener
                    .poll_accept()
                    .map(|accepted| Some(accepted.unwrap().0)),
            });
            let Some(fd) = accepted.await else {
                return;
            };
            // Gone already: nobody to serve.
            let Ok(tcp) = Tcp::adopt(reactor, fd) else {
                continue;
            };
            let site = Rc::clone(&self);
            match self.inner {
                Inner::Http1 => reactor.spawn(async move { site.echo(tcp).await }),
                _ => reactor.spawn(async move { site.frames(tcp).await }),
            };
        }
    }

    /// Ends its side of every connection of a byte for a byte.
    pub(super) fn hang_up(&self) {
        let lines = std::mem::take(&mut *self.lines.borrow_mut());
        for tcp in lines.iter().filter_map(Weak::upgrade) {
            tcp.shutdown_write().unwrap_or_default();
        }
    }

    /// Whether it is in the mood to end a connection now.
    fn ends(&self, in_the_middle: bool) -> bool {
        match self.mood.get() {
            Mood::Kind => false,
            Mood::Tired => !in_the_middle && self.dice.one_in(6),
            Mood::Broken => self.dice.one_in(2),
        }
    }

    /// A byte for a byte.
    async fn echo(&self, tcp: Tcp) {
        let tcp = Rc::new(tcp);
        self.lines.borrow_mut().push(Rc::downgrade(&tcp));
        let mut byte = [0];
        loop {
            let asked = poll_fn(|_| self.unless_ended(&tcp, &mut byte)).await;
            if !asked || self.ends(true) {
                return;
            }
            self.dice.pause(tcp.reactor()).await;
            if poll_fn(|_| tcp.poll_write(b"!")).await.is_err() {
                return;
            }
        }
    }

    /// Something was read; or the peer, or this side, has enough.
    fn unless_ended(&self, tcp: &Tcp, buf: &mut [u8]) -> Poll<bool> {
        match tcp.poll_read(buf) {
            Poll::Ready(read) => Poll::Ready(read.is_ok_and(|count| count > 0)),
            Poll::Pending if self.ends(false) => Poll::Ready(false),
            Poll::Pending => {
                // To ask itself again, now and then.
                if self.mood.get() != Mood::Kind {
                    tcp.reactor().wake(tcp.reactor().current());
                }
                Poll::Pending
            }
        }
    }

    /// HTTP/2: every request is answered, refused or forgotten.
    async fn frames(&self, tcp: Tcp) {
        let limits = Limits {
            streams: self.dice.pick(&[1, 2, 100]),
            ..Limits::default()
        };
        let config = Config {
            limits,
            ..Config::new(Role::Server, Dialect::Public)
        };
        let mut wire = Connection::new(&config);
        let (mut input, mut buf) = (Vec::new(), vec![0; 4096]);
        loop {
            let output = std::mem::take(wire.output());
            let mut rest = &output[..];
            while !rest.is_empty() {
                match poll_fn(|_| tcp.poll_write(rest)).await {
                    Ok(count) => rest = &rest[count..],
                    Err(_) => return,
                }
            }
            if self.ends(true) {
                return;
            }
            let mut count = 0;
            let more = poll_fn(|_| {
                let polled = tcp.poll_read(&mut buf);
                polled.map(|read| read.is_ok_and(|read| std::mem::replace(&mut count, read) < read))
            });
            if !more.await {
                return;
            }
            input.extend_from_slice(&buf[..count]);
            self.dice.pause(tcp.reactor()).await;
            self.take_in(&mut wire, &mut input);
            if self.mood.get() == Mood::Tired && self.dice.one_in(4) {
                wire.go_away(Code::NoError);
            }
        }
    }

    fn take_in(&self, wire: &mut Connection, input: &mut Vec<u8>) {
        let mut at = 0;
        loop {
            let received = wire.receive(&input[at..]).expect("our own frames are good");
            at += received.consumed;
            match received.event {
                Event::Nothing if received.consumed == 0 => break,
                Event::Request { stream, .. } => self.answer(wire, stream),
                Event::Reset { stream, .. } => wire.release(stream),
                _ => {}
            }
        }
        input.drain(..at);
    }

    fn answer(&self, wire: &mut Connection, stream: Key) {
        wire.take_request(&mut Vec::new(), &mut RequestHead::default());
        if self.mood.get() != Mood::Kind && self.dice.one_in(3) {
            wire.reset(
                stream,
                self.dice.pick(&[Code::RefusedStream, Code::InternalError]),
            );
        } else {
            wire.send_status(stream, 200, b"", true);
        }
        wire.release(stream);
    }
}
