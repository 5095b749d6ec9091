//! The only assembly: sources, authority, push, port, pages. `run` joins them and is called by
//! `main`. One thread does it all; only the signing of certificates is done by another.

mod live;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use identity::SpiffeId;
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::process::{getrlimit, set_dumpable_behavior, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep_until, timeout};

use crate::admin::{self, Desk, Surface};
use crate::ads::{Ads, Proxies};
use crate::authority::{Authority, Directory, ROOTS_FILE, Settings};
use crate::kinds::WorkloadKey;
use crate::metrics::Metrics;
use crate::operator::{self, Order, Question, Reading, Socket};
use crate::options::Options;
use crate::push::{Applied, Catalogue, Debounce, Push};
use crate::serve::{Front, Limits, Places, Server};
use crate::sign::Signer;
use crate::{log, options};
use live::Live;

/// How often the authority does what is due.
const TICK: Duration = Duration::from_secs(1);
/// What the operator's socket may want done at once; more wait.
const ORDERS_MAX: usize = 64;
/// What an orderly end may take longer than its connections before the process ends anyway.
const DRAIN_SLACK: Duration = Duration::from_secs(1);

/// Runs the control plane until it is told to end.
///
/// # Errors
/// When the sources, the state directory or an address cannot be used.
pub fn run(options: &Options) -> anyhow::Result<()> {
    // Keys are in this memory. Where it cannot be protected, nothing else is lost.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        log::warn("memory_is_readable", &[("reason", &error)]);
    }
    raise_descriptors();
    // The authority signs for one at a time; more threads that wait for it would only hold memory.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut plane = Plane::open(options)?;
        let port = Port::open(options, &plane).await?;
        plane.run(port).await
    })
}

/// Takes all descriptors that may be had: shells and supervisors start programs with 1,024 for the
/// sake of `select`, which nothing here uses.
fn raise_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, all) {
        log::warn("few_descriptors", &[("reason", &error)]);
    }
}

/// Everything that decides what sidecars are told.
struct Plane {
    live: Live,
    push: Push,
    authority: Arc<Authority>,
    front: watch::Sender<Arc<Front>>,
    server: Server,
    desk: Arc<Desk>,
}

/// Everything that is open to the outside.
struct Port {
    tasks: JoinSet<()>,
    closing: watch::Sender<bool>,
    signals: [Signal; 3],
    /// What the operator's socket wants done.
    orders: mpsc::Receiver<Order>,
}

impl Plane {
    /// Reads the sources, opens the authority, and has everything ready to be told.
    fn open(options: &Options) -> anyhow::Result<Self> {
        let settings = Settings {
            ca: options.ca.clone(),
            leaf_ttl: options.leaf_ttl,
            ..Settings::default()
        };
        let mut live = Live::open(options.source.clone())?;
        let now = SystemTime::now();
        let authority = Authority::open(&options.state, live.trust_domain(), settings, now);
        let authority = Arc::new(authority.context("the authority cannot be opened")?);
        live.begin(&options.state)?;
        let front = Arc::new(Front::new(authority.own_credentials(now)?)?);
        let (push, catalogue) = Push::new(Instant::now());
        let (front, fronting) = watch::channel(front);
        let server = server(&authority, catalogue, fronting);
        let desk = desk(&authority, &server);
        let mut plane = Self {
            live,
            push,
            authority,
            front,
            server,
            desk,
        };
        plane.apply(Instant::now());
        plane.apply_bundle();
        Ok(plane)
    }

    /// Until a signal says otherwise.
    async fn run(&mut self, mut port: Port) -> anyhow::Result<()> {
        let mut bundle = self.authority.watch();
        let mut debounce = Debounce::default();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let [mut terminate, mut interrupt, mut hang_up] = port.signals;
        let mut orders = Vec::new();
        self.desk.ready.store(true, Ordering::Release);
        loop {
            let due = debounce.due();
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hang_up.recv() => debounce.on_change(Instant::now()),
                () = self.live.changed() => debounce.on_change(Instant::now()),
                () = until(due), if due.is_some() => {
                    self.push_waiting(&mut debounce);
                }
                1.. = port.orders.recv_many(&mut orders, ORDERS_MAX) => {
                    self.obey(&mut orders, &mut debounce);
                }
                Ok(()) = bundle.changed() => self.apply_bundle(),
                _ = tick.tick() => self.tend(),
                Some(_) = port.tasks.join_next() => {}
            }
        }
        self.desk.ready.store(false, Ordering::Release);
        log::info("closing", &[]);
        // Whoever waits for an answer learns that there will be none.
        drop(port.orders);
        port.closing.send_replace(true);
        let drain = self.server.limits.drain + DRAIN_SLACK;
        let drained = async { while port.tasks.join_next().await.is_some() {} };
        // What takes longer is cut off.
        let _ = timeout(drain, drained).await;
        Ok(())
    }

    /// Does what the operator's socket wants done. One reading is for all who ask for one.
    fn obey(&mut self, orders: &mut Vec<Order>, debounce: &mut Debounce) {
        if orders.iter().any(|order| matches!(order, Order::Read(_))) {
            self.push_waiting(debounce);
        }
        for order in orders.drain(..) {
            // Whoever asked may have gone.
            match order {
                Order::Read(reply) => drop(reply.send(Reading {
                    generation: self.push.catalogue().generation,
                    faults: self.desk.faults(),
                })),
                Order::Explain(question, reply) => {
                    let Question {
                        source,
                        destination,
                    } = &question;
                    drop(reply.send(self.live.index().explain(source, destination)));
                }
            }
        }
    }

    /// Reads what has changed, and publishes it.
    fn push_waiting(&mut self, debounce: &mut Debounce) {
        let now = Instant::now();
        self.read(debounce.on_push(now).unwrap_or(now));
        debounce.on_pushed(Instant::now());
    }

    /// Something may have changed at `since`.
    fn read(&mut self, since: Instant) {
        let metrics = &self.server.metrics;
        metrics.reads.increment();
        match self.live.read() {
            Ok(()) => {
                self.desk.set_faults(String::new());
                self.apply(since);
            }
            Err(error) => {
                metrics.read_failures.increment();
                let reason = format!("{error:#}");
                log::error("sources_wrong", &[("reason", &reason)]);
                self.desk.set_faults(reason);
                // Where Workloads live may have been followed.
                self.apply(since);
            }
        }
    }

    fn apply(&mut self, since: Instant) {
        let passed = self.passed();
        let applied = self.push.apply(self.live.mesh(), passed, since);
        self.report(&applied, since);
        self.revoke();
    }

    fn apply_bundle(&mut self) {
        // The number first: a bundle that changes in between is told again under its own.
        let number = *self.authority.watch().borrow();
        let (bundle, roots) = (self.authority.bundle(), self.authority.roots());
        let applied = self
            .push
            .apply_bundle((&bundle, &roots), number, self.passed());
        self.report(&applied, Instant::now());
        self.renew();
    }

    /// Does what the authority has to do from time to time.
    fn tend(&mut self) {
        self.live.tend(Instant::now());
        let now = SystemTime::now();
        let has = self.server.ads.proxies.bundle(&self.authority.enrolled());
        if let Err(error) = self.authority.advance(now, has) {
            log::error("authority_fails", &[("reason", &error)]);
        }
        self.renew();
    }

    /// Takes on other credentials of our own, if there are any.
    fn renew(&self) {
        let renewed = self.authority.own_credentials(SystemTime::now());
        let renewed = renewed
            .map_err(anyhow::Error::from)
            .and_then(|credentials| {
                let is_same = Arc::ptr_eq(&credentials, self.front.borrow().credentials());
                Ok((!is_same).then(|| Front::new(credentials)).transpose()?)
            });
        match renewed {
            Ok(Some(front)) => {
                self.front.send_replace(Arc::new(front));
            }
            Ok(None) => {}
            Err(error) => log::error("renewal_fails", &[("reason", &format!("{error:#}"))]),
        }
    }

    /// Takes back the certificates of instances that have left the mesh, or changed identity. One
    /// whose Workload is gone but which is still listed is about to end: it is told nothing and
    /// given nothing any more, but what it has under way may end with what it has.
    fn revoke(&self) {
        let mesh = self.live.mesh();
        let is_here = |instance: &WorkloadKey| {
            mesh.workloads.contains_key(instance) || self.live.is_listed(instance)
        };
        self.server.ads.proxies.retain(is_here);
        let keeps = |instance: &WorkloadKey, id: &str| match mesh.workloads.get(instance) {
            Some(parts) => parts.identity == id,
            None => self.live.is_listed(instance),
        };
        match self.authority.reconcile(&keeps, SystemTime::now()) {
            Ok(revoked) => revoked
                .iter()
                .for_each(|workload| log::info("workload_removed", &[("workload", workload)])),
            Err(error) => log::error("authority_fails", &[("reason", &error)]),
        }
    }

    fn report(&self, applied: &Applied, since: Instant) {
        let metrics = &self.server.metrics;
        for fault in &applied.faults {
            metrics.encode_failures.increment();
            log::error("cannot_be_told", &[("reason", fault)]);
        }
        if applied.changes > 0 {
            metrics.pushes.increment();
            metrics.translation.observe(since.elapsed());
            let generation = self.push.catalogue().generation;
            log::info(
                "published",
                &[("generation", &generation), ("changes", &applied.changes)],
            );
        }
    }

    /// The generation that every stream has seen.
    fn passed(&self) -> u64 {
        let newest = self.push.catalogue().generation;
        self.server.ads.proxies.passed().unwrap_or(newest)
    }
}

fn server(
    authority: &Arc<Authority>,
    catalogue: watch::Receiver<Arc<Catalogue>>,
    front: watch::Receiver<Arc<Front>>,
) -> Server {
    let metrics = Arc::new(Metrics::default());
    let limits = Limits::default();
    Server {
        front,
        signer: Signer::new(Arc::clone(authority), directory(catalogue.clone())),
        ads: Ads {
            catalogue,
            holders: Arc::clone(authority.holders()),
            proxies: Arc::new(Proxies::default()),
            metrics: Arc::clone(&metrics),
        },
        metrics,
        places: Arc::new(Places::new(&limits)),
        limits,
    }
}

/// Which identity a workload has, by what was published last.
fn directory(catalogue: watch::Receiver<Arc<Catalogue>>) -> Directory {
    Arc::new(move |workload| -> Option<SpiffeId> {
        let catalogue = Arc::clone(&catalogue.borrow());
        catalogue.workload(workload)?.identity.parse().ok()
    })
}

fn desk(authority: &Arc<Authority>, server: &Server) -> Arc<Desk> {
    Arc::new(Desk {
        catalogue: server.ads.catalogue.clone(),
        proxies: Arc::clone(&server.ads.proxies),
        authority: Arc::clone(authority),
        front: server.front.clone(),
        metrics: Arc::clone(&server.metrics),
        places: Arc::clone(&server.places),
        ready: false.into(),
        faults: Mutex::default(),
    })
}

impl Port {
    /// Binds everything, begins to serve, and says where.
    async fn open(options: &Options, plane: &Plane) -> anyhow::Result<Self> {
        let signals = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
        ];
        let [terminate, interrupt, hang_up] = signals.map(signal);
        let (closing, closed) = watch::channel(false);
        let (orders, ordered) = mpsc::channel(ORDERS_MAX);
        let mut port = Self {
            tasks: JoinSet::new(),
            closing,
            signals: [terminate?, interrupt?, hang_up?],
            orders: ordered,
        };
        let mut xds = Vec::new();
        for address in &options.listen {
            let listener = bind(*address).await?;
            xds.push(listener.local_addr()?);
            port.tasks
                .spawn(plane.server.clone().run(listener, closed.clone()));
        }
        let admin = port.pages(options.admin, plane, Surface::Admin).await?;
        let metrics = port.pages(options.metrics, plane, Surface::Metrics).await?;
        let operator = operator::path(&options.state);
        let desk = operator::Desk {
            authority: Arc::clone(&plane.authority),
            directory: directory(plane.server.ads.catalogue.clone()),
            proxies: Arc::clone(&plane.server.ads.proxies),
            orders,
        };
        port.operator(&operator, desk, closed)?;
        let line = serde_json::json!({
            "event": "ready",
            "pid": std::process::id(),
            "xds": xds[0],
            "listeners": xds,
            "admin": admin,
            "metrics": metrics,
            "operator": operator,
            "root": options.state.join(ROOTS_FILE),
        });
        writeln!(io::stdout(), "{line}").context("standard output cannot be written")?;
        Ok(port)
    }

    async fn pages(
        &self,
        address: options::Surface,
        plane: &Plane,
        surface: Surface,
    ) -> anyhow::Result<Option<SocketAddr>> {
        let Some(address) = address.0 else {
            return Ok(None);
        };
        let listener = bind(address).await?;
        let bound = listener.local_addr()?;
        // Not among the tasks: pages are served to the end, and nobody waits for them.
        tokio::spawn(admin::serve(listener, Arc::clone(&plane.desk), surface));
        Ok(Some(bound))
    }

    fn operator(
        &mut self,
        path: &Path,
        desk: operator::Desk,
        mut closed: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let socket = Socket::bind(path);
        let socket = socket.with_context(|| format!("{} cannot be bound", path.display()))?;
        let ended = async move {
            // Nobody left to say so is an end, too.
            let _ = closed.wait_for(|closed| *closed).await;
        };
        self.tasks.spawn(async move {
            if let Err(error) = socket.run(desk, ended).await {
                log::error("operator_fails", &[("reason", &error)]);
            }
        });
        Ok(())
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("{address} cannot be bound; choose another address"))
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
