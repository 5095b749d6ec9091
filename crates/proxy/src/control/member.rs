//! The sidecar as a member of the mesh: the certificate that the control plane signs for it, and
//! the token that proves it until there is one. Used by `control`; where the control plane is not
//! the mesh's, there is none of it.

use super::leaf::{self, Leaf};
use crate::log;
use anyhow::Context;
use identity::SpiffeId;
use identity::key::{self, PrivateKey};
use model::Membership;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use xds::grpc::client::Channel;

use super::channel::Link;

/// A certificate that is being signed.
pub(super) type Signing = Pin<Box<dyn Future<Output = anyhow::Result<leaf::Signed>> + Send>>;

/// Who the workload is, and what proves it.
pub(super) struct Member {
    pub(super) terms: Membership,
    pub(super) id: SpiffeId,
    pub(super) leaf: Option<Leaf>,
    /// Proves the workload where no certificate does; used once.
    pub(super) token: Option<String>,
    /// The one key that the token is good for, once it was shown.
    token_key: Option<Arc<PrivateKey>>,
    /// Whether the last connection with the certificate came to nothing.
    pub(super) is_doubted: bool,
}

impl Member {
    /// One that has nothing to show yet.
    pub(super) const fn new(terms: Membership, id: SpiffeId) -> Self {
        Self {
            terms,
            id,
            leaf: None,
            token: None,
            token_key: None,
            is_doubted: false,
        }
    }

    /// Whether a certificate is to be asked for before anything else is.
    pub(super) fn must_enrol(&mut self) -> bool {
        // It may have been revoked while nobody was here; if it was not, it is tried again.
        let is_doubted = std::mem::take(&mut self.is_doubted) && self.token.is_some();
        is_doubted || self.is_nobody()
    }

    /// Whether there is no certificate that proves anything.
    fn is_nobody(&self) -> bool {
        let leaf = self.leaf.as_ref();
        leaf.is_none_or(|leaf| leaf.is_over(SystemTime::now()))
    }

    /// What the first certificate is asked for with.
    pub(super) fn token(&self) -> anyhow::Result<&str> {
        self.token.as_deref().context(
            "there is neither a token nor a certificate that is valid; start the workload anew",
        )
    }

    /// Proves the workload by its token and has its first certificate signed.
    pub(super) async fn enrol(&mut self, link: Link) -> anyhow::Result<leaf::Signed> {
        let Link {
            channel, driver, ..
        } = link;
        // An answer may get lost, and no other key would be signed by the same token.
        let key = match &self.token_key {
            Some(key) => Arc::clone(key),
            None => Arc::clone(self.token_key.insert(Arc::new(key::generate()?))),
        };
        let token = self.token()?;
        let mut signed = pin!(leaf::request(&channel, &self.id, &key, Some(token)));
        tokio::select! {
            signed = &mut signed => signed,
            // The answer may have come with the end, and the token is good for no other.
            _ = driver => signed.await,
        }
    }

    /// The token has served.
    pub(super) fn forget_token(&mut self) {
        (self.token, self.token_key) = (None, None);
    }

    /// Puts a certificate to use.
    pub(super) fn adopt(&mut self, signed: leaf::Signed) -> anyhow::Result<&Leaf> {
        let leaf = Leaf::of(signed, &self.terms.trust_domain)?;
        leaf.check_id(&self.id)?;
        log::info(format_args!("certificate until {}", leaf.not_after()));
        Ok(self.leaf.insert(leaf))
    }

    /// How long until the certificate is to be renewed.
    pub(super) fn renewal_due(&self) -> Duration {
        let leaf = self.leaf.as_ref();
        leaf.map_or(Duration::ZERO, |leaf| leaf.renewal_due(SystemTime::now()))
    }

    pub(super) fn renew(&self, channel: &Channel) -> Signing {
        let (channel, id) = (channel.clone(), self.id.clone());
        Box::pin(async move { leaf::renew(&channel, &id).await })
    }

    /// There is no new certificate, which ends nothing while the old one holds.
    pub(super) fn put_off(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        match &mut self.leaf {
            Some(leaf) if !leaf.is_over(SystemTime::now()) => {
                leaf.put_off(SystemTime::now());
                Ok(())
            }
            _ => Err(error),
        }
    }
}
