//! Which route a request takes: as the proxy's table has it, by the model; and as Envoy has it, by
//! the message.

use std::cmp::Reverse;

use envoy_types::pb::envoy::config::route::v3::{
    Route, RouteConfiguration, VirtualHost, route::Action, route_action::ClusterSpecifier,
    route_match::PathSpecifier,
};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::RbacPerRoute;
use model::HostMatch;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message as _;
use xds::resource::{Resource, encode};

use super::{unpack, values};

/// What becomes of a request: clusters with their weights, and who may.
#[derive(Debug, PartialEq, Default)]
struct Fate {
    clusters: Vec<(String, u32)>,
    allow: Option<Vec<String>>,
}

fn fits(prefix: &str, path: &str) -> bool {
    let rest = path.strip_prefix(prefix);
    let whole = |rest: &str| rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/');
    rest.is_some_and(whole)
}

/// The most specific host, then the longest prefix.
fn by_model(routes: &[model::Route], host: &str, path: &str) -> Option<Fate> {
    let rank = |pattern: &HostMatch| match pattern {
        HostMatch::Exact(name) => (name == host).then_some((0, Reverse(0))),
        HostMatch::Suffix(suffix) => {
            let fits = host.ends_with(suffix.as_str()) && host.len() > suffix.len();
            fits.then_some((1, Reverse(suffix.len())))
        }
        HostMatch::Any => Some((2, Reverse(0))),
    };
    let fitting = routes.iter().filter(|route| fits(&route.prefix, path));
    let rows = fitting.flat_map(|route| {
        let ranks = route.hosts.iter().filter_map(rank);
        ranks.map(move |rank| ((rank, Reverse(route.prefix.len())), route))
    });
    let (_, route) = rows.min_by_key(|(order, _)| *order)?;
    let mut clusters: Vec<_> = route
        .backends
        .iter()
        .filter(|backend| backend.weight > 0)
        .map(|backend| (backend.cluster.clone(), backend.weight))
        .collect();
    if let [only] = clusters.as_mut_slice() {
        only.1 = 1;
    }
    Some(Fate {
        clusters,
        allow: route.allow.clone(),
    })
}

/// The virtual host with the most specific domain, then its first route that matches.
fn by_envoy(routes: &RouteConfiguration, host: &str, path: &str) -> Option<Fate> {
    let rank = |domain: &String| match domain.strip_prefix('*') {
        Some("") => Some((2, Reverse(0))),
        Some(suffix) => {
            let fits = host.ends_with(suffix) && host.len() > suffix.len();
            fits.then_some((1, Reverse(suffix.len())))
        }
        None => (domain == host).then_some((0, Reverse(0))),
    };
    let best = |host: &&VirtualHost| host.domains.iter().filter_map(rank).min();
    let hosts = routes
        .virtual_hosts
        .iter()
        .filter(|host| best(host).is_some());
    let host = hosts.min_by_key(best)?;
    let route = host.routes.iter().find(|route| matches(route, path))?;
    Some(fate(route))
}

fn matches(route: &Route, path: &str) -> bool {
    match route
        .r#match
        .as_ref()
        .unwrap()
        .path_specifier
        .as_ref()
        .unwrap()
    {
        PathSpecifier::Prefix(prefix) => path.starts_with(prefix.as_str()),
        PathSpecifier::PathSeparatedPrefix(prefix) => {
            assert!(
                !prefix.ends_with('/') && prefix.len() > 1,
                "Envoy refuses {prefix}"
            );
            let rest = path.strip_prefix(prefix.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        other => panic!("{other:?}"),
    }
}

fn fate(route: &Route) -> Fate {
    let Some(Action::Route(action)) = &route.action else {
        panic!("{route:?}")
    };
    assert_eq!(action.timeout.unwrap().seconds, 0);
    let clusters = match action.cluster_specifier.as_ref().unwrap() {
        ClusterSpecifier::Cluster(name) => vec![(name.clone(), 1)],
        ClusterSpecifier::WeightedClusters(clusters) => {
            let shares = clusters.clusters.iter();
            shares
                .map(|share| (share.name.clone(), share.weight.unwrap().value))
                .collect()
        }
        other => panic!("{other:?}"),
    };
    let config = route.typed_per_filter_config.get("envoy.filters.http.rbac");
    let name = "envoy.extensions.filters.http.rbac.v3.RBACPerRoute";
    let allow = config.map(|config| {
        let rbac: RbacPerRoute = unpack(config, name).unwrap();
        callers(&rbac.rbac.unwrap().rules.unwrap())
    });
    Fate { clusters, allow }
}

/// The ids that the rules let in.
pub(super) fn callers(rules: &envoy_types::pb::envoy::config::rbac::v3::Rbac) -> Vec<String> {
    use envoy_types::pb::envoy::config::rbac::v3::{permission::Rule, principal::Identifier};
    use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

    assert_eq!(rules.action, 0);
    let mut ids = Vec::new();
    for policy in rules.policies.values() {
        assert!(matches!(policy.permissions[0].rule, Some(Rule::Any(true))));
        for principal in &policy.principals {
            let Some(Identifier::Authenticated(authenticated)) = &principal.identifier else {
                panic!("{principal:?}")
            };
            let pattern = authenticated.principal_name.clone().unwrap().match_pattern;
            let Some(MatchPattern::Exact(id)) = pattern else {
                panic!("{pattern:?}")
            };
            ids.push(id);
        }
    }
    ids
}

fn host() -> impl Strategy<Value = &'static str> {
    select([values::HOSTS, &["other.b", "unknown", ""]].concat())
}

fn path() -> impl Strategy<Value = &'static str> {
    select([values::PREFIXES, &["/a/b/c", "/abc", "/other", "/a/x"]].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_request_takes_the_same_route_in_envoy(
        routes in values::routes(),
        host in host(),
        path in path(),
    ) {
        let wanted = by_model(&routes, host, path);
        // What arrives says the same as what was sent, to us and to Envoy.
        prop_assert_eq!(&by_model(&xds::route::canonical(&routes), host, path), &wanted);
        let listener = "outbound".to_owned();
        let bytes = encode(&Resource::Routes { listener, routes }).unwrap();
        let message = RouteConfiguration::decode(bytes).unwrap();
        prop_assert_eq!(&by_envoy(&message, host, path), &wanted);
        let mut domains: Vec<_> = message.virtual_hosts.iter().flat_map(|it| &it.domains).collect();
        let count = domains.len();
        domains.sort();
        domains.dedup();
        prop_assert_eq!(domains.len(), count, "Envoy refuses a domain in two virtual hosts");
    }
}
