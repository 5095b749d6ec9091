//! SPIFFE ids as the specification allows them, and nothing wider: what passes here may be
//! compared byte by byte. Used wherever a workload is named. Never normalises: an id in another
//! case or spelling is an error, not the same id.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

const SCHEME: &str = "spiffe://";
/// Longest id that implementations must accept (SPIFFE-ID section 2.3).
const ID_BYTES_MAX: usize = 2048;
/// Longest trust domain name (SPIFFE-ID section 2.1).
const TRUST_DOMAIN_BYTES_MAX: usize = 255;

/// A validated SPIFFE id, cheap to clone.
///
/// Invariant: the text is `spiffe://`, a valid trust domain, and a path of zero or more
/// valid segments; comparing text compares ids.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpiffeId(Arc<str>);

/// Why a text is not a SPIFFE id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text does not begin with the scheme.
    #[error(
        "`{0}` does not begin with `spiffe://`; \
         write spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT"
    )]
    Scheme(String),
    /// More than 2048 bytes.
    #[error("the id has {0} bytes, at most 2048 are allowed; shorten it")]
    Length(usize),
    /// Empty, too long, or with characters outside `a-z 0-9 . - _`.
    #[error("`{0}` is not a trust domain; use 1 to 255 of a-z, 0-9, `.`, `-` and `_`")]
    TrustDomain(String),
    /// An empty segment (also: a slash at the end), `.`, `..`, or a forbidden character.
    #[error(
        "`{0}` is not a path segment; \
         use A-Z, a-z, 0-9, `.`, `-` and `_`, no empty segment, `.` or `..`, no slash at the end"
    )]
    Segment(String),
}

impl SpiffeId {
    /// Checks `text` against the specification, strictly.
    ///
    /// # Errors
    /// One [`ParseError`] per rule.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.len() > ID_BYTES_MAX {
            return Err(ParseError::Length(text.len()));
        }
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| ParseError::Scheme(text.to_owned()))?;
        let (trust_domain, path) = match rest.split_once('/') {
            Some((trust_domain, path)) => (trust_domain, Some(path)),
            None => (rest, None),
        };
        check_trust_domain(trust_domain)?;
        for segment in path.into_iter().flat_map(|path| path.split('/')) {
            check_segment(segment)?;
        }
        Ok(Self(text.into()))
    }

    /// The id of a service account: `spiffe://<trust domain>/ns/<namespace>/sa/<service account>`.
    ///
    /// # Errors
    /// A part that may not stand in an id.
    pub fn of_service_account(
        trust_domain: &str,
        namespace: &str,
        service_account: &str,
    ) -> Result<Self, ParseError> {
        check_trust_domain(trust_domain)?;
        check_segment(namespace)?;
        check_segment(service_account)?;
        Self::parse(&format!(
            "{SCHEME}{trust_domain}/ns/{namespace}/sa/{service_account}"
        ))
    }

    /// The trust domain's name, without scheme or path.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        let rest = &self.0[SCHEME.len()..];
        rest.split_once('/')
            .map_or(rest, |(trust_domain, _)| trust_domain)
    }

    /// The path with its leading slash; empty for the id of a trust domain itself.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0[SCHEME.len() + self.trust_domain().len()..]
    }

    /// `N`, if the path is exactly `/ns/N/sa/S`.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.workload().map(|(namespace, _)| namespace)
    }

    /// `S`, if the path is exactly `/ns/N/sa/S`.
    #[must_use]
    pub fn service_account(&self) -> Option<&str> {
        self.workload().map(|(_, service_account)| service_account)
    }

    /// The whole id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn workload(&self) -> Option<(&str, &str)> {
        let mut segments = self.path().split('/').skip(1);
        let parts = (
            segments.next()?,
            segments.next()?,
            segments.next()?,
            segments.next()?,
        );
        match (parts, segments.next()) {
            (("ns", namespace, "sa", service_account), None) => Some((namespace, service_account)),
            _ => None,
        }
    }
}

/// Accepts the name of a trust domain, as it stands in an id.
///
/// # Errors
/// [`ParseError::TrustDomain`].
pub fn check_trust_domain(name: &str) -> Result<(), ParseError> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_".contains(&b);
    let long = name.is_empty() || name.len() > TRUST_DOMAIN_BYTES_MAX;
    if long || !name.bytes().all(allowed) {
        return Err(ParseError::TrustDomain(name.to_owned()));
    }
    Ok(())
}

fn check_segment(segment: &str) -> Result<(), ParseError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
    if matches!(segment, "" | "." | "..") || !segment.bytes().all(allowed) {
        return Err(ParseError::Segment(segment.to_owned()));
    }
    Ok(())
}

impl FromStr for SpiffeId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpiffeId({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<'a>(text: &str, expected: impl Into<Result<(&'a str, &'a str), ParseError>>) {
        let parsed = SpiffeId::parse(text);
        let parts = parsed.as_ref().map(|id| (id.trust_domain(), id.path()));
        assert_eq!(parts.map_err(Clone::clone), expected.into(), "{text}");
    }

    fn segment(text: &str) -> Result<(&'static str, &'static str), ParseError> {
        Err(ParseError::Segment(text.to_owned()))
    }

    fn domain(text: &str) -> Result<(&'static str, &'static str), ParseError> {
        Err(ParseError::TrustDomain(text.to_owned()))
    }

    #[test]
    fn accepts_what_the_specification_allows() {
        check("spiffe://cluster.local", Ok(("cluster.local", "")));
        check(
            "spiffe://cluster.local/ns/a/sa/b",
            Ok(("cluster.local", "/ns/a/sa/b")),
        );
        check(
            "spiffe://a_b-c.9/X_y-z.1/...",
            Ok(("a_b-c.9", "/X_y-z.1/...")),
        );
        let domain = "d".repeat(255);
        check(&format!("spiffe://{domain}/w"), Ok((domain.as_str(), "/w")));
    }

    #[test]
    fn refuses_other_schemes_and_spellings() {
        for text in [
            "",
            "cluster.local/a",
            "https://cluster.local/a",
            "SPIFFE://cluster.local/a",
        ] {
            check(text, Err(ParseError::Scheme(text.to_owned())));
        }
    }

    #[test]
    fn refuses_bad_trust_domains() {
        check("spiffe:///ns/a", domain(""));
        check("spiffe://Cluster.local/a", domain("Cluster.local"));
        check("spiffe://user@host/a", domain("user@host"));
        check("spiffe://host:80/a", domain("host:80"));
        check("spiffe://host?q", domain("host?q"));
        check("spiffe://h\u{f6}st/a", domain("h\u{f6}st"));
        check(
            &format!("spiffe://{}", "d".repeat(256)),
            domain(&"d".repeat(256)),
        );
    }

    #[test]
    fn refuses_bad_paths() {
        check("spiffe://td/", segment(""));
        check("spiffe://td/a/", segment(""));
        check("spiffe://td//a", segment(""));
        check("spiffe://td/./a", segment("."));
        check("spiffe://td/a/..", segment(".."));
        check("spiffe://td/a%20b", segment("a%20b"));
        check("spiffe://td/a?b=c", segment("a?b=c"));
        check("spiffe://td/a#b", segment("a#b"));
        check("spiffe://td/a\0b", segment("a\0b"));
    }

    #[test]
    fn refuses_more_than_2048_bytes() {
        let prefix = "spiffe://td/";
        let longest = format!("{prefix}{}", "x".repeat(2048 - prefix.len()));
        assert!(SpiffeId::parse(&longest).is_ok());
        check(&format!("{longest}x"), Err(ParseError::Length(2049)));
    }

    #[test]
    fn names_namespace_and_service_account_only_in_the_exact_shape() {
        let id = SpiffeId::of_service_account("cluster.local", "default", "web").unwrap();
        assert_eq!(id.as_str(), "spiffe://cluster.local/ns/default/sa/web");
        assert_eq!(
            (id.namespace(), id.service_account()),
            (Some("default"), Some("web"))
        );
        for text in [
            "spiffe://td",
            "spiffe://td/ns/a",
            "spiffe://td/ns/a/sa/b/c",
            "spiffe://td/x/a/sa/b",
        ] {
            let id = SpiffeId::parse(text).unwrap();
            assert_eq!(
                (id.namespace(), id.service_account()),
                (None, None),
                "{text}"
            );
        }
        assert!(SpiffeId::of_service_account("td", "a/sa/b", "c").is_err());
    }
}
