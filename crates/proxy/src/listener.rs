//! Accepting connections: one socket per address, on one worker, handed on to the least busy.
//! Started by `worker` on message; must never read a byte of a connection.

use crate::capture;
use crate::worker::{Socket, Worker};
use model::Direction;
use rt::{Listener, Reactor, TaskId};
use rustix::io::Errno;
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// How long accepting rests when the process has no descriptor left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);
/// Connections accepted before the other tasks have a turn.
const ACCEPT_BATCH: u32 = 32;

/// One listening socket.
pub(crate) struct Listening {
    socket: Listener,
    pub(crate) name: Arc<str>,
    /// Its place in the configuration when it was opened.
    pub(crate) place: usize,
    pub(crate) direction: Direction,
    is_kept: bool,
    /// Take what is queued, then close: closing alone would reset it.
    pub(crate) closing: Cell<bool>,
    pub(crate) task: Cell<Option<TaskId>>,
}

impl Listening {
    pub(crate) fn adopt(reactor: &Rc<Reactor>, socket: Socket) -> io::Result<Self> {
        let Socket {
            fd,
            name,
            place,
            direction,
            is_kept,
        } = socket;
        let (closing, task) = (Cell::new(false), Cell::new(None));
        let socket = Listener::adopt(reactor, fd)?;
        Ok(Self {
            socket,
            name,
            place,
            direction,
            is_kept,
            closing,
            task,
        })
    }

    /// Whether what is queued is left for the next listener to have the socket: this one has no
    /// use for it any more.
    fn leaves(&self, worker: &Worker) -> bool {
        self.is_kept && self.closing.get() && !worker.is_draining()
    }
}

/// Accepts until the listener is closed.
pub(crate) async fn run(worker: Rc<Worker>, listening: Rc<Listening>) {
    let mut batch = 0;
    let next = || {
        poll_fn(|_| {
            if listening.leaves(&worker) {
                return Poll::Ready(None);
            }
            match listening.socket.poll_accept() {
                Poll::Pending if listening.closing.get() => Poll::Ready(None),
                polled => polled.map(Some),
            }
        })
    };
    while let Some(accepted) = next().await {
        match accepted {
            Ok((fd, Some(peer))) => worker.assign(&listening, fd, capture::canonical(peer)),
            // A peer without an address is gone already.
            Ok((_, None)) => {}
            Err(error) if is_exhausted(&error) => {
                crate::log::warn(format_args!("accepting rests, no descriptors: {error}"));
                worker.reactor.sleep(EXHAUSTED_PAUSE).await;
            }
            // The connection failed before it was accepted: somebody else's trouble.
            Err(error) if is_peers(&error) => {}
            Err(error) => {
                crate::log::error(format_args!("accepting rests: {error}"));
                worker.reactor.sleep(EXHAUSTED_PAUSE).await;
            }
        }
        batch += 1;
        if batch % ACCEPT_BATCH == 0 {
            worker.reactor.yield_now().await;
        }
    }
}

fn is_exhausted(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(
        errno,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    )
}

/// Errors of the connection that was to be accepted (accept(2), on Linux).
fn is_peers(error: &io::Error) -> bool {
    const OF_CONNECTION: [Errno; 10] = [
        Errno::CONNABORTED,
        Errno::PERM,
        Errno::PROTO,
        Errno::NETDOWN,
        Errno::NOPROTOOPT,
        Errno::HOSTDOWN,
        Errno::NONET,
        Errno::HOSTUNREACH,
        Errno::OPNOTSUPP,
        Errno::NETUNREACH,
    ];
    Errno::from_io_error(error).is_some_and(|errno| OF_CONNECTION.contains(&errno))
}
