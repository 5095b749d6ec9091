//! One route: which path, whereto, who may, and which headers change. Used by `route`.

use std::time::Duration as Time;

use model::{Backend, Rewrite};

use super::table::Entry;
use super::{allow, headers, path, redirect, shares};
use crate::any::{pack, unpack};
use crate::check;
use crate::envoy;
use crate::error::Error;
use crate::flavour::Flavour;
use crate::place::Place;
use crate::proto::google::{BoolValue, Duration, UInt32Value};
use crate::proto::rbac::{HttpRbac, HttpRbacPerRoute};
use crate::proto::route::{
    ClusterWeight, RedirectAction, Route, RouteAction, RouteMatch, WeightedCluster,
};

/// The HTTP filter whose settings a route may have.
pub(crate) const RBAC: &str = "envoy.filters.http.rbac";

/// What Envoy has where nothing is said (`RouteAction.timeout`).
const DEFAULT_TIMEOUT: Time = Time::from_secs(15);
/// Without the timeout of 15 s that Envoy would have.
const NO_TIMEOUT: Duration = Duration {
    seconds: 0,
    nanos: 0,
};

pub(super) fn encode(entry: &Entry, flavour: Flavour) -> Route {
    let changes = headers::encode(&entry.filters);
    let redirect = entry.redirect.as_ref();
    let mut route = Route {
        r#match: Some(encode_match(entry)),
        route: redirect.is_none().then(|| encode_action(entry, flavour)),
        redirect: redirect.map(|redirect| redirect::encode(redirect, &entry.prefix)),
        request_headers_to_add: changes.request_added,
        request_headers_to_remove: changes.request_removed,
        response_headers_to_add: changes.response_added,
        response_headers_to_remove: changes.response_removed,
        ..Route::default()
    };
    if let Some(ids) = &entry.allow {
        let rules = HttpRbacPerRoute {
            rbac: Some(HttpRbac {
                rules: Some(allow::encode(ids)),
            }),
        };
        let configs = &mut route.typed_per_filter_config;
        configs.insert(RBAC.to_owned(), pack(&rules));
    }
    route
}

/// The hosts are the virtual host's.
pub(super) fn decode(route: &Route, at: &Place<'_>) -> Result<Entry, Error> {
    let (prefix, exact) = decode_match(route.r#match.as_ref(), &at.field("match"))?;
    let allow = decode_allow(route, at)?;
    let filters = headers::decode(route, at)?;
    let entry = Entry {
        prefix,
        exact,
        backends: Vec::new(),
        redirect: None,
        allow,
        rewrite: Rewrite::default(),
        filters,
        timeout: None,
    };
    match (&route.route, &route.redirect) {
        (Some(action), _) => decode_action(entry, action, &at.field("route")),
        (None, Some(action)) => decode_redirect(entry, action, &at.field("redirect")),
        (None, None) => Err(Error::invalid(
            &at.field("route"),
            "missing; send one, or a redirect",
        )),
    }
}

fn encode_match(entry: &Entry) -> RouteMatch {
    let field = || Some(entry.prefix.clone());
    // Where the prefix ends with a slash, whole segments come by themselves.
    match (entry.exact, entry.prefix.ends_with('/')) {
        (true, _) => RouteMatch {
            path: field(),
            ..RouteMatch::default()
        },
        (false, true) => RouteMatch {
            prefix: field(),
            ..RouteMatch::default()
        },
        (false, false) => RouteMatch {
            path_separated_prefix: field(),
            ..RouteMatch::default()
        },
    }
}

/// The prefix, and whether it is all of the path.
fn decode_match(matcher: Option<&RouteMatch>, at: &Place<'_>) -> Result<(String, bool), Error> {
    let matcher = matcher.ok_or_else(|| Error::invalid(at, "missing; send a prefix"))?;
    if matcher.case_sensitive == Some(BoolValue { value: false }) {
        let at = at.field("case_sensitive");
        return Err(Error::invalid(
            &at,
            "paths are compared with case; remove it",
        ));
    }
    let kinds = (
        &matcher.prefix,
        &matcher.path_separated_prefix,
        &matcher.path,
    );
    let (path, at) = match kinds {
        (Some(prefix), None, None) if prefix.ends_with('/') => (prefix, at.field("prefix")),
        (None, Some(prefix), None) if !prefix.ends_with('/') => {
            (prefix, at.field("path_separated_prefix"))
        }
        (None, None, Some(path)) => (path, at.field("path")),
        _ => {
            let reason = "prefixes are whole segments; send path_separated_prefix, \
                          or a prefix with a slash at its end";
            return Err(Error::invalid(at, reason));
        }
    };
    check::prefix(path, &at).map(|()| (path.clone(), matcher.path.is_some()))
}

fn encode_action(entry: &Entry, flavour: Flavour) -> RouteAction {
    let weight = |backend: &Backend| ClusterWeight {
        name: backend.cluster.clone(),
        weight: Some(UInt32Value {
            value: backend.weight,
        }),
    };
    let (cluster, weighted_clusters) = match entry.backends.as_slice() {
        [only] => (Some(only.cluster.clone()), None),
        several => {
            let clusters = several.iter().map(weight).collect();
            (None, Some(WeightedCluster { clusters }))
        }
    };
    let change = entry.rewrite.path.as_ref();
    let change = change.map(|change| path::encode(change, &entry.prefix));
    let change = change.unwrap_or_default();
    RouteAction {
        cluster,
        weighted_clusters,
        prefix_rewrite: change.prefix_rewrite.unwrap_or_default(),
        host_rewrite_literal: entry.rewrite.host.clone(),
        timeout: Some(entry.timeout.map_or(NO_TIMEOUT, encode_time)),
        retry_policy: match flavour {
            Flavour::Leno => None,
            Flavour::Envoy => Some(envoy::retry_policy()),
        },
        regex_rewrite: change.regex_rewrite,
    }
}

fn decode_action(entry: Entry, action: &RouteAction, at: &Place<'_>) -> Result<Entry, Error> {
    let fields = path::Fields {
        prefix_rewrite: Some(action.prefix_rewrite.clone()).filter(|text| !text.is_empty()),
        regex_rewrite: action.regex_rewrite.clone(),
    };
    let rewrite = Rewrite {
        host: action.host_rewrite_literal.clone(),
        path: path::decode(fields, &entry.prefix, at)?,
    };
    Ok(Entry {
        backends: decode_clusters(action, at)?,
        rewrite,
        timeout: decode_timeout(action, &at.field("timeout"))?,
        ..entry
    })
}

fn decode_redirect(entry: Entry, action: &RedirectAction, at: &Place<'_>) -> Result<Entry, Error> {
    let redirect = redirect::decode(action.clone(), &entry.prefix, at)?;
    let redirect = Some(redirect);
    Ok(Entry { redirect, ..entry })
}

fn encode_time(time: Time) -> Duration {
    Duration {
        seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(time.subsec_nanos()).unwrap_or_default(),
    }
}

fn decode_timeout(action: &RouteAction, at: &Place<'_>) -> Result<Option<Time>, Error> {
    let Some(timeout) = action.timeout else {
        return Ok(Some(DEFAULT_TIMEOUT));
    };
    if timeout == NO_TIMEOUT {
        return Ok(None);
    }
    let parts = u64::try_from(timeout.seconds)
        .ok()
        .zip(u32::try_from(timeout.nanos).ok());
    match parts {
        Some((seconds, nanos)) if nanos < 1_000_000_000 => Ok(Some(Time::new(seconds, nanos))),
        _ => Err(Error::invalid(at, "not a duration; send a positive one")),
    }
}

fn decode_clusters(action: &RouteAction, at: &Place<'_>) -> Result<Vec<Backend>, Error> {
    let mut backends = Vec::new();
    if let Some(cluster) = &action.cluster {
        check::name(cluster, &at.field("cluster"))?;
        backends.push(Backend {
            cluster: cluster.clone(),
            weight: 1,
        });
    }
    let weighted = at.field("weighted_clusters");
    let clusters = action.weighted_clusters.iter().flat_map(|it| &it.clusters);
    for (index, share) in clusters.enumerate() {
        check::name(&share.name, &weighted.item("clusters", index).field("name"))?;
        backends.push(Backend {
            cluster: share.name.clone(),
            weight: share.weight.map_or(0, |weight| weight.value),
        });
    }
    shares::check(&backends, at)?;
    Ok(shares::canonical(&backends))
}

fn decode_allow(route: &Route, at: &Place<'_>) -> Result<Option<Vec<String>>, Error> {
    let at = at.field("typed_per_filter_config");
    let mut found = None;
    for (name, config) in &route.typed_per_filter_config {
        let at = at.field(name);
        if name != RBAC {
            return Err(Error::unsupported(&at));
        }
        let config: HttpRbacPerRoute = unpack(config, &at)?;
        let rules = config.rbac.and_then(|rbac| rbac.rules);
        // Without rules everybody may, since the listener's filter has none of its own.
        let at = at.field("rbac");
        let at = at.field("rules");
        found = rules.map(|rules| allow::decode(&rules, &at)).transpose()?;
    }
    Ok(found)
}
