//! One HTTP/2 connection as its driver and its streams share it: the codec, what arrived for each
//! stream, who waits for what. Never reads or writes the socket but in `drive`.

use crate::stream::Stream;
use crate::worker::{Holding, Worker};
use rt::TaskId;
use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::rc::Rc;
use std::time::Duration;
use wire::h2::{Code, Config, Connection, Dialect, Key};
use wire::http1::ResponseHead;

/// Frames that may wait to be written before streams have to wait with their bodies: a record's
/// worth several times over, and little enough that a small answer is not long behind a large one.
pub(super) const OUTPUT_MAX: usize = 64 * 1024;
/// Bytes that the kernel may hold unsent: as many again.
const UNSENT_MAX: u32 = 64 * 1024;
/// A stream's storage keeps room of this size for the next stream; more is given back.
const KEPT_BYTES: usize = 4 * 1024;

/// What a peer may send ahead on a stream at first, and to a reader that keeps up: 100 MB/s at a
/// round trip of 10 ms.
pub(super) const WINDOW: u32 = 64 * 1024;
const WINDOW_MAX: u32 = 1024 * 1024;
/// What a connection may hold for its readers in any case, however much the others do.
const SHARE_BYTES: usize = 16 * 1024;
/// What a request counts as held beside its head: less than its task and storage take, so that
/// `bufferBytes` bounds the requests of a worker as well (16,384 by default) without being the
/// first limit that anybody meets.
const REQUEST_BYTES: usize = 2048;
/// How long a reader may leave bytes lying before it counts as one that is slow.
pub(super) const STALE_MS: u64 = 1000;
/// Bytes held on one connection for which its window is shut, past which slow streams are given up
/// for the sake of the others: half of the window.
const OWED_MAX: usize = 512 * 1024;
/// From this round trip on a way counts as long: packets get lost there, and one connection is
/// given only so much of it (at 1 % loss about a dozen packets per round trip).
const FAR: Duration = Duration::from_millis(2);
/// Streams on one connection over a long way.
const STREAMS_FAR: usize = 16;
/// Storage of heads that a connection keeps for the next ones.
pub(super) const SPARE_HEADS: usize = 16;

/// How far a connection's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Streams come and go.
    Open,
    /// No further streams; it ends with the last.
    Retiring,
    /// Nothing goes through any more.
    Ended,
}

pub(crate) struct Mux {
    pub(crate) worker: Rc<Worker>,
    pub(super) stream: Stream,
    pub(super) dialect: Dialect,
    core: RefCell<Core>,
    pub(super) driver: Cell<TaskId>,
    life: Cell<Life>,
    /// Requests that it has begun to carry.
    pub(super) carried: Cell<u64>,
    /// Who wants to know when a stream ends or settings arrive: requests without a stream yet.
    queue: RefCell<BTreeSet<TaskId>>,
    /// When the peer's or our own certificate ends, in ms of the reactor's clock.
    pub(crate) expires_ms: u64,
    /// Another connection is to take its place: it is used until that one stands.
    aging: Cell<bool>,
    /// The peer is far enough away for lost packets to matter.
    far: Cell<bool>,
}

/// The codec with what belongs to its streams.
pub(super) struct Core {
    pub(super) wire: Connection,
    slots: Vec<Slot>,
    /// Streams that wait for the connection's window or for room in the output, in order.
    pub(super) blocked: VecDeque<Key>,
    /// Received bytes of bodies that nobody has taken yet.
    buffered: usize,
    /// Bytes of the heads of requests that are still served.
    heads: usize,
    /// Received bytes for which the connection's window has not been opened again.
    owed: usize,
    /// Storage of heads that were taken, for the next ones.
    pub(super) spare: Vec<(Vec<u8>, ResponseHead)>,
}

/// What has arrived for one stream and was not taken yet. Reused by the stream's successor.
pub(super) struct Slot {
    pub(super) task: TaskId,
    body: Vec<u8>,
    taken: usize,
    /// Bytes of the body for which the window was opened before they were taken.
    widened: usize,
    /// How far the peer may send ahead, and what was taken since that last changed.
    window: u32,
    since: usize,
    /// Since when there has been something to take.
    unread_ms: u64,
    pub(super) ended: bool,
    pub(super) trailers: Vec<u8>,
    /// Response heads; nearly always one.
    pub(super) heads: VecDeque<(Vec<u8>, ResponseHead)>,
    pub(super) lost: Option<io::ErrorKind>,
    /// Waits for room; its place in the queue of those.
    pub(super) is_blocked: bool,
    /// Bytes of its request's head, which count as held.
    head_bytes: usize,
    /// Whose it is, while somebody holds it.
    key: Option<Key>,
}

impl Slot {
    fn new() -> Self {
        Self {
            task: TaskId::NONE,
            body: Vec::new(),
            taken: 0,
            widened: 0,
            window: WINDOW,
            since: 0,
            unread_ms: 0,
            ended: false,
            trailers: Vec::new(),
            heads: VecDeque::new(),
            lost: None,
            is_blocked: false,
            head_bytes: 0,
            key: None,
        }
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body[self.taken..]
    }

    /// A reader that has taken a whole window and left nothing may be sent twice as much ahead; by
    /// how much more that is.
    fn enlarge(&mut self, taken: usize) -> Option<u32> {
        self.since += taken;
        let keeps_up = self.since >= self.window as usize && self.body.is_empty();
        if !keeps_up || self.window >= WINDOW_MAX {
            return None;
        }
        let by = self.window;
        (self.window, self.since) = (2 * by, 0);
        Some(by)
    }

    /// What was taken makes room first: the storage would otherwise grow to the whole body of a
    /// reader that never quite catches up.
    fn keep(&mut self, bytes: &[u8]) {
        if self.body.len() + bytes.len() > self.body.capacity() {
            self.body.drain(..self.taken);
            self.taken = 0;
        }
        self.body.extend_from_slice(bytes);
    }
}

impl Core {
    pub(super) fn slot(&mut self, key: Key) -> &mut Slot {
        &mut self.slots[key.index()]
    }

    /// A stream began; its storage is as good as new.
    pub(super) fn begin(&mut self, key: Key, task: TaskId) {
        while self.slots.len() <= key.index() {
            self.slots.push(Slot::new());
        }
        let slot = self.slot(key);
        debug_assert!(
            slot.key.is_none(),
            "a place is reused only after its release"
        );
        (slot.task, slot.key) = (task, Some(key));
    }

    /// A request's head, and what else a request costs, is held as long as its stream.
    pub(super) fn hold_head(&mut self, key: Key, bytes: usize, worker: &Worker) {
        let bytes = bytes + REQUEST_BYTES;
        self.slot(key).head_bytes = bytes;
        self.heads += bytes;
        worker.hold_bytes(bytes);
    }

    /// The slot of a stream that somebody still holds.
    pub(super) fn live(&mut self, key: Key) -> Option<&mut Slot> {
        self.slots
            .get_mut(key.index())
            .filter(|slot| slot.key.is_some())
    }

    /// Keeps a part of a body until it is taken; the connection's window opens again at once
    /// while `worker` holds little. `false`: it holds too much, and the stream has to go.
    pub(super) fn keep(&mut self, key: Key, bytes: &[u8], worker: &Worker) -> bool {
        match self.live(key) {
            Some(slot) => {
                if slot.body().is_empty() {
                    slot.unread_ms = worker.reactor.now_ms();
                }
                slot.keep(bytes);
            }
            None => {
                // Nobody is there to have it.
                self.wire.consumed_connection(bytes.len());
                return true;
            }
        }
        self.buffered += bytes.len();
        let holding = worker.hold_bytes(bytes.len());
        match holding {
            Holding::Little => self.wire.consumed_connection(bytes.len()),
            _ => self.owed += bytes.len(),
        }
        let late = self.slot(key).unread_ms + STALE_MS < worker.reactor.now_ms();
        match holding {
            Holding::Little | Holding::Much => true,
            // Those that made it so much are the ones to go.
            Holding::TooMuch => !late,
            Holding::Full => false,
        }
    }

    /// Drops what has arrived of a body whose reader is too slow to have the rest: it may not come
    /// back for it soon.
    pub(super) fn drop_body(&mut self, key: Key, worker: &Worker) {
        let slot = self.slot(key);
        let left = slot.body().len();
        // Nobody is to take what was passed on for the whole.
        (slot.body, slot.taken, slot.ended) = (Vec::new(), 0, false);
        self.give_back(left, worker);
    }

    /// Whether what is held keeps the connection's window shut for everybody.
    pub(super) fn is_shut(&self) -> bool {
        self.owed > OWED_MAX
    }

    /// Opens the connection's window again although nothing was taken.
    pub(super) fn reopen(&mut self) {
        let owed = std::mem::take(&mut self.owed);
        self.wire.consumed_connection(owed);
    }

    /// Streams whose readers leave bytes lying.
    pub(super) fn stale(&self, now_ms: u64) -> Vec<Key> {
        let is_stale = |slot: &&Slot| !slot.body().is_empty() && slot.unread_ms + STALE_MS < now_ms;
        let stale = self.slots.iter().filter(is_stale);
        stale.filter_map(|slot| slot.key).collect()
    }

    /// Whether this connection holds more than its share while there is too little for all.
    pub(super) fn is_hoarding(&self) -> bool {
        self.buffered + self.heads > SHARE_BYTES
    }

    /// Opens the stream's window for as much as was received, though nothing was taken: the
    /// reader holds all of it. Says whether there is something to write.
    pub(super) fn widen(&mut self, key: Key, seen: usize) -> bool {
        let slot = self.slot(key);
        let more = seen - slot.widened.min(seen);
        slot.widened += more;
        self.wire.consumed(key, more);
        self.wire.output_len() > 0
    }

    /// The stream's reader has taken `count` bytes.
    pub(super) fn take(&mut self, key: Key, count: usize, worker: &Worker) {
        let slot = self.slot(key);
        slot.taken += count;
        if slot.taken == slot.body.len() {
            slot.taken = 0;
            slot.body.clear();
        }
        let early = slot.widened.min(count);
        slot.widened -= early;
        let goes_on = !slot.ended;
        let enlarged = slot.enlarge(count);
        if goes_on {
            self.wire.consumed(key, count - early);
            if let Some(by) = enlarged {
                self.wire.enlarge(key, by);
            }
        }
        self.give_back(count, worker);
    }

    fn give_back(&mut self, count: usize, worker: &Worker) {
        self.buffered -= count;
        worker.release_bytes(count);
        let owed = self.owed.min(count);
        if owed > 0 {
            self.owed -= owed;
            self.wire.consumed_connection(owed);
        }
    }

    /// Nobody holds the stream any more.
    fn release(&mut self, key: Key, worker: &Worker) {
        let slot = self.slot(key);
        let left = slot.body().len();
        let head = std::mem::take(&mut slot.head_bytes);
        slot.is_blocked = false;
        slot.body.clear();
        slot.body.shrink_to(KEPT_BYTES);
        slot.trailers.clear();
        slot.trailers.shrink_to(KEPT_BYTES);
        slot.heads.clear();
        (slot.taken, slot.widened, slot.ended, slot.lost) = (0, 0, false, None);
        (slot.window, slot.since) = (WINDOW, 0);
        (slot.task, slot.key) = (TaskId::NONE, None);
        self.heads -= head;
        worker.release_bytes(head);
        self.give_back(left, worker);
        self.wire.release(key);
    }

    /// Gives back what a connection without streams does not need.
    pub(super) fn rest(&mut self) {
        if self.wire.output_len() == 0 {
            *self.wire.output() = Vec::new();
        }
        (self.spare, self.blocked) = (Vec::new(), VecDeque::new());
        if !self.slots.iter().any(|slot| slot.key.is_some()) {
            self.slots = Vec::new();
        }
    }

    /// Tells every stream that it is lost, and wakes who waits.
    pub(super) fn lose_all(&mut self, kind: io::ErrorKind, worker: &Worker) {
        for slot in self.slots.iter_mut().filter(|slot| slot.key.is_some()) {
            slot.lost.get_or_insert(kind);
            worker.reactor.wake(slot.task);
        }
    }
}

impl Mux {
    /// A connection of which nothing has been said yet; its certificates end at `expires_ms`.
    pub(crate) fn new(
        worker: &Rc<Worker>,
        stream: Stream,
        config: &Config,
        expires_ms: u64,
    ) -> Rc<Self> {
        stream.tcp.keep_unsent_below(UNSENT_MAX);
        Rc::new(Self {
            worker: Rc::clone(worker),
            stream,
            dialect: config.dialect,
            core: RefCell::new(Core {
                wire: Connection::new(config),
                slots: Vec::new(),
                blocked: VecDeque::new(),
                buffered: 0,
                heads: 0,
                owed: 0,
                spare: Vec::new(),
            }),
            driver: Cell::new(TaskId::NONE),
            life: Cell::new(Life::Open),
            carried: Cell::new(0),
            queue: RefCell::default(),
            expires_ms,
            aging: Cell::new(false),
            far: Cell::new(false),
        })
    }

    pub(super) fn core(&self) -> RefMut<'_, Core> {
        self.core.borrow_mut()
    }

    pub(super) fn try_core(&self) -> Result<RefMut<'_, Core>, std::cell::BorrowMutError> {
        self.core.try_borrow_mut()
    }

    pub(crate) fn life(&self) -> Life {
        self.life.get()
    }

    pub(super) fn set_life(&self, life: Life) {
        self.life.set(life);
    }

    /// Streams that somebody holds.
    pub(crate) fn streams(&self) -> usize {
        self.core().wire.streams()
    }

    /// Whether another stream may begin on it.
    pub(crate) fn can_open(&self) -> bool {
        let core = self.core();
        // A server that takes few streams says so in its settings; what it would refuse may not
        // be sendable again. One it takes in any case.
        let is_known = core.wire.peer_settings_came() || core.wire.streams() == 0;
        self.life() == Life::Open && is_known && core.wire.can_open()
    }

    /// The peer has not said yet what it takes.
    pub(crate) fn is_new(&self) -> bool {
        self.life() == Life::Open && !self.core().wire.peer_settings_came()
    }

    /// Which of how many workers of the peer it leads to, where the peer says so.
    pub(crate) fn peer_worker(&self) -> Option<(u16, u16)> {
        self.core().wire.peer_worker()
    }

    /// Asks for a successor.
    pub(crate) fn grow_old(&self) {
        self.aging.set(true);
    }

    /// Whether another connection is to take its place.
    pub(crate) fn is_aging(&self) -> bool {
        self.aging.get()
    }

    /// Lets no further stream begin; the connection ends with its last one.
    pub(crate) fn retire(&self) {
        if self.life() == Life::Open {
            self.set_life(Life::Retiring);
            self.core().wire.go_away(Code::NoError);
            self.wake_driver();
        }
    }

    /// How long a round trip took when the connection was made.
    pub(crate) fn measured(&self, round_trip: Duration) {
        self.far.set(round_trip >= FAR);
    }

    /// How many streams it carries before another connection is made, of `limit` that it would on
    /// a short way.
    pub(crate) fn streams_max(&self, limit: usize) -> usize {
        match self.far.get() {
            true => limit.min(STREAMS_FAR),
            false => limit,
        }
    }

    /// The task that will drive it.
    pub(crate) fn driven_by(&self, driver: TaskId) {
        self.driver.set(driver);
    }

    /// Something waits to be written: once everybody who is ready has had a turn.
    pub(super) fn wake_driver(&self) {
        self.worker.reactor.wake(self.driver.get());
    }

    /// The running task is woken when a stream ends or begins to be possible.
    pub(crate) fn watch(&self) {
        self.queue
            .borrow_mut()
            .insert(self.worker.reactor.current());
    }

    /// Wakes those that [`Mux::watch`].
    pub(super) fn tell_watchers(&self) {
        let waiting = std::mem::take(&mut *self.queue.borrow_mut());
        waiting
            .into_iter()
            .for_each(|task| self.worker.reactor.wake(task));
    }

    pub(super) fn release(&self, key: Key) {
        let mut core = self.core();
        core.release(key, &self.worker);
        let wake = core.wire.output_len() > 0 || core.wire.streams() == 0;
        drop(core);
        if !self.queue.borrow().is_empty() {
            self.tell_watchers();
        }
        // Perhaps it was the last one that a retiring connection waited for.
        if wake {
            self.wake_driver();
        }
    }
}
