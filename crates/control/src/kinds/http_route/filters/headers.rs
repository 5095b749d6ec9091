//! Filters that change headers. Called by `filters`.

use model::Filter;
use yaml::{Fault, Fields, Kind, Node, quote};

const KEYS: &[&str] = &["set", "add", "remove"];

/// Adds what a modifier of requests, or else of responses, does to `filters`.
pub(super) fn read(is_request: bool, node: &Node, filters: &mut Vec<Filter>) -> Result<(), Fault> {
    let fields = Fields::open(node, "a header modifier", KEYS)?;
    let mut seen: Vec<String> = Vec::new();
    for key in KEYS {
        let Some(list) = fields.optional(key) else {
            continue;
        };
        for node in list.list()? {
            let (name, filter) = one(key, is_request, node)?;
            let name = name.to_ascii_lowercase();
            if seen.contains(&name) {
                let message = format!("{} is changed twice", quote(&name));
                return Err(node.fault(message, "name each header once in a modifier"));
            }
            seen.push(name);
            filters.push(filter);
        }
    }
    Ok(())
}

fn one(key: &str, is_request: bool, node: &Node) -> Result<(String, Filter), Fault> {
    if key == "remove" {
        let name = header_name(node)?;
        let filter = match is_request {
            true => Filter::RemoveRequestHeader { name: name.clone() },
            false => Filter::RemoveResponseHeader { name: name.clone() },
        };
        return Ok((name, filter));
    }
    let fields = Fields::open(node, "a header to set or to add", &["name", "value"])?;
    let name = header_name(fields.required("name")?)?;
    let value = header_value(fields.required("value")?)?;
    let known = name.clone();
    let filter = match (key, is_request) {
        ("set", true) => Filter::SetRequestHeader { name, value },
        ("set", false) => Filter::SetResponseHeader { name, value },
        (_, true) => Filter::AddRequestHeader { name, value },
        (_, false) => Filter::AddResponseHeader { name, value },
    };
    Ok((known, filter))
}

/// A token (RFC 9110, section 5.1) that a filter may touch.
fn header_name(node: &Node) -> Result<String, Fault> {
    let word = node.text()?;
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if !word.bytes().all(token) {
        let hint = "letters, digits and - only, without the colon";
        return Err(node.fault(format!("{} is not a header name", quote(word)), hint));
    }
    if Filter::FRAMING
        .iter()
        .any(|hop| word.eq_ignore_ascii_case(hop))
    {
        let message = format!("{} may not be changed by a filter", quote(word));
        return Err(node.fault(
            message,
            "the sidecars write it themselves; choose another header",
        ));
    }
    Ok(word.to_owned())
}

/// A value (RFC 9110, section 5.5), which may be empty.
fn header_value(node: &Node) -> Result<String, Fault> {
    let word = match &node.kind {
        Kind::Scalar { text, .. } => text.as_str(),
        Kind::List(_) | Kind::Map(_) => node.text()?,
    };
    if word.chars().any(|c| c.is_control() && c != '\t') || word.trim() != word {
        let hint = "remove line breaks, control characters and spaces at the ends";
        return Err(node.fault(format!("{} is not a header value", quote(word)), hint));
    }
    Ok(word.to_owned())
}
