//! Whoever speaks the state-of-the-world variant is told the same mesh, under the same rules.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::HeaderMap;
use xds::grpc::client::Channel;
use xds::grpc::{Code, Error, Receiver, Sender};
use xds::kind::Kind;
use xds::resource::decode;
use xds::sotw;
use xds::sotw::client::Client;
use xds::update::Update;

use crate::sidecar::{connect, enrol, member, node, stranger};
use crate::world::{HELLO, STATUS, World};

const HELLO_CLUSTER: &str = "outbound|80|hello.default.svc.cluster.local";

/// A stream, and what came over it.
struct Sidecar {
    client: Client,
    sender: Sender,
    receiver: Receiver,
    has: BTreeMap<(Kind, String), Bytes>,
    /// Kinds of responses that came, in order.
    heard: Vec<&'static str>,
}

impl Sidecar {
    /// One that wants all clusters and listeners, and of the rest what these refer to.
    async fn open(channel: &Channel, name: &str) -> Result<Self, Error> {
        let (sender, receiver) = channel.bidi(sotw::PATH, HeaderMap::new()).await?;
        let mut client = Client::new(node(name));
        for kind in [Kind::Cluster, Kind::Listener] {
            client.subscribe(kind, ["*"]);
        }
        client.subscribe(Kind::Secret, ["ROOTCA"]);
        client.connected();
        let mut sidecar = Self {
            client,
            sender,
            receiver,
            has: BTreeMap::new(),
            heard: Vec::new(),
        };
        sidecar.speak().await?;
        Ok(sidecar)
    }

    async fn speak(&mut self) -> Result<(), Error> {
        while let Some(request) = self.client.take_request() {
            self.sender.send(&request).await?;
        }
        Ok(())
    }

    async fn hear(&mut self) -> Result<Update, Error> {
        let response = self.receiver.recv().await?.ok_or(Error::Ended)?;
        let update = self.client.on_response(response).unwrap();
        self.heard.push(update.kind.label());
        Ok(update)
    }

    /// The next response, accepted, and what it refers to asked for.
    async fn step(&mut self) -> Result<(), Error> {
        let update = self.hear().await?;
        let refers = match update.kind {
            Kind::Cluster => Some(Kind::Endpoints),
            Kind::Listener => Some(Kind::Routes),
            _ => None,
        };
        for one in &update.added {
            self.has
                .insert((update.kind, one.name.clone()), one.value.clone());
            if let Some(kind) = refers {
                self.client.subscribe(kind, [one.name.as_str()]);
            }
        }
        for name in &update.removed {
            self.has.remove(&(update.kind, name.clone()));
        }
        self.client.accept(&update);
        self.speak().await
    }

    async fn until(&mut self, is_there: impl Fn(&Self) -> bool) {
        while !is_there(self) {
            self.step().await.unwrap();
        }
    }

    fn names(&self, kind: Kind) -> Vec<&str> {
        let names = self.has.keys().filter(|(of, _)| *of == kind);
        names.map(|(_, name)| name.as_str()).collect()
    }

    fn endpoints(&self) -> Option<&Bytes> {
        self.has.get(&(Kind::Endpoints, HELLO_CLUSTER.to_owned()))
    }
}

async fn curl(world: &World) -> Sidecar {
    let credentials = enrol(world, "curl").await;
    let channel = connect(world, member(&credentials)).await;
    let mut curl = Sidecar::open(&channel, "curl").await.unwrap();
    curl.until(|it| it.names(Kind::Routes) == [HELLO_CLUSTER] && it.endpoints().is_some())
        .await;
    curl
}

#[tokio::test]
async fn mesh_is_told_and_followed() {
    let world = World::new();
    let mut curl = curl(&world).await;
    assert_eq!(curl.names(Kind::Secret), ["ROOTCA"]);
    assert_eq!(curl.names(Kind::Cluster), [HELLO_CLUSTER, "passthrough"]);
    for ((kind, name), bytes) in &curl.has {
        let decoded = decode(*kind, bytes);
        assert!(decoded.is_ok(), "{kind:?} {name}: {decoded:?}");
    }
    curl.heard.clear();
    let before = curl.endpoints().cloned();
    world.write("status.yaml", &STATUS.replace("10.77.0.2", "10.77.0.3"));
    curl.until(|it| it.endpoints() != before.as_ref()).await;
    assert_eq!(curl.heard, ["endpoints"]);
    let page = world
        .wait("/proxies", |page| page["proxies"][0]["settled"] == true)
        .await;
    assert_eq!(page["proxies"][0]["variant"], "stateOfTheWorld");
    let (_, metrics) = world.page("/metrics").await;
    let line = "leno_control_streams_opened_total{variant=\"stateOfTheWorld\"} 1\n";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn service_that_goes_leaves_its_cluster_last() {
    let world = World::new();
    let mut curl = curl(&world).await;
    curl.heard.clear();
    let mesh = HELLO.replace(
        "name: hello}\nspec:\n  selector",
        "name: hi}\nspec:\n  selector",
    );
    assert_ne!(mesh, HELLO);
    world.write("hello.yaml", &mesh);
    let new = HELLO_CLUSTER.replace("hello", "hi");
    curl.until(|it| it.names(Kind::Cluster) == [&*new, "passthrough"])
        .await;
    let listener = curl.heard.iter().position(|kind| *kind == "listener");
    assert!(
        listener.is_some_and(|at| at + 1 < curl.heard.len()),
        "{:?}",
        curl.heard
    );
    assert_eq!(
        (curl.heard[0], curl.heard.last()),
        ("cluster", Some(&"cluster"))
    );
    assert!(!curl.names(Kind::Listener).contains(&HELLO_CLUSTER));
    let rest = curl.until(|_| false);
    tokio::select! {
        settled = world.settle(10_000) => assert_eq!(settled["settled"], true),
        () = rest => {}
    }
}

#[tokio::test]
async fn refusal_is_shown_and_ends_nothing() {
    let world = World::new();
    let mut curl = curl(&world).await;
    world.write("status.yaml", &STATUS.replace("10.77.0.2", "10.77.0.3"));
    let update = curl.hear().await.unwrap();
    curl.client.refuse(&update, "I do not like it");
    curl.speak().await.unwrap();
    let refusal = |page: &serde_json::Value| {
        page["proxies"][0]["kinds"]["endpoints"]["refusal"] == "I do not like it"
    };
    world.wait("/proxies", refusal).await;
    world.write("status.yaml", STATUS);
    curl.step().await.unwrap();
    world.wait("/proxies", |page| !refusal(page)).await;
}

#[tokio::test]
async fn nobody_is_let_in_who_would_not_be_otherwise() {
    let world = World::new();
    let credentials = enrol(&world, "curl").await;
    for (config, name, code) in [
        (stranger(&world), "curl", Code::Unauthenticated),
        (member(&credentials), "hello", Code::PermissionDenied),
    ] {
        let channel = connect(&world, config).await;
        let mut sidecar = Sidecar::open(&channel, name).await.unwrap();
        match sidecar.hear().await {
            Err(Error::Status(status)) => assert_eq!(status.code, code),
            other => panic!("{other:?}"),
        }
    }
}
