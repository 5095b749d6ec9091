//! The workload's name server, over UDP and TCP: the mesh's names from the configuration in memory,
//! others' from whom it may ask. Runs on the quiet thread, beside the admin pages. Must never wait
//! for anybody to answer a name of the mesh, nor answer others than its neighbours.

mod answer;
mod clients;
mod forward;
mod names;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use model::Dns;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use wire::dns::{Code, Query, Question, TCP_BYTES_MAX, UDP_BYTES_MAX};

pub use names::Names;
pub(crate) use socket::Pair;

use crate::handover::message::Role;
use crate::log;
use crate::telemetry::metrics::{Answered, DnsCounters};
use answer::{Progress, Transport};
use clients::{Clients, Places};
use forward::{Answer, Forwarder, Pending, Said};

/// Longest query over TCP: a name, some options and their padding are a fraction of that. Over UDP
/// they are as long as answers at most.
const QUERY_BYTES_MAX: usize = 4096;
/// Connections at a time, per address; more wait in the kernel's queue. Only answers that are too
/// long for UDP come this way.
const CONNECTIONS_MAX: usize = 32;
/// Queries over UDP that wait for another name server, per address; each has some hundred bytes.
const WAITING_MAX: usize = 1024;
/// For the next query, and for the answer to be taken (RFC 7766, section 6.2.3: some seconds).
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// After a socket's failure (no descriptors left): time for others to give some back.
const PAUSE: Duration = Duration::from_millis(100);

/// What is answered. Shared with whoever changes it.
pub struct Book {
    names: ArcSwap<Names>,
    forwarder: Option<Arc<Forwarder>>,
    counters: Arc<DnsCounters>,
}

impl Book {
    /// Of a sidecar that starts with `names`, and asks others as `dns` says; what is asked is
    /// counted by `counters`.
    #[must_use]
    pub fn new(names: Names, dns: Option<&Dns>, counters: Arc<DnsCounters>) -> Arc<Self> {
        Arc::new(Self {
            names: ArcSwap::from_pointee(names),
            forwarder: dns.and_then(|dns| Forwarder::new(dns, &counters)),
            counters,
        })
    }

    /// Answers with `names` from now on.
    pub fn publish(&self, names: Names) {
        self.names.store(Arc::new(names));
    }

    /// Adds the answer to `message` to `out`; nothing if it is to have none, or if somebody else is
    /// asked for it, which then has to be waited for: only where the client may `wait`.
    fn answer(
        &self,
        message: &[u8],
        (transport, wait): (Transport, bool),
        out: &mut Vec<u8>,
    ) -> Option<Pending> {
        let query = match answer::answer(&self.names.load(), message, transport, out) {
            Progress::Elsewhere(query) => query,
            Progress::Done(answered) => {
                self.counters.add(answered);
                return None;
            }
        };
        // Who does not want others to be asked has no business here.
        let forwarder = self.forwarder.as_ref();
        let Some(forwarder) = forwarder.filter(|_| query.wants_recursion()) else {
            self.counters.add(Answered::Refused);
            answer::say(&query, Code::Refused, out);
            return None;
        };
        match forwarder.find(Question::of(&query), transport, wait) {
            Answer::Pending(pending) => Some(pending),
            Answer::Ready(said) => {
                self.relay(&query, transport, said.as_ref(), out);
                None
            }
        }
    }

    /// Adds what was said in answer to `message`, which was to be waited for.
    fn complete(&self, message: &[u8], transport: Transport, said: Option<&Said>) -> Vec<u8> {
        let mut out = Vec::new();
        if let Ok(query) = Query::parse(message) {
            self.relay(&query, transport, said, &mut out);
        }
        out
    }

    fn relay(
        &self,
        query: &Query<'_>,
        transport: Transport,
        said: Option<&Said>,
        out: &mut Vec<u8>,
    ) {
        let Some(Said { kept, left }) = said else {
            self.counters.add(Answered::Failed);
            return answer::say(query, Code::ServerFailure, out);
        };
        self.counters.add(Answered::Forwarded);
        kept.write(query, *left, transport.bytes_max(query), out);
    }
}

/// Opens all addresses, but those that `give` has sockets for. `[::]` is both loopback addresses,
/// `0.0.0.0` that of IPv4: redirected queries come there.
///
/// # Errors
/// When an address cannot be bound.
pub(crate) fn open(
    dns: &Dns,
    mut give: impl FnMut(Role, SocketAddr) -> Option<OwnedFd>,
) -> anyhow::Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for addr in &dns.listen {
        match socket::adopt(*addr, &mut give)? {
            given if !given.is_empty() => pairs.extend(given),
            _ => pairs.extend(socket::open(*addr)?),
        }
    }
    Ok(pairs)
}

/// Serves from now on, and gives the addresses.
#[cfg(test)]
fn serve(dns: &Dns, book: &Arc<Book>) -> anyhow::Result<Vec<SocketAddr>> {
    let pairs = open(dns, |_, _| None)?;
    let bound = pairs.iter().map(|pair| pair.addr).collect();
    for pair in pairs {
        run(pair, book, std::future::pending)?;
    }
    Ok(bound)
}

/// Serves from now until each `end`, in tasks of the tokio runtime that it is called in, which
/// needs I/O and time. What was asked before is answered all the same.
pub(crate) fn run<E: Future<Output = ()> + Send + 'static>(
    pair: Pair,
    book: &Arc<Book>,
    end: impl Fn() -> E,
) -> io::Result<()> {
    let clients = Clients::of(pair.addr.ip());
    let udp = Arc::new(UdpSocket::from_std(pair.udp)?);
    let tcp = TcpListener::from_std(pair.tcp)?;
    let (udp_end, tcp_end) = (end(), end());
    tokio::spawn(serve_udp(udp, clients, Arc::clone(book), udp_end));
    let book = Arc::clone(book);
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        tokio::select! {
            () = serve_tcp(tcp, clients, book, &mut connections) => {}
            () = tcp_end => {}
        }
        while connections.join_next().await.is_some() {}
    });
    Ok(())
}

/// Serves until `end`.
async fn serve_udp(
    socket: Arc<UdpSocket>,
    clients: Clients,
    book: Arc<Book>,
    end: impl Future<Output = ()>,
) {
    let mut end = pin!(end);
    let places = Places::new(clients, WAITING_MAX);
    let (mut message, mut out) = (vec![0; UDP_BYTES_MAX], Vec::new());
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut message) => received,
            () = &mut end => return,
        };
        let (length, peer) = match received {
            Ok(received) => received,
            Err(error) => {
                log::warn(format_args!("names: cannot read: {error}"));
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        if !clients.has(peer.ip()) {
            book.counters.add(Answered::Refused);
            continue;
        }
        out.clear();
        let message = &message[..length];
        let place = places.take(peer.ip());
        let wait = place.is_some();
        if let Some(pending) = book.answer(message, (Transport::Udp, wait), &mut out) {
            let (socket, book) = (Arc::clone(&socket), Arc::clone(&book));
            let message = message.to_vec();
            tokio::spawn(async move {
                let said = pending.end().await;
                let out = book.complete(&message, Transport::Udp, said.as_ref());
                send(&socket, &out, peer).await;
                drop(place);
            });
        }
        send(&socket, &out, peer).await;
    }
}

async fn send(socket: &UdpSocket, out: &[u8], peer: SocketAddr) {
    if !out.is_empty()
        && let Err(error) = socket.send_to(out, peer).await
    {
        log::debug(format_args!("names: cannot answer {peer}: {error}"));
    }
}

/// Accepts until dropped.
async fn serve_tcp(
    listener: TcpListener,
    clients: Clients,
    book: Arc<Book>,
    connections: &mut JoinSet<()>,
) {
    let (all, places) = (
        Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        Places::new(clients, CONNECTIONS_MAX),
    );
    loop {
        let one = Arc::clone(&all).acquire_owned().await;
        let one = one.expect("it is never closed");
        match listener.accept().await {
            Ok((stream, peer)) => match places.take(peer.ip()).filter(|_| clients.has(peer.ip())) {
                Some(place) => {
                    let connection = serve_connection(stream, Arc::clone(&book));
                    connections.spawn(async move {
                        connection.await;
                        drop((one, place));
                    });
                }
                None => book.counters.add(Answered::Refused),
            },
            Err(error) => {
                log::warn(format_args!("names: cannot accept: {error}"));
                tokio::time::sleep(PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// One query after the other. Errors of a connection are its peer's affair.
async fn serve_connection(mut stream: TcpStream, book: Arc<Book>) {
    let (mut message, mut out) = (Vec::new(), Vec::new());
    loop {
        let read = read_query(&mut stream, &mut message);
        let Ok(Ok(())) = tokio::time::timeout(IDLE_TIMEOUT, read).await else {
            return;
        };
        let mut pending = None;
        frame(&mut out, |out| {
            pending = book.answer(&message, (Transport::Tcp, true), out);
        });
        if let Some(pending) = pending {
            let said = pending.end().await;
            let answer = book.complete(&message, Transport::Tcp, said.as_ref());
            frame(&mut out, |out| out.extend_from_slice(&answer));
        }
        // Who sends no queries is not waited for.
        if out.is_empty() {
            return;
        }
        let written = stream.write_all(&out);
        let Ok(Ok(())) = tokio::time::timeout(IDLE_TIMEOUT, written).await else {
            return;
        };
    }
}

async fn read_query(stream: &mut TcpStream, message: &mut Vec<u8>) -> io::Result<()> {
    let length = usize::from(stream.read_u16().await?);
    if length > QUERY_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    message.resize(length, 0);
    stream.read_exact(message).await?;
    Ok(())
}

/// What `write` adds to `out`, after its length; nothing if it adds nothing.
fn frame(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    const LENGTH_BYTES: usize = 2;
    out.clear();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    write(out);
    let length = out.len() - LENGTH_BYTES;
    debug_assert!(length <= TCP_BYTES_MAX, "answers are bounded by it");
    if length == 0 {
        out.clear();
    } else {
        out[..LENGTH_BYTES].copy_from_slice(&(length as u16).to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
