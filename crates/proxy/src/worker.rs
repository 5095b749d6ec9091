//! One thread of the data plane: its reactor, buffers, pools, counters and view of the mesh.
//! Workers share nothing on the path of a request; the quiet thread speaks to them by message.

use crate::buffer;
use crate::connection;
use crate::exchange::Exchange;
use crate::heap;
use crate::http2::Desk;
use crate::listener::{self, Listening};
use crate::pool::EndpointState;
use crate::rate::Rate;
use crate::snapshot::{ALPN, Endpoint, Snapshot};
use crate::telemetry::access_log::Sender as LogSender;
use crate::telemetry::metrics::{Recorder, Registry, Side};
use crate::tls::handshake::{Failure, Proven};
use identity::{HandshakeFailure, SpiffeId};
use model::Direction;
use rt::{Detached, Mailbox, Reactor, Sender, TaskId, Tcp};
use rustls::pki_types::CertificateDer;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc::UnboundedSender;

/// Requests' storage that a worker keeps for the next ones.
const EXCHANGES_KEPT: usize = 64;
/// Idle connections are looked through at most this often for age.
const JANITOR_PERIOD_MIN: Duration = Duration::from_millis(100);
/// How often a drain looks whether anybody is there, at most.
const DRAIN_STEP_MIN: Duration = Duration::from_millis(10);

/// What the quiet thread and the accepting worker say to a worker.
pub(crate) enum Message {
    Accepted(Accepted),
    /// A listening socket to accept from (the accepting worker only).
    Listen(Socket),
    /// Accept what is queued, then close.
    Unlisten(Arc<str>),
    Snapshot(Arc<Snapshot>),
    /// Give memory back to the kernel.
    Trim,
    /// Finish what runs, tell everybody to go, end after that time at the latest. For the accepting
    /// worker, which tells the others once it gives them nothing more.
    Drain(Duration),
}

/// A connection that has come in.
pub(crate) struct Accepted {
    pub(crate) fd: OwnedFd,
    pub(crate) peer: SocketAddr,
    pub(crate) listener: Arc<str>,
    pub(crate) place: usize,
    pub(crate) direction: Direction,
    pub(crate) open: Open,
}

/// A bound, listening socket.
pub(crate) struct Socket {
    pub(crate) fd: OwnedFd,
    pub(crate) name: Arc<str>,
    /// Its place in the configuration.
    pub(crate) place: usize,
    pub(crate) direction: Direction,
    /// Somebody else has it, too, and goes on with what is queued.
    pub(crate) is_kept: bool,
}

/// Counts a connection as its worker's, and as open, while it lives.
pub(crate) struct Open(Arc<Vec<Seat>>, usize);

impl Drop for Open {
    fn drop(&mut self) {
        self.0[self.1].connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A worker as the others see it.
pub(crate) struct Seat {
    pub(crate) sender: Sender<Message>,
    /// Downstream connections it serves.
    pub(crate) connections: AtomicU32,
    /// Of the snapshot it works with.
    pub(crate) generation: AtomicU64,
}

/// What a worker is made of; sent to its thread.
pub(crate) struct Plan {
    pub(crate) id: usize,
    /// Where listeners are named whose destinations have to be found out.
    pub(crate) wants: UnboundedSender<Arc<str>>,
    pub(crate) mailbox: Detached<Message>,
    pub(crate) seats: Arc<Vec<Seat>>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) access_log: Option<LogSender>,
}

pub(crate) struct Worker {
    id: usize,
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) buffers: Rc<buffer::Pool>,
    pub(crate) recorder: Recorder,
    pub(crate) access_log: Option<LogSender>,
    view: RefCell<Rc<View>>,
    #[expect(
        clippy::vec_box,
        reason = "lent as boxes: the futures that hold one stay small"
    )]
    exchanges: RefCell<Vec<Box<Exchange>>>,
    seats: Arc<Vec<Seat>>,
    /// By listener; each may have several addresses.
    listening: RefCell<HashMap<Arc<str>, Vec<Rc<Listening>>>>,
    /// Of connections that this worker accepts, for itself and for others.
    arrivals: Rate,
    random: Cell<u64>,
    wants: UnboundedSender<Arc<str>>,
    /// Connections that wait for the next snapshot.
    awaiting_snapshot: RefCell<Vec<TaskId>>,
    /// Tasks that have served a request over HTTP/2 and wait for another.
    desks: RefCell<Vec<Rc<Desk>>>,
    /// Bytes of bodies held for receivers that are slower than their senders.
    held_bytes: Cell<usize>,
    draining: Cell<bool>,
    /// Connections without a request are to go now.
    closing_idle: Cell<bool>,
    /// All are to go now.
    ending: Cell<bool>,
    /// The task that looks after idle upstream connections, and whether its clock runs.
    janitor: Cell<Option<TaskId>>,
    janitor_waits: Cell<bool>,
}

/// The snapshot with what this worker knows of its endpoints.
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    /// In the order of the snapshot's clusters.
    pub(crate) clusters: Vec<ClusterState>,
}

pub(crate) struct ClusterState {
    pub(crate) endpoints: Vec<Rc<EndpointState>>,
    /// Somebody there spoke before being spoken to: connections are passed on without waiting.
    pub(crate) server_first: Cell<bool>,
    turn: Cell<usize>,
}

impl ClusterState {
    /// A number that grows with each call.
    pub(crate) fn next_turn(&self) -> usize {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        turn
    }
}

impl View {
    /// Carries over what is known of endpoints that stay.
    fn build(snapshot: Arc<Snapshot>, previous: Option<&Self>) -> Self {
        let mut known: HashMap<SocketAddr, Vec<&Rc<EndpointState>>> = HashMap::new();
        let old = previous.into_iter().flat_map(|view| &view.clusters);
        for state in old.flat_map(|cluster| &cluster.endpoints) {
            known.entry(state.endpoint.address).or_default().push(state);
        }
        let state = |endpoint: &Arc<Endpoint>| {
            let same = known.get(&endpoint.address).and_then(|states| {
                states
                    .iter()
                    .find(|state| state.endpoint.is_same(endpoint))
                    .copied()
            });
            let successor = || {
                // Who is trusted no more is not asked once more.
                let old = previous.filter(|old| snapshot.trusts_as(&old.snapshot));
                old?;
                let states = known.get(&endpoint.address)?;
                let old = states.iter().find(|old| endpoint.succeeds(&old.endpoint))?;
                Some(EndpointState::succeed(endpoint, old))
            };
            same.map(Rc::clone)
                .or_else(successor)
                .unwrap_or_else(|| EndpointState::new(endpoint))
        };
        let clusters = snapshot.clusters.iter().map(|cluster| ClusterState {
            endpoints: cluster.endpoints.iter().map(state).collect(),
            server_first: Cell::new(false),
            turn: Cell::new(0),
        });
        let clusters = clusters.collect();
        Self { snapshot, clusters }
    }
}

/// How much a worker holds for slow receivers, measured by `bufferBytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    Little,
    /// Over the limit: senders are not asked for more.
    Much,
    /// Twice the limit, which senders may still fill on their own: slow streams are given up.
    TooMuch,
    /// Four times the limit: any that sends is given up.
    Full,
}

impl View {
    /// What was known of `old` endpoints that are not here is not needed any more, however long the
    /// last request that began with them lasts.
    fn put_aside(&self, old: &Self) {
        let all = self.clusters.iter().flat_map(|cluster| &cluster.endpoints);
        let all: HashSet<_> = all.map(Rc::as_ptr).collect();
        let here = |state: &Rc<EndpointState>| all.contains(&Rc::as_ptr(state));
        let gone = old.clusters.iter().flat_map(|cluster| &cluster.endpoints);
        gone.filter(|state| !here(state))
            .for_each(|state| state.put_aside());
    }
}

/// What a handshake proved of the peer.
pub(crate) struct Proof {
    pub(crate) id: SpiffeId,
    /// The protocol that follows.
    pub(crate) alpn: Vec<u8>,
    /// How long both certificates are valid still.
    pub(crate) lifetime: Duration,
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

impl Proof {
    /// When one of the certificates ends, in ms of a clock that shows `now_ms`.
    pub(crate) fn expires_ms(&self, now_ms: u64) -> u64 {
        let left = u64::try_from(self.lifetime.as_millis()).unwrap_or(u64::MAX);
        now_ms.saturating_add(left)
    }
}

/// Who a finished handshake was with. A resumed one presented no certificate: the chain of the
/// first handshake is verified again, against what is trusted and valid now.
fn check(
    view: &View,
    proven: Proven,
    side: identity::tls::Side<'_>,
) -> Result<Proof, HandshakeFailure> {
    identity::tls::check_alpn(proven.alpn.as_deref(), ALPN)?;
    let identity = view.snapshot.identity.as_ref();
    let credentials = &identity.ok_or(HandshakeFailure::Other)?.credentials;
    let id = match proven.resumed {
        true => identity::tls::recheck(&proven.chain, credentials, side)
            .map_err(|error| identity::failure::classify(&error))?,
        false => identity::tls::peer_id(&proven.chain).map_err(|_| HandshakeFailure::NoSpiffeId)?,
    };
    let lifetime = identity::tls::lifetime(&proven.chain, credentials, SystemTime::now());
    let lifetime = lifetime.map_err(|_| HandshakeFailure::NoSpiffeId)?;
    if lifetime.is_zero() {
        return Err(HandshakeFailure::Expired);
    }
    Ok(Proof {
        id,
        alpn: proven.alpn.unwrap_or_default(),
        lifetime,
        chain: proven.chain,
    })
}

/// Runs a worker on the calling thread until it is drained.
///
/// # Errors
/// When the kernel gives no epoll instance.
pub(crate) fn run(plan: Plan) -> io::Result<()> {
    let reactor = Reactor::new()?;
    let (worker, mailbox) = Worker::new(plan, &reactor)?;
    worker
        .janitor
        .set(Some(reactor.spawn(look_after_idle(Rc::clone(&worker)))));
    reactor.spawn(listen_to(Rc::clone(&worker), mailbox));
    reactor.run()
}

/// Does what the messages say.
async fn listen_to(worker: Rc<Worker>, mailbox: Mailbox<Message>) {
    loop {
        match mailbox.receive().await {
            Message::Accepted(accepted) => worker.serve(accepted),
            Message::Listen(socket) => worker.listen(socket),
            Message::Unlisten(name) => worker.unlisten(&name),
            Message::Snapshot(snapshot) => worker.apply(snapshot),
            Message::Trim => heap::trim_end(),
            Message::Drain(limit) => {
                worker.reactor.spawn(drain(Rc::clone(&worker), limit));
            }
        }
    }
}

/// Tells connections to go: at once those that answer a request, after half of the time those
/// that have none, in the end all.
async fn drain(worker: Rc<Worker>, limit: Duration) {
    const STEPS: u32 = 20;
    worker.draining.set(true);
    // Shared connections tell their peers to begin nothing more.
    worker.reactor.wake_all();
    let names: Vec<_> = worker.listening.borrow().keys().cloned().collect();
    names.iter().for_each(|name| worker.unlisten(name));
    if worker.id == 0 {
        let others = worker.seats.iter().skip(1);
        others.for_each(|seat| seat.sender.send(Message::Drain(limit)));
    }
    // What was queued is accepted before we look whether anybody is there.
    worker.reactor.yield_now().await;
    let usual = worker.view().snapshot.config.limits.drain_timeout;
    let step = (usual.min(limit) / STEPS).max(DRAIN_STEP_MIN);
    let mut passed = Duration::ZERO;
    while passed < limit && worker.seats[worker.id].connections.load(Ordering::Relaxed) > 0 {
        if passed >= limit / 2 && !worker.closing_idle.replace(true) {
            worker.reactor.wake_all();
        }
        worker.reactor.sleep(step.min(limit - passed)).await;
        passed += step;
    }
    // Those that last until somebody ends them have one turn to say that it is us.
    worker.ending.set(true);
    worker.reactor.wake_all();
    worker.reactor.yield_now().await;
    worker.reactor.stop();
}

/// Sweeps the pools whenever something happened on an idle connection, and now and then.
async fn look_after_idle(worker: Rc<Worker>) {
    let mut due_ms = 0;
    poll_fn(|_| {
        let limit = worker.view().snapshot.config.limits.pool_idle_timeout;
        let left = worker.sweep_idle(limit);
        let now_ms = worker.reactor.now_ms();
        if due_ms <= now_ms {
            worker.janitor_waits.set(left > 0);
        }
        if left > 0 && due_ms <= now_ms {
            let period = (limit / 4).max(JANITOR_PERIOD_MIN);
            due_ms = now_ms + u64::try_from(period.as_millis()).unwrap_or(u64::MAX / 2);
            worker.reactor.wake_after(period);
        }
        Poll::<()>::Pending
    })
    .await;
}

impl Worker {
    fn new(plan: Plan, reactor: &Rc<Reactor>) -> io::Result<(Rc<Self>, Mailbox<Message>)> {
        let mailbox = plan.mailbox.attach(reactor)?;
        let worker = Self {
            id: plan.id,
            reactor: Rc::clone(reactor),
            buffers: Rc::default(),
            recorder: plan.registry.worker(),
            access_log: plan.access_log,
            view: RefCell::new(Rc::new(View::build(plan.snapshot, None))),
            exchanges: RefCell::default(),
            seats: plan.seats,
            listening: RefCell::default(),
            arrivals: Rate::default(),
            random: Cell::new(crate::random::seed()),
            wants: plan.wants,
            awaiting_snapshot: RefCell::default(),
            desks: RefCell::default(),
            held_bytes: Cell::new(0),
            draining: Cell::new(false),
            closing_idle: Cell::new(false),
            ending: Cell::new(false),
            janitor: Cell::new(None),
            janitor_waits: Cell::new(false),
        };
        Ok((Rc::new(worker), mailbox))
    }

    /// The mesh as this worker sees it now.
    pub(crate) fn view(&self) -> Rc<View> {
        Rc::clone(&self.view.borrow())
    }

    /// Asks the quiet thread to find out where the destinations of a listener are.
    pub(crate) fn want(&self, listener: &Arc<str>) {
        // It is gone only when everything ends.
        let _ = self.wants.send(Arc::clone(listener));
    }

    /// Has the running task woken when there is another view.
    pub(crate) fn await_snapshot(&self) {
        let task = self.reactor.current();
        self.awaiting_snapshot.borrow_mut().push(task);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    pub(crate) fn is_closing_idle(&self) -> bool {
        self.closing_idle.get()
    }

    /// Whether the drain's time is over.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.get()
    }

    /// Storage for one request.
    pub(crate) fn lend_exchange(&self) -> Box<Exchange> {
        self.exchanges.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_back_exchange(&self, mut exchange: Box<Exchange>) {
        exchange.clear();
        let mut kept = self.exchanges.borrow_mut();
        if kept.len() < EXCHANGES_KEPT {
            kept.push(exchange);
        }
    }

    /// Which worker this is, of how many.
    pub(crate) fn place(&self) -> (u16, u16) {
        let short = |count| u16::try_from(count).unwrap_or(u16::MAX);
        (short(self.id), short(self.seats.len()))
    }

    /// A task that waits for a request.
    pub(crate) fn lend_desk(&self) -> Option<Rc<Desk>> {
        self.desks.borrow_mut().pop()
    }

    /// Lets a task wait for its next request, unless `kept` do so already.
    pub(crate) fn keep_desk(&self, desk: &Rc<Desk>, kept: usize) -> bool {
        let mut desks = self.desks.borrow_mut();
        if desks.len() < kept {
            desks.push(Rc::clone(desk));
            return true;
        }
        false
    }

    /// Counts bytes that are held for a slow receiver.
    pub(crate) fn hold_bytes(&self, count: usize) -> Holding {
        let held = self.held_bytes.get() + count;
        self.held_bytes.set(held);
        let limit = self.view.borrow().snapshot.config.limits.buffer_bytes;
        match held {
            held if held <= limit => Holding::Little,
            held if held / 2 <= limit => Holding::Much,
            held if held / 4 <= limit => Holding::TooMuch,
            _ => Holding::Full,
        }
    }

    /// Whether slow receivers hold so much that nothing new is to begin.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.held_bytes.get() > self.view.borrow().snapshot.config.limits.buffer_bytes
    }

    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes.get()
    }

    pub(crate) fn release_bytes(&self, count: usize) {
        self.held_bytes.set(self.held_bytes.get() - count);
    }

    /// Not for secrets.
    pub(crate) fn random(&self) -> u64 {
        crate::random::next(&self.random)
    }

    /// Lets the janitor know when something happens on an idle upstream connection. The first one
    /// also starts its clock.
    pub(crate) fn watch_idle(&self, tcp: &Tcp) {
        let Some(janitor) = self.janitor.get() else {
            return;
        };
        tcp.own_by(janitor);
        if !self.janitor_waits.replace(true) {
            self.reactor.wake(janitor);
        }
    }

    /// Drops idle upstream connections that ended or grew old; returns how many are left.
    fn sweep_idle(&self, limit: Duration) -> usize {
        let view = self.view();
        let mut left = 0;
        for state in view.clusters.iter().flat_map(|cluster| &cluster.endpoints) {
            state.sweep(self.reactor.now_ms(), limit);
            left += state.idle_count();
        }
        left
    }

    /// What a handshake proved: the peer's identity, checked anew where a session was resumed.
    /// Counts it.
    pub(crate) fn prove(
        &self,
        view: &View,
        proven: Result<Proven, Failure>,
        side: identity::tls::Side<'_>,
    ) -> Result<Proof, HandshakeFailure> {
        let place = match side {
            identity::tls::Side::Downstream => Side::Downstream,
            identity::tls::Side::Upstream(_) => Side::Upstream,
        };
        let counters = self.recorder.connections();
        let checked = proven
            .map_err(|failure| failure.classify())
            .and_then(|proven| {
                let resumed = proven.resumed;
                check(view, proven, side).map(|proof| (proof, resumed))
            });
        match checked {
            Ok((proof, resumed)) => {
                counters.handshake(place, resumed);
                Ok(proof)
            }
            Err(failure) => {
                counters.handshake_failed(place, failure);
                Err(failure)
            }
        }
    }

    fn listen(self: &Rc<Self>, socket: Socket) {
        let name = Arc::clone(&socket.name);
        match Listening::adopt(&self.reactor, socket) {
            Ok(listening) => {
                let listening = Rc::new(listening);
                let mut all = self.listening.borrow_mut();
                all.entry(name).or_default().push(Rc::clone(&listening));
                let task = listener::run(Rc::clone(self), Rc::clone(&listening));
                listening.task.set(Some(self.reactor.spawn(task)));
            }
            Err(error) => crate::log::error(format_args!("listener {name}: {error}")),
        }
    }

    fn unlisten(&self, name: &Arc<str>) {
        let gone = self.listening.borrow_mut().remove(name);
        for listening in gone.into_iter().flatten() {
            listening.closing.set(true);
            listening
                .task
                .get()
                .into_iter()
                .for_each(|task| self.reactor.wake(task));
        }
    }

    fn apply(&self, snapshot: Arc<Snapshot>) {
        let old = self.view();
        let next = View::build(snapshot, Some(&old));
        next.put_aside(&old);
        let trusts = next.snapshot.trusts_as(&old.snapshot);
        self.seats[self.id]
            .generation
            .store(next.snapshot.generation, Ordering::Release);
        *self.view.borrow_mut() = Rc::new(next);
        for task in self.awaiting_snapshot.take() {
            self.reactor.wake(task);
        }
        if !trusts {
            // Connections whose peers are trusted no more look after themselves.
            self.reactor.wake_all();
        }
    }

    /// Gives a new connection to the worker with the fewest, perhaps to ourselves.
    pub(crate) fn assign(self: &Rc<Self>, listening: &Listening, fd: OwnedFd, peer: SocketAddr) {
        let load = |seat: &Seat| seat.connections.load(Ordering::Relaxed);
        let view = self.view();
        let limits = &view.snapshot.config.limits;
        let open: usize = self.seats.iter().map(|seat| load(seat) as usize).sum();
        let rate = (limits.connection_rate * self.seats.len()) as u64;
        if open >= limits.connections || !self.arrivals.admits(rate, self.reactor.now_ms()) {
            self.recorder.connections().rejected(listening.direction);
            return;
        }
        let least = self
            .seats
            .iter()
            .enumerate()
            .min_by_key(|(_, seat)| load(seat));
        let (to, seat) = match self.is_draining() {
            // The others may have ended already.
            true => (self.id, &self.seats[self.id]),
            false => least.expect("there is at least one worker"),
        };
        seat.connections.fetch_add(1, Ordering::Relaxed);
        let open = Open(Arc::clone(&self.seats), to);
        let (listener, place) = (Arc::clone(&listening.name), listening.place);
        let direction = listening.direction;
        let accepted = Accepted {
            fd,
            peer,
            listener,
            place,
            direction,
            open,
        };
        if to == self.id {
            self.serve(accepted);
        } else {
            seat.sender.send(Message::Accepted(accepted));
        }
    }

    fn serve(self: &Rc<Self>, accepted: Accepted) {
        if let Some(connection) = connection::serve(Rc::clone(self), accepted) {
            self.reactor.spawn(connection);
        }
    }
}

#[cfg(test)]
pub(crate) mod simulation;
