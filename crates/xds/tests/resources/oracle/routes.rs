//! Which route a request takes: as the proxy's table has it, by the model; and as Envoy has it, by
//! the message.

use std::cmp::Reverse;

use envoy_types::pb::envoy::config::route::v3::redirect_action::{
    PathRewriteSpecifier, SchemeRewriteSpecifier,
};
use envoy_types::pb::envoy::config::route::v3::route_action::{
    ClusterSpecifier, HostRewriteSpecifier,
};
use envoy_types::pb::envoy::config::route::v3::{
    RedirectAction, Route, RouteAction, RouteConfiguration, VirtualHost, route::Action,
    route_match::PathSpecifier,
};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::RbacPerRoute;
use envoy_types::pb::envoy::r#type::matcher::v3::RegexMatchAndSubstitute;
use model::{HostMatch, PathChange};
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
    /// Of the request that goes on, or of where the client is sent.
    path: String,
    host: Option<String>,
    millis: u64,
    /// Status, scheme and port of a redirect.
    redirect: Option<(u16, String, u16)>,
}

fn fits(route: &model::Route, path: &str) -> bool {
    let rest = path.strip_prefix(&*route.prefix);
    let open = route.prefix.ends_with('/');
    let whole = |rest: &str| rest.is_empty() || rest.starts_with('/') || open;
    match route.exact {
        true => route.prefix == path,
        false => rest.is_some_and(whole),
    }
}

/// Segments take the place of segments.
fn changed(change: Option<&PathChange>, prefix: &str, path: &str) -> String {
    match change {
        None => path.to_owned(),
        Some(PathChange::Full(full)) => full.clone(),
        Some(PathChange::Prefix(with)) => {
            let rest = path.strip_prefix(prefix).unwrap();
            let with = with.trim_end_matches('/');
            match rest.is_empty() && !prefix.ends_with('/') {
                true if with.is_empty() => "/".to_owned(),
                true => with.to_owned(),
                false if prefix.ends_with('/') => format!("{with}/{rest}"),
                false => format!("{with}{rest}"),
            }
        }
    }
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
    let fitting = routes.iter().filter(|route| fits(route, path));
    let rows = fitting.flat_map(|route| {
        let ranks = route.hosts.iter().filter_map(rank);
        let length = Reverse((route.prefix.len(), route.exact));
        ranks.map(move |rank| ((rank, length), route))
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
    let to = route.redirect.as_ref();
    let change = to.map_or(&route.rewrite.path, |to| &to.path);
    let timeout = route.timeout.unwrap_or_default().as_millis();
    Some(Fate {
        clusters,
        allow: route.allow.clone(),
        path: changed(change.as_ref(), &route.prefix, path),
        host: to.map_or(&route.rewrite.host, |to| &to.host).clone(),
        millis: timeout.try_into().unwrap(),
        redirect: to.map(|to| (to.status, to.scheme.label().to_owned(), to.port)),
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
    Some(fate(route, path))
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
        PathSpecifier::Path(exact) => path == exact,
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

/// What of a path was matched, which is what Envoy replaces.
fn matched(route: &Route) -> &str {
    match route.r#match.as_ref().unwrap().path_specifier.as_ref() {
        Some(
            PathSpecifier::Prefix(text)
            | PathSpecifier::PathSeparatedPrefix(text)
            | PathSpecifier::Path(text),
        ) => text,
        other => panic!("{other:?}"),
    }
}

/// As Envoy substitutes, for the two expressions that there are.
fn substituted(regex: &RegexMatchAndSubstitute, route: &Route, path: &str) -> String {
    let pattern = &regex.pattern.as_ref().unwrap().regex;
    if pattern == "^/.*$" {
        return regex.substitution.clone();
    }
    let escaped = pattern.strip_prefix('^').unwrap().strip_suffix("/?");
    let prefix = escaped.unwrap().replace('\\', "");
    assert_eq!(prefix, matched(route));
    let rest = path.strip_prefix(&*prefix).unwrap();
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    format!("{}{rest}", regex.substitution)
}

fn fate(route: &Route, path: &str) -> Fate {
    match route.action.as_ref().unwrap() {
        Action::Route(action) => forwarded(route, action, path),
        Action::Redirect(action) => redirected(route, action, path),
        other => panic!("{other:?}"),
    }
}

fn redirected(route: &Route, action: &RedirectAction, path: &str) -> Fate {
    let scheme = action.scheme_rewrite_specifier.clone();
    let Some(SchemeRewriteSpecifier::SchemeRedirect(scheme)) = scheme else {
        panic!("{scheme:?}")
    };
    let code = usize::try_from(action.response_code).unwrap();
    let port = u16::try_from(action.port_redirect).unwrap();
    Fate {
        allow: allowed(route),
        path: match action.path_rewrite_specifier.as_ref() {
            None => path.to_owned(),
            Some(PathRewriteSpecifier::PathRedirect(path)) => path.clone(),
            Some(PathRewriteSpecifier::PrefixRewrite(with)) => {
                path.replacen(matched(route), with, 1)
            }
            Some(PathRewriteSpecifier::RegexRewrite(regex)) => substituted(regex, route, path),
            other => panic!("{other:?}"),
        },
        host: Some(action.host_redirect.clone()).filter(|host| !host.is_empty()),
        redirect: Some(([301, 302, 303, 307, 308][code], scheme, port)),
        ..Fate::default()
    }
}

fn forwarded(route: &Route, action: &RouteAction, path: &str) -> Fate {
    let timeout = action.timeout.as_ref().unwrap();
    let millis = timeout.seconds * 1000 + i64::from(timeout.nanos) / 1_000_000;
    let host = action.host_rewrite_specifier.as_ref().map(|it| match it {
        HostRewriteSpecifier::HostRewriteLiteral(host) => host.clone(),
        other => panic!("{other:?}"),
    });
    let path = match (&action.regex_rewrite, action.prefix_rewrite.as_str()) {
        (Some(regex), "") => substituted(regex, route, path),
        (None, "") => path.to_owned(),
        (None, with) => path.replacen(matched(route), with, 1),
        (Some(_), _) => panic!("Envoy refuses both"),
    };
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
    Fate {
        clusters,
        allow: allowed(route),
        path,
        host,
        millis: millis.try_into().unwrap(),
        redirect: None,
    }
}

fn allowed(route: &Route) -> Option<Vec<String>> {
    let config = route.typed_per_filter_config.get("envoy.filters.http.rbac");
    let name = "envoy.extensions.filters.http.rbac.v3.RBACPerRoute";
    config.map(|config| {
        let rbac: RbacPerRoute = unpack(config, name).unwrap();
        callers(&rbac.rbac.unwrap().rules.unwrap())
    })
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
