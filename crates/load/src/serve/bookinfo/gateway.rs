//! The gateway service of the sample: `/bookinfo-NAME/REST` goes to the service NAME as `/REST`,
//! with everything else as it came. A stand-in for an application's own gateway, not for a mesh's.

use super::{
    reply::{self, Reply},
    upstream::{Answer, Call, Client},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header::CONNECTION, request::Parts};
use http_body_util::Full;

const PREFIX: &str = "/bookinfo-";
/// Tells a callee what was taken off its path.
const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
/// Of one connection only (RFC 9110, section 7.6.1), or written anew.
const OF_A_HOP: &[&str] = &[
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) struct Gateway {
    callees: Vec<Client>,
}

impl Gateway {
    pub(super) fn build(callees: Vec<Client>) -> Self {
        Self { callees }
    }

    /// The callee's answer, or why there is none.
    pub(super) async fn pass(&self, head: &Parts, body: Bytes) -> Reply {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let split = split(path);
        let found = split.and_then(|(name, rest)| {
            let callee = self.callees.iter().find(|callee| callee.name() == name)?;
            Some((callee, rest))
        });
        let Some((callee, rest)) = found else {
            return reply::not_found();
        };
        let mut headers = end_to_end(&head.headers);
        let prefix = format!("{PREFIX}{}", callee.name());
        let prefix = HeaderValue::from_str(&prefix).expect("names are letters");
        headers.insert(FORWARDED_PREFIX, prefix);
        let call = Call {
            method: head.method.clone(),
            path: rest.to_owned(),
            headers,
            body,
        };
        match callee.call(&call).await {
            Ok(answer) => passed(answer),
            Err(failure) => reply::error(failure.status(), &failure.to_string()),
        }
    }
}

fn passed(answer: Answer) -> Reply {
    let mut reply = Response::new(Full::new(answer.body));
    *reply.status_mut() = answer.status;
    *reply.headers_mut() = end_to_end(&answer.headers);
    reply
}

/// The callee's name, and the path that it knows.
fn split(path: &str) -> Option<(&str, &str)> {
    let named = path.strip_prefix(PREFIX)?;
    let at = named.find('/')?;
    Some(named.split_at(at))
}

/// Without what is of one connection only, and what `Connection` names as such.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let listed = headers.get_all(CONNECTION).into_iter();
    let listed = listed.filter_map(|value| value.to_str().ok());
    let listed: Vec<&str> = listed
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .collect();
    let stays = |name: &HeaderName| {
        let of_hop = OF_A_HOP.contains(&name.as_str());
        !of_hop
            && !listed
                .iter()
                .any(|word| name.as_str().eq_ignore_ascii_case(word))
    };
    let kept = headers.iter().filter(|(name, _)| stays(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_names_the_callee() {
        let check = |path, expected| assert_eq!(split(path), expected, "{path}");
        check(
            "/bookinfo-ratings/ratings/7?a=b",
            Some(("ratings", "/ratings/7?a=b")),
        );
        check("/bookinfo-ratings/", Some(("ratings", "/")));
        check("/bookinfo-ratings", None);
        check("/ratings/7", None);
    }

    #[test]
    fn what_is_of_a_hop_stays_there() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Mine"),
            ("x-mine", "1"),
            ("host", "a"),
            ("accept", "*/*"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let kept = end_to_end(&headers);
        let names: Vec<&str> = kept.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["accept"]);
    }
}
