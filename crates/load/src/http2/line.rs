//! One connection with streams and its keeper, which makes a new one when it is lost. Lanes take
//! their share of it from here; what a loss means for a request, they decide.

use super::Thread;
use crate::{
    clock::{self, MILLISECOND},
    setup::Setup,
    socket,
    tally::Failure,
    worker::repair::{BACKOFF, BACKOFF_MAX},
};
use bytes::Bytes;
use h2::{Ping, client};
use std::{io, rc::Rc, time::Duration};
use tokio::{net::TcpStream, sync::watch, task::spawn_local};

/// Windows for streams and connections: large enough that the generator never is what a body
/// waits for.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 26;

/// The generation that is retired last: the line is closed.
const CLOSED: u64 = u64::MAX;

type Connection = client::Connection<TcpStream, Bytes>;

/// What lanes and keeper tell each other.
pub(crate) struct Line {
    state: watch::Sender<State>,
    /// The newest generation that a lane has given up.
    retired: watch::Sender<u64>,
}

/// How a connection stands, as its lanes see it.
#[derive(Clone)]
pub(crate) enum State {
    Up(Share),
    /// An attempt to connect has failed; another one follows.
    Refused(Failure),
    /// There is none, and none will come.
    Over,
}

/// A lane's share of a connection.
#[derive(Clone)]
pub(crate) struct Share {
    /// Counts the connections of a line.
    pub(crate) generation: u64,
    /// When it was established.
    pub(crate) since: u64,
    pub(crate) sender: client::SendRequest<Bytes>,
}

/// A connection that has just been established.
pub(crate) struct Dialled {
    sender: client::SendRequest<Bytes>,
    connection: Connection,
}

/// Why there is no connection.
pub(crate) struct Refusal {
    pub(crate) failure: Failure,
    pub(crate) reason: String,
}

impl Line {
    pub(crate) fn new(Dialled { sender, connection }: Dialled) -> (Self, Connection) {
        let up = State::Up(Share {
            generation: 1,
            since: 0,
            sender,
        });
        let line = Self {
            state: watch::Sender::new(up),
            retired: watch::Sender::new(0),
        };
        (line, connection)
    }

    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Nothing more can be asked on this generation: what is in flight on it goes on.
    pub(crate) fn retire(&self, generation: u64) {
        self.retired.send_if_modified(|retired| {
            let newer = generation > *retired;
            *retired = generation.max(*retired);
            newer
        });
    }

    /// Nothing more will be asked at all.
    pub(crate) fn close(&self) {
        self.state.send_replace(State::Over);
        self.retire(CLOSED);
    }
}

/// Drives a connection, and those that replace it, until the line is closed.
pub(crate) async fn keep(thread: Rc<Thread>, line: Rc<Line>, mut connection: Connection) {
    let mut retirements = line.retired.subscribe();
    let mut generation = 1;
    loop {
        let retired = tokio::select! {
            // A line that is closed ends its connection, and that is no loss.
            biased;
            newest = retirements.wait_for(|retired| *retired >= generation) => {
                Some(newest.map_or(CLOSED, |newest| *newest))
            }
            // However it ended: the lanes have learnt from their requests.
            _ = &mut connection => None,
        };
        match retired {
            None => {}
            Some(CLOSED) => {
                // Nobody holds a share any more: it says goodbye and ends.
                let _ = connection.await;
                return;
            }
            // It ends when the last lane has left it.
            Some(_) => drop(spawn_local(connection)),
        }
        generation += 1;
        let Some(dialled) = redial(&thread, &line, &mut retirements).await else {
            return;
        };
        connection = dialled.connection;
        line.state.send_replace(State::Up(Share {
            generation,
            since: clock::now(),
            sender: dialled.sender,
        }));
    }
}

/// Tries until there is a connection; none if the line is closed or the window over.
async fn redial(
    thread: &Thread,
    line: &Line,
    retirements: &mut watch::Receiver<u64>,
) -> Option<Dialled> {
    let mut backoff = 0;
    loop {
        thread.ledger.borrow_mut().reconnected(clock::now());
        let refusal = tokio::select! {
            dialled = dial(&thread.setup) => match dialled {
                Ok(dialled) => return Some(dialled),
                Err(refusal) => refusal,
            },
            _ = retirements.wait_for(|retired| *retired == CLOSED) => return None,
        };
        line.state.send_replace(State::Refused(refusal.failure));
        backoff = (backoff * 2).clamp(BACKOFF, BACKOFF_MAX);
        tokio::time::sleep(Duration::from_millis(backoff / MILLISECOND)).await;
        if clock::now() >= thread.ledger.borrow().window.to {
            line.state.send_replace(State::Over);
            return None;
        }
    }
}

/// Makes a connection; it is one once the peer has answered a PING, and not before: a peer that
/// speaks something else would otherwise be found out by the first requests.
pub(crate) async fn dial(setup: &Setup) -> Result<Dialled, Refusal> {
    let timeout = Duration::from_nanos(setup.timeout);
    let Ok(dialled) = tokio::time::timeout(timeout, connect(setup)).await else {
        return Err(Refusal {
            failure: Failure::Connect,
            reason: "no answer within the timeout".to_owned(),
        });
    };
    dialled
}

async fn connect(setup: &Setup) -> Result<Dialled, Refusal> {
    let unreachable = |source: io::Error| Refusal {
        failure: Failure::Connect,
        reason: source.to_string(),
    };
    let fd = socket::dial(setup.address, setup.congestion.as_deref()).map_err(unreachable)?;
    let stream = TcpStream::from_std(fd.into()).map_err(unreachable)?;
    stream.writable().await.map_err(unreachable)?;
    if let Some(error) = stream.take_error().map_err(unreachable)? {
        return Err(unreachable(error));
    }
    let strange = |error: Option<h2::Error>| Refusal {
        failure: Failure::Connect,
        reason: error.map_or_else(
            || "the peer closed the connection, and may not speak HTTP/2".to_owned(),
            |error| format!("the peer may not speak HTTP/2: {error}"),
        ),
    };
    let (sender, mut connection) = client::Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .initial_max_send_streams(setup.streams as usize)
        .handshake(stream)
        .await
        .map_err(|error| strange(Some(error)))?;
    let mut pings = connection
        .ping_pong()
        .expect("a new connection has lent its pings to nobody");
    tokio::select! {
        ended = &mut connection => Err(strange(ended.err())),
        pong = pings.ping(Ping::opaque()) => match pong {
            Ok(_) => Ok(Dialled { sender, connection }),
            Err(error) => Err(strange(Some(error))),
        },
    }
}
