//! The trust bundle as `envoy.extensions.transport_sockets.tls.v3.Secret`. Keys never travel: they
//! are made where they are used.

use model::TrustBundle;

use crate::check;
use crate::error::Error;
use crate::place::Place;
use crate::proto::core::DataSource;
use crate::proto::tls::{CertificateValidationContext, Secret};

const ROOT: Place<'_> = Place::root("secret");

/// The message that says so.
///
/// # Errors
/// A bundle without a name, or without an authority.
pub fn encode(bundle: &TrustBundle) -> Result<Secret, Error> {
    check_bundle(bundle)?;
    let inline = |pem: &str| DataSource {
        inline_string: Some(pem.to_owned()),
        inline_bytes: None,
    };
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

pub(crate) fn decode(secret: Secret) -> Result<TrustBundle, Error> {
    if secret.tls_certificate.is_some() {
        let reason = "keys are not taken from the control plane; send trust bundles only";
        return Err(Error::invalid(&ROOT.field("tls_certificate"), reason));
    }
    let at = ROOT.field("validation_context");
    let Some(context) = secret.validation_context else {
        return Err(Error::invalid(&at, "missing; only trust bundles are taken"));
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
        name: secret.name,
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
