//! A workload's own chain, key and trust bundle: read from files, checked as a whole, immutable.
//! The proxy loads them at start and again on every change; a load that fails leaves the
//! previous credentials in use. Never prints key material.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use time::OffsetDateTime;

use crate::certificate::{self, FileError, Rejection, Summary};
use crate::spiffe::{ParseError, SpiffeId, check_trust_domain};
use crate::tls;

/// Where a workload's credentials lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// The chain, PEM, leaf first.
    pub certificate: PathBuf,
    /// The private key, PKCS#8 or SEC1 PEM, P-256; its file should be 0600.
    pub key: PathBuf,
    /// The certificates that are trusted to sign peers' certificates, PEM, one or more.
    pub trust_bundle: PathBuf,
}

/// Why credentials cannot be used; says which file, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trust domain's name is not valid.
    #[error(transparent)]
    TrustDomain(#[from] ParseError),
    /// A file cannot be read.
    #[error("cannot read {path}: {reason}; check the path under `identity` and who may read it")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A file is not PEM, or has nothing of the wanted kind in it.
    #[error("{path} holds no {wanted}: {reason}; it must be PEM, as `leno cert` writes it")]
    Pem {
        /// Which file.
        path: PathBuf,
        /// `certificate` or `private key`.
        wanted: &'static str,
        /// What the reader said.
        reason: String,
    },
    /// The leaf is not one of a workload of this trust domain.
    #[error("{path} is not usable: {rejection}")]
    Leaf {
        /// The chain's file.
        path: PathBuf,
        /// What is wrong.
        rejection: Rejection,
    },
    /// The leaf is not valid at this time.
    #[error(
        "{path} is valid from {not_before} to {not_after} only; \
         issue a new certificate (or set the clock)"
    )]
    Expired {
        /// The chain's file.
        path: PathBuf,
        /// RFC 3339.
        not_before: String,
        /// RFC 3339.
        not_after: String,
    },
    /// The key is not P-256, or does not load.
    #[error("{path} is not usable: {reason}; the mesh needs an ECDSA P-256 key")]
    Key {
        /// The key's file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The key is not the certificate's.
    #[error("{key} is not the key of {certificate}; write both anew, the key first")]
    KeyMismatch {
        /// The key's file.
        key: PathBuf,
        /// The chain's file.
        certificate: PathBuf,
    },
    /// No certificate of the bundle can be trusted now.
    #[error(
        "{path} holds no certificate authority that is valid now ({reason}); renew the trust bundle"
    )]
    TrustBundle {
        /// The bundle's file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// One workload's credentials: who it is, how it proves it, whom it trusts.
///
/// Invariant: the key belongs to the leaf, the leaf names one workload of the trust domain and
/// was valid when it was read, and the bundle has at least one authority.
#[derive(Clone)]
pub struct Credentials {
    id: SpiffeId,
    trust_domain: Arc<str>,
    not_after: OffsetDateTime,
    key: Arc<CertifiedKey>,
    bundle: Arc<TrustBundle>,
    warnings: Arc<[String]>,
}

/// The authorities that are trusted, and what makes this bundle differ from another.
pub(crate) struct TrustBundle {
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    pub(crate) fingerprint: Fingerprint,
}

/// Two trust bundles with equal fingerprints trust the same authorities for the same domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// What the admin page shows of credentials.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// The workload's own id.
    pub id: String,
    /// The trust domain.
    pub trust_domain: String,
    /// The chain, leaf first.
    pub certificate_chain: Vec<Summary>,
    /// The trusted authorities.
    pub trust_bundle: Vec<Summary>,
    /// What is not right but does not keep them from being used.
    pub warnings: Vec<String>,
}

impl Credentials {
    /// Reads and checks the three files. Nothing is kept of earlier credentials: on an error
    /// the caller goes on with those that it has.
    ///
    /// # Errors
    /// The first thing that is wrong, with the file's path.
    pub fn load(paths: &Paths, trust_domain: &str) -> Result<Self, Error> {
        Self::load_at(paths, trust_domain, SystemTime::now())
    }

    /// [`Credentials::load`] at a given time.
    ///
    /// # Errors
    /// As [`Credentials::load`].
    pub fn load_at(paths: &Paths, trust_domain: &str, now: SystemTime) -> Result<Self, Error> {
        check_trust_domain(trust_domain)?;
        let now = OffsetDateTime::from(now);
        let chain = read_certificates(&paths.certificate)?;
        let (id, not_after) = check_leaf(&chain[0], &paths.certificate, trust_domain, now)?;
        let key = read_key(paths, chain)?;
        let mut warnings = Vec::from_iter(permission_warning(&paths.key));
        let bundle = read_bundle(&paths.trust_bundle, trust_domain, now, &mut warnings)?;
        warnings.extend(chain_warning(&key.cert, &bundle, paths, now));
        Ok(Self {
            id,
            trust_domain: trust_domain.into(),
            not_after,
            key: Arc::new(key),
            bundle: Arc::new(bundle),
            warnings: warnings.into(),
        })
    }

    /// Who the workload is.
    #[must_use]
    pub fn own_id(&self) -> &SpiffeId {
        &self.id
    }

    /// Whose ids are accepted.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    /// Last moment of the leaf's validity. A connection should not outlive it.
    #[must_use]
    pub fn not_after(&self) -> OffsetDateTime {
        self.not_after
    }

    /// What is not right but does not keep the credentials from being used: a key that others
    /// may read, an expired authority in the bundle, a chain that the own bundle does not trust.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Changes exactly when the trusted authorities or the trust domain change.
    #[must_use]
    pub fn bundle_fingerprint(&self) -> Fingerprint {
        self.bundle.fingerprint
    }

    /// What the admin page shows.
    #[must_use]
    pub fn overview(&self) -> Overview {
        let all = |list: &[CertificateDer<'_>]| {
            list.iter()
                .filter_map(|der| certificate::summary(der).ok())
                .collect()
        };
        Overview {
            id: self.id.to_string(),
            trust_domain: self.trust_domain.to_string(),
            certificate_chain: all(&self.key.cert),
            trust_bundle: all(&self.bundle.certificates),
            warnings: self.warnings.to_vec(),
        }
    }

    pub(crate) fn key(&self) -> &Arc<CertifiedKey> {
        &self.key
    }

    pub(crate) fn roots(&self) -> &Arc<RootCertStore> {
        &self.bundle.roots
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let not_after = certificate::rfc3339(self.not_after);
        f.debug_struct("Credentials")
            .field("id", &self.id)
            .field("not_after", &not_after)
            .finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|reason| Error::Read {
        path: path.to_owned(),
        reason,
    })
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    certificate::read_file(path).map_err(|error| match error {
        FileError::Read { path, reason } => Error::Read { path, reason },
        FileError::Pem { path, reason } => Error::Pem {
            path,
            wanted: "certificate",
            reason,
        },
    })
}

fn check_leaf(
    leaf: &CertificateDer<'_>,
    path: &Path,
    trust_domain: &str,
    now: OffsetDateTime,
) -> Result<(SpiffeId, OffsetDateTime), Error> {
    let refuse = |rejection| Error::Leaf {
        path: path.to_owned(),
        rejection,
    };
    let id = certificate::workload_id(leaf).map_err(refuse)?;
    if id.trust_domain() != trust_domain {
        let trust_domain = trust_domain.to_owned();
        return Err(refuse(Rejection::WrongTrustDomain { id, trust_domain }));
    }
    let validity = certificate::validity(leaf).map_err(refuse)?;
    if !validity.contains(&now) {
        let (not_before, not_after) = (
            certificate::rfc3339(*validity.start()),
            certificate::rfc3339(*validity.end()),
        );
        return Err(Error::Expired {
            path: path.to_owned(),
            not_before,
            not_after,
        });
    }
    Ok((id, *validity.end()))
}

fn read_key(paths: &Paths, chain: Vec<CertificateDer<'static>>) -> Result<CertifiedKey, Error> {
    let path = || paths.key.clone();
    let der = PrivateKeyDer::from_pem_slice(&read(&paths.key)?).map_err(|e| Error::Pem {
        path: path(),
        wanted: "private key",
        reason: e.to_string(),
    })?;
    let key = tls::provider()
        .key_provider
        .load_private_key(der)
        .map_err(|e| Error::Key {
            path: path(),
            reason: e.to_string(),
        })?;
    if key
        .choose_scheme(&[rustls::SignatureScheme::ECDSA_NISTP256_SHA256])
        .is_none()
    {
        let reason = "it is of another kind".to_owned();
        return Err(Error::Key {
            path: path(),
            reason,
        });
    }
    let key = CertifiedKey::new(chain, key);
    match key.keys_match() {
        Ok(()) => Ok(key),
        Err(_) => Err(Error::KeyMismatch {
            key: path(),
            certificate: paths.certificate.clone(),
        }),
    }
}

fn permission_warning(key: &Path) -> Option<String> {
    let mode = std::fs::metadata(key).ok()?.permissions().mode() & 0o777;
    let open = mode & 0o077 != 0;
    open.then(|| {
        format!(
            "{} has mode {mode:04o}: others may read the private key; run chmod 600 on it",
            key.display()
        )
    })
}

fn read_bundle(
    path: &Path,
    trust_domain: &str,
    now: OffsetDateTime,
    warnings: &mut Vec<String>,
) -> Result<TrustBundle, Error> {
    let mut roots = RootCertStore::empty();
    let mut certificates = Vec::new();
    for der in read_certificates(path)? {
        match check_root(&der, now).and_then(|()| {
            roots
                .add(der.clone())
                .map_err(|e| format!("it is no usable trust anchor ({e})"))
        }) {
            Ok(()) => certificates.push(der),
            Err(reason) => warnings.push(format!("{}: left out: {reason}", path.display())),
        }
    }
    if certificates.is_empty() {
        let reason = warnings.last().cloned().unwrap_or_default();
        return Err(Error::TrustBundle {
            path: path.to_owned(),
            reason,
        });
    }
    let fingerprint = fingerprint(&certificates, trust_domain);
    Ok(TrustBundle {
        roots: Arc::new(roots),
        certificates,
        fingerprint,
    })
}

/// The chain check takes a root at its word, so its validity is checked here.
fn check_root(der: &CertificateDer<'_>, now: OffsetDateTime) -> Result<(), String> {
    let summary = certificate::summary(der).map_err(|e| e.to_string())?;
    let validity = certificate::validity(der).map_err(|e| e.to_string())?;
    if !summary.is_authority {
        return Err(format!("`{}` is not an authority", summary.subject));
    }
    if !validity.contains(&now) {
        return Err(format!(
            "`{}` is valid from {} to {} only",
            summary.subject, summary.not_before, summary.not_after
        ));
    }
    Ok(())
}

/// The order in the file and repetitions do not matter.
fn fingerprint(certificates: &[CertificateDer<'_>], trust_domain: &str) -> Fingerprint {
    use aws_lc_rs::digest::{Context, SHA256, digest};
    let mut each: Vec<_> = certificates
        .iter()
        .map(|der| digest(&SHA256, der).as_ref().to_vec())
        .collect();
    each.sort_unstable();
    each.dedup();
    let mut whole = Context::new(&SHA256);
    each.iter().for_each(|one| whole.update(one));
    whole.update(trust_domain.as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(whole.finish().as_ref());
    Fingerprint(bytes)
}

/// Peers usually trust what the workload trusts; while authorities change, they may not.
fn chain_warning(
    chain: &[CertificateDer<'_>],
    bundle: &TrustBundle,
    paths: &Paths,
    now: OffsetDateTime,
) -> Option<String> {
    let since_epoch = Duration::try_from(now - OffsetDateTime::UNIX_EPOCH).unwrap_or_default();
    let now = UnixTime::since_unix_epoch(since_epoch);
    let error = crate::verifier::check_chain(chain, &bundle.roots, now).err()?;
    Some(format!(
        "{} is not signed by an authority in {} ({error}): peers with the same trust bundle will \
         refuse it",
        paths.certificate.display(),
        paths.trust_bundle.display()
    ))
}
