//! One connection to the control plane: TCP, TLS with its identity verified, HTTP/2. Opened by
//! `control`, and for Envoy by `envoy`; must never say anything before it is proven who is at the
//! other end.

use super::leaf;
use anyhow::Context;
use identity::SpiffeId;
use identity::credentials::Credentials;
use identity::tls;
use model::ControlPlane;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use xds::grpc::client::{Channel, connect};
use xds::grpc::{Error, Keepalive};

/// For TCP and TLS together, per address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What is spoken inside TLS.
const ALPN: &[&[u8]] = &[b"h2"];

/// A connection that calls can be made on while `driver` runs.
pub(super) struct Link {
    pub(super) channel: Channel,
    pub(super) driver: Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>,
    pub(super) address: SocketAddr,
}

/// Connects to the first address that answers, and begins HTTP/2. With `credentials` both sides
/// prove who they are, without only the control plane does.
///
/// # Errors
/// What went wrong with the last address.
pub(super) async fn open(
    plane: &ControlPlane,
    credentials: Option<&Credentials>,
) -> anyhow::Result<Link> {
    let (stream, address) = dial(plane, credentials).await?;
    let begun = timeout(CONNECT_TIMEOUT, connect(stream)).await;
    let (channel, driver) = begun.with_context(|| format!("{address} does not answer"))??;
    let driver = Box::pin(driver.run(Keepalive::default()));
    Ok(Link {
        channel,
        driver,
        address,
    })
}

/// A connection to the first address that answers, on which HTTP/2 is agreed on and nothing said.
///
/// # Errors
/// What went wrong with the last address.
pub(crate) async fn dial(
    plane: &ControlPlane,
    credentials: Option<&Credentials>,
) -> anyhow::Result<(TlsStream<TcpStream>, SocketAddr)> {
    let expected = [SpiffeId::parse(&plane.identity)?];
    let config = match credentials {
        Some(credentials) => tls::client_config(credentials, ALPN, &expected)?,
        None => {
            let bundle = leaf::read_bundle(plane)?;
            tls::client_config_without_identity(&bundle, ALPN, &expected)?
        }
    };
    let connector = TlsConnector::from(config);
    let mut failed = None;
    // Another one first each time, so that several share the sidecars.
    let start = usize::try_from(crate::random::seed() >> 1).unwrap_or(0);
    let count = plane.addresses.len();
    for address in (0..count).map(|step| plane.addresses[(start % count + step) % count]) {
        let dialled = Box::pin(dial_at(address, &connector));
        match timeout(CONNECT_TIMEOUT, dialled).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => failed = Some(error),
            Err(_) => failed = Some(anyhow::anyhow!("{address} does not answer")),
        }
    }
    Err(failed.context("no address of the control plane is known")?)
}

async fn dial_at(
    address: SocketAddr,
    connector: &TlsConnector,
) -> anyhow::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let connected = connector.connect(tls::endpoint_name(address), tcp).await;
    let stream = connected.map_err(explain)?;
    tls::check_alpn(stream.get_ref().1.alpn_protocol(), ALPN)
        .map_err(|_| anyhow::anyhow!("{address} does not speak HTTP/2"))?;
    Ok(stream)
}

/// What is wrong with who answers, in words.
fn explain(error: std::io::Error) -> anyhow::Error {
    use rustls::{CertificateError, OtherError};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(why)))) => {
            anyhow::anyhow!("{why}")
        }
        _ => error.into(),
    }
}
