//! HTTPRoute: which requests to a Service, or through a Gateway, go where, in the Gateway API's
//! words. Called by `kinds`. Must never take a condition or a change that the sidecars would not
//! carry out.

mod filters;
mod matches;
mod parents;

use std::time::Duration;

use model::{Filter, HostMatch, PathChange, Redirect, Rewrite, Scheme};
use yaml::{Fault, Fields, Node, Zero};

use super::metadata::{self, Metadata};
use super::{ServiceKey, Written, gateway, host, ignored};

pub use matches::PathMatch;
pub use parents::{GatewayRef, ParentRef};

/// Which requests go where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRoute {
    /// The Services whose clients follow it. Invariant: there is one, or a gateway.
    pub parents: Vec<ParentRef>,
    /// The Gateways whose clients follow it.
    pub gateways: Vec<GatewayRef>,
    /// Only requests for these; empty takes all.
    pub hosts: Vec<HostMatch>,
    /// Never empty; the first that matches among the most specific.
    pub rules: Vec<Rule>,
}

/// What happens to some of the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Any of these paths; never empty.
    pub paths: Vec<PathMatch>,
    /// Changes to requests and answers.
    pub filters: Vec<Filter>,
    /// What becomes of host and path.
    pub rewrite: Rewrite,
    /// Clients are told to ask elsewhere. Invariant: then there is nothing else.
    pub redirect: Option<Elsewhere>,
    /// Until the answer is complete; `None` is no limit.
    pub timeout: Option<Duration>,
    /// Who answers. Invariant: one of them has a weight above 0, unless it is a redirect.
    pub backends: Vec<BackendRef>,
}

/// Where clients are told to ask, as far as the route says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// `None`: as they came.
    pub scheme: Option<Scheme>,
    /// `None`: the host that was asked.
    pub host: Option<String>,
    /// `None`: the scheme's, or without one the port that was asked.
    pub port: Option<u16>,
    /// `None`: as it was asked for.
    pub path: Option<PathChange>,
    /// Of the answer.
    pub status: u16,
}

/// A Service that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendRef {
    /// In the route's own namespace.
    pub service: ServiceKey,
    /// A port of it.
    pub port: u16,
    /// Its share, relative to the others'.
    pub weight: u32,
    /// Where it was written.
    pub place: Written,
}

impl Elsewhere {
    /// For clients that came with `scheme` to `port`.
    #[must_use]
    pub fn from(&self, scheme: Scheme, port: u16) -> Redirect {
        let default = self.scheme.map_or(port, Scheme::port);
        Redirect {
            scheme: self.scheme.unwrap_or(scheme),
            host: self.host.clone(),
            port: self.port.unwrap_or(default),
            path: self.path.clone(),
            status: self.status,
        }
    }
}

/// What a weight may be at most in the Gateway API.
const WEIGHT_MAX: usize = 1_000_000;

pub(super) fn read(spec: &Node, metadata: &Metadata) -> Result<HttpRoute, Fault> {
    const KEYS: &[&str] = &["parentRefs", "hostnames", "rules"];
    let fields = Fields::open(spec, "an HTTPRoute's spec", KEYS)?;
    let namespace = metadata.namespace.as_str();
    let hosts = fields.map("hostnames", |node| each(node, host::read))?;
    let (parents, gateways) = parents::read(fields.required("parentRefs")?, namespace)?;
    Ok(HttpRoute {
        parents,
        gateways,
        hosts: hosts.unwrap_or_default(),
        rules: some(fields.required("rules")?, |node| rule(node, namespace))?,
    })
}

fn each<T>(node: &Node, read: impl Fn(&Node) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
    node.list()?.iter().map(read).collect()
}

/// As `each`, but not empty.
fn some<T>(node: &Node, read: impl Fn(&Node) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
    let values = each(node, read)?;
    if values.is_empty() {
        return Err(node.fault("an empty list does nothing", "add an entry"));
    }
    Ok(values)
}

/// A Service in `namespace`: its group, name and namespace.
fn service(fields: &Fields<'_>, namespace: &str) -> Result<ServiceKey, Fault> {
    fields.map("group", gateway::core_group)?;
    if let Some(node) = fields.optional("namespace")
        && node.text()? != namespace
    {
        let hint = "put the route and the Services that it names into one namespace";
        return Err(node.fault("a Service in another namespace", hint));
    }
    let name = metadata::label(fields.required("name")?)?;
    Ok(ServiceKey::new(namespace, name))
}

fn rule(node: &Node, namespace: &str) -> Result<Rule, Fault> {
    const KEYS: &[&str] = &["matches", "filters", "backendRefs", "timeouts"];
    let fields = Fields::open_beside(node, "a rule", KEYS, ignored::RULE)?;
    let paths = fields.map("matches", |node| some(node, matches::read))?;
    let paths = paths.unwrap_or_else(|| vec![PathMatch::all()]);
    let is_exact = paths.iter().any(|path| path.exact);
    let filters = fields.map("filters", |node| filters::read(node, is_exact))?;
    let filters = filters.unwrap_or_default();
    let timeout = fields.map("timeouts", timeout)?.flatten();
    let backends = backends(&fields, filters.redirect.is_some(), namespace)?;
    if let (true, Some(node)) = (filters.redirect.is_some(), fields.optional("timeouts")) {
        return Err(node.fault("a redirect asks nobody", "remove `timeouts`"));
    }
    Ok(Rule {
        paths,
        filters: filters.headers,
        rewrite: filters.rewrite,
        redirect: filters.redirect,
        timeout,
        backends,
    })
}

fn backends(
    fields: &Fields<'_>,
    is_redirect: bool,
    namespace: &str,
) -> Result<Vec<BackendRef>, Fault> {
    let refs = match (is_redirect, fields.optional("backendRefs")) {
        (false, _) => fields.required("backendRefs")?,
        (true, None) => return Ok(Vec::new()),
        (true, Some(node)) => {
            return Err(node.fault("a redirect asks nobody", "remove `backendRefs`"));
        }
    };
    let backends = some(refs, |node| backend(node, namespace))?;
    if backends.iter().all(|backend| backend.weight == 0) {
        let hint = "give one of them a weight above 0";
        return Err(refs.fault("nobody is left to answer", hint));
    }
    Ok(backends)
}

fn backend(node: &Node, namespace: &str) -> Result<BackendRef, Fault> {
    const KEYS: &[&str] = &["group", "kind", "name", "namespace", "port", "weight"];
    let fields = Fields::open(node, "a backendRef", KEYS)?;
    fields.map("kind", |node| node.choice(&[("Service", ())]))?;
    let weight = fields.map("weight", |node| node.count(0..=WEIGHT_MAX))?;
    Ok(BackendRef {
        service: service(&fields, namespace)?,
        port: fields.required("port")?.port()?,
        weight: u32::try_from(weight.unwrap_or(1)).expect("below the most it may be"),
        place: Written(node.place),
    })
}

/// Zero is no limit, as the Gateway API has it.
fn timeout(node: &Node) -> Result<Option<Duration>, Fault> {
    let fields = Fields::open(node, "timeouts", &["request"])?;
    let request = fields.map("request", |node| node.duration(Zero::Allowed))?;
    Ok(request.filter(|request| !request.is_zero()))
}

#[cfg(test)]
mod tests;
