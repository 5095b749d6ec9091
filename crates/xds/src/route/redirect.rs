//! A route that tells clients to ask elsewhere, as `envoy.config.route.v3.RedirectAction`. Scheme
//! and port are always said: what Envoy would make of the ones that came depends on more than them.

use model::{PathChange, Redirect, Scheme};

use super::path;
use crate::check;
use crate::error::Error;
use crate::place::Place;
use crate::proto::route::RedirectAction;

/// Of a route with this prefix.
pub(super) fn encode(redirect: &Redirect, prefix: &str) -> RedirectAction {
    let fields = match &redirect.path {
        Some(change @ PathChange::Prefix(_)) => path::encode(change, prefix),
        Some(PathChange::Full(_)) | None => path::Fields::default(),
    };
    let full = match &redirect.path {
        Some(PathChange::Full(path)) => Some(path.clone()),
        _ => None,
    };
    let statuses = Redirect::STATUSES.iter();
    let code = statuses.zip(0..).find(|(it, _)| **it == redirect.status);
    RedirectAction {
        host_redirect: redirect.host.clone().unwrap_or_default(),
        path_redirect: full,
        response_code: code.map_or(0, |(_, code)| code),
        prefix_rewrite: fields.prefix_rewrite,
        scheme_redirect: Some(redirect.scheme.label().to_owned()),
        port_redirect: redirect.port.into(),
        regex_rewrite: fields.regex_rewrite,
    }
}

/// For a route with this prefix.
pub(super) fn decode(
    action: RedirectAction,
    prefix: &str,
    at: &Place<'_>,
) -> Result<Redirect, Error> {
    let schemes = [Scheme::Http, Scheme::Https];
    let scheme = action.scheme_redirect.as_deref();
    let scheme = schemes.into_iter().find(|it| scheme == Some(it.label()));
    let port = u16::try_from(action.port_redirect).unwrap_or_default();
    let (Some(scheme), 1..) = (scheme, port) else {
        let reason = "where to is said in full; send scheme_redirect, http or https, and \
                      port_redirect";
        return Err(Error::invalid(at, reason));
    };
    let code = usize::try_from(action.response_code).unwrap_or(usize::MAX);
    let status = Redirect::STATUSES.get(code).copied();
    let status =
        status.ok_or_else(|| Error::invalid(&at.field("response_code"), "not one of Envoy's"))?;
    let fields = path::Fields {
        prefix_rewrite: action.prefix_rewrite,
        regex_rewrite: action.regex_rewrite,
    };
    let redirect = Redirect {
        scheme,
        host: Some(action.host_redirect).filter(|host| !host.is_empty()),
        port,
        path: match action.path_redirect {
            Some(path) => Some(PathChange::Full(path)),
            None => path::decode(fields, prefix, at)?,
        },
        status,
    };
    Ok(redirect)
}

/// Checks the invariants of `model::Redirect`, of a route with this prefix.
pub(super) fn check(redirect: &Redirect, at: &Place<'_>) -> Result<(), Error> {
    if redirect.port == 0 || !Redirect::STATUSES.contains(&redirect.status) {
        let reason = "not a port, or not a status of redirects; send 301, 302, 303, 307 or 308";
        return Err(Error::invalid(at, reason));
    }
    let host = redirect.host.as_deref();
    host.map_or(Ok(()), |host| check::plain_host(host, &at.field("host")))
}
