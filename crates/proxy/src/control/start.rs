//! How the conversation begins: who the workload is, the token that proves it, and what an earlier
//! life kept on disk. Called by `app` once.

use super::leaf::{self, Leaf};
use super::machine::Machine;
use super::member::Member;
use super::mesh::Mesh;
use super::store::{One, Store};
use super::{Agent, Scope, Status};
use crate::log;
use anyhow::Context;
use identity::SpiffeId;
use model::{Config, ControlPlane, TokenSource, Trust, Workload};
use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;
use xds::TRUST_BUNDLE;
use xds::delta::WILDCARD;
use xds::kind::Kind;
use xds::proto::discovery::Node;
use xds::resource;

/// Longest token that is read.
const TOKEN_BYTES_MAX: u64 = 4096;
/// What the control plane tells our resources from an Envoy's by.
const USER_AGENT: &str = "leno-proxy";

impl Agent {
    /// For the workload of `config`, under `plane`; takes up what was kept on disk, and reads its
    /// token: it may be that nobody takes the certificate that was kept any more.
    ///
    /// # Errors
    /// When the token or the directory for the state cannot be read, or the workload has no name.
    pub(crate) fn new(
        plane: &ControlPlane,
        config: &Config,
        wanted: mpsc::UnboundedReceiver<Arc<str>>,
    ) -> anyhow::Result<Self> {
        let member = member(plane, &config.workload)?;
        let files = config.identity.as_ref().map(|files| &files.trust_domain);
        let signed = member.as_ref().map(|member| &member.terms.trust_domain);
        let trust_domain = signed.or(files).cloned();
        let scope = match config.envoy {
            None => Scope::Everything,
            Some(_) => Scope::Names,
        };
        let mut machine = Machine::new(plane.xds, node(plane, &config.workload));
        if member.is_some() {
            machine.subscribe(Kind::Secret, [TRUST_BUNDLE]);
        }
        if scope == Scope::Everything {
            machine.subscribe(Kind::Cluster, [WILDCARD]);
        }
        machine.subscribe(Kind::Listener, [WILDCARD]);
        let mut agent = Self {
            plane: plane.clone(),
            scope,
            machine,
            mesh: Mesh::default(),
            member,
            trust_domain,
            store: plane.state.as_deref().map(Store::open).transpose()?,
            wanted,
            status: Status::default(),
            changed: None,
            excused: BTreeSet::new(),
            keep_at: None,
            kept_at: None,
            keeping: None,
        };
        agent.subscribe();
        agent.restore();
        if let Some(member) = &mut agent.member {
            let token = match member.terms.token.as_ref().map(read_token).transpose() {
                // Whoever has a certificate may do without.
                Err(_) if member.leaf.is_some() => None,
                token => token?,
            };
            member.token = token.filter(|token| !token.is_empty());
        }
        Ok(agent)
    }

    /// Takes up what was kept on disk. What cannot be used is as good as not there.
    fn restore(&mut self) {
        let Some(store) = &self.store else { return };
        let resources = store.load_resources().unwrap_or_else(|error| {
            log::warn(format_args!("what was kept cannot be used: {error:#}"));
            Vec::new()
        });
        if let Some(member) = &mut self.member {
            member.leaf = member.restore_leaf(store, &resources);
            let Some(leaf) = &member.leaf else { return };
            self.status.certificate(leaf);
        }
        self.changed = Some(Instant::now());
        let scope = self.scope;
        let usable = resources.iter().filter(|one| scope.has(one.kind));
        let usable = usable.filter(|one| match self.restored(one) {
            Ok(()) => true,
            Err(error) => {
                let (kind, name) = (one.kind.label(), one.name.escape_debug());
                log::warn(format_args!("kept {kind} {name}: {error:#}"));
                false
            }
        });
        let usable: Vec<_> = usable.collect();
        self.mesh.recall_use();
        self.subscribe();
        for one in usable {
            self.machine.restore(one.kind, &one.name, &one.version);
        }
    }

    /// Takes up one resource that was kept.
    fn restored(&mut self, one: &One) -> anyhow::Result<()> {
        let decoded = resource::decode(one.kind, &one.value)?;
        self.check(&decoded.value)?;
        self.mesh.add(decoded.value);
        Ok(())
    }
}

impl Member {
    /// The certificate that was kept, checked with the authorities that were kept with it, or with
    /// those of the first start.
    fn restore_leaf(&self, store: &Store, resources: &[One]) -> Option<Leaf> {
        let (key, chain) = match store.load_leaf() {
            Ok(kept) => kept?,
            Err(error) => {
                log::warn(format_args!("the certificate that was kept: {error:#}"));
                return None;
            }
        };
        let leaf = self
            .trusted(resources)
            .and_then(|(authorities, revocations)| {
                let trusted = (&*authorities, &*revocations);
                let leaf = Leaf::read(Arc::new(key), chain, trusted, &self.terms.trust_domain)?;
                leaf.check_id(&self.id).map(|()| leaf)
            });
        // It may be over; there may be a token.
        leaf.inspect_err(|error| {
            log::info(format_args!("the certificate that was kept: {error:#}"));
        })
        .ok()
    }

    fn trusted(&self, resources: &[One]) -> anyhow::Result<(String, String)> {
        let bundle = resources
            .iter()
            .find(|one| one.kind == Kind::Secret && one.name == TRUST_BUNDLE);
        let bundle = bundle.and_then(|one| resource::decode(one.kind, &one.value).ok());
        match bundle.map(|decoded| decoded.value) {
            Some(resource::Resource::Bundle(bundle)) => {
                Ok((bundle.authorities, bundle.revocations))
            }
            _ => Ok((leaf::read_authorities(&self.terms)?, String::new())),
        }
    }
}

/// The member of the mesh that the sidecar is, or is to be.
fn member(plane: &ControlPlane, workload: &Workload) -> anyhow::Result<Option<Member>> {
    let Trust::Mesh(terms) = &plane.tls else {
        return Ok(None);
    };
    let (namespace, account) = (&workload.namespace, &workload.service_account);
    let id = SpiffeId::of_service_account(&terms.trust_domain, namespace, account)?;
    Ok(Some(Member::new(terms.clone(), id)))
}

/// As what the sidecar introduces itself.
fn node(plane: &ControlPlane, workload: &Workload) -> Node {
    let (id, cluster) = match &plane.node {
        Some(node) => (node.id.clone(), node.cluster.clone()),
        None => (
            format!("{}.{}", workload.name, workload.namespace),
            workload.service_account.clone(),
        ),
    };
    Node {
        id,
        cluster,
        user_agent_name: USER_AGENT.to_owned(),
        user_agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Node::default()
    }
}

fn read_token(source: &TokenSource) -> anyhow::Result<String> {
    let mut token = String::new();
    match source {
        TokenSource::StandardInput => {
            let input = std::io::stdin()
                .take(TOKEN_BYTES_MAX)
                .read_to_string(&mut token);
            input.context("the token cannot be read from standard input")?;
        }
        TokenSource::At(path) => {
            let read = std::fs::File::open(path)
                .and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut token));
            read.with_context(|| format!("the token cannot be read from {}", path.display()))?;
        }
    }
    Ok(token.trim().to_owned())
}
