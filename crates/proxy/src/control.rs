//! The sidecar that is told: it proves who it is, asks for its configuration, applies what comes
//! and says what it refuses, for as long as it lives. Runs on the quiet thread; `app` hands what it
//! says to the workers. When the control plane is away, what was said last stays in force.

pub(crate) mod channel;
mod hearing;
mod leaf;
mod machine;
mod member;
mod mesh;
mod start;
mod status;
mod store;

use crate::edge::Certificates;
use crate::log;
use crate::snapshot::{self, Identity};
use anyhow::Context;
use channel::Link;
use identity::credentials::Credentials;
use identity::key::PrivateKey;
use identity::tls::Tickets;
use machine::Machine;
use member::{Member, Signing};
use mesh::Mesh;
use model::{Cluster, Config, ControlPlane, Listener, Trust};
pub(crate) use status::Status;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use xds::grpc::client::Channel;
use xds::grpc::{Receiver, Sender};
use xds::kind::Kind;

/// After a failure the control plane is left alone for so long, at first and at most; each time by
/// chance between half of it and all, so that a mesh does not come back as one.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// A conversation that lasted so long was none that failed.
const SETTLED: Duration = Duration::from_secs(10);
/// A change is put to use without what it refers to when that does not come in time.
const INCOMPLETE_MAX: Duration = Duration::from_secs(5);
/// What is said is taken in this time, or the control plane is as good as gone.
const SAY_TIMEOUT: Duration = Duration::from_secs(10);
/// Responses that are put to use together; a control plane that sends without end is answered all
/// the same.
const TOGETHER_MAX: usize = 16;
/// What is known is written down at most this often: a busy mesh is no reason to wear a disk out.
const KEEP_PERIOD: Duration = Duration::from_secs(1);
/// How often the clock is asked whether the certificate is to be renewed: a machine that slept, or
/// learnt the time late, does not notice otherwise.
const CLOCK_PERIOD: Duration = Duration::from_secs(60);

/// Where the state of the conversation is shown.
pub(crate) type Show = Box<dyn Fn(&Status) + Send + Sync>;

/// Has the conversation rest while a successor reads what was kept.
pub(crate) struct Pause {
    /// Told when all is written down, and nothing more will be.
    pub(crate) begun: oneshot::Sender<()>,
    /// Told how to go on; dropped, if that will never be.
    pub(crate) over: oneshot::Receiver<Onward>,
}

/// How a conversation goes on that rested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Onward {
    /// As if nobody had come.
    AsBefore,
    /// For the connections that are left: what is kept is the successor's.
    KeepingNothing,
}

/// What the control plane has said, as far as it can be put to use.
pub(crate) struct Told {
    listeners: Vec<Arc<Listener>>,
    clusters: Vec<Arc<Cluster>>,
    /// As the control plane signed it; `None` where certificates come from files.
    proof: Option<Proof>,
    certificates: Arc<Certificates>,
}

/// What proves the workload.
#[derive(Clone)]
pub(crate) struct Proof {
    pub(crate) credentials: Credentials,
    pub(crate) key: Arc<PrivateKey>,
    /// PEM, leaf first.
    pub(crate) chain: Arc<str>,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// All that a sidecar serves by.
    Everything,
    /// Names and the trust bundle: somebody else serves.
    Names,
}

impl Scope {
    const fn has(self, kind: Kind) -> bool {
        match self {
            Self::Everything => true,
            Self::Names => matches!(kind, Kind::Secret | Kind::Listener),
        }
    }
}

impl Told {
    /// Fills in what `config` leaves to the control plane.
    pub(crate) fn complete(&self, config: &mut Config) {
        config.listeners.clone_from(&self.listeners);
        config.clusters.clone_from(&self.clusters);
    }

    /// Who the sidecar is, and what it shows to clients outside of the mesh. Where the control
    /// plane does not say who it is, `files` does.
    pub(crate) fn identity(
        &self,
        tickets: &Arc<Tickets>,
        files: impl FnOnce() -> Result<Option<Identity>, snapshot::Error>,
    ) -> Result<Option<Identity>, snapshot::Error> {
        let identity = match &self.proof {
            Some(proof) => Some(Identity::of(proof.credentials.clone(), tickets)?),
            None => files()?,
        };
        Ok(identity.map(|it| it.showing(Arc::clone(&self.certificates))))
    }

    /// What proves the workload, if the control plane signed it.
    pub(crate) fn proof(&self) -> Option<&Proof> {
        self.proof.as_ref()
    }
}

/// Speaks with the control plane.
pub(crate) struct Agent {
    plane: ControlPlane,
    scope: Scope,
    machine: Machine,
    mesh: Mesh,
    /// `None` where the control plane is not the mesh's.
    member: Option<Member>,
    /// Of the certificate with which the mesh is spoken to; `None` if there is none.
    trust_domain: Option<String>,
    store: Option<Store>,
    /// Listeners that connections wait at.
    wanted: mpsc::UnboundedReceiver<Arc<str>>,
    status: Status,
    /// Since when there is something to tell.
    changed: Option<Instant>,
    /// What nothing waits for though it has not come: connections wait for it themselves, or it
    /// was waited for in vain.
    excused: BTreeSet<(Kind, String)>,
    /// When what is known is to be written down, and when that was done last.
    keep_at: Option<Instant>,
    kept_at: Option<Instant>,
    /// Who writes, still, for somebody who did not wait.
    keeping: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Agent {
    /// Speaks with the control plane as long as somebody wants the `news` that follow from it.
    pub(crate) async fn run(
        mut self,
        news: mpsc::Sender<Told>,
        show: Show,
        mut pauses: mpsc::Receiver<Pause>,
    ) {
        if self.has_begun() {
            // What was kept is whole: nobody is needed to put it to use.
            self.publish(&news).await;
        }
        loop {
            tokio::select! {
                () = self.speak(&news, &show) => {}
                () = news.closed() => break,
                Some(pause) = pauses.recv() => match self.pause(pause, &show).await {
                    true => {}
                    // What is kept is somebody else's.
                    false => return,
                },
            }
        }
        self.keep_what_is_due().await;
    }

    /// Whether it is to go on.
    async fn pause(&mut self, pause: Pause, show: &Show) -> bool {
        self.machine.disconnected();
        self.believed();
        self.keep_what_is_due().await;
        self.status.disconnected(Some("a successor takes over"));
        show(&self.status);
        // Whoever does not wait for it says below what is to be.
        let _ = pause.begun.send(());
        let onward = pause.over.await;
        if onward == Ok(Onward::KeepingNothing) {
            self.store = None;
        }
        onward.is_ok()
    }

    async fn speak(&mut self, news: &mpsc::Sender<Told>, show: &Show) {
        let mut backoff = BACKOFF_MIN;
        loop {
            let began = Instant::now();
            let ended = Box::pin(self.session(news, show)).await;
            self.machine.disconnected();
            self.keep_what_is_due().await;
            let why = ended.as_ref().err().map(describe);
            self.status.disconnected(why.as_deref());
            show(&self.status);
            if ended.is_ok() || began.elapsed() > SETTLED {
                backoff = BACKOFF_MIN;
            }
            if let Some(why) = why {
                let addresses = self.plane.addresses.iter().map(ToString::to_string);
                let at = addresses.collect::<Vec<_>>().join(", ");
                log::warn(format_args!("the control plane at {at}: {why}"));
                self.rest(jittered(backoff)).await;
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
        }
    }

    /// Leaves the control plane alone, and remembers what is to be asked for then.
    async fn rest(&mut self, pause: Duration) {
        let end = Instant::now() + pause;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return,
                Some(listener) = self.wanted.recv() => self.use_listener(&listener),
            }
        }
    }

    /// One connection, from proof to end; well ended for another certificate.
    async fn session(&mut self, news: &mpsc::Sender<Told>, show: &Show) -> anyhow::Result<()> {
        if self.member.as_mut().is_some_and(Member::must_enrol) {
            Box::pin(self.enrol()).await.context("no certificate")?;
        }
        if let Some(member) = &mut self.member {
            member.is_doubted = true;
        }
        let credentials = self.proof().map(|proof| &proof.credentials);
        let Link {
            channel,
            driver,
            address,
        } = channel::open(&self.plane, credentials).await?;
        if self.plane.tls == Trust::Plaintext {
            log::warn(format_args!("what {address} says is not proven: plaintext"));
        }
        log::info(format_args!(
            "connected with the control plane at {address}"
        ));
        self.status.connected(&address);
        show(&self.status);
        tokio::select! {
            ended = driver => {
                ended?;
                anyhow::bail!("it closed the connection")
            }
            ended = self.converse(&channel, news, show) => ended,
        }
    }

    /// What proves who this is, if the control plane signs that.
    fn proof(&self) -> Option<&Proof> {
        let leaf = self.member.as_ref()?.leaf.as_ref();
        leaf.map(|leaf| &leaf.proof)
    }

    /// The control plane takes the certificate for what it is.
    fn believed(&mut self) {
        if let Some(member) = &mut self.member {
            member.is_doubted = false;
        }
    }

    /// Proves the workload by its token and has its first certificate signed.
    async fn enrol(&mut self) -> anyhow::Result<()> {
        let Some(member) = &mut self.member else {
            return Ok(());
        };
        member.token()?;
        let link = channel::open(&self.plane, None).await?;
        let signed = member.enrol(link).await?;
        self.adopt_leaf(signed)?;
        if let Some(member) = &mut self.member {
            member.forget_token();
        }
        Ok(())
    }

    fn adopt_leaf(&mut self, signed: leaf::Signed) -> anyhow::Result<()> {
        let member = self.member.as_mut();
        let leaf = member.context("nobody asked for it")?.adopt(signed)?;
        if let Some(Err(error)) = self.store.as_ref().map(|store| store.save_leaf(leaf)) {
            log::warn(format_args!("the certificate cannot be kept: {error:#}"));
        }
        self.status.certificate(leaf);
        self.changed.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Asks, hears, applies, until the connection ends or another certificate is there.
    async fn converse(
        &mut self,
        channel: &Channel,
        news: &mpsc::Sender<Told>,
        show: &Show,
    ) -> anyhow::Result<()> {
        let (mut sender, mut receiver) = channel
            .bidi(self.machine.path(), http::HeaderMap::new())
            .await?;
        self.machine.connected();
        self.subscribe();
        self.say(&mut sender).await?;
        let mut signing = None;
        loop {
            let complete = self.changed.filter(|_| self.has_begun());
            let complete = complete.map(|since| since + INCOMPLETE_MAX);
            let renewal = self.renewal_due();
            tokio::select! {
                heard = receiver.recv_bytes() => {
                    self.hear(heard?.context("the control plane ended the stream")?)?;
                    self.hear_rest(&mut receiver).await?;
                }
                Some(listener) = self.wanted.recv() => self.use_listener(&listener),
                signed = signed(&mut signing), if signing.is_some() => {
                    signing = None;
                    if self.renewed(signed)? {
                        self.tell(news).await;
                        return Ok(());
                    }
                }
                () = tokio::time::sleep(renewal.min(CLOCK_PERIOD)), if signing.is_none() => {
                    let member = self.member.as_ref().filter(|_| renewal.is_zero());
                    signing = member.map(|member| member.renew(channel));
                }
                () = sleep_until(complete) => {}
                () = sleep_until(self.keep_at) => self.keep().await,
            }
            self.subscribe();
            self.say(&mut sender).await?;
            self.tell(news).await;
            show(&self.status);
        }
    }

    fn renewal_due(&self) -> Duration {
        let member = self.member.as_ref();
        member.map_or(Duration::MAX, Member::renewal_due)
    }

    /// Whether there is a new certificate. That there is none ends nothing while the old one holds.
    fn renewed(&mut self, signed: anyhow::Result<leaf::Signed>) -> anyhow::Result<bool> {
        let adopted = signed.and_then(|signed| self.adopt_leaf(signed));
        let Err(error) = adopted.context("no new certificate") else {
            return Ok(true);
        };
        let why = describe(&error);
        if let Some(member) = &mut self.member {
            member.put_off(error)?;
        }
        log::warn(format_args!("{why}"));
        Ok(false)
    }

    /// What has come already is put to use together.
    async fn hear_rest(&mut self, receiver: &mut Receiver) -> anyhow::Result<()> {
        for _ in 1..TOGETHER_MAX {
            match timeout(Duration::ZERO, receiver.recv_bytes()).await {
                Ok(heard) => self.hear(heard?.context("the control plane ended the stream")?)?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    async fn say(&mut self, sender: &mut Sender) -> anyhow::Result<()> {
        while let Some(request) = self.machine.take_request() {
            let said = timeout(SAY_TIMEOUT, sender.send_bytes(request)).await;
            said.context("the control plane does not listen")??;
        }
        Ok(())
    }

    /// A connection waits at `listener`.
    fn use_listener(&mut self, listener: &str) {
        let asked = self.mesh.use_listener(listener).into_iter();
        // Nothing that is in use depends on it yet.
        self.excused
            .extend(asked.map(|cluster| (Kind::Endpoints, cluster)));
    }

    /// Tells what is new, once all that it refers to is there, or has not come in time.
    async fn tell(&mut self, news: &mpsc::Sender<Told>) {
        let Some(since) = self.changed else { return };
        let missing = self.missing();
        self.excused.retain(|one| missing.contains(one));
        let waits = missing.iter().any(|one| !self.excused.contains(one));
        if waits && (since.elapsed() < INCOMPLETE_MAX || !self.has_begun()) {
            return;
        }
        self.excused = missing;
        self.publish(news).await;
    }

    async fn publish(&mut self, news: &mpsc::Sender<Told>) {
        // Gone only when everything ends. Taken first: nothing is forgotten if this is dropped.
        let Ok(place) = news.reserve().await else {
            return;
        };
        let (listeners, clusters) = match self.scope {
            Scope::Everything => self.mesh.assemble(),
            Scope::Names => (self.mesh.named(), Vec::new()),
        };
        place.send(Told {
            listeners,
            clusters,
            proof: self.proof().cloned(),
            certificates: Arc::new(self.mesh.certificates()),
        });
        self.changed = None;
        let due = self
            .kept_at
            .map_or_else(Instant::now, |at| at + KEEP_PERIOD);
        self.keep_at.get_or_insert(due);
    }

    /// What was asked for and has not been answered.
    fn missing(&self) -> BTreeSet<(Kind, String)> {
        let of_kind = |kind| {
            let missing = self.machine.missing(kind);
            missing.map(move |name| (kind, name.to_owned()))
        };
        Kind::ALL.into_iter().flat_map(of_kind).collect()
    }

    /// Whether the control plane has said anything about listeners, now or in an earlier life.
    fn has_begun(&self) -> bool {
        self.machine.known(Kind::Listener).next().is_some()
    }

    /// Nothing is being written when this is over.
    async fn keep_what_is_due(&mut self) {
        self.finish_keeping().await;
        if self.keep_at.is_some() {
            self.keep().await;
        }
    }

    /// Writes down what is known, so that the next start needs nobody. Another thread waits for the
    /// disk: names and admin pages do not.
    async fn keep(&mut self) {
        let Some(store) = self.store.clone() else {
            self.keep_at = None;
            return;
        };
        self.finish_keeping().await;
        self.keep_at = None;
        let bytes = Store::encode(&self.mesh, &self.machine);
        let save = move || bytes.and_then(|bytes| store.save(&bytes));
        self.keeping = Some(tokio::task::spawn_blocking(save));
        self.finish_keeping().await;
        self.kept_at = Some(Instant::now());
    }

    /// Waits for the one who writes: two would be in each other's way.
    async fn finish_keeping(&mut self) {
        let Some(keeping) = &mut self.keeping else {
            return;
        };
        let kept = keeping.await;
        self.keeping = None;
        if let Err(error) = kept.map_err(Into::into).flatten() {
            log::warn(format_args!("what is known cannot be kept: {error:#}"));
        }
    }
}

async fn signed(signing: &mut Option<Signing>) -> anyhow::Result<leaf::Signed> {
    match signing {
        Some(signing) => signing.await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// An error with its causes, but for those that it has told already.
fn describe(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |told, cause| {
        let cause = cause.to_string();
        match told.as_str() {
            "" => cause,
            told if told.ends_with(&cause) => told.to_owned(),
            told => format!("{told}: {cause}"),
        }
    })
}

fn jittered(most: Duration) -> Duration {
    most / 2 + identity::renewal::soon(most / 2, crate::random::seed())
}
