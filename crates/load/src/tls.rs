//! The generator's TLS settings, made into one rustls configuration before the run.
//! The crypto provider is passed explicitly: no process-wide default is set or needed.

mod peer;

use crate::{ClientTls, Error};
use peer::PeerCheck;
use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, WantsVerifier,
    client::WantsClientCert,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where Linux distributions keep the bundle of public CAs.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What every connection's TLS session is made from.
#[derive(Clone)]
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Client {
    /// Reads the files and settles the configuration for connections to `host`.
    pub(crate) fn build(settings: &ClientTls, host: &str) -> Result<Self, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(tls_error)?;
        let id = settings
            .server_name
            .as_deref()
            .filter(|name| name.contains("://"));
        let trust = || roots(settings.roots_pem.as_deref());
        let builder = match id {
            _ if settings.insecure => custom(builder, PeerCheck::any(provider)),
            Some(id) => custom(builder, PeerCheck::id(provider, trust()?, id)),
            None => builder.with_root_certificates(trust()?),
        };
        let mut config = match (&settings.certificate_pem, &settings.key_pem) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => {
                let chain = certificates(certificate)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(file_error(key))?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(tls_error)?
            }
            _ => {
                let hint = "a client certificate needs both --cert and --key";
                return Err(Error::Plan(hint.to_owned()));
            }
        };
        config.alpn_protocols = settings
            .alpn
            .iter()
            .map(|name| name.clone().into_bytes())
            .collect();
        let dns = settings.server_name.as_deref().filter(|_| id.is_none());
        let name = dns.unwrap_or(host);
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| Error::Plan(format!("{name:?} is no server name")))?;
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// A fresh session; tickets of earlier ones are used where the server gave some.
    pub(crate) fn session(&self) -> io::Result<ClientConnection> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map_err(io::Error::other)
    }
}

fn custom(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    check: PeerCheck,
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let check = Arc::new(check);
    builder.dangerous().with_custom_certificate_verifier(check)
}

fn roots(path: Option<&Path>) -> Result<RootCertStore, Error> {
    let system = || {
        SYSTEM_ROOTS
            .iter()
            .map(PathBuf::from)
            .find(|path| path.exists())
    };
    let path = path.map(Path::to_owned).or_else(system).ok_or_else(|| {
        Error::Plan("no CA bundle found on this system; name one with --cacert".to_owned())
    })?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(&path)?);
    if added == 0 {
        return Err(Error::Certificate {
            path,
            reason: "holds no CA certificate".to_owned(),
        });
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_file_iter(path).map_err(file_error(path))?;
    let chain: Vec<_> = found.collect::<Result<_, _>>().map_err(file_error(path))?;
    if chain.is_empty() {
        let reason = "holds no certificate in PEM".to_owned();
        return Err(Error::Certificate {
            path: path.to_owned(),
            reason,
        });
    }
    Ok(chain)
}

fn file_error(path: &Path) -> impl Fn(rustls::pki_types::pem::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::Certificate {
        path: path.clone(),
        reason: error.to_string(),
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "used as a mapping of results"
)]
fn tls_error(error: rustls::Error) -> Error {
    Error::Tls(error.to_string())
}
