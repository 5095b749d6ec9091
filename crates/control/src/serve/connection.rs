//! One connection, from its handshake to its end. It ends when its certificate does, when the
//! certificate is not accepted any more, when nobody uses it, and when the control plane stops.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use identity::ca::Serial;
use identity::tls::{self, Side};
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use xds::grpc::server::{self as grpc, Call};
use xds::grpc::{Code, Status};
use xds::proto::identity::{SIGN, SignRequest};
use xds::{delta, sotw};

use super::{Front, Pace, Server, Strange};
use crate::ads::{Peer, Proof};
use crate::log;
use crate::sign::Caller;

/// Calls that may come at once on one connection, and then one in each interval. A sidecar has one
/// stream, and asks for a certificate a few times a day.
const CALLS_BURST: u32 = 16;
const CALL_INTERVAL: Duration = Duration::from_secs(1);
/// For the one message of a unary call.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What a connection is served with.
pub(super) struct Connection {
    pub(super) server: Server,
    pub(super) address: SocketAddr,
    pub(super) closing: watch::Receiver<bool>,
}

/// What the handshake has shown.
struct Shown {
    chain: Arc<[CertificateDer<'static>]>,
    peer: Peer,
    /// How long it counts.
    lifetime: Duration,
}

/// A peer's connection. It is large, and futures keep a place for whatever is moved through them.
type Http2 = Box<grpc::Connection<TlsStream<TcpStream>>>;

/// A connection, and how it ends in order.
struct End {
    http2: Http2,
    /// Tells streams that would go on for ever.
    ending: watch::Sender<bool>,
    is_near: bool,
    /// When the end begins; once it is near, when it is over.
    expiry: Pin<Box<Sleep>>,
    drain: Duration,
}

/// Why a connection is not taken.
enum Refusal {
    Timeout,
    Failed(&'static str),
}

impl Connection {
    pub(super) async fn serve(mut self, stream: TcpStream, strange: Strange) {
        // Small messages that nobody follows up on must not wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        let limit = self.server.limits.handshake;
        // What a handshake needs is given back when it is over.
        let began = match timeout(limit, Box::pin(self.begin(stream))).await {
            Ok(began) => began,
            Err(_) => Err(Refusal::Timeout),
        };
        match began {
            Ok((http2, shown)) => {
                let strange = shown.peer.proof.is_none().then_some(strange);
                Box::pin(self.run(http2, shown)).await;
                drop(strange);
            }
            Err(refusal) => self.note(&refusal),
        }
    }

    fn note(&self, refusal: &Refusal) {
        let reason = match refusal {
            Refusal::Timeout => "timeout",
            Refusal::Failed(reason) => reason,
        };
        self.server.metrics.handshake_failures.increment(reason);
        log::debug(
            "handshake_failed",
            &[("peer", &self.address), ("reason", &reason)],
        );
    }

    /// TLS, who the peer is, and HTTP/2.
    async fn begin(&mut self, stream: TcpStream) -> Result<(Http2, Shown), Refusal> {
        let front = Arc::clone(&self.server.front.borrow_and_update());
        let acceptor = TlsAcceptor::from(Arc::clone(&front.tls));
        let stream = acceptor
            .accept(stream)
            .await
            .map_err(|error| refusal(&error))?;
        let session = stream.get_ref().1;
        let agreed = tls::check_alpn(session.alpn_protocol(), &[tls::ALPN_PUBLIC_H2]);
        agreed.map_err(|failure| Refusal::Failed(failure.label()))?;
        let chain = session.peer_certificates().unwrap_or_default();
        let shown = self.shown(chain, &front)?;
        let http2 = grpc::accept(stream, &self.server.limits.grpc).await;
        let http2 = http2.map_err(|_| Refusal::Failed("http2"))?;
        Ok((Box::new(http2), shown))
    }

    fn shown(&self, chain: &[CertificateDer<'_>], front: &Front) -> Result<Shown, Refusal> {
        let chain: Arc<[_]> = chain.iter().map(|one| one.clone().into_owned()).collect();
        let (mut proof, mut lifetime) = (None, self.server.limits.idle);
        if let Some(leaf) = chain.first() {
            let rejected = |_| Refusal::Failed("identity");
            let id = tls::peer_id(&chain).map_err(rejected)?;
            let serial = Serial::of(leaf);
            proof = Some(Proof { id, serial });
            let now = SystemTime::now();
            lifetime = tls::lifetime(&chain, front.credentials(), now).map_err(rejected)?;
        }
        let address = self.address;
        Ok(Shown {
            chain,
            peer: Peer { proof, address },
            lifetime,
        })
    }

    async fn run(self, http2: Http2, shown: Shown) {
        let (ending, ended) = watch::channel(false);
        let mut calls = JoinSet::new();
        let mut end = End {
            http2,
            ending,
            is_near: false,
            expiry: Box::pin(sleep(shown.lifetime)),
            drain: self.server.limits.drain,
        };
        let mut pace = Pace::new(CALLS_BURST, CALL_INTERVAL);
        let idle = self.server.limits.idle;
        let (mut closing, mut fronts) = (self.closing.clone(), self.server.front.clone());
        loop {
            let is_unused = calls.is_empty() && !end.is_near;
            tokio::select! {
                call = end.http2.next() => match call {
                    Some(Ok(call)) if pace.wait(Instant::now()).is_zero() => {
                        pace.take(Instant::now());
                        calls.spawn(self.call(call, &shown, ended.clone()));
                    }
                    Some(Ok(call)) => call.refuse(&too_often()),
                    // Calls that wait for the peer go with the connection.
                    Some(Err(_)) | None => return,
                },
                Some(_) = calls.join_next() => {}
                () = &mut end.expiry => match end.is_near {
                    true => return,
                    false => end.begin(),
                },
                () = sleep(idle), if is_unused => end.begin(),
                _ = closing.wait_for(|closing| *closing), if !end.is_near => end.begin(),
                Ok(()) = fronts.changed() => {
                    if !self.is_trusted(&shown) {
                        return;
                    }
                }
            }
        }
    }

    /// Whether what the handshake has shown still counts.
    fn is_trusted(&self, shown: &Shown) -> bool {
        let front = Arc::clone(&self.server.front.borrow());
        if shown.chain.is_empty() {
            return true;
        }
        let rechecked = tls::recheck(&shown.chain, front.credentials(), Side::Downstream);
        if let Err(error) = &rechecked {
            let reason = tls::classify(error).label();
            log::info(
                "connection_cut",
                &[("peer", &self.address), ("reason", &reason)],
            );
        }
        rechecked.is_ok()
    }

    /// Serving a call.
    fn call(
        &self,
        call: Call,
        shown: &Shown,
        closing: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let server = self.server.clone();
        let (peer, chain) = (shown.peer.clone(), Arc::clone(&shown.chain));
        async move {
            match call.path.as_str() {
                delta::PATH => {
                    server
                        .ads
                        .serve::<delta::server::Stream>(call, peer, closing)
                        .await
                }
                sotw::PATH => {
                    server
                        .ads
                        .serve::<sotw::server::Stream>(call, peer, closing)
                        .await
                }
                SIGN => server.sign(call, chain).await,
                _ => call.refuse(&Status::new(Code::Unimplemented, "there is no such method")),
            }
        }
    }
}

impl End {
    /// No further calls; those that there are may end.
    fn begin(&mut self) {
        self.is_near = true;
        self.ending.send_replace(true);
        self.http2.close();
        self.expiry
            .as_mut()
            .reset(tokio::time::Instant::now() + self.drain);
    }
}

impl Server {
    /// A request for a certificate. Signing writes to the disk, so it is done elsewhere.
    async fn sign(self, mut call: Call, chain: Arc<[CertificateDer<'static>]>) {
        let request = match timeout(REQUEST_TIMEOUT, call.request::<SignRequest>()).await {
            Ok(Ok(request)) => request,
            Ok(Err(error)) => {
                let status = Status::new(Code::InvalidArgument, error.to_string());
                return self.refuse_to_sign(call, &status);
            }
            Err(_) => {
                let status = Status::new(Code::DeadlineExceeded, "say something");
                return self.refuse_to_sign(call, &status);
            }
        };
        let (signer, metadata) = (self.signer.clone(), call.metadata.clone());
        let signing = tokio::task::spawn_blocking(move || {
            let caller = Caller {
                metadata: &metadata,
                chain: Some(&chain),
            };
            signer.sign(&request, caller, SystemTime::now())
        });
        match signing.await {
            Ok(Ok(response)) => {
                self.metrics.signatures.increment(Code::Ok.label());
                // A peer that is gone will ask again.
                let _ = call.reply(&response).await;
            }
            Ok(Err(status)) => self.refuse_to_sign(call, &status),
            Err(_) => self.refuse_to_sign(call, &Status::new(Code::Internal, "see the log")),
        }
    }

    fn refuse_to_sign(&self, call: Call, status: &Status) {
        self.metrics.signatures.increment(status.code.label());
        log::warn("certificate_refused", &[("reason", status)]);
        call.refuse(status);
    }
}

fn refusal(error: &std::io::Error) -> Refusal {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    Refusal::Failed(inner.map_or("closed", |error| tls::classify(error).label()))
}

fn too_often() -> Status {
    Status::new(Code::ResourceExhausted, "too many calls; wait a second")
}
