//! Certificates that clients outside of the mesh are shown, each with its key, and the TLS with
//! which that is done: 1.2 and 1.3, the client proves nothing. Called by the control plane, which
//! checks what it was given, and by the sidecar of a gateway. Never prints a key, and never takes
//! part in the mesh's own TLS.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;
use x509_parser::extensions::GeneralName;

use crate::certificate::{self, Summary};

/// Largest chain and largest key, in bytes of PEM: many times what any authority issues, and little
/// enough to be handed to every gateway.
pub const PEM_BYTES_MAX: usize = 256 * 1024;

/// Why a certificate cannot be shown. None of them has anything of the key in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No certificate, or one that does not parse.
    #[error("the certificate cannot be read ({0}); it must be PEM, the leaf first")]
    Chain(String),
    /// No private key, or one of a kind that is not known.
    #[error("the key cannot be read; it must be PEM, of RSA, ECDSA or Ed25519")]
    Key,
    /// They do not belong together.
    #[error("the key is not the certificate's; give the two that belong together")]
    Mismatch,
    /// One of them is longer than any should be.
    #[error("more than {PEM_BYTES_MAX} bytes; give the chain and the key alone")]
    TooLarge,
}

/// A chain with the key of its leaf.
pub struct Certificate {
    key: Arc<CertifiedKey>,
    overview: Overview,
}

/// What an operator wants to see of one.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// For which names of DNS and which addresses it stands.
    pub hosts: Vec<String>,
    /// The leaf.
    #[serde(flatten)]
    pub leaf: Summary,
}

impl Certificate {
    /// Reads both; they must belong together.
    ///
    /// # Errors
    /// [`Error`].
    pub fn from_pem(chain: &str, key: &str) -> Result<Self, Error> {
        if chain.len().max(key.len()) > PEM_BYTES_MAX {
            return Err(Error::TooLarge);
        }
        let unreadable = |error: &dyn fmt::Display| Error::Chain(error.to_string());
        let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let list = list.map_err(|error| unreadable(&error))?;
        let leaf = list.first();
        let leaf = leaf.ok_or_else(|| Error::Chain("there is none".to_owned()))?;
        let overview = overview(leaf).map_err(|error| unreadable(&error))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| Error::Key)?;
        let key = CertifiedKey::from_der(list, key, provider());
        let key = key.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => Error::Mismatch,
            rustls::Error::InvalidCertificate(error) => Error::Chain(format!("{error:?}")),
            _ => Error::Key,
        })?;
        let key = Arc::new(key);
        Ok(Self { key, overview })
    }

    /// What handshakes show and sign with.
    #[must_use]
    pub const fn key(&self) -> &Arc<CertifiedKey> {
        &self.key
    }

    /// What an operator wants to see of it.
    #[must_use]
    pub const fn overview(&self) -> &Overview {
        &self.overview
    }

    /// Whether clients take it at `now`, as far as that is a question of time.
    #[must_use]
    pub fn is_valid_at(&self, now: SystemTime) -> bool {
        let leaf = self.key.cert.first();
        let validity = leaf.and_then(|leaf| certificate::validity(leaf).ok());
        validity.is_some_and(|validity| validity.contains(&OffsetDateTime::from(now)))
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Certificate").field(&self.overview).finish()
    }
}

fn overview(leaf: &CertificateDer<'_>) -> Result<Overview, certificate::Rejection> {
    let parsed = certificate::parse(leaf)?;
    let names = parsed.subject_alternative_name().ok().flatten();
    let names = names.map_or(&[][..], |names| &names.value.general_names);
    let hosts = names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes),
        _ => None,
    });
    Ok(Overview {
        hosts: hosts.collect(),
        leaf: certificate::summary(leaf)?,
    })
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|ip| std::net::IpAddr::from(ip).to_string());
    let v6 = <[u8; 16]>::try_from(bytes).map(|ip| std::net::IpAddr::from(ip).to_string());
    v4.or(v6).ok()
}

/// The configuration for clients outside of the mesh, who are shown what `resolver` chooses.
///
/// `alpn` in the order of preference. Sessions are resumed by tickets whose keys are this
/// configuration's own: whoever makes another for other certificates ends them.
///
/// # Errors
/// The library refused; not expected.
pub fn server_config(
    resolver: Arc<dyn ResolvesServerCert>,
    alpn: &[&[u8]],
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(resolver);
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = Ticketer::new()?;
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}

/// The same cryptography as in the mesh, with all suites that clients may have.
pub(crate) fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(default_provider()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn pair(algorithm: &'static rcgen::SignatureAlgorithm) -> (String, String) {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let params = rcgen::CertificateParams::new(["shop.example".to_owned(), "10.0.0.1".into()]);
        let certificate = params.unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn a_chain_and_its_key_are_taken() {
        for algorithm in [
            &rcgen::PKCS_ECDSA_P256_SHA256,
            &rcgen::PKCS_ECDSA_P384_SHA384,
            &rcgen::PKCS_ED25519,
        ] {
            let (chain, key) = pair(algorithm);
            let certificate = Certificate::from_pem(&chain, &key).unwrap();
            assert_eq!(certificate.overview().hosts, ["shop.example", "10.0.0.1"]);
            assert!(certificate.is_valid_at(SystemTime::now()));
            let later = SystemTime::now() + Duration::from_secs(95_000_000_000);
            assert!(!certificate.is_valid_at(later));
        }
    }

    #[track_caller]
    fn refused(chain: &str, key: &str, wanted: &str) {
        let error = Certificate::from_pem(chain, key).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
        let secret = key.lines().nth(1).unwrap_or("-----BEGIN");
        assert!(!error.contains(secret), "{error}");
    }

    #[test]
    fn what_clients_would_not_take_is_refused_without_a_word_of_the_key() {
        let (chain, key) = pair(&rcgen::PKCS_ECDSA_P256_SHA256);
        let (_, other) = pair(&rcgen::PKCS_ECDSA_P256_SHA256);
        refused(&chain, &other, "the key is not the certificate's");
        refused("", &key, "the certificate cannot be read (there is none)");
        refused("hello", &key, "the certificate cannot be read");
        refused(&chain, "hello", "the key cannot be read");
        refused(&chain, &chain, "the key cannot be read");
        let cut = key.replace("BEGIN PRIVATE KEY-----\n", "BEGIN PRIVATE KEY-----\nAAAA");
        refused(&chain, &cut, "the key cannot be read");
        let broken = chain.replacen("MI", "AA", 1);
        refused(&broken, &key, "the certificate cannot be read");
        refused(&"x".repeat(PEM_BYTES_MAX + 1), &key, "more than");
    }

    #[test]
    fn a_key_is_never_printed() {
        let (chain, key) = pair(&rcgen::PKCS_ECDSA_P256_SHA256);
        let printed = format!("{:?}", Certificate::from_pem(&chain, &key).unwrap());
        assert!(!printed.contains(key.lines().nth(1).unwrap()), "{printed}");
    }
}
