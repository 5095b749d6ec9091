//! One simulated sidecar: proves who it is with a token, has its certificate signed, and then asks,
//! hears and acknowledges as a real one does; it only keeps names and versions. Run by `fleet`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use http::{HeaderMap, HeaderValue};
use identity::credentials::{Credentials, Parts};
use identity::tls::{self, ALPN_PUBLIC_H2};
use identity::{SpiffeId, TrustBundle, key};
use rustls::ClientConfig;
use tokio::sync::{Semaphore, mpsc, watch};
use xds::TRUST_BUNDLE;
use xds::delta::client::{Client, Update};
use xds::delta::{PATH, WILDCARD};
use xds::grpc::{Keepalive, Receiver, Sender};
use xds::kind::Kind;
use xds::proto::discovery::{DeltaDiscoveryResponse, Node};
use xds::proto::identity::{SIGN, SignRequest, SignResponse};

use super::facts::{Fact, Facts};
use super::ledger::Ledger;
use super::{link, mesh};

pub(super) const TRUST_DOMAIN: &str = "cluster.local";
/// Pauses after failures, as a real sidecar has them.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// What all simulated sidecars share.
pub(super) struct World {
    /// The control plane's port.
    pub(super) plane: SocketAddr,
    /// Whom to trust at first, as PEM.
    pub(super) root: String,
    pub(super) ledger: Arc<Ledger>,
    pub(super) facts: Facts,
    /// As many have their certificate signed at once.
    pub(super) enrolling: Semaphore,
}

/// What a sidecar is to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Connections came that lead to these Services.
    Use(Vec<usize>),
}

/// One of them.
pub(super) struct Sidecar {
    /// Counts all of them.
    pub(super) number: usize,
    /// Of the instance.
    pub(super) name: String,
    /// Its service account.
    pub(super) account: String,
    /// Good for one certificate.
    pub(super) token: String,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    pub(super) world: Arc<World>,
    /// Whether connections are to be made already.
    pub(super) go: watch::Receiver<bool>,
}

/// What one knows, over all connections of its life.
struct Life {
    world: Arc<World>,
    orders: mpsc::UnboundedReceiver<Order>,
    source: Ipv4Addr,
    client: Client,
    /// The newest change of each Service that it has acknowledged.
    newest: BTreeMap<usize, u32>,
    /// Since when connections wait for the endpoints of a cluster.
    waiting: BTreeMap<String, Instant>,
    /// Kinds of which this stream has not said anything yet, though it will.
    unheard: BTreeSet<Kind>,
    is_served: bool,
}

impl Sidecar {
    /// Enrols, waits for the start, and lives until it is dropped.
    ///
    /// # Errors
    /// When it gets no certificate.
    pub(super) async fn run(mut self) -> anyhow::Result<()> {
        let credentials = Box::pin(self.enrol()).await;
        let credentials =
            credentials.with_context(|| format!("{} has no certificate", self.name))?;
        self.world.ledger.enrolled.fetch_add(1, Ordering::AcqRel);
        // Nobody is left to say so only when all is over.
        let _ = self.go.wait_for(|go| *go).await;
        let source = self.source();
        let mut life = Life {
            client: self.client(),
            world: self.world,
            orders: self.orders,
            source,
            newest: BTreeMap::new(),
            waiting: BTreeMap::new(),
            unheard: BTreeSet::new(),
            is_served: false,
        };
        life.run(&credentials, self.number).await
    }

    /// Every sidecar has an address of its own, as in a mesh.
    fn source(&self) -> Ipv4Addr {
        let number = u32::try_from(self.number).unwrap_or(u32::MAX);
        Ipv4Addr::from(0x7f40_0001 + number)
    }

    async fn enrol(&self) -> anyhow::Result<Credentials> {
        let world = &self.world;
        let _permit = world.enrolling.acquire().await?;
        let now = SystemTime::now();
        let bundle = Arc::new(TrustBundle::from_pem(&world.root, "", TRUST_DOMAIN, now)?);
        let config = tls::client_config_without_identity(&bundle, &[ALPN_PUBLIC_H2], &plane_id()?)?;
        let (channel, driver) = Box::pin(link::open(
            world.plane,
            self.source(),
            config,
            &world.ledger,
        ))
        .await?;
        let key = key::generate()?;
        let id = SpiffeId::of_service_account(TRUST_DOMAIN, mesh::NAMESPACE, &self.account)?;
        let csr = key.csr(&id)?.into();
        let bearer = HeaderValue::try_from(format!("Bearer {}", self.token))?;
        let metadata = HeaderMap::from_iter([(http::header::AUTHORIZATION, bearer)]);
        let request = SignRequest { csr };
        let answer: SignResponse = tokio::select! {
            answer = channel.unary(SIGN, metadata, &request) => answer?,
            ended = driver.run(Keepalive::default()) => {
                ended?;
                anyhow::bail!("the connection was closed")
            }
        };
        let parts = Parts {
            chain: &answer.chain,
            key: &key,
            trust_bundle: &answer.trust_bundle,
            revocations: &answer.revocations,
        };
        Ok(Credentials::from_parts(
            &parts,
            TRUST_DOMAIN,
            SystemTime::now(),
        )?)
    }

    /// One that wants what a real one wants.
    fn client(&self) -> Client {
        let mut client = Client::new(Node {
            id: format!("{}.{}", self.name, mesh::NAMESPACE),
            cluster: self.account.clone(),
            ..Node::default()
        });
        client.subscribe(Kind::Secret, [TRUST_BUNDLE]);
        client.subscribe(Kind::Cluster, [WILDCARD]);
        client.subscribe(Kind::Listener, [WILDCARD]);
        client
    }
}

impl Life {
    async fn run(&mut self, credentials: &Credentials, number: usize) -> anyhow::Result<()> {
        let expected = plane_id()?;
        let mut chance = number as u64;
        let mut backoff = BACKOFF_MIN;
        loop {
            let config = tls::client_config(credentials, &[ALPN_PUBLIC_H2], &expected)?;
            let ended = Box::pin(self.session(config)).await;
            self.client.disconnected();
            let was_served = self.is_served;
            self.set_served(false);
            if let Err(why) = ended {
                self.world.ledger.note_end(&why);
            }
            if was_served {
                backoff = BACKOFF_MIN;
            }
            tokio::time::sleep(jittered(backoff, &mut chance)).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// One connection; it ends with an error, or not at all.
    async fn session(&mut self, config: Arc<ClientConfig>) -> anyhow::Result<()> {
        let world = Arc::clone(&self.world);
        let opened = link::open(world.plane, self.source, config, &world.ledger);
        let (channel, driver) = Box::pin(opened).await?;
        let speak = async {
            let (sender, receiver) = channel.bidi(PATH, HeaderMap::new()).await?;
            self.converse(sender, receiver).await
        };
        tokio::select! {
            ended = driver.run(Keepalive::default()) => {
                ended?;
                anyhow::bail!("the control plane closed the connection")
            }
            ended = speak => ended,
        }
    }

    async fn converse(&mut self, mut sender: Sender, mut receiver: Receiver) -> anyhow::Result<()> {
        self.client.connected();
        self.unheard = BTreeSet::from([Kind::Cluster, Kind::Listener]);
        self.say(&mut sender).await?;
        loop {
            tokio::select! {
                heard = receiver.recv::<DeltaDiscoveryResponse>() => {
                    let heard = heard?.context("the control plane ended the stream")?;
                    let update = self.hear(heard)?;
                    self.say(&mut sender).await?;
                    self.note(&update)?;
                }
                Some(Order::Use(services)) = self.orders.recv() => {
                    self.use_services(services);
                    self.say(&mut sender).await?;
                }
            }
        }
    }

    async fn say(&mut self, sender: &mut Sender) -> anyhow::Result<()> {
        while let Some(request) = self.client.take_request() {
            sender.send(&request).await?;
        }
        Ok(())
    }

    /// Takes a response, and asks for what it leads to.
    fn hear(&mut self, response: DeltaDiscoveryResponse) -> anyhow::Result<Update> {
        let update = self.client.on_response(response)?;
        let (kind, ledger) = (update.kind, &self.world.ledger);
        ledger
            .resources
            .fetch_add(update.added.len() as u64, Ordering::Relaxed);
        for one in &update.added {
            match self.world.facts.of(kind, one)? {
                Fact::HasRoutes => self.client.subscribe(Kind::Routes, [&*one.name]),
                Fact::HasEndpoints => self.client.subscribe(Kind::Endpoints, [&*one.name]),
                Fact::Nothing | Fact::Endpoints(_) => {}
            }
        }
        for name in &update.removed {
            match kind {
                Kind::Listener => self.client.unsubscribe(Kind::Routes, [name]),
                Kind::Cluster => self.client.unsubscribe(Kind::Endpoints, [name]),
                Kind::Secret | Kind::Endpoints | Kind::Routes => {}
            }
        }
        self.client.accept(&update);
        self.unheard.remove(&kind);
        Ok(update)
    }

    /// What was heard has been acknowledged.
    fn note(&mut self, update: &Update) -> anyhow::Result<()> {
        let world = Arc::clone(&self.world);
        for one in &update.added {
            if let Some(since) = self.waiting.remove(&one.name) {
                world.ledger.first_use(since.elapsed());
            }
            let fact = world.facts.of(update.kind, one)?;
            let (Fact::Endpoints(Some(newest)), Some(service)) =
                (fact, mesh::service_of(&one.name))
            else {
                continue;
            };
            let before = self.newest.insert(service, newest);
            world.ledger.delivered(service, before, newest);
        }
        let mut missing = Kind::ALL
            .into_iter()
            .flat_map(|kind| self.client.missing(kind));
        let is_whole = self.unheard.is_empty() && missing.next().is_none();
        drop(missing);
        // What is wanted only now does not make it less than served.
        self.set_served(self.is_served || is_whole);
        Ok(())
    }

    fn use_services(&mut self, services: Vec<usize>) {
        for service in services {
            let cluster = mesh::cluster_name(service);
            self.waiting.insert(cluster.clone(), Instant::now());
            self.client.subscribe(Kind::Endpoints, [cluster]);
        }
    }

    fn set_served(&mut self, is_served: bool) {
        if self.is_served != is_served {
            self.is_served = is_served;
            self.world.ledger.set_served(is_served);
        }
    }
}

/// Who must answer.
fn plane_id() -> anyhow::Result<[SpiffeId; 1]> {
    let id = SpiffeId::of_service_account(TRUST_DOMAIN, "leno-system", "leno-control")?;
    Ok([id])
}

/// By chance between half of `pause` and all of it.
fn jittered(pause: Duration, chance: &mut u64) -> Duration {
    // SplitMix64: all that is asked of it is to differ from one sidecar to the next.
    *chance = chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*chance ^ (*chance >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let part = u32::try_from(mixed >> 48).unwrap_or(0);
    pause / 2 + pause / 2 * part / 65_536
}
