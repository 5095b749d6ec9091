//! A throw-away authority and the sidecars' certificates, valid for a day, P-256. Made once per
//! run; every data plane uses the same files. Beside its SPIFFE id a leaf has it as the subject's
//! common name, and a DNS name: some proxies check nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};
use time::{Duration, OffsetDateTime};

use super::Side;

/// The trust domain of a benchmark's mesh.
pub const TRUST_DOMAIN: &str = "cluster.local";

/// Clocks are read in seconds: a certificate made just now must be valid.
const BACKDATED: Duration = Duration::minutes(5);
const LIFE: Duration = Duration::days(1);

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
        fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        let made = Self::in_folder(dir);
        made.write().context("making certificates")?;
        Ok(made)
    }

    /// Those that [`Certificates::make`] has left in `dir`.
    pub(crate) fn in_folder(dir: &Path) -> Self {
        Self {
            dir: dir.to_path_buf(),
        }
    }

    fn write(&self) -> anyhow::Result<()> {
        let mut params = params("leno bench")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        fs::write(self.trust_bundle(), authority.pem())?;
        for side in [Side::Client, Side::Server] {
            let key = KeyPair::generate()?;
            let leaf = leaf_params(side)?.signed_by(&key, &authority)?.pem();
            let key = key.serialize_pem();
            fs::write(self.chain(side), &leaf)?;
            write_secret(&self.key(side), &key)?;
            write_secret(&self.pair(side), &format!("{leaf}{key}"))?;
        }
        Ok(())
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

    /// PEM chain and key of one side in one file.
    pub fn pair(&self, side: Side) -> PathBuf {
        self.dir.join(format!("{}.both", side.name()))
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

/// The DNS name of one side, for those who check no URI.
pub fn dns_name(side: Side) -> String {
    format!("{}.default.svc.{TRUST_DOMAIN}", account(side))
}

fn params(common_name: &str) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.not_before = OffsetDateTime::now_utc() - BACKDATED;
    params.not_after = OffsetDateTime::now_utc() + LIFE;
    Ok(params)
}

fn leaf_params(side: Side) -> anyhow::Result<CertificateParams> {
    let id = spiffe_id(side);
    let mut params = params(&id)?;
    params.subject_alt_names = vec![
        SanType::URI(id.try_into()?),
        SanType::DnsName(dns_name(side).try_into()?),
    ];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    Ok(params)
}

fn write_secret(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o600),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_a_chain_and_a_key() {
        let dir = tempfile::tempdir().unwrap();
        let certificates = Certificates::make(&dir.path().join("new")).unwrap();
        assert!(certificates.trust_bundle().is_file());
        for side in [Side::Client, Side::Server] {
            assert!(certificates.chain(side).is_file());
            assert!(certificates.key(side).is_file());
            let pair = fs::read_to_string(certificates.pair(side)).unwrap();
            assert!(pair.contains("CERTIFICATE") && pair.contains("PRIVATE KEY"));
        }
    }
}
