//! The control plane's port: connections in, each with TLS 1.3, HTTP/2 and what its certificate
//! says. Run by `app`. What one peer, or all of them, can make it hold is bounded by [`Limits`];
//! who has no certificate can ask for one, and for nothing else.

mod connection;
mod pace;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use identity::credentials::Credentials;
use identity::tls::{self, ALPN_PUBLIC_H2};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use xds::grpc;

use crate::ads::Ads;
use crate::log;
use crate::metrics::Metrics;
use crate::sign::Signer;
use connection::Connection;
pub use pace::Pace;

/// After a failed accept (no descriptors left): time for others to give some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What peers may do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once, of all peers.
    pub connections: usize,
    /// Connections at once of peers that have not shown a certificate, or not yet.
    pub strangers: usize,
    /// Of them, from one address.
    pub strangers_of_address: usize,
    /// For TLS and the beginning of HTTP/2.
    pub handshake: Duration,
    /// How long a connection may last without a call; and at all, for one without a certificate.
    pub idle: Duration,
    /// How long calls under way may take when a connection ends in order.
    pub drain: Duration,
    /// Of HTTP/2.
    pub grpc: grpc::server::Limits,
}

impl Default for Limits {
    /// 10,000 connections: five times the sidecars that one control plane is measured with.
    /// 256 strangers: as many sidecars can begin at once; each holds some tens of KiB. A quarter of
    /// them from one address: whoever takes that many keeps only his own sidecar out.
    fn default() -> Self {
        Self {
            connections: 10_000,
            strangers: 256,
            strangers_of_address: 64,
            handshake: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            drain: Duration::from_secs(5),
            grpc: grpc::server::Limits::default(),
        }
    }
}

/// Who the control plane is: replaced as a whole when it renews, or trusts differently.
#[derive(Debug)]
pub struct Front {
    credentials: Arc<Credentials>,
    tls: Arc<ServerConfig>,
}

impl Front {
    /// The port's side of `credentials`.
    ///
    /// # Errors
    /// Not expected with checked credentials.
    pub fn new(credentials: Arc<Credentials>) -> Result<Self, tls::Error> {
        let tls = tls::server_config_optional(&credentials, &[ALPN_PUBLIC_H2])?;
        Ok(Self { credentials, tls })
    }

    /// Who the control plane is.
    #[must_use]
    pub const fn credentials(&self) -> &Arc<Credentials> {
        &self.credentials
    }
}

/// Everything that a connection needs.
#[derive(Clone)]
pub struct Server {
    /// Who we are, and whom we trust.
    pub front: watch::Receiver<Arc<Front>>,
    /// Streams of resources.
    pub ads: Ads,
    /// Certificates.
    pub signer: Signer,
    /// Where it is counted.
    pub metrics: Arc<Metrics>,
    /// What peers may do.
    pub limits: Limits,
    /// The places that connections take.
    pub places: Arc<Places>,
}

/// How many connections there may be.
#[derive(Debug)]
pub struct Places {
    all: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
    /// Strangers by address, as far as there are any.
    of_address: Mutex<HashMap<IpAddr, usize>>,
    connections: usize,
    strangers_of_address: usize,
}

/// The places of a connection whose peer is not known yet, given back when dropped.
struct Strange {
    _place: OwnedSemaphorePermit,
    places: Arc<Places>,
    address: IpAddr,
}

impl Places {
    /// As many as `limits` says.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            all: Arc::new(Semaphore::new(limits.connections)),
            strangers: Arc::new(Semaphore::new(limits.strangers)),
            of_address: Mutex::default(),
            connections: limits.connections,
            strangers_of_address: limits.strangers_of_address,
        }
    }

    /// Places for a connection from `address`, of all and of strangers; or whose limit is reached.
    fn take(
        self: &Arc<Self>,
        address: IpAddr,
    ) -> Result<(OwnedSemaphorePermit, Strange), &'static str> {
        let place = Arc::clone(&self.all).try_acquire_owned();
        let place = place.map_err(|_| "connections")?;
        let strange = Arc::clone(&self.strangers).try_acquire_owned();
        let strange = strange.map_err(|_| "strangers")?;
        let mut of_address = self.of_address();
        let count = of_address.entry(address).or_default();
        if *count >= self.strangers_of_address {
            return Err("strangers_of_address");
        }
        *count += 1;
        let strange = Strange {
            _place: strange,
            places: Arc::clone(self),
            address,
        };
        Ok((place, strange))
    }

    fn of_address(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.of_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// How many connections there are.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.connections - self.all.available_permits()
    }
}

impl Drop for Strange {
    fn drop(&mut self) {
        let mut of_address = self.places.of_address();
        if let Entry::Occupied(mut count) = of_address.entry(self.address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

impl Server {
    /// Takes connections until `closing`, and lets those that there are end in order.
    pub async fn run(self, listener: TcpListener, mut closing: watch::Receiver<bool>) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
                _ = closing.wait_for(|closing| *closing) => break,
            };
            match accepted {
                Ok((stream, address)) => {
                    self.metrics.connections.increment();
                    if let Some(serving) = self.begin(stream, address, closing.clone()) {
                        connections.spawn(serving);
                    }
                }
                Err(error) => {
                    log::warn("accept_failed", &[("reason", &error)]);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    /// Serving the connection, if there is a place for it.
    fn begin(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        closing: watch::Receiver<bool>,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let taken = self.places.take(address.ip().to_canonical());
        let refused = &self.metrics.connections_refused;
        let (place, strange) = taken.inspect_err(|limit| refused.increment(limit)).ok()?;
        let connection = Connection {
            server: self.clone(),
            address,
            closing,
        };
        Some(async move {
            connection.serve(stream, strange).await;
            drop(place);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_takes_its_share_and_no_more_until_it_gives_back() {
        let places = Arc::new(Places::new(&Limits {
            strangers: 3,
            strangers_of_address: 2,
            ..Limits::default()
        }));
        let [greedy, other] = [1, 2].map(|last| IpAddr::from([10, 77, 0, last]));
        let refused = |address| places.take(address).err();
        let mut held: Vec<_> = (0..2).map(|_| places.take(greedy).ok()).collect();
        assert_eq!(refused(greedy), Some("strangers_of_address"));
        held.push(places.take(other).ok());
        assert!(held.iter().all(Option::is_some));
        assert_eq!(refused(other), Some("strangers"));
        assert_eq!(places.taken(), 3);
        // A peer that has shown who it is stays, and its place among the strangers is free.
        let (_known, strange) = held.remove(0).unwrap();
        drop(strange);
        assert_eq!(refused(greedy), None);
        drop(held);
        assert_eq!(places.taken(), 1);
        assert!(places.of_address().is_empty());
    }
}
