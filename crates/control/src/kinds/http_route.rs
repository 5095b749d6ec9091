//! HTTPRoute: which requests to a Service go where, in the Gateway API's words. Called by `kinds`.
//! Must never take a condition or a change that the sidecars would not carry out.

mod filters;

use model::{Filter, HostMatch};
use yaml::{Fault, Fields, Node, quote};

use super::metadata::{self, Metadata};
use super::{ServiceKey, Written, ignored};

/// Which requests to a Service go where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRoute {
    /// The Services whose clients follow it; never empty.
    pub parents: Vec<ParentRef>,
    /// Only requests for these; empty takes all.
    pub hosts: Vec<HostMatch>,
    /// Never empty; the first that matches among the most specific.
    pub rules: Vec<Rule>,
}

/// A Service whose clients follow a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentRef {
    /// In the route's own namespace.
    pub service: ServiceKey,
    /// Only on this port of it.
    pub port: Option<u16>,
    /// Where it was written.
    pub place: Written,
}

/// What happens to some of the requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Any of these beginnings of the path, in whole segments; never empty.
    pub prefixes: Vec<String>,
    /// Changes to requests and answers.
    pub filters: Vec<Filter>,
    /// Who answers. Invariant: one of them has a weight above 0.
    pub backends: Vec<BackendRef>,
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

/// What a weight may be at most in the Gateway API.
const WEIGHT_MAX: usize = 1_000_000;

pub(super) fn read(spec: &Node, metadata: &Metadata) -> Result<HttpRoute, Fault> {
    const KEYS: &[&str] = &["parentRefs", "hostnames", "rules"];
    let fields = Fields::open(spec, "an HTTPRoute's spec", KEYS)?;
    let namespace = metadata.namespace.as_str();
    let hosts = fields.map("hostnames", |node| each(node, host))?;
    Ok(HttpRoute {
        parents: some(fields.required("parentRefs")?, |node| {
            parent(node, namespace)
        })?,
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

/// A Service in `namespace`: its group, kind, name and namespace.
fn service(fields: &Fields<'_>, namespace: &str) -> Result<ServiceKey, Fault> {
    if let Some(node) = fields.optional("group")
        && !is_core(node)
    {
        let message = format!("the group {} has no Services", node.describe());
        return Err(node.fault(message, "write `group: \"\"`, or remove it"));
    }
    if let Some(node) = fields.optional("namespace")
        && node.text()? != namespace
    {
        let hint = "put the route and the Services that it names into one namespace";
        return Err(node.fault("a Service in another namespace", hint));
    }
    let name = metadata::label(fields.required("name")?)?;
    Ok(ServiceKey::new(namespace, name))
}

/// The group that Services are in has no name.
fn is_core(node: &Node) -> bool {
    matches!(&node.kind, yaml::Kind::Scalar { text, .. } if text.is_empty() || text == "core")
}

fn check_service_kind(node: &Node) -> Result<(), Fault> {
    match node.text()? {
        "Service" => Ok(()),
        word => {
            let message = format!("{} is not what a route can be for here", quote(word));
            Err(node.fault(message, "write `kind: Service`"))
        }
    }
}

fn parent(node: &Node, namespace: &str) -> Result<ParentRef, Fault> {
    const KEYS: &[&str] = &["group", "kind", "name", "namespace", "port"];
    let fields = Fields::open(node, "a parentRef", KEYS)?;
    check_service_kind(fields.required("kind")?)?;
    Ok(ParentRef {
        service: service(&fields, namespace)?,
        port: fields.map("port", Node::port)?,
        place: Written(node.place),
    })
}

fn rule(node: &Node, namespace: &str) -> Result<Rule, Fault> {
    const KEYS: &[&str] = &["matches", "filters", "backendRefs"];
    let fields = Fields::open_beside(node, "a rule", KEYS, ignored::RULE)?;
    let prefixes = fields.map("matches", |node| some(node, prefix))?;
    let refs = fields.required("backendRefs")?;
    let backends = some(refs, |node| backend(node, namespace))?;
    if backends.iter().all(|backend| backend.weight == 0) {
        let hint = "give one of them a weight above 0";
        return Err(refs.fault("nobody is left to answer", hint));
    }
    Ok(Rule {
        prefixes: prefixes.unwrap_or_else(|| vec!["/".to_owned()]),
        filters: fields.map("filters", filters::read)?.unwrap_or_default(),
        backends,
    })
}

fn backend(node: &Node, namespace: &str) -> Result<BackendRef, Fault> {
    const KEYS: &[&str] = &["group", "kind", "name", "namespace", "port", "weight"];
    let fields = Fields::open(node, "a backendRef", KEYS)?;
    fields.map("kind", check_service_kind)?;
    let weight = fields.map("weight", |node| node.count(0..=WEIGHT_MAX))?;
    Ok(BackendRef {
        service: service(&fields, namespace)?,
        port: fields.required("port")?.port()?,
        weight: u32::try_from(weight.unwrap_or(1)).expect("below the most it may be"),
        place: Written(node.place),
    })
}

fn prefix(node: &Node) -> Result<String, Fault> {
    let fields = Fields::open(
        node,
        "a match (headers and methods are not compared)",
        &["path"],
    )?;
    let path = Fields::open(fields.required("path")?, "a path", &["type", "value"])?;
    if let Some(node) = path.optional("type") {
        match node.text()? {
            "PathPrefix" => {}
            word => {
                let hint = "write `type: PathPrefix`; it fits whole segments, `/a` not `/ab`";
                let message = format!("paths cannot be matched by {}", quote(word));
                return Err(node.fault(message, hint));
            }
        }
    }
    let Some(node) = path.optional("value") else {
        return Ok("/".to_owned());
    };
    let word = node.text()?;
    let plain = |b: u8| b.is_ascii_graphic() && b != b'?' && b != b'#';
    if !word.starts_with('/') || !word.bytes().all(plain) || word.contains("//") {
        let hint = "begin with one /, without ? and #; spaces and others as %20";
        return Err(node.fault(format!("{} is not a path", quote(word)), hint));
    }
    match word.trim_end_matches('/') {
        "" => Ok("/".to_owned()),
        trimmed => Ok(trimmed.to_owned()),
    }
}

fn host(node: &Node) -> Result<HostMatch, Fault> {
    let word = node.text()?;
    let name = word.strip_prefix("*.").unwrap_or(word);
    let label = |label: &str| {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(plain)
    };
    if name.len() > 253 || !name.split('.').all(label) {
        let hint = "a lower-case name without port, or \"*.suffix\"; remove the key to take all";
        return Err(node.fault(format!("{} is not a host", quote(word)), hint));
    }
    Ok(match word.strip_prefix('*') {
        Some(suffix) => HostMatch::Suffix(suffix.to_owned()),
        None => HostMatch::Exact(word.to_owned()),
    })
}
