//! How the conversation begins: who the workload is, the token that proves it, and what an earlier
//! life kept on disk. Called by `app` once.

use super::leaf::{self, Leaf};
use super::mesh::Mesh;
use super::store::{One, Store};
use super::{Agent, Scope, Status};
use crate::log;
use anyhow::Context;
use identity::SpiffeId;
use model::{Config, ControlPlane, TokenSource, Workload};
use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::Instant;
use xds::TRUST_BUNDLE;
use xds::delta::WILDCARD;
use xds::delta::client::Client;
use xds::kind::Kind;
use xds::proto::discovery::Node;
use xds::resource;

/// Longest token that is read.
const TOKEN_BYTES_MAX: u64 = 4096;
/// What the control plane tells our resources from an Envoy's by.
const USER_AGENT: &str = "leno-proxy";

impl Agent {
    /// For the workload of `config`; takes up what was kept on disk, and reads its token: it may be
    /// that nobody takes the certificate that was kept any more.
    ///
    /// # Errors
    /// When the token or the directory for the state cannot be read, or the workload has no name.
    pub(crate) fn new(
        plane: &ControlPlane,
        config: &Config,
        wanted: mpsc::UnboundedReceiver<Arc<str>>,
    ) -> anyhow::Result<Self> {
        let Workload {
            name,
            namespace,
            service_account,
        } = &config.workload;
        let scope = match config.envoy {
            None => Scope::Everything,
            Some(_) => Scope::Names,
        };
        let id = SpiffeId::of_service_account(&plane.trust_domain, namespace, service_account)?;
        let node = Node {
            id: format!("{name}.{namespace}"),
            cluster: service_account.clone(),
            user_agent_name: USER_AGENT.to_owned(),
            user_agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Node::default()
        };
        let mut machine = Client::new(node);
        machine.subscribe(Kind::Secret, [TRUST_BUNDLE]);
        if scope == Scope::Everything {
            machine.subscribe(Kind::Cluster, [WILDCARD]);
        }
        machine.subscribe(Kind::Listener, [WILDCARD]);
        let mut agent = Self {
            plane: plane.clone(),
            scope,
            id,
            machine,
            mesh: Mesh::default(),
            leaf: None,
            token: None,
            token_key: None,
            is_doubted: false,
            store: plane.state.as_deref().map(Store::open).transpose()?,
            wanted,
            status: Status::default(),
            changed: None,
            excused: BTreeSet::new(),
            keep_at: None,
            kept_at: None,
            keeping: None,
        };
        agent.restore();
        let token = match plane.token.as_ref().map(read_token).transpose() {
            // Whoever has a certificate may do without.
            Err(_) if agent.leaf.is_some() => None,
            token => token?,
        };
        agent.token = token.filter(|token| !token.is_empty());
        Ok(agent)
    }

    /// Takes up what was kept on disk. What cannot be used is as good as not there.
    fn restore(&mut self) {
        let Some(store) = &self.store else { return };
        let resources = store.load_resources().unwrap_or_else(|error| {
            log::warn(format_args!("what was kept cannot be used: {error:#}"));
            Vec::new()
        });
        self.leaf = self.restore_leaf(store, &resources);
        let Some(leaf) = &self.leaf else { return };
        self.status.certificate(leaf);
        self.changed = Some(Instant::now());
        let scope = self.scope;
        let usable: Vec<_> = resources
            .iter()
            .filter(|one| scope.has(one.kind))
            .filter(|one| self.mesh.restore(one))
            .collect();
        self.mesh.recall_use();
        self.subscribe();
        for one in usable {
            self.machine.restore(one.kind, &one.name, &one.version);
        }
    }

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
                let leaf = Leaf::read(Arc::new(key), chain, trusted, &self.plane.trust_domain)?;
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
            _ => Ok((leaf::read_authorities(&self.plane)?, String::new())),
        }
    }
}

impl Mesh {
    /// Whether a resource that was kept could be taken up.
    fn restore(&mut self, one: &One) -> bool {
        match resource::decode(one.kind, &one.value) {
            Ok(decoded) => self.add(decoded.value),
            Err(error) => {
                let (kind, name) = (one.kind.label(), one.name.escape_debug());
                log::warn(format_args!("kept {kind} {name}: {error}"));
                return false;
            }
        }
        true
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
