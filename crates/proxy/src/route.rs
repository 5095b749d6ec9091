//! Which route a request takes: the most specific host, then the longest path. Pure; called by
//! `request` once per request.

use crate::snapshot::Route;
use model::HostMatch;
use std::sync::Arc;

/// The routes of one listener, in the order in which they are tried.
pub(crate) struct Table {
    rows: Vec<(Host, Arc<Route>)>,
    /// Some route is not for everyone.
    closed: bool,
}

/// Ordered from specific to general.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Host {
    Exact(String),
    /// Longer suffixes first. With the leading dot.
    Suffix(std::cmp::Reverse<usize>, String),
    Any,
}

impl Host {
    fn build(host: &HostMatch) -> Self {
        match host {
            HostMatch::Any => Self::Any,
            HostMatch::Exact(name) => Self::Exact(name.to_ascii_lowercase()),
            HostMatch::Suffix(name) => {
                let suffix = format!(".{}", name.trim_start_matches(['*', '.']));
                Self::Suffix(std::cmp::Reverse(suffix.len()), suffix.to_ascii_lowercase())
            }
        }
    }

    fn fits(&self, host: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(name) => host.eq_ignore_ascii_case(name.as_bytes()),
            Self::Suffix(_, suffix) => {
                host.len() > suffix.len()
                    && host[host.len() - suffix.len()..].eq_ignore_ascii_case(suffix.as_bytes())
            }
        }
    }
}

impl Table {
    /// Orders `routes`, each with the hosts it serves (none: all); of two alike, the first wins.
    pub(crate) fn build(routes: Vec<(Vec<HostMatch>, Route)>) -> Self {
        let mut rows = Vec::new();
        for (hosts, route) in routes {
            let route = Arc::new(route);
            let any = if hosts.is_empty() {
                &[HostMatch::Any][..]
            } else {
                &hosts
            };
            rows.extend(
                any.iter()
                    .map(|host| (Host::build(host), Arc::clone(&route))),
            );
        }
        rows.sort_by(|(host, route), (other_host, other)| {
            let prefixes = other.prefix.len().cmp(&route.prefix.len());
            let exact = other.exact.cmp(&route.exact);
            host.cmp(other_host).then(prefixes).then(exact)
        });
        let closed = rows.iter().any(|(_, route)| route.allow.is_some());
        Self { rows, closed }
    }

    /// Whether `path` may be matched here. Where some routes are closed, a path that an application
    /// may read as another one (`//admin`, `/x/../admin`, `/%61dmin`) must not find an open one.
    pub(crate) fn takes(&self, path: &[u8]) -> bool {
        !self.closed || is_plain(without_query(path))
    }

    /// Every route, some more than once.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.rows.iter().map(|(_, route)| route)
    }

    /// Whether a route depends on the host.
    pub(crate) fn has_hosts(&self) -> bool {
        self.rows.iter().any(|(host, _)| *host != Host::Any)
    }

    /// The route for `authority` (host with or without port) and `path`.
    pub(crate) fn find(&self, authority: &[u8], path: &[u8]) -> Option<&Arc<Route>> {
        let host = without_port(authority);
        let path = without_query(path);
        let fits = |(host_match, route): &&(Host, Arc<Route>)| {
            path_fits(route, path) && host_match.fits(host)
        };
        self.rows.iter().find(fits).map(|(_, route)| route)
    }
}

/// `/a` fits `/a` and `/a/b`, not `/ab` (as the Gateway API's `PathPrefix`), an exact `/a` only
/// itself. Every request has a path, be it unsaid.
fn path_fits(route: &Route, path: &[u8]) -> bool {
    let prefix = &*route.prefix;
    let Some(rest) = path.strip_prefix(prefix) else {
        return prefix == b"/" && (!route.exact || path.is_empty());
    };
    rest.is_empty() || !route.exact && (rest[0] == b'/' || prefix.ends_with(b"/"))
}

/// Whether a path means only what it says: no empty or dot segments, no parameters of segments
/// (which some servers cut off), no encoded letters, digits, blanks, dots or slashes, no
/// backslashes.
fn is_plain(path: &[u8]) -> bool {
    let segment = |segment: &[u8]| !matches!(segment, b"" | b"." | b"..");
    let inner = path.strip_prefix(b"/").unwrap_or(path);
    let inner = inner.strip_suffix(b"/").unwrap_or(inner);
    let segments = inner.is_empty() || inner.split(|byte| *byte == b'/').all(segment);
    segments
        && !path.iter().any(|byte| matches!(byte, b'\\' | b';'))
        && !path.windows(3).any(is_encoded_for_nothing)
}

/// `%XX` for a byte that needs no encoding, or that would be a separator.
fn is_encoded_for_nothing(three: &[u8]) -> bool {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [b'%', high, low] = *three else {
        return false;
    };
    let (Some(high), Some(low)) = (digit(high), digit(low)) else {
        return true;
    };
    let byte = u8::try_from(high * 16 + low).unwrap_or(b'/');
    // A blank at a segment's end is cut off by some.
    let is_separator = matches!(byte, b'/' | b'\\' | b';' | 0..=b' ');
    is_separator || byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn without_query(path: &[u8]) -> &[u8] {
    let end = path
        .iter()
        .position(|byte| *byte == b'?')
        .unwrap_or(path.len());
    &path[..end]
}

fn without_port(authority: &[u8]) -> &[u8] {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let host = match authority.iter().rposition(|byte| *byte == b':') {
        Some(colon) if authority[colon + 1..].iter().all(is_digit) => &authority[..colon],
        _ => authority,
    };
    // `a.example.` is `a.example`, written as the root of names sees it.
    host.strip_suffix(b".").unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(prefix: &str, cluster: usize) -> Route {
        Route {
            prefix: prefix.as_bytes().into(),
            exact: false,
            backends: Box::new([(cluster, 1)]),
            redirect: None,
            allow: None,
            rewrite: None,
            filters: Vec::new(),
            timeout: None,
        }
    }

    fn exactly(path: &str, cluster: usize) -> Route {
        Route {
            exact: true,
            ..route(path, cluster)
        }
    }

    fn check(authority: &str, path: &str, cluster: Option<usize>) {
        let exact = |name: &str| vec![HostMatch::Exact(name.into())];
        let suffix = |name: &str| vec![HostMatch::Suffix(name.into())];
        let table = Table::build(vec![
            (vec![HostMatch::Any], route("/", 0)),
            (vec![HostMatch::Any], route("/api", 1)),
            (suffix("example.org"), route("/", 2)),
            (suffix("deep.example.org"), route("/", 3)),
            (exact("www.example.org"), route("/only", 4)),
            (exact("[::1]"), route("/", 5)),
            (vec![HostMatch::Any], exactly("/api", 6)),
            (vec![HostMatch::Any], exactly("/api/", 7)),
            (vec![HostMatch::Any], exactly("/", 8)),
        ]);
        let found = table.find(authority.as_bytes(), path.as_bytes());
        assert_eq!(
            found.and_then(|route| route.pick(|| 0)),
            cluster,
            "{authority}{path}"
        );
    }

    #[test]
    fn the_longest_prefix_of_whole_segments_wins() {
        check("a", "/other", Some(0));
        check("a", "/apis", Some(0));
        check("a", "/api/y", Some(1));
        check("a", "/api/x?y=/", Some(1));
        check("a", "*", Some(0));
    }

    #[test]
    fn an_exact_path_wins_over_what_begins_with_it() {
        check("a", "/api", Some(6));
        check("a", "/api?x", Some(6));
        check("a", "/api/", Some(7));
        check("a", "/api//", Some(1));
        check("a", "/", Some(8));
        check("a", "?x", Some(8));
        check("a", "", Some(8));
        check("www.example.org", "/", Some(2));
    }

    #[test]
    fn the_most_specific_host_wins_whatever_its_case_and_port() {
        check("x.example.org", "/", Some(2));
        check("X.Deep.Example.org:8080", "/", Some(3));
        check("example.org", "/x", Some(0));
        check("www.example.org:80", "/only/this", Some(4));
        check("[::1]:8080", "/", Some(5));
        check("www.example.org.", "/only", Some(4));
    }

    #[test]
    fn a_host_without_a_fitting_prefix_falls_through_to_the_next() {
        check("www.example.org", "/other", Some(2));
        check("other.org", "/apis", Some(0));
    }

    #[test]
    fn a_path_that_could_be_read_as_another_is_refused_beside_closed_routes() {
        for path in [
            "/",
            "/a",
            "/a/",
            "/a/b.c/..d",
            "/a?x=//%61/../",
            "*",
            "/%e4",
        ] {
            assert!(is_plain(without_query(path.as_bytes())), "{path}");
        }
        for path in [
            "//a",
            "/a//b",
            "/./a",
            "/a/..",
            "/a/../b",
            "/%61",
            "/%2e%2e/a",
            "/a%2fb",
        ] {
            assert!(!is_plain(without_query(path.as_bytes())), "{path}");
        }
        for path in ["/a;x", "/.;/a", "/%3Ba", "/a%20", "/a%09b"] {
            assert!(!is_plain(without_query(path.as_bytes())), "{path}");
        }
        for path in ["/a\\b", "/a%5Cb", "/%zz", "/a%00"] {
            assert!(!is_plain(without_query(path.as_bytes())), "{path}");
        }
        let open = Table::build(vec![(Vec::new(), route("/", 0))]);
        assert!(open.takes(b"//a"));
        let closed = Route {
            allow: Some(Vec::new()),
            ..route("/a", 0)
        };
        assert!(!Table::build(vec![(Vec::new(), closed)]).takes(b"//a"));
    }

    #[test]
    fn nothing_fits_an_empty_table() {
        assert!(Table::build(Vec::new()).find(b"a", b"/").is_none());
    }
}
