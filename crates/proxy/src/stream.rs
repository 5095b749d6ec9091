//! A connection's bytes, plain or mesh TLS, for both sides. Writes never wait: what the kernel does
//! not take is kept, and `flush` waits for it, so that no slice lives across an await.

use crate::buffer::{Inbox, Pool};
use crate::tls::Tls;
use rt::Tcp;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Poll, ready};

/// Bytes that are worth a copy to be one slice.
const GATHERED_MAX: usize = 4096;

pub(crate) struct Stream {
    pub(crate) tcp: Tcp,
    pub(crate) tls: Option<Box<Tls>>,
    /// What the kernel has not taken yet. Bounded by one message: callers flush before they write
    /// again.
    pending: RefCell<Vec<u8>>,
    pool: Rc<Pool>,
}

impl Stream {
    pub(crate) fn plain(tcp: Tcp, pool: &Rc<Pool>) -> Self {
        Self {
            tcp,
            tls: None,
            pending: RefCell::default(),
            pool: Rc::clone(pool),
        }
    }

    pub(crate) fn pool(&self) -> &Rc<Pool> {
        &self.pool
    }

    /// Waits for more plaintext and adds it to `inbox`; 0 is the peer's orderly end.
    ///
    /// # Errors
    /// The socket's, `TimedOut` at the task's deadline, `InvalidData` for a broken record,
    /// `UnexpectedEof` for a TLS stream cut short.
    pub(crate) async fn fill(&self, inbox: &mut Inbox) -> io::Result<usize> {
        poll_fn(|_| self.poll_fill(inbox)).await
    }

    pub(crate) fn poll_fill(&self, inbox: &mut Inbox) -> Poll<io::Result<usize>> {
        // No buffer is lent before the kernel has something for it.
        if !self.tcp.has_news() && self.tls.is_none() {
            return self.tcp.poll_readable().map_ok(|()| 0);
        }
        let polled = match &self.tls {
            None => self.tcp.poll_read(inbox.room()).map_ok(|count| {
                inbox.filled(count);
                count
            }),
            Some(tls) => self.poll_fill_tls(tls, inbox),
        };
        if !matches!(polled, Poll::Ready(Ok(1..))) {
            inbox.release();
        }
        polled
    }

    fn poll_fill_tls(&self, tls: &Tls, inbox: &mut Inbox) -> Poll<io::Result<usize>> {
        loop {
            let count = tls.open(inbox)?;
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
            if tls.is_closed() {
                return Poll::Ready(Ok(0));
            }
            if !self.tcp.has_news() {
                return self.tcp.poll_readable().map_ok(|()| 0);
            }
            match ready!(self.tcp.poll_read(inbox.room()))? {
                0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                count => inbox.filled_raw(count),
            }
        }
    }

    /// Adds ciphertext to `inbox`, for a handshake that is not done yet; 0 is the end.
    ///
    /// # Errors
    /// The socket's, or `TimedOut` at the task's deadline.
    pub(crate) async fn fill_raw(&self, inbox: &mut Inbox) -> io::Result<usize> {
        let count = poll_fn(|_| self.tcp.poll_read(inbox.room())).await?;
        inbox.filled_raw(count);
        Ok(count)
    }

    /// Takes all of `slices`; what the kernel does not take now waits for [`Stream::flush`].
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let Some(tls) = &self.tls else {
            return self.send(slices);
        };
        let mut sealed = self.pool.seal.borrow_mut();
        sealed.clear();
        tls.seal(slices, &mut sealed)?;
        self.send_vectored(&[IoSlice::new(&sealed)])
    }

    /// Sends bytes as they are. Small slices are gathered: copying them costs less than the kernel
    /// takes for looking at each.
    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let small = || slices.iter().map(|slice| slice.len()).sum::<usize>() <= GATHERED_MAX;
        if slices.len() < 2 || !small() {
            return self.send_vectored(slices);
        }
        let mut gathered = self.pool.seal.borrow_mut();
        gathered.clear();
        slices
            .iter()
            .for_each(|slice| gathered.extend_from_slice(slice));
        self.send_vectored(&[IoSlice::new(&gathered)])
    }

    fn send_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let mut pending = self.pending.borrow_mut();
        let mut sent = 0;
        if pending.is_empty()
            && let Poll::Ready(count) = self.tcp.poll_write_vectored(slices)?
        {
            sent = count;
        }
        for slice in slices {
            let skip = sent.min(slice.len());
            sent -= skip;
            if skip < slice.len() {
                pending.extend_from_slice(&slice[skip..]);
            }
        }
        Ok(())
    }

    /// Waits until the kernel has everything.
    ///
    /// # Errors
    /// The socket's, or `TimedOut` at the task's deadline.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        poll_fn(|_| self.poll_flush()).await
    }

    /// Whether the kernel has everything.
    pub(crate) fn has_sent(&self) -> bool {
        self.pending.borrow().is_empty()
    }

    /// See [`Stream::flush`].
    pub(crate) fn poll_flush(&self) -> Poll<io::Result<()>> {
        if self.has_sent() {
            return Poll::Ready(Ok(()));
        }
        let mut pending = self.pending.borrow_mut();
        while !pending.is_empty() {
            let count = ready!(self.tcp.poll_write(&pending))?;
            pending.drain(..count);
        }
        // A large answer once must not cost memory for ever.
        *pending = Vec::new();
        Poll::Ready(Ok(()))
    }

    /// Ends our direction in an orderly way; reading goes on.
    pub(crate) fn finish(&self) {
        self.announce_end();
        // An error means that the peer is gone, which ends the direction as well.
        let _ = self.tcp.shutdown_write();
    }

    /// The part of [`Stream::finish`] that may have to be flushed: where the kernel is full, the
    /// peer would otherwise see a stream cut short.
    pub(crate) fn announce_end(&self) {
        if let Some(tls) = &self.tls {
            let mut alert = Vec::new();
            if tls.close(&mut alert).is_ok() {
                let _ = self.send(&[IoSlice::new(&alert)]);
            }
        }
    }
}
