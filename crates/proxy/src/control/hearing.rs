//! What becomes of a response: each resource is checked by itself, what is good is taken, and the
//! control plane is told why the rest is not. Called by `control`.

use super::{Agent, Scope};
use crate::log;
use identity::SpiffeId;
use identity::serving::Certificate;
use model::{Endpoint, TrustBundle};
use std::collections::BTreeSet;
use tokio::time::Instant;
use xds::delta::client::Update;
use xds::kind::Kind;
use xds::proto::discovery::DeltaDiscoveryResponse;
use xds::resource::{self, Resource};

/// Refusals of one response that are said; of more only how many there are.
const REASONS_MAX: usize = 8;

impl Agent {
    /// Takes what can be used of a response, and remembers why the rest cannot.
    pub(super) fn hear(&mut self, response: DeltaDiscoveryResponse) {
        self.is_doubted = false;
        let update = match self.machine.on_response(response) {
            Ok(update) => update,
            Err(error) => {
                return log::warn(format_args!("a response of the control plane: {error}"));
            }
        };
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
        self.answer(&update, &refused, &join(&why));
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
        match &decoded.value {
            Resource::Cluster(cluster) => self.check_peers(&cluster.endpoints)?,
            Resource::Endpoints { endpoints, .. } => self.check_peers(endpoints)?,
            Resource::Bundle(bundle) => self.trust(bundle)?,
            Resource::Certificate(told) => drop(Certificate::from_pem(&told.chain, &told.key)?),
            Resource::Listener(_) | Resource::Routes { .. } => {}
        }
        self.mesh.add(decoded.value);
        Ok(())
    }

    /// Nobody of another trust domain can ever answer, and one such endpoint must not keep
    /// everything else from being put to use.
    fn check_peers(&self, endpoints: &[Endpoint]) -> anyhow::Result<()> {
        for id in endpoints.iter().flat_map(|endpoint| &endpoint.identities) {
            let (parsed, ours) = (SpiffeId::parse(id)?, &self.plane.trust_domain);
            let is_ours = parsed.trust_domain() == ours && !parsed.path().is_empty();
            anyhow::ensure!(
                is_ours,
                "`{id}` is not a workload of the trust domain `{ours}`"
            );
        }
        Ok(())
    }

    fn trust(&mut self, bundle: &TrustBundle) -> anyhow::Result<()> {
        let leaf = self.leaf.as_mut();
        let leaf = leaf.expect("nobody is heard who was not proven to");
        leaf.trust(bundle, self.plane.renewal_spread)?;
        self.status.certificate(leaf);
        Ok(())
    }

    /// Asks for what follows from what is known, and for nothing else any more.
    pub(super) fn subscribe(&mut self) {
        if self.scope == Scope::Names {
            return;
        }
        let wanted = [
            (Kind::Secret, self.mesh.wanted_secrets()),
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
