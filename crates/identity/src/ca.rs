//! A certificate authority kept in two files, `ca.pem` and `ca.key`: for one machine, for tests
//! and for benchmarks. Called by `leno cert`, the benchmark suite and the test kit.
//! Never decides who may have which id: the caller has decided that.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SerialNumber,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use time::OffsetDateTime;

use crate::certificate;
use crate::spiffe::{SpiffeId, check_trust_domain};

mod error;
mod files;
mod request;
mod revocation;

pub use error::Error;
pub use revocation::Revoked;

/// Clocks of two machines may differ by this much; a new certificate must be valid on both.
const BACKDATED: Duration = Duration::from_secs(5 * 60);
/// Life of a leaf where nothing else is asked for.
pub const LEAF_TTL: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_TTL: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// A common name holds at most 64 characters (RFC 5280, ub-common-name).
const COMMON_NAME_CHARS_MAX: usize = 64;

/// A certificate authority of one trust domain.
pub struct Authority {
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    /// What follows a leaf in a chain; empty for a root.
    chain_pem: String,
    key_pem: String,
    issuer: Issuer<'static, KeyPair>,
    trust_domain: String,
    not_before: OffsetDateTime,
    not_after: OffsetDateTime,
}

/// The serial number of a certificate: 126 random bits, so that it is never issued twice. As text
/// it is lower-case hexadecimal.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(into = "String", try_from = "String")]
pub struct Serial(pub [u8; 16]);

/// A signed chain, leaf first, then the authority's own certificate if it is an intermediate.
/// That of a root is not in it: peers have it in their trust bundle.
#[derive(Debug, Clone)]
pub struct Chain {
    /// PEM.
    pub pem: String,
    /// The leaf's.
    pub serial: Serial,
    /// First moment of validity, five minutes before it was asked for.
    pub not_before: OffsetDateTime,
    /// Last moment of validity; never later than the authority's own.
    pub not_after: OffsetDateTime,
}

/// A chain with the key that was made for it.
pub struct Issued {
    /// The chain, PEM, leaf first.
    pub chain_pem: String,
    /// The private key, PKCS#8 PEM, P-256.
    pub key_pem: String,
    /// First moment of validity.
    pub not_before: OffsetDateTime,
    /// Last moment of validity.
    pub not_after: OffsetDateTime,
}

impl Authority {
    /// Makes a new authority, valid for ten years from `now`.
    ///
    /// # Errors
    /// [`Error::Name`] for a bad trust domain.
    pub fn create(trust_domain: &str, now: SystemTime) -> Result<Self, Error> {
        check_trust_domain(trust_domain)?;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = authority_params(trust_domain)?;
        // One intermediate may stand between it and a leaf: a control plane's own.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
        (params.not_before, params.not_after) = window(whole_seconds(now), AUTHORITY_TTL)?;
        let certificate = params.self_signed(&key)?;
        Self::new_from_pem(&certificate.pem(), &key)
    }

    /// Makes an authority that this root vouches for, and that signs leaves only; it never
    /// outlives the root.
    ///
    /// # Errors
    /// [`Error::NotRoot`], a validity that is not possible, an expired authority.
    pub fn intermediate(&self, ttl: Duration, now: SystemTime) -> Result<Self, Error> {
        if !self.chain_pem.is_empty() {
            return Err(Error::NotRoot);
        }
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = authority_params(&self.trust_domain)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = self.window(ttl, now)?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Self::new_from_pem(&certificate.pem(), &key)
    }

    /// Reads `ca.pem` and `ca.key` from a directory.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Content`], with the path.
    pub fn load(dir: &Path) -> Result<Self, Error> {
        let certificate = dir.join("ca.pem");
        let certificate_pem = files::read(&certificate)?;
        let key_pem = files::read(&dir.join("ca.key"))?;
        Self::from_pem(&certificate_pem, &key_pem).map_err(|reason| Error::Content {
            path: certificate,
            reason,
        })
    }

    /// Writes `ca.pem` (0644) and `ca.key` (0600) into a directory, which is made if absent.
    /// Files that are there are replaced, each in one step.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn save(&self, dir: &Path) -> Result<(), Error> {
        files::create_dir(dir)?;
        files::write_secret(&dir.join("ca.key"), &self.key_pem)?;
        files::write_public(&dir.join("ca.pem"), &self.certificate_pem)
    }

    /// Makes a key and a chain for a workload.
    ///
    /// # Errors
    /// An id outside the trust domain, a validity that is not possible, an expired authority.
    pub fn issue(&self, id: &SpiffeId, ttl: Duration, now: SystemTime) -> Result<Issued, Error> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let Chain {
            pem,
            not_before,
            not_after,
            ..
        } = self.sign(&key, id, ttl, now)?;
        Ok(Issued {
            chain_pem: pem,
            key_pem: key.serialize_pem(),
            not_before,
            not_after,
        })
    }

    /// Signs a PKCS#10 request, PEM or DER, for the id that the *caller* has found the requester
    /// to have. The request must prove possession of a P-256 key; names in it are allowed only if
    /// they are that id; anything else it asks for is ignored.
    ///
    /// # Errors
    /// [`Error::Request`], and those of [`Authority::issue`].
    pub fn sign_csr(
        &self,
        request: &[u8],
        id: &SpiffeId,
        ttl: Duration,
        now: SystemTime,
    ) -> Result<Chain, Error> {
        let request = request::read(request)?;
        let name = SanType::URI(uri(id)?);
        if request
            .params
            .subject_alt_names
            .iter()
            .any(|asked| *asked != name)
        {
            return Err(Error::Request(format!(
                "it asks for a name other than `{id}`"
            )));
        }
        self.sign(&request.public_key, id, ttl, now)
    }

    /// The trust domain whose ids it signs.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    /// Its certificate as PEM: the trust bundle of its mesh.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Its certificate.
    #[must_use]
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// First and last moment of its certificate's validity.
    #[must_use]
    pub fn validity(&self) -> std::ops::RangeInclusive<OffsetDateTime> {
        self.not_before..=self.not_after
    }

    fn new_from_pem(certificate_pem: &str, key: &KeyPair) -> Result<Self, Error> {
        Self::from_pem(certificate_pem, &key.serialize_pem()).map_err(|reason| Error::Content {
            path: PathBuf::from("the new authority"),
            reason,
        })
    }

    fn from_pem(certificate_pem: &str, key_pem: &str) -> Result<Self, String> {
        let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|e| format!("no PEM certificate in it ({e})"))?;
        let key = KeyPair::from_pem(key_pem).map_err(|e| format!("its key does not load ({e})"))?;
        let (trust_domain, validity) = check_authority(&der, &key)?;
        let chain_pem = match is_root(&der).map_err(|e| e.to_string())? {
            true => String::new(),
            false => certificate_pem.to_owned(),
        };
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(|e| e.to_string())?;
        Ok(Self {
            certificate: der,
            chain_pem,
            certificate_pem: certificate_pem.to_owned(),
            key_pem: key_pem.to_owned(),
            issuer,
            trust_domain,
            not_before: *validity.start(),
            not_after: *validity.end(),
        })
    }

    fn sign(
        &self,
        key: &impl PublicKeyData,
        id: &SpiffeId,
        ttl: Duration,
        now: SystemTime,
    ) -> Result<Chain, Error> {
        self.check_id(id)?;
        let serial = random_serial()?;
        let mut params = leaf_params(id, serial)?;
        (params.not_before, params.not_after) = self.window(ttl, now)?;
        let leaf = params.signed_by(key, &self.issuer)?;
        Ok(Chain {
            pem: leaf.pem() + &self.chain_pem,
            serial,
            not_before: params.not_before,
            not_after: params.not_after,
        })
    }

    /// From five minutes before `now` to `ttl` after it, but no longer than the own validity.
    fn window(
        &self,
        ttl: Duration,
        now: SystemTime,
    ) -> Result<(OffsetDateTime, OffsetDateTime), Error> {
        let now = whole_seconds(now);
        if now < self.not_before || self.not_after <= now {
            return Err(Error::Expired {
                not_before: certificate::rfc3339(self.not_before),
                not_after: certificate::rfc3339(self.not_after),
            });
        }
        let (not_before, not_after) = window(now, ttl)?;
        Ok((not_before, not_after.min(self.not_after)))
    }

    fn check_id(&self, id: &SpiffeId) -> Result<(), Error> {
        if id.trust_domain() != self.trust_domain {
            let trust_domain = self.trust_domain.clone();
            return Err(Error::OtherTrustDomain {
                id: id.clone(),
                trust_domain,
            });
        }
        if id.path().is_empty() {
            return Err(Error::NoWorkload(id.clone()));
        }
        Ok(())
    }
}

impl Serial {
    /// That of a certificate, if one of our authorities can have issued it.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = certificate::parse(certificate).ok()?;
        parsed.raw_serial().try_into().ok().map(Self)
    }
}

impl From<Serial> for String {
    fn from(serial: Serial) -> Self {
        serial.to_string()
    }
}

impl TryFrom<String> for Serial {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let expected = "a serial number has 32 hexadecimal digits";
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 32 || !text.bytes().all(is_hex) {
            return Err(expected);
        }
        let number = u128::from_str_radix(&text, 16).map_err(|_| expected)?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl std::fmt::Display for Serial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&certificate::hex(&self.0))
    }
}

impl Issued {
    /// Writes `NAME.pem` (0644) and `NAME.key` (0600). The key goes first, so that a reader who
    /// wakes on the certificate finds its key.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn save(&self, dir: &Path, name: &str) -> Result<(), Error> {
        files::create_dir(dir)?;
        files::write_secret(&dir.join(format!("{name}.key")), &self.key_pem)?;
        files::write_public(&dir.join(format!("{name}.pem")), &self.chain_pem)
    }
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued")
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority")
            .field("trust_domain", &self.trust_domain)
            .finish_non_exhaustive()
    }
}

/// The public key of a request that proves possession of it: SEC1, uncompressed.
///
/// # Errors
/// [`Error::Request`].
pub fn requested_key(request: &[u8]) -> Result<Vec<u8>, Error> {
    Ok(request::read(request)?.public_key.der_bytes().to_vec())
}

type Validity = std::ops::RangeInclusive<OffsetDateTime>;

fn check_authority(der: &CertificateDer<'_>, key: &KeyPair) -> Result<(String, Validity), String> {
    let summary = certificate::summary(der).map_err(|e| e.to_string())?;
    if !summary.is_authority {
        return Err("its certificate may not sign others".to_owned());
    }
    let parsed = certificate::parse(der).map_err(|e| e.to_string())?;
    if parsed.public_key().subject_public_key.data != key.public_key_raw() {
        return Err("its certificate and key do not belong together".to_owned());
    }
    let id = SpiffeId::parse(&summary.subject)
        .map_err(|_| "its certificate names no trust domain".to_owned())?;
    let validity = certificate::validity(der).map_err(|e| e.to_string())?;
    Ok((id.trust_domain().to_owned(), validity))
}

fn is_root(der: &CertificateDer<'_>) -> Result<bool, certificate::Rejection> {
    let parsed = certificate::parse(der)?;
    Ok(parsed.issuer().as_raw() == parsed.subject().as_raw())
}

fn authority_params(trust_domain: &str) -> Result<CertificateParams, Error> {
    let id = SpiffeId::parse(&format!("spiffe://{trust_domain}"))?;
    let serial = random_serial()?;
    // Two authorities of one trust domain must be told apart while one replaces the other.
    let tag = certificate::hex(&serial.0[..4]);
    let mut name = format!("authority {tag} of {trust_domain}");
    name.truncate(COMMON_NAME_CHARS_MAX);
    let mut params = named_params(&id, serial)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn leaf_params(id: &SpiffeId, serial: Serial) -> Result<CertificateParams, Error> {
    let mut params = named_params(id, serial)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn named_params(id: &SpiffeId, serial: Serial) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, "Leno");
    params.subject_alt_names = vec![SanType::URI(uri(id)?)];
    params.serial_number = Some(SerialNumber::from_slice(&serial.0));
    Ok(params)
}

/// A certificate holds no fractions of a second.
fn whole_seconds(now: SystemTime) -> OffsetDateTime {
    OffsetDateTime::from(now).truncate_to_second()
}

/// From five minutes before `now` to `ttl` after it.
fn window(now: OffsetDateTime, ttl: Duration) -> Result<(OffsetDateTime, OffsetDateTime), Error> {
    let signed = time::Duration::try_from(ttl).map_err(|_| Error::Validity(ttl))?;
    if ttl < Duration::from_secs(1) || ttl > AUTHORITY_TTL {
        return Err(Error::Validity(ttl));
    }
    let not_after = now.checked_add(signed).ok_or(Error::Validity(ttl))?;
    Ok((now - BACKDATED, not_after))
}

/// 127 random bits, not zero: unique and not to be guessed (RFC 5280, 4.1.2.2).
fn random_serial() -> Result<Serial, Error> {
    let mut serial = [0; 16];
    aws_lc_rs::rand::fill(&mut serial).map_err(|_| rcgen::Error::RingUnspecified)?;
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(Serial(serial))
}

fn uri(id: &SpiffeId) -> Result<rcgen::string::Ia5String, Error> {
    Ok(rcgen::string::Ia5String::try_from(id.as_str())?)
}
