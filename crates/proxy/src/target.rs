//! What a route makes of a request's target: another path or host on the way, or a redirect to
//! elsewhere. Pure; called by `request` for the routes that have such.

use crate::exchange::Exchange;
use crate::snapshot::Listener;
use model::{PathChange, Redirect, Rewrite};

/// A request that came in absolute form may have no path.
const ROOT: &[u8] = b"/";

/// The line `location` of a redirect of a route with this prefix; `None` if nobody knows the host.
pub(crate) fn location(
    redirect: &Redirect,
    prefix: &[u8],
    exchange: &Exchange,
    bytes: &[u8],
) -> Option<Vec<u8>> {
    let request = &exchange.request;
    let asked = || request.authority.or(request.host).map(|it| it.of(bytes));
    let host = match &redirect.host {
        Some(host) => host.as_bytes(),
        None => without_port(asked()?),
    };
    if host.is_empty() {
        return None;
    }
    let mut line = b"location: ".to_vec();
    line.extend_from_slice(redirect.scheme.label().as_bytes());
    line.extend_from_slice(b"://");
    line.extend_from_slice(host);
    if redirect.port != redirect.scheme.port() {
        line.extend_from_slice(format!(":{}", redirect.port).as_bytes());
    }
    let path = request.path.of(bytes);
    match &redirect.path {
        Some(change) => change_path(change, prefix, path, &mut line),
        None => {
            if !path.starts_with(ROOT) {
                line.extend_from_slice(ROOT);
            }
            line.extend_from_slice(path);
        }
    }
    line.extend_from_slice(b"\r\n");
    Some(line)
}

/// Changes the target of a request that goes on.
pub(crate) fn rewrite(
    rewrite: &Rewrite,
    prefix: &[u8],
    exchange: &mut Exchange,
    (bytes, listener): (&[u8], &Listener),
) {
    if let Some(change) = &rewrite.path {
        let mut path = std::mem::take(&mut exchange.request.path_instead);
        path.clear();
        change_path(change, prefix, exchange.request.path.of(bytes), &mut path);
        exchange.request.path_instead = path;
    }
    let Some(host) = &rewrite.host else { return };
    let request = &exchange.request;
    if listener.edge.is_some()
        && let Some(asked) = request.authority.or(request.host)
    {
        add(exchange, b"x-forwarded-host", asked.of(bytes));
    }
    exchange.drop_request_line(bytes, "host");
    add(exchange, b"host", host.as_bytes());
}

fn add(exchange: &mut Exchange, name: &[u8], value: &[u8]) {
    let extra = &mut exchange.request_extra;
    for part in [name, b": ", value, b"\r\n"] {
        extra.extend_from_slice(part);
    }
}

/// Writes what becomes of `path`, which a route with `prefix` matched, with its query.
fn change_path(change: &PathChange, prefix: &[u8], path: &[u8], out: &mut Vec<u8>) {
    let query = path.iter().position(|byte| *byte == b'?');
    let (path, query) = path.split_at(query.unwrap_or(path.len()));
    match change {
        PathChange::Full(full) => out.extend_from_slice(full.as_bytes()),
        PathChange::Prefix(with) => {
            let rest = path.strip_prefix(prefix).unwrap_or_default();
            let with = with.as_bytes();
            let with = with.strip_suffix(ROOT).unwrap_or(with);
            out.extend_from_slice(with);
            let has_slash = prefix.ends_with(ROOT) && !rest.starts_with(ROOT);
            if has_slash || with.is_empty() && rest.is_empty() {
                out.extend_from_slice(ROOT);
            }
            out.extend_from_slice(rest);
        }
    }
    out.extend_from_slice(query);
}

fn without_port(authority: &[u8]) -> &[u8] {
    match authority.iter().rposition(|byte| *byte == b':') {
        Some(colon) if authority[colon + 1..].iter().all(u8::is_ascii_digit) => &authority[..colon],
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Scheme;
    use wire::http1::{Limits, Parsed};

    #[track_caller]
    fn changed(change: &PathChange, prefix: &str, path: &str, expected: &str) {
        let mut out = Vec::new();
        change_path(change, prefix.as_bytes(), path.as_bytes(), &mut out);
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out, expected, "{prefix} of {path}");
    }

    #[test]
    fn segments_take_the_place_of_segments() {
        let to = |with: &str| PathChange::Prefix(with.to_owned());
        for (prefix, with, path, expected) in [
            ("/foo", "/xyz", "/foo/bar", "/xyz/bar"),
            ("/foo", "/xyz", "/foo", "/xyz"),
            ("/foo", "/xyz", "/foo/", "/xyz/"),
            ("/foo", "/", "/foo/bar", "/bar"),
            ("/foo", "/", "/foo/", "/"),
            ("/foo", "/", "/foo", "/"),
            ("/foo", "/", "/foo?a=/foo", "/?a=/foo"),
            ("/foo/", "/xyz", "/foo/bar", "/xyz/bar"),
            ("/foo/", "/", "/foo/bar", "/bar"),
            ("/foo/", "/", "/foo/", "/"),
            ("/", "/xyz", "/bar?q", "/xyz/bar?q"),
            ("/", "/xyz", "/", "/xyz/"),
            ("/", "/", "/bar", "/bar"),
            ("/", "/xyz", "", "/xyz/"),
            ("/", "/", "?q", "/?q"),
            ("/", "/xyz", "*", "/xyz/"),
            ("/foo", "/xyz", "/foo//bar", "/xyz//bar"),
        ] {
            changed(&to(with), prefix, path, expected);
        }
        let full = PathChange::Full("/all".to_owned());
        changed(&full, "/foo", "/foo/bar?q=1", "/all?q=1");
        changed(&full, "/", "", "/all");
    }

    fn redirect(port: u16, host: Option<&str>) -> Redirect {
        Redirect {
            scheme: Scheme::Https,
            host: host.map(str::to_owned),
            port,
            path: None,
            status: 301,
        }
    }

    #[track_caller]
    fn located(redirect: &Redirect, head: &str, expected: Option<&str>) {
        let mut exchange = Exchange::default();
        let limits = Limits {
            head_bytes: 1000,
            headers: 10,
        };
        let parsed = exchange.request.parse(head.as_bytes(), &limits);
        assert_eq!(parsed, Ok(Parsed::Complete));
        let line = location(redirect, b"/", &exchange, head.as_bytes());
        let line = line.map(|line| String::from_utf8(line).unwrap());
        let expected = expected.map(|to| format!("location: {to}\r\n"));
        assert_eq!(line, expected, "{head}");
    }

    #[test]
    fn a_redirect_keeps_what_it_does_not_change() {
        let head = "GET /a/b?c HTTP/1.1\r\nhost: shop.example:8080\r\n\r\n";
        let to = redirect(443, None);
        located(&to, head, Some("https://shop.example/a/b?c"));
        let to = redirect(8443, None);
        located(&to, head, Some("https://shop.example:8443/a/b?c"));
        let to = redirect(443, Some("www.example"));
        located(&to, head, Some("https://www.example/a/b?c"));
        let path = Some(PathChange::Full("/new".to_owned()));
        let to = Redirect { path, ..to };
        located(&to, head, Some("https://www.example/new?c"));
    }

    #[test]
    fn a_redirect_needs_a_host() {
        let to = redirect(443, None);
        located(&to, "GET / HTTP/1.0\r\n\r\n", None);
        located(&to, "GET / HTTP/1.1\r\nhost: \r\n\r\n", None);
        let absolute = "GET http://a.example:80?x HTTP/1.1\r\nhost: a.example\r\n\r\n";
        located(&to, absolute, Some("https://a.example/?x"));
        let v6 = "GET / HTTP/1.1\r\nhost: [::1]:80\r\n\r\n";
        located(&to, v6, Some("https://[::1]/"));
        let named = redirect(443, Some("a.example"));
        located(&named, "GET / HTTP/1.0\r\n\r\n", Some("https://a.example/"));
    }
}
