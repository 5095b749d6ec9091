//! Filters of a route as headers to add and to remove. Envoy removes before it adds, and has no
//! order otherwise; so of several changes to one header the last that replaces or removes it stands
//! for all before it, and what is added after it follows.

use std::collections::BTreeMap;

use model::Filter;

use crate::check;
use crate::error::Error;
use crate::place::Place;
use crate::proto::core::{HeaderValue, HeaderValueOption};
use crate::proto::route::Route;

const APPEND_IF_EXISTS_OR_ADD: i32 = 0;
const OVERWRITE_IF_EXISTS_OR_ADD: i32 = 2;

/// The fields of a route that change headers.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) request_added: Vec<HeaderValueOption>,
    pub(super) request_removed: Vec<String>,
    pub(super) response_added: Vec<HeaderValueOption>,
    pub(super) response_removed: Vec<String>,
}

/// Checks names and values; `at` is the route.
pub(super) fn check(filters: &[Filter], at: &Place<'_>) -> Result<(), Error> {
    for (index, filter) in filters.iter().enumerate() {
        check_one(filter, &at.item("filters", index))?;
    }
    Ok(())
}

fn check_one(filter: &Filter, at: &Place<'_>) -> Result<(), Error> {
    match filter {
        Filter::SetRequestHeader { name, value }
        | Filter::AddRequestHeader { name, value }
        | Filter::SetResponseHeader { name, value }
        | Filter::AddResponseHeader { name, value } => {
            check::header_name(name, at)?;
            check::header_value(value, at)
        }
        Filter::RemoveRequestHeader { name } | Filter::RemoveResponseHeader { name } => {
            check::header_name(name, at)
        }
        Filter::Hold { .. } => Err(Error::invalid(
            at,
            "`hold` is for tests, and does not travel; remove it",
        )),
    }
}

/// In one order, without changes that later ones undo.
pub(super) fn canonical(filters: &[Filter]) -> Vec<Filter> {
    let mut last: BTreeMap<_, Vec<&Filter>> = BTreeMap::new();
    for filter in filters {
        let (is_response, name) = match filter {
            Filter::SetRequestHeader { name, .. }
            | Filter::AddRequestHeader { name, .. }
            | Filter::RemoveRequestHeader { name } => (false, name),
            Filter::SetResponseHeader { name, .. }
            | Filter::AddResponseHeader { name, .. }
            | Filter::RemoveResponseHeader { name } => (true, name),
            Filter::Hold { .. } => continue,
        };
        let changes = last
            .entry((is_response, name.to_ascii_lowercase()))
            .or_default();
        if !is_addition(filter) {
            changes.clear();
        }
        changes.push(filter);
    }
    last.into_values().flatten().cloned().collect()
}

const fn is_addition(filter: &Filter) -> bool {
    matches!(
        filter,
        Filter::AddRequestHeader { .. } | Filter::AddResponseHeader { .. }
    )
}

/// Of filters that were checked.
pub(super) fn encode(filters: &[Filter]) -> Changes {
    let mut changes = Changes::default();
    for filter in filters {
        match filter {
            Filter::SetRequestHeader { name, value } => {
                let option = option(name, value, OVERWRITE_IF_EXISTS_OR_ADD);
                changes.request_added.push(option);
            }
            Filter::AddRequestHeader { name, value } => {
                let option = option(name, value, APPEND_IF_EXISTS_OR_ADD);
                changes.request_added.push(option);
            }
            Filter::RemoveRequestHeader { name } => changes.request_removed.push(name.clone()),
            Filter::SetResponseHeader { name, value } => {
                let option = option(name, value, OVERWRITE_IF_EXISTS_OR_ADD);
                changes.response_added.push(option);
            }
            Filter::AddResponseHeader { name, value } => {
                let option = option(name, value, APPEND_IF_EXISTS_OR_ADD);
                changes.response_added.push(option);
            }
            Filter::RemoveResponseHeader { name } => changes.response_removed.push(name.clone()),
            Filter::Hold { .. } => {}
        }
    }
    changes
}

/// A percent sign would begin a variable.
fn option(name: &str, value: &str, append_action: i32) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue {
            key: name.to_owned(),
            value: value.replace('%', "%%"),
        }),
        append_action,
        keep_empty_value: value.is_empty(),
    }
}

pub(super) fn decode(route: &Route, at: &Place<'_>) -> Result<Vec<Filter>, Error> {
    let mut filters = Vec::new();
    for name in &route.request_headers_to_remove {
        let name = name.clone();
        filters.push(Filter::RemoveRequestHeader { name });
    }
    for (index, option) in route.request_headers_to_add.iter().enumerate() {
        let at = at.item("request_headers_to_add", index);
        let (name, value, is_added) = decode_option(option, &at)?;
        filters.push(match is_added {
            true => Filter::AddRequestHeader { name, value },
            false => Filter::SetRequestHeader { name, value },
        });
    }
    for name in &route.response_headers_to_remove {
        let name = name.clone();
        filters.push(Filter::RemoveResponseHeader { name });
    }
    for (index, option) in route.response_headers_to_add.iter().enumerate() {
        let at = at.item("response_headers_to_add", index);
        let (name, value, is_added) = decode_option(option, &at)?;
        filters.push(match is_added {
            true => Filter::AddResponseHeader { name, value },
            false => Filter::SetResponseHeader { name, value },
        });
    }
    check(&filters, at)?;
    Ok(canonical(&filters))
}

/// Name, value, and whether it stands beside others of its name.
fn decode_option(
    option: &HeaderValueOption,
    at: &Place<'_>,
) -> Result<(String, String, bool), Error> {
    let is_added = match option.append_action {
        APPEND_IF_EXISTS_OR_ADD => true,
        OVERWRITE_IF_EXISTS_OR_ADD => false,
        _ => {
            let at = at.field("append_action");
            let reason = "headers are replaced or added; send OVERWRITE_IF_EXISTS_OR_ADD or \
                          APPEND_IF_EXISTS_OR_ADD";
            return Err(Error::invalid(&at, reason));
        }
    };
    let header = option.header.clone().unwrap_or_default();
    let at = at.field("header");
    if header.value.is_empty() && !option.keep_empty_value {
        return Err(Error::invalid(
            &at,
            "an empty value would be dropped; send keep_empty_value",
        ));
    }
    let parts: Vec<_> = header.value.split("%%").collect();
    if parts.iter().any(|part| part.contains('%')) {
        let reason = "variables are not supported; write %% for a percent sign";
        return Err(Error::invalid(&at.field("value"), reason));
    }
    Ok((header.key, parts.join("%"), is_added))
}
