//! Certificates for the mTLS topology: one authority, one leaf for each side, P-256.
//! Written for every contestant alike, so a leaf has a DNS name beside its SPIFFE id: nginx checks
//! no other.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};

/// Who the client's sidecar is.
pub(crate) const CLIENT_ID: &str = "spiffe://cluster.local/ns/default/sa/client";
/// Who the server's sidecar is.
pub(crate) const SERVER_ID: &str = "spiffe://cluster.local/ns/default/sa/server";

/// Writes `ca.pem` and, for `client` and `server`, `NAME.pem`, `NAME.key` and `NAME.both`.
///
/// # Errors
/// When a key cannot be made or a file cannot be written.
pub(crate) fn write(folder: &Path) -> anyhow::Result<()> {
    let mut params = CertificateParams::new(Vec::new())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "leno bench");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    fs::write(folder.join("ca.pem"), authority.pem())?;
    for (name, id) in [("client", CLIENT_ID), ("server", SERVER_ID)] {
        let mut params = CertificateParams::new(vec![format!("{name}.mesh")])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names.push(SanType::URI(id.try_into()?));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate()?;
        let leaf = params.signed_by(&key, &authority)?;
        fs::write(folder.join(format!("{name}.pem")), leaf.pem())?;
        write_secret(&folder.join(format!("{name}.key")), &key.serialize_pem())?;
        let both = format!("{}{}", leaf.pem(), key.serialize_pem());
        write_secret(&folder.join(format!("{name}.both")), &both)?;
    }
    Ok(())
}

fn write_secret(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text)?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o600),
    )?)
}
