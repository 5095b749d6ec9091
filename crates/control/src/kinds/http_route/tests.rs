//! Routes through gateways, and what rules do besides sharing requests out.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::kinds::{Object, Resource};

const ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: shop}
spec:
  parentRefs: [{name: edge, sectionName: https}, {name: edge, namespace: infra, port: 80}]
  hostnames: [shop.example]
  rules:
  - matches: [{path: {type: Exact, value: /old}}]
    filters:
    - type: RequestRedirect
      requestRedirect:
        {scheme: https, statusCode: 301, path: {type: ReplaceFullPath, replaceFullPath: /new}}
  - matches: [{path: {value: /api}}]
    filters:
    - type: URLRewrite
      urlRewrite: {hostname: inner.example, path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}
    - type: ResponseHeaderModifier
      responseHeaderModifier: {add: [{name: x-a, value: b}]}
    timeouts: {request: 2s}
    backendRefs: [{name: shop, port: 80}]
";

fn read(text: &str) -> Result<Resource, yaml::Fault> {
    Resource::read(
        &Node::read(text).unwrap(),
        &Arc::from(Path::new("mesh.yaml")),
    )
}

fn route(text: &str) -> HttpRoute {
    match read(text).unwrap().object {
        Object::HttpRoute(route) => route,
        other => panic!("{other:?}"),
    }
}

#[test]
fn routes_are_attached_to_gateways() {
    let route = route(ROUTE);
    assert!(route.parents.is_empty());
    let [own, other] = &route.gateways[..] else {
        panic!("two gateways")
    };
    assert_eq!(own.gateway.to_string(), "Gateway shop/edge");
    assert_eq!((own.section.as_deref(), own.port), (Some("https"), None));
    assert_eq!(other.gateway.to_string(), "Gateway infra/edge");
    assert_eq!((other.section.as_deref(), other.port), (None, Some(80)));
}

#[test]
fn rules_redirect_and_rewrite() {
    let route = route(ROUTE);
    let [old, api] = &route.rules[..] else {
        panic!("two rules")
    };
    assert!(old.paths[0].exact && old.backends.is_empty());
    let redirect = old.redirect.as_ref().unwrap().from(Scheme::Http, 8080);
    assert_eq!((redirect.scheme, redirect.port), (Scheme::Https, 443));
    assert_eq!(redirect.path, Some(PathChange::Full("/new".into())));
    assert_eq!(redirect.status, 301);
    assert_eq!(api.rewrite.host.as_deref(), Some("inner.example"));
    assert_eq!(api.rewrite.path, Some(PathChange::Prefix("/".into())));
    assert_eq!(api.timeout, Some(Duration::from_secs(2)));
    let (name, value) = ("x-a".to_owned(), "b".to_owned());
    assert_eq!(api.filters, [Filter::AddResponseHeader { name, value }]);
}

#[test]
fn a_redirect_without_a_scheme_stays_on_the_port() {
    let text = ROUTE.replace("scheme: https, ", "hostname: www.example, ");
    let rule = &route(&text).rules[0];
    let redirect = rule.redirect.as_ref().unwrap().from(Scheme::Http, 8080);
    assert_eq!((redirect.scheme, redirect.port), (Scheme::Http, 8080));
    let text = ROUTE.replace("scheme: https, ", "port: 8443, ");
    let rule = &route(&text).rules[0];
    assert_eq!(
        rule.redirect.as_ref().unwrap().from(Scheme::Http, 80).port,
        8443
    );
}

#[test]
fn a_timeout_of_zero_is_none() {
    let text = ROUTE.replace("request: 2s", "request: 0s");
    assert_eq!(route(&text).rules[1].timeout, None);
}

#[test]
fn rules_that_could_not_be_followed() {
    let check = |from: &str, to: &str, wanted: &str| {
        assert!(ROUTE.contains(from), "{from}");
        let fault = read(&ROUTE.replacen(from, to, 1)).unwrap_err();
        assert_eq!(format!("{}; {}", fault.message, fault.hint), wanted);
    };
    check(
        "  - matches: [{path: {value: /api}}]",
        "    backendRefs: [{name: shop, port: 80}]\n  - matches: [{path: {value: /api}}]",
        "a redirect asks nobody; remove `backendRefs`",
    );
    check(
        "  - matches: [{path: {value: /api}}]",
        "    timeouts: {request: 1s}\n  - matches: [{path: {value: /api}}]",
        "a redirect asks nobody; remove `timeouts`",
    );
    check(
        "- type: URLRewrite",
        "- type: RequestRedirect\n      requestRedirect: {scheme: http}\n    - type: URLRewrite",
        "a redirect beside other filters; remove the others; nothing is carried on",
    );
    check(
        "value: /api",
        "type: Exact, value: /api",
        "an exact path has no prefix to be replaced; write `type: PathPrefix` in all matches of \
         the rule, or `ReplaceFullPath` here",
    );
    check(
        "statusCode: 301",
        "statusCode: 200",
        "`200` is no redirect; write 301, 302, 303, 307 or 308",
    );
    check(
        "{hostname: inner.example, path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}",
        "{}",
        "nothing is rewritten; add `hostname` or `path`",
    );
    check(
        "hostname: inner.example",
        "hostname: \"*.example\"",
        "`*.example` is not a host; a lower-case name without port",
    );
    check(
        "replaceFullPath: /new",
        "replacePrefixMatch: /new",
        "`replacePrefixMatch` beside another type; remove it",
    );
    check(
        "add: [{name: x-a, value: b}]",
        "set: [{name: X-A, value: a}], add: [{name: x-a, value: b}]",
        "`x-a` is changed twice; name each header once in a modifier",
    );
    check(
        "request: 2s",
        "backendRequest: 2s",
        "unknown key `backendRequest` in timeouts; known here: request",
    );
    check(
        "{name: edge, sectionName: https}",
        "{kind: Service, name: shop, sectionName: https}",
        "`sectionName` of a Service; choose a port of the Service by its number, with `port`",
    );
    check(
        "{name: edge, sectionName: https}",
        "{group: \"\", name: edge}",
        "an empty word; write a value",
    );
}
