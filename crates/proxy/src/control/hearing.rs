//! What becomes of a response: each resource is checked by itself, what is good is taken, and the
//! control plane is told why the rest is not. Called by `control`.

use super::{Agent, Scope};
use crate::log;
use anyhow::Context;
use bytes::Bytes;
use identity::SpiffeId;
use identity::serving::Certificate;
use model::{Edge, Endpoint, Listener, TlsMode, TrustBundle};
use std::collections::BTreeSet;
use tokio::time::Instant;
use xds::TRUST_BUNDLE;
use xds::kind::Kind;
use xds::resource::{self, Resource};
use xds::update::Update;

/// Refusals of one response that are said; of more only how many there are.
const REASONS_MAX: usize = 8;

impl Agent {
    /// Takes what can be used of a response, and remembers why the rest cannot.
    ///
    /// # Errors
    /// The message is none.
    pub(super) fn hear(&mut self, message: Bytes) -> anyhow::Result<()> {
        self.believed();
        match self.machine.on_response(message)? {
            Ok(update) => self.apply(&update),
            Err(error) => log::warn(format_args!("a response of the control plane: {error}")),
        }
        Ok(())
    }

    fn apply(&mut self, update: &Update) {
        let mut refused = BTreeSet::new();
        let mut why = Vec::new();
        for added in &update.added {
            if let Err(error) = self.take(update.kind, &added.name, &added.value) {
                let (kind, name) = (update.kind.label(), added.name.escape_debug());
                why.push(format!("{kind} {name}: {error:#}"));
                refused.insert(added.name.clone());
            }
        }
        update
            .removed
            .iter()
            .for_each(|name| self.mesh.remove(update.kind, name));
        self.answer(update, &refused, &join(&why));
        self.changed.get_or_insert_with(Instant::now);
    }

    fn answer(&mut self, update: &Update, refused: &BTreeSet<String>, why: &str) {
        let taken = update.added.len() - refused.len() + update.removed.len();
        self.status.heard(update.kind, taken, refused.len(), why);
        match refused.len() {
            0 => self.machine.accept(update),
            _ => {
                log::warn(format_args!("refused: {why}"));
                self.machine.accept_but(update, refused, why);
            }
        }
    }

    fn take(&mut self, kind: Kind, name: &str, value: &[u8]) -> anyhow::Result<()> {
        let decoded = resource::decode(kind, value)?;
        anyhow::ensure!(
            decoded.value.name() == name,
            "it calls itself {}",
            decoded.value.name()
        );
        self.status.ignored(&decoded.ignored);
        self.check(&decoded.value)?;
        if let Resource::Bundle(bundle) = &decoded.value {
            self.trust(bundle)?;
        }
        self.mesh.add(decoded.value);
        Ok(())
    }

    /// Whether it is of use to this sidecar.
    pub(super) fn check(&self, resource: &Resource) -> anyhow::Result<()> {
        match resource {
            Resource::Cluster(cluster) => self.check_peers(&cluster.endpoints),
            Resource::Endpoints { endpoints, .. } => self.check_peers(endpoints),
            Resource::Certificate(told) => {
                Ok(Certificate::from_pem(&told.chain, &told.key).map(drop)?)
            }
            Resource::Listener(listener) | Resource::Foreign { listener, .. } => {
                self.check_listener(listener)
            }
            Resource::Bundle(_) | Resource::Routes { .. } => Ok(()),
        }
    }

    /// Nobody of another trust domain can ever answer, and one such endpoint must not keep
    /// everything else from being put to use.
    fn check_peers(&self, endpoints: &[Endpoint]) -> anyhow::Result<()> {
        for id in endpoints.iter().flat_map(|endpoint| &endpoint.identities) {
            let (parsed, ours) = (SpiffeId::parse(id)?, self.trust_domain()?);
            let is_ours = parsed.trust_domain() == ours && !parsed.path().is_empty();
            anyhow::ensure!(
                is_ours,
                "`{id}` is not a workload of the trust domain `{ours}`"
            );
        }
        Ok(())
    }

    /// Without a certificate it could not be served, or would be in plaintext.
    fn check_listener(&self, listener: &Listener) -> anyhow::Result<()> {
        let is_secured =
            listener.tls != TlsMode::Disabled || matches!(listener.edge, Some(Edge::Tls(_)));
        match is_secured {
            true => self.trust_domain().map(drop),
            false => Ok(()),
        }
    }

    /// Of this sidecar's own certificate.
    fn trust_domain(&self) -> anyhow::Result<&str> {
        let ours = self.trust_domain.as_deref();
        ours.context(
            "it needs a certificate of the mesh, and this sidecar has none; give it one, \
             `identity` in its configuration",
        )
    }

    fn trust(&mut self, bundle: &TrustBundle) -> anyhow::Result<()> {
        let Some(member) = &mut self.member else {
            anyhow::bail!("whom this sidecar trusts stands in a file, `identity.trustBundle`");
        };
        let leaf = member.leaf.as_mut();
        let leaf = leaf.expect("nobody is heard who was not proven to");
        leaf.trust(bundle, member.terms.renewal_spread)?;
        self.status.certificate(leaf);
        Ok(())
    }

    /// Asks for what follows from what is known, and for nothing else any more.
    pub(super) fn subscribe(&mut self) {
        if self.scope == Scope::Names {
            return;
        }
        // Unless a file has it.
        let bundle = self.member.is_some().then_some(TRUST_BUNDLE);
        let secrets = self.mesh.wanted_certificates().chain(bundle).collect();
        let wanted = [
            (Kind::Secret, secrets),
            (Kind::Routes, self.mesh.wanted_routes()),
            (Kind::Endpoints, self.mesh.wanted_endpoints()),
        ];
        let mut forgotten = Vec::new();
        for (kind, names) in wanted {
            let gone: Vec<String> = self
                .machine
                .wanted(kind)
                .filter(|name| !names.contains(name))
                .map(str::to_owned)
                .collect();
            self.machine.unsubscribe(kind, &gone);
            self.machine.subscribe(kind, names);
            forgotten.extend(gone.into_iter().map(|name| (kind, name)));
        }
        for (kind, name) in forgotten {
            self.mesh.forget(kind, &name);
        }
    }
}

fn join(why: &[String]) -> String {
    let mut joined = why[..why.len().min(REASONS_MAX)].join("; ");
    if why.len() > REASONS_MAX {
        joined += &format!("; and {} more", why.len() - REASONS_MAX);
    }
    joined
}
