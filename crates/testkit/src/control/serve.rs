//! The control plane's side of connections: TLS, gRPC, calls. Runs on its own thread, which ends
//! all of them when it ends.

use std::sync::Arc;

use bytes::Bytes;
use identity::{SpiffeId, tls};
use prost::Message;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use xds::delta::PATH;
use xds::grpc::server::{Call, Connection, Limits, accept};
use xds::grpc::{Code, Error, MESSAGE_BYTES_MAX, Sender, Status};
use xds::kind::Kind;
use xds::proto::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use xds::proto::identity::{SIGN, SignRequest};

use super::book::Listening;
use super::{Manner, Shared};

/// Requests that are remembered; later ones are forgotten.
const REMEMBERED_MAX: usize = 100_000;
/// More than goes out before a peer has answered.
const BLOCK_BYTES: usize = 1 << 20;

/// A call, and what is needed to answer it.
struct Desk {
    shared: Arc<Shared>,
    peer: Option<SpiffeId>,
    /// Ends the connection at once.
    cut: mpsc::UnboundedSender<()>,
}

pub(super) async fn run(
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
    mut stopped: oneshot::Receiver<()>,
) {
    let listener = TcpListener::from_std(listener).expect("a listening socket");
    let mut peers = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Ok((tcp, _)) = listener.accept() => {
                shared.state().seen.connections += 1;
                peers.spawn(until_end(tcp, Arc::clone(&shared)));
            }
            Some(_) = peers.join_next() => {}
        }
    }
}

/// Serves a connection until it ends, or all are ended.
async fn until_end(tcp: TcpStream, shared: Arc<Shared>) {
    let mut ends = shared.ends.subscribe();
    tokio::select! {
        _ = ends.changed() => {}
        _ = serve(tcp, Arc::clone(&shared)) => {}
    }
}

/// `None` when it has ended badly, as many do here.
async fn serve(tcp: TcpStream, shared: Arc<Shared>) -> Option<()> {
    tcp.set_nodelay(true).ok()?;
    let manner = shared.state().manner;
    if manner == Manner::Silent {
        return std::future::pending().await;
    }
    let config = shared.state().mint.server_config();
    let mut stream = TlsAcceptor::from(config).accept(tcp).await.ok()?;
    let peer = peer_of(&stream);
    shared.state().seen.peers.push(peer.clone());
    if manner == Manner::Rubbish {
        stream.write_all(&[0x55; 65_536]).await.ok()?;
        return std::future::pending().await;
    }
    let mut connection = accept(stream, &Limits::default()).await.ok()?;
    if manner == Manner::Curt {
        connection.abort();
    }
    let (cut, cuts) = mpsc::unbounded_channel();
    let desk = Arc::new(Desk { shared, peer, cut });
    Box::pin(drive(connection, cuts, &desk)).await
}

async fn drive(
    mut connection: Connection<TlsStream<TcpStream>>,
    mut cuts: mpsc::UnboundedReceiver<()>,
    desk: &Arc<Desk>,
) -> Option<()> {
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            call = connection.next() => {
                let (call, desk) = (call?.ok()?, Arc::clone(desk));
                calls.spawn(async move { desk.answer(call).await });
            }
            _ = cuts.recv() => return None,
            Some(_) = calls.join_next() => {}
        }
    }
}

fn peer_of(stream: &TlsStream<TcpStream>) -> Option<SpiffeId> {
    let chain = stream.get_ref().1.peer_certificates()?;
    Some(tls::peer_id(chain).expect("the handshake has verified the chain"))
}

impl Desk {
    async fn answer(&self, call: Call) -> Result<(), Error> {
        match call.path.as_str() {
            SIGN => self.sign(call).await,
            PATH if self.peer.is_some() => self.tell(call).await,
            PATH => {
                call.refuse(&Status::new(
                    Code::Unauthenticated,
                    "prove who you are first",
                ));
                Ok(())
            }
            _ => {
                call.refuse(&Status::new(Code::Unimplemented, "no such method"));
                Ok(())
            }
        }
    }

    async fn sign(&self, mut call: Call) -> Result<(), Error> {
        let header = call.metadata.get(http::header::AUTHORIZATION);
        let token = header.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let token = token.map(str::to_owned);
        let request: SignRequest = call.request().await?;
        let signed = {
            let mut state = self.shared.state();
            state.seen.tokens.extend(token.clone());
            state.seen.csrs.push(request.csr.clone());
            let (token, peer) = (token.as_deref(), self.peer.as_ref());
            state.mint.sign(&request.csr, token, peer)
        };
        match signed {
            Ok(answer) => call.reply(&answer).await,
            Err(status) => {
                call.refuse(&status);
                Ok(())
            }
        }
    }

    async fn tell(&self, call: Call) -> Result<(), Error> {
        let manner = {
            let mut state = self.shared.state();
            state.seen.streams += 1;
            state.manner
        };
        match manner {
            Manner::Refusing => {
                call.refuse(&Status::new(
                    Code::PermissionDenied,
                    "nobody is told anything",
                ));
                Ok(())
            }
            Manner::HangingUp => self.hang_up(call).await,
            Manner::Oversized => {
                let (mut sender, _receiver) = call.open()?;
                let blocks = vec![Bytes::from(vec![0; BLOCK_BYTES]); MESSAGE_BYTES_MAX >> 20];
                let more = Bytes::from_static(&[0]);
                sender.send_parts(&[blocks, vec![more]].concat()).await
            }
            Manner::Endless => endless(call).await,
            _ => self.converse(call).await,
        }
    }

    /// The first part of a message goes out, and then nothing.
    async fn hang_up(&self, call: Call) -> Result<(), Error> {
        let (mut sender, _receiver) = call.open()?;
        let block = [Bytes::from(vec![0; BLOCK_BYTES])];
        let sent = sender.send_parts(&block);
        let mut sent = std::pin::pin!(sent);
        tokio::select! {
            biased;
            sent = &mut sent => sent,
            () = tokio::task::yield_now() => {
                // Nobody is there to hear it when the connection has ended by itself.
                let _ = self.cut.send(());
                sent.await
            }
        }
    }

    async fn converse(&self, call: Call) -> Result<(), Error> {
        let mut changes = self.shared.changes.subscribe();
        let mut listening = Listening::default();
        let (mut sender, mut receiver) = call.open()?;
        loop {
            self.tell_news(&mut listening, &mut sender).await?;
            tokio::select! {
                _ = changes.changed() => {}
                request = receiver.recv::<DeltaDiscoveryRequest>() => {
                    let Some(request) = request? else {
                        return sender.finish(&Status::ok());
                    };
                    let is_first = listening.on_request(&request);
                    let seen = &mut self.shared.state().seen;
                    if is_first {
                        seen.openings.push(request.clone());
                    }
                    if seen.requests.len() < REMEMBERED_MAX {
                        seen.requests.push(request);
                    }
                }
            }
        }
    }

    async fn tell_news(&self, listening: &mut Listening, sender: &mut Sender) -> Result<(), Error> {
        let news = {
            let state = self.shared.state();
            let book = match listening.is_envoy() {
                true => &state.envoy_book,
                false => &state.book,
            };
            listening.news(book, &state.muted)
        };
        for response in news {
            let kind = Kind::find(&response.type_url).expect("our own types are known");
            let names = response
                .resources
                .iter()
                .map(|one| (kind, one.name.clone()));
            self.shared.state().seen.sent.extend(names);
            sender.send(&response).await?;
        }
        Ok(())
    }
}

/// Removals of what never was, as fast as they are taken.
async fn endless(call: Call) -> Result<(), Error> {
    let (mut sender, _receiver) = call.open()?;
    let response = DeltaDiscoveryResponse {
        type_url: Kind::Cluster.type_url().to_owned(),
        nonce: "again".to_owned(),
        removed_resources: vec!["nobody".to_owned()],
        ..DeltaDiscoveryResponse::default()
    };
    let message = Bytes::from(response.encode_to_vec());
    loop {
        sender.send_parts(std::slice::from_ref(&message)).await?;
    }
}
