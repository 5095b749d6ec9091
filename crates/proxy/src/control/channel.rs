//! One connection to the control plane: TCP or a unix socket, TLS with its identity verified where
//! the configuration does not waive it, HTTP/2. Opened by `control`, and for Envoy by `envoy`; must
//! never say anything before it is proven who is at the other end.

use super::leaf;
use anyhow::Context;
use http::uri::{Authority, Scheme};
use identity::SpiffeId;
use identity::credentials::Credentials;
use identity::{foreign, tls};
use model::{ControlAddress, ControlPlane, Trust};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use xds::grpc::client::{Channel, connect};
use xds::grpc::{Error, Keepalive};

/// For TCP and TLS together, per address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For others: servers of gRPC end connections on which they are asked more often than every five
/// minutes whether they are there, unless they are told to bear it.
const PATIENT: Keepalive = Keepalive {
    interval: Duration::from_secs(330),
    timeout: Duration::from_secs(20),
};
/// What is spoken inside TLS.
const ALPN: &[&[u8]] = &[b"h2"];
/// Whom one calls where nobody has a name.
const LOCALHOST: Authority = Authority::from_static("localhost");

/// A connection that calls can be made on while `driver` runs.
pub(super) struct Link {
    pub(super) channel: Channel,
    pub(super) driver: Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>,
    pub(super) address: ControlAddress,
}

/// What bytes go over.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// What the other end has to prove.
enum Demand {
    /// That it is of the mesh.
    Mesh(Arc<ClientConfig>),
    /// That it has this name.
    Name(Arc<ClientConfig>, ServerName<'static>),
    /// Nothing.
    Nothing,
}

/// Connects to the first address that answers, and begins HTTP/2. With `credentials` of the mesh
/// both sides prove who they are, without only the control plane does.
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
    let channel = match &plane.tls {
        Trust::Mesh(_) => channel,
        Trust::Files(files) => channel.calling(Scheme::HTTPS, authority(&files.name)?),
        Trust::Plaintext => channel.calling(Scheme::HTTP, LOCALHOST),
    };
    let keepalive = match &plane.tls {
        Trust::Mesh(_) => Keepalive::default(),
        Trust::Files(_) | Trust::Plaintext => PATIENT,
    };
    let driver = Box::pin(driver.run(keepalive));
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
) -> anyhow::Result<(Box<dyn Stream>, ControlAddress)> {
    let demand = demand(&plane.tls, credentials)?;
    let mut failed = None;
    // Another one first each time, so that several share the sidecars.
    let start = usize::try_from(crate::random::seed() >> 1).unwrap_or(0);
    let count = plane.addresses.len();
    for address in (0..count).map(|step| &plane.addresses[(start % count + step) % count]) {
        let dialled = Box::pin(dial_at(address, &demand));
        match timeout(CONNECT_TIMEOUT, dialled).await {
            Ok(Ok(stream)) => return Ok((stream, address.clone())),
            Ok(Err(error)) => failed = Some(error),
            Err(_) => failed = Some(anyhow::anyhow!("{address} does not answer")),
        }
    }
    Err(failed.context("no address of the control plane is known")?)
}

fn demand(trust: &Trust, credentials: Option<&Credentials>) -> anyhow::Result<Demand> {
    match (trust, credentials) {
        (Trust::Mesh(terms), Some(credentials)) => {
            let expected = [SpiffeId::parse(&terms.identity)?];
            let config = tls::client_config(credentials, ALPN, &expected)?;
            Ok(Demand::Mesh(config))
        }
        (Trust::Mesh(terms), None) => {
            let expected = [SpiffeId::parse(&terms.identity)?];
            let bundle = leaf::read_bundle(terms)?;
            let config = tls::client_config_without_identity(&bundle, ALPN, &expected)?;
            Ok(Demand::Mesh(config))
        }
        // Read each time: they may have been renewed.
        (Trust::Files(files), _) => {
            let own = files.own.as_ref();
            let own = own.map(|(certificate, key)| (&**certificate, &**key));
            let config = foreign::client_config(&files.trust_bundle, own, ALPN)?;
            Ok(Demand::Name(
                config,
                ServerName::try_from(files.name.clone())?,
            ))
        }
        (Trust::Plaintext, _) => Ok(Demand::Nothing),
    }
}

fn authority(name: &str) -> anyhow::Result<Authority> {
    let is_ipv6 = name.contains(':');
    Ok(match is_ipv6 {
        true => format!("[{name}]").parse()?,
        false => name.parse()?,
    })
}

async fn dial_at(address: &ControlAddress, demand: &Demand) -> anyhow::Result<Box<dyn Stream>> {
    let ip = match address {
        ControlAddress::Ip(ip) => *ip,
        ControlAddress::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
    };
    let tcp = TcpStream::connect(ip).await?;
    tcp.set_nodelay(true)?;
    let (config, name) = match demand {
        Demand::Mesh(config) => (config, tls::endpoint_name(ip)),
        Demand::Name(config, name) => (config, name.clone()),
        Demand::Nothing => return Ok(Box::new(tcp)),
    };
    let connector = TlsConnector::from(Arc::clone(config));
    let connected = connector.connect(name, tcp).await;
    let stream = connected.map_err(explain)?;
    tls::check_alpn(stream.get_ref().1.alpn_protocol(), ALPN)
        .map_err(|_| anyhow::anyhow!("{address} does not speak HTTP/2"))?;
    Ok(Box::new(stream))
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
