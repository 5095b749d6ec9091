//! One non-blocking connection of the generator, plain or TLS. Used edge-triggered: `drained`
//! remembers that the kernel has nothing more, so that no read is wasted to learn it.

use crate::tls::Client;
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, connect, recv,
        send, shutdown, socket_with, sockopt,
    },
};
use std::{
    io::{self, Read, Write},
    net::SocketAddr,
};

/// A connection and, for https, its TLS session.
pub(crate) struct Socket {
    line: Line,
    tls: Option<Box<rustls::ClientConnection>>,
}

/// The TCP half.
struct Line {
    fd: OwnedFd,
    drained: bool,
    /// The peer will send nothing more: read on until the end is seen.
    closing: bool,
}

impl Socket {
    /// Begins to connect; writable means that the outcome is known.
    pub(crate) fn connect(
        address: SocketAddr,
        tls: Option<&Client>,
        congestion: Option<&str>,
    ) -> io::Result<Self> {
        let fd = dial(address, congestion)?;
        let tls = tls.map(Client::session).transpose()?.map(Box::new);
        Ok(Self {
            line: Line {
                fd,
                drained: false,
                closing: false,
            },
            tls,
        })
    }

    /// Whether the connect that has ended succeeded.
    pub(crate) fn connected(&self) -> io::Result<()> {
        sockopt::socket_error(&self.line.fd)?.map_err(Into::into)
    }

    /// Drives the handshake; true once the connection can carry a request.
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else {
            return Ok(true);
        };
        loop {
            flush(tls, &mut self.line)?;
            if !tls.is_handshaking() {
                return Ok(true);
            }
            match fill(tls, &mut self.line) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// The kernel has news: reads make sense again.
    #[inline]
    pub(crate) fn awake(&mut self, closing: bool) {
        self.line.drained = false;
        self.line.closing |= closing;
    }

    /// Reads plaintext; 0 is the end, `WouldBlock` means that an event will come.
    #[inline]
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return self.line.read(buffer);
        };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A close without close_notify is an end as well: HTTP's own framing judges.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            if fill(tls, &mut self.line)? == 0 {
                return Ok(0);
            }
            flush(tls, &mut self.line)?;
        }
    }

    /// Writes plaintext; says how many bytes were taken.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return self.line.write(bytes);
        };
        flush(tls, &mut self.line)?;
        let taken = tls.writer().write(bytes)?;
        if taken == 0 {
            // Its buffer is full because the kernel's is.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        flush(tls, &mut self.line)?;
        Ok(taken)
    }

    /// Pushes out what TLS still holds.
    #[inline]
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.tls
            .as_mut()
            .map_or(Ok(()), |tls| flush(tls, &mut self.line))
    }

    /// Says goodbye; the descriptor closes with the value.
    pub(crate) fn close(mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // The peer may be gone already, and then there is nobody to tell.
            let _ = flush(tls, &mut self.line);
        }
        let _ = shutdown(&self.line.fd, Shutdown::Both);
    }
}

/// Begins to connect; writable means that the outcome is known.
pub(crate) fn dial(address: SocketAddr, congestion: Option<&str>) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&fd, true)?;
    if let Some(name) = congestion {
        sockopt::set_tcp_congestion(&fd, name)?;
    }
    match connect(&fd, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(errno) => Err(errno.into()),
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.fd.as_fd()
    }
}

impl Read for Line {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.drained {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (taken, _) = recv(&self.fd, &mut *buffer, RecvFlags::empty())?;
        self.drained = taken < buffer.len() && !self.closing;
        Ok(taken)
    }
}

impl Write for Line {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.fd, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads ciphertext once and opens it.
fn fill(tls: &mut rustls::ClientConnection, line: &mut Line) -> io::Result<usize> {
    let taken = tls.read_tls(line)?;
    if let Err(error) = tls.process_new_packets() {
        // The peer should learn why, if it still listens.
        let _ = flush(tls, line);
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    Ok(taken)
}

/// Writes ciphertext until none is left or the kernel takes no more.
fn flush(tls: &mut rustls::ClientConnection, line: &mut Line) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(line) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
