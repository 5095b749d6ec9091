//! A directory with an authority, credentials of any quality, and handshakes in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use identity::ca::{Authority, Chain};
use identity::credentials::{Credentials, Error, Parts, Paths};
use identity::failure::classify;
use identity::tls::{self, ALPN_HTTP1, Tickets};
use identity::{HandshakeFailure, PrivateKey, SpiffeId, key};
use rustls::{ClientConnection, ServerConnection};
use tempfile::TempDir;

pub(crate) const DOMAIN: &str = "cluster.local";
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn id(service_account: &str) -> SpiffeId {
    SpiffeId::of_service_account(DOMAIN, "default", service_account).unwrap()
}

/// What a hand-made leaf is like.
pub(crate) type Craft<'a> = &'a dyn Fn(&mut rcgen::CertificateParams);

pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) ca: Authority,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ca = Authority::create(DOMAIN, SystemTime::now()).unwrap();
        ca.save(dir.path()).unwrap();
        Self { dir, ca }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn paths(&self, name: &str) -> Paths {
        Paths {
            certificate: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
            trust_bundle: self.path("ca.pem"),
        }
    }

    pub(crate) fn issue(&self, name: &str) -> Paths {
        self.issue_from(&self.ca, name, SystemTime::now())
    }

    pub(crate) fn issue_from(&self, ca: &Authority, name: &str, now: SystemTime) -> Paths {
        let id = SpiffeId::of_service_account(ca.trust_domain(), "default", name).unwrap();
        ca.issue(&id, DAY, now)
            .unwrap()
            .save(self.dir.path(), name)
            .unwrap();
        self.paths(name)
    }

    pub(crate) fn credentials(&self, name: &str) -> Credentials {
        Credentials::load(&self.issue(name), DOMAIN).unwrap()
    }

    /// A leaf that the authority's key signed but that the authority would not make. As only
    /// checked credentials can be used, the peer's side is built on rustls directly.
    pub(crate) fn craft(&self, craft: Craft<'_>) -> rustls::sign::CertifiedKey {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        let uri = rcgen::string::Ia5String::try_from(id("web").as_str()).unwrap();
        params.subject_alt_names = vec![rcgen::SanType::URI(uri)];
        params.not_before = SystemTime::now().into();
        params.not_before -= DAY;
        params.not_after = (SystemTime::now() + DAY).into();
        craft(&mut params);
        let cert = params.signed_by(&key, &self.issuer()).unwrap();
        let der = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
        let key = tls::provider()
            .key_provider
            .load_private_key(der.into())
            .unwrap();
        rustls::sign::CertifiedKey::new(vec![cert.der().clone()], key)
    }

    fn issuer(&self) -> rcgen::Issuer<'static, rcgen::KeyPair> {
        let key = std::fs::read_to_string(self.path("ca.key")).unwrap();
        let key = rcgen::KeyPair::from_pem(&key).unwrap();
        rcgen::Issuer::from_ca_cert_pem(self.ca.certificate_pem(), key).unwrap()
    }
}

/// A control plane's authority: a root, and the intermediate that issues.
pub(crate) struct Hierarchy {
    pub(crate) root: Authority,
    pub(crate) issuer: Authority,
}

impl Hierarchy {
    pub(crate) fn new() -> Self {
        let now = SystemTime::now();
        let root = Authority::create(DOMAIN, now).unwrap();
        let issuer = root.intermediate(30 * DAY, now).unwrap();
        Self { root, issuer }
    }

    /// The intermediate first: new certificates come from it.
    pub(crate) fn bundle(&self) -> String {
        self.issuer.certificate_pem().to_owned() + self.root.certificate_pem()
    }

    /// A chain, and the key that a sidecar would have made.
    pub(crate) fn enrol(&self, name: &str) -> (Chain, PrivateKey) {
        let (key, now) = (key::generate().unwrap(), SystemTime::now());
        let csr = key.csr(&id(name)).unwrap();
        let chain = self.issuer.sign_csr(&csr, &id(name), DAY, now).unwrap();
        (chain, key)
    }

    pub(crate) fn credentials(&self, name: &str, revocations: &str) -> Credentials {
        let (chain, key) = self.enrol(name);
        assemble(&chain.pem, &key, &self.bundle(), revocations).unwrap()
    }
}

pub(crate) fn assemble(
    chain: &str,
    key: &PrivateKey,
    trust_bundle: &str,
    revocations: &str,
) -> Result<Credentials, Error> {
    let parts = Parts {
        chain,
        key,
        trust_bundle,
        revocations,
    };
    Credentials::from_parts(&parts, DOMAIN, SystemTime::now())
}

pub(crate) fn server(credentials: &Credentials) -> Arc<rustls::ServerConfig> {
    tls::server_config(credentials, &[ALPN_HTTP1], &Tickets::new()).unwrap()
}

pub(crate) fn client(credentials: &Credentials, expected: &str) -> Arc<rustls::ClientConfig> {
    tls::client_config(credentials, &[ALPN_HTTP1], &[id(expected)]).unwrap()
}

pub(crate) struct Pair {
    pub(crate) client: ClientConnection,
    pub(crate) server: ServerConnection,
}

/// What each side said when a handshake failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) client: Option<HandshakeFailure>,
    pub(crate) server: Option<HandshakeFailure>,
}

/// Runs a handshake, and reads what follows it (tickets, a late alert), until nothing moves.
pub(crate) fn handshake(
    server: &Arc<rustls::ServerConfig>,
    client: &Arc<rustls::ClientConfig>,
) -> Result<Pair, Failed> {
    handshake_at(server, client, "127.0.0.1:15003")
}

pub(crate) fn handshake_at(
    server: &Arc<rustls::ServerConfig>,
    client: &Arc<rustls::ClientConfig>,
    endpoint: &str,
) -> Result<Pair, Failed> {
    let name = tls::endpoint_name(endpoint.parse().unwrap());
    let mut client = ClientConnection::new(Arc::clone(client), name).unwrap();
    let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
    let mut failed = Failed {
        client: None,
        server: None,
    };
    for _ in 0..10 {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        client.write_tls(&mut there).unwrap();
        failed.server = failed.server.or_else(|| read(&mut server, &there));
        server.write_tls(&mut back).unwrap();
        failed.client = failed.client.or_else(|| read(&mut client, &back));
    }
    if failed
        == (Failed {
            client: None,
            server: None,
        })
    {
        assert!(!client.is_handshaking() && !server.is_handshaking());
        return Ok(Pair { client, server });
    }
    Err(failed)
}

fn read<D>(
    connection: &mut impl std::ops::DerefMut<Target = rustls::ConnectionCommon<D>>,
    mut bytes: &[u8],
) -> Option<HandshakeFailure> {
    while !bytes.is_empty() {
        connection.read_tls(&mut bytes).unwrap();
        if let Err(error) = connection.process_new_packets() {
            return Some(classify(&error));
        }
    }
    None
}

/// Runs an openssl command, if there is one, and returns what it printed.
pub(crate) fn openssl(args: &[&str], dir: &Path) -> Option<String> {
    let output = std::process::Command::new("openssl")
        .args(args)
        .current_dir(dir)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: no openssl command on this machine");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {args:?}: {text}{errors}");
    Some(text)
}
