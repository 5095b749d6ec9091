//! A sidecar as far as the control plane sees one: a key, a certificate, a stream of resources.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use identity::credentials::{Credentials, Parts};
use identity::tls::{self, ALPN_PUBLIC_H2};
use identity::{SpiffeId, TrustBundle, key};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use xds::delta::client::{Client, Update};
use xds::delta::{self, WILDCARD};
use xds::grpc::client::{self, Channel};
use xds::grpc::{Error, Keepalive, Receiver, Sender, Status};
use xds::kind::Kind;
use xds::proto::discovery::{DeltaDiscoveryResponse, Node};
use xds::proto::identity::{SIGN, SignRequest, SignResponse};
use zeroize::Zeroizing;

use crate::world::World;

const DOMAIN: &str = "cluster.local";
const H2: &[&[u8]] = &[ALPN_PUBLIC_H2];

pub(crate) fn id(account: &str) -> SpiffeId {
    SpiffeId::of_service_account(DOMAIN, "default", account).unwrap()
}

fn control() -> SpiffeId {
    SpiffeId::of_service_account(DOMAIN, "leno-system", "leno-control").unwrap()
}

/// TLS as somebody without a certificate.
pub(crate) fn stranger(world: &World) -> Arc<ClientConfig> {
    let root = std::fs::read_to_string(world.state().join("root.pem")).unwrap();
    let bundle = TrustBundle::from_pem(&root, "", DOMAIN, SystemTime::now()).unwrap();
    tls::client_config_without_identity(&Arc::new(bundle), H2, &[control()]).unwrap()
}

/// TLS as a workload.
pub(crate) fn member(credentials: &Credentials) -> Arc<ClientConfig> {
    tls::client_config(credentials, H2, &[control()]).unwrap()
}

pub(crate) async fn dial(world: &World, config: Arc<ClientConfig>) -> TlsStream<TcpStream> {
    dial_to(world.xds, config).await
}

pub(crate) async fn dial_to(to: SocketAddr, config: Arc<ClientConfig>) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(to).await.unwrap();
    let name = tls::endpoint_name(to);
    TlsConnector::from(config)
        .connect(name, stream)
        .await
        .unwrap()
}

pub(crate) async fn connect(world: &World, config: Arc<ClientConfig>) -> Channel {
    let stream = Box::pin(dial(world, config)).await;
    let (channel, driver) = client::connect(stream).await.unwrap();
    tokio::spawn(driver.run(Keepalive::default()));
    channel
}

pub(crate) fn bearer(token: &str) -> HeaderMap {
    let value = HeaderValue::try_from(format!("Bearer {token}")).unwrap();
    HeaderMap::from_iter([(http::header::AUTHORIZATION, value)])
}

/// What proves a workload, and what it is made of.
pub(crate) struct Leaf {
    pub(crate) credentials: Credentials,
    pub(crate) chain: String,
    pub(crate) key: Zeroizing<String>,
}

/// Asks for a certificate with a new key.
pub(crate) async fn sign(
    channel: &Channel,
    metadata: HeaderMap,
    account: &str,
) -> Result<Credentials, Error> {
    let leaf = Box::pin(sign_leaf(channel, metadata, account)).await?;
    Ok(leaf.credentials)
}

/// Likewise.
pub(crate) async fn sign_leaf(
    channel: &Channel,
    metadata: HeaderMap,
    account: &str,
) -> Result<Leaf, Error> {
    let key = key::generate().unwrap();
    let csr = key.csr(&id(account)).unwrap().into();
    let answer: SignResponse = channel.unary(SIGN, metadata, &SignRequest { csr }).await?;
    let parts = Parts {
        chain: &answer.chain,
        key: &key,
        trust_bundle: &answer.trust_bundle,
        revocations: &answer.revocations,
    };
    let credentials = Credentials::from_parts(&parts, DOMAIN, SystemTime::now()).unwrap();
    Ok(Leaf {
        credentials,
        key: key.to_pem(),
        chain: answer.chain,
    })
}

/// A sidecar with its first certificate and all that it is told then.
pub(crate) async fn connected(world: &World, name: &str) -> Sidecar {
    let credentials = Box::pin(enrol(world, name)).await;
    let channel = connect(world, member(&credentials)).await;
    let mut sidecar = Sidecar::new(name);
    sidecar.connect(&channel).await.unwrap();
    sidecar
}

/// A first certificate, with a token, under an account of the same name.
pub(crate) async fn enrol(world: &World, name: &str) -> Credentials {
    Box::pin(enrol_as(world, name, name)).await
}

/// A first certificate, with a token.
pub(crate) async fn enrol_as(world: &World, name: &str, account: &str) -> Credentials {
    let token = world.token(name).await;
    let channel = connect(world, stranger(world)).await;
    sign(&channel, bearer(&token), account).await.unwrap()
}

/// A sidecar's stream, and all that it has.
pub(crate) struct Sidecar {
    client: Client,
    wire: Option<(Sender, Receiver)>,
    pub(crate) has: BTreeMap<(Kind, String), Bytes>,
    /// Resources and removals that it was told of.
    pub(crate) told: Vec<String>,
}

impl Sidecar {
    /// One that wants everything.
    pub(crate) fn new(name: &str) -> Self {
        Self::of(node(name))
    }

    /// Likewise.
    pub(crate) fn of(node: Node) -> Self {
        let mut client = Client::new(node);
        for kind in Kind::ALL {
            client.subscribe(kind, [WILDCARD]);
        }
        Self {
            client,
            wire: None,
            has: BTreeMap::new(),
            told: Vec::new(),
        }
    }

    /// Begins a stream, and waits until all that is wanted is there.
    pub(crate) async fn connect(&mut self, channel: &Channel) -> Result<(), Error> {
        self.wire = Some(channel.bidi(delta::PATH, HeaderMap::new()).await?);
        self.client.connected();
        self.told.clear();
        self.speak().await?;
        for _ in Kind::ALL {
            // The first answer to each kind, even if it says nothing.
            self.step().await?;
        }
        Ok(())
    }

    /// The next response, accepted.
    pub(crate) async fn step(&mut self) -> Result<(), Error> {
        let update = self.hear().await?;
        self.apply(&update);
        self.client.accept(&update);
        self.speak().await
    }

    /// The next response, refused.
    pub(crate) async fn refuse(&mut self, why: &str) -> Result<(), Error> {
        let update = self.hear().await?;
        self.client.refuse(&update, why);
        self.speak().await
    }

    /// Ends the stream from this side.
    pub(crate) fn hang_up(&mut self) {
        self.wire = None;
    }

    /// How the stream ends.
    pub(crate) async fn end(&mut self) -> Status {
        loop {
            match self.step().await {
                Ok(()) => {}
                Err(Error::Status(status)) => return status,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn names(&self, kind: Kind) -> Vec<&str> {
        let names = self.has.keys().filter(|(of, _)| *of == kind);
        names.map(|(_, name)| name.as_str()).collect()
    }

    async fn hear(&mut self) -> Result<Update, Error> {
        let (_, receiver) = self.wire.as_mut().unwrap();
        let response: DeltaDiscoveryResponse = receiver.recv().await?.ok_or(Error::Ended)?;
        Ok(self.client.on_response(response).unwrap())
    }

    async fn speak(&mut self) -> Result<(), Error> {
        let (sender, _) = self.wire.as_mut().unwrap();
        while let Some(request) = self.client.take_request() {
            sender.send(&request).await?;
        }
        Ok(())
    }

    fn apply(&mut self, update: &Update) {
        for one in &update.added {
            self.told.push(one.name.clone());
            self.has
                .insert((update.kind, one.name.clone()), one.value.clone());
        }
        for name in &update.removed {
            self.told.push(format!("-{name}"));
            self.has.remove(&(update.kind, name.clone()));
        }
    }
}

pub(crate) fn node(name: &str) -> Node {
    Node {
        id: format!("{name}.default"),
        user_agent_name: "test".to_owned(),
        ..Node::default()
    }
}
