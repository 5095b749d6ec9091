//! HTTPS with and without client certificates, against a rustls server.

use crate::world::{local, plan, run};
use load::{ClientTls, Failure, Plan};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::Arc,
    thread,
};
use tempfile::TempDir;

/// An authority, a server that it vouches for, and a client's files.
struct World {
    folder: TempDir,
    address: SocketAddr,
}

impl World {
    fn new(mutual: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let issue = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            let uri = format!("spiffe://test/{name}").try_into().unwrap();
            params.subject_alt_names.push(SanType::URI(uri));
            (params.signed_by(&key, &ca).unwrap(), key)
        };
        let write = |name, text: String| std::fs::write(folder.path().join(name), text).unwrap();
        let (client, key) = issue("client");
        write("ca.pem", ca.pem());
        write("client.pem", client.pem());
        write("client.key", key.serialize_pem());
        let (server, key) = issue("server.test");
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = config(mutual.then(|| ca.der().clone()), server.der().clone(), key);
        Self {
            address: serve(config),
            folder,
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.path().join(name))
    }

    fn plan(&self, tls: ClientTls) -> Plan {
        let mut plan = plan(self.address, "/", 100.0);
        plan.url = "https://server.test/".to_owned();
        plan.connect_to = Some(self.address);
        plan.tls = Some(tls);
        plan
    }
}

fn config(
    client_ca: Option<CertificateDer<'static>>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Arc<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(ca).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    Arc::new(builder.with_single_cert(vec![certificate], key).unwrap())
}

fn is_whole(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&request[..end]);
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    request.len() >= end + 4 + length
}

/// Answers every request with ten bytes.
fn serve(config: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind(local()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            thread::spawn(move || answer(config, stream));
        }
    });
    address
}

fn answer(config: Arc<ServerConfig>, stream: TcpStream) {
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let (mut seen, mut buffer) = (Vec::new(), [0; 16_384]);
    while let Ok(taken @ 1..) = stream.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..taken]);
        if is_whole(&seen) {
            seen.clear();
            let text = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";
            if stream.write_all(text).is_err() {
                return;
            }
        }
    }
}

#[test]
fn https_trusts_the_named_authority() {
    let world = World::new(false);
    let tls = ClientTls {
        roots_pem: world.path("ca.pem"),
        ..ClientTls::default()
    };
    let outcome = run(&world.plan(tls));
    assert_eq!(
        (outcome.statuses.get(&200), outcome.failed()),
        (Some(&100), 0)
    );
}

#[test]
fn https_refuses_a_stranger_unless_told_otherwise() {
    let (world, other) = (World::new(false), World::new(false));
    let tls = ClientTls {
        roots_pem: other.path("ca.pem"),
        ..ClientTls::default()
    };
    let error = load::run(&world.plan(tls), &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(error.contains("certificate"), "{error}");
    let tls = ClientTls {
        insecure: true,
        ..ClientTls::default()
    };
    assert_eq!(run(&world.plan(tls)).statuses.get(&200), Some(&100));
}

#[test]
fn the_name_or_id_that_is_verified_can_be_given() {
    let world = World::new(false);
    let roots_pem = world.path("ca.pem");
    let named = |name: &str| {
        let server_name = Some(name.to_owned());
        let tls = ClientTls {
            roots_pem: roots_pem.clone(),
            server_name,
            ..ClientTls::default()
        };
        load::run(&world.plan(tls), &mut |_| {})
    };
    assert!(named("other.test").is_err());
    assert_eq!(named("server.test").unwrap().requests, 100);
    assert!(named("spiffe://test/other").is_err());
    assert_eq!(named("spiffe://test/server.test").unwrap().requests, 100);
}

#[test]
fn a_client_certificate_opens_a_mutual_port() {
    let world = World::new(true);
    let tls = ClientTls {
        roots_pem: world.path("ca.pem"),
        certificate_pem: world.path("client.pem"),
        key_pem: world.path("client.key"),
        ..ClientTls::default()
    };
    let outcome = run(&world.plan(tls));
    assert_eq!(
        (outcome.statuses.get(&200), outcome.failed()),
        (Some(&100), 0)
    );
}

#[test]
fn a_mutual_port_stays_shut_without_a_certificate() {
    let world = World::new(true);
    let tls = ClientTls {
        roots_pem: world.path("ca.pem"),
        ..ClientTls::default()
    };
    // In TLS 1.3 the client is done before the server has looked: the refusal may come while
    // connecting or instead of an answer.
    if let Ok(outcome) = load::run(&world.plan(tls), &mut |_| {}) {
        assert!(outcome.statuses.is_empty(), "{:?}", outcome.statuses);
        let refused = [Failure::Tls, Failure::Closed];
        assert!(
            outcome
                .failures
                .keys()
                .any(|failure| refused.contains(failure))
        );
    }
}

#[test]
fn half_a_client_identity_is_refused() {
    let world = World::new(true);
    let certificate_pem = world.path("client.pem");
    let tls = ClientTls {
        certificate_pem,
        insecure: true,
        ..ClientTls::default()
    };
    let error = load::run(&world.plan(tls), &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(error.contains("--key"), "{error}");
}

#[test]
fn a_body_larger_than_any_buffer_goes_through_tls() {
    let world = World::new(false);
    let tls = ClientTls {
        roots_pem: world.path("ca.pem"),
        ..ClientTls::default()
    };
    let mut plan = world.plan(tls);
    (plan.method, plan.body) = ("POST".to_owned(), vec![b'x'; 1_000_000]);
    plan.rate = load::Rate::PerSecond(4.0);
    let outcome = run(&plan);
    assert_eq!(
        (outcome.statuses.get(&200), outcome.failed()),
        (Some(&4), 0)
    );
}
