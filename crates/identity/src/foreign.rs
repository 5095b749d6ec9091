//! TLS with a control plane that is not of the mesh, as the web has it: 1.2 and 1.3, its name is
//! in its certificate, which comes from an authority that a file holds. Called by the sidecar.
//! Never takes part in the mesh's own TLS, and never prints a key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::serving;

/// Why there is no configuration. None of them has anything of a key in it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Missing, or not PEM of what it should be.
    #[error("{} cannot be read ({why}); it must be PEM of {what}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What should be in it.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The certificate and its key do not go together, or no authority is any.
    #[error("the TLS configuration for the control plane cannot be made: {0}")]
    Rustls(#[from] rustls::Error),
    /// No authority, or none that is one.
    #[error("{} holds no authority that could be trusted", .0.display())]
    NoAuthority(PathBuf),
}

/// The configuration for connecting to a server whose certificate comes from one of the authorities
/// in `trust_bundle`. `own` is what this side shows: the files of a chain and its key.
///
/// # Errors
/// [`Error`].
pub fn client_config(
    trust_bundle: &Path,
    own: Option<(&Path, &Path)>,
    alpn: &[&[u8]],
) -> Result<Arc<ClientConfig>, Error> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(trust_bundle)?);
    if added == 0 {
        return Err(Error::NoAuthority(trust_bundle.to_owned()));
    }
    let provider = Arc::clone(serving::provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let verifier = verifier.build().map_err(|error| Error::File {
        path: trust_bundle.to_owned(),
        what: AUTHORITIES,
        why: error.to_string(),
    })?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_webpki_verifier(verifier);
    let mut config = match own {
        Some((chain, key)) => {
            let chain = certificates(chain)?;
            let key_at = |error: rustls_pki_types::pem::Error| unreadable(key, "a key", &error);
            let key = PrivateKeyDer::from_pem_file(key).map_err(key_at)?;
            builder.with_client_auth_cert(chain, key)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

const AUTHORITIES: &str = "certificates";

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|error| unreadable(path, AUTHORITIES, &error))
}

fn unreadable(path: &Path, what: &'static str, error: &rustls_pki_types::pem::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        what,
        why: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ca::Authority;
    use std::time::SystemTime;

    #[test]
    fn each_file_that_is_of_no_use_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let root = Authority::create("cluster.local", SystemTime::now()).unwrap();
        let good = file("good.pem", root.certificate_pem());
        let empty = file("empty.pem", "");
        let absent = dir.path().join("absent.pem");
        assert!(client_config(&good, None, &[b"h2"]).is_ok());
        for (bundle, own, named) in [
            (&empty, None, "empty.pem"),
            (&absent, None, "absent.pem"),
            (&good, Some((&*absent, &*good)), "absent.pem"),
            (&good, Some((&*good, &*empty)), "empty.pem"),
        ] {
            let error = client_config(bundle, own, &[]).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
