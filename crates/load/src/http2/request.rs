//! A request over HTTP/2, made once before the run: head and body, or message. Called by `setup`.

use crate::{
    Error, GrpcMode, Plan, Protocol, grpc,
    target::{Target, has_header, no_header, states_length},
};
use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Method, Request, Uri, Version,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, TE, USER_AGENT},
};

/// Fields of one connection of HTTP/1.1, which HTTP/2 forbids (RFC 9113, section 8.2.2).
const FORBIDDEN: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

/// The head of every request, and what follows it.
///
/// # Errors
/// A method or header that is none, or that HTTP/2 cannot carry; a message that is too long.
pub(crate) fn build(target: &Target, plan: &Plan) -> Result<(Request<()>, Bytes), Error> {
    let mut request = Request::new(());
    *request.version_mut() = Version::HTTP_2;
    *request.method_mut() = method(plan)?;
    *request.uri_mut() = uri(target, plan)?;
    for (name, value) in &plan.headers {
        let fail = || no_header(name, value);
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| fail())?;
        if FORBIDDEN.contains(&name.as_str()) {
            let reason = format!("HTTP/2 has no header {name}; leave it out");
            return Err(Error::Plan(reason));
        }
        if name == HOST {
            // Became `:authority`.
            continue;
        }
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| fail())?;
        request.headers_mut().append(name, value);
    }
    let headers = request.headers_mut();
    if !headers.contains_key(USER_AGENT) {
        headers.insert(USER_AGENT, HeaderValue::from_static("leno-load"));
    }
    if let Protocol::Grpc(_) = plan.protocol {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(grpc::CONTENT_TYPE));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        let long = || Error::Plan("a gRPC message is at most 64 MiB".to_owned());
        let message = grpc::message(&plan.body).ok_or_else(long)?;
        return Ok((request, message));
    }
    if states_length(plan) && !has_header(plan, "content-length") {
        headers.insert(CONTENT_LENGTH, plan.body.len().into());
    }
    Ok((request, Bytes::copy_from_slice(&plan.body)))
}

fn method(plan: &Plan) -> Result<Method, Error> {
    if let Protocol::Grpc(_) = plan.protocol {
        return Ok(Method::POST);
    }
    Method::from_bytes(plan.method.as_bytes())
        .map_err(|_| Error::Plan(format!("{:?} is no HTTP method", plan.method)))
}

fn uri(target: &Target, plan: &Plan) -> Result<Uri, Error> {
    let mut headers = plan.headers.iter();
    let host = headers.find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let authority = host.map_or(target.authority.as_str(), |(_, value)| value);
    let path = match plan.protocol {
        Protocol::Grpc(GrpcMode::Unary) if target.path == "/" => grpc::UNARY,
        Protocol::Grpc(GrpcMode::Stream) if target.path == "/" => grpc::STREAM,
        _ => target.path.as_str(),
    };
    Uri::builder()
        .scheme("http")
        .authority(authority)
        .path_and_query(path)
        .build()
        .map_err(|_| Error::Url {
            url: plan.url.clone(),
            reason: "HTTP/2 cannot carry this host or path",
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(plan: &Plan) -> Result<(Request<()>, Bytes), Error> {
        build(&Target::parse(&plan.url)?, plan)
    }

    #[test]
    fn the_head_carries_what_the_plan_says() {
        let mut plan = Plan::new("http://h:1/p?q");
        plan.headers.push(("Host".to_owned(), "other".to_owned()));
        plan.headers.push(("X-A".to_owned(), "b".to_owned()));
        (plan.method, plan.body) = ("POST".to_owned(), b"hi".to_vec());
        let (head, body) = request(&plan).unwrap();
        assert_eq!(head.uri().to_string(), "http://other/p?q");
        assert_eq!((head.method(), &body[..]), (&Method::POST, &b"hi"[..]));
        assert_eq!(head.headers()["x-a"], "b");
        assert_eq!(head.headers()["content-length"], "2");
        assert!(!head.headers().contains_key("host"));
    }

    #[test]
    fn grpc_asks_for_our_service_unless_the_url_has_a_path() {
        let check = |url: &str, mode, expected: &str| {
            let mut plan = Plan::new(url);
            plan.protocol = Protocol::Grpc(mode);
            plan.body = b"abc".to_vec();
            let (head, body) = request(&plan).unwrap();
            assert_eq!(
                (head.method(), head.uri().path()),
                (&Method::POST, expected)
            );
            assert_eq!(head.headers()["te"], "trailers");
            assert_eq!(&body[..], b"\0\0\0\0\x03abc");
        };
        check("http://h", GrpcMode::Unary, grpc::UNARY);
        check("http://h/", GrpcMode::Stream, grpc::STREAM);
        check("http://h/a.B/C", GrpcMode::Unary, "/a.B/C");
    }

    #[test]
    fn what_http2_cannot_carry_is_refused() {
        let check = |name: &str, value: &str, hint: &str| {
            let mut plan = Plan::new("http://h/");
            plan.headers.push((name.to_owned(), value.to_owned()));
            let text = request(&plan).unwrap_err().to_string();
            assert!(text.contains(hint), "{text}");
        };
        check("Connection", "close", "leave it out");
        check("a b", "c", "is no header");
        check("a", "b\r\nc: d", "is no header");
    }
}
