//! A certificate authority kept in two files, `ca.pem` and `ca.key`: for one machine, for tests
//! and for benchmarks. Called by `leno cert`, the benchmark suite and the test kit.
//! Never decides who may have which id: the caller has decided that.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    PublicKeyData, SanType, SerialNumber,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer};
use time::OffsetDateTime;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use crate::certificate;
use crate::spiffe::{ParseError, SpiffeId, check_trust_domain};

mod files;

/// Clocks of two machines may differ by this much; a new certificate must be valid on both.
const BACKDATED: Duration = Duration::from_secs(5 * 60);
/// Life of a leaf where nothing else is asked for.
pub const LEAF_TTL: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_TTL: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// A common name holds at most 64 characters (RFC 5280, ub-common-name).
const COMMON_NAME_CHARS_MAX: usize = 64;

/// Why a certificate was not made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trust domain or id is not valid.
    #[error(transparent)]
    Name(#[from] ParseError),
    /// The id is not in the authority's trust domain.
    #[error(
        "`{id}` is not in this authority's trust domain `{trust_domain}`; \
         use another authority or id"
    )]
    OtherTrustDomain {
        /// The id that was asked for.
        id: SpiffeId,
        /// What the authority signs for.
        trust_domain: String,
    },
    /// The id names the trust domain, not a workload.
    #[error("`{0}` names a trust domain, not a workload; add /ns/NAMESPACE/sa/SERVICE-ACCOUNT")]
    NoWorkload(SpiffeId),
    /// A leaf that would live no time at all, or for longer than dates can say.
    #[error(
        "a validity of {0:?} is not possible; ask for at least one second and at most ten years"
    )]
    Validity(Duration),
    /// The authority's own certificate is not valid at this time.
    #[error(
        "the authority is valid from {not_before} to {not_after} only; \
         make a new one with `leno cert ca`"
    )]
    Expired {
        /// RFC 3339.
        not_before: String,
        /// RFC 3339.
        not_after: String,
    },
    /// The request does not parse or its signature does not prove possession of the key.
    #[error("the signing request is not acceptable: {0}")]
    Request(String),
    /// A file of the authority cannot be read.
    #[error("cannot read {path}: {reason}; `leno cert ca` makes an authority")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A file or directory cannot be written.
    #[error("cannot write {path}: {reason}; choose a directory that you may write to")]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A file is there but is not what it should be.
    #[error("{path} is not usable: {reason}; make a new authority with `leno cert ca`")]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The cryptography refused; not expected in operation.
    #[error("the certificate could not be made: {0}")]
    Crypto(#[from] rcgen::Error),
}

/// A certificate authority of one trust domain.
pub struct Authority {
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    key_pem: String,
    issuer: Issuer<'static, KeyPair>,
    trust_domain: String,
    not_before: OffsetDateTime,
    not_after: OffsetDateTime,
}

/// A signed chain, leaf first. The authority's own certificate is not in it: peers have it
/// in their trust bundle.
#[derive(Debug, Clone)]
pub struct Chain {
    /// PEM.
    pub pem: String,
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
        let certificate = authority_params(trust_domain, now)?.self_signed(&key)?;
        Self::from_pem(&certificate.pem(), &key.serialize_pem()).map_err(|reason| Error::Content {
            path: PathBuf::from("the new authority"),
            reason,
        })
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
        let request = read_request(request)?;
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

    fn from_pem(certificate_pem: &str, key_pem: &str) -> Result<Self, String> {
        let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|e| format!("no PEM certificate in it ({e})"))?;
        let key = KeyPair::from_pem(key_pem).map_err(|e| format!("its key does not load ({e})"))?;
        let (trust_domain, validity) = check_authority(&der, &key)?;
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(|e| e.to_string())?;
        Ok(Self {
            certificate: der,
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
        let now = whole_seconds(now);
        if now < self.not_before || self.not_after <= now {
            let [not_before, not_after] =
                [self.not_before, self.not_after].map(certificate::rfc3339);
            return Err(Error::Expired {
                not_before,
                not_after,
            });
        }
        let mut params = leaf_params(id)?;
        (params.not_before, params.not_after) = window(now, ttl)?;
        params.not_after = params.not_after.min(self.not_after);
        let pem = params.signed_by(key, &self.issuer)?.pem();
        Ok(Chain {
            pem,
            not_before: params.not_before,
            not_after: params.not_after,
        })
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

fn authority_params(trust_domain: &str, now: SystemTime) -> Result<CertificateParams, Error> {
    let id = SpiffeId::parse(&format!("spiffe://{trust_domain}"))?;
    let serial = random_serial()?;
    // Two authorities of one trust domain must be told apart while one replaces the other.
    let tag = certificate::hex(&serial[..4]);
    let mut name = format!("authority {tag} of {trust_domain}");
    name.truncate(COMMON_NAME_CHARS_MAX);
    let mut params = named_params(&id, serial)?;
    params.distinguished_name.push(DnType::CommonName, name);
    // One intermediate may stand between it and a leaf: a control plane's own.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (params.not_before, params.not_after) = window(whole_seconds(now), AUTHORITY_TTL)?;
    Ok(params)
}

fn leaf_params(id: &SpiffeId) -> Result<CertificateParams, Error> {
    let mut params = named_params(id, random_serial()?)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn named_params(id: &SpiffeId, serial: [u8; 16]) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, "Leno");
    params.subject_alt_names = vec![SanType::URI(uri(id)?)];
    params.serial_number = Some(SerialNumber::from_slice(&serial));
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
fn random_serial() -> Result<[u8; 16], Error> {
    let mut serial = [0; 16];
    aws_lc_rs::rand::fill(&mut serial).map_err(|_| rcgen::Error::RingUnspecified)?;
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(serial)
}

fn uri(id: &SpiffeId) -> Result<rcgen::string::Ia5String, Error> {
    Ok(rcgen::string::Ia5String::try_from(id.as_str())?)
}

/// Parses a request and checks its signature, which proves possession of the key.
fn read_request(bytes: &[u8]) -> Result<CertificateSigningRequestParams, Error> {
    let refuse = |e: &dyn std::fmt::Display| Error::Request(e.to_string());
    let der = if bytes.starts_with(b"-----BEGIN") {
        CertificateSigningRequestDer::from_pem_slice(bytes).map_err(|e| refuse(&e))?
    } else {
        CertificateSigningRequestDer::from(bytes.to_vec())
    };
    if !holds_p256_key(&der) {
        return Err(refuse(&"its key is not ECDSA P-256"));
    }
    CertificateSigningRequestParams::from_der(&der).map_err(|e| refuse(&e))
}

fn holds_p256_key(request: &[u8]) -> bool {
    let Ok((_, request)) = X509CertificationRequest::from_der(request) else {
        return false;
    };
    let key = &request.certification_request_info.subject_pki;
    let curve = key
        .algorithm
        .parameters
        .as_ref()
        .and_then(|any| any.as_oid().ok());
    curve.is_some_and(|oid| oid == x509_parser::oid_registry::OID_EC_P256)
}
