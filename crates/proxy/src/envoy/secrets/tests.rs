//! Both dialects over a socket: what is told, when again, and what is not.

use super::*;
use http::HeaderMap;
use identity::ca::Authority;
use identity::credentials::{Credentials, Parts};
use identity::{SpiffeId, key};
use std::time::{Duration, SystemTime};
use xds::grpc::Keepalive;
use xds::grpc::client::{self, Channel};

const DOMAIN: &str = "cluster.local";

fn proof(root: &Authority) -> Proof {
    let (key, now) = (Arc::new(key::generate().unwrap()), SystemTime::now());
    let id = SpiffeId::of_service_account(DOMAIN, "default", "web").unwrap();
    let csr = key.csr(&id).unwrap();
    let chain = root.sign_csr(&csr, &id, Duration::from_secs(3600), now);
    let chain = chain.unwrap().pem;
    let parts = Parts {
        chain: &chain,
        key: &key,
        trust_bundle: root.certificate_pem(),
        revocations: "",
    };
    Proof {
        credentials: Credentials::from_parts(&parts, DOMAIN, now).unwrap(),
        key,
        chain: chain.into(),
    }
}

/// An Envoy, so to say, and who tells it.
struct World {
    root: Authority,
    proofs: watch::Sender<Option<Proof>>,
    channel: Channel,
}

async fn world() -> World {
    let (near, far) = UnixStream::pair().unwrap();
    let proofs = watch::Sender::new(None);
    tokio::spawn(serve(far, proofs.subscribe()));
    let (channel, driver) = client::connect(near).await.unwrap();
    tokio::spawn(driver.run(Keepalive::default()));
    World {
        root: Authority::create(DOMAIN, SystemTime::now()).unwrap(),
        proofs,
        channel,
    }
}

impl World {
    async fn open(&self, path: &str) -> (Sender, Receiver) {
        self.channel.bidi(path, HeaderMap::new()).await.unwrap()
    }

    /// Proves the workload anew.
    fn renew(&self) -> Proof {
        let proof = proof(&self.root);
        self.proofs.send_replace(Some(proof.clone()));
        proof
    }
}

/// What a secret holds: the chain, and the key.
fn told(secret: Option<&Any>) -> (String, String) {
    let secret = Secret::decode(secret.unwrap().value.clone()).unwrap();
    assert_eq!(secret.name, "default");
    let TlsCertificate {
        certificate_chain,
        private_key,
    } = secret.tls_certificate.unwrap();
    let text = |source: Option<DataSource>| source.unwrap().inline_string.unwrap();
    (text(certificate_chain), text(private_key))
}

fn expected(proof: &Proof) -> (String, String) {
    (proof.chain.to_string(), proof.key.to_pem().to_string())
}

fn request(names: &[&str], nonce: &str) -> DiscoveryRequest {
    DiscoveryRequest {
        resource_names: names.iter().map(ToString::to_string).collect(),
        type_url: Kind::Secret.type_url().to_owned(),
        response_nonce: nonce.to_owned(),
        ..DiscoveryRequest::default()
    }
}

fn delta(names: &[&str], nonce: &str) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        resource_names_subscribe: names.iter().map(ToString::to_string).collect(),
        type_url: Kind::Secret.type_url().to_owned(),
        response_nonce: nonce.to_owned(),
        ..DeltaDiscoveryRequest::default()
    }
}

#[tokio::test]
async fn the_certificate_is_told_when_it_is_there_and_whenever_there_is_another() {
    let world = world().await;
    let (mut sender, mut receiver) = world.open(STREAM).await;
    sender.send(&request(&["default"], "")).await.unwrap();
    let mut versions = Vec::new();
    for _ in 0..3 {
        let proof = world.renew();
        let response: DiscoveryResponse = receiver.recv().await.unwrap().unwrap();
        assert_eq!(told(response.resources.first()), expected(&proof));
        let answer = request(&["default"], &response.nonce);
        sender.send(&answer).await.unwrap();
        versions.push(response.version_info);
    }
    assert_eq!(versions, ["1", "2", "3"]);
}

#[tokio::test]
async fn the_other_dialect_tells_the_same() {
    let world = world().await;
    let (mut sender, mut receiver) = world.open(DELTA).await;
    let first = world.renew();
    sender.send(&delta(&["default"], "")).await.unwrap();
    let response: DeltaDiscoveryResponse = receiver.recv().await.unwrap().unwrap();
    let [resource] = &*response.resources else {
        panic!("{response:?}")
    };
    assert_eq!(resource.name, "default");
    assert_eq!(told(resource.resource.as_ref()), expected(&first));
    sender.send(&delta(&[], &response.nonce)).await.unwrap();
    let second = world.renew();
    let response: DeltaDiscoveryResponse = receiver.recv().await.unwrap().unwrap();
    let resource = response.resources[0].resource.as_ref();
    assert_eq!(told(resource), expected(&second));
}

#[tokio::test]
async fn news_that_are_no_other_certificate_are_not_told() {
    let world = world().await;
    let (mut sender, mut receiver) = world.open(STREAM).await;
    let proof = world.renew();
    sender.send(&request(&["default"], "")).await.unwrap();
    let response: DiscoveryResponse = receiver.recv().await.unwrap().unwrap();
    assert_eq!(response.version_info, "1");
    world.proofs.send_replace(Some(proof));
    // Asked afresh it is told again, and that is what comes next.
    sender.send(&request(&["default"], "")).await.unwrap();
    let response: DiscoveryResponse = receiver.recv().await.unwrap().unwrap();
    assert_eq!(response.version_info, "2");
}

#[tokio::test]
async fn whatever_else_is_asked_for_is_refused() {
    let world = world().await;
    world.renew();
    let other_kind = DiscoveryRequest {
        type_url: Kind::Cluster.type_url().to_owned(),
        ..request(&["default"], "")
    };
    for asked in [
        request(&["ROOTCA"], ""),
        request(&["default", "x"], ""),
        other_kind,
    ] {
        let (mut sender, mut receiver) = world.open(STREAM).await;
        sender.send(&asked).await.unwrap();
        let refused = receiver.recv::<DiscoveryResponse>().await.unwrap_err();
        assert!(
            refused.to_string().contains("`default` and nothing else"),
            "{refused}"
        );
    }
    let (_sender, mut receiver) = world.open("/envoy.service.secret.v3.Other/Call").await;
    assert!(receiver.recv::<DiscoveryResponse>().await.is_err());
}
