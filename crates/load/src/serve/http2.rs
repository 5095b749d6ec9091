//! HTTP/2 at the echo server. Each serving thread that meets a connection with the preface hands
//! it to a companion of its own, on the same CPU, which runs the `h2` crate; HTTP/1 never gets
//! here, and pays nothing for it.

mod answer;
mod grpc;

use super::{Shared, payload::Payload};
use crate::{Error, run::pin, schedule::Random, tally::histogram};
use answer::answer;
use bytes::Bytes;
use h2::server;
use hdrhistogram::Histogram;
use rustix::fd::OwnedFd;
use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    thread::{Builder, JoinHandle},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    runtime::{Builder as RuntimeBuilder, LocalOptions},
    sync::{mpsc, watch},
    task::{JoinSet, spawn_local},
};

/// How a connection of HTTP/2 begins (RFC 9113, section 3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Windows for streams and connections: large enough that this end never is what a body waits for.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 26;
/// More than any generator here asks for, and a bound on what one connection can hold.
const STREAMS_MAX: u32 = 1024;
/// How long streams in flight may go on once the server is told to stop.
const DRAIN: Duration = Duration::from_millis(250);

/// A connection on its way, with what was read from it.
pub(crate) struct Handed {
    pub(crate) fd: OwnedFd,
    pub(crate) read: Vec<u8>,
}

/// The thread beside a serving thread.
pub(crate) struct Companion {
    inbox: mpsc::UnboundedSender<Handed>,
    thread: JoinHandle<Result<Histogram<u64>, Error>>,
}

/// What the streams of one companion share.
pub(crate) struct Floor {
    shared: Arc<Shared>,
    payload: RefCell<Payload>,
    random: RefCell<Random>,
    delays: RefCell<Histogram<u64>>,
}

impl Companion {
    /// Starts the companion of thread `number`.
    ///
    /// # Errors
    /// No thread or no runtime can be had.
    pub(crate) fn start(number: usize, shared: Arc<Shared>) -> Result<Self, Error> {
        let (inbox, handed) = mpsc::unbounded_channel();
        let work = move || run(number, shared, handed);
        let builder = Builder::new().name(format!("serve-h2-{number}"));
        let thread = builder.spawn(work).map_err(|source| Error::System {
            doing: "start a thread",
            source,
        })?;
        Ok(Self { inbox, thread })
    }

    pub(crate) fn take(&self, handed: Handed) {
        // One that has ended closes the connection by dropping it.
        let _ = self.inbox.send(handed);
    }

    /// Lets streams in flight end; gives the delays of its answers.
    ///
    /// # Errors
    /// It could not run.
    pub(crate) fn join(self) -> Result<Histogram<u64>, Error> {
        drop(self.inbox);
        self.thread.join().expect("a companion panicked")
    }
}

/// The companion's thread: serves until its inbox is closed.
fn run(
    number: usize,
    shared: Arc<Shared>,
    handed: mpsc::UnboundedReceiver<Handed>,
) -> Result<Histogram<u64>, Error> {
    pin(shared.cpu(number))?;
    let runtime = RuntimeBuilder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(|source| Error::System {
            doing: "start a runtime",
            source,
        })?;
    let floor = Rc::new(Floor {
        shared,
        payload: RefCell::new(Payload::default()),
        random: RefCell::new(Random::new(2, number as u64)),
        delays: RefCell::new(histogram()),
    });
    runtime.block_on(serve(Rc::clone(&floor), handed));
    // Streams that were cut off may still hold the floor: what they counted is in here.
    Ok(floor.delays.replace(histogram()))
}

async fn serve(floor: Rc<Floor>, mut handed: mpsc::UnboundedReceiver<Handed>) {
    let (stop, stopped) = watch::channel(false);
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            next = handed.recv() => match next {
                Some(handed) => {
                    let session = session(Rc::clone(&floor), handed, stopped.clone());
                    sessions.spawn_local(session);
                }
                None => break,
            },
            Some(_) = sessions.join_next() => {}
        }
    }
    stop.send_replace(true);
    // What takes longer is cut off.
    let _ = tokio::time::timeout(DRAIN, sessions.join_all()).await;
}

/// One connection. However it ends, its peer knows.
async fn session(floor: Rc<Floor>, handed: Handed, mut stopped: watch::Receiver<bool>) {
    let Ok(stream) = TcpStream::from_std(handed.fd.into()) else {
        return;
    };
    let replay = Replay {
        read: handed.read.into(),
        stream,
    };
    let mut builder = server::Builder::new();
    let handshake = builder
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_MAX)
        .handshake(replay);
    let Ok(mut connection) = handshake.await else {
        return;
    };
    let mut draining = false;
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            _ = stopped.changed(), if !draining => {
                draining = true;
                connection.graceful_shutdown();
                continue;
            }
        };
        let Some(Ok(first)) = accepted else { return };
        // All that have come are accepted before the first is answered, so that their answers
        // leave in one write.
        let mut batch = vec![first];
        loop {
            let mut accept = std::pin::pin!(connection.accept());
            let Poll::Ready(Some(Ok(next))) = poll_once(&mut accept).await else {
                break;
            };
            batch.push(next);
        }
        for (request, respond) in batch {
            let mut answer = Box::pin(answer(request, respond, Rc::clone(&floor)));
            // Most have all they need; a task is for those that wait.
            if poll_once(&mut answer).await.is_pending() {
                spawn_local(answer);
            }
        }
    }
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|ctx| Poll::Ready(Pin::new(&mut *future).poll(ctx))).await
}

impl Floor {
    /// An answer has been handed over; its request had been read at `read_at`.
    fn answered(&self, read_at: u64) {
        let delay = crate::clock::now() - read_at;
        self.delays.borrow_mut().saturating_record(delay);
        self.shared.on_answered();
    }
}

/// A connection whose first bytes have been read already.
struct Replay {
    read: Bytes,
    stream: TcpStream,
}

impl AsyncRead for Replay {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(ctx, buffer);
        }
        let taken = self.read.len().min(buffer.remaining());
        buffer.put_slice(&self.read.split_to(taken));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Replay {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(ctx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(ctx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(ctx)
    }
}
