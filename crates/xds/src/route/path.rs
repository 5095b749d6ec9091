//! Changes of a path as Envoy has them: a prefix that is replaced as text, or a regular expression
//! where whole segments would come out wrong. Only the expressions that are written here are read.

use model::PathChange;

use crate::error::Error;
use crate::place::Place;
use crate::proto::core::{RegexMatchAndSubstitute, RegexMatcher};

/// Fits every path.
const ANY: &str = "^/.*$";

/// The fields of an action that change the path.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) prefix_rewrite: Option<String>,
    pub(super) regex_rewrite: Option<RegexMatchAndSubstitute>,
}

/// Of a route with this prefix.
pub(super) fn encode(change: &PathChange, prefix: &str) -> Fields {
    match change {
        PathChange::Full(path) => Fields {
            regex_rewrite: Some(substitute(ANY.to_owned(), path)),
            ..Fields::default()
        },
        // What follows the prefix begins with a slash, or there is nothing.
        PathChange::Prefix(with) if with == "/" && !prefix.ends_with('/') => Fields {
            regex_rewrite: Some(substitute(segment(prefix), with)),
            ..Fields::default()
        },
        PathChange::Prefix(with) => {
            let lacks_slash = prefix.ends_with('/') && with != "/";
            let end = if lacks_slash { "/" } else { "" };
            Fields {
                prefix_rewrite: Some(format!("{with}{end}")),
                ..Fields::default()
            }
        }
    }
}

/// What the fields of a route with this prefix say; `at` is what has them.
pub(super) fn decode(
    fields: Fields,
    prefix: &str,
    at: &Place<'_>,
) -> Result<Option<PathChange>, Error> {
    let regex_at = at.field("regex_rewrite");
    match (fields.prefix_rewrite, fields.regex_rewrite) {
        (None, None) => Ok(None),
        (Some(text), None) => decode_prefix(text, prefix, &at.field("prefix_rewrite")),
        (None, Some(regex)) => decode_regex(regex, prefix, &regex_at),
        (Some(_), Some(_)) => Err(Error::invalid(
            &regex_at,
            "beside prefix_rewrite; send one of the two",
        )),
    }
}

fn decode_prefix(
    mut text: String,
    prefix: &str,
    at: &Place<'_>,
) -> Result<Option<PathChange>, Error> {
    if text.ends_with('/') != prefix.ends_with('/') {
        let reason = "whole segments are replaced; end it with a slash where the prefix has one, \
                      and only there";
        return Err(Error::invalid(at, reason));
    }
    if text.ends_with('/') && text.len() > 1 {
        text.pop();
    }
    Ok(Some(PathChange::Prefix(text)))
}

fn decode_regex(
    regex: RegexMatchAndSubstitute,
    prefix: &str,
    at: &Place<'_>,
) -> Result<Option<PathChange>, Error> {
    let pattern = regex.pattern.unwrap_or_default().regex;
    if pattern == ANY {
        return Ok(Some(PathChange::Full(regex.substitution)));
    }
    if pattern == segment(prefix) && !prefix.ends_with('/') && regex.substitution == "/" {
        return Ok(Some(PathChange::Prefix(regex.substitution)));
    }
    let reason = "not an expression for a whole path, or for the prefix and the slash behind it; \
                  see docs/xds.md";
    Err(Error::invalid(at, reason))
}

/// Fits the prefix, with the slash that follows it.
fn segment(prefix: &str) -> String {
    let mut pattern = String::from("^");
    for byte in prefix.chars() {
        if !byte.is_ascii_alphanumeric() {
            pattern.push('\\');
        }
        pattern.push(byte);
    }
    pattern + "/?"
}

fn substitute(regex: String, substitution: &str) -> RegexMatchAndSubstitute {
    RegexMatchAndSubstitute {
        pattern: Some(RegexMatcher { regex }),
        substitution: substitution.to_owned(),
    }
}
