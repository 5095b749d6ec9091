//! Which requests to a Service go where: its HTTPRoutes, put into one list. Called for each port of
//! a Service. Must never hold two rules for the same host and path: the first by name is it.

use std::collections::BTreeSet;

use model::{Backend, HostMatch, Route};

use super::{ServiceKey, service};
use crate::index::Index;
use crate::kinds::{HttpRoute, Rule, Service};

/// The rules of `port`; `None` where nobody wrote any.
pub(super) fn of(index: &Index, key: &ServiceKey, port: u16) -> Option<Vec<Route>> {
    let mut taken = BTreeSet::new();
    let mut routes = Vec::new();
    let mut is_routed = false;
    for route in index.routes(key).filter(|route| is_for(route, key, port)) {
        is_routed = true;
        for rule in &route.rules {
            for prefix in &rule.prefixes {
                routes.extend(one(route, rule, prefix, &mut taken));
            }
        }
    }
    is_routed.then_some(routes)
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

/// The rule for one path and those of its hosts that no rule before it took.
fn one(
    route: &HttpRoute,
    rule: &Rule,
    prefix: &str,
    taken: &mut BTreeSet<(String, String)>,
) -> Option<Route> {
    let hosts = match route.hosts.as_slice() {
        [] => &[HostMatch::Any],
        hosts => hosts,
    };
    let hosts = hosts.iter();
    let hosts = hosts.filter(|host| taken.insert((word(host), prefix.to_owned())));
    let hosts: Vec<_> = hosts.cloned().collect();
    let backends = rule.backends.iter().map(|backend| Backend {
        cluster: service::name(&backend.service, backend.port),
        weight: backend.weight,
    });
    (!hosts.is_empty()).then(|| Route {
        hosts,
        prefix: prefix.to_owned(),
        backends: backends.collect(),
        filters: rule.filters.clone(),
        ..Route::to("")
    })
}

fn word(host: &HostMatch) -> String {
    match host {
        HostMatch::Any => "*".to_owned(),
        HostMatch::Exact(name) => name.clone(),
        HostMatch::Suffix(suffix) => format!("*{suffix}"),
    }
}
