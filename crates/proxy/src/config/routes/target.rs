//! What a route in the file makes of a request's target: `rewrite` and `redirect`. Called by
//! `config::routes`.

use model::{PathChange, Redirect, Rewrite, Scheme};
use yaml::{Fault, Fields, Node, quote};

pub(in crate::config) const REDIRECT_KEYS: &[&str] =
    &["scheme", "host", "port", "path", "prefix", "status"];
pub(in crate::config) const REWRITE_KEYS: &[&str] = &["host", "path", "prefix"];

/// What a client is told if the file does not say it: that it may be another time.
const STATUS: u16 = 302;

/// Of a route whose path is `exact` or not.
pub(super) fn redirect(node: &Node, exact: bool) -> Result<Redirect, Fault> {
    let fields = Fields::open(node, "a redirect", REDIRECT_KEYS)?;
    let schemes = [Scheme::Http, Scheme::Https].map(|scheme| (scheme.label(), scheme));
    let scheme = fields.required("scheme")?.choice(&schemes)?;
    Ok(Redirect {
        scheme,
        host: fields.map("host", host)?,
        port: fields
            .map("port", Node::port)?
            .unwrap_or_else(|| scheme.port()),
        path: path(&fields, exact)?,
        status: fields.map("status", status)?.unwrap_or(STATUS),
    })
}

/// Of a route whose path is `exact` or not.
pub(super) fn rewrite(node: &Node, exact: bool) -> Result<Rewrite, Fault> {
    let fields = Fields::open(node, "a rewrite", REWRITE_KEYS)?;
    let rewrite = Rewrite {
        host: fields.map("host", host)?,
        path: path(&fields, exact)?,
    };
    match rewrite.is_empty() {
        false => Ok(rewrite),
        true => Err(node.fault(
            "nothing is rewritten",
            "add `host`, `path` or `prefix`, or remove the key",
        )),
    }
}

fn host(node: &Node) -> Result<String, Fault> {
    let word = node.text()?.to_ascii_lowercase();
    match super::is_host(Some(&word)) {
        true => Ok(word),
        false => {
            let hint = "a name or address without port";
            Err(node.fault(format!("{} is not a host", quote(&word)), hint))
        }
    }
}

fn status(node: &Node) -> Result<u16, Fault> {
    let word = node.text()?;
    let mut statuses = Redirect::STATUSES.into_iter();
    statuses
        .find(|status| status.to_string() == word)
        .ok_or_else(|| {
            let hint = "write 301, 302, 303, 307 or 308";
            node.fault(format!("{} is no redirect", quote(word)), hint)
        })
}

/// All of the path, or what takes the place of its prefix.
fn path(fields: &Fields<'_>, exact: bool) -> Result<Option<PathChange>, Fault> {
    let full = fields.map("path", plain)?.map(PathChange::Full);
    let Some(node) = fields.optional("prefix") else {
        return Ok(full);
    };
    if full.is_some() || exact {
        let message = "a prefix is replaced in paths that have more than it";
        let hint = "keep `path`, or give the route a `prefix` and keep that";
        return Err(node.fault(message, hint));
    }
    let word = plain(node)?;
    let trimmed = word.trim_end_matches('/');
    let prefix = if trimmed.is_empty() { "/" } else { trimmed };
    Ok(Some(PathChange::Prefix(prefix.to_owned())))
}

fn plain(node: &Node) -> Result<String, Fault> {
    let word = super::path(node)?;
    match word.contains('\\') {
        false => Ok(word),
        true => Err(node.fault(
            format!("{} is not a path", quote(&word)),
            "a path has no backslash; write %5C",
        )),
    }
}
