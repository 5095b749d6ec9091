//! The sidecar that is told: it proves who it is, asks for its configuration, applies what comes and
//! says what it refuses, for as long as it lives. Runs on the quiet thread; `app` hands what it says
//! to the workers. When the control plane is away, what was said last stays in force.

mod channel;
mod leaf;
mod mesh;
mod status;
mod store;

use crate::log;
use anyhow::Context;
use channel::Link;
use identity::SpiffeId;
use identity::credentials::Credentials;
use leaf::Leaf;
use mesh::{BUNDLE, Mesh};
use model::{Cluster, Config, ControlPlane, Listener, TokenSource, Workload};
pub(crate) use status::Status;
use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use store::Store;
use tokio::sync::mpsc;
use tokio::time::Instant;
use xds::delta::client::{Client, Update};
use xds::delta::{PATH, WILDCARD};
use xds::grpc::{Receiver, Sender};
use xds::kind::Kind;
use xds::proto::discovery::{DeltaDiscoveryResponse, Node};
use xds::resource::{self, Resource};

/// After a failure the control plane is left alone for so long, at first and at most; each time by
/// chance between half of it and all, so that a mesh does not come back as one.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// A conversation that lasted so long was none that failed.
const SETTLED: Duration = Duration::from_secs(10);
/// A change is put to use without what it refers to when that does not come in time.
const INCOMPLETE_MAX: Duration = Duration::from_secs(5);
/// Longest token that is read.
const TOKEN_BYTES_MAX: u64 = 4096;

/// Where the state of the conversation is shown.
pub(crate) type Show = Box<dyn Fn(&Status) + Send + Sync>;

/// What the control plane has said, as far as it can be put to use.
pub(crate) struct Told {
    listeners: Vec<Listener>,
    clusters: Vec<Cluster>,
    pub(crate) credentials: Credentials,
}

impl Told {
    /// Fills in what `config` leaves to the control plane.
    pub(crate) fn complete(&self, config: &mut Config) {
        config.listeners.clone_from(&self.listeners);
        config.clusters.clone_from(&self.clusters);
    }
}

/// Speaks with the control plane.
pub(crate) struct Agent {
    plane: ControlPlane,
    id: SpiffeId,
    machine: Client,
    mesh: Mesh,
    leaf: Option<Leaf>,
    /// Proves the workload until it has a certificate.
    token: Option<String>,
    store: Option<Store>,
    /// Listeners that connections wait at.
    wanted: mpsc::UnboundedReceiver<Arc<str>>,
    status: Status,
    /// Since when there is something to tell.
    changed: Option<Instant>,
}

impl Agent {
    /// For `workload`; reads its token and what was kept on disk.
    ///
    /// # Errors
    /// When the token or the directory for the state cannot be read, or the workload has no name.
    pub(crate) fn new(
        plane: &ControlPlane,
        workload: &Workload,
        wanted: mpsc::UnboundedReceiver<Arc<str>>,
    ) -> anyhow::Result<Self> {
        let Workload {
            name,
            namespace,
            service_account,
        } = workload;
        let id = SpiffeId::of_service_account(&plane.trust_domain, namespace, service_account)?;
        let node = Node {
            id: format!("{name}.{namespace}"),
            cluster: service_account.clone(),
            ..Node::default()
        };
        let mut machine = Client::new(node);
        machine.subscribe(Kind::Secret, [BUNDLE]);
        machine.subscribe(Kind::Cluster, [WILDCARD]);
        machine.subscribe(Kind::Listener, [WILDCARD]);
        let mut agent = Self {
            plane: plane.clone(),
            id,
            machine,
            mesh: Mesh::default(),
            leaf: None,
            token: plane.token.as_ref().map(read_token).transpose()?,
            store: plane.state.as_deref().map(Store::open).transpose()?,
            wanted,
            status: Status::default(),
            changed: None,
        };
        agent.restore();
        Ok(agent)
    }

    /// Takes up what was kept on disk. What cannot be used is as good as not there.
    fn restore(&mut self) {
        let Some(store) = &self.store else { return };
        let kept = match store.load() {
            Ok(Some(kept)) => kept,
            Ok(None) => return,
            Err(error) => {
                return log::warn(format_args!("what was kept cannot be used: {error:#}"));
            }
        };
        for kind in Kind::ALL {
            let of_kind = kept.resources.iter().filter(|one| one.kind == kind);
            for one in of_kind {
                match resource::decode(kind, &one.value) {
                    Ok(decoded) => self.mesh.add(decoded.value),
                    Err(error) => {
                        log::warn(format_args!("kept {} {}: {error}", kind.label(), one.name))
                    }
                }
            }
            self.subscribe();
            let of_kind = kept.resources.iter().filter(|one| one.kind == kind);
            of_kind.for_each(|one| self.machine.restore(kind, &one.name, &one.version));
        }
        let Some(bundle) = self.mesh.bundle() else {
            return;
        };
        let trusted = (&*bundle.authorities, &*bundle.revocations);
        match Leaf::read(kept.key, kept.chain, trusted, &self.plane.trust_domain) {
            Ok(leaf) => {
                self.status.certificate(&leaf);
                (self.leaf, self.changed) = (Some(leaf), Some(Instant::now()));
            }
            // It may be over; there may be a token.
            Err(error) => log::info(format_args!("the certificate that was kept: {error:#}")),
        }
    }

    /// Speaks with the control plane for ever, and tells `news` what follows from it.
    pub(crate) async fn run(mut self, news: mpsc::Sender<Told>, show: Show) {
        let mut backoff = BACKOFF_MIN;
        self.tell(&news).await;
        loop {
            let began = Instant::now();
            let ended = self.session(&news, &show).await;
            self.machine.disconnected();
            self.status.disconnected(ended.as_ref().err());
            show(&self.status);
            if let Err(error) = &ended {
                let plane = &self.plane.addresses;
                log::warn(format_args!("the control plane at {plane:?}: {error:#}"));
            }
            if ended.is_ok() || began.elapsed() > SETTLED {
                backoff = BACKOFF_MIN;
            }
            if ended.is_err() {
                tokio::time::sleep(jittered(backoff)).await;
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
        }
    }

    /// One connection, from proof to end; well ended for another certificate.
    async fn session(&mut self, news: &mpsc::Sender<Told>, show: &Show) -> anyhow::Result<()> {
        if self
            .leaf
            .as_ref()
            .is_none_or(|leaf| leaf.is_over(SystemTime::now()))
        {
            self.enrol().await.context("no certificate")?;
        }
        let leaf = self.leaf.as_ref().context("no certificate")?;
        let Link {
            channel,
            driver,
            address,
        } = channel::open(&self.plane, Some(&leaf.credentials)).await?;
        self.status.connected(address);
        show(&self.status);
        log::info(format_args!(
            "connected with the control plane at {address}"
        ));
        tokio::select! {
            ended = driver => ended,
            ended = self.converse(&channel, news, show) => ended,
        }
    }

    /// Proves the workload by its token and has its first certificate signed.
    async fn enrol(&mut self) -> anyhow::Result<()> {
        let token = self.token.as_deref();
        let token = token.context(
            "there is neither a token nor a certificate that is valid; start the workload anew",
        )?;
        let Link {
            channel, driver, ..
        } = channel::open(&self.plane, None).await?;
        let signed = tokio::select! {
            ended = driver => return ended.and(Err(anyhow::anyhow!("the connection ended"))),
            signed = leaf::request(&channel, &self.id, Some(token)) => signed?,
        };
        self.adopt_leaf(signed)
    }

    async fn renew(&mut self, channel: &xds::grpc::client::Channel) -> anyhow::Result<()> {
        let signed = leaf::request(channel, &self.id, None)
            .await
            .context("no new certificate")?;
        self.adopt_leaf(signed)
    }

    fn adopt_leaf(&mut self, signed: leaf::Signed) -> anyhow::Result<()> {
        let leaf = Leaf::of(signed, &self.plane.trust_domain)?;
        log::info(format_args!("certificate until {}", leaf.not_after()));
        if let Some(store) = &self.store {
            store
                .save_leaf(&leaf)
                .context("the certificate cannot be kept")?;
        }
        self.status.certificate(&leaf);
        self.leaf = Some(leaf);
        self.changed.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Asks, hears, applies, until the connection ends or another certificate is there.
    async fn converse(
        &mut self,
        channel: &xds::grpc::client::Channel,
        news: &mpsc::Sender<Told>,
        show: &Show,
    ) -> anyhow::Result<()> {
        let (mut sender, mut receiver) = channel.bidi(PATH, http::HeaderMap::new()).await?;
        self.machine.connected();
        self.say(&mut sender).await?;
        loop {
            let renewal = self
                .leaf
                .as_ref()
                .map_or_else(Instant::now, |leaf| leaf.renew_at);
            let tell_at = self.changed.map(|since| since + INCOMPLETE_MAX);
            tokio::select! {
                heard = receiver.recv::<DeltaDiscoveryResponse>() => {
                    self.hear(heard?.context("the control plane ended the stream")?);
                    self.hear_rest(&mut receiver).await?;
                }
                Some(listener) = self.wanted.recv() => self.mesh.use_listener(&listener),
                () = tokio::time::sleep_until(renewal) => {
                    self.renew(channel).await?;
                    self.tell(news).await;
                    return Ok(());
                }
                () = sleep_until(tell_at) => {}
            }
            self.subscribe();
            self.say(&mut sender).await?;
            self.tell(news).await;
            show(&self.status);
        }
    }

    /// What has come already is put to use together.
    async fn hear_rest(&mut self, receiver: &mut Receiver) -> anyhow::Result<()> {
        let mut more = async || tokio::time::timeout(Duration::ZERO, receiver.recv()).await;
        while let Ok(heard) = more().await {
            match heard? {
                Some(response) => self.hear(response),
                None => break,
            }
        }
        Ok(())
    }

    async fn say(&mut self, sender: &mut Sender) -> anyhow::Result<()> {
        while let Some(request) = self.machine.take_request() {
            sender.send(&request).await?;
        }
        Ok(())
    }

    /// Takes what can be used of a response, and remembers why the rest cannot.
    fn hear(&mut self, response: DeltaDiscoveryResponse) {
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
                why.push(format!("{} {}: {error:#}", update.kind.label(), added.name));
                refused.insert(added.name.clone());
            }
        }
        update
            .removed
            .iter()
            .for_each(|name| self.mesh.remove(update.kind, name));
        self.answer(&update, &refused, &why.join("; "));
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
        if let Resource::Listener(listener) = &decoded.value {
            let several = listener.bind && !listener.additional_addresses.is_empty();
            anyhow::ensure!(!several, "a listener that binds has one address");
        }
        self.status.ignored(&decoded.ignored);
        if let Resource::Bundle(bundle) = &decoded.value {
            self.trust(bundle)?;
        }
        self.mesh.add(decoded.value);
        Ok(())
    }

    fn trust(&mut self, bundle: &model::TrustBundle) -> anyhow::Result<()> {
        let leaf = self.leaf.as_mut();
        let leaf = leaf.expect("nobody is heard who was not proven to");
        leaf.trust(bundle)?;
        self.status.certificate(leaf);
        Ok(())
    }

    /// Asks for what follows from what is known, and for nothing else any more.
    fn subscribe(&mut self) {
        let wanted = [
            (Kind::Routes, self.mesh.wanted_routes()),
            (Kind::Endpoints, self.mesh.wanted_endpoints()),
        ];
        for (kind, names) in wanted {
            let gone: Vec<String> = self
                .machine
                .wanted(kind)
                .filter(|name| !names.contains(name))
                .map(str::to_owned)
                .collect();
            self.machine.unsubscribe(kind, gone);
            self.machine.subscribe(kind, names);
        }
    }

    /// Tells what is new, once all that it refers to is there, or has not come in time.
    async fn tell(&mut self, news: &mpsc::Sender<Told>) {
        let (Some(since), Some(leaf)) = (self.changed, &self.leaf) else {
            return;
        };
        let waits = Kind::ALL
            .iter()
            .any(|kind| self.machine.missing(*kind).next().is_some());
        if waits && (since.elapsed() < INCOMPLETE_MAX || !self.has_begun()) {
            return;
        }
        let (listeners, clusters) = self.mesh.assemble();
        let credentials = leaf.credentials.clone();
        self.changed = None;
        let told = Told {
            listeners,
            clusters,
            credentials,
        };
        // The receiver is gone only when everything ends.
        let _ = news.send(told).await;
        self.keep();
    }

    /// Whether the control plane has said anything about listeners, now or in an earlier life.
    fn has_begun(&self) -> bool {
        self.machine.known(Kind::Listener).next().is_some()
    }

    /// Writes down what is known, so that the next start needs nobody.
    fn keep(&mut self) {
        let Some(store) = &mut self.store else { return };
        if let Err(error) = store.save(&self.mesh, &self.machine) {
            log::warn(format_args!("what is known cannot be kept: {error:#}"));
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn jittered(most: Duration) -> Duration {
    most / 2 + identity::renewal::soon(most / 2, crate::random::seed())
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
        TokenSource::File(path) => {
            let read = std::fs::File::open(path)
                .and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut token));
            read.with_context(|| format!("the token cannot be read from {}", path.display()))?;
        }
    }
    Ok(token.trim().to_owned())
}
