//! The hop itself: read a request, pass it to a pooled upstream connection, pass the answer back.
//! Generic over [`Runtime`] so that tokio and `rt` run the same lines. A spike: bodies need a
//! `content-length`, and nothing is retried.

mod head;
mod stats;

use head::{Head, Kind};
use stats::Stats;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// First byte of a head to its end, and request sent to answer's head.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// A keep-alive connection without a request.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
const BUFFER_BYTES: usize = 16 * 1024;
const ADDED: &[u8] = b"via: 1.1 leno\r\n\r\n";

/// A connection as an executor offers it.
pub trait Stream: 'static {
    /// Reads what is there; 0 is the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;
    /// Writes some of `slices`.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;
    /// Whether an idle connection got bytes or its end.
    fn has_news(&self) -> bool;
}

/// One task's limit of time.
pub trait Deadline: 'static {
    /// From `now` on the task has this long.
    fn arm(&mut self, now: Instant, limit: Duration);
    /// Ready once the time is over; asked after a read would block.
    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// An executor of one thread.
pub trait Runtime: 'static {
    /// Its connections.
    type Stream: Stream;
    /// Its timeouts.
    type Deadline: Deadline;
    /// Opens a connection.
    fn connect(&self, addr: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>>;
    /// A deadline of the running task.
    fn deadline(&self) -> Self::Deadline;
}

/// What the connections of one thread share.
pub struct Hop<R: Runtime> {
    runtime: R,
    upstream: SocketAddr,
    /// Last in, first out: the warmest connection is used first, the others may age.
    idle: RefCell<Vec<R::Stream>>,
    stats: Stats,
}

impl<R: Runtime> Hop<R> {
    /// A hop to one endpoint.
    pub fn new(runtime: R, upstream: SocketAddr) -> Rc<Self> {
        Rc::new(Self {
            runtime,
            upstream,
            idle: RefCell::default(),
            stats: Stats::default(),
        })
    }

    /// Serves one downstream connection to its end.
    pub async fn serve(self: Rc<Self>, stream: R::Stream) {
        self.stats.opened();
        let mut connection = Connection {
            downstream: stream,
            deadline: self.runtime.deadline(),
            request: Buffer::new(),
            response: Buffer::new(),
        };
        // Whatever ended it, the peer sees the connection close; a spike keeps no log.
        let _ = connection.run(&self).await;
        self.stats.closed();
    }

    async fn checkout(&self) -> io::Result<R::Stream> {
        loop {
            let pooled = self.idle.borrow_mut().pop();
            match pooled {
                Some(stream) if stream.has_news() => drop(stream),
                Some(stream) => return Ok(stream),
                None => return self.runtime.connect(self.upstream).await,
            }
        }
    }

    fn checkin(&self, stream: R::Stream) {
        self.idle.borrow_mut().push(stream);
    }
}

struct Connection<R: Runtime> {
    downstream: R::Stream,
    deadline: R::Deadline,
    request: Buffer,
    response: Buffer,
}

impl<R: Runtime> Connection<R> {
    async fn run(&mut self, hop: &Hop<R>) -> io::Result<()> {
        self.deadline.arm(Instant::now(), IDLE_TIMEOUT);
        loop {
            let (stream, deadline) = (&mut self.downstream, &mut self.deadline);
            let read = read_head(stream, deadline, &mut self.request, Kind::Request).await?;
            let Some(request) = read else { return Ok(()) };
            let started = Instant::now();
            self.deadline.arm(started, HEADER_TIMEOUT);
            let mut upstream = hop.checkout().await?;
            let keep = self.exchange(&mut upstream, &request).await?;
            if keep {
                hop.checkin(upstream);
            }
            let ended = Instant::now();
            hop.stats.record(ended - started);
            if request.close || !keep {
                return Ok(());
            }
            self.deadline.arm(ended, IDLE_TIMEOUT);
        }
    }

    /// One request and its answer; says whether the connections may be used again.
    async fn exchange(&mut self, upstream: &mut R::Stream, request: &Head) -> io::Result<bool> {
        let (downstream, deadline) = (&mut self.downstream, &mut self.deadline);
        let there = self.request.body_there(request);
        write_head(upstream, &self.request, request, there).await?;
        self.request.consume(request.len + there);
        relay(
            downstream,
            upstream,
            deadline,
            &mut self.request,
            request.body - there,
        )
        .await?;

        let read = read_head(upstream, deadline, &mut self.response, Kind::Response).await?;
        let answer = read.ok_or(io::ErrorKind::UnexpectedEof)?;
        let there = self.response.body_there(&answer);
        let first = answer.len + there;
        let mut slices = [IoSlice::new(&self.response.filled()[..first])];
        write_all(downstream, &mut slices).await?;
        self.response.consume(first);
        relay(
            upstream,
            downstream,
            deadline,
            &mut self.response,
            answer.body - there,
        )
        .await?;
        Ok(!answer.close)
    }
}

/// Bytes read and not yet passed on.
struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    fn new() -> Self {
        Self {
            bytes: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }

    fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// How much of the body came with the head.
    fn body_there(&self, head: &Head) -> usize {
        head.body.min(self.end - self.start - head.len)
    }

    /// Where the next read goes; what is left moves to the front when the end is reached.
    fn room(&mut self) -> io::Result<&mut [u8]> {
        if self.end == self.bytes.len() {
            if self.start == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        Ok(&mut self.bytes[self.end..])
    }
}

/// The next head, or `None` when the peer ended before one began.
async fn read_head<S: Stream, D: Deadline>(
    stream: &mut S,
    deadline: &mut D,
    buffer: &mut Buffer,
    kind: Kind,
) -> io::Result<Option<Head>> {
    loop {
        if let Some(head) = head::parse(buffer.filled(), kind)? {
            return Ok(Some(head));
        }
        let begun = !buffer.filled().is_empty();
        if begun {
            // Rare: the head came in pieces, so a clock reading of its own costs nothing.
            deadline.arm(Instant::now(), HEADER_TIMEOUT);
        }
        match read(stream, deadline, buffer.room()?).await? {
            0 if begun => return Err(io::ErrorKind::UnexpectedEof.into()),
            0 => return Ok(None),
            count => buffer.end += count,
        }
    }
}

async fn write_head<S: Stream>(
    upstream: &mut S,
    buffer: &Buffer,
    head: &Head,
    body: usize,
) -> io::Result<()> {
    let bytes = buffer.filled();
    // The head's last CRLF is left out: the added line brings one.
    let kept = head.len - 2;
    let body = &bytes[head.len..head.len + body];
    let dropped = head.dropped.clone().unwrap_or(kept..kept);
    let mut slices = [
        IoSlice::new(&bytes[..dropped.start]),
        IoSlice::new(&bytes[dropped.end..kept]),
        IoSlice::new(ADDED),
        IoSlice::new(body),
    ];
    let used = if body.is_empty() { 3 } else { 4 };
    write_all(upstream, &mut slices[..used]).await
}

async fn relay<S: Stream, T: Stream, D: Deadline>(
    from: &mut S,
    to: &mut T,
    deadline: &mut D,
    buffer: &mut Buffer,
    mut left: usize,
) -> io::Result<()> {
    while left > 0 {
        let count = read(from, deadline, buffer.room()?).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.end += count;
        let passed = left.min(buffer.filled().len());
        write_all(to, &mut [IoSlice::new(&buffer.filled()[..passed])]).await?;
        buffer.consume(passed);
        left -= passed;
    }
    Ok(())
}

async fn read<S: Stream, D: Deadline>(
    stream: &mut S,
    deadline: &mut D,
    buf: &mut [u8],
) -> io::Result<usize> {
    poll_fn(|cx| {
        if let Poll::Ready(count) = stream.poll_read(cx, buf) {
            return Poll::Ready(count);
        }
        ready!(deadline.poll_expired(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    })
    .await
}

async fn write_all<S: Stream>(stream: &mut S, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    let mut left = slices;
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        let count = poll_fn(|cx| stream.poll_write(cx, left)).await?;
        IoSlice::advance_slices(&mut left, count);
    }
    Ok(())
}
