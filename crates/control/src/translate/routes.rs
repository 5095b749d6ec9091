//! Which requests to a Service, or through a gateway, go where: HTTPRoutes, put into one list.
//! Called for each port of a Service, and of a gateway. Must never hold two rules for the same host
//! and path: the first by name is it.

use std::collections::BTreeSet;

use model::{Backend, HostMatch, Route, Scheme};

use super::{ServiceKey, service};
use crate::index::Index;
use crate::kinds::{HttpRoute, PathMatch, Rule, Service};

/// Pairs of a host, as it is written, and a path, exact or not, that some rule has already.
pub(super) type Taken = BTreeSet<(String, String, bool)>;

/// The rules of `port`; `None` where nobody wrote any.
pub(super) fn of(index: &Index, key: &ServiceKey, port: u16) -> Option<Vec<Route>> {
    let mut taken = Taken::new();
    let mut routes = Vec::new();
    let mut is_routed = false;
    for route in index.routes(key).filter(|route| is_for(route, key, port)) {
        is_routed = true;
        let hosts = match route.hosts.as_slice() {
            [] => &[HostMatch::Any],
            hosts => hosts,
        };
        routes.extend(rules(route, hosts, (Scheme::Http, port), &mut taken));
    }
    is_routed.then_some(routes)
}

/// The rules of a route for clients that ask for one of `hosts`, and came with that scheme to that
/// port.
pub(super) fn rules(
    route: &HttpRoute,
    hosts: &[HostMatch],
    came: (Scheme, u16),
    taken: &mut Taken,
) -> Vec<Route> {
    let mut routes = Vec::new();
    for rule in &route.rules {
        let does = does(rule, came);
        for path in &rule.paths {
            routes.extend(one(&does, path, hosts, taken));
        }
    }
    routes
}

/// The ports of Services that the routes of `key` lead to.
pub(super) fn backends(
    index: &Index,
    key: &ServiceKey,
    service: &Service,
) -> BTreeSet<(ServiceKey, u16)> {
    let ports = service.ports.iter();
    let routes = ports.flat_map(|port| {
        let routes = index.routes(key);
        routes.filter(move |route| is_for(route, key, port.port))
    });
    let backends = routes
        .flat_map(|route| &route.rules)
        .flat_map(|rule| &rule.backends);
    backends
        .map(|backend| (backend.service.clone(), backend.port))
        .collect()
}

/// A route that takes everything to `cluster`.
pub(super) fn to(cluster: &str, allow: Option<Vec<String>>) -> Route {
    Route {
        allow,
        ..Route::to(cluster)
    }
}

fn is_for(route: &HttpRoute, key: &ServiceKey, port: u16) -> bool {
    let mut parents = route.parents.iter();
    parents.any(|parent| parent.service == *key && parent.port.is_none_or(|only| only == port))
}

/// What a rule does, whatever the request.
fn does(rule: &Rule, (scheme, port): (Scheme, u16)) -> Route {
    let backends = rule.backends.iter().map(|backend| Backend {
        cluster: service::name(&backend.service, backend.port),
        weight: backend.weight,
    });
    let redirect = rule.redirect.as_ref();
    Route {
        backends: backends.collect(),
        redirect: redirect.map(|elsewhere| elsewhere.from(scheme, port)),
        rewrite: rule.rewrite.clone(),
        filters: rule.filters.clone(),
        timeout: rule.timeout,
        ..Route::to("")
    }
}

/// The rule for one path and those of its hosts that no rule before it took.
fn one(does: &Route, path: &PathMatch, hosts: &[HostMatch], taken: &mut Taken) -> Option<Route> {
    let PathMatch { path, exact } = path;
    let is_free = |host: &&HostMatch| taken.insert((word(host), path.clone(), *exact));
    let hosts: Vec<_> = hosts.iter().filter(is_free).cloned().collect();
    (!hosts.is_empty()).then(|| Route {
        hosts,
        prefix: path.clone(),
        exact: *exact,
        ..does.clone()
    })
}

fn word(host: &HostMatch) -> String {
    match host {
        HostMatch::Any => "*".to_owned(),
        HostMatch::Exact(name) => name.clone(),
        HostMatch::Suffix(suffix) => format!("*{suffix}"),
    }
}
