//! Whom a workload trusts: the authorities of its mesh, newest first, and what they have revoked.
//! Made by credentials, and alone by a sidecar that has no certificate yet. Immutable; a bundle
//! that is not usable is refused whole, so that the one before it stays in use.

use std::sync::Arc;
use std::time::SystemTime;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, TrustAnchor};
use time::OffsetDateTime;
use webpki::CertRevocationList;

use crate::certificate;
use crate::credentials::{Error, Origin};
use crate::spiffe::check_trust_domain;

mod revocations;

use revocations::Revocations;

/// The authorities that are trusted, and what makes this bundle differ from another.
///
/// Invariant: at least one authority is an anchor, and each was valid when the bundle was read.
pub struct TrustBundle {
    trust_domain: Arc<str>,
    /// What chains may end in: authorities that no other one of the bundle has signed. Those
    /// which one has are vouched for by it, and can be revoked by it.
    anchors: Vec<TrustAnchor<'static>>,
    /// In the bundle's order: new certificates come from the first.
    authorities: Vec<CertificateDer<'static>>,
    revocations: Revocations,
    fingerprint: Fingerprint,
    warnings: Vec<String>,
}

/// Two trust bundles with equal fingerprints trust the same authorities for the same domain, prefer
/// the same one of them, and know the same certificates as revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// A bundle before it is read.
pub(crate) struct Source<'a> {
    pub(crate) origin: Origin,
    pub(crate) authorities: &'a [u8],
    pub(crate) revocations: &'a [u8],
}

impl TrustBundle {
    /// Reads PEM of authorities, newest first, and of lists of revoked certificates, which may be
    /// empty. Authorities that are not valid at `now` are left out with a warning; lists that
    /// are out of date are applied all the same, since an old list is better than none.
    ///
    /// # Errors
    /// [`Error::TrustBundle`], [`Error::Revocations`], [`Error::Pem`], [`Error::TrustDomain`].
    pub fn from_pem(
        authorities: &str,
        revocations: &str,
        trust_domain: &str,
        now: SystemTime,
    ) -> Result<Self, Error> {
        let source = Source {
            origin: Origin::Part("the trust bundle"),
            authorities: authorities.as_bytes(),
            revocations: revocations.as_bytes(),
        };
        Self::read(&source, trust_domain, now.into())
    }

    pub(crate) fn read(
        source: &Source<'_>,
        trust_domain: &str,
        now: OffsetDateTime,
    ) -> Result<Self, Error> {
        check_trust_domain(trust_domain)?;
        let mut warnings = Vec::new();
        let authorities = read_authorities(source, now, &mut warnings)?;
        let anchors = anchors(&authorities);
        let revocations =
            Revocations::read(source.revocations, &authorities).map_err(|reason| {
                let origin = Origin::Part("the revocation list");
                Error::Revocations { origin, reason }
            })?;
        let fingerprint = fingerprint(&anchors, &revocations, trust_domain);
        let anchors = anchors.into_iter().map(|(_, anchor)| anchor).collect();
        Ok(Self {
            trust_domain: trust_domain.into(),
            anchors,
            authorities,
            revocations,
            fingerprint,
            warnings,
        })
    }

    /// Whose ids are accepted.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    /// Changes exactly when the trusted authorities, the one of them that comes first, the revoked
    /// certificates or the trust domain change. The order of the others does not matter, nor when
    /// a list was signed.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// How many certificates are revoked.
    #[must_use]
    pub fn revoked_count(&self) -> usize {
        self.revocations.count()
    }

    /// What was left out, and why.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(crate) fn anchors(&self) -> &[TrustAnchor<'static>] {
        &self.anchors
    }

    pub(crate) fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.authorities
    }

    pub(crate) fn revocations(&self) -> &[CertRevocationList<'static>] {
        self.revocations.lists()
    }
}

impl std::fmt::Debug for TrustBundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrustBundle")
            .field("trust_domain", &self.trust_domain)
            .field("authorities", &self.authorities.len())
            .field("revoked", &self.revoked_count())
            .finish_non_exhaustive()
    }
}

fn read_authorities(
    source: &Source<'_>,
    now: OffsetDateTime,
    warnings: &mut Vec<String>,
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let origin = &source.origin;
    let mut usable = Vec::new();
    for der in read_certificates(source.authorities, origin)? {
        match check_authority(&der, now) {
            Ok(()) => usable.push(der),
            Err(reason) => warnings.push(format!("{origin}: left out: {reason}")),
        }
    }
    if usable.is_empty() {
        return Err(Error::TrustBundle {
            origin: origin.clone(),
            reason: warnings.last().cloned().unwrap_or_default(),
        });
    }
    Ok(usable)
}

/// The certificates of a PEM text in their order, at least one.
pub(crate) fn read_certificates(
    pem: &[u8],
    origin: &Origin,
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let bad = |reason: String| Error::Pem {
        origin: origin.clone(),
        wanted: "certificate",
        reason,
    };
    let list: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|e| bad(e.to_string()))?;
    match list.is_empty() {
        true => Err(bad("no certificate section".to_owned())),
        false => Ok(list),
    }
}

/// The chain check takes an anchor at its word, so its validity is checked here.
fn check_authority(der: &CertificateDer<'_>, now: OffsetDateTime) -> Result<(), String> {
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
    anchor(der)
        .map(|_| ())
        .ok_or_else(|| "it is no usable trust anchor".to_owned())
}

fn anchor(der: &CertificateDer<'_>) -> Option<TrustAnchor<'static>> {
    webpki::anchor_from_trusted_cert(der)
        .ok()
        .map(|anchor| anchor.to_owned())
}

/// The authorities that none of the others has signed, each with its certificate.
fn anchors<'a>(
    authorities: &'a [CertificateDer<'static>],
) -> Vec<(&'a CertificateDer<'static>, TrustAnchor<'static>)> {
    let signed_by = |der: &CertificateDer<'_>, by: &CertificateDer<'_>| {
        let (Ok(one), Ok(other)) = (certificate::parse(der), certificate::parse(by)) else {
            return false;
        };
        one.issuer().as_raw() == other.subject().as_raw()
            && one.verify_signature(Some(other.public_key())).is_ok()
    };
    let vouched = |der: &CertificateDer<'_>| {
        !signed_by(der, der) && authorities.iter().any(|other| signed_by(der, other))
    };
    let mut roots: Vec<_> = authorities.iter().filter(|der| !vouched(der)).collect();
    if roots.is_empty() {
        // They vouch for each other only; somebody has to be believed.
        roots.extend(authorities);
    }
    let anchors = roots.into_iter().map(|der| Some((der, anchor(der)?)));
    anchors.flatten().collect()
}

/// What comes first in the file matters: connections are to rest on that anchor. The order of the
/// others does not, nor do repetitions.
fn fingerprint(
    anchors: &[(&CertificateDer<'_>, TrustAnchor<'_>)],
    revocations: &Revocations,
    trust_domain: &str,
) -> Fingerprint {
    use aws_lc_rs::digest::{Context, SHA256, digest};
    let mut each: Vec<_> = anchors
        .iter()
        .map(|(der, _)| digest(&SHA256, der).as_ref().to_vec())
        .collect();
    let first = each.first().cloned().unwrap_or_default();
    each.sort_unstable();
    each.dedup();
    let mut whole = Context::new(&SHA256);
    whole.update(&first);
    each.iter().for_each(|one| whole.update(one));
    revocations.revoked().for_each(|(issuer, serial)| {
        whole.update(digest(&SHA256, issuer).as_ref());
        whole.update(digest(&SHA256, serial).as_ref());
    });
    whole.update(trust_domain.as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(whole.finish().as_ref());
    Fingerprint(bytes)
}
