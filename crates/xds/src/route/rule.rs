//! One route: which path, whereto, who may, and which headers change. Used by `route`.

use model::Backend;

use super::table::Entry;
use super::{allow, headers, shares};
use crate::any::{pack, unpack};
use crate::check;
use crate::error::Error;
use crate::place::Place;
use crate::proto::google::{BoolValue, Duration, UInt32Value};
use crate::proto::rbac::{HttpRbac, HttpRbacPerRoute};
use crate::proto::route::{ClusterWeight, Route, RouteAction, RouteMatch, WeightedCluster};

/// The HTTP filter whose settings a route may have.
pub(crate) const RBAC: &str = "envoy.filters.http.rbac";

/// Without the timeout of 15 s that Envoy would have.
const NO_TIMEOUT: Duration = Duration {
    seconds: 0,
    nanos: 0,
};

pub(super) fn encode(entry: &Entry) -> Route {
    let changes = headers::encode(&entry.filters);
    let mut route = Route {
        r#match: Some(encode_prefix(&entry.prefix)),
        route: Some(encode_action(&entry.backends)),
        request_headers_to_add: changes.request_set,
        request_headers_to_remove: changes.request_removed,
        response_headers_to_add: changes.response_set,
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

pub(super) fn decode(route: &Route, at: &Place<'_>) -> Result<Entry, Error> {
    let action = route.route.as_ref();
    let action = action.ok_or_else(|| Error::invalid(&at.field("route"), "missing; send one"))?;
    Ok(Entry {
        prefix: decode_prefix(route.r#match.as_ref(), &at.field("match"))?,
        backends: decode_action(action, &at.field("route"))?,
        allow: decode_allow(route, at)?,
        filters: headers::decode(route, at)?,
    })
}

fn encode_prefix(prefix: &str) -> RouteMatch {
    // Where the prefix ends with a slash, whole segments come by themselves.
    let field = || Some(prefix.to_owned());
    match prefix.ends_with('/') {
        true => RouteMatch {
            prefix: field(),
            ..RouteMatch::default()
        },
        false => RouteMatch {
            path_separated_prefix: field(),
            ..RouteMatch::default()
        },
    }
}

fn decode_prefix(matcher: Option<&RouteMatch>, at: &Place<'_>) -> Result<String, Error> {
    let matcher = matcher.ok_or_else(|| Error::invalid(at, "missing; send a prefix"))?;
    if matcher.case_sensitive == Some(BoolValue { value: false }) {
        let at = at.field("case_sensitive");
        return Err(Error::invalid(
            &at,
            "paths are compared with case; remove it",
        ));
    }
    let (prefix, at) = match (&matcher.prefix, &matcher.path_separated_prefix) {
        (Some(prefix), None) if prefix.ends_with('/') => (prefix, at.field("prefix")),
        (None, Some(prefix)) if !prefix.ends_with('/') => {
            (prefix, at.field("path_separated_prefix"))
        }
        _ => {
            let reason = "prefixes are whole segments; send path_separated_prefix, \
                          or a prefix with a slash at its end";
            return Err(Error::invalid(at, reason));
        }
    };
    check::prefix(prefix, &at).map(|()| prefix.clone())
}

fn encode_action(backends: &[Backend]) -> RouteAction {
    let weight = |backend: &Backend| ClusterWeight {
        name: backend.cluster.clone(),
        weight: Some(UInt32Value {
            value: backend.weight,
        }),
    };
    let (cluster, weighted_clusters) = match backends {
        [only] => (Some(only.cluster.clone()), None),
        several => {
            let clusters = several.iter().map(weight).collect();
            (None, Some(WeightedCluster { clusters }))
        }
    };
    RouteAction {
        cluster,
        weighted_clusters,
        timeout: Some(NO_TIMEOUT),
    }
}

fn decode_action(action: &RouteAction, at: &Place<'_>) -> Result<Vec<Backend>, Error> {
    if action.timeout.is_some_and(|timeout| timeout != NO_TIMEOUT) {
        let at = at.field("timeout");
        return Err(Error::invalid(
            &at,
            "routes have no timeout of their own; send 0",
        ));
    }
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
