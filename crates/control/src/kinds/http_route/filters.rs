//! The filters of a route's rule: headers, another target, a redirect. Called by `http_route`.
//! Must never take one that would change how a message is framed.

mod headers;

use model::{Filter, PathChange, Redirect, Rewrite, Scheme};
use yaml::{Fault, Fields, Kind, Node, quote};

use super::{Elsewhere, matches};
use crate::kinds::host;

/// All filters of a rule.
#[derive(Default)]
pub(super) struct Filters {
    pub(super) headers: Vec<Filter>,
    pub(super) rewrite: Rewrite,
    pub(super) redirect: Option<Elsewhere>,
}

/// What a filter does, and the key of what it is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    RequestHeaders,
    ResponseHeaders,
    Rewrite,
    Redirect,
}

const TYPES: [(&str, Type); 4] = [
    ("RequestHeaderModifier", Type::RequestHeaders),
    ("ResponseHeaderModifier", Type::ResponseHeaders),
    ("URLRewrite", Type::Rewrite),
    ("RequestRedirect", Type::Redirect),
];

impl Type {
    const fn key(self) -> &'static str {
        match self {
            Self::RequestHeaders => "requestHeaderModifier",
            Self::ResponseHeaders => "responseHeaderModifier",
            Self::Rewrite => "urlRewrite",
            Self::Redirect => "requestRedirect",
        }
    }
}

/// What a redirect answers if it does not say it.
const STATUS: u16 = 302;

/// Of a rule of which some path `is_exact`.
pub(super) fn read(node: &Node, is_exact: bool) -> Result<Filters, Fault> {
    let mut filters = Filters::default();
    let mut seen = Vec::new();
    for node in node.list()? {
        let kind = type_of(node)?;
        if seen.contains(&kind) {
            let message = format!("a second filter with `{}`", kind.key());
            return Err(node.fault(message, "put both into one"));
        }
        seen.push(kind);
        read_one(node, kind, is_exact, &mut filters)?;
    }
    if seen.contains(&Type::Redirect) && seen.len() > 1 {
        let hint = "remove the others; nothing is carried on";
        return Err(node.fault("a redirect beside other filters", hint));
    }
    Ok(filters)
}

/// Before any of its other keys is looked at.
fn type_of(node: &Node) -> Result<Type, Fault> {
    let entries = node.entries()?;
    let kind = entries.iter().find(|(key, _)| key.text == "type");
    match kind {
        Some((_, kind)) => kind.choice(&TYPES),
        None => Err(node.fault("a filter needs `type`", "add `type: RequestHeaderModifier`")),
    }
}

fn read_one(node: &Node, kind: Type, is_exact: bool, filters: &mut Filters) -> Result<(), Fault> {
    const KEYS: [&str; 5] = [
        "type",
        Type::RequestHeaders.key(),
        Type::ResponseHeaders.key(),
        Type::Rewrite.key(),
        Type::Redirect.key(),
    ];
    let fields = Fields::open(node, "a filter", &KEYS)?;
    for other in KEYS[1..].iter().filter(|key| **key != kind.key()) {
        if let Some(node) = fields.optional(other) {
            let message = format!("`{other}` in a filter of another type");
            return Err(node.fault(message, "give it a filter of its own"));
        }
    }
    let node = fields.required(kind.key())?;
    match kind {
        Type::RequestHeaders | Type::ResponseHeaders => {
            let is_request = kind == Type::RequestHeaders;
            headers::read(is_request, node, &mut filters.headers)
        }
        Type::Rewrite => {
            filters.rewrite = rewrite(node, is_exact)?;
            Ok(())
        }
        Type::Redirect => {
            filters.redirect = Some(redirect(node, is_exact)?);
            Ok(())
        }
    }
}

fn rewrite(node: &Node, is_exact: bool) -> Result<Rewrite, Fault> {
    let fields = Fields::open(node, "a rewrite", &["hostname", "path"])?;
    let rewrite = Rewrite {
        host: fields.map("hostname", host::read_name)?,
        path: fields.map("path", |node| path(node, is_exact))?,
    };
    match rewrite.is_empty() {
        false => Ok(rewrite),
        true => Err(node.fault("nothing is rewritten", "add `hostname` or `path`")),
    }
}

fn redirect(node: &Node, is_exact: bool) -> Result<Elsewhere, Fault> {
    const KEYS: &[&str] = &["scheme", "hostname", "port", "path", "statusCode"];
    let fields = Fields::open(node, "a redirect", KEYS)?;
    let schemes = [Scheme::Http, Scheme::Https].map(|scheme| (scheme.label(), scheme));
    let elsewhere = Elsewhere {
        scheme: fields.map("scheme", |node| node.choice(&schemes))?,
        host: fields.map("hostname", host::read_name)?,
        port: fields.map("port", Node::port)?,
        path: fields.map("path", |node| path(node, is_exact))?,
        status: fields.map("statusCode", status)?.unwrap_or(STATUS),
    };
    let is_elsewhere = elsewhere.scheme.is_some()
        || elsewhere.host.is_some()
        || elsewhere.port.is_some()
        || elsewhere.path.is_some();
    match is_elsewhere {
        true => Ok(elsewhere),
        false => Err(node.fault(
            "a redirect to where the client is",
            "add `scheme`, `hostname`, `port` or `path`",
        )),
    }
}

fn status(node: &Node) -> Result<u16, Fault> {
    let word = node.text()?;
    let mut statuses = Redirect::STATUSES.into_iter();
    let status = statuses.find(|status| status.to_string() == word);
    status.ok_or_else(|| {
        let hint = "write 301, 302, 303, 307 or 308";
        node.fault(format!("{} is no redirect", quote(word)), hint)
    })
}

fn path(node: &Node, is_exact: bool) -> Result<PathChange, Fault> {
    const KEYS: &[&str] = &["type", "replaceFullPath", "replacePrefixMatch"];
    let fields = Fields::open(node, "a path modifier", KEYS)?;
    let kind = fields.required("type")?;
    let is_full = kind.choice(&[("ReplaceFullPath", true), ("ReplacePrefixMatch", false)])?;
    let (key, other) = match is_full {
        true => (KEYS[1], KEYS[2]),
        false => (KEYS[2], KEYS[1]),
    };
    if let Some(node) = fields.optional(other) {
        return Err(node.fault(format!("`{other}` beside another type"), "remove it"));
    }
    if is_full {
        return matches::plain(fields.required(key)?).map(PathChange::Full);
    }
    if is_exact {
        let hint = "write `type: PathPrefix` in all matches of the rule, or `ReplaceFullPath` here";
        return Err(kind.fault("an exact path has no prefix to be replaced", hint));
    }
    prefix(fields.required(key)?).map(PathChange::Prefix)
}

/// Nothing, or `/`, takes the prefix away.
fn prefix(node: &Node) -> Result<String, Fault> {
    if matches!(&node.kind, Kind::Scalar { text, .. } if text.is_empty()) {
        return Ok("/".to_owned());
    }
    let word = matches::plain(node)?;
    Ok(match word.trim_end_matches('/') {
        "" => "/".to_owned(),
        trimmed => trimmed.to_owned(),
    })
}
