//! What names, ids, hosts, paths and headers may be: the rules of the configuration file, for what
//! comes over the wire and for what is to be sent. Must never correct what it reads.

use std::net::SocketAddr;

use model::{Filter, HostMatch, PathChange};

use crate::error::Error;
use crate::place::Place;

/// Longest name: a DNS name's length and room for what we put before it, twice over.
const NAME_BYTES_MAX: usize = 512;
/// Longest host (RFC 1035, section 2.3.4).
const HOST_BYTES_MAX: usize = 253;
/// Longest SPIFFE id (SPIFFE-ID, section 2.3).
const ID_BYTES_MAX: usize = 2048;
/// Longest trust domain (SPIFFE-ID, section 2.1).
const TRUST_DOMAIN_BYTES_MAX: usize = 255;

fn ensure(holds: bool, at: &Place<'_>, reason: &str) -> Result<(), Error> {
    match holds {
        true => Ok(()),
        false => Err(Error::invalid(at, reason)),
    }
}

/// Visible ASCII that prints alike in metrics, logs and URLs.
pub(crate) fn name(text: &str, at: &Place<'_>) -> Result<(), Error> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:@|[]".contains(&b);
    let holds = (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(plain);
    ensure(
        holds,
        at,
        "not a name; use letters, digits and - _ . / : @ | [ ]",
    )
}

/// The SPIFFE id of a workload: with a path.
pub(crate) fn spiffe_id(text: &str, at: &Place<'_>) -> Result<(), Error> {
    ensure(
        is_spiffe_id(text),
        at,
        "not a SPIFFE id; write spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT",
    )
}

fn is_spiffe_id(text: &str) -> bool {
    let Some((domain, path)) = text
        .strip_prefix("spiffe://")
        .and_then(|rest| rest.split_once('/'))
    else {
        return false;
    };
    let of_domain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_".contains(&b);
    let of_path = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
    let is_segment = |text: &str| !matches!(text, "" | "." | "..") && text.bytes().all(of_path);
    text.len() <= ID_BYTES_MAX
        && (1..=TRUST_DOMAIN_BYTES_MAX).contains(&domain.len())
        && domain.bytes().all(of_domain)
        && path.split('/').all(is_segment)
}

/// Several of them, none twice. `at` is the list.
pub(crate) fn spiffe_ids(ids: &[String], at: &Place<'_>) -> Result<(), Error> {
    let mut sorted: Vec<_> = ids.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    ensure(
        sorted.len() == ids.len(),
        at,
        "an id is listed twice; remove one",
    )?;
    ids.iter().try_for_each(|id| spiffe_id(id, at))
}

/// The beginning of a path, in whole segments.
pub(crate) fn prefix(text: &str, at: &Place<'_>) -> Result<(), Error> {
    let plain = |b: u8| b.is_ascii_graphic() && b != b'?' && b != b'#';
    let holds = text.starts_with('/') && text.bytes().all(plain);
    ensure(
        holds,
        at,
        "not a path; begin with /, without ? and #, blanks as %20",
    )
}

/// A host as routes have them.
pub(crate) fn host(host: &HostMatch, at: &Place<'_>) -> Result<(), Error> {
    let holds = match host {
        HostMatch::Any => true,
        HostMatch::Exact(name) => is_host(name),
        HostMatch::Suffix(suffix) => suffix.strip_prefix('.').is_some_and(is_host),
    };
    ensure(
        holds,
        at,
        "not a host; write a lower-case name or address without port, *.SUFFIX or *",
    )
}

/// A host that requests are sent to, or that is sent in their place.
pub(crate) fn plain_host(text: &str, at: &Place<'_>) -> Result<(), Error> {
    host(&HostMatch::Exact(text.to_owned()), at)
}

/// What takes the place of a path, or of its beginning.
pub(crate) fn path_change(change: &PathChange, at: &Place<'_>) -> Result<(), Error> {
    let (PathChange::Full(text) | PathChange::Prefix(text)) = change;
    prefix(text, at)?;
    let is_prefix = matches!(change, PathChange::Prefix(_));
    let ends = is_prefix && text.len() > 1 && text.ends_with('/');
    ensure(
        !ends && !text.contains('\\'),
        at,
        "not what a path becomes; send it without backslashes, prefixes without a slash at the end",
    )
}

/// A name that DNS is asked for: lower case, without a dot at the end.
pub(crate) fn dns_name(text: &str, at: &Place<'_>) -> Result<(), Error> {
    let holds = is_host(text) && !text.starts_with('[');
    ensure(
        holds,
        at,
        "not a lower-case DNS name without a dot at the end",
    )
}

fn is_host(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b);
    let label = |label: &str| !label.is_empty() && label.bytes().all(plain);
    let inner = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => name.len() <= HOST_BYTES_MAX && name.split('.').all(label),
    }
}

fn is_token(text: &str) -> bool {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(token)
}

/// A header that a filter may touch (RFC 9110, section 5.1: a token).
pub(crate) fn header_name(text: &str, at: &Place<'_>) -> Result<(), Error> {
    let framing = Filter::FRAMING
        .iter()
        .any(|name| text.eq_ignore_ascii_case(name));
    ensure(
        !framing,
        at,
        "the proxy sets this header itself; choose another",
    )?;
    ensure(
        is_token(text),
        at,
        "not a header name; use letters, digits and -",
    )
}

/// What a header may be set to (RFC 9110, section 5.5).
pub(crate) fn header_value(text: &str, at: &Place<'_>) -> Result<(), Error> {
    let control = |c: char| c.is_control() && c != '\t';
    let holds = !text.chars().any(control) && text.trim() == text;
    ensure(
        holds,
        at,
        "not a header value; remove control characters and blanks at the ends",
    )
}

/// Upgrades of a listener: lower-case tokens, or `*` alone. `at` is the list.
pub(crate) fn upgrades(words: &[String], at: &Place<'_>) -> Result<(), Error> {
    let one = |word: &String| {
        let token = word.split('/').all(is_token) && !word.contains('*');
        let lower = !word.bytes().any(|b| b.is_ascii_uppercase());
        ensure(
            (token && lower && word != "h2c" && word != "connect")
                || (word == "*" && words.len() == 1),
            at,
            "not an upgrade; write names in lower case, not h2c or connect, or * alone",
        )
    };
    words.iter().try_for_each(one)
}

/// Where an endpoint may be.
pub(crate) fn endpoint(address: SocketAddr, at: &Place<'_>) -> Result<(), Error> {
    let holds = address.port() != 0 && !address.ip().is_unspecified();
    ensure(
        holds,
        at,
        "cannot be connected to; send an address and a port",
    )
}
