//! The filters of a route's rule: header modifiers. Called by `http_route`.
//! Must never take one that would change how a message is framed.

use model::Filter;
use yaml::{Fault, Fields, Node, quote};

/// Which side of an exchange is changed.
#[derive(Clone, Copy)]
enum Side {
    Request,
    Response,
}

pub(super) fn read(node: &Node) -> Result<Vec<Filter>, Fault> {
    let mut filters = Vec::new();
    for node in node.list()? {
        read_one(node, &mut filters)?;
    }
    Ok(filters)
}

fn read_one(node: &Node, filters: &mut Vec<Filter>) -> Result<(), Fault> {
    const KEYS: &[&str] = &["type", "requestHeaderModifier", "responseHeaderModifier"];
    let entries = node.entries()?;
    let kind = entries.iter().find(|(key, _)| key.text == "type");
    let Some((_, kind)) = kind else {
        return Err(node.fault("a filter needs `type`", "add `type: RequestHeaderModifier`"));
    };
    let words = [
        ("RequestHeaderModifier", Side::Request),
        ("ResponseHeaderModifier", Side::Response),
    ];
    let side = kind.choice(&words)?;
    let fields = Fields::open(node, "a filter", KEYS)?;
    let (key, other) = match side {
        Side::Request => (KEYS[1], KEYS[2]),
        Side::Response => (KEYS[2], KEYS[1]),
    };
    if let Some(node) = fields.optional(other) {
        let message = format!("`{other}` in a filter of another type");
        return Err(node.fault(message, "give it a filter of its own"));
    }
    modifier(side, fields.required(key)?, filters)
}

fn modifier(side: Side, node: &Node, filters: &mut Vec<Filter>) -> Result<(), Fault> {
    let fields = Fields::open(node, "a header modifier", &["set", "add", "remove"])?;
    if let Some(node) = fields.optional("add") {
        let hint = "use `set`, which replaces what is there";
        return Err(node.fault("headers cannot be added beside others of their name", hint));
    }
    if let Some(node) = fields.optional("set") {
        for node in node.list()? {
            let fields = Fields::open(node, "a header to set", &["name", "value"])?;
            let name = header_name(fields.required("name")?)?;
            let value = header_value(fields.required("value")?)?;
            filters.push(match side {
                Side::Request => Filter::SetRequestHeader { name, value },
                Side::Response => Filter::SetResponseHeader { name, value },
            });
        }
    }
    if let Some(node) = fields.optional("remove") {
        for node in node.list()? {
            let name = header_name(node)?;
            filters.push(match side {
                Side::Request => Filter::RemoveRequestHeader { name },
                Side::Response => Filter::RemoveResponseHeader { name },
            });
        }
    }
    Ok(())
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
        yaml::Kind::Scalar { text, .. } => text.as_str(),
        yaml::Kind::List(_) | yaml::Kind::Map(_) => node.text()?,
    };
    if word.chars().any(|c| c.is_control() && c != '\t') || word.trim() != word {
        let hint = "remove line breaks, control characters and spaces at the ends";
        return Err(node.fault(format!("{} is not a header value", quote(word)), hint));
    }
    Ok(word.to_owned())
}
