//! One connection of the generator: connects, sends one request at a time, finds the end of its
//! answer. Called by `worker`, which decides when to send and what is counted.

use crate::{
    Protocol,
    echo::Echo,
    ledger::Request,
    poller::Ready,
    response::{Answer, Scanner},
    schedule::Schedule,
    setup::Setup,
    socket::Socket,
    tally::Failure,
};
use std::io;

/// How an echo of TCP is counted: it has no status of its own.
const OK: u16 = 200;

/// A connection and the request on it.
pub(crate) struct Connection {
    socket: Option<Socket>,
    pub(crate) state: State,
    reply: Reply,
    written: usize,
    /// When `state` began; for `Down`, when to try again.
    pub(crate) since: u64,
    pub(crate) backoff: u64,
    /// None in a closed loop.
    pub(crate) schedule: Option<Schedule>,
    pub(crate) request: Request,
}

/// How the end of an answer is found.
enum Reply {
    Http1(Scanner),
    Tcp(Echo),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No socket; a new attempt is made at `since`.
    Down,
    Connecting,
    Handshaking,
    /// Established, nothing in flight.
    Free,
    /// A request is in flight.
    Busy,
}

/// What an event led to.
pub(crate) enum News {
    Nothing,
    /// The connection has just been established.
    Established,
    Answered(Answer),
}

/// The connection is of no more use.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) failure: Failure,
    pub(crate) source: io::Error,
}

impl Connection {
    pub(crate) fn new(protocol: Protocol, schedule: Option<Schedule>) -> Self {
        Self {
            socket: None,
            state: State::Down,
            reply: match protocol {
                Protocol::Tcp => Reply::Tcp(Echo::default()),
                Protocol::Http1 | Protocol::Http2 | Protocol::Grpc(_) => {
                    Reply::Http1(Scanner::default())
                }
            },
            written: 0,
            since: 0,
            backoff: 0,
            schedule,
            request: Request::default(),
        }
    }

    /// Begins to connect; the socket is for the caller to watch.
    pub(crate) fn open(&mut self, setup: &Setup, now: u64) -> Result<&Socket, Broken> {
        self.drop_socket();
        let congestion = setup.congestion.as_deref();
        let socket =
            Socket::connect(setup.address, setup.tls.as_ref(), congestion).map_err(|source| {
                Broken {
                    failure: Failure::Connect,
                    source,
                }
            })?;
        self.state = State::Connecting;
        self.since = now;
        Ok(self.socket.insert(socket))
    }

    /// Lets go of the socket until `until`.
    pub(crate) fn rest(&mut self, until: u64) {
        self.drop_socket();
        self.state = State::Down;
        self.since = until;
    }

    /// Writes the request, or as much as the kernel takes.
    #[inline]
    pub(crate) fn send(&mut self, setup: &Setup, request: Request) -> Result<(), Broken> {
        self.request = request;
        self.state = State::Busy;
        self.written = 0;
        self.write(setup)
    }

    /// Acts on an event of the socket.
    #[inline]
    pub(crate) fn advance(
        &mut self,
        setup: &Setup,
        ready: Ready,
        buffer: &mut [u8],
    ) -> Result<News, Broken> {
        let Some(socket) = &mut self.socket else {
            return Ok(News::Nothing);
        };
        socket.awake(ready.closing);
        match self.state {
            State::Busy => {
                if ready.writable && self.written < setup.request.len() {
                    self.write(setup)?;
                }
                if ready.readable {
                    self.read(setup, ready.closing, buffer)
                } else {
                    self.flush()
                }
            }
            State::Free if ready.readable => self.watch_idle(buffer),
            State::Connecting if ready.writable => self.connected(),
            State::Handshaking => self.handshake(),
            State::Free | State::Connecting | State::Down => Ok(News::Nothing),
        }
    }

    /// The request cannot or will not be answered on this connection any more.
    pub(crate) fn drop_socket(&mut self) {
        if let Some(socket) = self.socket.take() {
            socket.close();
        }
        self.reply.reset();
    }

    fn socket(&mut self) -> &mut Socket {
        self.socket
            .as_mut()
            .expect("every state but Down has a socket")
    }

    fn connected(&mut self) -> Result<News, Broken> {
        let outcome = self.socket().connected();
        outcome.map_err(|source| Broken {
            failure: Failure::Connect,
            source,
        })?;
        self.state = State::Handshaking;
        self.handshake()
    }

    fn handshake(&mut self) -> Result<News, Broken> {
        let done = self.socket().handshake();
        if !done.map_err(|source| Broken {
            failure: Failure::Tls,
            source,
        })? {
            return Ok(News::Nothing);
        }
        self.state = State::Free;
        self.backoff = 0;
        Ok(News::Established)
    }

    #[inline]
    fn write(&mut self, setup: &Setup) -> Result<(), Broken> {
        let Self {
            socket, written, ..
        } = self;
        let socket = socket.as_mut().expect("a busy connection has a socket");
        while *written < setup.request.len() {
            match socket.write(&setup.request[*written..]) {
                Ok(taken) => *written += taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // An answer may have come before the close: let the read find out.
                Err(error) if is_gone(&error) => return Ok(()),
                Err(error) => return Err(broken(error)),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<News, Broken> {
        self.socket().flush().map_err(broken)?;
        Ok(News::Nothing)
    }

    #[inline]
    fn read(&mut self, setup: &Setup, closing: bool, buffer: &mut [u8]) -> Result<News, Broken> {
        let Self {
            socket,
            reply,
            request,
            ..
        } = self;
        let socket = socket.as_mut().expect("a busy connection has a socket");
        loop {
            let taken = match socket.read(buffer) {
                Ok(0) => return self.ended(),
                Ok(taken) => taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.flush(),
                Err(error) => return Err(broken(error)),
            };
            request.received += taken as u64;
            if let Some(answer) = reply.feed(&buffer[..taken], setup)? {
                let close = answer.close || closing;
                return Ok(News::Answered(Answer { close, ..answer }));
            }
        }
    }

    fn ended(&mut self) -> Result<News, Broken> {
        let closed = || broken(io::ErrorKind::UnexpectedEof.into());
        self.reply.end().map(News::Answered).ok_or_else(closed)
    }

    /// Nothing may come while no request is in flight, save TLS's own records.
    fn watch_idle(&mut self, buffer: &mut [u8]) -> Result<News, Broken> {
        match self.socket().read(buffer) {
            Ok(0) => Err(broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Err(malformed()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.flush(),
            Err(error) => Err(broken(error)),
        }
    }
}

impl Reply {
    /// Takes bytes that were read; gives the answer when it is whole.
    #[inline]
    fn feed(&mut self, bytes: &[u8], setup: &Setup) -> Result<Option<Answer>, Broken> {
        match self {
            Self::Http1(scanner) => match scanner.feed(bytes, setup.to_head) {
                Ok((used, Some(_))) if used < bytes.len() => Err(malformed()),
                Ok((_, answer)) => Ok(answer),
                Err(_) => Err(malformed()),
            },
            Self::Tcp(echo) => {
                let whole = echo.feed(bytes, &setup.request).map_err(|_| wrong_echo())?;
                if !whole {
                    return Ok(None);
                }
                *echo = Echo::default();
                Ok(Some(Answer {
                    status: OK,
                    close: false,
                }))
            }
        }
    }

    /// The connection has ended; that may be the end of an answer as well.
    fn end(&mut self) -> Option<Answer> {
        match self {
            Self::Http1(scanner) => scanner.end(),
            Self::Tcp(_) => None,
        }
    }

    fn reset(&mut self) {
        match self {
            Self::Http1(scanner) => scanner.reset(),
            Self::Tcp(echo) => *echo = Echo::default(),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

fn broken(source: io::Error) -> Broken {
    let failure = match source.kind() {
        io::ErrorKind::InvalidData => Failure::Tls,
        _ => Failure::Closed,
    };
    Broken { failure, source }
}

fn malformed() -> Broken {
    let source = io::Error::new(
        io::ErrorKind::InvalidInput,
        "the answer breaks the protocol",
    );
    Broken {
        failure: Failure::Malformed,
        source,
    }
}

fn wrong_echo() -> Broken {
    let source = io::Error::new(io::ErrorKind::InvalidInput, "not what was sent came back");
    Broken {
        failure: Failure::WrongEcho,
        source,
    }
}
