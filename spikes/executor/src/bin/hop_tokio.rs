//! The hop on tokio's current-thread runtime. Options: `--listen ADDR`, `--to ADDR`,
//! `--timers lazy|reset|none`, `--event-interval N`, `--global-queue-interval N`.

use anyhow::{Context as _, Result};
use executor_spike::hop::{Deadline, HEADER_TIMEOUT, Hop, Runtime, Stream};
use executor_spike::{net, options::Options};
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::time::Sleep;

/// How timeouts are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Timers {
    /// A `Sleep` that fires every [`HEADER_TIMEOUT`] and looks whether the deadline has passed.
    Lazy,
    /// A `Sleep` reset at each deadline.
    Reset,
    /// No timeouts and no timer driver: the least that tokio could cost.
    None,
}

impl FromStr for Timers {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "lazy" => Ok(Self::Lazy),
            "reset" => Ok(Self::Reset),
            "none" => Ok(Self::None),
            _ => Err(()),
        }
    }
}

struct OnTokio(Timers);
struct TokioStream(TcpStream);

impl Stream for TokioStream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        // `poll_read`, not `try_read`: only the former knows that a short read drained the socket.
        let mut buf = ReadBuf::new(buf);
        let polled = Pin::new(&mut self.0).poll_read(cx, &mut buf);
        polled.map_ok(|()| buf.filled().len())
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = Pin::new(&mut self.0);
        match slices {
            [only] => stream.poll_write(cx, only),
            _ => stream.poll_write_vectored(cx, slices),
        }
    }

    fn has_news(&self) -> bool {
        // No system call unless the driver has seen an edge.
        let read = self.0.try_read(&mut [0]);
        !read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

struct TokioDeadline {
    timers: Timers,
    due: Instant,
    sleep: Option<Pin<Box<Sleep>>>,
    /// The task's waker is known to `sleep`; a task's waker never changes.
    registered: bool,
}

impl TokioDeadline {
    fn poll_lazy(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(sleep) = &mut self.sleep else {
            return Poll::Pending;
        };
        loop {
            if self.registered && !sleep.is_elapsed() {
                return Poll::Pending;
            }
            if sleep.as_mut().poll(cx).is_pending() {
                self.registered = true;
                return Poll::Pending;
            }
            let now = Instant::now();
            if self.due <= now {
                return Poll::Ready(());
            }
            // No limit is shorter than this, so no deadline set later can lie before the next look.
            sleep
                .as_mut()
                .reset(self.due.min(now + HEADER_TIMEOUT).into());
            self.registered = false;
        }
    }
}

impl Deadline for TokioDeadline {
    fn arm(&mut self, now: Instant, limit: Duration) {
        self.due = now + limit;
        if self.timers == Timers::Reset
            && let Some(sleep) = &mut self.sleep
        {
            sleep.as_mut().reset(self.due.into());
        }
    }

    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match (self.timers, &mut self.sleep) {
            (Timers::Lazy, _) => self.poll_lazy(cx),
            (Timers::Reset, Some(sleep)) => sleep.as_mut().poll(cx),
            _ => Poll::Pending,
        }
    }
}

impl Runtime for OnTokio {
    type Stream = TokioStream;
    type Deadline = TokioDeadline;

    async fn connect(&self, addr: SocketAddr) -> io::Result<TokioStream> {
        let socket = if addr.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        socket.set_nodelay(true)?;
        let stream = socket.connect(addr).await?;
        net::prefer_cubic(&stream);
        Ok(TokioStream(stream))
    }

    fn deadline(&self) -> TokioDeadline {
        let due = Instant::now() + HEADER_TIMEOUT;
        let timed = self.0 != Timers::None;
        let sleep = timed.then(|| Box::pin(tokio::time::sleep_until(due.into())));
        TokioDeadline {
            timers: self.0,
            due,
            sleep,
            registered: false,
        }
    }
}

async fn accept(listener: std::net::TcpListener, hop: Rc<Hop<OnTokio>>) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::task::spawn_local(Rc::clone(&hop).serve(TokioStream(stream)));
    }
}

fn main() -> Result<()> {
    let known = [
        "--listen",
        "--to",
        "--timers",
        "--event-interval",
        "--global-queue-interval",
    ];
    let options = Options::parse(&known)?;
    let listen = options.find("--listen")?.context("--listen is needed")?;
    let upstream = options.find("--to")?.context("--to is needed")?;
    let timers = options.find("--timers")?.unwrap_or(Timers::Lazy);
    let mut builder = Builder::new_current_thread();
    builder.enable_io();
    if timers != Timers::None {
        builder.enable_time();
    }
    if let Some(interval) = options.find("--event-interval")? {
        builder.event_interval(interval);
    }
    if let Some(interval) = options.find("--global-queue-interval")? {
        builder.global_queue_interval(interval);
    }
    // A `LocalRuntime` spawns tasks that are not `Send` without a `LocalSet`'s second queue.
    let runtime = builder.build_local(LocalOptions::default())?;
    let (fd, bound) = net::listen(listen)?;
    println!("{bound}");
    runtime.block_on(accept(fd.into(), Hop::new(OnTokio(timers), upstream)))
}
