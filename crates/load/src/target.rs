//! Where the requests go and which bytes they are: the URL taken apart, its address, and the
//! request written once, before the run.

use crate::{Error, Plan};
use std::net::{SocketAddr, ToSocketAddrs};

/// The target of a run.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) authority: String,
}

impl Target {
    /// Takes a URL apart.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let fail = |reason| Error::Url {
            url: url.to_owned(),
            reason,
        };
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| fail("there is no scheme"))?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(fail("only http and https are known")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(fail("a user name in the URL is not supported"));
        }
        if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(fail("a space or control character must be percent-encoded"));
        }
        let (host, port) = split_port(authority).ok_or_else(|| fail("the port is no number"))?;
        if host.is_empty() {
            return Err(fail("there is no host"));
        }
        Ok(Self {
            tls,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: port.unwrap_or(if tls { 443 } else { 80 }),
            path: if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            },
            authority: authority.to_owned(),
        })
    }

    /// Takes an address apart: `host:port`, with or without `tcp://` before it.
    pub(crate) fn parse_address(text: &str) -> Result<Self, Error> {
        let authority = text.strip_prefix("tcp://").unwrap_or(text);
        let found = split_port(authority).and_then(|(host, port)| Some((host, port?)));
        let (host, port) = match found {
            Some((host, port)) if !host.is_empty() && !host.contains(['/', '@', ' ']) => {
                (host, port)
            }
            _ => return Err(Error::Address(text.to_owned())),
        };
        Ok(Self {
            tls: false,
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            path: String::new(),
            authority: authority.to_owned(),
        })
    }

    /// The address to connect to: the plan's, or the first one the name has.
    pub(crate) fn address(&self, plan: &Plan) -> Result<SocketAddr, Error> {
        if let Some(address) = plan.connect_to {
            return Ok(address);
        }
        let fail = |source| Error::Resolve {
            host: format!("{}:{}", self.host, self.port),
            source,
        };
        let mut found = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(fail)?;
        found
            .next()
            .ok_or_else(|| fail(std::io::ErrorKind::NotFound.into()))
    }

    /// The whole request, head and body.
    pub(crate) fn request(&self, plan: &Plan) -> Result<Vec<u8>, Error> {
        let has = |wanted: &str| has_header(plan, wanted);
        if !is_token(&plan.method) {
            return Err(Error::Plan(format!("{:?} is no HTTP method", plan.method)));
        }
        let mut head = format!("{} {} HTTP/1.1\r\n", plan.method, self.path);
        if !has("host") {
            head.push_str(&format!("Host: {}\r\n", self.authority));
        }
        if !has("user-agent") {
            head.push_str("User-Agent: leno-load\r\n");
        }
        for (name, value) in &plan.headers {
            if !is_token(name) || value.bytes().any(|byte| byte < b' ' && byte != b'\t') {
                return Err(no_header(name, value));
            }
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if states_length(plan) && !has("content-length") {
            head.push_str(&format!("Content-Length: {}\r\n", plan.body.len()));
        }
        head.push_str("\r\n");
        let mut request = head.into_bytes();
        request.extend_from_slice(&plan.body);
        Ok(request)
    }
}

/// Whether the plan brings this header, in whatever case.
pub(crate) fn has_header(plan: &Plan, wanted: &str) -> bool {
    let mut names = plan.headers.iter().map(|(name, _)| name);
    names.any(|name| name.eq_ignore_ascii_case(wanted))
}

/// Whether the request says how long its body is: where it has one, or its method expects one.
pub(crate) fn states_length(plan: &Plan) -> bool {
    let wants_body = matches!(plan.method.as_str(), "POST" | "PUT" | "PATCH");
    wants_body || !plan.body.is_empty()
}

/// The complaint about a header.
pub(crate) fn no_header(name: &str, value: &str) -> Error {
    let hint = "write --header 'Name: value'";
    Error::Plan(format!("{name:?}: {value:?} is no header; {hint}"))
}

fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let bracket = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[bracket..].rfind(':') {
        None => Some((authority, None)),
        Some(colon) => {
            let (host, port) = authority.split_at(bracket + colon);
            Some((host, Some(port[1..].parse().ok()?)))
        }
    }
}

fn is_token(text: &str) -> bool {
    let mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || mark(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_urls_apart() {
        let check = |url, tls, host: &str, port, path: &str| {
            let target = Target::parse(url).unwrap();
            assert_eq!((target.tls, target.port), (tls, port), "{url}");
            assert_eq!(
                (target.host.as_str(), target.path.as_str()),
                (host, path),
                "{url}"
            );
        };
        check("http://a", false, "a", 80, "/");
        check("https://a/b?c=d#e", true, "a", 443, "/b?c=d");
        check(
            "http://127.0.0.1:8080?size=4",
            false,
            "127.0.0.1",
            8080,
            "/?size=4",
        );
        check("http://[::1]:81/x", false, "::1", 81, "/x");
        check("http://[::1]", false, "::1", 80, "/");
    }

    #[test]
    fn refuses_urls_with_a_reason() {
        let check = |url, reason: &str| {
            let text = Target::parse(url).unwrap_err().to_string();
            assert!(text.contains(reason), "{url}: {text}");
        };
        check("localhost:80", "no scheme");
        check("ftp://a", "only http");
        check("http://", "no host");
        check("http://a:b", "port");
        check("http://u@a", "user name");
        check("http://a/b c", "percent-encoded");
    }

    #[test]
    fn takes_addresses_apart() {
        let check = |text, expected: Option<(&str, u16)>| {
            let found = Target::parse_address(text).ok();
            let found = found
                .as_ref()
                .map(|found| (found.host.as_str(), found.port));
            assert_eq!(found, expected, "{text}");
        };
        check("127.0.0.1:7", Some(("127.0.0.1", 7)));
        check("tcp://[::1]:7", Some(("::1", 7)));
        check("echo.example:7", Some(("echo.example", 7)));
        check("127.0.0.1", None);
        check("http://a:1", None);
        check(":7", None);
        check("a:7/path", None);
    }

    #[test]
    fn writes_the_request_once() {
        let mut plan = Plan::new("http://h:1/p");
        plan.headers.push(("X-A".to_owned(), "b".to_owned()));
        let request = Target::parse(&plan.url).unwrap().request(&plan).unwrap();
        let expected = "GET /p HTTP/1.1\r\nHost: h:1\r\nUser-Agent: leno-load\r\nX-A: b\r\n\r\n";
        assert_eq!(String::from_utf8(request).unwrap(), expected);
    }

    #[test]
    fn a_header_cannot_smuggle_a_line() {
        let mut plan = Plan::new("http://h/");
        plan.headers
            .push(("X-A".to_owned(), "b\r\nX-C: d".to_owned()));
        assert!(Target::parse(&plan.url).unwrap().request(&plan).is_err());
    }
}
