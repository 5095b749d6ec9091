//! Keys of gateways: who is told them, and that nobody else ever sees them.

use xds::kind::Kind;
use xds::resource::{Resource, decode};

use crate::sidecar::{Sidecar, connect, enrol, member};
use crate::world::World;

const NAME: &str = "tls|default/shop";

/// A gateway and its Workload, without the Secret.
pub(crate) const GATEWAY: &str = "
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: edge}
spec: {serviceAccount: edge, gateway: edge}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec:
  gatewayClassName: leno
  listeners:
  - name: https
    port: 8443
    protocol: HTTPS
    hostname: shop.example
    tls: {certificateRefs: [{name: shop}]}
";

/// A chain and its key.
pub(crate) fn pair() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["shop.example".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// The Secret of the gateway.
pub(crate) fn secret(chain: &str, key: &str) -> String {
    let plain = |text: &str| text.trim_end().replace('\n', "\n    ");
    let (chain, key) = (plain(chain), plain(key));
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: shop}}\ntype: kubernetes.io/tls\n\
         stringData:\n  tls.crt: |\n    {chain}\n  tls.key: |\n    {key}\n"
    )
}

/// The certificate that a sidecar has, if it has one.
fn shown(sidecar: &Sidecar) -> Option<(String, String)> {
    let bytes = sidecar.has.get(&(Kind::Secret, NAME.to_owned()))?;
    match decode(Kind::Secret, bytes).unwrap().value {
        Resource::Certificate(it) => Some((it.chain, it.key.to_string())),
        other => panic!("{other:?}"),
    }
}

/// Waits until the sidecar has this, or nothing.
async fn becomes(sidecar: &mut Sidecar, wanted: Option<&(String, String)>) {
    let trimmed =
        |(chain, key): &(String, String)| (chain.trim_end().to_owned(), key.trim_end().to_owned());
    let wanted = wanted.map(trimmed);
    while shown(sidecar).as_ref().map(trimmed) != wanted {
        sidecar.step().await.unwrap();
    }
}

#[tokio::test]
async fn key_is_told_to_its_gateway_alone_and_follows_its_secret() {
    let mut world = World::new();
    world.write("gateway.yaml", GATEWAY);
    let first = pair();
    world.write("secret.yaml", &secret(&first.0, &first.1));
    world
        .wait("/mesh", |mesh| !mesh["workloads"]["default/edge"].is_null())
        .await;
    let (edge, curl) = (enrol(&world, "edge").await, enrol(&world, "curl").await);
    let channel = connect(&world, member(&edge)).await;
    let mut gateway = Sidecar::new("edge");
    gateway.connect(&channel).await.unwrap();
    let channel = connect(&world, member(&curl)).await;
    let mut other = Sidecar::new("curl");
    other.connect(&channel).await.unwrap();
    becomes(&mut gateway, Some(&first)).await;
    assert_eq!(other.names(Kind::Secret), ["ROOTCA"]);

    let second = pair();
    world.write("secret.yaml", &secret(&second.0, &second.1));
    becomes(&mut gateway, Some(&second)).await;
    // What does not belong together is not told, and what was there is gone with it.
    world.write("secret.yaml", &secret(&first.0, &second.1));
    becomes(&mut gateway, None).await;
    world.write("secret.yaml", &secret(&first.0, &first.1));
    becomes(&mut gateway, Some(&first)).await;
    assert_eq!(other.names(Kind::Secret), ["ROOTCA"]);

    let mut said = String::new();
    for path in ["/mesh", "/proxies", "/certs", "/metrics", "/warnings", "/"] {
        said += &world.page(path).await.1;
    }
    said += &world.page("/config_dump?workload=default/edge").await.1;
    assert!(said.contains(NAME), "its name is no secret");
    said += &world.stop();
    assert!(said.contains("the key is not the certificate's"), "{said}");
    for (_, key) in [first, second] {
        for line in key.lines().filter(|line| !line.starts_with("-----")) {
            assert!(!said.contains(line), "{said}");
        }
    }
}
