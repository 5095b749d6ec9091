//! The sidecar's own certificate: the key that is made here, the request for it, and when it is
//! time for the next. Used by `control`. The key leaves this process for the state directory only,
//! if there is one.

use super::Proof;
use crate::random;
use anyhow::Context;
use identity::credentials::{Credentials, Parts};
use identity::key::{self, PrivateKey};
use identity::{SpiffeId, TrustBundle, renewal};
use model::Membership;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use xds::grpc::client::Channel;
use xds::proto::identity::{SIGN, SignRequest, SignResponse};

/// For one signature: the control plane has nothing to wait for.
const SIGN_TIMEOUT: Duration = Duration::from_secs(10);
/// That there is a newer authority everybody has heard by then: an Envoy takes no certificate of an
/// issuer of which it has no list of what is revoked.
const HEARD_WITHIN: Duration = Duration::from_secs(2);
/// A renewal that failed is tried again after so long at most.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// Nor is anything renewed more often than this, whatever certificates are like.
const RENEWAL_PAUSE: Duration = Duration::from_secs(1);

/// A key with the answer to the request for its certificate.
pub(super) struct Signed {
    pub(super) key: Arc<PrivateKey>,
    /// PEM, leaf first.
    pub(super) chain: String,
    /// PEM, as the control plane trusts now.
    authorities: String,
    revocations: String,
}

/// The certificate in use.
pub(super) struct Leaf {
    pub(super) proof: Proof,
    /// By the clock: it goes on while the machine sleeps.
    renew_at: SystemTime,
}

/// Has a certificate signed for a new key, where the connection proves the workload.
pub(super) async fn renew(channel: &Channel, id: &SpiffeId) -> anyhow::Result<Signed> {
    let key = Arc::new(key::generate()?);
    request(channel, id, &key, None).await
}

/// Has a certificate for `key` signed; `token` proves the workload where the connection does not.
pub(super) async fn request(
    channel: &Channel,
    id: &SpiffeId,
    key: &Arc<PrivateKey>,
    token: Option<&str>,
) -> anyhow::Result<Signed> {
    let csr = key.csr(id)?.into();
    let mut metadata = http::HeaderMap::new();
    if let Some(token) = token {
        let mut value = http::HeaderValue::from_str(&format!("Bearer {token}"))
            .context("the token is not one")?;
        value.set_sensitive(true);
        metadata.insert(http::header::AUTHORIZATION, value);
    }
    let request = SignRequest { csr };
    let call = channel.unary::<SignResponse>(SIGN, metadata, &request);
    let answer = tokio::time::timeout(SIGN_TIMEOUT, call).await;
    let answer = answer
        .context("it does not sign")?
        .context("it does not sign")?;
    Ok(Signed {
        key: Arc::clone(key),
        chain: answer.chain,
        authorities: answer.trust_bundle,
        revocations: answer.revocations,
    })
}

/// What the control plane is trusted by at first.
pub(super) fn read_bundle(terms: &Membership) -> anyhow::Result<Arc<TrustBundle>> {
    let pem = read_authorities(terms)?;
    let bundle = TrustBundle::from_pem(&pem, "", &terms.trust_domain, SystemTime::now())?;
    Ok(Arc::new(bundle))
}

/// The same as PEM.
pub(super) fn read_authorities(terms: &Membership) -> anyhow::Result<String> {
    let path = &terms.trust_bundle;
    std::fs::read_to_string(path)
        .with_context(|| format!("the trust bundle {} cannot be read", path.display()))
}

impl Leaf {
    /// Puts a fresh certificate to use, with what came with it.
    pub(super) fn of(signed: Signed, trust_domain: &str) -> anyhow::Result<Self> {
        let Signed {
            key,
            chain,
            authorities,
            revocations,
        } = signed;
        let mut leaf = Self::read(key, chain, (&authorities, &revocations), trust_domain)?;
        // One of a short life, backdated, is past half of it from the beginning.
        let now = SystemTime::now();
        let soonest = (leaf.left(now) / 3).max(RENEWAL_PAUSE);
        leaf.renew_at = leaf.renew_at.max(now + soonest);
        Ok(leaf)
    }

    /// Puts a certificate to use that peers check with these authorities and revocations.
    pub(super) fn read(
        key: Arc<PrivateKey>,
        chain: String,
        (authorities, revocations): (&str, &str),
        trust_domain: &str,
    ) -> anyhow::Result<Self> {
        let parts = Parts {
            chain: &chain,
            key: &key,
            trust_bundle: authorities,
            revocations,
        };
        let now = SystemTime::now();
        let credentials = Credentials::from_parts(&parts, trust_domain, now)?;
        let due = credentials.renewal_due(now, random::seed());
        let proof = Proof {
            credentials,
            key,
            chain: chain.into(),
        };
        Ok(Self {
            proof,
            renew_at: now + due,
        })
    }

    /// Trusts other authorities from now on. If one of them is newer than the certificate's own,
    /// that is to be renewed within `spread`.
    pub(super) fn trust(
        &mut self,
        bundle: &model::TrustBundle,
        spread: Duration,
    ) -> anyhow::Result<()> {
        let model::TrustBundle {
            authorities,
            revocations,
            ..
        } = bundle;
        let credentials = &mut self.proof.credentials;
        *credentials = credentials.with_bundle(authorities, revocations, SystemTime::now())?;
        if !self.proof.credentials.is_from_newest_authority() {
            let heard = HEARD_WITHIN.min(spread / 2);
            let soon = heard + renewal::soon(spread - heard, random::seed());
            self.renew_at = self.renew_at.min(SystemTime::now() + soon);
        }
        Ok(())
    }

    /// How long from `now` until it is to be renewed.
    pub(super) fn renewal_due(&self, now: SystemTime) -> Duration {
        self.renew_at.duration_since(now).unwrap_or_default()
    }

    /// Has it renewed somewhat later, while there is time.
    pub(super) fn put_off(&mut self, now: SystemTime) {
        let pause = (self.left(now) / 10).clamp(RENEWAL_PAUSE, RETRY_MAX);
        self.renew_at = now + pause / 2 + renewal::soon(pause / 2, random::seed());
    }

    /// What is left of its life.
    fn left(&self, now: SystemTime) -> Duration {
        let end = SystemTime::from(self.proof.credentials.not_after());
        end.duration_since(now).unwrap_or_default()
    }

    /// That it is this workload's and no other's.
    pub(super) fn check_id(&self, id: &SpiffeId) -> anyhow::Result<()> {
        let own = self.proof.credentials.own_id();
        anyhow::ensure!(
            own == id,
            "the certificate is that of `{own}`, not of `{id}`"
        );
        Ok(())
    }

    /// Whether it proves nothing any more.
    pub(super) fn is_over(&self, now: SystemTime) -> bool {
        self.proof.credentials.not_after() <= now
    }

    /// RFC 3339.
    pub(super) fn not_after(&self) -> String {
        let chain = self.proof.credentials.overview().certificate_chain;
        chain
            .first()
            .map(|leaf| leaf.not_after.clone())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::ca::Authority;

    const DOMAIN: &str = "cluster.local";
    const HOUR: Duration = Duration::from_secs(60 * 60);

    fn id(name: &str) -> SpiffeId {
        SpiffeId::of_service_account(DOMAIN, "default", name).unwrap()
    }

    /// A leaf of `web` with so much left of its life.
    fn leaf(root: &Authority, left: Duration) -> Leaf {
        let key = Arc::new(key::generate().unwrap());
        let csr = key.csr(&id("web")).unwrap();
        let chain = root.sign_csr(&csr, &id("web"), left, SystemTime::now());
        let signed = Signed {
            key,
            chain: chain.unwrap().pem,
            authorities: root.certificate_pem().to_owned(),
            revocations: String::new(),
        };
        Leaf::of(signed, DOMAIN).unwrap()
    }

    fn root() -> Authority {
        Authority::create(DOMAIN, SystemTime::now()).unwrap()
    }

    #[test]
    fn leaf_of_any_life_is_renewed_within_it_and_not_at_once() {
        let root = root();
        for left in [24 * HOUR, HOUR, HOUR / 60, Duration::from_secs(6)] {
            let leaf = leaf(&root, left);
            let due = leaf.renewal_due(SystemTime::now());
            let soonest = left / 3 - Duration::from_secs(2);
            assert!(due >= soonest && due < left, "{left:?}: {due:?}");
        }
        let short = leaf(&root, Duration::from_secs(2)).renewal_due(SystemTime::now());
        assert!(!short.is_zero() && short <= RENEWAL_PAUSE, "{short:?}");
    }

    #[test]
    fn renewal_that_failed_is_put_off_but_not_past_the_end() {
        let (root, now) = (root(), SystemTime::now());
        for (left, most) in [(24 * HOUR, RETRY_MAX), (HOUR / 60, HOUR / 600)] {
            let mut leaf = leaf(&root, left);
            leaf.put_off(now);
            let due = leaf.renewal_due(now);
            assert!(
                due >= most / 2 - RENEWAL_PAUSE && due <= most,
                "{left:?}: {due:?}"
            );
        }
    }

    #[test]
    fn newer_authority_brings_the_renewal_forward() {
        let (old, new) = (root(), root());
        let mut leaf = leaf(&old, 24 * HOUR);
        let mut bundle = model::TrustBundle {
            name: "ROOTCA".to_owned(),
            authorities: old.certificate_pem().to_owned() + new.certificate_pem(),
            revocations: String::new(),
        };
        leaf.trust(&bundle, HOUR).unwrap();
        assert!(
            leaf.renewal_due(SystemTime::now()) > HOUR,
            "ours is the newest"
        );
        bundle.authorities = new.certificate_pem().to_owned() + old.certificate_pem();
        leaf.trust(&bundle, HOUR).unwrap();
        assert!(leaf.renewal_due(SystemTime::now()) <= HOUR);
        leaf.trust(&bundle, Duration::ZERO).unwrap();
        assert_eq!(leaf.renewal_due(SystemTime::now()), Duration::ZERO);
    }

    #[test]
    fn leaf_is_of_one_workload() {
        let leaf = leaf(&root(), HOUR);
        assert!(leaf.check_id(&id("web")).is_ok());
        let error = leaf.check_id(&id("mail")).unwrap_err().to_string();
        assert!(
            error.contains("sa/web") && error.contains("sa/mail"),
            "{error}"
        );
    }
}
