//! A mesh of names, an authority in a directory, a clock that moves when it is told to, and
//! sidecars that keep what they were given.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use control::authority::{Authority, Directory, Error, Proof, Refused, Settings, Signed, Token};
use control::kinds::WorkloadKey;
use identity::credentials::{Credentials, Parts};
use identity::tls::{self, Side};
use identity::{PrivateKey, SpiffeId, key};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use tempfile::TempDir;

pub(crate) const DOMAIN: &str = "cluster.local";
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn id(account: &str) -> SpiffeId {
    SpiffeId::of_service_account(DOMAIN, "default", account).unwrap()
}

pub(crate) fn workload(name: &str) -> WorkloadKey {
    WorkloadKey::new("default", name)
}

pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) settings: Settings,
    pub(crate) now: SystemTime,
    authority: Option<Arc<Authority>>,
    /// Which workloads there are, and their ids.
    pub(crate) mesh: Arc<Mutex<BTreeMap<WorkloadKey, SpiffeId>>>,
}

impl World {
    /// With the workloads `a` and `b`, each under an account of its name.
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        Self::at(start, settings)
    }

    pub(crate) fn at(now: SystemTime, settings: Settings) -> Self {
        let mesh = ["a", "b"].map(|name| (workload(name), id(name)));
        let mut world = Self {
            dir: tempfile::tempdir().unwrap(),
            settings,
            now,
            authority: None,
            mesh: Arc::new(Mutex::new(BTreeMap::from(mesh))),
        };
        world.restart().unwrap();
        world
    }

    pub(crate) fn open(&self) -> Result<Authority, Error> {
        Authority::open(self.dir.path(), DOMAIN, self.settings.clone(), self.now)
    }

    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        self.authority = None;
        self.authority = Some(Arc::new(self.open()?));
        Ok(())
    }

    /// The control plane goes away; its files stay.
    pub(crate) fn stop(&mut self) {
        self.authority = None;
    }

    pub(crate) fn authority(&self) -> &Arc<Authority> {
        self.authority.as_ref().unwrap()
    }

    pub(crate) fn directory(&self) -> Directory {
        let mesh = Arc::clone(&self.mesh);
        Arc::new(move |workload| mesh.lock().unwrap().get(workload).cloned())
    }

    pub(crate) fn token(&self, name: &str) -> Token {
        self.try_token(name).unwrap()
    }

    pub(crate) fn try_token(&self, name: &str) -> Result<Token, Refused> {
        let (workload, directory) = (workload(name), self.directory());
        self.authority()
            .issue_token(&workload, &directory, self.now)
    }

    pub(crate) fn redeem(&self, token: &str, csr: &[u8]) -> Result<Signed, Refused> {
        self.sign(csr, Some(Proof::Token(token)))
    }

    pub(crate) fn renew(&self, chain: &str, csr: &[u8]) -> Result<Signed, Refused> {
        let chain = ders(chain);
        self.sign(csr, Some(Proof::Leaf(&chain)))
    }

    pub(crate) fn sign(&self, csr: &[u8], proof: Option<Proof<'_>>) -> Result<Signed, Refused> {
        self.authority()
            .sign(csr, proof, &self.directory(), self.now)
    }

    /// A sidecar that has got its first certificate.
    pub(crate) fn enrol(&self, name: &str) -> Sidecar {
        self.enrol_as(name, name)
    }

    /// Under an account of another name.
    pub(crate) fn enrol_as(&self, name: &str, account: &str) -> Sidecar {
        let key = key::generate().unwrap();
        let csr = key.csr(&id(account)).unwrap();
        let signed = self.redeem(self.token(name).as_str(), &csr).unwrap();
        let bundle = self.authority().bundle();
        Sidecar {
            name: name.to_owned(),
            key,
            chain: signed.chain_pem,
            authorities: bundle.authorities,
            revocations: bundle.revocations,
        }
    }

    fn unix(&self) -> UnixTime {
        let since_epoch = self.now.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        UnixTime::since_unix_epoch(since_epoch)
    }

    pub(crate) fn advance(&self, everybody_has: u64) -> control::authority::Phase {
        self.authority().advance(self.now, everybody_has).unwrap()
    }
}

/// What a sidecar has.
pub(crate) struct Sidecar {
    pub(crate) name: String,
    pub(crate) key: PrivateKey,
    pub(crate) chain: String,
    authorities: String,
    revocations: String,
}

impl Sidecar {
    pub(crate) fn credentials(&self, world: &World) -> Credentials {
        let parts = Parts {
            chain: &self.chain,
            key: &self.key,
            trust_bundle: &self.authorities,
            revocations: &self.revocations,
        };
        Credentials::from_parts(&parts, DOMAIN, world.now).unwrap()
    }

    /// Whether a peer that presents this chain is to stay when the first root is the only one.
    pub(crate) fn rests_on_first_root(&self, chain: &str, world: &World) -> bool {
        tls::rests_on_first_root_at(&ders(chain), &self.credentials(world), world.unix())
    }

    /// The push arrives.
    pub(crate) fn learn(&mut self, world: &World) {
        let bundle = world.authority().bundle();
        (self.authorities, self.revocations) = (bundle.authorities, bundle.revocations);
    }

    /// Renews with the certificate that it has.
    pub(crate) fn renew(&mut self, world: &World) -> Result<(), Refused> {
        let csr = self.key.csr(&id(&self.name)).unwrap();
        let signed = world.renew(&self.chain, &csr)?;
        self.chain = signed.chain_pem;
        self.learn(world);
        Ok(())
    }

    /// What it finds of a chain that a peer presents; the label of the reason if nothing good.
    pub(crate) fn accepts(&self, chain: &str, world: &World) -> Result<SpiffeId, &'static str> {
        let own = self.credentials(world);
        let found = tls::recheck_at(&ders(chain), &own, Side::Downstream, world.unix());
        found.map_err(|error| tls::classify(&error).label())
    }
}

pub(crate) fn ders(chain: &str) -> Vec<CertificateDer<'static>> {
    let ders = CertificateDer::pem_slice_iter(chain.as_bytes());
    ders.collect::<Result<_, _>>().unwrap()
}

/// A fresh key's request for `account`.
pub(crate) fn csr(account: &str) -> Vec<u8> {
    key::generate().unwrap().csr(&id(account)).unwrap()
}
