//! A control plane for sidecars under test: it signs certificates and tells resources as a real one
//! does, remembers all that was said to it, and misbehaves when a test wants it to. Its half of
//! delta xDS is its own, so that it does not share the mistakes of the one that is tested.

mod book;
mod mint;
mod serve;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use identity::SpiffeId;
use identity::credentials::Credentials;
use model::{Cluster, Discovery, Listener, TrustBundle};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use xds::flavour::Flavour;
use xds::kind::Kind;
use xds::proto::discovery::DeltaDiscoveryRequest;
use xds::resource::{Resource, encode, encode_for};

use crate::dead::DeadPort;
use crate::wait::until;

use book::Book;
use mint::Mint;
pub use mint::Signing;

/// The name of the mesh's trust bundle.
const BUNDLE: &str = xds::TRUST_BUNDLE;

/// A control plane on a port of 127.0.0.1, of the trust domain `cluster.local`.
pub struct ControlPlane {
    dir: TempDir,
    shared: Arc<Shared>,
    /// Kept while nobody listens, so that it can be taken again.
    port: DeadPort,
    running: Option<Running>,
}

/// How it treats whoever connects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Manner {
    /// As a control plane should.
    #[default]
    Good,
    /// Takes connections and says nothing, not even in TLS.
    Silent,
    /// Proves who it is, and then speaks no HTTP/2.
    Rubbish,
    /// Closes in order each connection that it could speak on.
    Curt,
    /// Does not tell anybody anything.
    Refusing,
    /// Ends each connection in the middle of its first message.
    HangingUp,
    /// Sends a message that is too long.
    Oversized,
    /// Sends small messages without end and listens to nobody.
    Endless,
}

/// What was said to it so far, in order.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Connections accepted.
    pub connections: usize,
    /// Who proved itself by a certificate, per connection that shook hands.
    pub peers: Vec<Option<SpiffeId>>,
    /// Tokens, each time that one was shown.
    pub tokens: Vec<String>,
    /// Requests for certificates, DER, signed or not.
    pub csrs: Vec<Bytes>,
    /// Streams of resources that were opened.
    pub streams: usize,
    /// What was asked and answered on them.
    pub requests: Vec<DeltaDiscoveryRequest>,
    /// Those of them that were the first of their kind on their stream.
    pub openings: Vec<DeltaDiscoveryRequest>,
    /// Each resource that was sent: kind and name. Removals are not in it.
    pub sent: Vec<(Kind, String)>,
}

/// What the test's thread and the serving thread share.
struct Shared {
    state: Mutex<State>,
    /// Counts changes of the state, for streams that wait for one.
    changes: watch::Sender<u64>,
    /// Counts how often all connections were ended.
    ends: watch::Sender<u64>,
}

struct State {
    book: Book,
    /// What Envoys are told.
    envoy_book: Book,
    mint: Mint,
    manner: Manner,
    muted: Vec<Kind>,
    seen: Seen,
}

struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl ControlPlane {
    /// One that proves to be `leno-control` and tells nothing but the trust bundle yet.
    ///
    /// # Panics
    /// If no port can be bound or no certificate made.
    #[must_use]
    pub fn start() -> Self {
        Self::start_as("leno-control")
    }

    /// One that proves to be another service account of the namespace `leno-system`.
    ///
    /// # Panics
    /// If no port can be bound or no certificate made.
    #[must_use]
    pub fn start_as(service_account: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let mint = Mint::new(service_account);
        std::fs::write(dir.path().join("root.pem"), mint.root()).expect("it can be written");
        let state = State {
            book: Book::default(),
            envoy_book: Book::default(),
            mint,
            manner: Manner::Good,
            muted: Vec::new(),
            seen: Seen::default(),
        };
        let mut plane = Self {
            dir,
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changes: watch::Sender::new(0),
                ends: watch::Sender::new(0),
            }),
            port: DeadPort::hold(),
            running: None,
        };
        plane.tell_bundle();
        plane.resume();
        plane
    }

    /// Where it listens, or would.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The file with its root's certificate.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root.pem")
    }

    /// A directory for what a test keeps, removed with the control plane.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The configuration of the sidecar beside `workload`, which has a token in a file. `more` goes
    /// into its section `control`, as in `, state: state`.
    ///
    /// # Panics
    /// If the file cannot be written.
    #[must_use]
    pub fn sidecar(&self, workload: &str, more: &str) -> String {
        let token = self.token(workload);
        let file = self.dir.path().join(&token);
        std::fs::write(&file, format!("{token}\n")).expect("a token can be written");
        self.sidecar_with(workload, &format!(", token: {{file: {file:?}}}{more}"))
    }

    /// As [`ControlPlane::sidecar`], without a token.
    #[must_use]
    pub fn sidecar_with(&self, workload: &str, more: &str) -> String {
        let (addr, root) = (self.addr(), self.root());
        format!(
            "workload: {{name: {workload}, serviceAccount: {workload}}}\nworkers: 1\n\
             admin: 127.0.0.1:0\nmetrics: 127.0.0.1:0\n\
             control: {{addresses: [\"{addr}\"], trustBundle: {root:?}{more}}}\n"
        )
    }

    /// A token that proves `workload` once.
    #[must_use]
    pub fn token(&self, workload: &str) -> String {
        self.shared.state().mint.token(workload)
    }

    /// What a sidecar beside `workload` would have.
    ///
    /// # Panics
    /// If it cannot be issued.
    #[must_use]
    pub fn credentials(&self, workload: &str) -> Credentials {
        self.shared.state().mint.credentials(workload)
    }

    /// How certificates are signed from now on.
    pub fn sign(&self, change: impl FnOnce(&mut Signing)) {
        change(&mut self.shared.state().mint.signing);
    }

    /// Changes several resources at once. Envoys are told what they can be told of them.
    ///
    /// # Panics
    /// If one breaks its invariants.
    #[track_caller]
    pub fn set(&self, resources: impl IntoIterator<Item = Resource>) {
        let encoded = resources.into_iter().map(|resource| {
            let bytes = encode(&resource).expect("a test's resource is valid");
            let for_envoys = encode_for(Flavour::Envoy, &resource);
            let name = resource.name().to_owned();
            (resource.kind(), name, bytes, for_envoys.ok())
        });
        let encoded: Vec<_> = encoded.collect();
        self.change(|state| {
            for (kind, name, bytes, for_envoys) in encoded {
                state.book.set(kind, &name, bytes);
                if let Some(bytes) = for_envoys {
                    state.envoy_book.set(kind, &name, bytes);
                }
            }
        });
    }

    /// Tells a listener, with its routes.
    ///
    /// # Panics
    /// If it breaks its invariants.
    #[track_caller]
    pub fn listener(&self, listener: &Listener) {
        self.set(parts_of_listener(listener));
    }

    /// Tells a cluster, with its endpoints.
    ///
    /// # Panics
    /// If it breaks its invariants.
    #[track_caller]
    pub fn cluster(&self, cluster: &Cluster) {
        self.set(parts_of_cluster(cluster));
    }

    /// Tells bytes that need not be a resource.
    pub fn set_raw(&self, kind: Kind, name: &str, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        self.change(|state| state.book.set(kind, name, bytes));
    }

    /// What is told of a resource.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    #[must_use]
    pub fn raw(&self, kind: Kind, name: &str) -> Bytes {
        let bytes = self.shared.state().book.find(kind, name);
        bytes.expect("it is told")
    }

    /// A resource is gone.
    pub fn remove(&self, kind: Kind, name: &str) {
        self.change(|state| {
            state.book.remove(kind, name);
            state.envoy_book.remove(kind, name);
        });
    }

    /// A new intermediate issues from now on; the bundle says so.
    pub fn rotate(&self) {
        self.shared.state().mint.rotate();
        self.tell_bundle();
    }

    /// Nothing that was issued to `workload` so far is to be trusted any more.
    pub fn revoke(&self, workload: &str) {
        self.shared.state().mint.revoke(workload);
        self.tell_bundle();
    }

    /// Everybody who was revoked is trusted again, once the next bundle is told.
    pub fn pardon(&self) {
        self.shared.state().mint.pardon();
    }

    /// The authorities that sidecars are told to trust, newest first, PEM.
    #[must_use]
    pub fn authorities(&self) -> String {
        self.shared.state().mint.bundle().0
    }

    /// Tells any trust bundle.
    #[track_caller]
    pub fn trust(&self, authorities: &str, revocations: &str) {
        self.set([Resource::Bundle(TrustBundle {
            name: BUNDLE.to_owned(),
            authorities: authorities.to_owned(),
            revocations: revocations.to_owned(),
        })]);
    }

    fn tell_bundle(&self) {
        let (authorities, revocations) = self.shared.state().mint.bundle();
        self.trust(&authorities, &revocations);
    }

    /// Says nothing of these kinds from now on.
    pub fn mute(&self, kinds: &[Kind]) {
        self.change(|state| state.muted = kinds.to_vec());
    }

    /// Says nothing of one resource from now on, not even that there is none.
    pub fn withhold(&self, kind: Kind, name: &str) {
        self.change(|state| state.book.withhold(kind, name));
    }

    /// Says everything again.
    pub fn release(&self) {
        self.change(|state| {
            state.muted.clear();
            state.book.release();
        });
    }

    /// Says all that `change` changes at once.
    pub fn together(&self, change: impl FnOnce()) {
        self.mute(&Kind::ALL);
        change();
        self.mute(&[]);
    }

    /// Treats whoever connects in another way, beginning with those who are there.
    pub fn behave(&self, manner: Manner) {
        self.shared.state().manner = manner;
        self.hang_up();
    }

    /// Ends all connections.
    pub fn hang_up(&self) {
        self.shared.ends.send_modify(|count| *count += 1);
    }

    /// Is gone: connections end, and new ones are refused.
    ///
    /// # Panics
    /// If its thread panicked.
    pub fn stop(&mut self) {
        if let Some(Running { stop, thread }) = self.running.take() {
            drop(stop);
            thread.join().expect("the control plane does not panic");
        }
    }

    /// Is there again, on the same port and with the same resources.
    ///
    /// # Panics
    /// If the port cannot be bound.
    pub fn resume(&mut self) {
        self.stop();
        let listener = std::net::TcpListener::bind(self.addr()).expect("the port is ours");
        listener
            .set_nonblocking(true)
            .expect("a socket can be told not to block");
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        let thread = thread::spawn(move || {
            let mut builder = Builder::new_current_thread();
            let runtime = builder.enable_all().build().expect("a runtime can be made");
            runtime.block_on(serve::run(listener, shared, stopped));
        });
        self.running = Some(Running { stop, thread });
    }

    /// What was said so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.shared.state().seen.clone()
    }

    /// Waits until what was said is as expected.
    ///
    /// # Panics
    /// If it never is.
    #[track_caller]
    pub fn until(&self, what: &str, expected: impl Fn(&Seen) -> bool) {
        until(what, || expected(&self.shared.state().seen));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state());
        self.shared.changes.send_modify(|count| *count += 1);
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if let Some(Running { stop, thread }) = self.running.take() {
            drop(stop);
            // A test that fails already has something better to say.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// The first request of each stream for a kind.
    #[must_use]
    pub fn openings(&self, kind: Kind) -> Vec<&DeltaDiscoveryRequest> {
        of_kind(&self.openings, kind).collect()
    }

    /// Names of a kind that were asked for, in order, each as often as it was.
    #[must_use]
    pub fn subscribed(&self, kind: Kind) -> Vec<&str> {
        let names =
            of_kind(&self.requests, kind).flat_map(|request| &request.resource_names_subscribe);
        names.map(String::as_str).collect()
    }

    /// Responses of a kind that are in use.
    #[must_use]
    pub fn accepted(&self, kind: Kind) -> usize {
        of_kind(&self.requests, kind)
            .filter(|request| is_answer(request) && request.error_detail.is_none())
            .count()
    }

    /// Why responses of a kind were refused.
    #[must_use]
    pub fn refusals(&self, kind: Kind) -> Vec<&str> {
        let details =
            of_kind(&self.requests, kind).filter_map(|request| request.error_detail.as_ref());
        details.map(|detail| detail.message.as_str()).collect()
    }

    /// How often a resource was sent.
    #[must_use]
    pub fn sent(&self, kind: Kind, name: &str) -> usize {
        let same = |(other, sent): &&(Kind, String)| *other == kind && sent == name;
        self.sent.iter().filter(same).count()
    }
}

fn of_kind(
    requests: &[DeltaDiscoveryRequest],
    kind: Kind,
) -> impl Iterator<Item = &DeltaDiscoveryRequest> {
    let requests = requests.iter();
    requests.filter(move |request| request.type_url == kind.type_url())
}

fn is_answer(request: &DeltaDiscoveryRequest) -> bool {
    !request.response_nonce.is_empty()
}

/// A listener as it travels.
#[must_use]
pub fn parts_of_listener(listener: &Listener) -> Vec<Resource> {
    let routes = Resource::Routes {
        listener: listener.name.clone(),
        routes: listener.routes.clone(),
    };
    let apart = xds::listener::has_routes(listener).then_some(routes);
    let listener = Resource::Listener(listener.clone());
    apart.into_iter().chain([listener]).collect()
}

/// A cluster as it travels.
#[must_use]
pub fn parts_of_cluster(cluster: &Cluster) -> Vec<Resource> {
    let endpoints = Resource::Endpoints {
        cluster: cluster.name.clone(),
        endpoints: cluster.endpoints.clone(),
    };
    let apart = (cluster.discovery != Discovery::Static).then_some(endpoints);
    let cluster = Resource::Cluster(cluster.clone());
    apart.into_iter().chain([cluster]).collect()
}
