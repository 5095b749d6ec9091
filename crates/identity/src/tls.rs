//! The rustls configurations of both sides of the mesh: TLS 1.3, P-256 identities, SPIFFE ids
//! verified both ways, session resumption. Called by the proxy once per set of credentials, and
//! once per handshake for `recheck`. Never opens a socket, never trusts a DNS name.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use rustls::client::{Resumption, WantsClientCert};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ConfigBuilder, ServerConfig};
use rustls_pki_types::{CertificateDer, DnsName, ServerName, UnixTime};
use time::OffsetDateTime;

use crate::bundle::TrustBundle;
use crate::certificate::{self, Rejection, workload_id};
use crate::credentials::Credentials;
use crate::failure::HandshakeFailure;
pub use crate::failure::classify;
use crate::spiffe::SpiffeId;
pub use crate::tickets::Tickets;
use crate::verifier::{self, Downstream, Presented, Upstream};

/// Requests of many connections on one, between two sidecars of ours. What breaks it is `leno/2`.
pub const ALPN_HOP: &[u8] = b"leno/1";
/// HTTP/2 inside mesh mutual TLS.
pub const ALPN_H2: &[u8] = b"leno-h2";
/// A connection that is passed on unread, inside mesh mutual TLS.
pub const ALPN_TCP: &[u8] = b"leno-tcp";
/// HTTP/1.1 inside mesh mutual TLS.
pub const ALPN_HTTP1: &[u8] = b"leno-http/1.1";
/// HTTP/1.1 as other meshes name it; accepted, offered second.
pub const ALPN_PUBLIC_HTTP1: &[u8] = b"http/1.1";
/// HTTP/2 as other meshes name it; accepted last.
pub const ALPN_PUBLIC_H2: &[u8] = b"h2";

/// What names of the mesh's own protocols begin with: whoever offers one speaks mesh TLS.
pub const ALPN_MESH_PREFIX: &[u8] = b"leno";

/// Sessions that one client configuration remembers; rustls keeps up to eight per endpoint.
const SESSIONS_MAX: usize = 1024;

/// Why a configuration cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody may answer: that would accept nobody, and is surely a mistake.
    #[error("no identity is expected of the upstream; list at least one under `identities`")]
    NobodyExpected,
    /// An identity that no certificate of this mesh can carry.
    #[error("`{id}` is not a workload of the trust domain `{trust_domain}`; correct `identities`")]
    NotInTrustDomain {
        /// The expected id.
        id: SpiffeId,
        /// The credentials' trust domain.
        trust_domain: String,
    },
    /// The library refused; not expected with checked credentials.
    #[error("the TLS configuration cannot be made: {0}")]
    Rustls(#[from] rustls::Error),
}

/// Which peer a chain belongs to.
#[derive(Debug, Clone, Copy)]
pub enum Side<'a> {
    /// A peer that connected to us; any workload of the trust domain.
    Downstream,
    /// A peer that we connected to; one of these.
    Upstream(&'a [SpiffeId]),
}

/// The configuration for accepting mesh connections: a client certificate is required, any
/// workload of the trust domain is let in (authorization comes later, per request).
///
/// `alpn` in the order of preference. `tickets` must be the same for every configuration of the
/// process; a changed trust bundle changes the keys in it.
///
/// # Errors
/// [`Error::Rustls`].
pub fn server_config(
    credentials: &Credentials,
    alpn: &[&[u8]],
    tickets: &Arc<Tickets>,
) -> Result<Arc<ServerConfig>, Error> {
    let verifier = Downstream::new(credentials.bundle());
    let mut config = accepting(credentials, verifier, alpn)?;
    config.enable_secret_extraction = true;
    config.ticketer = tickets.keys(credentials.bundle_fingerprint())?;
    // One connection resumes one session; a second ticket would be bytes for nothing.
    config.send_tls13_tickets = 1;
    Ok(Arc::new(config))
}

/// The configuration of the control plane's port: a client certificate that is presented must be
/// one of a workload of the trust domain, but none need be, since a workload that asks for its
/// first has none. The caller asks the connection who the peer is, and must treat one without a
/// certificate as a stranger. Sessions are not resumed: each connection proves itself anew.
///
/// # Errors
/// [`Error::Rustls`].
pub fn server_config_optional(
    credentials: &Credentials,
    alpn: &[&[u8]],
) -> Result<Arc<ServerConfig>, Error> {
    let verifier = Downstream::optional(credentials.bundle());
    let mut config = accepting(credentials, verifier, alpn)?;
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn accepting(
    credentials: &Credentials,
    verifier: Downstream,
    alpn: &[&[u8]],
) -> Result<ServerConfig, Error> {
    let key = Arc::new(SingleCertAndKey::from(Arc::clone(credentials.key())));
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(key);
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config.ignore_client_order = true;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

/// The configuration for connecting to peers of which `expected` says who may answer. Sessions
/// are remembered in it, so it lives as long as the credentials and the expectation do.
/// Connect with [`endpoint_name`]; it is not sent.
///
/// # Errors
/// [`Error::NobodyExpected`], [`Error::NotInTrustDomain`], [`Error::Rustls`].
pub fn client_config(
    credentials: &Credentials,
    alpn: &[&[u8]],
    expected: &[SpiffeId],
) -> Result<Arc<ClientConfig>, Error> {
    let key = Arc::new(SingleCertAndKey::from(Arc::clone(credentials.key())));
    let builder = connecting(credentials.bundle(), expected)?;
    let mut config = builder.with_client_cert_resolver(key);
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config.enable_sni = false;
    config.enable_secret_extraction = true;
    config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
    Ok(Arc::new(config))
}

/// The configuration for the first request of a workload that has no certificate yet: the peer
/// proves itself as in [`client_config`], we do not. Nothing is resumed.
///
/// # Errors
/// As [`client_config`].
pub fn client_config_without_identity(
    bundle: &Arc<TrustBundle>,
    alpn: &[&[u8]],
    expected: &[SpiffeId],
) -> Result<Arc<ClientConfig>, Error> {
    let mut config = connecting(bundle, expected)?.with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn connecting(
    bundle: &Arc<TrustBundle>,
    expected: &[SpiffeId],
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Error> {
    check_expected(expected, bundle.trust_domain())?;
    let verifier = Arc::new(Upstream::new(bundle, expected));
    Ok(ClientConfig::builder_with_provider(Arc::clone(provider()))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier))
}

/// `config` with other protocols. Sessions are shared with it: they prove who the peers are, not
/// what they speak.
#[must_use]
pub fn with_alpn(config: &Arc<ClientConfig>, alpn: &[&[u8]]) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(config);
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

/// The id in a chain that a finished handshake has verified. It verifies nothing by itself.
///
/// # Errors
/// [`Rejection`]; not expected after a handshake with these configurations.
pub fn peer_id(chain: &[CertificateDer<'_>]) -> Result<SpiffeId, Rejection> {
    workload_id(chain.first().ok_or(Rejection::NoCertificate)?)
}

/// How long both the peer's leaf and our own are valid from `now`; zero when one is not. A
/// connection must not outlive that.
///
/// # Errors
/// [`Rejection`]; not expected after a handshake with these configurations.
pub fn lifetime(
    chain: &[CertificateDer<'_>],
    credentials: &Credentials,
    now: SystemTime,
) -> Result<Duration, Rejection> {
    let leaf = chain.first().ok_or(Rejection::NoCertificate)?;
    let not_after = *certificate::validity(leaf)?
        .end()
        .min(&credentials.not_after());
    Ok(Duration::try_from(not_after - OffsetDateTime::from(now)).unwrap_or_default())
}

/// Verifies a chain again, as a full handshake would. To be called after a *resumed* handshake,
/// in which nobody presents a certificate and rustls only recalls the chain of the first one:
/// it may have expired, and the trust bundle or the expectation may have changed since.
///
/// # Errors
/// As in a handshake; [`classify`] names it.
pub fn recheck(
    chain: &[CertificateDer<'_>],
    credentials: &Credentials,
    side: Side<'_>,
) -> Result<SpiffeId, rustls::Error> {
    recheck_at(chain, credentials, side, UnixTime::now())
}

/// Whether a caller's chain will still be good when the bundle's first root is its only one: the
/// order of the roots says which of them connections are to rest on.
#[must_use]
pub fn rests_on_first_root(chain: &[CertificateDer<'_>], credentials: &Credentials) -> bool {
    rests_on_first_root_at(chain, credentials, UnixTime::now())
}

/// [`rests_on_first_root`] at a given time.
#[must_use]
pub fn rests_on_first_root_at(
    chain: &[CertificateDer<'_>],
    credentials: &Credentials,
    now: UnixTime,
) -> bool {
    verifier::rests_on_first(chain, credentials.bundle(), now)
}

/// [`recheck`] at a given time.
///
/// # Errors
/// As [`recheck`].
pub fn recheck_at(
    chain: &[CertificateDer<'_>],
    credentials: &Credentials,
    side: Side<'_>,
    now: UnixTime,
) -> Result<SpiffeId, rustls::Error> {
    let chain = Presented::new(chain)?;
    let bundle = credentials.bundle();
    match side {
        Side::Downstream => Downstream::new(bundle).check(chain, now),
        Side::Upstream(expected) => Upstream::new(bundle, expected).check(chain, now),
    }
}

/// Whether a finished handshake agreed on a protocol. A peer that offers none at all passes
/// rustls; inside the mesh the protocol names what follows, so that is a mismatch too.
///
/// # Errors
/// [`HandshakeFailure::AlpnMismatch`].
pub fn check_alpn(agreed: Option<&[u8]>, offered: &[&[u8]]) -> Result<(), HandshakeFailure> {
    match agreed {
        Some(name) if offered.contains(&name) => Ok(()),
        _ => Err(HandshakeFailure::AlpnMismatch),
    }
}

/// A name for an endpoint, unique per address and port, under which its sessions are remembered.
/// It is neither sent nor verified.
#[must_use]
pub fn endpoint_name(addr: SocketAddr) -> ServerName<'static> {
    let ip = addr.ip().to_string().replace([':', '.'], "-");
    let family = if addr.is_ipv4() { "v4" } else { "v6" };
    let name = format!("p{}.i{ip}i.{family}", addr.port());
    ServerName::DnsName(DnsName::try_from(name).expect("labels of letters, digits and dashes"))
}

fn check_expected(expected: &[SpiffeId], trust_domain: &str) -> Result<(), Error> {
    if expected.is_empty() {
        return Err(Error::NobodyExpected);
    }
    let stranger = |id: &&SpiffeId| id.trust_domain() != trust_domain || id.path().is_empty();
    match expected.iter().find(stranger) {
        Some(id) => {
            let trust_domain = trust_domain.to_owned();
            Err(Error::NotInTrustDomain {
                id: id.clone(),
                trust_domain,
            })
        }
        None => Ok(()),
    }
}

/// The one cryptography provider: aws-lc-rs with the mesh's suites and groups only.
pub fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        Arc::new(CryptoProvider {
            cipher_suites: vec![
                cipher_suite::TLS13_AES_128_GCM_SHA256,
                cipher_suite::TLS13_AES_256_GCM_SHA384,
                cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            ],
            kx_groups: vec![kx_group::X25519, kx_group::SECP256R1],
            ..default_provider()
        })
    })
}
