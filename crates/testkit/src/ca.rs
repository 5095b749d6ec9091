//! An authority and identities in a temporary directory. Used by every test with mutual TLS.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use identity::SpiffeId;
use identity::ca::Authority;
use identity::credentials::{Credentials, Paths};
use tempfile::TempDir;

/// The trust domain of all tests.
pub const TRUST_DOMAIN: &str = "cluster.local";

/// An authority, with a directory that is removed with it.
pub struct TestCa {
    dir: TempDir,
    authority: Authority,
}

/// A workload's identity: the files of its credentials.
#[derive(Debug, Clone)]
pub struct TestIdentity {
    /// Who it is.
    pub id: SpiffeId,
    /// Where its files lie.
    pub paths: Paths,
}

impl TestCa {
    /// A new authority; its certificate is written as `ca.pem`.
    ///
    /// # Panics
    /// If the directory cannot be written.
    #[must_use]
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        // Since yesterday, so that it can issue what has expired today.
        let yesterday = SystemTime::now() - Duration::from_secs(24 * 60 * 60);
        let authority =
            Authority::create(TRUST_DOMAIN, yesterday).expect("an authority can be made");
        authority
            .save(dir.path())
            .expect("the authority can be written");
        Self { dir, authority }
    }

    /// Issues an identity for a service account in the namespace `default`; again: renews it.
    ///
    /// # Panics
    /// If the files cannot be written.
    #[must_use]
    pub fn identity(&self, service_account: &str) -> TestIdentity {
        self.identity_at(
            service_account,
            Duration::from_secs(3600),
            SystemTime::now(),
        )
    }

    /// As [`TestCa::identity`], issued at `now` for `ttl`.
    ///
    /// # Panics
    /// If the files cannot be written.
    #[must_use]
    pub fn identity_at(&self, name: &str, ttl: Duration, now: SystemTime) -> TestIdentity {
        let id = SpiffeId::of_service_account(TRUST_DOMAIN, "default", name)
            .expect("tests use plain names");
        let issued = self
            .authority
            .issue(&id, ttl, now)
            .expect("a leaf can be issued");
        issued
            .save(self.dir.path(), name)
            .expect("the leaf can be written");
        let paths = Paths {
            certificate: self.dir.path().join(format!("{name}.pem")),
            key: self.dir.path().join(format!("{name}.key")),
            trust_bundle: self.bundle(),
        };
        TestIdentity { id, paths }
    }

    /// Where the trust bundle lies.
    #[must_use]
    pub fn bundle(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The authority.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }
}

impl Default for TestCa {
    fn default() -> Self {
        Self::new()
    }
}

impl TestIdentity {
    /// Reads the files.
    ///
    /// # Panics
    /// If they are not good.
    #[track_caller]
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        Credentials::load(&self.paths, TRUST_DOMAIN).expect("the test authority's files are good")
    }

    /// The same identity, trusting another bundle.
    #[must_use]
    pub fn trusting(&self, bundle: impl Into<PathBuf>) -> Self {
        let mut other = self.clone();
        other.paths.trust_bundle = bundle.into();
        other
    }
}
