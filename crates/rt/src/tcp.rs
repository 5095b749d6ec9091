//! Non-blocking TCP over [`crate::Reactor`]: connect, accept, read into a lent buffer, vectored
//! write. The whole surface a different kernel interface would have to offer.

use crate::reactor::{Reactor, TaskId};
use crate::source::{FAILED, READ, READ_CLOSED, Source, WRITE};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

/// A connected stream. Belongs to the task that polls it last.
pub struct Tcp {
    source: Rc<Source>,
}

impl Tcp {
    /// Takes over an accepted, non-blocking socket.
    ///
    /// # Errors
    /// When the socket cannot be registered.
    pub fn adopt(reactor: &Rc<Reactor>, fd: OwnedFd) -> io::Result<Self> {
        // A relay writes whole messages; waiting for more would only add latency.
        sockopt::set_tcp_nodelay(&fd, true)?;
        Ok(Self {
            source: Source::register(reactor, fd)?,
        })
    }

    /// Connects; the running task's deadline bounds the wait.
    ///
    /// # Errors
    /// The connect error, or `TimedOut`.
    pub async fn connect(reactor: &Rc<Reactor>, addr: SocketAddr) -> io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = if addr.is_ipv4() {
            net::AddressFamily::INET
        } else {
            net::AddressFamily::INET6
        };
        let fd = net::socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        match net::connect(&fd, &addr) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let stream = Self {
            source: Source::register(reactor, fd)?,
        };
        poll_fn(|_| stream.poll_connected()).await?;
        Ok(stream)
    }

    fn poll_connected(&self) -> Poll<io::Result<()>> {
        if !self.source.is_ready(WRITE) {
            return self.source.pending();
        }
        match sockopt::socket_error(self.source.fd()) {
            Ok(Ok(())) => Poll::Ready(Ok(())),
            Ok(Err(error)) | Err(error) => Poll::Ready(Err(error.into())),
        }
    }

    /// The reactor this stream lives on.
    #[must_use]
    pub fn reactor(&self) -> &Rc<Reactor> {
        &self.source.reactor
    }

    /// Reads what is there into `buf` (not empty); 0 is the peer's end of stream.
    pub fn poll_read(&self, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        debug_assert!(
            !buf.is_empty(),
            "reading nothing looks like the end of the stream"
        );
        let wanted = buf.len();
        let polled = self.source.poll(READ, |fd| {
            Ok(net::recv(fd, &mut *buf, RecvFlags::empty())?.0)
        });
        if let Poll::Ready(Ok(count)) = polled
            && count < wanted
            && !self.source.is_ready(READ_CLOSED)
        {
            // The queue was drained: what comes next makes a new edge, so asking again is vain.
            self.source.clear(READ);
        }
        polled
    }

    /// Writes some of `bytes`.
    pub fn poll_write(&self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.source
            .poll(WRITE, |fd| net::send(fd, bytes, SendFlags::NOSIGNAL))
    }

    /// Writes some of `slices`, in order.
    pub fn poll_write_vectored(&self, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if let [only] = slices {
            return self.poll_write(only);
        }
        self.source.poll(WRITE, |fd| {
            net::sendmsg(
                fd,
                slices,
                &mut net::SendAncillaryBuffer::default(),
                SendFlags::NOSIGNAL,
            )
        })
    }

    /// Whether bytes (or the end) may be waiting; registers the running task if not.
    pub fn poll_readable(&self) -> Poll<io::Result<()>> {
        if self.source.is_ready(READ) {
            Poll::Ready(Ok(()))
        } else {
            self.source.pending()
        }
    }

    /// Waits until a read would not block.
    ///
    /// # Errors
    /// `TimedOut` at the running task's deadline.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|_| self.poll_readable()).await
    }

    /// Makes the running task the one that edges of this stream wake.
    pub fn own(&self) {
        self.source.own();
    }

    /// Makes `task` the one that edges of this stream wake.
    pub fn own_by(&self, task: TaskId) {
        self.source.own_by(task);
    }

    /// Makes closing the stream tell the peer that something was cut short (a reset).
    pub fn abort_on_close(&self) {
        // A socket that cannot take the option is closed in the ordinary way.
        let _ = sockopt::set_socket_linger(self.source.fd(), Some(std::time::Duration::ZERO));
    }

    /// Lets the kernel hold at most about `bytes` that it has not sent yet: what is written later
    /// does not wait behind what was written long ago. What is under way does not count.
    pub fn keep_unsent_below(&self, bytes: u32) {
        // A kernel that cannot do it makes shared connections less fair, no more.
        let _ = socket2::SockRef::from(&self.source.fd()).set_tcp_notsent_lowat(bytes);
    }

    /// Whether anything arrived (bytes, end, error) that was not read yet, as far as edges tell.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.source.is_ready(READ | READ_CLOSED | FAILED)
    }

    /// Asks the kernel, past all edges, whether the stream is open and quiet: nothing to read, no
    /// end, no error.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let peeked = net::recv(self.source.fd(), &mut [0], RecvFlags::PEEK);
        matches!(peeked, Err(rustix::io::Errno::AGAIN))
    }

    /// Whether the connection was reset or is closed both ways.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.source.is_ready(FAILED)
    }

    /// Sends the end of stream; reading goes on.
    ///
    /// # Errors
    /// When the peer is gone already.
    pub fn shutdown_write(&self) -> io::Result<()> {
        Ok(net::shutdown(self.source.fd(), net::Shutdown::Write)?)
    }

    /// The descriptor, for socket options.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.source.fd()
    }
}

/// A listening socket.
pub struct Listener {
    source: Rc<Source>,
}

impl Listener {
    /// Takes over a bound, listening, non-blocking socket.
    ///
    /// # Errors
    /// When it cannot be registered.
    pub fn adopt(reactor: &Rc<Reactor>, fd: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            source: Source::register(reactor, fd)?,
        })
    }

    /// The next connection, non-blocking, with its peer's address.
    ///
    /// # Errors
    /// As `accept4`; the caller decides which are worth a pause.
    pub fn poll_accept(&self) -> Poll<io::Result<(OwnedFd, Option<SocketAddr>)>> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let polled = self
            .source
            .poll(READ, |fd| net::acceptfrom_with(fd.as_fd(), flags));
        polled.map_ok(|(fd, peer)| (fd, peer.and_then(|addr| SocketAddr::try_from(addr).ok())))
    }

    /// Waits for [`Listener::poll_accept`].
    ///
    /// # Errors
    /// As there.
    pub async fn accept(&self) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
        poll_fn(|_| self.poll_accept()).await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Another process may have the same socket, which would wake this one for ever.
        self.source.reactor.unwatch(self.source.fd());
    }
}
