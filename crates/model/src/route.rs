//! Which requests go where, who may send them, and what is changed on the way.
//! Read by the proxy's `route`, `authorize` and `filters`. Must never match by itself.

use std::time::Duration;

use serde::Serialize;

/// One rule of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Any of these hosts; never empty.
    pub hosts: Vec<HostMatch>,
    /// Whole segments: `/a` fits `/a` and `/a/b`, not `/ab`. Invariant: starts with `/`.
    pub prefix: String,
    /// Clusters that answer, in proportion to their weights.
    /// Invariant: one of them has a weight above 0.
    pub backends: Vec<Backend>,
    /// SPIFFE ids that may call; `None`: everybody (permissive).
    pub allow: Option<Vec<String>>,
    /// Applied in order to the request, in order to the response.
    pub filters: Vec<Filter>,
}

/// A cluster that answers a part of a route's requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// Name of the cluster.
    pub cluster: String,
    /// Its share, relative to the others'; 0 for none.
    pub weight: u32,
}

/// How a route's host compares with the request's authority, port and case aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum HostMatch {
    /// `*`: every host, and none.
    Any,
    /// Lower case, without port.
    Exact(String),
    /// Lower case with its leading dot: `.example.org` matches `a.example.org`, not `example.org`.
    Suffix(String),
}

/// A change to requests or responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Filter {
    /// Replaces all request headers of that name by this one.
    SetRequestHeader {
        /// A token, compared without case.
        name: String,
        /// Without CR, LF and NUL.
        value: String,
    },
    /// Drops all request headers of that name.
    RemoveRequestHeader {
        /// A token, compared without case.
        name: String,
    },
    /// Replaces all response headers of that name by this one.
    SetResponseHeader {
        /// A token, compared without case.
        name: String,
        /// Without CR, LF and NUL.
        value: String,
    },
    /// Drops all response headers of that name.
    RemoveResponseHeader {
        /// A token, compared without case.
        name: String,
    },
    /// For tests: waits, and buffers the request's body before it goes on.
    Hold {
        /// How long to wait.
        #[serde(serialize_with = "crate::limits::duration")]
        delay: Duration,
        /// Most bytes of body to hold; 0 holds none.
        buffer_bytes: usize,
    },
}

impl Filter {
    /// Headers that say where a message ends or what the connection is for, in lower case: the
    /// sidecar sets them itself, and no filter may name one.
    pub const FRAMING: [&str; 9] = [
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
}
