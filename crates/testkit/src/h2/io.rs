//! A connection as the `h2` crate wants it: TCP, plain or inside TLS. Used by the client and the
//! server.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustls::Connection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

pub(super) struct Io {
    tcp: TcpStream,
    tls: Option<Box<Connection>>,
}

/// The socket as the blocking interface of TLS wants it.
struct Blocking<'a, 'b> {
    tcp: &'a mut TcpStream,
    context: &'a mut Context<'b>,
}

impl Io {
    pub(super) fn plain(tcp: TcpStream) -> Self {
        Self { tcp, tls: None }
    }

    pub(super) fn tls(tcp: TcpStream, tls: Connection) -> Self {
        let tls = Some(Box::new(tls));
        Self { tcp, tls }
    }

    /// Writes every record that waits.
    fn poll_records(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self {
            tcp,
            tls: Some(tls),
        } = self
        else {
            return Poll::Ready(Ok(()));
        };
        while tls.wants_write() {
            let mut blocking = Blocking { tcp, context };
            ready!(pending(tls.write_tls(&mut blocking)))?;
        }
        Poll::Ready(Ok(()))
    }
}

/// What would block is pending: the socket has taken note of who waits.
fn pending<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

fn blocking<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl Read for Blocking<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(bytes);
        blocking(Pin::new(&mut *self.tcp).poll_read(self.context, &mut buffer))?;
        Ok(buffer.filled().len())
    }
}

impl Write for Blocking<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        blocking(Pin::new(&mut *self.tcp).poll_write(self.context, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            // What the handshake has to say goes out whether or not something comes in.
            if let Poll::Ready(Err(error)) = self.poll_records(context) {
                return Poll::Ready(Err(error));
            }
            let Self { tcp, tls } = &mut *self;
            let Some(tls) = tls else {
                return Pin::new(tcp).poll_read(context, buffer);
            };
            match tls.reader().read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    buffer.advance(read?);
                    return Poll::Ready(Ok(()));
                }
            }
            ready!(pending(tls.read_tls(&mut Blocking { tcp, context })))?;
            tls.process_new_packets().map_err(io::Error::other)?;
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_records(context))?;
            let Self { tcp, tls } = &mut *self;
            let Some(tls) = tls else {
                return Pin::new(tcp).poll_write(context, bytes);
            };
            let written = tls.writer().write(bytes)?;
            if written > 0 || bytes.is_empty() {
                // What does not go out now does with the next call.
                return match self.poll_records(context) {
                    Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                    _ => Poll::Ready(Ok(written)),
                };
            }
            // So much waits for the end of the handshake that no more is taken.
            if ready!(pending(tls.read_tls(&mut Blocking { tcp, context })))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            tls.process_new_packets().map_err(io::Error::other)?;
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_records(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        ready!(self.poll_records(context))?;
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}
