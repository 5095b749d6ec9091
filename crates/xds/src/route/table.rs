//! Hosts and prefixes of routes, between them: which come to which, as the proxy's route table has
//! it and as Envoy has it. The proxy tries the most specific host, then the longest prefix, then
//! less specific hosts; Envoy settles for a virtual host first. So both are written out here: for
//! each host the prefixes that a request could come to. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use model::{Backend, Filter, HostMatch, Redirect, Rewrite, Route};

use super::{headers, shares, write_host};
use crate::error::Error;
use crate::place::Place;

/// What a host's requests with that prefix come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) prefix: String,
    pub(super) exact: bool,
    pub(super) backends: Vec<Backend>,
    pub(super) redirect: Option<Redirect>,
    pub(super) allow: Option<Vec<String>>,
    pub(super) rewrite: Rewrite,
    pub(super) filters: Vec<Filter>,
    pub(super) timeout: Option<Duration>,
}

impl Entry {
    /// Whether all paths that `inner` takes, this one takes: of two of them, either one does, or
    /// they have no path in common.
    pub(super) fn covers(&self, inner: &Self) -> bool {
        match (self.exact, inner.exact) {
            (true, exact) => exact && self.prefix == inner.prefix,
            (false, _) => begins(&self.prefix, &inner.prefix),
        }
    }

    /// The same for one host.
    pub(super) fn into_route(self, host: HostMatch) -> Route {
        Route {
            hosts: vec![host],
            prefix: self.prefix,
            exact: self.exact,
            backends: self.backends,
            redirect: self.redirect,
            allow: self.allow,
            rewrite: self.rewrite,
            filters: self.filters,
            timeout: self.timeout,
        }
    }
}

/// From specific to general.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Exact,
    /// Longer suffixes first.
    Suffix(Reverse<usize>),
    Any,
}

fn rank(host: &HostMatch) -> Rank {
    match host {
        HostMatch::Exact(_) => Rank::Exact,
        HostMatch::Suffix(suffix) => Rank::Suffix(Reverse(suffix.len())),
        HostMatch::Any => Rank::Any,
    }
}

/// By host, and for each the entries that are tried one after the other.
/// Invariant: entries are sorted, longer prefixes first.
#[derive(Default)]
pub(super) struct Table(BTreeMap<(Rank, String), (HostMatch, Vec<Entry>)>);

/// The form that routes have after a journey, and that says the same as `routes`: what a host would
/// fall back to is written out for it, routes that differ in their hosts only are one, filters that
/// are undone by later ones are gone, as are backends without a share.
#[must_use]
pub fn canonical(routes: &[Route]) -> Vec<Route> {
    Table::build(routes).into_routes()
}

/// Whether all paths that begin with `inner` begin with `outer`, in whole segments.
fn begins(outer: &str, inner: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    let whole = |rest: &str| rest.is_empty() || rest.starts_with('/') || outer.ends_with('/');
    outer == "/" || rest.is_some_and(whole)
}

/// Whether all that `inner` fits, `outer` fits, and some more.
fn contains(outer: &HostMatch, inner: &HostMatch) -> bool {
    match (outer, inner) {
        (HostMatch::Any, other) => *other != HostMatch::Any,
        (HostMatch::Suffix(suffix), HostMatch::Exact(name) | HostMatch::Suffix(name)) => {
            name.len() > suffix.len() && name.ends_with(suffix.as_str())
        }
        (HostMatch::Suffix(_) | HostMatch::Exact(_), _) => false,
    }
}

fn entry(route: &Route) -> Entry {
    Entry {
        prefix: route.prefix.clone(),
        exact: route.exact,
        backends: shares::canonical(&route.backends),
        redirect: route.redirect.clone(),
        allow: route.allow.clone(),
        rewrite: route.rewrite.clone(),
        filters: headers::canonical(&route.filters),
        timeout: route.timeout,
    }
}

/// Longer prefixes first, and of those as long the exact ones, so that none covers a later one.
fn sort(entries: &mut [Entry]) {
    entries.sort_by(|a, b| {
        let lengths = b.prefix.len().cmp(&a.prefix.len());
        let exact = || b.exact.cmp(&a.exact);
        lengths
            .then_with(exact)
            .then_with(|| a.prefix.cmp(&b.prefix))
    });
}

impl Table {
    /// Of checked routes.
    pub(super) fn build(routes: &[Route]) -> Self {
        let mut own = Self::default();
        for route in routes {
            for host in &route.hosts {
                let key = (rank(host), write_host(host));
                let (_, entries) = own
                    .0
                    .entry(key)
                    .or_insert_with(|| (host.clone(), Vec::new()));
                entries.push(entry(route));
            }
        }
        // Sorted before hosts fall back to each other, so that a short prefix hides no longer one.
        own.0.values_mut().for_each(|(_, entries)| sort(entries));
        let hosts = own.0.iter().map(|(key, (host, entries))| {
            let mut entries = entries.clone();
            own.fall_back(host, &mut entries);
            sort(&mut entries);
            (key.clone(), (host.clone(), entries))
        });
        Self(hosts.collect())
    }

    /// Adds what is tried after the `entries` of `host` itself.
    fn fall_back(&self, host: &HostMatch, entries: &mut Vec<Entry>) {
        let general = self.0.values().filter(|(outer, _)| contains(outer, host));
        for entry in general.flat_map(|(_, entries)| entries) {
            if !entries.iter().any(|own| own.covers(entry)) {
                entries.push(entry.clone());
            }
        }
    }

    /// Adds a host, of which there may not be another.
    pub(super) fn insert(
        &mut self,
        host: HostMatch,
        mut entries: Vec<Entry>,
        at: &Place<'_>,
    ) -> Result<(), Error> {
        sort(&mut entries);
        let key = (rank(&host), write_host(&host));
        match self.0.insert(key, (host, entries)) {
            None => Ok(()),
            Some(_) => Err(Error::invalid(
                at,
                "another virtual host has it; send it once",
            )),
        }
    }

    /// An error if one of our tables would go on to a less specific host where Envoy gives up.
    pub(super) fn check_complete(&self, at: &Place<'_>) -> Result<(), Error> {
        for (host, entries) in self.0.values() {
            let mut all = entries.clone();
            self.fall_back(host, &mut all);
            if let Some(missing) = all.get(entries.len()) {
                let reason = format!(
                    "the virtual host of `{}` has no route for `{}`, a less specific one has; \
                     add the route",
                    write_host(host),
                    missing.prefix
                );
                return Err(Error::invalid(&at.field("virtual_hosts"), reason));
            }
        }
        Ok(())
    }

    /// Hosts that have the same entries, together.
    pub(super) fn into_groups(self) -> impl Iterator<Item = (Vec<HostMatch>, Vec<Entry>)> {
        let mut groups: Vec<(Vec<HostMatch>, Vec<Entry>)> = Vec::new();
        for (host, entries) in self.0.into_values() {
            let same = groups.iter_mut().find(|(_, other)| *other == entries);
            match same {
                Some((hosts, _)) => hosts.push(host),
                None => groups.push((vec![host], entries)),
            }
        }
        groups.into_iter()
    }

    /// As routes: each entry once, with all hosts that have it. `Any` stands alone, so that opaque
    /// connections can be told apart by names.
    pub(super) fn into_routes(self) -> Vec<Route> {
        let mut routes: Vec<Route> = Vec::new();
        let rows = self.0.into_values();
        for (host, entry) in rows
            .flat_map(|(host, entries)| entries.into_iter().map(move |entry| (host.clone(), entry)))
        {
            let is_any = |route: &Route| route.hosts[0] == HostMatch::Any;
            let same = |route: &&mut Route| {
                is_any(route) == (host == HostMatch::Any) && is_same(route, &entry)
            };
            match routes.iter_mut().find(same) {
                Some(route) => route.hosts.push(host),
                None => routes.push(entry.into_route(host)),
            }
        }
        routes
    }
}

fn is_same(route: &Route, entry: &Entry) -> bool {
    (&route.prefix, route.exact) == (&entry.prefix, entry.exact)
        && route.backends == entry.backends
        && route.redirect == entry.redirect
        && route.allow == entry.allow
        && route.rewrite == entry.rewrite
        && route.filters == entry.filters
        && route.timeout == entry.timeout
}
