//! The trust bundle, and certificates for clients outside of the mesh with their keys, as
//! `envoy.extensions.transport_sockets.tls.v3.Secret`. Keys of the mesh never travel: they are made
//! where they are used.

use std::fmt;

use model::TrustBundle;
use zeroize::Zeroizing;

use crate::check;
use crate::error::Error;
use crate::place::Place;
use crate::proto::core::DataSource;
use crate::proto::tls::{CertificateValidationContext, Secret, TlsCertificate};
use crate::tls::{CERTIFICATE, TRUST_BUNDLE};

const ROOT: Place<'_> = Place::root("secret");

/// A certificate with its key, to be shown to clients outside of the mesh. The key is never
/// printed, and wiped from memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Unique among the certificates; not one of [`crate::TRUST_BUNDLE`] and
    /// [`crate::CERTIFICATE`].
    pub name: String,
    /// PEM: the leaf, and what is between it and an authority that clients know.
    pub chain: String,
    /// PEM: the leaf's private key.
    pub key: Zeroizing<String>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What a message of this kind may be.
pub(crate) enum Decoded {
    Bundle(TrustBundle),
    Certificate(Certificate),
}

fn inline(pem: &str) -> DataSource {
    DataSource {
        inline_string: Some(pem.to_owned()),
        inline_bytes: None,
    }
}

/// The message that says so.
///
/// # Errors
/// A certificate without a name of its own, a chain or a key.
pub fn encode_certificate(certificate: &Certificate) -> Result<Secret, Error> {
    check_certificate(certificate)?;
    Ok(Secret {
        name: certificate.name.clone(),
        tls_certificate: Some(TlsCertificate {
            certificate_chain: Some(inline(&certificate.chain)),
            private_key: Some(inline(&certificate.key)),
        }),
        validation_context: None,
    })
}

/// The message that says so.
///
/// # Errors
/// A bundle without a name, or without an authority.
pub fn encode(bundle: &TrustBundle) -> Result<Secret, Error> {
    check_bundle(bundle)?;
    let has_crl = !bundle.revocations.is_empty();
    Ok(Secret {
        name: bundle.name.clone(),
        tls_certificate: None,
        validation_context: Some(CertificateValidationContext {
            trusted_ca: Some(inline(&bundle.authorities)),
            crl: has_crl.then(|| inline(&bundle.revocations)),
            only_verify_leaf_cert_crl: has_crl,
            ..CertificateValidationContext::default()
        }),
    })
}

pub(crate) fn decode(secret: Secret) -> Result<Decoded, Error> {
    let Secret {
        name,
        tls_certificate,
        validation_context,
    } = secret;
    let Some(certificate) = tls_certificate else {
        return decode_bundle(name, validation_context).map(Decoded::Bundle);
    };
    let at = ROOT.field("tls_certificate");
    let certificate = Certificate {
        name,
        chain: text(
            certificate.certificate_chain,
            &at.field("certificate_chain"),
        )?,
        key: text(certificate.private_key, &at.field("private_key"))?.into(),
    };
    check_certificate(&certificate).map(|()| Decoded::Certificate(certificate))
}

fn check_certificate(certificate: &Certificate) -> Result<(), Error> {
    check::name(&certificate.name, &ROOT.field("name"))?;
    let at = ROOT.field("tls_certificate");
    if [TRUST_BUNDLE, CERTIFICATE].contains(&&*certificate.name) {
        let reason = "keys of the mesh are not taken from the control plane; name it otherwise";
        return Err(Error::invalid(&at, reason));
    }
    match certificate.chain.is_empty() || certificate.key.is_empty() {
        false => Ok(()),
        true => Err(Error::invalid(
            &at,
            "without a chain or a key; send both, inline",
        )),
    }
}

fn decode_bundle(
    name: String,
    context: Option<CertificateValidationContext>,
) -> Result<TrustBundle, Error> {
    let at = ROOT.field("validation_context");
    let Some(context) = context else {
        let reason = "missing; trust bundles and certificates are taken";
        return Err(Error::invalid(&at, reason));
    };
    if !context.match_typed_subject_alt_names.is_empty() {
        return Err(Error::unsupported(
            &at.field("match_typed_subject_alt_names"),
        ));
    }
    if context.crl.is_some() && !context.only_verify_leaf_cert_crl {
        let reason = "must be true: lists of revoked certificates are looked up for leaves";
        return Err(Error::invalid(
            &at.field("only_verify_leaf_cert_crl"),
            reason,
        ));
    }
    let bundle = TrustBundle {
        name,
        authorities: text(context.trusted_ca, &at.field("trusted_ca"))?,
        revocations: text(context.crl, &at.field("crl"))?,
    };
    check_bundle(&bundle).map(|()| bundle)
}

fn check_bundle(bundle: &TrustBundle) -> Result<(), Error> {
    check::name(&bundle.name, &ROOT.field("name"))?;
    match bundle.authorities.is_empty() {
        false => Ok(()),
        true => {
            let at = ROOT.field("validation_context");
            let reason = "no authority would be trusted; send at least one";
            Err(Error::invalid(&at.field("trusted_ca"), reason))
        }
    }
}

fn text(source: Option<DataSource>, at: &Place<'_>) -> Result<String, Error> {
    let Some(source) = source else {
        return Ok(String::new());
    };
    match (source.inline_string, source.inline_bytes) {
        (Some(text), _) => Ok(text),
        (None, Some(bytes)) => String::from_utf8(bytes.into())
            .map_err(|_| Error::invalid(&at.field("inline_bytes"), "not PEM; send a text")),
        (None, None) => Ok(String::new()),
    }
}
