//! A throw-away authority and the two sidecars' certificates, valid for a day.
//! Made once per run; every data plane uses the same files.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use identity::SpiffeId;
use identity::ca::{Authority, LEAF_TTL};

use super::Side;

/// The trust domain of a benchmark's mesh.
pub const TRUST_DOMAIN: &str = "cluster.local";

/// Where the files are.
#[derive(Debug)]
pub struct Certificates {
    dir: PathBuf,
}

impl Certificates {
    /// Makes the authority and both certificates in `dir`.
    ///
    /// # Errors
    /// When they cannot be made or written.
    pub fn make(dir: &Path) -> anyhow::Result<Self> {
        let now = SystemTime::now();
        let authority = Authority::create(TRUST_DOMAIN, now).context("making an authority")?;
        authority.save(dir)?;
        for side in [Side::Client, Side::Server] {
            let id = SpiffeId::parse(&spiffe_id(side))?;
            authority
                .issue(&id, LEAF_TTL, now)?
                .save(dir, side.name())?;
        }
        Ok(Self {
            dir: dir.to_path_buf(),
        })
    }

    /// PEM of the authority that both sides trust.
    pub fn trust_bundle(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// PEM chain of one side.
    pub fn chain(&self, side: Side) -> PathBuf {
        self.dir.join(format!("{}.pem", side.name()))
    }

    /// PEM key of one side.
    pub fn key(&self, side: Side) -> PathBuf {
        self.dir.join(format!("{}.key", side.name()))
    }
}

/// The service account, and workload name, of one side: the names of Istio's harness.
pub fn account(side: Side) -> &'static str {
    match side {
        Side::Client => "fortioclient",
        Side::Server => "fortioserver",
        Side::Gateway => "istio-ingressgateway",
    }
}

/// The SPIFFE id of one side.
pub fn spiffe_id(side: Side) -> String {
    format!("spiffe://{TRUST_DOMAIN}/ns/default/sa/{}", account(side))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_a_chain_and_a_key() {
        let dir = tempfile::tempdir().unwrap();
        let certificates = Certificates::make(dir.path()).unwrap();
        assert!(certificates.trust_bundle().is_file());
        for side in [Side::Client, Side::Server] {
            assert!(certificates.chain(side).is_file());
            assert!(certificates.key(side).is_file());
        }
    }
}
