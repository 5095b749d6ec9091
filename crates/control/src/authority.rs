//! The certificate authority of the mesh: a root, an intermediate that issues, and what was issued
//! to whom. Called by `sign` for sidecars, by `operator` for people, and by the push for the trust
//! bundle. Never hands out a private key but in files of its own directory, and never gives an id
//! that was not proved.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use identity::SpiffeId;
use identity::ca::{LEAF_TTL, Serial};
use identity::credentials::Credentials;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;

use crate::kinds::WorkloadKey;

mod error;
mod hierarchy;
mod holders;
mod inner;
mod ledger;
mod lists;
mod rate;
mod rotation;
mod status;
mod store;
mod token;

pub use error::{Error, Refused};
pub use holders::Holders;
pub use rotation::Phase;
pub use status::Status;
pub use token::Token;

use inner::Inner;

/// The name under which the trust bundle travels.
pub const BUNDLE: &str = xds::TRUST_BUNDLE;
/// The roots, in the state directory: what a sidecar trusts before it is told.
pub const ROOTS_FILE: &str = "root.pem";

/// Which identity a workload of the mesh has now; `None` if there is no such workload. It is asked
/// while the authority is locked, so it must not call it.
pub type Directory = Arc<dyn Fn(&WorkloadKey) -> Option<SpiffeId> + Send + Sync>;

/// Whether a workload may keep what it was given under an id.
pub type Keeps<'a> = &'a dyn Fn(&WorkloadKey, &str) -> bool;

/// What an operator may choose.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Directory with the root (`ca.pem`, `ca.key`, as `leno cert ca` makes them), whose key stays
    /// there; without it the authority makes its own.
    pub ca: Option<PathBuf>,
    /// Life of a sidecar's certificate.
    pub leaf_ttl: Duration,
    /// Life of an intermediate; it is replaced when half of that is over.
    pub issuer_ttl: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ca: None,
            leaf_ttl: LEAF_TTL,
            issuer_ttl: Duration::from_secs(90 * 24 * 60 * 60),
        }
    }
}

/// What connections rest on. When one of these is another, some are to be made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roots {
    /// The root that they are to rest on.
    pub preferred: Serial,
    /// The one that has been trusted for the longest time.
    pub oldest: Serial,
    /// How many are trusted.
    pub count: usize,
}

/// What shows who asks for a certificate.
#[derive(Debug, Clone, Copy)]
pub enum Proof<'a> {
    /// A bootstrap token.
    Token(&'a str),
    /// The client certificate of the connection, leaf first.
    Leaf(&'a [CertificateDer<'a>]),
}

/// A certificate that was issued.
#[derive(Debug, Clone)]
pub struct Signed {
    /// To whom.
    pub workload: WorkloadKey,
    /// As whom.
    pub id: SpiffeId,
    /// PEM: the leaf and the intermediate.
    pub chain_pem: String,
    /// When the leaf expires.
    pub not_after: SystemTime,
}

/// The authority. Shared; each call is short and blocks for at most a write to the disk.
pub struct Authority {
    inner: Mutex<Inner>,
    generation: watch::Sender<u64>,
    holders: Arc<Holders>,
}

/// The id of the control plane itself.
///
/// # Errors
/// A trust domain that is none.
pub fn control_id(trust_domain: &str) -> Result<SpiffeId, identity::spiffe::ParseError> {
    SpiffeId::of_service_account(trust_domain, "leno-system", "leno-control")
}

impl Authority {
    /// Makes the state directory of a new authority, or goes on with what is there.
    ///
    /// # Errors
    /// Whatever is wrong with the directory: [`Error`].
    pub fn open(
        dir: &Path,
        trust_domain: &str,
        settings: Settings,
        now: SystemTime,
    ) -> Result<Self, Error> {
        let inner = Inner::open(dir, trust_domain, settings, now)?;
        Ok(Self {
            holders: Arc::clone(inner.holders()),
            inner: Mutex::new(inner),
            generation: watch::Sender::new(1),
        })
    }

    /// The credentials of the control plane's own port. The same value is returned until there
    /// is reason for another: a change of the bundle, or renewal.
    ///
    /// # Errors
    /// Not expected in operation: the clock is wrong, or the disk.
    pub fn own_credentials(&self, now: SystemTime) -> Result<Arc<Credentials>, Error> {
        self.lock().own_credentials(now)
    }

    /// A one-time token for a workload, for ten minutes. The workload's identity is what
    /// `directory` says.
    ///
    /// # Errors
    /// [`Refused::NotInTheMesh`], [`Refused::Reserved`], [`Refused::Fault`].
    pub fn issue_token(
        &self,
        workload: &WorkloadKey,
        directory: &Directory,
        now: SystemTime,
    ) -> Result<Token, Refused> {
        let id = directory(workload).ok_or_else(|| Refused::NotInTheMesh(workload.clone()))?;
        self.lock().issue_token(workload, &id, now)
    }

    /// Signs a request (PKCS#10) for whom the proof shows, if `directory` agrees. Whatever else
    /// the request asks for is ignored; a name in it must be that id.
    ///
    /// # Errors
    /// Every [`Refused`].
    pub fn sign(
        &self,
        csr: &[u8],
        proof: Option<Proof<'_>>,
        directory: &Directory,
        now: SystemTime,
    ) -> Result<Signed, Refused> {
        self.lock().sign(csr, proof, directory, now)
    }

    /// Whom sidecars are to trust now: who issues comes first.
    #[must_use]
    pub fn bundle(&self) -> model::TrustBundle {
        self.lock().bundle().clone()
    }

    /// The roots that are in the bundle.
    #[must_use]
    pub fn roots(&self) -> Roots {
        self.lock().roots()
    }

    /// Changes of the bundle; the value counts them.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Which instance has which certificate; never waits for the disk.
    #[must_use]
    pub const fn holders(&self) -> &Arc<Holders> {
        &self.holders
    }

    /// Workloads that have a certificate which is still valid, and not revoked.
    #[must_use]
    pub fn enrolled(&self) -> Vec<WorkloadKey> {
        self.lock().enrolled()
    }

    /// Takes back what a workload that has left the mesh was given: its certificates are revoked,
    /// its tokens are void. Says how many certificates that were.
    ///
    /// # Errors
    /// [`Error::Store`]; what was not published then, the next [`Authority::advance`] publishes.
    pub fn remove(&self, workload: &WorkloadKey, now: SystemTime) -> Result<usize, Error> {
        self.change(|inner| inner.remove(workload, now))
    }

    /// Takes back whatever `keeps` does not leave to a workload: of those that have left the mesh,
    /// and of those that have another identity now. Says whose certificates were revoked. What is
    /// given to one of the same name later, is its own: certificates are revoked one by one.
    ///
    /// # Errors
    /// As [`Authority::remove`].
    pub fn reconcile(&self, keeps: Keeps<'_>, now: SystemTime) -> Result<Vec<WorkloadKey>, Error> {
        self.change(|inner| inner.reconcile(keeps, now))
    }

    /// Begins to replace the root. What follows is up to [`Authority::advance`].
    ///
    /// # Errors
    /// [`Error::Rotating`], [`Error::SameRoot`].
    pub fn begin_rotation(&self, now: SystemTime) -> Result<Phase, Error> {
        self.change(|inner| inner.begin_rotation(now))
    }

    /// Replaces the intermediate, so that every sidecar renews its certificate: what comes from
    /// an intermediate that is not the bundle's first is due.
    ///
    /// # Errors
    /// [`Error::TooManyIssuers`], [`Error::NoRootKey`].
    pub fn rotate_leaves(&self, now: SystemTime) -> Result<(), Error> {
        self.change(|inner| inner.rotate_leaves(now))
    }

    /// Does what is due: forgets what has expired, signs lists anew, replaces an intermediate at
    /// half its life, and takes a rotation of the root one step on. `everybody_has` is the least
    /// generation of the bundle that the sidecars of all [`Authority::enrolled`] workloads have
    /// acknowledged; `u64::MAX` where there are none.
    ///
    /// # Errors
    /// Those of the disk; what was done until then stays done.
    pub fn advance(&self, now: SystemTime, everybody_has: u64) -> Result<Phase, Error> {
        let told = everybody_has >= *self.generation.borrow();
        self.change(|inner| inner.advance(now, told))
    }

    /// What an operator wants to know.
    #[must_use]
    pub fn status(&self, now: SystemTime) -> Status {
        let generation = *self.generation.borrow();
        self.lock().status(generation, now)
    }

    /// Runs a change, and tells the watchers if it has changed the bundle.
    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> Result<T, Error>) -> Result<T, Error> {
        let mut inner = self.lock();
        let before = inner.bundle().clone();
        let result = change(&mut inner);
        if *inner.bundle() != before {
            self.generation.send_modify(|generation| *generation += 1);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}
