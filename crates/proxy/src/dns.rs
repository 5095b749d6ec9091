//! The workload's name server: the mesh's names, over UDP and TCP, from the configuration in
//! memory. Runs on the quiet thread, beside the admin pages. Must never wait for anybody to answer
//! a name of the mesh, nor listen where others than the workload can ask.

mod answer;
mod names;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use wire::dns::{TCP_BYTES_MAX, UDP_BYTES_MAX};

pub use names::Names;

use crate::log;
use crate::telemetry::metrics::DnsCounters;
use answer::Transport;

/// Longest query over TCP: a name, some options and their padding are a fraction of that. Over UDP
/// they are as long as answers at most.
const QUERY_BYTES_MAX: usize = 4096;
/// Connections at a time, per address; more wait in the kernel's queue. Only answers that are too
/// long for UDP come this way.
const CONNECTIONS_MAX: usize = 32;
/// For the next query, and for the answer to be taken (RFC 7766, section 6.2.3: some seconds).
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// After a socket's failure (no descriptors left): time for others to give some back.
const PAUSE: Duration = Duration::from_millis(100);

/// What is answered. Shared with whoever changes it.
pub struct Book {
    names: ArcSwap<Names>,
    counters: Arc<DnsCounters>,
}

impl Book {
    /// Of a sidecar that starts with `names`; what is asked is counted by `counters`.
    #[must_use]
    pub fn new(names: Names, counters: Arc<DnsCounters>) -> Arc<Self> {
        let names = ArcSwap::from_pointee(names);
        Arc::new(Self { names, counters })
    }

    /// Answers with `names` from now on.
    pub fn publish(&self, names: Names) {
        self.names.store(Arc::new(names));
    }

    /// Adds the answer to `message` to `out`; nothing if it is to have none.
    fn answer(&self, message: &[u8], transport: Transport, out: &mut Vec<u8>) {
        let answered = answer::answer(&self.names.load(), message, transport, out);
        self.counters.add(answered);
    }
}

/// Serves from now on, in tasks of the tokio runtime that it is called in, which needs I/O and
/// time. `[::]` is both loopback addresses, `0.0.0.0` that of IPv4: redirected queries come there.
/// Gives the addresses it serves on.
///
/// # Errors
/// When the address cannot be bound.
pub fn serve(addr: SocketAddr, book: &Arc<Book>) -> anyhow::Result<Vec<SocketAddr>> {
    let mut bound = Vec::new();
    for pair in socket::open(addr)? {
        bound.push(pair.addr);
        let udp = UdpSocket::from_std(pair.udp)?;
        let tcp = TcpListener::from_std(pair.tcp)?;
        tokio::spawn(serve_udp(udp, Arc::clone(book)));
        tokio::spawn(serve_tcp(tcp, Arc::clone(book)));
    }
    Ok(bound)
}

/// Serves until dropped.
async fn serve_udp(socket: UdpSocket, book: Arc<Book>) {
    let (mut message, mut out) = (vec![0; UDP_BYTES_MAX], Vec::new());
    loop {
        let (length, peer) = match socket.recv_from(&mut message).await {
            Ok(received) => received,
            Err(error) => {
                log::warn(format_args!("names: cannot read: {error}"));
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        out.clear();
        book.answer(&message[..length], Transport::Udp, &mut out);
        if !out.is_empty()
            && let Err(error) = socket.send_to(&out, peer).await
        {
            log::debug(format_args!("names: cannot answer {peer}: {error}"));
        }
    }
}

/// Serves until dropped; connections go with it.
async fn serve_tcp(listener: TcpListener, book: Arc<Book>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let place = Arc::clone(&places)
            .acquire_owned()
            .await
            .expect("it is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve_connection(stream, Arc::clone(&book), place));
            }
            Err(error) => {
                log::warn(format_args!("names: cannot accept: {error}"));
                tokio::time::sleep(PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// One query after the other. Errors of a connection are its peer's affair.
async fn serve_connection(mut stream: TcpStream, book: Arc<Book>, _place: OwnedSemaphorePermit) {
    let (mut message, mut out) = (Vec::new(), Vec::new());
    loop {
        let read = read_query(&mut stream, &mut message);
        let Ok(Ok(())) = tokio::time::timeout(IDLE_TIMEOUT, read).await else {
            return;
        };
        frame(&mut out, |out| book.answer(&message, Transport::Tcp, out));
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
