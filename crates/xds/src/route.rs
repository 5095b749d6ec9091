//! The routes of a listener as `envoy.config.route.v3.RouteConfiguration`, of the listener's name.
//! What hosts and prefixes they have between them is `route::table`'s affair, what happens to a
//! request `route::rule`'s.

mod allow;
mod headers;
mod path;
mod redirect;
mod rule;
pub(crate) mod shares;
mod table;

use std::collections::HashSet;

use model::{HostMatch, PathChange, Redirect, Route};

use crate::check;
use crate::envoy;
use crate::error::Error;
use crate::flavour::Flavour;
use crate::place::Place;
use crate::proto::route::{RouteConfiguration, VirtualHost};

pub(crate) use allow::{decode as decode_allow, encode as encode_allow};
pub(crate) use rule::RBAC;
pub use table::canonical;
use table::{Entry, Table};

const ROOT: Place<'_> = Place::root("routes");
/// What makes a suffix of a domain: `*` and the suffix with its dot.
const WILDCARD: &str = "*";

/// Most pairs of a host and a route: a listener has some dozens, and each is compared with others.
const PAIRS_MAX: usize = 4 * 1024;

/// The message that says so. Virtual hosts do not fall back to each other as our hosts do, so each
/// gets all that its hosts could come to.
///
/// # Errors
/// Routes that break their own invariants, and the filter for tests, which does not travel.
pub fn encode(name: &str, routes: &[Route], flavour: Flavour) -> Result<RouteConfiguration, Error> {
    check::name(name, &ROOT.field("name"))?;
    check_all(routes, &ROOT)?;
    let host = |(hosts, entries): (Vec<HostMatch>, Vec<Entry>)| VirtualHost {
        name: domain(&hosts[0]),
        domains: hosts.iter().map(domain).collect(),
        routes: entries
            .iter()
            .map(|entry| rule::encode(entry, flavour))
            .collect(),
    };
    Ok(RouteConfiguration {
        name: name.to_owned(),
        virtual_hosts: Table::build(routes).into_groups().map(host).collect(),
        request_headers_to_remove: match flavour {
            Flavour::Leno => Vec::new(),
            Flavour::Envoy => envoy::REQUEST_HEADERS.map(str::to_owned).to_vec(),
        },
        ignore_port_in_host_matching: true,
    })
}

/// The name and the routes, in the form of [`canonical`].
pub(crate) fn decode(routes: RouteConfiguration) -> Result<(String, Vec<Route>), Error> {
    check::name(&routes.name, &ROOT.field("name"))?;
    let decoded = decode_all(&routes, &ROOT)?;
    Ok((routes.name, decoded))
}

/// The routes of a configuration at this place, in the form of [`canonical`].
pub(crate) fn decode_all(routes: &RouteConfiguration, at: &Place<'_>) -> Result<Vec<Route>, Error> {
    let domains = routes.virtual_hosts.iter().flat_map(|host| &host.domains);
    if !routes.ignore_port_in_host_matching && domains.clone().any(|domain| domain != WILDCARD) {
        return Err(Error::invalid(
            &at.field("ignore_port_in_host_matching"),
            "must be true: hosts are compared without ports",
        ));
    }
    let mut table = Table::default();
    let mut pairs = 0;
    for (index, host) in routes.virtual_hosts.iter().enumerate() {
        let at = at.item("virtual_hosts", index);
        let hosts = decode_hosts(host, &at)?;
        pairs += hosts.len().saturating_mul(1 + host.routes.len());
        if pairs > PAIRS_MAX {
            return Err(Error::TooMany(at.to_string()));
        }
        let entries = decode_entries(host, &at)?;
        for (host, index) in hosts.into_iter().zip(0..) {
            table.insert(host, entries.clone(), &at.item("domains", index))?;
        }
    }
    table.check_complete(at)?;
    Ok(table.into_routes())
}

fn domain(host: &HostMatch) -> String {
    match host {
        HostMatch::Any => WILDCARD.to_owned(),
        HostMatch::Exact(name) => name.clone(),
        HostMatch::Suffix(suffix) => format!("{WILDCARD}{suffix}"),
    }
}

fn decode_hosts(host: &VirtualHost, at: &Place<'_>) -> Result<Vec<HostMatch>, Error> {
    let decode = |(domain, index): (&String, usize)| {
        let found = parse_host(domain);
        check::host(&found, &at.item("domains", index)).map(|()| found)
    };
    if host.domains.is_empty() {
        return Err(Error::invalid(
            &at.field("domains"),
            "missing; send at least one",
        ));
    }
    host.domains.iter().zip(0..).map(decode).collect()
}

/// The host that a domain of Envoy's, or a server name, stands for. To be checked.
pub(crate) fn parse_host(domain: &str) -> HostMatch {
    match domain.strip_prefix(WILDCARD) {
        Some("") => HostMatch::Any,
        Some(suffix) => HostMatch::Suffix(suffix.to_owned()),
        None => HostMatch::Exact(domain.to_owned()),
    }
}

/// How [`parse_host`] has it.
pub(crate) fn write_host(host: &HostMatch) -> String {
    domain(host)
}

/// In the order in which they are tried: none may hide a later one, as it would not in our order.
fn decode_entries(host: &VirtualHost, at: &Place<'_>) -> Result<Vec<Entry>, Error> {
    let mut entries: Vec<Entry> = Vec::new();
    for (index, route) in host.routes.iter().enumerate() {
        let at = at.item("routes", index);
        let entry = rule::decode(route, &at)?;
        check_one(&entry.clone().into_route(HostMatch::Any), &at)?;
        if entries.iter().any(|earlier| earlier.covers(&entry)) {
            let reason = "an earlier route takes all of its requests; remove one of them";
            return Err(Error::invalid(&at.field("match"), reason));
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Checks the invariants of `model::Route`, of all together. `at` is what has them.
pub(crate) fn check_all(routes: &[Route], at: &Place<'_>) -> Result<(), Error> {
    let mut taken = HashSet::new();
    for (index, route) in routes.iter().enumerate() {
        let at = at.item("routes", index);
        check_one(route, &at)?;
        let path = (&route.prefix, route.exact);
        let mut pairs = route.hosts.iter().map(|host| (domain(host), path));
        if !pairs.all(|pair| taken.insert(pair)) {
            let reason = "a route has this host and prefix already; remove one of them";
            return Err(Error::invalid(&at.field("hosts"), reason));
        }
        if taken.len() > PAIRS_MAX {
            return Err(Error::TooMany(at.to_string()));
        }
    }
    Ok(())
}

fn check_one(route: &Route, at: &Place<'_>) -> Result<(), Error> {
    let hosts = at.field("hosts");
    if route.hosts.is_empty() {
        return Err(Error::invalid(&hosts, "none; write Any to take every host"));
    }
    route
        .hosts
        .iter()
        .try_for_each(|host| check::host(host, &hosts))?;
    check::prefix(&route.prefix, &at.field("prefix"))?;
    if let Some(allow) = &route.allow {
        check::spiffe_ids(allow, &at.field("allow"))?;
    }
    check_paths(route, at)?;
    match &route.redirect {
        Some(redirect) => check_redirect(route, redirect, at),
        None => check_forward(route, at),
    }
}

/// What becomes of the path, in a redirect or on the way.
fn check_paths(route: &Route, at: &Place<'_>) -> Result<(), Error> {
    let redirected = route.redirect.as_ref().and_then(|it| it.path.as_ref());
    let at = at.field("path");
    for change in redirected.into_iter().chain(&route.rewrite.path) {
        check::path_change(change, &at)?;
        if route.exact && matches!(change, PathChange::Prefix(_)) {
            let reason = "an exact path has no prefix; replace all of it";
            return Err(Error::invalid(&at, reason));
        }
    }
    Ok(())
}

fn check_redirect(route: &Route, redirect: &Redirect, at: &Place<'_>) -> Result<(), Error> {
    let is_alone = route.backends.is_empty()
        && route.filters.is_empty()
        && route.rewrite.is_empty()
        && route.timeout.is_none();
    let at = at.field("redirect");
    match is_alone {
        true => redirect::check(redirect, &at),
        false => Err(Error::invalid(
            &at,
            "nothing is carried on; send it without clusters, changes and a timeout",
        )),
    }
}

fn check_forward(route: &Route, at: &Place<'_>) -> Result<(), Error> {
    for (index, backend) in route.backends.iter().enumerate() {
        check::name(
            &backend.cluster,
            &at.item("backends", index).field("cluster"),
        )?;
    }
    shares::check(&route.backends, &at.field("backends"))?;
    if let Some(host) = &route.rewrite.host {
        check::plain_host(host, &at.field("rewrite"))?;
    }
    if route.timeout.is_some_and(|timeout| timeout.is_zero()) {
        let reason = "no time at all; leave it out for no limit";
        return Err(Error::invalid(&at.field("timeout"), reason));
    }
    headers::check(&route.filters, at)
}
