//! Who the sidecars of other people's proxies let in, and whom they call: the real programs, with
//! the right peer and with another one that the same authority has vouched for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::certificates::dns_name;
use super::envoy::Between;
use super::haproxy::Haproxy;
use super::nginx::Nginx;
use super::*;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: echo\r\nConnection: close\r\n\r\n";

/// Both that can be had here; those that are missing are said aloud.
fn planes() -> Vec<Box<dyn DataPlane>> {
    let program = |name: &str| {
        let found = find::installed(None, name).unwrap();
        let promised = std::env::var_os("LENO_REQUIRE_PEERS").is_some();
        assert!(found.is_some() || !promised, "{name} is not installed");
        if found.is_none() {
            println!("SKIPPED: {name} is not installed");
        }
        found
    };
    let mut planes: Vec<Box<dyn DataPlane>> = Vec::new();
    if let Some(program) = program("haproxy") {
        planes.push(Box::new(Haproxy::new(program, Between::Http1)));
    }
    if let Some(program) = program("nginx") {
        planes.push(Box::new(Nginx::new(program)));
    }
    planes
}

/// A sidecar that serves; gone with its group when dropped.
struct Sidecar {
    child: Child,
    addr: SocketAddr,
}

impl Sidecar {
    fn start(plane: &dyn DataPlane, hop: &Hop<'_>) -> Self {
        use std::os::unix::process::CommandExt;
        let launch = plane.launch(hop).unwrap();
        let Readiness::Listening { listener, .. } = launch.readiness else {
            panic!("{:?}", launch.readiness);
        };
        let mut command = Command::new(&launch.program);
        command
            .args(&launch.args)
            .stdin(Stdio::null())
            .process_group(0);
        let mut child = command.spawn().unwrap();
        while TcpStream::connect(listener).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "{}", plane.name());
            thread::yield_now();
        }
        let addr = listener;
        Self { child, addr }
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

fn roots(certificates: &Certificates) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(certificates.trust_bundle()).unwrap();
    roots.add(authority).unwrap();
    Arc::new(roots)
}

fn identity(
    certificates: &Certificates,
    side: Side,
) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::from_pem_file(certificates.chain(side)).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificates.key(side)).unwrap();
    (vec![chain], key)
}

/// What is answered to a request over TLS by the side that is `who`; empty where nothing is.
fn asked(addr: SocketAddr, certificates: &Certificates, who: Side) -> String {
    let (chain, key) = identity(certificates, who);
    let config = ClientConfig::builder()
        .with_root_certificates(roots(certificates))
        .with_client_auth_cert(chain, key)
        .unwrap();
    let name = ServerName::try_from(dns_name(Side::Server)).unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = rustls::StreamOwned::new(tls, TcpStream::connect(addr).unwrap());
    let mut answer = Vec::new();
    let _ = stream.write_all(REQUEST);
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

/// Answers every request; over TLS as the side that it is.
fn serve(listener: TcpListener, tls: Option<Arc<ServerConfig>>) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tls = tls.clone();
            thread::spawn(move || match tls {
                None => answer(stream),
                Some(tls) => {
                    let tls = ServerConnection::new(tls).unwrap();
                    answer(rustls::StreamOwned::new(tls, stream));
                }
            });
        }
    });
}

fn answer(mut stream: impl Read + Write) {
    let mut request = [0; 4096];
    if matches!(stream.read(&mut request), Ok(1..)) {
        let _ = stream.write_all(ANSWER);
    }
}

fn hop<'a>(side: Side, upstream: SocketAddr, at: (&'a Certificates, &'a Path)) -> Hop<'a> {
    Hop {
        side,
        mutual_tls: true,
        telemetry: crate::results::Telemetry::Metrics,
        upstream,
        connections: 1,
        certificates: at.0,
        dir: at.1,
    }
}

#[test]
fn a_server_lets_in_its_client_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(dir.path()).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let upstream = listener.local_addr().unwrap();
    serve(listener, None);
    for plane in planes() {
        let hop = hop(Side::Server, upstream, (&certificates, dir.path()));
        let sidecar = Sidecar::start(plane.as_ref(), &hop);
        let ours = asked(sidecar.addr, &certificates, Side::Client);
        assert!(ours.starts_with("HTTP/1.1 200"), "{}: {ours}", plane.name());
        let other = asked(sidecar.addr, &certificates, Side::Server);
        let refused = other.is_empty() || other.starts_with("HTTP/1.1 403");
        assert!(refused, "{}: {other}", plane.name());
    }
}

#[test]
fn a_client_calls_its_server_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(dir.path()).unwrap();
    for (who, expected) in [
        (Side::Server, "HTTP/1.1 200"),
        (Side::Client, "HTTP/1.1 50"),
    ] {
        let (chain, key) = identity(&certificates, who);
        let peers = WebPkiClientVerifier::builder(roots(&certificates))
            .build()
            .unwrap();
        let tls = ServerConfig::builder()
            .with_client_cert_verifier(peers)
            .with_single_cert(chain, key)
            .unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let upstream = listener.local_addr().unwrap();
        serve(listener, Some(Arc::new(tls)));
        for plane in planes() {
            let hop = hop(Side::Client, upstream, (&certificates, dir.path()));
            let sidecar = Sidecar::start(plane.as_ref(), &hop);
            let mut stream = TcpStream::connect(sidecar.addr).unwrap();
            stream.write_all(REQUEST).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(expected), "{}: {answer}", plane.name());
        }
    }
}

#[test]
fn a_program_is_known_by_its_content() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("proxy");
    std::fs::write(&path, "abc").unwrap();
    // The digest of FIPS 180-2, appendix B.1.
    assert_eq!(
        super::binary_of(&path),
        "proxy, 0.0 MiB, SHA-256 ba7816bf8f01…"
    );
    std::fs::write(&path, "abd").unwrap();
    assert!(!super::binary_of(&path).contains("ba7816bf8f01"));
    assert!(super::binary_of(dir.path()).contains("cannot be read"));
}
