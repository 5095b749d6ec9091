//! The hop on `crates/rt`. Options: `--listen ADDR`, `--to ADDR`.

use anyhow::{Context as _, Result};
use executor_spike::hop::{Deadline, Hop, Runtime, Stream};
use executor_spike::{net, options::Options};
use rt::{Listener, Reactor, Tcp};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

struct OnRt(Rc<Reactor>);
struct RtStream(Tcp);
struct RtDeadline(Rc<Reactor>);

impl Stream for RtStream {
    fn poll_read(&mut self, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_read(buf)
    }

    fn poll_write(
        &mut self,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write_vectored(slices)
    }

    fn has_news(&self) -> bool {
        self.0.has_news()
    }
}

impl Deadline for RtDeadline {
    fn arm(&mut self, _: Instant, limit: Duration) {
        self.0.deadline_after(limit);
    }

    fn poll_expired(&mut self, _: &mut Context<'_>) -> Poll<()> {
        // The stream's own poll has failed with `TimedOut` before this is asked.
        Poll::Pending
    }
}

impl Runtime for OnRt {
    type Stream = RtStream;
    type Deadline = RtDeadline;

    async fn connect(&self, addr: SocketAddr) -> io::Result<RtStream> {
        let stream = Tcp::connect(&self.0, addr).await?;
        net::prefer_cubic(stream.as_fd());
        Ok(RtStream(stream))
    }

    fn deadline(&self) -> RtDeadline {
        RtDeadline(Rc::clone(&self.0))
    }
}

async fn accept(reactor: Rc<Reactor>, listener: Listener, hop: Rc<Hop<OnRt>>) -> io::Result<()> {
    loop {
        let (fd, _) = listener.accept().await?;
        let stream = RtStream(Tcp::adopt(&reactor, fd)?);
        reactor.spawn(Rc::clone(&hop).serve(stream));
    }
}

fn main() -> Result<()> {
    let options = Options::parse(&["--listen", "--to"])?;
    let listen = options.find("--listen")?.context("--listen is needed")?;
    let upstream = options.find("--to")?.context("--to is needed")?;
    let reactor = Reactor::new()?;
    let (fd, bound) = net::listen(listen)?;
    println!("{bound}");
    let listener = Listener::adopt(&reactor, fd)?;
    let hop = Hop::new(OnRt(Rc::clone(&reactor)), upstream);
    let task = accept(Rc::clone(&reactor), listener, hop);
    reactor.spawn(async { task.await.expect("accepting goes on in a spike") });
    reactor.run()?;
    Ok(())
}
