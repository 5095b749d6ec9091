//! A client outside of the mesh that speaks TLS as browsers do: it asks for a server by name, knows
//! some authority, and proves nothing. With certificates for such servers. Used by tests of
//! gateways.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use identity::certificate::summary;
use rcgen::{CertificateParams, KeyPair};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, SupportedCipherSuite, SupportedProtocolVersion,
};

use crate::client::{TlsClient, shake_hands};
use crate::h2::H2Client;

/// Sessions that are remembered.
const SESSIONS_MAX: usize = 32;

/// A certificate for these hosts with its key, both PEM; nobody else vouches for it.
///
/// # Panics
/// If a host is no name.
#[must_use]
pub fn certificate(hosts: &[&str]) -> (String, String) {
    let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let key = KeyPair::generate().expect("a key can be made");
    let params = CertificateParams::new(hosts).expect("tests use plain names");
    let certificate = params.self_signed(&key).expect("it can be signed");
    (certificate.pem(), key.serialize_pem())
}

/// SHA-256 of the first certificate of a chain, lower-case hexadecimal.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn fingerprint(chain: &str) -> String {
    let leaf = CertificateDer::from_pem_slice(chain.as_bytes()).expect("it is PEM");
    summary(&leaf).expect("it is a certificate").sha256
}

/// A client that knows some servers, and remembers sessions.
#[derive(Clone)]
pub struct Browser {
    config: Arc<ClientConfig>,
}

impl Browser {
    /// One that takes the server of this chain, and offers nothing beside TLS 1.2 and 1.3.
    ///
    /// # Panics
    /// If the chain is not PEM.
    #[must_use]
    pub fn trusting(chain: &str) -> Self {
        Self::speaking(chain, &[&TLS12, &TLS13])
    }

    /// As [`Browser::trusting`], with TLS 1.2 only.
    ///
    /// # Panics
    /// If the chain is not PEM.
    #[must_use]
    pub fn old(chain: &str) -> Self {
        Self::speaking(chain, &[&TLS12])
    }

    /// As [`Browser::trusting`], with this suite only, and the version that it belongs to.
    ///
    /// # Panics
    /// If the chain is not PEM.
    #[must_use]
    pub fn with_suite(chain: &str, suite: SupportedCipherSuite) -> Self {
        let mut provider = default_provider();
        provider.cipher_suites = vec![suite];
        Self::built(chain, &[suite.version()], provider)
    }

    fn speaking(chain: &str, versions: &[&'static SupportedProtocolVersion]) -> Self {
        Self::built(chain, versions, default_provider())
    }

    fn built(
        chain: &str,
        versions: &[&'static SupportedProtocolVersion],
        provider: CryptoProvider,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(chain.as_bytes()).expect("it is PEM");
        roots.add(certificate).expect("it may be a root");
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .expect("the versions are known")
            .with_root_certificates(roots);
        let mut config = config.with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        Self {
            config: Arc::new(config),
        }
    }

    /// The same, offering these protocols.
    #[must_use]
    pub fn offering(&self, alpn: &[&[u8]]) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Self {
            config: Arc::new(config),
        }
    }

    /// The same, which does not say which server it asks for.
    #[must_use]
    pub fn nameless(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.enable_sni = false;
        Self {
            config: Arc::new(config),
        }
    }

    /// Connects to the server of that name.
    ///
    /// # Errors
    /// What the handshake came to.
    ///
    /// # Panics
    /// If TCP does not connect.
    pub fn connect(&self, addr: SocketAddr, name: &str) -> io::Result<TlsClient> {
        shake_hands(addr, self.connection(name))
    }

    /// Whether this client trusts what is shown to whoever asks for that name, be it another's.
    #[must_use]
    pub fn is_shown(&self, addr: SocketAddr, name: &str) -> bool {
        match self.connect(addr, name) {
            Ok(_) => true,
            // It is trusted, and another's.
            Err(error) => error.to_string().contains("not valid for name"),
        }
    }

    /// Connects, and speaks HTTP/2.
    ///
    /// # Panics
    /// If that fails.
    #[track_caller]
    #[must_use]
    pub fn connect_h2(&self, addr: SocketAddr, name: &str) -> H2Client {
        H2Client::connect_in(addr, self.offering(&[b"h2"]).connection(name))
    }

    fn connection(&self, name: &str) -> ClientConnection {
        let name = ServerName::try_from(name.to_owned()).expect("tests use plain names");
        ClientConnection::new(Arc::clone(&self.config), name).expect("the configuration is good")
    }
}
