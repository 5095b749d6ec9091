//! A workload's own chain, key and trust bundle: read from files, checked as a whole, immutable.
//! The proxy loads them at start and again on every change; a load that fails leaves the
//! previous credentials in use. Never prints key material.

use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, UnixTime};
use time::OffsetDateTime;
use zeroize::Zeroizing;

pub use crate::bundle::Fingerprint;
use crate::bundle::{Source, TrustBundle, read_certificates};
use crate::certificate::{self, Rejection, Summary};
use crate::key::{self, PrivateKey};
use crate::renewal;
use crate::spiffe::{SpiffeId, check_trust_domain};
use crate::verifier::{self, Usage};

mod error;

pub use error::{Error, Origin};

const CHAIN: &str = "the certificate chain";
const BUNDLE: &str = "the trust bundle";

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

/// What credentials are made of, where they do not lie in files.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    /// The chain, PEM, leaf first.
    pub chain: &'a str,
    /// The leaf's private key.
    pub key: &'a PrivateKey,
    /// The certificates that are trusted to sign peers' certificates, PEM, newest first.
    pub trust_bundle: &'a str,
    /// Lists of revoked certificates, PEM; may be empty.
    pub revocations: &'a str,
}

/// One workload's credentials: who it is, how it proves it, whom it trusts.
///
/// Invariant: the key belongs to the leaf, the leaf names one workload of the trust domain and
/// was valid when it was read, and the bundle has at least one authority.
#[derive(Clone)]
pub struct Credentials {
    id: SpiffeId,
    not_before: OffsetDateTime,
    not_after: OffsetDateTime,
    key: Arc<CertifiedKey>,
    bundle: Arc<TrustBundle>,
    is_from_newest: bool,
    warnings: Arc<[String]>,
}

/// Credentials that are being read, each part with its origin.
struct Reading<'a> {
    chain: (&'a [u8], Origin),
    key: (&'a PrivateKey, Origin),
    bundle: Source<'a>,
}

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
    /// How many certificates are revoked.
    pub revoked: usize,
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
        let chain = read(&paths.certificate)?;
        let key = PrivateKey::from_pem(&read(&paths.key)?);
        let key = key.map_err(|e| key_error(e, Origin::File(paths.key.clone())))?;
        let authorities = read(&paths.trust_bundle)?;
        let reading = Reading {
            chain: (&chain, Origin::File(paths.certificate.clone())),
            key: (&key, Origin::File(paths.key.clone())),
            bundle: Source {
                origin: Origin::File(paths.trust_bundle.clone()),
                authorities: &authorities,
                revocations: &[],
            },
        };
        let own = Vec::from_iter(permission_warning(&paths.key));
        Self::read(&reading, trust_domain, now.into(), own)
    }

    /// Checks parts that do not lie in files, as [`Credentials::load`] checks files.
    ///
    /// # Errors
    /// The first thing that is wrong, with the part's name.
    pub fn from_parts(
        parts: &Parts<'_>,
        trust_domain: &str,
        now: SystemTime,
    ) -> Result<Self, Error> {
        let reading = Reading {
            chain: (parts.chain.as_bytes(), Origin::Part(CHAIN)),
            key: (parts.key, Origin::Part("the private key")),
            bundle: Source {
                origin: Origin::Part(BUNDLE),
                authorities: parts.trust_bundle.as_bytes(),
                revocations: parts.revocations.as_bytes(),
            },
        };
        Self::read(&reading, trust_domain, now.into(), Vec::new())
    }

    /// The same chain and key with other authorities or other revocations; both PEM, as in
    /// [`TrustBundle::from_pem`].
    ///
    /// # Errors
    /// As [`TrustBundle::from_pem`]: the caller goes on with the credentials that it has.
    pub fn with_bundle(
        &self,
        trust_bundle: &str,
        revocations: &str,
        now: SystemTime,
    ) -> Result<Self, Error> {
        let bundle = TrustBundle::from_pem(trust_bundle, revocations, self.trust_domain(), now)?;
        let mut warnings = bundle.warnings().to_vec();
        let (chain, now) = (&self.key.cert, unix_time(now.into()));
        let names = [Origin::Part(CHAIN), Origin::Part(BUNDLE)];
        warnings.extend(chain_warning(chain, &bundle, names.each_ref(), now));
        Ok(Self {
            is_from_newest: verifier::is_from_newest(chain, &bundle, now),
            bundle: Arc::new(bundle),
            warnings: warnings.into(),
            ..self.clone()
        })
    }

    fn read(
        reading: &Reading<'_>,
        trust_domain: &str,
        now: OffsetDateTime,
        mut warnings: Vec<String>,
    ) -> Result<Self, Error> {
        let Reading { chain, key, bundle } = reading;
        check_trust_domain(trust_domain)?;
        let ders = read_certificates(chain.0, &chain.1)?;
        let (id, validity) = check_leaf(&ders[0], &chain.1, trust_domain, now)?;
        let certified = certify(ders, &chain.1, key)?;
        let names = [&chain.1, &bundle.origin];
        let bundle = TrustBundle::read(bundle, trust_domain, now)?;
        warnings.extend_from_slice(bundle.warnings());
        let now = unix_time(now);
        warnings.extend(chain_warning(&certified.cert, &bundle, names, now));
        Ok(Self {
            id,
            not_before: *validity.start(),
            not_after: *validity.end(),
            is_from_newest: verifier::is_from_newest(&certified.cert, &bundle, now),
            key: Arc::new(certified),
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
        self.bundle.trust_domain()
    }

    /// First moment of the leaf's validity.
    #[must_use]
    pub fn not_before(&self) -> OffsetDateTime {
        self.not_before
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

    /// Whom the workload trusts.
    #[must_use]
    pub fn bundle(&self) -> &Arc<TrustBundle> {
        &self.bundle
    }

    /// Changes exactly when what is trusted changes: [`TrustBundle::fingerprint`].
    #[must_use]
    pub fn bundle_fingerprint(&self) -> Fingerprint {
        self.bundle.fingerprint()
    }

    /// Whether the first authority of the bundle has issued the leaf. If not, a newer one has
    /// taken over, and the certificate should be renewed [`soon`](renewal::soon).
    #[must_use]
    pub fn is_from_newest_authority(&self) -> bool {
        self.is_from_newest
    }

    /// How long from `now` until the leaf should be renewed: [`renewal::due`].
    #[must_use]
    pub fn renewal_due(&self, now: SystemTime, random: u64) -> Duration {
        renewal::due(self.not_before, self.not_after, now, random)
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
            trust_domain: self.trust_domain().to_owned(),
            certificate_chain: all(&self.key.cert),
            trust_bundle: all(self.bundle.authorities()),
            revoked: self.bundle.revoked_count(),
            warnings: self.warnings.to_vec(),
        }
    }

    pub(crate) fn key(&self) -> &Arc<CertifiedKey> {
        &self.key
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

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    let bytes = std::fs::read(path).map_err(|reason| Error::Read {
        path: path.to_owned(),
        reason,
    });
    bytes.map(Zeroizing::new)
}

fn check_leaf(
    leaf: &CertificateDer<'_>,
    origin: &Origin,
    trust_domain: &str,
    now: OffsetDateTime,
) -> Result<(SpiffeId, RangeInclusive<OffsetDateTime>), Error> {
    let refuse = |rejection| Error::Leaf {
        origin: origin.clone(),
        rejection,
    };
    let id = certificate::workload_id(leaf).map_err(refuse)?;
    if id.trust_domain() != trust_domain {
        let trust_domain = trust_domain.to_owned();
        return Err(refuse(Rejection::WrongTrustDomain { id, trust_domain }));
    }
    let validity = certificate::validity(leaf).map_err(refuse)?;
    if !validity.contains(&now) {
        return Err(Error::Expired {
            origin: origin.clone(),
            not_before: certificate::rfc3339(*validity.start()),
            not_after: certificate::rfc3339(*validity.end()),
        });
    }
    Ok((id, validity))
}

fn certify(
    chain: Vec<CertificateDer<'static>>,
    origin: &Origin,
    key: &(&PrivateKey, Origin),
) -> Result<CertifiedKey, Error> {
    let signer = key.0.signer().map_err(|e| key_error(e, key.1.clone()))?;
    let certified = CertifiedKey::new(chain, signer);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(_) => Err(Error::KeyMismatch {
            key: key.1.clone(),
            certificate: origin.clone(),
        }),
    }
}

fn key_error(error: key::Error, origin: Origin) -> Error {
    match error {
        key::Error::Pem(reason) => Error::Pem {
            origin,
            wanted: "private key",
            reason,
        },
        error => Error::Key {
            origin,
            reason: error.to_string(),
        },
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

/// Peers usually trust what the workload trusts; while authorities change, they may not.
fn chain_warning(
    chain: &[CertificateDer<'_>],
    bundle: &TrustBundle,
    [own, trusted]: [&Origin; 2],
    now: UnixTime,
) -> Option<String> {
    let error = verifier::check_chain(chain, bundle, Usage::Server, now).err()?;
    Some(format!(
        "{own} is not vouched for by an authority in {trusted} ({error}): peers with the same \
         trust bundle will refuse it"
    ))
}

fn unix_time(now: OffsetDateTime) -> UnixTime {
    let since_epoch = Duration::try_from(now - OffsetDateTime::UNIX_EPOCH).unwrap_or_default();
    UnixTime::since_unix_epoch(since_epoch)
}
