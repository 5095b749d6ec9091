//! A workload's private key: P-256, made where it is used. Called by the sidecar before it asks
//! for a certificate, and by credentials. Never printed; wiped from memory when it is dropped.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, PKCS_ECDSA_P256_SHA256, SanType};
use rcgen::{PublicKeyData, SignatureAlgorithm, SigningKey};
use rustls::SignatureScheme;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::{Zeroize, Zeroizing};

use crate::spiffe::SpiffeId;
use crate::tls;

/// Characters in a line of PEM (RFC 7468, section 2).
const PEM_LINE_CHARS: usize = 64;

/// Why a key cannot be made, read or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not PEM, or no private key in it.
    #[error("no private key: {0}; it must be PEM, as `leno cert` writes it")]
    Pem(String),
    /// The key does not load, or is of another kind.
    #[error("{0}; the mesh needs an ECDSA P-256 key")]
    Kind(String),
    /// The cryptography refused; not expected in operation.
    #[error("the key could not be used: {0}")]
    Crypto(String),
}

/// A P-256 private key.
///
/// Invariant: rustls can sign with it, with ECDSA on P-256 and SHA-256.
pub struct PrivateKey(PrivateKeyDer<'static>);

/// Makes a new key.
///
/// # Errors
/// [`Error::Crypto`].
pub fn generate() -> Result<PrivateKey, Error> {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)
        .map_err(|e| Error::Crypto(e.to_string()))?;
    let der = PrivatePkcs8KeyDer::from(document.as_ref().to_vec());
    Ok(PrivateKey(der.into()))
}

impl PrivateKey {
    /// Reads a key, PKCS#8 or SEC1.
    ///
    /// # Errors
    /// [`Error::Pem`] and [`Error::Kind`].
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|e| Error::Pem(e.to_string()))?;
        let key = Self(der);
        key.signer().map(|_| key)
    }

    /// The key for a file that only its owner may read; wiped when the text is dropped.
    #[must_use]
    pub fn to_pem(&self) -> Zeroizing<String> {
        let label = match self.0 {
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        let base64 = Zeroizing::new(STANDARD.encode(self.0.secret_der()));
        let mut pem = Zeroizing::new(format!("-----BEGIN {label}-----\n"));
        for line in base64.as_bytes().chunks(PEM_LINE_CHARS) {
            pem.extend(line.iter().map(|byte| char::from(*byte)));
            pem.push('\n');
        }
        pem.push_str(&format!("-----END {label}-----\n"));
        pem
    }

    /// A request for a certificate (PKCS#10, DER) that proves possession of the key: without a
    /// subject, `id` as its one name.
    ///
    /// # Errors
    /// [`Error::Crypto`].
    pub fn csr(&self, id: &SpiffeId) -> Result<Vec<u8>, Error> {
        let crypto = |e: &dyn std::fmt::Display| Error::Crypto(e.to_string());
        let name = rcgen::string::Ia5String::try_from(id.as_str()).map_err(|e| crypto(&e))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![SanType::URI(name)];
        let signer = Signer::new(&self.0).map_err(|e| crypto(&e))?;
        let request = params.serialize_request(&signer).map_err(|e| crypto(&e))?;
        Ok(request.der().to_vec())
    }

    /// What rustls signs handshakes with.
    pub(crate) fn signer(&self) -> Result<std::sync::Arc<dyn rustls::sign::SigningKey>, Error> {
        let provider = tls::provider().key_provider;
        let key = provider
            .load_private_key(self.0.clone_key())
            .map_err(|e| Error::Kind(e.to_string()))?;
        match key.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]) {
            Some(_) => Ok(key),
            None => Err(Error::Kind("it is of another kind".to_owned())),
        }
    }
}

impl Drop for PrivateKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

/// The key as the request's writer wants it; without a copy of the private half that nobody wipes.
struct Signer(EcdsaKeyPair);

impl Signer {
    fn new(key: &PrivateKeyDer<'_>) -> Result<Self, aws_lc_rs::error::KeyRejected> {
        let (kind, der) = (&ECDSA_P256_SHA256_ASN1_SIGNING, key.secret_der());
        match key {
            PrivateKeyDer::Pkcs8(_) => EcdsaKeyPair::from_pkcs8(kind, der),
            _ => EcdsaKeyPair::from_private_key_der(kind, der),
        }
        .map(Self)
    }
}

impl PublicKeyData for Signer {
    fn der_bytes(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl SigningKey for Signer {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signature = self.0.sign(&SystemRandom::new(), message);
        let signature = signature.map_err(|_| rcgen::Error::RingUnspecified)?;
        Ok(signature.as_ref().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_survives_its_text_and_is_never_printed() {
        let key = generate().unwrap();
        let text = key.to_pem();
        let again = PrivateKey::from_pem(text.as_bytes()).unwrap();
        assert_eq!(again.to_pem(), text);
        assert!(text.lines().all(|line| line.len() <= PEM_LINE_CHARS));
        assert_eq!(format!("{key:?}"), "PrivateKey(..)");
        assert_ne!(generate().unwrap().to_pem(), text);
    }

    #[test]
    fn key_of_another_kind_is_refused() {
        let other = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let error = PrivateKey::from_pem(other.serialize_pem().as_bytes()).unwrap_err();
        assert!(matches!(error, Error::Kind(_)), "{error}");
        let error = PrivateKey::from_pem(b"hello").unwrap_err();
        assert!(matches!(error, Error::Pem(_)), "{error}");
    }
}
