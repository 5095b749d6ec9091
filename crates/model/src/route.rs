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
    /// Paths end where `prefix` does: it is all of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// Clusters that answer, in proportion to their weights.
    /// Invariant: one of them has a weight above 0; with `redirect` there are none.
    pub backends: Vec<Backend>,
    /// Nobody is asked: the client is told to ask elsewhere. Invariant: then there are neither
    /// filters, nor a change of the target, nor a timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Redirect>,
    /// SPIFFE ids that may call; `None`: everybody (permissive).
    pub allow: Option<Vec<String>>,
    /// What becomes of host and path on the way.
    #[serde(skip_serializing_if = "Rewrite::is_empty")]
    pub rewrite: Rewrite,
    /// Applied in order to the request, in order to the response.
    pub filters: Vec<Filter>,
    /// How long a request may take until its answer is complete, in place of the sidecar's own
    /// limit; `None` leaves it to that. Not for connections that turn to another protocol.
    #[serde(
        serialize_with = "crate::limits::optional_duration",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
}

impl Route {
    /// Takes everything from everybody to `cluster`, unchanged.
    #[must_use]
    pub fn to(cluster: &str) -> Self {
        Self {
            hosts: vec![HostMatch::Any],
            prefix: "/".to_owned(),
            exact: false,
            backends: vec![Backend {
                cluster: cluster.to_owned(),
                weight: 1,
            }],
            redirect: None,
            allow: None,
            rewrite: Rewrite::default(),
            filters: Vec::new(),
            timeout: None,
        }
    }

    /// Whether it takes all requests for its hosts, and only carries them on: what is not read can
    /// take it, too.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.prefix == "/"
            && !self.exact
            && self.filters.is_empty()
            && self.redirect.is_none()
            && self.rewrite.is_empty()
            && self.timeout.is_none()
    }
}

/// Where a client is told to ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Redirect {
    /// With which scheme.
    pub scheme: Scheme,
    /// Which host; `None`: the one that was asked.
    pub host: Option<String>,
    /// On which port; left out of the answer where it is the scheme's own.
    pub port: u16,
    /// For which path; `None`: the one that was asked for. The query stays.
    pub path: Option<PathChange>,
    /// One of [`Self::STATUSES`].
    pub status: u16,
}

impl Redirect {
    /// What a redirect may be: RFC 9110, section 15.4.
    pub const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];
}

/// What a client is told to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Scheme {
    /// Plaintext.
    Http,
    /// TLS.
    Https,
}

impl Scheme {
    /// As it is written.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port that need not be written.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// What becomes of a request's target. The default leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rewrite {
    /// Takes the place of the host; without a port.
    pub host: Option<String>,
    /// What becomes of the path.
    pub path: Option<PathChange>,
}

impl Rewrite {
    /// Whether nothing is changed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.host.is_none() && self.path.is_none()
    }
}

/// What becomes of a path; a query stays. Invariant: begins with `/`, without `?`, `#` and
/// backslashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PathChange {
    /// This takes its place.
    Full(String),
    /// This takes the place of the route's prefix, in whole segments. Invariant: without a slash at
    /// its end, but for `/` alone, which takes the prefix away; no route with `exact` has it.
    Prefix(String),
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
    /// Adds a request header beside those of its name.
    AddRequestHeader {
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
    /// Adds a response header beside those of its name.
    AddResponseHeader {
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
