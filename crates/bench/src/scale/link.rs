//! A simulated sidecar's connection to the control plane: from an address of its own, TLS with
//! its identity, HTTP/2, every byte counted. Opened by `sidecar`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use identity::tls;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use xds::grpc::client::{Channel, Driver, connect};

use super::ledger::Ledger;

/// For TCP and TLS together, as a real sidecar has it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What moves the bytes.
pub(super) type Wire = Driver<TlsStream<Counted>>;

/// A socket whose bytes are counted.
pub(super) struct Counted {
    stream: TcpStream,
    ledger: Arc<Ledger>,
}

/// Connects to the control plane at `plane` from `source`.
///
/// # Errors
/// When nobody answers in time, or somebody else does.
pub(super) async fn open(
    plane: SocketAddr,
    source: Ipv4Addr,
    config: Arc<ClientConfig>,
    ledger: &Arc<Ledger>,
) -> anyhow::Result<(Channel, Wire)> {
    let opened = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        let stream = socket.connect(plane).await?;
        stream.set_nodelay(true)?;
        let counted = Counted {
            stream,
            ledger: Arc::clone(ledger),
        };
        let connector = TlsConnector::from(config);
        let stream = connector
            .connect(tls::endpoint_name(plane), counted)
            .await?;
        anyhow::Ok(connect(stream).await?)
    };
    let opened = tokio::time::timeout(CONNECT_TIMEOUT, opened).await;
    opened.map_err(|_| anyhow::anyhow!("{plane} does not answer"))?
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(ctx, buffer);
        let came = buffer.filled().len() - before;
        self.ledger
            .received
            .fetch_add(came as u64, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        ctx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(ctx, bytes);
        if let Poll::Ready(Ok(went)) = &polled {
            self.ledger.sent.fetch_add(*went as u64, Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(ctx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(ctx)
    }
}
