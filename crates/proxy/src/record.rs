//! What is remembered of a request while it lasts, and told exactly once when it ends, whatever
//! way. Begun and finished by `request`.

use crate::connection::{CachedSlot, Client, Downstream};
use crate::error::Flag;
use crate::exchange::Exchange;
use crate::snapshot::Snapshot;
use crate::telemetry::access_log::Entry;
use crate::telemetry::metrics::{Protocol, Slot};
use crate::worker::Worker;
use identity::SpiffeId;
use model::Direction;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use wire::http1::{Origin, Version};

/// One request's account.
pub(crate) struct Record {
    slot: Option<Arc<Slot>>,
    started: Instant,
    pub(crate) status: u16,
    pub(crate) flag: Flag,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// They were counted as they were moved.
    is_counted: bool,
    /// The answer's head has been written: nothing else can be answered.
    pub(crate) answered: bool,
    log: Option<Box<Line>>,
}

/// What the access log wants to know; copied only when there is one.
struct Line {
    worker: Rc<Worker>,
    started: SystemTime,
    method: Vec<u8>,
    path: Vec<u8>,
    authority: Vec<u8>,
    protocol: &'static str,
    peer: Option<SpiffeId>,
    request_id: Vec<u8>,
    trace_id: Vec<u8>,
    upstream: Option<SocketAddr>,
}

impl Record {
    /// Begins when a request's first bytes are there: `started`, not when it is their turn.
    pub(crate) fn begin(started: Instant) -> Self {
        Self {
            slot: None,
            started,
            status: 0,
            // Whoever leaves without saying why has a defect.
            flag: Flag::Internal,
            bytes_in: 0,
            bytes_out: 0,
            is_counted: false,
            answered: false,
            log: None,
        }
    }

    /// Names whose counters the request belongs to; `cluster` is its place in the snapshot.
    pub(crate) fn assign(
        &mut self,
        down: &Downstream<'_>,
        snapshot: &Snapshot,
        direction: Direction,
        cluster: Option<usize>,
        protocol: Protocol,
    ) {
        let mut cache = down.client.slot.borrow_mut();
        let cached = cache.as_ref().filter(|cached| {
            cached.generation == snapshot.generation
                && (cached.cluster, cached.protocol) == (cluster, protocol)
                && !cached.slot.is_retired()
        });
        let slot = match cached {
            Some(cached) => Arc::clone(&cached.slot),
            None => {
                let slot = find_slot(down.client, snapshot, direction, (cluster, protocol));
                *cache = Some(CachedSlot {
                    generation: snapshot.generation,
                    cluster,
                    protocol,
                    slot: Arc::clone(&slot),
                });
                slot
            }
        };
        slot.begin();
        self.slot = Some(slot);
    }

    /// As [`Record::assign`], for a connection that is passed on unread; keeps what the access log
    /// wants to know as well.
    pub(crate) fn assign_unread(
        &mut self,
        client: &Client,
        snapshot: &Snapshot,
        (direction, cluster): (Direction, Option<usize>),
        server_name: Option<&str>,
    ) {
        let slot = find_slot(client, snapshot, direction, (cluster, Protocol::Tcp));
        slot.begin();
        self.slot = Some(slot);
        if client.worker.access_log.is_some() {
            self.log = Some(Box::new(Line {
                protocol: "TCP",
                authority: server_name.unwrap_or_default().into(),
                ..Line::begin(client)
            }));
        }
    }

    /// Keeps what the access log wants to know of the request's head.
    pub(crate) fn note(&mut self, down: &Downstream<'_>, exchange: &Exchange) {
        if down.client.worker.access_log.is_some() {
            self.log = Some(Box::new(Line::note(down, exchange)));
        }
    }

    /// Keeps that a request came whose head could not be read.
    pub(crate) fn note_refused(&mut self, down: &Downstream<'_>) {
        if down.client.worker.access_log.is_some() {
            self.log = Some(Box::new(Line::begin(down.client)));
        }
    }

    /// Keeps the id that we added ourselves.
    pub(crate) fn note_added(&mut self, exchange: &Exchange) {
        let Some(line) = &mut self.log else { return };
        let mut added = exchange.request_extra.split(|byte| *byte == b'\n');
        if let Some(id) = added.find_map(|line| line.strip_prefix(b"x-request-id: ")) {
            line.request_id = id.trim_ascii_end().to_vec();
        }
    }

    /// The endpoint that the request is sent to.
    pub(crate) fn sent_to(&mut self, endpoint: SocketAddr) {
        if let Some(line) = &mut self.log {
            line.upstream = Some(endpoint);
        }
    }

    /// So much was moved so far: what lasts for days is not to be counted in days.
    pub(crate) fn count(&mut self, bytes_in: u64, bytes_out: u64) {
        if let Some(slot) = &self.slot {
            slot.count(bytes_in - self.bytes_in, bytes_out - self.bytes_out);
        }
        (self.bytes_in, self.bytes_out) = (bytes_in, bytes_out);
        self.is_counted = true;
    }

    /// The request goes to a further connection or endpoint.
    pub(crate) fn retry(&self) {
        self.slot.iter().for_each(|slot| slot.retry());
    }
}

impl Line {
    /// Of a request of which nothing is known yet.
    fn begin(client: &Client) -> Self {
        Self {
            worker: Rc::clone(&client.worker),
            started: SystemTime::now(),
            method: Vec::new(),
            path: Vec::new(),
            authority: Vec::new(),
            protocol: "",
            peer: client.id.clone(),
            request_id: Vec::new(),
            trace_id: Vec::new(),
            upstream: None,
        }
    }

    fn note(down: &Downstream<'_>, exchange: &Exchange) -> Self {
        let (head, bytes) = (&exchange.request, down.bytes());
        let value = |name| {
            head.find(bytes, name)
                .map_or(&b""[..], |line| line.value.of(bytes))
        };
        let authority = head
            .authority
            .or(head.host)
            .map_or(&b""[..], |span| span.of(bytes));
        Self {
            method: head.method_span.of(bytes).to_vec(),
            path: head.target.of(bytes).to_vec(),
            authority: authority.to_vec(),
            protocol: match (head.origin, head.version) {
                (Origin::Http2, _) => "HTTP/2",
                (_, Version::Http10) => "HTTP/1.0",
                (_, Version::Http11) => "HTTP/1.1",
            },
            request_id: value("x-request-id").to_vec(),
            trace_id: value("traceparent")
                .split(|byte| *byte == b'-')
                .nth(1)
                .unwrap_or(b"")
                .into(),
            ..Self::begin(down.client)
        }
    }

    fn write(&self, record: &Record, duration_us: u64) {
        let Some(log) = &self.worker.access_log else {
            return;
        };
        let started = self
            .started
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        log.record(&Entry {
            start_us: u64::try_from(started.as_micros()).unwrap_or(u64::MAX),
            method: &self.method,
            path: &self.path,
            authority: &self.authority,
            protocol: self.protocol,
            status: record.status,
            flag: record.flag,
            bytes_in: record.bytes_in,
            bytes_out: record.bytes_out,
            duration_us,
            upstream: self.upstream,
            peer: self.peer.as_ref().map_or("", SpiffeId::as_str),
            request_id: &self.request_id,
            trace_id: &self.trace_id,
        });
    }
}

fn find_slot(
    client: &Client,
    snapshot: &Snapshot,
    direction: Direction,
    (cluster, protocol): (Option<usize>, Protocol),
) -> Arc<Slot> {
    let cluster = cluster.map(|place| &snapshot.clusters[place]);
    let id = match direction {
        Direction::Inbound => client.id.as_ref(),
        Direction::Outbound => cluster.and_then(|cluster| cluster.destination.as_ref()),
    };
    let proven = id.and_then(|id| Some((id.service_account()?, id.namespace()?)));
    let named = match direction {
        Direction::Inbound => None,
        Direction::Outbound => cluster.map(|cluster| (&*cluster.name, "")),
    };
    let recorder = &client.worker.recorder;
    let labels = recorder.labels(direction, protocol, proven.or(named));
    recorder.slot(&labels)
}

impl Drop for Record {
    fn drop(&mut self) {
        let Some(slot) = &self.slot else { return };
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let (bytes_in, bytes_out) = match self.is_counted {
            true => (0, 0),
            false => (self.bytes_in, self.bytes_out),
        };
        slot.finish(self.status, self.flag, micros, bytes_in, bytes_out);
        if let Some(line) = &self.log {
            line.write(self, micros);
        }
    }
}
