//! Answers of the sample's services: JSON, a page, or an error with its reason. Pure.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use serde::Serialize;

/// What every service answers with.
pub(super) type Reply = Response<Full<Bytes>>;

#[derive(Serialize)]
struct Reason<'a> {
    error: &'a str,
}

/// A value as JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    let body = serde_json::to_vec(value).expect("plain data is JSON");
    with_type(status, "application/json", body.into())
}

/// JSON that is written down already.
pub(super) fn written(body: Bytes) -> Reply {
    with_type(StatusCode::OK, "application/json", body)
}

/// A page.
pub(super) fn html(status: StatusCode, page: String) -> Reply {
    with_type(status, "text/html; charset=utf-8", page.into())
}

/// `{"error": REASON}`.
pub(super) fn error(status: StatusCode, reason: &str) -> Reply {
    json(status, &Reason { error: reason })
}

/// There is nothing of that name here.
pub(super) fn not_found() -> Reply {
    error(StatusCode::NOT_FOUND, "there is no such thing here")
}

fn with_type(status: StatusCode, kind: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body));
    *reply.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}
